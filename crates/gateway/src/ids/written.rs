//! How a term is written in an id, as Erlang writes it and without a blank:
//!
//! | term | written |
//! | --- | --- |
//! | an integer | `-7`, of any size |
//! | a float | `+1.5`, `-1.0e100`: always its sign, and the fewest digits that are read as it |
//! | an atom | `photo`, `'Photo'` |
//! | a binary | `<<"text">>`, `<<255,0>>` where it is not UTF-8 |
//! | a list | `"text"` if it is of characters, `[a,1]` |
//! | a tuple | `{photo,789}` |
//!
//! A character that no id has, a quote and a backslash are written `\x{2F}`. Maps, processes,
//! references, funs, ports, bit strings and lists with another tail are not written. Nothing here
//! goes deeper than an id is long.

use std::fmt::Write;

use erlang::{Term, View};
use hub::ID_BYTES_MAX;

use super::digits;
use crate::refusal::Refusal;

/// Bytes of an integer of as many digits as an id has.
const MAGNITUDE_BYTES_MAX: usize = 106;

/// What is told of each atom.
pub(super) type AtomVisitor<'h> = &'h mut dyn FnMut(&str);

/// Appends `term` as it is written.
pub(super) fn push(
    text: &mut String,
    term: Term<'_>,
    heard: AtomVisitor<'_>,
) -> Result<(), Refusal> {
    if text.len() > ID_BYTES_MAX {
        return Err(Refusal::IdTooLong);
    }
    match term.view() {
        View::Integer(number) => push_display(text, number),
        View::Big(_, magnitude) if magnitude.len() > MAGNITUDE_BYTES_MAX => {
            return Err(Refusal::IdTooLong);
        }
        View::Big(negative, magnitude) => {
            text.push_str(if negative { "-" } else { "" });
            text.push_str(&digits::of_magnitude(magnitude));
        }
        View::Float(number) if number.is_finite() => push_float(text, number),
        View::Atom(atom) => {
            let name = atom.text();
            push_atom(text, &name);
            heard(&name);
        }
        View::Binary(bytes) => push_binary(text, bytes),
        View::Nil => text.push_str("[]"),
        View::Bytes(_) | View::List(..) => push_list(text, term, heard)?,
        View::Tuple(elements) => push_elements(text, ['{', '}'], elements, heard)?,
        _ => return Err(Refusal::BadId),
    }
    Ok(())
}

/// The text of a list of at least one character, none of them a control character.
pub(super) fn characters(term: Term<'_>) -> Option<String> {
    let character = |code: Option<char>| code.filter(|character| !character.is_control());
    match term.view() {
        View::Bytes([]) => None,
        View::Bytes(bytes) => bytes.iter().map(|&byte| character(Some(byte.into()))).collect(),
        View::List(elements, tail) if tail.view() == View::Nil => {
            let code = |element: Term<'_>| match element.view() {
                View::Integer(code) => character(u32::try_from(code).ok().and_then(char::from_u32)),
                _ => None,
            };
            elements.map(code).collect()
        }
        _ => None,
    }
}

fn push_list(text: &mut String, term: Term<'_>, heard: AtomVisitor<'_>) -> Result<(), Refusal> {
    if let Some(characters) = characters(term) {
        push_quoted(text, '"', &characters);
        return Ok(());
    }
    match term.view() {
        View::Bytes(bytes) => {
            text.push('[');
            push_bytes(text, bytes);
            text.push(']');
            Ok(())
        }
        View::List(elements, tail) if tail.view() == View::Nil => {
            push_elements(text, ['[', ']'], elements, heard)
        }
        _ => Err(Refusal::BadId),
    }
}

fn push_elements<'a>(
    text: &mut String,
    [open, close]: [char; 2],
    elements: impl Iterator<Item = Term<'a>>,
    heard: AtomVisitor<'_>,
) -> Result<(), Refusal> {
    text.push(open);
    for (n, element) in elements.enumerate() {
        if n > 0 {
            text.push(',');
        }
        push(text, element, heard)?;
    }
    text.push(close);
    Ok(())
}

/// The fewest digits that are read as it, and of two that are as near the even one, as Erlang has
/// them (Ulf Adams, "Ryū: fast float-to-string conversion", 2018): Rust's own take the greater.
/// With a sign and a point, and without an exponent of 0.
fn push_float(text: &mut String, number: f64) {
    let mut buffer = ryu::Buffer::new();
    let shortest = buffer.format_finite(number.abs());
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((shortest, "0"));
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = [whole, part].concat();
    let digits = all.trim_start_matches('0');
    let zeros = all.len() - digits.len();
    let exponent: i32 = exponent.parse().expect("what is written is a number");
    let power = exponent + whole.len() as i32 - 1 - zeros as i32;
    let (first, rest) = digits.trim_end_matches('0').split_at_checked(1).unwrap_or(("0", ""));
    text.push(if number.is_sign_negative() { '-' } else { '+' });
    text.push_str(first);
    text.push('.');
    text.push_str(if rest.is_empty() { "0" } else { rest });
    if power != 0 && !digits.is_empty() {
        text.push('e');
        text.push_str(&power.to_string());
    }
}

fn push_atom(text: &mut String, name: &str) {
    if is_bare(name) { text.push_str(name) } else { push_quoted(text, '\'', name) }
}

/// Whether an atom stands without quotes.
fn is_bare(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase()) && name.chars().all(is_of_bare)
}

/// Whether a character may stand in an atom without quotes.
pub(super) fn is_of_bare(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '@')
}

fn push_binary(text: &mut String, bytes: &[u8]) {
    text.push_str("<<");
    match str::from_utf8(bytes) {
        Ok(written) => push_quoted(text, '"', written),
        Err(_) => push_bytes(text, bytes),
    }
    text.push_str(">>");
}

fn push_bytes(text: &mut String, bytes: &[u8]) {
    for (n, byte) in bytes.iter().enumerate() {
        if n > 0 {
            text.push(',');
        }
        push_display(text, byte);
    }
}

fn push_quoted(text: &mut String, quote: char, content: &str) {
    text.push(quote);
    for character in content.chars() {
        if is_escaped(character) {
            push_display(text, format_args!("\\x{{{:X}}}", u32::from(character)));
        } else {
            text.push(character);
        }
    }
    text.push(quote);
}

/// What no id has, and what would end or change what stands in quotes.
fn is_escaped(character: char) -> bool {
    character.is_control()
        || character.is_whitespace()
        || matches!(character, '/' | '?' | '#' | '\\' | '"' | '\'')
}

fn push_display(text: &mut String, value: impl std::fmt::Display) {
    write!(text, "{value}").expect("a string takes everything");
}
