//! Ids as they stand in JSON: a string, or an integer of any length that is taken as its digits.

use std::borrow::Cow;

use serde::de::{Deserialize, Deserializer, Error};
use serde_json::value::RawValue;

use crate::json::without_place;

/// The text of an id in a body, borrowed from it unless it has escapes; not yet checked against the
/// rules for ids.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IdField<'a>(pub Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for IdField<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<IdField<'a>, D::Error> {
        // As it is written: a number that went through a machine type would lose digits.
        let text = <&'a RawValue>::deserialize(deserializer)?.get();
        if let Some(inner) = text.strip_prefix('"') {
            if inner.contains('\\') {
                let unescaped = serde_json::from_str(text);
                return Ok(IdField(unescaped.map_err(|e| D::Error::custom(without_place(&e)))?));
            }
            let inner = inner.strip_suffix('"').unwrap_or(inner);
            return Ok(IdField(Cow::Borrowed(inner)));
        }
        let digits = text.strip_prefix('-').unwrap_or(text);
        if digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(IdField(Cow::Borrowed(text)));
        }
        Err(D::Error::custom("an id is a string or an integer"))
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
            (r#" "a\u0062c" "#, "abc"),
            (r#""""#, ""),
            (r#""\"""#, "\""),
            ("123", "123"),
            ("-5", "-5"),
            ("99999999999999999999999", "99999999999999999999999"),
        ] {
            assert_eq!(read(json).as_deref(), Some(text), "{json}");
        }
    }

    #[test]
    fn other_values_are_no_ids() {
        for json in ["1.5", "1e3", "1.0", "null", "true", "[1]", "{}", "\"\\ud800\"", "-", ""] {
            assert_eq!(read(json), None, "{json}");
        }
    }
}
