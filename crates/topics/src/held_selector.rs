//! Which selector a key stands for that somebody is logged in under, and in which dialects it has a
//! path.

use hub::{Key, Space};
use mercure::{Dialect, MatchType};
use serde::{Deserialize, Serialize};

/// How a selector that somebody is subscribed to finds its topics.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeldKind {
    /// It is a topic, or `*`, of either dialect.
    #[default]
    Plain,
    /// It is a template of the old dialect.
    Template,
    /// It is a URL pattern of 1.0.
    UrlPattern,
}

impl HeldKind {
    /// How many kinds there are.
    pub(crate) const COUNT: usize = 3;

    /// In which dialects such a subscription has a path. The last one is what it is known by.
    pub const fn dialects(self) -> &'static [Dialect] {
        match self {
            HeldKind::Plain => &[Dialect::V1, Dialect::Old],
            HeldKind::Template => &[Dialect::Old],
            HeldKind::UrlPattern => &[Dialect::V1],
        }
    }

    /// The type of its matcher.
    pub const fn match_type(self) -> MatchType {
        match self {
            HeldKind::Plain | HeldKind::Template => MatchType::Exact,
            HeldKind::UrlPattern => MatchType::UrlPattern,
        }
    }

    /// Those that have a path of the dialect with this type, or with any.
    pub const fn of(dialect: Dialect, match_type: Option<MatchType>) -> &'static [HeldKind] {
        match (dialect, match_type) {
            (Dialect::Old, _) => &[HeldKind::Plain, HeldKind::Template],
            (Dialect::V1, None) => &[HeldKind::Plain, HeldKind::UrlPattern],
            (Dialect::V1, Some(MatchType::Exact)) => &[HeldKind::Plain],
            (Dialect::V1, Some(MatchType::UrlPattern)) => &[HeldKind::UrlPattern],
        }
    }
}

/// A selector that somebody is subscribed to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeldSelector {
    /// Which kind it is of.
    pub kind: HeldKind,
    /// Its text.
    pub text: Box<str>,
    /// Whether a token grants it.
    pub is_granted: bool,
}

/// The selector that who is logged in under this key is subscribed to; `None` of a key that stands
/// beside another one.
pub fn subscribed(key: &str) -> Option<HeldSelector> {
    let Key { space, name, .. } = Key::parse(key)?;
    let (kind, text) = match space {
        Space::Topic | Space::PrivateTopic => (HeldKind::Plain, name),
        Space::Pattern | Space::PrivatePattern if name == "*" => (HeldKind::Plain, name),
        Space::Pattern | Space::PrivatePattern => match url_pattern(name) {
            Some((_, text)) => (HeldKind::UrlPattern, text),
            None => (HeldKind::Template, name.strip_prefix("template ")?),
        },
        _ => return None,
    };
    let is_granted = matches!(space, Space::PrivateTopic | Space::PrivatePattern);
    Some(HeldSelector { kind, text: text.into(), is_granted })
}

/// The address that the URL pattern with this [key](mercure::Selector::key) is seen from, and its
/// text; `None` of another key.
pub(crate) fn url_pattern(key: &str) -> Option<(&str, &str)> {
    key.strip_prefix("urlpattern ")?.split_once(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_of_one_subscription_or_of_none() {
        use HeldKind::{Plain, Template, UrlPattern};
        for (key, selector) in [
            ("#t:a", Some((Plain, "a", false))),
            ("#p:https://a.test/1", Some((Plain, "https://a.test/1", true))),
            ("#r:*", Some((Plain, "*", false))),
            ("#v:template a{b}", Some((Template, "a{b}", true))),
            (
                "#r:urlpattern https://h.test/.well-known/mercure /:id",
                Some((UrlPattern, "/:id", false)),
            ),
            ("#g1:a", None),
            ("#c1:a", None),
            ("bob", None),
        ] {
            let held = subscribed(key);
            let found = held.as_ref().map(|held| (held.kind, &*held.text, held.is_granted));
            assert_eq!(found, selector, "{key}");
        }
    }

    #[test]
    fn each_kind_is_listed_in_the_dialects_that_it_has_a_path_in() {
        for kind in [HeldKind::Plain, HeldKind::Template, HeldKind::UrlPattern] {
            for dialect in [Dialect::Old, Dialect::V1] {
                let has_path = kind.dialects().contains(&dialect);
                assert_eq!(HeldKind::of(dialect, None).contains(&kind), has_path, "{kind:?}");
                let of_type = HeldKind::of(dialect, Some(kind.match_type()));
                assert_eq!(of_type.contains(&kind), has_path, "{kind:?}");
            }
        }
    }
}
