//! What the readers and writers of JSON here share.

use std::fmt;

use serde::de::{Error as _, IgnoredAny, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::limits::JSON_DEPTH_MAX;

/// Reads an object. The library of JSON takes a list for one, member by member, and nobody who
/// speaks this protocol means that.
pub(crate) fn object<'j, T: Deserialize<'j>>(text: &'j str) -> Result<T, serde_json::Error> {
    match text.trim_ascii_start().starts_with('{') {
        true => serde_json::from_str(text),
        false => Err(serde_json::Error::custom("no object")),
    }
}

/// Writes what has no other keys than texts.
pub(crate) fn text_of<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).expect("texts, numbers and JSON as it was written can be written")
}

/// What valid JSON says as a text: a text is itself, all else its JSON. Go's library takes nothing
/// but a text for the data of a client's event in a webhook.
pub fn plain_text(json: &str) -> String {
    let text = json.starts_with('"').then(|| serde_json::from_str(json).ok()).flatten();
    // A text with half a surrogate is JSON, and no text in Rust.
    text.unwrap_or_else(|| json.to_owned())
}

/// Whether `text` is JSON whose [`plain_text`] is `text` again: an object, a list, a number,
/// `true`, `false` or `null`, with nothing around it. A text in quotes is not: without them it
/// might be a number. What is nested deeper than others can read is none.
pub fn is_json_but_text(text: &str) -> bool {
    let is_bare = !text.starts_with('"') && text.trim_ascii().len() == text.len();
    is_bare && serde_json::from_str::<IgnoredAny>(text).is_ok() && depth(text) <= JSON_DEPTH_MAX
}

/// How deep the brackets of valid JSON are nested.
pub(crate) fn depth(json: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut in_text, mut escaped) = (false, false);
    for byte in json.bytes() {
        match (in_text, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => in_text = !in_text,
            (false, b'[' | b'{') => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            (false, b']' | b'}') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// A member that is meant to be a text. What else is there is no fault of the JSON: the reader
/// still learns of which channel the frame is, and can answer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Given {
    /// It is not there, or `null`.
    #[default]
    Absent,
    /// What it says.
    Text(String),
    /// It is a number, an object or something else.
    Other,
}

impl Given {
    /// What it says; `None` where it is no text.
    pub fn text(&self) -> Option<&str> {
        match self {
            Given::Text(text) => Some(text),
            Given::Absent | Given::Other => None,
        }
    }
}

impl<'de> Deserialize<'de> for Given {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Given, D::Error> {
        deserializer.deserialize_any(GivenVisitor)
    }
}

struct GivenVisitor;

impl<'de> Visitor<'de> for GivenVisitor {
    type Value = Given;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON")
    }

    fn visit_str<E>(self, text: &str) -> Result<Given, E> {
        Ok(Given::Text(text.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Given, E> {
        Ok(Given::Absent)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Given, E> {
        Ok(Given::Other)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Given, E> {
        Ok(Given::Other)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Given, E> {
        Ok(Given::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Given, E> {
        Ok(Given::Other)
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<Given, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Given::Other)
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Given, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Given::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_brackets_outside_of_texts() {
        for (json, deep) in
            [("1", 0), ("[]", 1), (r#"{"a":[1,[2]],"b":{}}"#, 3), (r#"["[[\"[[\\",[]]"#, 2)]
        {
            assert_eq!(depth(json), deep, "{json}");
        }
    }

    #[test]
    fn plain_text_of_a_text_is_itself() {
        for (json, text) in [
            (r#""a\nb""#, "a\nb"),
            (r#"{"a": 1}"#, r#"{"a": 1}"#),
            ("1e400", "1e400"),
            (r#""\ud800""#, r#""\ud800""#),
        ] {
            assert_eq!(plain_text(json), text, "{json}");
        }
    }

    #[test]
    fn json_but_texts_are_told_from_what_would_not_be_the_same_text_again() {
        for json in ["1", "-1.5e3", "true", "null", "[1, 2]", r#"{"a":"\"b\""}"#, "{\n}"] {
            assert!(is_json_but_text(json), "{json}");
            assert_eq!(plain_text(json), json);
        }
        let deep = "[".repeat(129) + &"]".repeat(129);
        for text in ["", "hello", r#""1""#, " 1", "1\n", "{", "{} {}", "NaN", "01", &deep] {
            assert!(!is_json_but_text(text), "{text}");
        }
        assert!(is_json_but_text(&deep[1..deep.len() - 1]));
    }

    #[test]
    fn given_takes_whatever_is_there() {
        for (json, given) in [
            ("null", Given::Absent),
            (r#""a\n""#, Given::Text("a\n".into())),
            ("true", Given::Other),
            ("-1", Given::Other),
            ("1.5", Given::Other),
            (r#"[1,{"a":[]}]"#, Given::Other),
            (r#"{"a":1}"#, Given::Other),
        ] {
            assert_eq!(serde_json::from_str::<Given>(json).unwrap(), given, "{json}");
        }
    }
}
