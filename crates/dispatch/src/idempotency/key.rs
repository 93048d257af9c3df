//! Keys as they are written, and the hashes that stand for them.

use std::borrow::Cow;
use std::hash::Hasher as _;

use axum::http::HeaderMap;
use httpd::problem::ApiProblem;
use serde::de::{Deserialize, Deserializer};
use siphasher::sip128::{Hasher128, SipHasher24};

/// The field of a request (draft-ietf-httpapi-idempotency-key-header, section 2.1).
const FIELD: &str = "idempotency-key";

/// The longest key. A UUID has 36 bytes.
const KEY_BYTES_MAX: usize = 255;

/// What a client calls a send by.
#[derive(Clone, PartialEq, Eq)]
pub struct IdempotencyKey<'a>(Cow<'a, str>);

impl<'a> IdempotencyKey<'a> {
    /// A key as a client wrote it; refused where it is empty or longer than 255 bytes.
    pub fn new(text: impl Into<Cow<'a, str>>) -> Result<IdempotencyKey<'a>, ApiProblem> {
        let text = text.into();
        if text.is_empty() || text.len() > KEY_BYTES_MAX {
            let detail = format!(
                "An idempotency key has 1 to {KEY_BYTES_MAX} bytes. Send another one, such as a \
                 UUID."
            );
            return Err(ApiProblem::bad_request(detail));
        }
        Ok(IdempotencyKey(text))
    }

    /// The key in a request's head. By the draft it is a string of a structured field (RFC 8941,
    /// section 3.3.3), in quotes; many clients write none, and are understood as well.
    pub fn of(headers: &'a HeaderMap) -> Result<Option<IdempotencyKey<'a>>, ApiProblem> {
        let mut fields = headers.get_all(FIELD).iter();
        let Some(field) = fields.next() else { return Ok(None) };
        // To visible ASCII, space and tab, of which a tab stands in no form below.
        let text = field.to_str().ok().filter(|_| fields.next().is_none());
        IdempotencyKey::of_field(text.ok_or_else(bad_field)?).map(Some)
    }

    /// The key in the value of the one field that a request has.
    pub fn of_field(text: &'a str) -> Result<IdempotencyKey<'a>, ApiProblem> {
        let text = text.trim();
        let key = match text.strip_prefix('"') {
            Some(quoted) => unquote(quoted),
            None => text.bytes().all(is_bare).then_some(Cow::Borrowed(text)),
        };
        IdempotencyKey::new(key.ok_or_else(bad_field)?)
    }
}

fn bad_field() -> ApiProblem {
    let detail = "Idempotency-Key is one string in quotes, such as \
                  \"8e03978e-40d5-43e8-bc93-6894a57f9324\", without parameters.";
    ApiProblem::bad_request(detail)
}

/// Reads the member `key` of an event. `null` is no key: who means to have one and has none should
/// hear of it.
pub fn member<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<str>>, D::Error> {
    Deserialize::deserialize(deserializer).map(Some)
}

/// What a key without quotes may have: visible ASCII that begins no parameter and no list.
fn is_bare(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'"' | b',' | b';' | b'\\')
}

/// The text of a string whose first quote is taken off (RFC 8941, section 4.2.5).
fn unquote(quoted: &str) -> Option<Cow<'_, str>> {
    let inner = quoted.strip_suffix('"')?;
    if !inner.contains(['\\', '"', '\t']) {
        return Some(Cow::Borrowed(inner));
    }
    let (mut text, mut chars) = (String::new(), inner.chars());
    while let Some(char) = chars.next() {
        text.push(match char {
            '\\' => chars.next().filter(|escaped| matches!(escaped, '\\' | '"'))?,
            '"' | '\t' => return None,
            char => char,
        });
    }
    Some(Cow::Owned(text))
}

/// The lower half of keys of what nodes send by themselves, by which they are told from those of
/// senders: one of 2^64 of these has it by chance.
pub(super) const OWN: u64 = 0x656e_636b_655f_6f77;

/// Whether a key is of what a node sends by itself.
pub(super) fn is_own(key: u128) -> bool {
    key as u64 == OWN
}

/// SipHash-2-4 with 128 bits under a key of this process. Two of a million keys meet with a
/// probability of 2^-89, and nobody outside can look for such.
pub(super) struct Hasher {
    secret: [u8; 16],
}

impl std::fmt::Debug for Hasher {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Hasher")
    }
}

