//! URI templates (RFC 6570) as selectors of the old dialect: does one have a topic as an expansion?
//!
//! The meaning is the reference hub's, whose library makes a regular expression of a template.
//! Literal text stands as it is, each expression is optional as a whole, and names and lengths of
//! variables are not looked at. It is kept as a list of literals and expressions, because a
//! compiled regular expression takes some ten KiB and some ten microseconds, and a token may bring
//! a thousand.
//!
//! Cost: a match takes at most the topic's bytes for each expression, and nothing is compiled.

mod matching;
mod parsing;

use thiserror::Error;

/// A template with at least one expression.
#[derive(Debug)]
pub(crate) struct Template {
    items: Box<[Item]>,
}

#[derive(Debug)]
enum Item {
    Literal(Box<str>),
    Expression(Expression),
}

/// What an expression adds to a topic: nothing, or `first` and values with `separator` between.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Expression {
    first: Option<u8>,
    separator: u8,
    /// The bytes of the first value, as a set of the bits in [`bits_of`].
    first_value: u8,
    /// The bytes of the others.
    later_value: u8,
    more: More,
}

/// How many values may follow the first one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum More {
    AtMost(u16),
    Any,
}

/// Why a text is no template. To the reference hub it is a plain string then.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub(crate) enum TemplateFault {
    /// It does not follow RFC 6570.
    #[error("no URI template")]
    Invalid,
    /// It is one, with more expressions than any app needs.
    #[error("too many expressions")]
    TooManyExpressions,
}

const UNRESERVED: u8 = 1;
const RESERVED: u8 = 2;
const COMMA: u8 = 4;
const EQUALS: u8 = 8;

/// The sets that a byte is in (RFC 3986, sections 2.2 and 2.3).
const fn bits_of(byte: u8) -> u8 {
    match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => UNRESERVED,
        b',' => RESERVED | COMMA,
        b'=' => RESERVED | EQUALS,
        b':' | b'/' | b'?' | b'#' | b'[' | b']' | b'@' => RESERVED,
        b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b';' => RESERVED,
        _ => 0,
    }
}

impl Template {
    /// What every match begins with.
    pub(crate) fn literal(&self) -> &str {
        match self.items.first() {
            Some(Item::Literal(text)) => text,
            _ => "",
        }
    }

    /// The longest text that stands between two expressions.
    pub(crate) fn inside(&self) -> &str {
        let inside = self.items.get(1..self.items.len() - 1).unwrap_or_default();
        let texts = inside.iter().filter_map(|item| match item {
            Item::Literal(text) => Some(&**text),
            Item::Expression(_) => None,
        });
        texts.max_by_key(|text| text.len()).unwrap_or_default()
    }

    /// What every match ends with.
    pub(crate) fn end(&self) -> &str {
        match self.items.last() {
            Some(Item::Literal(text)) => text,
            _ => "",
        }
    }
}
