//! Writing terms: each function appends one term, or the head of one that others complete.
//!
//! Lengths are those of our own buffers, which are bounded far below the format's 2^32.

use super::VERSION;
use super::read::tag;

/// The byte before a term that stands alone.
pub fn version(out: &mut Vec<u8>) {
    out.push(VERSION);
}

/// An atom, of at most 255 characters.
pub fn atom(out: &mut Vec<u8>, name: &str) {
    match u8::try_from(name.len()) {
        Ok(len) => out.extend([tag::SMALL_ATOM_UTF8, len]),
        Err(_) => {
            let len = u16::try_from(name.len()).expect("255 characters have at most 1,020 bytes");
            out.push(tag::ATOM_UTF8);
            out.extend(len.to_be_bytes());
        }
    }
    out.extend_from_slice(name.as_bytes());
}

/// An integer, in its shortest form.
pub fn integer(out: &mut Vec<u8>, value: i64) {
    if let Ok(small) = u8::try_from(value) {
        out.extend([tag::SMALL_INTEGER, small]);
    } else if let Ok(word) = i32::try_from(value) {
        out.push(tag::INTEGER);
        out.extend(word.to_be_bytes());
    } else {
        big(out, value < 0, &value.unsigned_abs().to_le_bytes());
    }
}

/// A natural number.
pub fn natural(out: &mut Vec<u8>, value: u64) {
    match i64::try_from(value) {
        Ok(value) => integer(out, value),
        Err(_) => big(out, false, &value.to_le_bytes()),
    }
}

/// An integer of any size: whether it is negative, and its magnitude, least byte first, in at most
/// 255 bytes.
pub fn big(out: &mut Vec<u8>, negative: bool, magnitude: &[u8]) {
    let len = u8::try_from(magnitude.len()).expect("our integers are written in 255 digits");
    out.extend([tag::SMALL_BIG, len, u8::from(negative)]);
    out.extend_from_slice(magnitude);
}

/// A float, which must be finite: Erlang has no other.
pub fn float(out: &mut Vec<u8>, value: f64) {
    out.push(tag::NEW_FLOAT);
    out.extend(value.to_be_bytes());
}

/// Appends a binary of `bytes`.
pub fn binary(out: &mut Vec<u8>, bytes: &[u8]) {
    length(out, tag::BINARY, bytes.len());
    out.extend_from_slice(bytes);
}

/// The head of a tuple, which its elements follow.
pub fn tuple(out: &mut Vec<u8>, arity: u8) {
    out.extend([tag::SMALL_TUPLE, arity]);
}

/// The head of a list of at least one element, which its elements and a tail follow.
pub fn list(out: &mut Vec<u8>, len: usize) {
    length(out, tag::LIST, len);
}

/// The empty list, and the tail of a proper one.
pub fn nil(out: &mut Vec<u8>) {
    out.push(tag::NIL);
}

/// The head of a map, which so many keys and values follow in turn.
pub fn map(out: &mut Vec<u8>, len: usize) {
    length(out, tag::MAP, len);
}

/// A process of the node `node`.
pub fn pid(out: &mut Vec<u8>, node: &str, [id, serial, creation]: [u32; 3]) {
    out.push(tag::NEW_PID);
    atom(out, node);
    for word in [id, serial, creation] {
        out.extend(word.to_be_bytes());
    }
}

/// A reference that the node `node` made.
pub fn reference(out: &mut Vec<u8>, node: &str, creation: u32, words: [u32; 3]) {
    out.extend([tag::NEWER_REFERENCE, 0, 3]);
    atom(out, node);
    out.extend(creation.to_be_bytes());
    words.iter().for_each(|word| out.extend(word.to_be_bytes()));
}

fn length(out: &mut Vec<u8>, tag: u8, len: usize) {
    out.push(tag);
    out.extend(u32::try_from(len).expect("our buffers are bounded").to_be_bytes());
}
