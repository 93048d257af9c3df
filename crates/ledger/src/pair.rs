//! Pairs as text: their hash, their lines, and which texts are ids.

use sha2::{Digest, Sha256};

use crate::error::LedgerError;
use crate::limits::{BUCKETS, ID_BYTES_MAX};

/// Subscriber and subscribee. Integers as canonical decimal text: `7`; `007` is a name.
pub type Pair = (String, String);

/// What a pair adds to the set hash: the first 8 bytes, big endian, of SHA-256 over subscriber, a
/// zero byte and subscribee.
pub fn hash64(subscriber: &str, subscribee: &str) -> u64 {
    hash64_and_bucket(subscriber, subscribee).0
}

/// The hash, and the pair's bucket in the daily check: its first 2 bytes modulo [`BUCKETS`].
pub fn hash64_and_bucket(subscriber: &str, subscribee: &str) -> (u64, usize) {
    let digest = Sha256::new()
        .chain_update(subscriber)
        .chain_update([0])
        .chain_update(subscribee)
        .finalize();
    let hash = digest[..8].iter().fold(0, |hash, &byte| hash << 8 | u64::from(byte));
    (hash, (hash >> 48) as usize % BUCKETS)
}

/// The sum of the pairs' hashes, modulo 2^64.
pub(crate) fn sum(pairs: &[Pair]) -> u64 {
    pairs.iter().fold(0, |sum, (a, b)| sum.wrapping_add(hash64(a, b)))
}

/// Reads `subscriber<tab>subscribee<newline>` lines.
pub(crate) fn from_lines(lines: &[u8]) -> Result<Vec<Pair>, LedgerError> {
    let damaged = || LedgerError::Damaged("a row of changes is not lines of pairs".into());
    let text = str::from_utf8(lines).map_err(|_| damaged())?;
    let pair = |line: &str| {
        let (a, b) = line.split_once('\t').ok_or_else(damaged)?;
        Ok((a.to_owned(), b.to_owned()))
    };
    text.lines().map(pair).collect()
}

/// Refuses what is no id, so that one caller's bad pair does not fail the transaction of others.
pub(crate) fn check(id: &str) -> Result<(), LedgerError> {
    let forbidden = |c: char| c.is_control() || c.is_whitespace() || matches!(c, '/' | '?' | '#');
    if id.is_empty() || id.len() > ID_BYTES_MAX {
        let length = id.len();
        return Err(LedgerError::Refused(format!(
            "an id has 1 to 255 bytes of UTF-8, this one has {length}"
        )));
    }
    match id.chars().find(|&c| forbidden(c)) {
        None => Ok(()),
        Some(c) => Err(LedgerError::Refused(format!(
            "an id must not contain {c:?}: no control characters, no white space, no '/', '?', '#'"
        ))),
    }
}

/// The number that is its own id: canonical decimal digits below 2^63.
pub(crate) fn as_integer(id: &str) -> Option<i64> {
    let digits = id.as_bytes();
    let canonical =
        digits.iter().all(u8::is_ascii_digit) && (digits.len() == 1 || digits[0] != b'0');
    if canonical { id.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_digits_are_integers_and_the_rest_are_names() {
        for (text, number) in [("0", 0), ("123", 123), ("9223372036854775807", i64::MAX)] {
            assert_eq!(as_integer(text), Some(number));
        }
        for text in ["007", "-5", "+5", "1e3", "9223372036854775808", "99999999999999999999"] {
            assert_eq!(as_integer(text), None, "{text}");
        }
    }

    #[test]
    fn hash_is_that_of_sha256() {
        // printf 'alice\0rj' | sha256sum
        assert_eq!(hash64("alice", "rj"), HASH_OF_ALICE_RJ);
        assert_eq!(hash64_and_bucket("alice", "rj").1, (HASH_OF_ALICE_RJ >> 48) as usize % 1024);
    }

    const HASH_OF_ALICE_RJ: u64 = 0x1f7ed2f5615b3d08;

    #[test]
    fn bad_ids_say_what_is_wrong() {
        for id in ["", "a b", "a\tb", "a/b", "a?", "#", "\u{85}", "\u{2028}", "\u{a0}", "a\0"] {
            assert!(matches!(check(id), Err(LedgerError::Refused(_))), "{id:?}");
        }
        assert!(check(&"x".repeat(255)).is_ok() && check(&"x".repeat(256)).is_err());
        assert!(check("o'rj\"\\é:%").is_ok());
    }
}
