//! JSON streams: messages keep their bounds.

use std::fmt;

use serde::de::{Deserializer as _, IgnoredAny, SeqAccess, Visitor};
use serde_json::Deserializer;
use serde_json::value::RawValue;

/// Why a body is not one or more messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum JsonFault {
    /// It is no JSON.
    #[error("the body is not valid JSON")]
    Invalid,
    /// It is an array without messages.
    #[error("an empty array appends nothing")]
    Empty,
}

/// The messages of `body` as they are stored: with commas between them, each as it was written. An
/// array is a list of messages, one level deep; anything else is one message.
///
/// # Errors
/// The body is no JSON, or an empty array.
pub fn messages(body: &[u8]) -> Result<Vec<u8>, JsonFault> {
    let whole: &RawValue = serde_json::from_slice(body).map_err(|_| JsonFault::Invalid)?;
    let text = whole.get().trim();
    if !text.starts_with('[') {
        return Ok(text.as_bytes().to_vec());
    }
    let stored = Deserializer::from_str(text).deserialize_seq(Joined(Vec::new()));
    let stored = stored.map_err(|_| JsonFault::Invalid)?;
    if stored.is_empty() { Err(JsonFault::Empty) } else { Ok(stored) }
}

/// The first `count` of stored messages; `None` where there are fewer. They are a part of what is
/// stored, and nothing is held of each.
pub(crate) fn first_messages(stored: &[u8], count: u64) -> Option<&[u8]> {
    let mut end = 0;
    for number in 0..count {
        // A comma stands before each but the first.
        let start = end + usize::from(number > 0);
        let rest = stored.get(start..)?;
        let mut messages = Deserializer::from_slice(rest).into_iter::<IgnoredAny>();
        messages.next()?.ok()?;
        end = start + messages.byte_offset();
    }
    stored.get(..end)
}

/// Stored messages as the array that readers get.
pub fn array(messages: &[u8]) -> Vec<u8> {
    [b"[", messages, b"]"].concat()
}

/// The elements of an array as they are stored, put together without a list of them: that would
/// take many times the memory of an array of short ones.
struct Joined(Vec<u8>);

impl<'de> Visitor<'de> for Joined {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut elements: A) -> Result<Vec<u8>, A::Error> {
        while let Some(element) = elements.next_element::<&RawValue>()? {
            if !self.0.is_empty() {
                self.0.push(b',');
            }
            self.0.extend_from_slice(element.get().as_bytes());
        }
        Ok(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_flattened_by_one_level() {
        let stored = |body: &str| messages(body.as_bytes()).map(|b| String::from_utf8(b).unwrap());
        assert_eq!(stored(r#"{"a":1}"#).as_deref(), Ok(r#"{"a":1}"#));
        assert_eq!(stored(r#" [{"a":1}, {"b":2}] "#).as_deref(), Ok(r#"{"a":1},{"b":2}"#));
        assert_eq!(stored("[[1,2],[3,4]]").as_deref(), Ok("[1,2],[3,4]"));
        assert_eq!(stored("[[[1,2,3]]]").as_deref(), Ok("[[1,2,3]]"));
        assert_eq!(array(b"1,2"), b"[1,2]");
        assert_eq!(stored("1e999").as_deref(), Ok("1e999"));
        assert_eq!(stored("[]"), Err(JsonFault::Empty));
        for wrong in ["", "{", "[1,]", "1 2", "\u{1}"] {
            assert_eq!(stored(wrong), Err(JsonFault::Invalid), "{wrong:?}");
        }
        assert_eq!(messages(b"\"\xff\""), Err(JsonFault::Invalid));
    }

    #[test]
    fn first_messages_are_told_from_those_behind() {
        let stored = br#"{"a":[1,2]},",",3"#;
        let first = |count| first_messages(stored, count).map(|b| std::str::from_utf8(b).unwrap());
        assert_eq!(first(0), Some(""));
        assert_eq!(first(1), Some(r#"{"a":[1,2]}"#));
        assert_eq!(first(2), Some(r#"{"a":[1,2]},",""#));
        assert_eq!(first(3), Some(r#"{"a":[1,2]},",",3"#));
        assert_eq!(first(4), None);
        for other in ["1e999,-0.5,null", "\"\\\"\",[],{}", "true, 1 ,2"] {
            let of_other = first_messages(other.as_bytes(), 2).map(<[u8]>::len);
            assert_eq!(of_other, other.rfind(',').map(|comma| other[..comma].trim_end().len()));
        }
        assert_eq!(first_messages(b"", 1), None);
    }

    /// Whatever the number of messages: what is told is a part of what is stored.
    #[test]
    fn first_messages_of_an_append_with_many_take_no_memory() {
        let stored = messages(format!("[{}0]", "0,".repeat(1 << 20)).as_bytes()).unwrap();
        let first = first_messages(&stored, 1 << 20).unwrap();
        assert_eq!(first.as_ptr_range().start, stored.as_ptr());
        assert_eq!(first.len(), stored.len() - 2);
    }
}
