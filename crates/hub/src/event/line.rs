//! An event as one line of JSON, and where its parts stand in it.
//!
//! ```text
//! {"id":"0000000001Z00000","about":"bob","data":{"x":1}}
//! ```
//!
//! The parts are found while the line is put together and kept as places in it: nobody searches a
//! line. Only one that comes from another process is read, once, up to the payload's begin. Cost: 8
//! bytes an event.

use std::borrow::Cow;

use crate::event_id::ID_LEN;
use crate::id::IdText;

/// What stands before the id.
pub(super) const BEFORE_ID: &str = "{\"id\":\"";

/// What stands where the id will be.
pub(super) const NO_ID: &str = "0000000000000000";

/// What stands between the id and the subject.
pub(super) const BEFORE_SUBJECT: &str = "\",\"about\":\"";

/// What stands between the subject and the payload.
pub(super) const BEFORE_DATA: &str = "\",\"data\":";

/// What stands behind the payload.
pub(super) const END: &str = "}";

/// Where the subject begins in every line.
const ABOUT_START: usize = BEFORE_ID.len() + ID_LEN + BEFORE_SUBJECT.len();

const _: () = assert!(NO_ID.len() == ID_LEN);

/// Where the parts of a line stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Parts {
    /// Behind the subject as it is written, each quote and backslash of it escaped.
    about_end: u32,
    /// Where the payload begins. It ends with the line, but for [`END`].
    data_start: u32,
}

impl Parts {
    pub(super) fn new(about_end: usize, data_start: usize) -> Parts {
        assert!(ABOUT_START < about_end && about_end < data_start, "the parts are in their order");
        // Both stand before the payload, which alone is long.
        Parts { about_end: about_end as u32, data_start: data_start as u32 }
    }

    /// The subject in `line`. Only one that is escaped is copied.
    pub(super) fn about(self, line: &str) -> Cow<'_, str> {
        let written = &line[ABOUT_START..self.about_end as usize];
        if !written.contains('\\') {
            return Cow::Borrowed(written);
        }
        let mut escaped = written.chars();
        let next = || escaped.next().and_then(|c| if c == '\\' { escaped.next() } else { Some(c) });
        Cow::Owned(std::iter::from_fn(next).collect())
    }

    /// The payload in `line`.
    pub(super) fn data(self, line: &str) -> &str {
        &line[self.data_start as usize..line.len() - END.len()]
    }
}

/// The id in a line, or what stands in its place, and where its parts stand; `None` of what is no
/// such line, or about no id.
pub(super) fn read(line: &str) -> Option<(&str, Parts)> {
    let (id, rest) = line.strip_prefix(BEFORE_ID)?.split_at_checked(ID_LEN)?;
    let rest = rest.strip_prefix(BEFORE_SUBJECT)?;
    let about_len = written_len(rest)?;
    let data = rest[about_len..].strip_prefix(BEFORE_DATA)?.strip_suffix(END)?;
    if has(rest, |byte| matches!(byte, b'\n' | b'\r')) || data.is_empty() || about_len == 0 {
        return None;
    }
    let about_end = ABOUT_START + about_len;
    let parts = Parts::new(about_end, about_end + BEFORE_DATA.len());
    IdText::parse(&parts.about(line)).is_ok().then_some((id, parts))
}

/// How long a subject is as it is written at the begin of `text`: up to the first quote that is not
/// escaped. `None` where there is none, or something is escaped that needs it not.
fn written_len(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match (is_escaped, byte) {
            (true, b'"' | b'\\') => is_escaped = false,
            (true, _) => return None,
            (false, b'"') => return Some(at),
            (false, _) => is_escaped = byte == b'\\',
        }
    }
    None
}

/// Ids have no control characters, so only quote and backslash need care (RFC 8259, section 7).
pub(super) fn push_escaped(out: &mut String, id: &str) {
    if !has(id, |byte| matches!(byte, b'"' | b'\\')) {
        return out.push_str(id);
    }
    for c in id.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
}

/// Appends `text` without the ASCII characters that are `unwanted`.
pub(super) fn push_without(out: &mut String, text: &str, unwanted: impl Fn(u8) -> bool) {
    match has(text, &unwanted) {
        true => out.extend(text.split(|c: char| c.is_ascii() && unwanted(c as u8))),
        false => out.push_str(text),
    }
}

/// Whether a byte of `text` is `wanted`. All of them are looked at, many with each instruction:
/// a search that may end early looks at one after the other.
fn has(text: &str, wanted: impl Fn(u8) -> bool) -> bool {
    let any = |bytes: &[u8]| bytes.iter().fold(false, |any, &byte| any | wanted(byte));
    text.as_bytes().chunks(LOOKED_AT).any(any)
}

/// Bytes that are looked at together: a payload of megabytes is not read to its end for nothing.
const LOOKED_AT: usize = 256;
