//! Ids as they stand in JSON: a string, or an integer that is taken as its digits.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// The text of an id in a body, borrowed from it where that is possible; not yet checked against
/// the rules for ids.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct IdField<'a>(pub(crate) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for IdField<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<IdField<'a>, D::Error> {
        deserializer.deserialize_any(IdVisitor)
    }
}

struct IdVisitor;

impl<'de> Visitor<'de> for IdVisitor {
    type Value = IdField<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an id: a string, or an integer of at most 64 bits")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<IdField<'de>, E> {
        Ok(IdField(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<IdField<'de>, E> {
        Ok(IdField(Cow::Owned(text.to_owned())))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<IdField<'de>, E> {
        Ok(IdField(Cow::Owned(number.to_string())))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<IdField<'de>, E> {
        Ok(IdField(Cow::Owned(number.to_string())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Option<String> {
        serde_json::from_str::<IdField<'_>>(json).ok().map(|id| id.0.into_owned())
    }

    #[test]
    fn strings_and_integers_are_ids_as_text() {
        for (json, text) in [
            (r#""alice""#, "alice"),
            (r#""a\u0062c""#, "abc"),
            ("123", "123"),
            ("-5", "-5"),
            ("18446744073709551615", "18446744073709551615"),
        ] {
            assert_eq!(read(json).as_deref(), Some(text), "{json}");
        }
    }

    #[test]
    fn other_values_are_no_ids() {
        for json in ["1.5", "1e3", "18446744073709551616", "null", "true", "[1]", "{}", "-0"] {
            assert_eq!(read(json), None, "{json}");
        }
    }
}
