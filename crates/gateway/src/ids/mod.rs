//! Ids as terms: each term has one text, and each text is one term.
//!
//! | term | id |
//! | --- | --- |
//! | an atom, a binary in UTF-8, a list of characters | its text |
//! | an integer | its digits |
//! | another term | how it is written: `{photo,789}`, in [`written`] |
//!
//! So `123`, `"123"` and `<<"123">>` are one id, as in JSON, and so are `bob` and `<<"bob">>`;
//! within a tuple or a list they are apart. A text in which a term of the last two rows is written
//! is that term, since browsers and the API have no other way to name it.
//!
//! Back, an id in which a term is written is that term, and every other one a binary. It is never
//! an atom by itself: nodes do not free atoms, and ids come from anybody. For the same reason an
//! atom within a term goes to nodes only as often as [`atoms`] allows.

mod atoms;
mod digits;
mod spelled;
mod written;

#[cfg(test)]
mod tests;

use erlang::term::write;
use erlang::{Term, View};
use hub::{IdError, IdText};

use super::refusal::Refusal;

/// The longest term that is read as an id, in bytes: a list of 255 characters has five for each.
const TERM_BYTES_MAX: usize = 4 * 1024;

/// Writes the id that `term` stands for to `text`.
pub(super) fn read_id<'t>(text: &'t mut String, term: Term<'_>) -> Result<IdText<'t>, Refusal> {
    text.clear();
    if term.bytes().len() > TERM_BYTES_MAX {
        return Err(Refusal::IdTooLong);
    }
    push(text, term, &mut atoms::heard)?;
    IdText::parse(text).map_err(|error| match error {
        IdError::TooLong(_) => Refusal::IdTooLong,
        IdError::Empty | IdError::Forbidden(_) => Refusal::BadId,
    })
}

/// Appends the text of `term`, and tells `heard` of each atom that is in it and comes back as one.
fn push(text: &mut String, term: Term<'_>, heard: written::AtomVisitor<'_>) -> Result<(), Refusal> {
    match term.view() {
        View::Atom(atom) => text.push_str(&atom.text()),
        View::Binary(bytes) => {
            text.push_str(str::from_utf8(bytes).map_err(|_| Refusal::BadId)?);
        }
        // The empty string: an id that reads like a mistake.
        View::Nil | View::Bytes([]) => return Err(Refusal::BadId),
        View::Bytes(_) | View::List(..) => match written::characters(term) {
            Some(characters) => text.push_str(&characters),
            None => written::push(text, term, heard)?,
        },
        _ => written::push(text, term, heard)?,
    }
    Ok(())
}

/// Appends the term that stands for the id `text`.
pub(super) fn write_id(out: &mut Vec<u8>, text: &str) {
    if let Ok(IdText::Integer(id)) = IdText::parse(text) {
        write::natural(out, id.as_integer().expect("an integer's id is its number"));
    } else if !spelled::write(out, text) {
        write::binary(out, text.as_bytes());
    }
}
