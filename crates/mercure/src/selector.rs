//! Selectors of the old dialect and matchers of 1.0: one type, since tokens of one may meet updates
//! of the other.

use std::borrow::Cow;

use thiserror::Error;

use crate::limits::SELECTOR_BYTES_MAX;
use crate::template::{Template, TemplateFault};
use crate::topic::{UrlParts, has_forbidden};
use crate::url_pattern::UrlPattern;
use crate::{Dialect, HubUrl, Topic};

/// The types of a matcher of 1.0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MatchType {
    /// A topic matches if it has the same bytes.
    Exact,
    /// A topic matches if the URL pattern (WHATWG) does.
    UrlPattern,
}

impl MatchType {
    /// Both, as the metadata lists them.
    pub const ALL: [MatchType; 2] = [MatchType::Exact, MatchType::UrlPattern];

    /// The name in parameters, tokens and paths.
    pub const fn name(self) -> &'static str {
        match self {
            MatchType::Exact => "exact",
            MatchType::UrlPattern => "urlpattern",
        }
    }

    /// The type of that name.
    pub fn named(name: &str) -> Option<MatchType> {
        MatchType::ALL.into_iter().find(|known| known.name() == name)
    }
}

/// How a selector finds its topics.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SelectorKind {
    /// It matches everything.
    All,
    /// It matches one topic, which is its text.
    Exact,
    /// It is a template or a URL pattern.
    Pattern,
}

/// What a subscriber listens to, or what a token grants.
#[derive(Debug)]
pub struct Selector {
    text: Box<str>,
    dialect: Dialect,
    match_type: MatchType,
    meaning: Meaning,
}

#[derive(Debug)]
enum Meaning {
    All,
    Exact,
    Template(Template),
    UrlPattern(Box<UrlPattern>),
}

/// Why a text is no selector.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SelectorFault {
    /// It is longer than any of the reference hub.
    #[error("A topic selector is longer than {SELECTOR_BYTES_MAX} bytes.")]
    TooLong,
    /// It has more expressions than a match can be paid for.
    #[error("A URI template has more than {} expressions.", crate::limits::EXPRESSIONS_MAX)]
    TooManyExpressions,
    /// It has a character that no topic may have.
    #[error("A topic selector has a control or format character.")]
    Character,
    /// It is no URL pattern.
    #[error("A URL pattern is invalid: {0}.")]
    Invalid(String),
}

impl Selector {
    /// A selector of the old dialect. One that is no template is a plain string.
    ///
    /// # Errors
    /// It is too long, has a control character, which no topic has, or too many expressions.
    pub fn old(text: &str) -> Result<Selector, SelectorFault> {
        let meaning = match text {
            "*" => Meaning::All,
            _ if text.len() > SELECTOR_BYTES_MAX => return Err(SelectorFault::TooLong),
            _ if text.chars().any(char::is_control) => return Err(SelectorFault::Character),
            _ if !text.contains('{') => Meaning::Exact,
            _ => match Template::parse(text) {
                Ok(template) => Meaning::Template(template),
                Err(TemplateFault::Invalid) => Meaning::Exact,
                Err(TemplateFault::TooManyExpressions) => {
                    return Err(SelectorFault::TooManyExpressions);
                }
            },
        };
        let (dialect, match_type) = (Dialect::Old, MatchType::Exact);
        Ok(Selector { text: text.into(), dialect, match_type, meaning })
    }

    /// A matcher of 1.0, whose pattern is seen from `hub`.
    ///
    /// # Errors
    /// It is too long, has a forbidden character, or is no pattern.
    pub fn v1(match_type: MatchType, text: &str, hub: &HubUrl) -> Result<Selector, SelectorFault> {
        let meaning = match match_type {
            _ if text == "*" => Meaning::All,
            _ if text.len() > SELECTOR_BYTES_MAX => return Err(SelectorFault::TooLong),
            _ if has_forbidden(text) => return Err(SelectorFault::Character),
            MatchType::Exact => Meaning::Exact,
            MatchType::UrlPattern => {
                let pattern = UrlPattern::parse(text, hub).map_err(SelectorFault::Invalid)?;
                Meaning::UrlPattern(Box::new(pattern))
            }
        };
        Ok(Selector { text: text.into(), dialect: Dialect::V1, match_type, meaning })
    }

    /// The one that matches this topic and no other, whatever its text looks like.
    pub fn exact(topic: &str) -> Selector {
        let (dialect, match_type) = (Dialect::V1, MatchType::Exact);
        Selector { text: topic.into(), dialect, match_type, meaning: Meaning::Exact }
    }

    /// The pattern, or `*`, that has this [key](Selector::key).
    ///
    /// # Errors
    /// It is the key of no pattern, or of one that may not be.
    pub fn of_key(key: &str) -> Result<Selector, SelectorFault> {
        if key == "*" {
            return Selector::old(key);
        }
        let selector = match key.split_once(' ') {
            Some(("template", text)) => Selector::old(text)?,
            // An address has no space.
            Some(("urlpattern", rest)) => {
                let (hub, text) = rest.split_once(' ').ok_or_else(no_key)?;
                let hub = HubUrl::parse(hub).ok_or_else(no_key)?;
                Selector::v1(MatchType::UrlPattern, text, &hub)?
            }
            _ => return Err(no_key()),
        };
        if selector.key() == key { Ok(selector) } else { Err(no_key()) }
    }

