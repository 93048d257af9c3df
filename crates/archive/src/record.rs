//! An event as a record of the log, and back.
//!
//! A record has the event's number, its time and the subjects that are kept as its keys, so its
//! body has neither the id nor, as a rule, the subject again:
//!
//! ```text
//! tag (5 digits) | the connection left out (16 digits), if there is one | rest
//! ```
//!
//! The rest is the payload of an event that has a kept subject and a payload alone, and otherwise
//! all that stands behind the id in the event's line. Which of these it is the record's kind says.
//! An event of 100 bytes about an id of 8 is 149 bytes on disk.

use std::fmt::Write;

use hub::{ConnectionId, Draft, Event, EventId, LineForm};
use journal::RecordRead;

/// The rest is the payload, and the key is the subject.
const PLAIN: u8 = 1;
/// A connection is left out.
const EXCEPT: u8 = 2;

const TAG: usize = 5;
const ID: usize = 16;

/// What stands before and behind the id in each line.
const BEFORE_ID: &str = "{\"id\":\"";

/// Bytes of a body at most, of an event whose line has so many.
pub(crate) fn body_max(line: usize) -> usize {
    TAG + ConnectionId::DIGITS + line
}

/// The kind and the body of an event's record.
pub(crate) fn write<F>(event: &Event<F>) -> (u8, String) {
    let id = event.id();
    let (mut kind, mut body) = (0, String::with_capacity(body_max(event.json().len())));
    body.push_str(&id[id.len() - TAG..]);
    if let Some(except) = event.except() {
        kind |= EXCEPT;
        // A String takes all that is written to it.
        let _ = write!(body, "{except}");
    }
    if event.form() == LineForm::Plain {
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
    let mut except = None;
    if record.kind & EXCEPT != 0 {
        let (text, behind) = rest.split_at_checked(ConnectionId::DIGITS)?;
        (except, rest) = (Some(ConnectionId::parse(text)?), behind);
    }
    let event: Event<F> = if record.kind & PLAIN != 0 {
        let about = str::from_utf8(record.keys.first()?).ok()?;
        Draft::new(about, rest).ok()?.numbered(id)
    } else {
        Event::of_line(format!("{BEFORE_ID}{id}{rest}"))?
    };
    Some(match except {
        Some(except) => event.leaving_out(except),
        None => event,
    })
}
