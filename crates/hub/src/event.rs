//! An event: a payload about a subject, made once and shared by everybody who hears it.
//!
//! The JSON line is put together once, when the event is made. What a transport puts around it is
//! encoded once per transport, on first need, by whoever needs it first; from then on a delivery is
//! a pointer to those bytes.

mod line;

use std::borrow::Cow;

use self::line::{BEFORE_DATA, BEFORE_ID, BEFORE_SUBJECT, END, NO_ID, Parts};
use crate::event_id::{EventId, ID_LEN, Tag};
use crate::frames::Frames;
use crate::id::{IdError, IdText};

/// One event. `F` is the transport's encoded form; the hub does not look inside.
#[derive(Debug)]
pub struct Event<F> {
    number: u64,
    json: Box<str>,
    parts: Parts,
    frames: Frames<F>,
}

/// An event that has no number yet: its line is put together while nobody waits, and the number is
/// written into it at the moment that orders it among all others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Draft {
    json: String,
    parts: Parts,
}

impl Draft {
    /// A draft about `about`. `data` must be one valid JSON value; line breaks between its tokens
    /// are taken out, because every transport is a line protocol.
    ///
    /// # Errors
    ///
    /// `about` is no id ([`IdText::parse`]).
    pub fn new(about: &str, data: &str) -> Result<Draft, IdError> {
        IdText::parse(about)?;
        // To the byte, unless something is escaped or taken out: a line that fits is not moved when
        // the room behind it is given back.
        let around = BEFORE_ID.len() + NO_ID.len() + BEFORE_SUBJECT.len() + BEFORE_DATA.len();
        let mut json = String::with_capacity(around + about.len() + data.len() + END.len());
        json.push_str(BEFORE_ID);
        json.push_str(NO_ID);
        json.push_str(BEFORE_SUBJECT);
        line::push_escaped(&mut json, about);
        let about_end = json.len();
        json.push_str(BEFORE_DATA);
        let data_start = json.len();
        // RFC 8259, section 7: inside a string line breaks are escaped, so what is left of them
        // stands between tokens, where it means nothing.
        line::push_without(&mut json, data, |byte| matches!(byte, b'\n' | b'\r'));
        json.push_str(END);
        Ok(Draft { json, parts: Parts::new(about_end, data_start) })
    }

    /// The id of the subject.
    pub fn about(&self) -> Cow<'_, str> {
        self.parts.about(&self.json)
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
        let (id, parts) = line::read(&line)?;
        (id == NO_ID).then_some(())?;
        Some(Draft { json: line, parts })
    }

    /// The event `id` (see [`EventIds::next`](crate::EventIds::next)).
    pub fn numbered<F>(mut self, id: EventId) -> Event<F> {
        let place = BEFORE_ID.len()..BEFORE_ID.len() + ID_LEN;
        let digits = id.digits();
        self.json.replace_range(place, str::from_utf8(&digits).expect("digits are ASCII"));
        let (number, json) = (id.number(), self.json.into_boxed_str());
        Event { number, json, parts: self.parts, frames: Frames::default() }
    }
}

impl<F> Event<F> {
    /// Makes the event `number` of an epoch that nobody serves at once, as [`Draft`] does in two
    /// steps; `None` where `about` is no id.
    pub fn new(number: u64, about: &str, data: &str) -> Option<Event<F>> {
        Some(Draft::new(about, data).ok()?.numbered(EventId::new(number, Tag::of(0))))
    }

    /// The event whose [line](Event::json) this is; `None` of what has another form.
    pub fn of_line(line: String) -> Option<Event<F>> {
        let (id, parts) = line::read(&line)?;
        let number = EventId::parse(id.as_bytes())?.number();
        Some(Event { number, json: line.into_boxed_str(), parts, frames: Frames::default() })
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

    /// The id of the subject.
    pub fn about(&self) -> Cow<'_, str> {
        self.parts.about(&self.json)
    }

    /// The payload as JSON.
    pub fn data(&self) -> &str {
        self.parts.data(&self.json)
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

#[cfg(test)]
mod tests;
