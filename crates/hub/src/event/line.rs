//! An event as one line of JSON, and where its parts stand in it.
//!
//! ```text
//! {"id":"0000000001Z00000","about":"bob","data":{"x":1}}
//! {"id":"0000000001Z00000","about":"room:7","also":["9"],"event":"typing","from":"bob","data":"…"}
//! ```
//!
//! The parts are found while the line is put together and kept as places in it: nobody searches a
//! line. Only one that comes from another process is read, once, up to the payload's begin. Cost: 8
//! bytes an event.

use std::borrow::Cow;
use std::iter;

use smallvec::SmallVec;

use super::{EventParts, Payload, SUBJECTS_MAX};
use crate::connection_id::LeftOut;
use crate::event_id::ID_LEN;
use crate::id::{ID_BYTES_MAX, IdText};
use crate::key::{self, KEY_BYTES_MAX};

/// What stands before the id.
pub(super) const BEFORE_ID: &str = "{\"id\":\"";

/// What stands where the id will be.
pub(super) const NO_ID: &str = "0000000000000000";

/// What stands between the id and the subject.
pub(super) const BEFORE_SUBJECT: &str = "\",\"about\":\"";

/// What stands before the other subjects, where there are some, between them, and behind them.
const BEFORE_ALSO: &str = "\",\"also\":[\"";
const BETWEEN_ALSO: &str = "\",\"";
const AFTER_ALSO: &str = "\"]";

/// What stands before the event's name, if it has one.
const BEFORE_NAME: &str = ",\"event\":\"";

/// What stands before its sender, if that is told.
const BEFORE_FROM: &str = ",\"from\":\"";

/// What stands before the payload, behind the quote of what stands before.
pub(super) const BEFORE_DATA: &str = ",\"data\":";

/// What stands behind the payload.
pub(super) const END: &str = "}";

/// Bytes of a line beside its subject and its payload, where it has nothing else.
pub const LINE_BYTES: usize = ABOUT_START + 1 + BEFORE_DATA.len() + END.len();

/// Where the subject begins in every line.
const ABOUT_START: usize = BEFORE_ID.len() + ID_LEN + BEFORE_SUBJECT.len();

const _: () = assert!(NO_ID.len() == ID_LEN);

/// The bits of `about_end` that say how many ids of connections stand behind the line.
const FOLLOWED_SHIFT: u32 = 14;
const FOLLOWED: u16 = 3 << FOLLOWED_SHIFT;

/// The bit of `data_start` of an event that nobody remembers.
const FORGOTTEN: u32 = 1 << 31;

// A subject of which each byte is escaped ends far below those bits.
const _: () = assert!(ID_BYTES_MAX < KEY_BYTES_MAX);
const _: () = assert!(ABOUT_START + 2 * KEY_BYTES_MAX < 1 << FOLLOWED_SHIFT);
const _: () = assert!(LeftOut::MAX <= (FOLLOWED >> FOLLOWED_SHIFT) as usize);

/// Where the parts of a line stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Parts {
    /// Behind the subject as it is written, each quote and backslash of it escaped; and two bits.
    about_end: u16,
    /// Where the name begins; 0 where there is none.
    name_start: u16,
    /// Where the payload begins, and a bit. It ends with the line, but for [`END`].
    data_start: u32,
}

const _: () = assert!(size_of::<Parts>() == 8);

impl Parts {
    /// `None` where the subjects are so many that the places have no room for it.
    fn new(about_end: usize, name_start: Option<usize>, data_start: usize) -> Option<Parts> {
        assert!(ABOUT_START < about_end && about_end < data_start, "the parts are in their order");
        let about_end = u16::try_from(about_end).ok()?;
        let name_start = name_start.map_or(Some(0), |start| u16::try_from(start).ok())?;
        let data_start = u32::try_from(data_start).ok().filter(|start| *start < FORGOTTEN)?;
        Some(Parts { about_end, name_start, data_start })
    }

    /// Notes that nobody remembers the event.
    pub(super) fn forgotten(self) -> Parts {
        Parts { data_start: self.data_start | FORGOTTEN, ..self }
    }

    pub(super) fn is_forgotten(self) -> bool {
        self.data_start & FORGOTTEN != 0
    }

    /// Notes that so many ids stand behind the line.
    pub(super) fn followed(self, ids: usize) -> Parts {
        assert!(ids <= LeftOut::MAX, "so many connections are left out at most");
        Parts { about_end: self.about_end | (ids as u16) << FOLLOWED_SHIFT, ..self }
    }

