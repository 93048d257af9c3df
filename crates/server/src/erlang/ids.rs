//! Ids as terms: one rule, both ways.
//!
//! | term | id |
//! | --- | --- |
//! | an integer | its digits |
//! | an atom, a binary in UTF-8, a list of characters | its text |
//! | a tuple of at least two of these | their ids with `:` between |
//!
//! So `123`, `"123"` and `<<"123">>` are one id, as in JSON, and `{photo, 789}` is `photo:789`.
//! Back, an id of digits is an integer and every other one a binary. It is never an atom: nodes do
//! not free atoms, and ids come from anybody.

use erlang::term::{push_text, write};
use erlang::{Term, View};
use hub::IdText;

use super::refusal::Refusal;

/// The longest term that is read as an id, in bytes: a list of 255 characters has five for each.
const TERM_BYTES_MAX: usize = 4 * 1024;

/// Writes the id that `term` stands for to `text`.
pub(super) fn read_id<'t>(text: &'t mut String, term: Term<'_>) -> Result<IdText<'t>, Refusal> {
    text.clear();
    if term.bytes().len() > TERM_BYTES_MAX {
        return Err(Refusal::BadId);
    }
    match term.view() {
        View::Tuple(parts) if parts.len() >= 2 => {
            for (n, part) in parts.enumerate() {
                if n > 0 {
                    text.push(':');
                }
                push_part(text, part)?;
            }
        }
        _ => push_part(text, term)?,
    }
    IdText::parse(text).map_err(|_| Refusal::BadId)
}

fn push_part(text: &mut String, term: Term<'_>) -> Result<(), Refusal> {
    let before = text.len();
    match term.view() {
        View::Integer(number) => text.push_str(&number.to_string()),
        View::Atom(atom) => text.push_str(&atom.text()),
        _ => push_text(text, term).map_err(|_| Refusal::BadId)?,
    }
    // `{a, <<>>}` would be an id that reads like a mistake.
    if text.len() == before { Err(Refusal::BadId) } else { Ok(()) }
}

/// Appends the term that stands for the id `text`.
pub(super) fn write_id(out: &mut Vec<u8>, text: &str) {
    match IdText::parse(text) {
        Ok(IdText::Integer(id)) => {
            write::natural(out, id.as_integer().expect("an integer's id is its number"));
        }
        _ => write::binary(out, text.as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id_of(bytes: &[u8]) -> Result<String, Refusal> {
        let (mut text, mut bytes) = (String::from("before"), bytes);
        let term = Term::read(&mut bytes).unwrap();
        read_id(&mut text, term)?;
        Ok(text)
    }

    #[test]
    fn one_id_in_all_its_forms() {
        for term in [&b"\x61\x7b"[..], b"\x6b\0\x03123", b"\x6d\0\0\0\x03123", b"\x77\x03123"] {
            assert_eq!(id_of(term).as_deref(), Ok("123"), "{term:?}");
        }
        let photo = b"\x68\x02\x64\0\x05photo\x62\0\0\x03\x15";
        assert_eq!(id_of(photo).as_deref(), Ok("photo:789"));
        assert_eq!(id_of(b"\x62\xff\xff\xff\xff").as_deref(), Ok("-1"));
        assert_eq!(id_of("\x6d\0\0\0\x02é".as_bytes()).as_deref(), Ok("é"));
    }

    #[test]
    fn what_is_no_id_is_refused() {
        for term in [
            &b"\x6a"[..],
            b"\x6d\0\0\0\0",
            b"\x6d\0\0\0\x03a b",
            b"\x6d\0\0\0\x01\xff",
            b"\x68\x01\x61\x01",
            b"\x68\x02\x61\x01\x6a",
            b"\x68\x02\x61\x01\x68\x02\x61\x01\x61\x02",
            b"\x74\0\0\0\0",
        ] {
            assert_eq!(id_of(term), Err(Refusal::BadId), "{term:?}");
        }
        // Text with nothing in it, many times, behind one character.
        let long = [&b"\x6c\0\0\x03\xe8\x61\x61"[..], &b"\x6d\0\0\0\0".repeat(999), b"\x6a"];
        assert_eq!(id_of(&long.concat()), Err(Refusal::BadId));
        let longest = [&b"\x6c\0\0\0\xff"[..], &b"\x62\0\0\0\x61".repeat(255), b"\x6a"];
        assert_eq!(id_of(&longest.concat()), Ok("a".repeat(255)));
    }

    #[test]
    fn ids_become_integers_and_binaries() {
        for (text, term) in [
            ("123", &b"\x61\x7b"[..]),
            ("007", b"\x6d\0\0\0\x03007"),
            ("photo:789", b"\x6d\0\0\0\x09photo:789"),
        ] {
            let mut out = Vec::new();
            write_id(&mut out, text);
            assert_eq!(out, term, "{text}");
            assert_eq!(id_of(&out).as_deref(), Ok(text), "and back");
        }
    }
}
