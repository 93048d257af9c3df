//! An event: a payload about a subject, made once and shared by everybody who hears it.
//!
//! The JSON line is put together once, when the event is made. What a transport puts around it is
//! encoded once per transport, on first need, by whoever needs it first; from then on a delivery is
//! a pointer to those bytes.

use std::sync::atomic::{AtomicU64, Ordering};

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

/// What stands before the id in an event's line, and how many digits the id has.
const BEFORE_ID: &str = "{\"id\":\"";
const ID_DIGITS: usize = 16;

/// What stands between the subject and the payload. It does not occur before: in a subject each
/// quote has a backslash before it.
const BEFORE_DATA: &str = "\",\"data\":";

impl Draft {
    /// A draft about `about`. `data` must be one valid JSON value; line breaks between its tokens
    /// are taken out, because every transport is a line protocol.
    pub fn new(about: &str, data: &str) -> Draft {
        let mut json = String::with_capacity(48 + about.len() + data.len());
        json.push_str(BEFORE_ID);
        json.push_str("0000000000000000\",\"about\":\"");
        push_escaped(&mut json, about);
        json.push_str(BEFORE_DATA);
        // RFC 8259, section 7: inside a string line breaks are escaped, so what is left of them
        // stands between tokens, where it means nothing.
        json.extend(data.split(['\n', '\r']));
        json.push('}');
        Draft { json }
    }

    /// The event `number` (see [`EventIds`]).
    pub fn numbered<F>(mut self, number: u64) -> Event<F> {
        let id = BEFORE_ID.len()..BEFORE_ID.len() + ID_DIGITS;
        let digits = hex(number);
        self.json.replace_range(id, str::from_utf8(&digits).expect("digits are ASCII"));
        Event { number, json: self.json.into_boxed_str(), frames: Frames::default() }
    }
}

impl<F> Event<F> {
    /// Makes the event `number` at once, as [`Draft`] does in two steps.
    pub fn new(number: u64, about: &str, data: &str) -> Event<F> {
        Draft::new(about, data).numbered(number)
    }

    /// The number that orders this event among all.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The id as clients see it: 16 hexadecimal digits, so that text order is time order.
    pub fn id(&self) -> &str {
        &self.json[BEFORE_ID.len()..BEFORE_ID.len() + ID_DIGITS]
    }

    /// The whole event as one line of JSON: `{"id":…,"about":…,"data":…}`.
    pub fn json(&self) -> &str {
        &self.json
    }

    /// The payload as JSON. It is searched for: only one transport asks, once, and an event is
    /// shorter without the place.
    pub fn data(&self) -> &str {
        let before = self.json.find(BEFORE_DATA).expect("a draft puts it there");
        &self.json[before + BEFORE_DATA.len()..self.json.len() - 1]
    }

    /// The encoded form in `slot`, made by `encode` on first need: everybody is handed the same
    /// one. Which slots there are is the caller's to say.
    pub fn frame(&self, slot: usize, encode: impl FnOnce(&Self) -> F) -> &F {
        self.frames.get_or_make(slot, || encode(self))
    }

    /// What is kept of an encoded form beside its bytes.
    pub(crate) const FRAME_BYTES: usize = Frames::<F>::FRAME_BYTES;

    /// Forgets the encoded forms. They are made again for whoever needs one.
    pub(crate) fn forget_frames(&mut self) {
        self.frames = Frames::default();
    }
}

fn hex(number: u64) -> [u8; ID_DIGITS] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    std::array::from_fn(|digit| DIGITS[(number >> (60 - 4 * digit) & 15) as usize])
}

/// Ids have no control characters, so only quote and backslash need care (RFC 8259, section 7).
fn push_escaped(out: &mut String, id: &str) {
    for c in id.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
}

/// Gives out event numbers: unique, growing, and growing across restarts too, since the upper
/// 44 bits are milliseconds since 1970 (good until the year 2527).
#[derive(Debug)]
pub struct EventIds {
    last: AtomicU64,
    /// The last one whose event is in every mailbox that it is for.
    posted: AtomicU64,
    /// The number before the first.
    start: u64,
}

const SEQUENCE_BITS: u32 = 20;

impl EventIds {
    /// Numbers from `now_ms` on, which is wall-clock time since 1970.
    pub fn starting_at(now_ms: u64) -> EventIds {
        let start = now_ms << SEQUENCE_BITS;
        EventIds { last: AtomicU64::new(start), posted: AtomicU64::new(start), start }
    }

