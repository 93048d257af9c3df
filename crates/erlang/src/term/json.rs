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
//! Keys that are one in JSON (`a` and `<<"a">>`) are refused: which of their values would count is
//! anybody's guess. Back, an object is a map with binaries as keys, a string is a binary.
//! Processes, references, funs, ports and bit strings have no JSON.

use std::fmt::Write;
use std::ops::Range;

use serde_json::Value;
use thiserror::Error;

use super::read::Head;
use super::{Term, View, write};

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
    /// Two keys of a map that are one in JSON: `#{a => 1, <<"a">> => 2}`.
    #[error("doubled_key")]
    DoubledKey,
    /// An integer of more than 128 bits.
    #[error("too_big")]
    Big,
    /// More than 128 terms within one another.
    #[error("too_deep")]
    Depth,
}

/// Appends `term` as JSON. One pass over its bytes, without recursion.
pub fn push_json(out: &mut String, term: Term<'_>) -> Result<(), NoJson> {
    let mut heads = term.heads();
    let mut open: Vec<Open> = Vec::new();
    loop {
        let is_key = open.last_mut().is_some_and(|around| around.begin_next(out));
        match heads.next() {
            head if is_key => {
                let begin = out.len();
                push_key(out, head)?;
                open.last_mut().expect("a key is in a map").keys.push(begin..out.len());
            }
            _ if open.len() >= DEPTH_MAX => return Err(NoJson::Depth),
            Head::Leaf(leaf) => push_leaf(out, leaf)?,
            Head::Tuple(len) => open.push(Open::begin(out, Kind::Tuple, len)),
            Head::List(len) => open.push(Open::begin(out, Kind::List, len)),
            Head::Map(len) => open.push(Open::begin(out, Kind::Map, len)),
            Head::Export => return Err(NoJson::Opaque),
        }
        while let Some(done) = open.pop_if(|around| around.left == 0) {
            let is_proper =
                done.kind != Kind::List || matches!(heads.next(), Head::Leaf(View::Nil));
            if !is_proper {
                return Err(NoJson::Improper);
            }
            if has_doubled_key(out, done.keys) {
                return Err(NoJson::DoubledKey);
            }
            out.push(if done.kind == Kind::Map { '}' } else { ']' });
        }
        if open.is_empty() {
            return Ok(());
        }
    }
}

/// Whether two keys, each of which stands in a part of `out`, are the same.
fn has_doubled_key(out: &str, mut keys: Vec<Range<usize>>) -> bool {
    keys.sort_unstable_by_key(|key| &out[key.clone()]);
    keys.windows(2).any(|pair| out[pair[0].clone()] == out[pair[1].clone()])
}

/// An array or an object that is being written.
struct Open {
    kind: Kind,
    /// Of a map, where its keys stand.
    keys: Vec<Range<usize>>,
    /// Elements still to come; of a map keys and values.
    left: usize,
    is_first: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Tuple,
    List,
    Map,
}

impl Open {
    fn begin(out: &mut String, kind: Kind, len: usize) -> Open {
        let (bracket, left) = if kind == Kind::Map { ('{', 2 * len) } else { ('[', len) };
        out.push(bracket);
        Open { kind, keys: Vec::new(), left, is_first: true }
    }

    /// Writes what stands before the next element, and says whether that is a key.
    fn begin_next(&mut self, out: &mut String) -> bool {
        let is_value = self.kind == Kind::Map && self.left % 2 == 1;
        self.left -= 1;
        if is_value {
            out.push(':');
        } else if !std::mem::take(&mut self.is_first) {
            out.push(',');
        }
        self.kind == Kind::Map && !is_value
    }
}

fn push_leaf(out: &mut String, leaf: View<'_>) -> Result<(), NoJson> {
    match leaf {
        View::Integer(_) | View::Big(..) => push_integer(out, leaf)?,
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
            for (n, byte) in bytes.iter().enumerate() {
                let before = if n == 0 { '[' } else { ',' };
                write!(out, "{before}{byte}").expect("a string takes everything");
            }
            out.push_str(if bytes.is_empty() { "[]" } else { "]" });
        }
        View::Nil => out.push_str("[]"),
        _ => return Err(NoJson::Opaque),
    }
    Ok(())
}

fn push_integer(out: &mut String, integer: View<'_>) -> Result<(), NoJson> {
    match integer {
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

fn push_key(out: &mut String, key: Head<'_>) -> Result<(), NoJson> {
    let Head::Leaf(key) = key else { return Err(NoJson::Key) };
    match key {
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
/// UTF-8, or a list of characters, binaries and such lists. One pass, without recursion.
pub fn push_text(out: &mut String, term: Term<'_>) -> Result<(), NoJson> {
    let mut heads = term.heads();
    // Of each list that is being read, the elements still to come.
    let mut open: Vec<usize> = Vec::new();
    loop {
        // Text may end in a binary or a list as its tail, which then takes its list's place.
        let is_tail = open.pop_if(|left| *left == 0).is_some();
        let is_element = !is_tail && open.last_mut().map(|left| *left -= 1).is_some();
        match heads.next() {
            Head::List(_) if open.len() >= DEPTH_MAX => return Err(NoJson::Depth),
            Head::List(len) => open.push(len),
            Head::Leaf(View::Binary(bytes)) => {
                out.push_str(str::from_utf8(bytes).map_err(|_| NoJson::NotUtf8)?);
            }
            Head::Leaf(View::Bytes(bytes)) => {
                out.extend(bytes.iter().map(|&byte| char::from(byte)));
            }
            Head::Leaf(View::Nil) => {}
            Head::Leaf(View::Integer(code)) if is_element => {
                let code = u32::try_from(code).map_err(|_| NoJson::NotText)?;
                out.push(char::from_u32(code).ok_or(NoJson::NotText)?);
            }
            _ => return Err(NoJson::NotText),
        }
        if open.is_empty() {
            return Ok(());
        }
    }
}

/// Whether `term` is a list that reads as text: of at least one element, each of them a character
/// that is printed, a binary, or such a list. The characters are those of
/// `io_lib:printable_unicode_list/1`, by which Erlang's shell tells strings from lists. One pass,
/// without recursion.
pub fn is_text_list(term: Term<'_>) -> bool {
    let mut heads = term.heads();
    // Of each list that is being read, the elements still to come.
    let mut open: Vec<usize> = Vec::new();
    let (mut is_first, mut has_text) = (true, false);
    loop {
        let is_tail = open.pop_if(|left| *left == 0).is_some();
        let is_element = !is_tail && open.last_mut().map(|left| *left -= 1).is_some();
        let begins = std::mem::take(&mut is_first);
        match heads.next() {
            Head::List(len) if open.len() < DEPTH_MAX => open.push(len),
            Head::Leaf(View::Binary(_)) if !begins => has_text = true,
            Head::Leaf(View::Bytes(bytes)) if bytes.iter().all(|&byte| is_printed(byte.into())) => {
                has_text |= !bytes.is_empty();
            }
            Head::Leaf(View::Nil) if !begins => {}
            Head::Leaf(View::Integer(code)) if is_element && is_printed(code) => has_text = true,
            _ => return false,
        }
        if open.is_empty() {
            // Lists of empty ones are rows without cells, and no text.
            return has_text;
        }
    }
}

/// Whether Erlang prints the character `code` in a string.
fn is_printed(code: i64) -> bool {
    let is_in_latin1 = matches!(code, 8..=13 | 27 | 0x20..=0x7e | 0xa0..=0xff);
    is_in_latin1 || matches!(code, 0x100..=0xd7ff | 0xe000..=0xfffd | 0x1_0000..=0x10_ffff)
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