    /// How many ids stand there.
    pub(super) fn followed_by(self) -> usize {
        usize::from(self.about_end >> FOLLOWED_SHIFT)
    }

    fn about_end(self) -> usize {
        usize::from(self.about_end & !FOLLOWED)
    }

    /// The subject in `line`. Only one that is escaped is copied.
    pub(super) fn about(self, line: &str) -> Cow<'_, str> {
        read_id(&line[ABOUT_START..self.about_end()])
    }

    /// The other subjects in `line`.
    pub(super) fn also(self, line: &str) -> impl Iterator<Item = Cow<'_, str>> {
        let mut rest = line[self.about_end()..].strip_prefix(BEFORE_ALSO);
        iter::from_fn(move || {
            let text = rest?;
            let (id, behind) = text.split_at(id_len(text)?);
            rest = behind.strip_prefix(BETWEEN_ALSO);
            Some(read_id(id))
        })
    }

    /// The name in `line` as JSON has it, without its quotes.
    pub(super) fn name(self, line: &str) -> Option<&str> {
        let name = &line[usize::from(self.name_start)..];
        (self.name_start > 0).then(|| &name[..string_len(name).unwrap_or(0)])
    }

    /// The name in `line` as a JSON string, with its quotes.
    pub(super) fn name_json(self, line: &str) -> Option<&str> {
        let start = usize::from(self.name_start);
        self.name(line).map(|name| &line[start - 1..=start + name.len()])
    }

    /// Who sent it, by `line`.
    pub(super) fn from(self, line: &str) -> Option<Cow<'_, str>> {
        let behind_name = |name: &str| usize::from(self.name_start) + name.len() + 1;
        let rest = match self.name(line) {
            Some(name) => &line[behind_name(name)..],
            None => self.behind_subjects(line),
        };
        let from = rest.strip_prefix(BEFORE_FROM)?;
        Some(read_id(&from[..id_len(from)?]))
    }

    /// What stands behind the subjects in `line`.
    fn behind_subjects(self, line: &str) -> &str {
        let behind_first = &line[self.about_end()..];
        let Some(mut others) = behind_first.strip_prefix(BEFORE_ALSO) else {
            return &behind_first[1..];
        };
        loop {
            let behind = &others[id_len(others).unwrap_or(0)..];
            match behind.strip_prefix(BETWEEN_ALSO) {
                Some(next) => others = next,
                None => return behind.strip_prefix(AFTER_ALSO).unwrap_or_default(),
            }
        }
    }

    /// The payload in `line`.
    pub(super) fn data(self, line: &str) -> &str {
        &line[(self.data_start & !FORGOTTEN) as usize..line.len() - END.len()]
    }
}

/// Puts the line of `parts` together, but for its id: subjects and sender are ids, each subject
/// stands once. `None` where they are too many.
pub(super) fn write(parts: EventParts<'_>) -> Option<(String, Parts)> {
    let EventParts { about, also, name, from, payload } = parts;
    // To the byte, unless something is escaped or taken out: a line that fits is not moved when the
    // room behind it is given back.
    let others = also.iter().map(|id| BETWEEN_ALSO.len() + id.len()).sum::<usize>();
    let others = if others > 0 { others + BEFORE_ALSO.len() } else { 0 };
    let name_len = name.map_or(0, |name| BEFORE_NAME.len() + 1 + name.len());
    let from_len = from.map_or(0, |from| BEFORE_FROM.len() + 1 + from.len());
    let len = LINE_BYTES + about.len() + others + name_len + from_len + payload.len();
    let mut line = String::with_capacity(len);
    line.push_str(BEFORE_ID);
    line.push_str(NO_ID);
    line.push_str(BEFORE_SUBJECT);
    push_escaped(&mut line, about);
    let about_end = line.len();
    for (at, id) in also.iter().enumerate() {
        line.push_str(if at == 0 { BEFORE_ALSO } else { BETWEEN_ALSO });
        push_escaped(&mut line, id);
    }
    line.push_str(if also.is_empty() { "\"" } else { AFTER_ALSO });
    let name_start = name.map(|name| {
        line.push_str(BEFORE_NAME);
        let start = line.len();
        push_string(&mut line, name);
        line.push('"');
        start
    });
    if let Some(from) = from {
        line.push_str(BEFORE_FROM);
        push_escaped(&mut line, from);
        line.push('"');
    }
    line.push_str(BEFORE_DATA);
    let data_start = line.len();
    match payload {
        // RFC 8259, section 7: inside a string line breaks are escaped, so what is left of them
        // stands between tokens, where it means nothing.
        Payload::Json(json) => push_without(&mut line, json, |byte| matches!(byte, b'\n' | b'\r')),
        Payload::Text(text) => {
            line.push('"');
            push_string(&mut line, text);
            line.push('"');
        }
    }
    line.push_str(END);
    let parts = Parts::new(about_end, name_start, data_start)?;
    Some((line, parts))
}

