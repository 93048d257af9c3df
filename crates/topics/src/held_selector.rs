//! Which selector a key stands for that somebody is logged in under.

use hub::{Key, Space};

/// A selector that somebody is subscribed to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeldSelector {
    /// Its text.
    pub text: Box<str>,
    /// Whether a token grants it.
    pub is_granted: bool,
}

/// The selector that who is logged in under this key is subscribed to; `None` of a key that stands
/// beside another one.
pub fn subscribed(key: &str) -> Option<HeldSelector> {
    let Key { space, name, .. } = Key::parse(key)?;
    let text = match space {
        Space::Topic | Space::PrivateTopic => name,
        Space::Pattern | Space::PrivatePattern if name == "*" => name,
        // Those of 1.0 have paths of their own.
        Space::Pattern | Space::PrivatePattern => name.strip_prefix("template ")?,
        _ => return None,
    };
    let is_granted = matches!(space, Space::PrivateTopic | Space::PrivatePattern);
    Some(HeldSelector { text: text.into(), is_granted })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_of_one_subscription_or_of_none() {
        for (key, selector) in [
            ("#t:a", Some(("a", false))),
            ("#p:https://a.test/1", Some(("https://a.test/1", true))),
            ("#r:*", Some(("*", false))),
            ("#v:template a{b}", Some(("a{b}", true))),
            ("#g1:a", None),
            ("#c1:a", None),
            ("bob", None),
        ] {
            let held = subscribed(key);
            let found = held.as_ref().map(|held| (&*held.text, held.is_granted));
            assert_eq!(found, selector, "{key}");
        }
    }
}