    /// The next number. `now_ms` is wall-clock time since 1970; when the clock steps back or more
    /// than 2^20 events fall into a millisecond, numbers go on from the last one.
    pub fn next(&self, now_ms: u64) -> u64 {
        let floor = now_ms << SEQUENCE_BITS;
        // Ordering: only the uniqueness of the numbers matters, nothing is published by them.
        let step = |last: u64| Some(floor.max(last + 1));
        match self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step) {
            Ok(last) | Err(last) => floor.max(last + 1),
        }
    }

    /// The greatest number given out; before the first one that of the start.
    pub fn last(&self) -> u64 {
        self.last.load(Ordering::Relaxed)
    }

    /// The event `number`, and with it all before it, is in every mailbox that it is for. Said by
    /// whoever has its turn to post.
    ///
    /// Ordering: releases the posting of the mails, for who then looks into a mailbox.
    pub fn set_posted(&self, number: u64) {
        self.posted.store(number, Ordering::Release);
    }

    /// The last number that [`EventIds::set_posted`] was told. Who then finds a mailbox empty has
    /// taken all mail up to it.
    pub fn posted(&self) -> u64 {
        self.posted.load(Ordering::Acquire)
    }

    /// Whether all events up to `number` are behind us and nothing before the start is asked for:
    /// `false` for the numbers of another server, or of this one before it was started anew.
    pub fn knows(&self, number: u64) -> bool {
        (self.start..=self.last()).contains(&number)
    }
}

/// The text of a number, as [`Event::id`] shows it.
pub fn id_of_number(number: u64) -> String {
    String::from_utf8(hex(number).to_vec()).expect("digits are ASCII")
}

/// The number in an event's id; `None` when the text is none of ours.
pub fn number_of_id(id: &str) -> Option<u64> {
    let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let ours = id.len() == ID_DIGITS && id.bytes().all(digit);
    ours.then(|| u64::from_str_radix(id, 16).expect("sixteen digits fit"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_is_one_line_of_json() {
        let event: Event<()> = Event::new(0x193_0000_0001, "a\"b\\c", "{\n\"x\": [1,\r\n 2]}");
        assert_eq!(
            event.json(),
            r#"{"id":"0000019300000001","about":"a\"b\\c","data":{"x": [1, 2]}}"#
        );
        assert_eq!(event.id(), "0000019300000001");
        assert_eq!(event.data(), r#"{"x": [1, 2]}"#);
        for about in ["\",\"data\":", "\\", "a\\\",\"data\":\\"] {
            assert_eq!(Event::<()>::new(1, about, "[2]").data(), "[2]", "{about}");
        }
    }

    #[test]
    fn id_gives_back_its_number_and_nothing_else_is_one() {
        for number in [0, 1, 0x193_0000_0001, u64::MAX] {
            let event: Event<()> = Draft::new("a", "1").numbered(number);
            assert_eq!((event.number(), number_of_id(event.id())), (number, Some(number)));
            assert_eq!(id_of_number(number), event.id());
        }
        for text in ["", "1", "000001930000000G", "000001930000000A", "00000193000000011", "+1"] {
            assert_eq!(number_of_id(text), None, "{text}");
        }
    }

    #[test]
    fn frame_is_encoded_once() {
        let mut event: Event<u32> = Event::new(1, "a", "1");
        let mut encoded = 0;
        for _ in 0..3 {
            event.frame(2, |_| {
                encoded += 1;
                encoded
            });
        }
        assert_eq!(*event.frame(2, |_| unreachable!("made before")), 1);
        assert_eq!((encoded, *event.frame(0, |_| 7)), (1, 7));
        event.forget_frames();
        assert_eq!(*event.frame(2, |_| 8), 8);
    }

    #[test]
    fn ids_grow_when_the_clock_does_not() {
        let ids = EventIds::starting_at(999);
        let first = ids.next(1_000);
        let second = ids.next(1_000);
        let back = ids.next(10);
        let later = ids.next(2_000);
        assert!(first < second && second < back && back < later);
        assert_eq!(first, 1_000 << SEQUENCE_BITS);
        assert_eq!(ids.last(), later);
        let start = 999 << SEQUENCE_BITS;
        assert!([start, first, later].into_iter().all(|number| ids.knows(number)));
        assert!([0, start - 1, later + 1].into_iter().all(|number| !ids.knows(number)));
    }
}