/// The id in a line, or what stands in its place, and where its parts stand; `None` of what is no
/// such line, or about what is no id.
pub(super) fn read(line: &str) -> Option<(&str, Parts)> {
    let (id, rest) = line.strip_prefix(BEFORE_ID)?.split_at_checked(ID_LEN)?;
    let mut rest = rest.strip_prefix(BEFORE_SUBJECT)?;
    rest = behind_id(rest)?;
    let about_end = line.len() - rest.len();
    let is_of_key = key::is_key(&line[ABOUT_START..about_end]);
    if let Some(others) = rest.strip_prefix(BEFORE_ALSO) {
        let mut subjects: SmallVec<[&str; 4]> = SmallVec::new();
        subjects.push(&line[ABOUT_START..about_end]);
        let mut next = Some(others);
        while let Some(others) = next {
            rest = behind_id(others)?;
            let id = &others[..others.len() - rest.len()];
            if subjects.contains(&id) || subjects.len() == SUBJECTS_MAX {
                return None;
            }
            subjects.push(id);
            next = rest.strip_prefix(BETWEEN_ALSO);
        }
        rest = rest.strip_prefix(AFTER_ALSO)?;
    } else {
        rest = rest.strip_prefix('"')?;
    }
    let name_start = match rest.strip_prefix(BEFORE_NAME) {
        Some(name) => {
            rest = name[string_len(name)?..].strip_prefix('"')?;
            Some(line.len() - name.len())
        }
        None => None,
    };
    if let Some(from) = rest.strip_prefix(BEFORE_FROM) {
        // Who sends to a key is called as its app likes.
        let behind = if is_of_key { from.get(id_len(from)?..)? } else { behind_id(from)? };
        rest = behind.strip_prefix('"')?;
    }
    let data = rest.strip_prefix(BEFORE_DATA)?;
    let data_start = line.len() - data.len();
    let is_whole = data.strip_suffix(END).is_some_and(|data| !data.is_empty());
    if !is_whole || has(line, |byte| matches!(byte, b'\n' | b'\r')) {
        return None;
    }
    Some((id, Parts::new(about_end, name_start, data_start)?))
}

/// What stands behind an id or a key at the begin of `text`, if there is one.
fn behind_id(text: &str) -> Option<&str> {
    let (id, behind) = text.split_at(id_len(text)?);
    IdText::of_key(&read_id(id)).is_ok().then_some(behind)
}

/// How long an id is as it is written at the begin of `text`: up to the first quote that is not
/// escaped. `None` where there is none, or something is escaped that needs it not.
fn id_len(text: &str) -> Option<usize> {
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

/// How long any JSON string is at the begin of `text`, up to its quote.
fn string_len(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    })
}

/// The id that a payload begins with, if it is an object that does, as JSON has it.
pub(super) fn own_id(data: &str) -> Option<&str> {
    let id = data.strip_prefix(BEFORE_ID)?;
    Some(&id[..string_len(id)?])
}

/// The id that is `written` so.
fn read_id(written: &str) -> Cow<'_, str> {
    if !written.contains('\\') {
        return Cow::Borrowed(written);
    }
    let mut escaped = written.chars();
    let next = || escaped.next().and_then(|c| if c == '\\' { escaped.next() } else { Some(c) });
    Cow::Owned(iter::from_fn(next).collect())
}

/// Ids have no control characters, so only quote and backslash need care (RFC 8259, section 7).
fn push_escaped(out: &mut String, id: &str) {
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

/// Appends any text as the inside of a JSON string (RFC 8259, section 7).
fn push_string(out: &mut String, text: &str) {
    if !has(text, |byte| byte < b' ' || matches!(byte, b'"' | b'\\')) {
        return out.push_str(text);
    }
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
}

/// Appends `text` without the ASCII characters that are `unwanted`.
fn push_without(out: &mut String, text: &str, unwanted: impl Fn(u8) -> bool) {
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
