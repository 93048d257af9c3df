//! Between terms and JSON, and from terms to text.
//!
//! The rule is that of the module `json` of OTP 27, with tuples as arrays:
//!
//! | term | JSON |
//! | --- | --- |
//! | `true`, `false`, `null` | the same |
//! | another atom, a binary in UTF-8 | a string |
//! | an integer, a float | a number |
//! | a list, a tuple | an array |
//! | a map with atoms, binaries and integers as keys | an object |
//!
//! Back, an object is a map with binaries as keys, a string is a binary. Processes, references,
//! funs, ports and bit strings have no JSON.

use std::fmt::Write;

use serde_json::Value;
use thiserror::Error;

use super::{Term, Terms, View, write};

/// Terms within terms: as deep as the JSON that we read may be.
const DEPTH_MAX: usize = 128;

/// Why a term has no JSON, or is no text. The name of each is what the sender is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum NoJson {
    /// A process, a reference, a fun, a port or a bit string.
    #[error("no_json")]
    Opaque,
    /// A binary that is not UTF-8.
    #[error("not_utf8")]
    NotUtf8,
    /// Neither a binary nor a list of characters, binaries and such lists.
    #[error("not_text")]
    NotText,
    /// A list whose tail is not the empty list.
    #[error("improper_list")]
    Improper,
    /// A key of a map that is neither an atom nor a binary nor an integer.
    #[error("bad_key")]
    Key,
    /// An integer of more than 128 bits.
    #[error("too_big")]
    Big,
    /// More than 128 terms within one another.
    #[error("too_deep")]
    Depth,
}

/// Appends `term` as JSON.
pub fn push_json(out: &mut String, term: Term<'_>) -> Result<(), NoJson> {
    push_value(out, term, DEPTH_MAX)
}

fn push_value(out: &mut String, term: Term<'_>, depth: usize) -> Result<(), NoJson> {
    let depth = depth.checked_sub(1).ok_or(NoJson::Depth)?;
    match term.view() {
        View::Integer(_) | View::Big(..) => push_integer(out, term)?,
        // The shortest digits that are read as the same number, which are JSON.
        View::Float(value) if value.is_finite() => {
            write!(out, "{value:?}").expect("a string takes everything");
        }
        View::Atom(atom) => match &*atom.text() {
            word @ ("true" | "false" | "null") => out.push_str(word),
            text => push_string(out, text),
        },
        View::Binary(bytes) => {
            push_string(out, str::from_utf8(bytes).map_err(|_| NoJson::NotUtf8)?);
        }
        View::Bytes(bytes) => {
            push_separated(out, bytes, |out, byte| {
                write!(out, "{byte}").expect("a string takes everything");
                Ok(())
            })?;
        }
        View::Nil => out.push_str("[]"),
        View::List(elements, tail) if tail.view() == View::Nil => {
            push_array(out, elements, depth)?;
        }
        View::List(..) => return Err(NoJson::Improper),
        View::Tuple(elements) => push_array(out, elements, depth)?,
        View::Map(pairs) => push_object(out, pairs, depth)?,
        View::Float(_) | View::Pid(_) | View::Reference(_) | View::Opaque => {
            return Err(NoJson::Opaque);
        }
    }
    Ok(())
}

fn push_integer(out: &mut String, term: Term<'_>) -> Result<(), NoJson> {
    match term.view() {
        View::Integer(value) => write!(out, "{value}"),
        View::Big(negative, magnitude) if magnitude.len() <= 16 => {
            let mut bytes = [0; 16];
            bytes[..magnitude.len()].copy_from_slice(magnitude);
            let sign = if negative { "-" } else { "" };
            write!(out, "{sign}{}", u128::from_le_bytes(bytes))
        }
        _ => return Err(NoJson::Big),
    }
    .expect("a string takes everything");
    Ok(())
}

fn push_array(out: &mut String, elements: Terms<'_>, depth: usize) -> Result<(), NoJson> {
    push_separated(out, elements, |out, element| push_value(out, element, depth))
}

