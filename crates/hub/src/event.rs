//! An event: a payload about a subject, made once and shared by everybody who hears it.
//!
//! The JSON line is put together once, when the event is made. What a transport puts around it is
//! encoded at most once per transport, on first need, by whoever needs it first; from then on a
//! delivery is a pointer to those bytes.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many transports may keep a frame of their own on an event.
pub const FRAME_SLOTS: usize = 4;

/// One event. `F` is the transport's encoded form; the hub does not look inside.
#[derive(Debug)]
pub struct Event<F> {
    number: u64,
    json: Box<str>,
    /// Where the payload stands in `json`.
    data_start: usize,
    frames: [OnceLock<F>; FRAME_SLOTS],
}

impl<F> Event<F> {
    /// Makes the event `number` (see [`EventIds`]) about `about`. `data` must be one valid JSON
    /// value; line breaks between its tokens are taken out, because every transport is a line
    /// protocol.
    pub fn new(number: u64, about: &str, data: &str) -> Event<F> {
        let mut json = String::with_capacity(48 + about.len() + data.len());
        json.push_str("{\"id\":\"");
        push_hex(&mut json, number);
        json.push_str("\",\"about\":\"");
        push_escaped(&mut json, about);
        json.push_str("\",\"data\":");
        let data_start = json.len();
        // RFC 8259, section 7: inside a string line breaks are escaped, so what is left of them
        // stands between tokens, where it means nothing.
        json.extend(data.split(['\n', '\r']));
        json.push('}');
        Event { number, json: json.into_boxed_str(), data_start, frames: Default::default() }
    }

    /// The number that orders this event among all.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The id as clients see it: 16 hexadecimal digits, so that text order is time order.
    pub fn id(&self) -> &str {
        &self.json[7..23]
    }

    /// The whole event as one line of JSON: `{"id":…,"about":…,"data":…}`.
    pub fn json(&self) -> &str {
        &self.json
    }

    /// The payload as JSON.
    pub fn data(&self) -> &str {
        &self.json[self.data_start..self.json.len() - 1]
    }

    /// The encoded form in `slot` (below [`FRAME_SLOTS`]), made by `encode` on first need.
    pub fn frame(&self, slot: usize, encode: impl FnOnce(&Self) -> F) -> &F {
        self.frames[slot].get_or_init(|| encode(self))
    }
}

fn push_hex(out: &mut String, number: u64) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for shift in (0..16).rev() {
        out.push(char::from(DIGITS[(number >> (shift * 4) & 15) as usize]));
    }
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
#[derive(Debug, Default)]
pub struct EventIds {
    last: AtomicU64,
}

const SEQUENCE_BITS: u32 = 20;

impl EventIds {
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
    }

    #[test]
    fn frame_is_encoded_once() {
        let event: Event<u32> = Event::new(1, "a", "1");
        let mut encoded = 0;
        for _ in 0..3 {
            event.frame(2, |_| {
                encoded += 1;
                encoded
            });
        }
        assert_eq!(*event.frame(2, |_| unreachable!("made before")), 1);
        assert_eq!(encoded, 1);
    }

    #[test]
    fn ids_grow_when_the_clock_does_not() {
        let ids = EventIds::default();
        let first = ids.next(1_000);
        let second = ids.next(1_000);
        let back = ids.next(10);
        let later = ids.next(2_000);
        assert!(first < second && second < back && back < later);
        assert_eq!(first, 1_000 << SEQUENCE_BITS);
    }
}