impl Hasher {
    pub(super) fn random() -> Result<Hasher, getrandom::Error> {
        let mut secret = [0; 16];
        getrandom::fill(&mut secret)?;
        Ok(Hasher { secret })
    }

    /// With the key of another process.
    pub(super) fn with(secret: [u8; 16]) -> Hasher {
        Hasher { secret }
    }

    /// The key, for the process that goes on with this one's work.
    pub(super) fn secret(&self) -> [u8; 16] {
        self.secret
    }

    /// Of `sender` and what it calls a send. Others call theirs as they like.
    pub(super) fn key(&self, sender: &str, key: &IdempotencyKey<'_>) -> u128 {
        self.hash(0, sender, &key.0)
    }

    /// Of what this server sends by itself, in the name of `sender`.
    pub(super) fn own(&self, sender: &str, text: &str) -> u128 {
        self.hash(2, sender, text) >> 64 << 64 | u128::from(OWN)
    }

    /// Of what is sent, as it is written.
    pub(super) fn body(&self, about: &str, data: &str) -> u128 {
        self.hash(1, about, data)
    }

    fn hash(&self, kind: u8, first: &str, second: &str) -> u128 {
        let mut hasher = SipHasher24::new_with_key(&self.secret);
        hasher.write_u8(kind);
        // So that it is clear where the one ends and the other begins.
        hasher.write_usize(first.len());
        hasher.write(first.as_bytes());
        hasher.write(second.as_bytes());
        hasher.finish128().as_u128()
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn read(fields: &[&str]) -> Result<Option<String>, ()> {
        let mut headers = HeaderMap::new();
        for field in fields {
            headers.append(FIELD, HeaderValue::from_bytes(field.as_bytes()).unwrap());
        }
        let key = IdempotencyKey::of(&headers).map_err(|_| ())?;
        Ok(key.map(|key| key.0.into_owned()))
    }

    #[test]
    fn field_is_a_string_with_or_without_quotes() {
        let longest = "x".repeat(KEY_BYTES_MAX);
        for (field, key) in [
            ("\"abc\"", "abc"),
            ("abc", "abc"),
            (" \"a b, c;d\" ", "a b, c;d"),
            (r#""a\"b\\c""#, r#"a"b\c"#),
            ("8e03978e-40d5-43e8-bc93-6894a57f9324", "8e03978e-40d5-43e8-bc93-6894a57f9324"),
            (&longest, &longest),
            (&format!("\"{longest}\""), &longest),
        ] {
            assert_eq!(read(&[field]), Ok(Some(key.to_owned())), "{field}");
        }
        assert_eq!(read(&[]), Ok(None));
    }

    #[test]
    fn field_of_another_form_is_refused() {
        let too_long = "x".repeat(KEY_BYTES_MAX + 1);
        for field in [
            "",
            "\"\"",
            "\"",
            "\"a",
            "a\"",
            "\"a\"b\"",
            r#""a\b""#,
            r#""a\""#,
            "\"a\";b=1",
            "a;b=1",
            "a, b",
            "\"a\", \"b\"",
            "a b",
            "\"a\tb\"",
            "é",
            &too_long,
        ] {
            assert_eq!(read(&[field]), Err(()), "{field}");
        }
        assert_eq!(read(&["a", "a"]), Err(()), "twice");
    }

    #[test]
    fn hashes_differ_by_what_and_where_and_by_process() {
        let (hasher, other) = (Hasher::random().unwrap(), Hasher::random().unwrap());
        let key = IdempotencyKey::new("rj1").unwrap();
        let all = [
            hasher.key("", &key),
            hasher.key("one", &key),
            other.key("", &key),
            hasher.body("rj", "1"),
            hasher.body("r", "j1"),
            hasher.body("", "rj1"),
            other.body("rj", "1"),
        ];
        for (index, hash) in all.iter().enumerate() {
            assert!(!all[..index].contains(hash), "{index}");
        }
        assert_eq!(hasher.key("one", &key), hasher.key("one", &key.clone()));
    }
}