    /// The text as it was given; the topic, if the kind is [`SelectorKind::Exact`].
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The dialect that it was given in.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The type that it was given with; of the old dialect always [`MatchType::Exact`].
    pub fn match_type(&self) -> MatchType {
        self.match_type
    }

    /// How it finds its topics.
    pub fn kind(&self) -> SelectorKind {
        match self.meaning {
            Meaning::All => SelectorKind::All,
            Meaning::Exact => SelectorKind::Exact,
            Meaning::Template(_) | Meaning::UrlPattern(_) => SelectorKind::Pattern,
        }
    }

    /// A text that two selectors of one kind share if, and only if, they match the same topics by
    /// the same rule. Those of different kinds may have the same one.
    pub fn key(&self) -> Cow<'_, str> {
        match &self.meaning {
            Meaning::All | Meaning::Exact => Cow::Borrowed(&self.text),
            Meaning::Template(_) => Cow::Owned(format!("template {}", self.text)),
            Meaning::UrlPattern(pattern) => {
                Cow::Owned(format!("urlpattern {} {}", pattern.hub().as_str(), self.text))
            }
        }
    }

    /// For how many patterns it counts where their number has a bound: a URL pattern for more than
    /// one where its matches may be of any host.
    pub fn cost(&self) -> usize {
        match &self.meaning {
            Meaning::UrlPattern(pattern) => pattern.cost(),
            Meaning::All | Meaning::Exact | Meaning::Template(_) => 1,
        }
    }

    /// For how much its regular expressions count, which were compiled to read it.
    pub(crate) fn compile_cost(&self) -> usize {
        match &self.meaning {
            Meaning::UrlPattern(pattern) => pattern.compile_cost(),
            Meaning::All | Meaning::Exact | Meaning::Template(_) => 0,
        }
    }

    /// For how much those of its regular expressions count that may take long to try: a millisecond
    /// each on a topic of 4 KiB. 0 where it takes little.
    pub fn regex_cost(&self) -> usize {
        match &self.meaning {
            Meaning::UrlPattern(pattern) => pattern.regex_cost(),
            Meaning::All | Meaning::Exact | Meaning::Template(_) => 0,
        }
    }

    /// Whether it matches a topic.
    pub fn matches(&self, topic: &Topic<'_>) -> bool {
        match &self.meaning {
            Meaning::All => true,
            Meaning::Exact => *self.text == *topic.text(),
            // As a string every selector of the old dialect matches itself.
            Meaning::Template(template) => {
                template.matches(topic.text()) || *self.text == *topic.text()
            }
            Meaning::UrlPattern(pattern) => {
                topic.with_url(pattern.hub(), |url| pattern.matches(url)).unwrap_or(false)
            }
        }
    }

    /// Whether a URL pattern matches a topic that was resolved against its address.
    pub(crate) fn matches_url(&self, topic: &UrlParts) -> bool {
        matches!(&self.meaning, Meaning::UrlPattern(pattern) if pattern.matches(topic))
    }

    /// The address that a URL pattern is seen from; `None` for all others.
    pub(crate) fn url_hub(&self) -> Option<&HubUrl> {
        match &self.meaning {
            Meaning::UrlPattern(pattern) => Some(pattern.hub()),
            Meaning::All | Meaning::Exact | Meaning::Template(_) => None,
        }
    }

    /// What every match of a pattern begins and ends with, of a URL pattern its grouping text. Both
    /// may be in the same bytes of a topic that does not match.
    pub(crate) fn edges(&self) -> (&str, &str) {
        match &self.meaning {
            Meaning::UrlPattern(pattern) => (pattern.literal(), pattern.end()),
            Meaning::Template(template) => (template.literal(), template.end()),
            Meaning::All | Meaning::Exact => ("", ""),
        }
    }

    /// The longest text that stands inside every match of a pattern, of a URL pattern inside its
    /// grouping text, as far as it is known.
    pub(crate) fn inside(&self) -> &str {
        match &self.meaning {
            Meaning::UrlPattern(pattern) => pattern.inside(),
            Meaning::Template(template) => template.inside(),
            Meaning::All | Meaning::Exact => "",
        }
    }

    /// What every topic that it matches begins with, as far as it is known; of a URL pattern
    /// nothing is.
    pub fn literal(&self) -> &str {
        match &self.meaning {
            Meaning::All | Meaning::UrlPattern(_) => "",
            Meaning::Exact => &self.text,
            Meaning::Template(template) => template.literal(),
        }
    }
}

fn no_key() -> SelectorFault {
    SelectorFault::Invalid("it is not written as one".to_owned())
}
