//! Pairs as text: their hash, their lines, and which texts are ids.

use hub::{IdText, pair_hash};

use crate::error::PostgresError;

/// Subscriber and subscribee. Integers as canonical decimal text: `7`; `007` is a name.
pub type Pair = (String, String);

/// The sum of the pairs' hashes, modulo 2^64.
pub(crate) fn sum(pairs: &[Pair]) -> u64 {
    pairs.iter().fold(0, |sum, (a, b)| sum.wrapping_add(pair_hash(a, b).hash))
}

/// Reads `subscriber<tab>subscribee<newline>` lines.
pub(crate) fn from_lines(lines: &[u8]) -> Result<Vec<Pair>, PostgresError> {
    let damaged = || PostgresError::Damaged("a row of changes is not lines of pairs".into());
    let text = str::from_utf8(lines).map_err(|_| damaged())?;
    let pair = |line: &str| {
        let (a, b) = line.split_once('\t').ok_or_else(damaged)?;
        Ok((a.to_owned(), b.to_owned()))
    };
    text.lines().map(pair).collect()
}

/// The id of `text`, as the tables have it: an integer is its own number, a name has none. What is
/// no id is refused, so that one caller's bad pair does not fail the transaction of others.
pub(crate) fn integer_of(text: &str) -> Result<Option<i64>, PostgresError> {
    match IdText::parse(text) {
        Ok(IdText::Integer(id)) => Ok(Some(id.to_bits() as i64)),
        Ok(IdText::Name(_)) => Ok(None),
        Err(error) => Err(PostgresError::Refused(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_their_numbers_names_have_none_and_the_rest_is_refused() {
        for (text, number) in [("0", 0), ("123", 123), ("9223372036854775807", i64::MAX)] {
            assert_eq!(integer_of(text), Ok(Some(number)));
        }
        for text in ["007", "-5", "9223372036854775808", "o'rj\"\\é:%"] {
            assert_eq!(integer_of(text), Ok(None), "{text}");
        }
        for text in ["", "a b", "a/b", "\u{2028}", &"x".repeat(256)] {
            assert!(matches!(integer_of(text), Err(PostgresError::Refused(_))), "{text:?}");
        }
    }
}
