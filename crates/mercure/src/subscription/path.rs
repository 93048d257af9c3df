//! The paths of subscriptions below the hub's own.

use std::borrow::Cow;
use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::{Dialect, MatchType, PATH, Selector};

/// What stays as it is in a segment (RFC 3986, section 2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

const BELOW: &str = "/subscriptions";

/// A path of the API: all subscriptions, those of one selector, or one. Its text is the normal
/// form, which is the topic that a token must grant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubscriptionPath<'p> {
    dialect: Dialect,
    of: Option<Of<'p>>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Of<'p> {
    match_type: MatchType,
    text: Cow<'p, str>,
    subscriber: Option<Cow<'p, str>>,
}

impl<'p> SubscriptionPath<'p> {
    /// The path of all subscriptions.
    pub fn all(dialect: Dialect) -> SubscriptionPath<'static> {
        SubscriptionPath { dialect, of: None }
    }

    /// The path of one subscription.
    pub fn one(selector: &'p Selector, subscriber: &'p str) -> SubscriptionPath<'p> {
        let path = SubscriptionPath::of(selector.dialect(), selector.match_type(), selector.text());
        path.with(subscriber)
    }

    /// The path of all subscriptions of a selector.
    pub fn of(dialect: Dialect, match_type: MatchType, text: &'p str) -> SubscriptionPath<'p> {
        let of = Of { match_type, text: Cow::Borrowed(text), subscriber: None };
        SubscriptionPath { dialect, of: Some(of) }
    }

    /// The path of one of them.
    pub fn with(mut self, subscriber: &'p str) -> SubscriptionPath<'p> {
        if let Some(of) = &mut self.of {
            of.subscriber = Some(Cow::Borrowed(subscriber));
        }
        self
    }

    /// Reads a path of a request in the dialect of its token. `None` if there is nothing by this
    /// path, whoever asks.
    pub fn parse(dialect: Dialect, path: &'p str) -> Option<SubscriptionPath<'p>> {
        let rest = path.strip_prefix(PATH)?.strip_prefix(BELOW)?;
        if rest.is_empty() {
            return Some(SubscriptionPath { dialect, of: None });
        }
        let decoded = |segment: &'p str| percent_decode_str(segment).decode_utf8().ok();
        let mut segments = rest.strip_prefix('/')?.split('/');
        let match_type = match dialect {
            Dialect::Old => MatchType::Exact,
            Dialect::V1 => MatchType::named(segments.next()?)?,
        };
        let text = decoded(segments.next()?)?;
        let subscriber = segments.next().map(decoded);
        if text.is_empty() || subscriber == Some(None) || segments.next().is_some() {
            return None;
        }
        let subscriber = subscriber.flatten();
        if subscriber.as_deref() == Some("") {
            return None;
        }
        Some(SubscriptionPath { dialect, of: Some(Of { match_type, text, subscriber }) })
    }

    /// The dialect of its form.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The type of the selector; of the old dialect always [`MatchType::Exact`].
    pub fn match_type(&self) -> Option<MatchType> {
        self.of.as_ref().map(|of| of.match_type)
    }

    /// The selector's text.
    pub fn text(&self) -> Option<&str> {
        self.of.as_ref().map(|of| &*of.text)
    }

    /// The connection.
    pub fn subscriber(&self) -> Option<&str> {
        self.of.as_ref()?.subscriber.as_deref()
    }

    /// Whether a subscription's path is this one or lies below it.
    pub fn contains(&self, one: &SubscriptionPath<'_>) -> bool {
        let is_same = |mine: Option<&str>, other| mine.is_none() || mine == other;
        self.dialect == one.dialect
            && is_same(self.text(), one.text())
            && (self.of.is_none() || self.match_type() == one.match_type())
            && is_same(self.subscriber(), one.subscriber())
    }
}

impl fmt::Display for SubscriptionPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PATH}{BELOW}")?;
        let Some(of) = &self.of else { return Ok(()) };
        if self.dialect == Dialect::V1 {
            write!(f, "/{}", of.match_type.name())?;
        }
        write!(f, "/{}", utf8_percent_encode(&of.text, RESERVED))?;
        match &of.subscriber {
            Some(subscriber) => write!(f, "/{}", utf8_percent_encode(subscriber, RESERVED)),
            None => Ok(()),
        }
    }
}
