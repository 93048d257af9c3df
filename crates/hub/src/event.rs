//! An event: a payload about a subject, made once and shared by everybody who hears it.
//!
//! The JSON line is put together once, when the event is made. What a transport puts around it is
//! encoded once per transport, on first need, by whoever needs it first; from then on a delivery is
//! a pointer to those bytes.

use crate::event_id::{EventId, ID_LEN, Tag};
use crate::frames::Frames;

/// One event. `F` is the transport's encoded form; the hub does not look inside.
#[derive(Debug)]
pub struct Event<F> {
    number: u64,
    json: Box<str>,
    frames: Frames<F>,
}

/// An event that has no number yet: its line is put together while nobody waits, and the number is
/// written into it at the moment that orders it among all others.
#[derive(Debug)]
pub struct Draft {
    json: String,
}

/// What stands before the id in an event's line.
const BEFORE_ID: &str = "{\"id\":\"";

/// What stands where the id will be.
const NO_ID: &str = "0000000000000000";

/// What stands between the id and the subject.
const BEFORE_SUBJECT: &str = "\",\"about\":\"";

/// What stands between the subject and the payload. It does not occur before: in a subject each
/// quote has a backslash before it.
const BEFORE_DATA: &str = "\",\"data\":";

/// What stands behind the payload.
const END: &str = "}";

impl Draft {
    /// A draft about `about`. `data` must be one valid JSON value; line breaks between its tokens
    /// are taken out, because every transport is a line protocol.
    pub fn new(about: &str, data: &str) -> Draft {
        // To the byte, unless something is escaped or taken out: a line that fits is not moved when
        // the room behind it is given back.
        let around = BEFORE_ID.len() + NO_ID.len() + BEFORE_SUBJECT.len() + BEFORE_DATA.len();
        let mut json = String::with_capacity(around + about.len() + data.len() + END.len());
        json.push_str(BEFORE_ID);
        json.push_str(NO_ID);
        json.push_str(BEFORE_SUBJECT);
        push_escaped(&mut json, about);
        json.push_str(BEFORE_DATA);
        // RFC 8259, section 7: inside a string line breaks are escaped, so what is left of them
        // stands between tokens, where it means nothing.
        push_without(&mut json, data, |byte| matches!(byte, b'\n' | b'\r'));
        json.push_str(END);
        Draft { json }
    }

    /// The line, with sixteen zeros where the id will be.
    pub fn json(&self) -> &str {
        &self.json
    }

    /// The line, for whoever makes a draft of it elsewhere.
    pub fn into_line(self) -> String {
        self.json
    }

    /// The draft that [`Draft::into_line`] was made of; `None` of what has another form.
    pub fn of_line(line: String) -> Option<Draft> {
        (id_of(&line)? == NO_ID).then_some(Draft { json: line })
    }

    /// The event `id` (see [`EventIds::next`](crate::EventIds::next)).
    pub fn numbered<F>(mut self, id: EventId) -> Event<F> {
        let place = BEFORE_ID.len()..BEFORE_ID.len() + ID_LEN;
        let digits = id.digits();
        self.json.replace_range(place, str::from_utf8(&digits).expect("digits are ASCII"));
        let (number, json) = (id.number(), self.json.into_boxed_str());
        Event { number, json, frames: Frames::default() }
    }
}

impl<F> Event<F> {
    /// Makes the event `number` of an epoch that nobody serves at once, as [`Draft`] does in two
    /// steps.
    pub fn new(number: u64, about: &str, data: &str) -> Event<F> {
        Draft::new(about, data).numbered(EventId::new(number, Tag::of(0)))
    }

    /// The event whose [line](Event::json) this is; `None` of what has another form.
    pub fn of_line(line: String) -> Option<Event<F>> {
        let number = EventId::parse(id_of(&line)?.as_bytes())?.number();
        Some(Event { number, json: line.into_boxed_str(), frames: Frames::default() })
    }

    /// The number that orders this event among all.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The id as clients see it: [`EventId`] as text.
    pub fn id(&self) -> &str {
        &self.json[BEFORE_ID.len()..BEFORE_ID.len() + ID_LEN]
    }

    /// The whole event as one line of JSON: `{"id":…,"about":…,"data":…}`.
    pub fn json(&self) -> &str {
        &self.json
    }

    /// The subject's id. It is read out of the line.
    pub fn about(&self) -> String {
        let start = BEFORE_ID.len() + ID_LEN + BEFORE_SUBJECT.len();
        let mut escaped = self.json[start..self.place_of_data()].chars();
        let next = || escaped.next().and_then(|c| if c == '\\' { escaped.next() } else { Some(c) });
        std::iter::from_fn(next).collect()
    }

    /// The payload as JSON. It is searched for: only one transport asks, once, and an event is
    /// shorter without the place.
    pub fn data(&self) -> &str {
        &self.json[self.place_of_data() + BEFORE_DATA.len()..self.json.len() - 1]
    }

    fn place_of_data(&self) -> usize {
        self.json.find(BEFORE_DATA).expect("a draft puts it there")
    }

    /// The encoded form in `slot`, made by `encode` on first need: everybody is handed the same
    /// one. Which slots there are is the caller's to say.
    pub fn frame(&self, slot: usize, encode: impl FnOnce(&Self) -> F) -> &F {
        self.frames.get_or_make(slot, || encode(self))
    }

    /// The encoded form in `slot`, if it has been made.
    pub fn made_frame(&self, slot: usize) -> Option<&F> {
        self.frames.get(slot)
    }

    /// What is kept of an encoded form beside its bytes.
    pub(crate) const FRAME_BYTES: usize = Frames::<F>::FRAME_BYTES;

    /// Forgets the encoded forms. They are made again for whoever needs one.
    pub(crate) fn forget_frames(&mut self) {
        self.frames = Frames::default();
    }
}

/// The id in an event's line, or what stands in its place; `None` of what is no such line.
fn id_of(line: &str) -> Option<&str> {
    let (id, rest) = line.strip_prefix(BEFORE_ID)?.split_at_checked(ID_LEN)?;
    let (_, behind) = rest.strip_prefix(BEFORE_SUBJECT)?.split_once(BEFORE_DATA)?;
    let is_line = behind.ends_with('}') && !rest.bytes().any(|byte| matches!(byte, b'\n' | b'\r'));
    is_line.then_some(id)
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

#[cfg(test)]
mod tests;