fn push_separated<T>(
    out: &mut String,
    elements: impl IntoIterator<Item = T>,
    push: impl Fn(&mut String, T) -> Result<(), NoJson>,
) -> Result<(), NoJson> {
    out.push('[');
    for (n, element) in elements.into_iter().enumerate() {
        if n > 0 {
            out.push(',');
        }
        push(out, element)?;
    }
    out.push(']');
    Ok(())
}

fn push_object(out: &mut String, mut pairs: Terms<'_>, depth: usize) -> Result<(), NoJson> {
    out.push('{');
    let mut first = true;
    while let (Some(key), Some(value)) = (pairs.next(), pairs.next()) {
        if !std::mem::take(&mut first) {
            out.push(',');
        }
        match key.view() {
            View::Atom(atom) => push_string(out, &atom.text()),
            View::Binary(bytes) => {
                push_string(out, str::from_utf8(bytes).map_err(|_| NoJson::NotUtf8)?);
            }
            View::Integer(_) | View::Big(..) => {
                out.push('"');
                push_integer(out, key)?;
                out.push('"');
            }
            _ => return Err(NoJson::Key),
        }
        out.push(':');
        push_value(out, value, depth)?;
    }
    out.push('}');
    Ok(())
}

/// Appends `text` as a JSON string (RFC 8259, section 7).
pub fn push_string(out: &mut String, text: &str) {
    out.push('"');
    let mut plain = 0;
    for (at, byte) in text.bytes().enumerate() {
        if byte >= b' ' && byte != b'"' && byte != b'\\' {
            continue;
        }
        // What is escaped is one byte of ASCII, so both ends are ends of characters.
        out.push_str(&text[plain..at]);
        plain = at + 1;
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            other => write!(out, "\\u{other:04x}").expect("a string takes everything"),
        }
    }
    out.push_str(&text[plain..]);
    out.push('"');
}

/// Appends the text that `term` is, as `unicode:characters_to_binary/1` reads it: a binary in
/// UTF-8, or a list of characters, binaries and such lists.
pub fn push_text(out: &mut String, term: Term<'_>) -> Result<(), NoJson> {
    push_chardata(out, term, DEPTH_MAX)
}

fn push_chardata(out: &mut String, term: Term<'_>, depth: usize) -> Result<(), NoJson> {
    let depth = depth.checked_sub(1).ok_or(NoJson::Depth)?;
    match term.view() {
        View::Binary(bytes) => out.push_str(str::from_utf8(bytes).map_err(|_| NoJson::NotUtf8)?),
        View::Bytes(bytes) => out.extend(bytes.iter().map(|&byte| char::from(byte))),
        View::Nil => {}
        View::List(elements, tail) => {
            for element in elements {
                match element.view() {
                    View::Integer(code) => {
                        let code = u32::try_from(code).map_err(|_| NoJson::NotText)?;
                        out.push(char::from_u32(code).ok_or(NoJson::NotText)?);
                    }
                    _ => push_chardata(out, element, depth)?,
                }
            }
            // Text may end in a binary as its tail.
            push_chardata(out, tail, depth)?;
        }
        _ => return Err(NoJson::NotText),
    }
    Ok(())
}

/// Appends the term that `json` stands for. JSON that we cannot read (numbers out of range, halves
/// of surrogate pairs, more than 128 values within one another) is a binary of its text.
pub fn write_json(out: &mut Vec<u8>, json: &str) {
    match serde_json::from_str(json) {
        Ok(value) => write_value(out, &value),
        Err(_) => write::binary(out, json.as_bytes()),
    }
}

fn write_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => write::atom(out, "null"),
        Value::Bool(true) => write::atom(out, "true"),
        Value::Bool(false) => write::atom(out, "false"),
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(value), ..) => write::integer(out, value),
            (None, Some(value), _) => write::natural(out, value),
            (.., value) => write::float(out, value.unwrap_or_default()),
        },
        Value::String(text) => write::binary(out, text.as_bytes()),
        Value::Array(elements) => {
            if !elements.is_empty() {
                write::list(out, elements.len());
                elements.iter().for_each(|element| write_value(out, element));
            }
            write::nil(out);
        }
        Value::Object(members) => {
            write::map(out, members.len());
            for (name, value) in members {
                write::binary(out, name.as_bytes());
                write_value(out, value);
            }
        }
    }
}
