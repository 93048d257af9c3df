//! An event as a record of the log, and back.
//!
//! A record has the event's number, its time, and as its keys the subjects that are kept. So its
//! body has neither the id nor, as a rule, the subject again:
//!
//! ```text
//! tag (5 digits) | the connections left out (16 digits each), if there are any | rest
//! ```
//!
//! The rest is the payload of an event that has a kept subject and a payload alone, and otherwise
//! all that stands behind the id in the event's line. Which of these it is the record's kind says.
//! Where two connections are left out it is the latter. A program that knows of one alone then
//! reads no event, and says so, rather than tell it to somebody who is left out.
//!
//! An event of 100 bytes about an id of 8 is 149 bytes on disk.
//!
//! An update, which is about keys of topics, has two keys more. One is that of all updates, by
//! which they are found one after the other. The other is the id of its publisher, if there is one.
//! They count for the bytes of a rule as if they stood in the line.

use std::fmt::Write;

use hub::{ConnectionId, Draft, Event, EventId, EventParts, LeftOut, LineForm, Payload};
use journal::RecordRead;

/// The rest is the payload, and the key is the subject.
const PLAIN: u8 = 1;
/// A connection is left out.
const EXCEPT: u8 = 2;
/// Two of them are.
const EXCEPT_TWO: u8 = 4;

const TAG: usize = 5;
const ID: usize = 16;

/// Bytes that the line of an event has more than the key and the body of its record, of one with a
/// kept subject and a payload alone and nothing to escape in its id.
pub(crate) const LINE_BYTES_MORE: u64 = 38;

/// What stands before and behind the id in each line.
const BEFORE_ID: &str = "{\"id\":\"";

/// The key of all updates: no id, and no key of anything else.
pub(crate) const UPDATES: &str = "#";

/// The key of the update whose publisher has given it this id.
pub(crate) fn own_key(own_id: &str) -> String {
    format!("#i:{own_id}")
}

/// Bytes of a body at most, of an event whose line has so many.
pub(crate) fn body_max(line: usize) -> usize {
    TAG + LeftOut::MAX * ConnectionId::DIGITS + line
}

/// The kind and the body of an event's record.
pub(crate) fn write<F>(event: &Event<F>) -> (u8, String) {
    let id = event.id();
    let (mut kind, mut body) = (0, String::with_capacity(body_max(event.json().len())));
    body.push_str(&id[id.len() - TAG..]);
    let except = event.except();
    kind |= [0, EXCEPT, EXCEPT_TWO][except.count()];
    for id in except.iter() {
        // A String takes all that is written to it.
        let _ = write!(body, "{id}");
    }
    if event.form() == LineForm::Plain && kind != EXCEPT_TWO {
        kind |= PLAIN;
        body.push_str(event.data());
    } else {
        body.push_str(&event.json()[BEFORE_ID.len() + ID..]);
    }
    (kind, body)
}

/// The event of a record; `None` of what no event was written as.
pub(crate) fn read<F>(record: &RecordRead) -> Option<Event<F>> {
    let body = str::from_utf8(&record.body).ok()?;
    let (tag, mut rest) = body.split_at_checked(TAG)?;
    // The tag alone is of interest here: it is read as every id is.
    let tag = EventId::parse(format!("00000000000{tag}").as_bytes())?.tag();
    let id = EventId::new(record.number, tag);
    let mut except = LeftOut::NOBODY;
    for _ in 0..(record.kind & (EXCEPT | EXCEPT_TWO)) / EXCEPT {
        let (text, behind) = rest.split_at_checked(ConnectionId::DIGITS)?;
        (except, rest) = (except.and(ConnectionId::parse(text)?), behind);
    }
    let event: Event<F> = if record.kind & PLAIN != 0 {
        let about = str::from_utf8(record.keys.first()?).ok()?;
        let payload = Payload::Json(rest);
        let parts = EventParts { about, also: &[], name: None, from: None, payload };
        Draft::of_key(parts).ok()?.numbered(id)
    } else {
        Event::of_line(format!("{BEFORE_ID}{id}{rest}"))?
    };
    Some(event.leaving_out(except))
}

#[cfg(test)]
mod tests {
    use hub::Tag;

    use super::*;

    #[test]
    fn line_of_a_plain_event_is_so_much_longer_than_its_record() {
        for (id, data) in [("a", "1"), ("user:1234", "{\"x\":[1,2,3]}")] {
            let event: Event<()> =
                Draft::new(id, data).unwrap().numbered(EventId::new(5, Tag::of(1)));
            let (kind, body) = write(&event);
            assert_eq!(kind, PLAIN);
            // A short key has a byte for its length.
            let weight = 1 + id.len() + body.len();
            assert_eq!(event.json().len() as u64, weight as u64 + LINE_BYTES_MORE);
        }
    }
}
