//! An event: a payload about a subject, made once and shared by everybody who hears it.
//!
//! The JSON line is put together once, when the event is made. What a transport puts around it is
//! encoded once per format, on first need, by whoever needs it first; from then on a delivery is
//! a pointer to those bytes.

mod line;

use std::borrow::Cow;
use std::iter;

use smallvec::SmallVec;
use thiserror::Error;

pub use self::line::LINE_BYTES;
use self::line::{BEFORE_ID, NO_ID, Parts};
use crate::connection_id::{ConnectionId, LeftOut};
use crate::event_id::{EventId, ID_LEN, Tag};
use crate::frames::Frames;
use crate::id::{IdError, IdText};

/// One event. `F` is its form in one format; the hub does not look inside.
#[derive(Debug)]
pub struct Event<F> {
    number: u64,
    /// Its line. The ids of connections that are left out stand behind that, and the parts say how
    /// many: so an event that leaves out nobody has no bytes for it.
    text: Box<str>,
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

/// What an event is made of.
#[derive(Clone, Copy, Debug)]
pub struct EventParts<'a> {
    /// The id of the first subject.
    pub about: &'a str,
    /// The ids of the others.
    pub also: &'a [&'a str],
    /// What kind of event it is, in its sender's words.
    pub name: Option<&'a str>,
    /// The id of who sent it, where the server knows that for sure.
    pub from: Option<&'a str>,
    /// What is told.
    pub payload: Payload<'a>,
}

/// What an event tells.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// One valid JSON value.
    Json(&'a str),
    /// Any text, which clients hear as a JSON string.
    Text(&'a str),
}

impl Payload<'_> {
    /// Bytes as its sender counts them: without what JSON escapes.
    pub fn len(&self) -> usize {
        let (Payload::Json(text) | Payload::Text(text)) = self;
        text.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What a line may have, in the order in which versions came to know it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum LineForm {
    /// One subject and a payload.
    #[default]
    Plain,
    /// A name too, or several subjects.
    WithParts,
    /// Who sent it, too.
    WithSender,
}

/// The most subjects of one event.
pub const SUBJECTS_MAX: usize = 100;

/// The longest name of an event, in bytes of UTF-8.
pub const NAME_BYTES_MAX: usize = 200;

/// The longest name of an event about a key, in bytes of UTF-8: as many characters.
pub const KEY_EVENT_NAME_BYTES_MAX: usize = 4 * NAME_BYTES_MAX;

/// Why there is no such event. The message tells its sender what to change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum EventError {
    /// A subject, or who sent it, is no id.
    #[error(transparent)]
    Id(#[from] IdError),
    /// Over [`SUBJECTS_MAX`].
    #[error("an event has at most {SUBJECTS_MAX} subjects in \"about\", this one has {0}")]
    Subjects(usize),
    /// Over [`NAME_BYTES_MAX`].
    #[error("an event's name has at most {NAME_BYTES_MAX} bytes of UTF-8, this one has {0}")]
    Name(usize),
    /// A line has no room for them.
    #[error("the subjects of an event and its name have some 64 KiB together, these have more")]
    SubjectBytes,
}

impl Draft {
    /// A draft about `about`. `data` must be one valid JSON value; line breaks between its tokens
    /// are taken out, because every transport is a line protocol.
    ///
    /// # Errors
    ///
    /// `about` is no id ([`IdText::parse`]).
    pub fn new(about: &str, data: &str) -> Result<Draft, EventError> {
        let payload = Payload::Json(data);
        Draft::of(EventParts { about, also: &[], name: None, from: None, payload })
    }

    /// A draft of all that an event may have. Subjects that are given twice count once.
    ///
    /// # Errors
    ///
    /// A subject or the sender is no id, or there are more subjects, or a longer name, than may be.
    pub fn of(parts: EventParts<'_>) -> Result<Draft, EventError> {
        let EventParts { about, also, name, from, .. } = parts;
        IdText::parse(about)?;
        from.map(IdText::parse).transpose()?;
        let others = other_subjects(about, also, |id| IdText::parse(id).map(drop))?;
        if let Some(name) = name.filter(|name| name.len() > NAME_BYTES_MAX) {
            return Err(EventError::Name(name.len()));
        }
        let line = line::write(EventParts { also: &others, ..parts });
        let (json, parts) = line.expect("so many ids of such a length have their places");
        Ok(Draft { json, parts })
    }

    /// A draft about a [key](crate::Key), or several. Its sender may be any text without control
    /// characters. Subjects that are given twice count once.
    ///
    /// # Errors
    ///
    /// A subject is neither key nor id, there are more than [`SUBJECTS_MAX`], or they have no room,
    /// the sender has control characters, or the name is longer than [`KEY_EVENT_NAME_BYTES_MAX`].
    pub fn of_key(parts: EventParts<'_>) -> Result<Draft, EventError> {
        let EventParts { about, also, name, from, .. } = parts;
        IdText::of_key(about)?;
        let others = other_subjects(about, also, |id| IdText::of_key(id).map(drop))?;
        if let Some(c) = from.and_then(|from| from.chars().find(|c| c.is_control())) {
            return Err(IdError::Forbidden(c).into());
        }
        if let Some(name) = name.filter(|name| name.len() > KEY_EVENT_NAME_BYTES_MAX) {
            return Err(EventError::Name(name.len()));
        }
        let line = line::write(EventParts { also: &others, ..parts });
        let (json, parts) = line.ok_or(EventError::SubjectBytes)?;
        Ok(Draft { json, parts })
    }

    /// The id of the first subject.
    pub fn about(&self) -> Cow<'_, str> {
        self.parts.about(&self.json)
    }

    /// The ids of the other subjects.
    pub fn also(&self) -> impl Iterator<Item = Cow<'_, str>> {
        self.parts.also(&self.json)
    }

    /// The id of who sent it, where it says so.
    pub fn from(&self) -> Option<Cow<'_, str>> {
        self.parts.from(&self.json)
    }

    /// As [`Event::own_id`].
    pub fn own_id(&self) -> Option<&str> {
        line::own_id(self.parts.data(&self.json))
    }

    /// Its payload as it was written.
    pub fn data(&self) -> &str {
        self.parts.data(&self.json)
    }

    /// What `look` makes of all subjects, of which the first one is the first.
    pub fn subjects<T>(&self, look: impl FnOnce(&[IdText<'_>]) -> T) -> T {
        let texts: SmallVec<[Cow<'_, str>; 1]> =
            iter::once(self.about()).chain(self.also()).collect();
        let id = |text| IdText::of_key(text).expect("a draft is about ids, or a key");
        let ids: SmallVec<[IdText<'_>; 1]> = texts.iter().map(|text| id(text)).collect();
        look(&ids)
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
        let (number, text) = (id.number(), self.json.into_boxed_str());
        Event { number, text, parts: self.parts, frames: Frames::default() }
    }
}

/// The subjects of `also` that are not the first one, `about`, each once.
fn other_subjects<'a>(
    about: &str,
    also: &[&'a str],
    check: impl Fn(&str) -> Result<(), IdError>,
) -> Result<SmallVec<[&'a str; 4]>, EventError> {
    let mut others: SmallVec<[&str; 4]> = SmallVec::new();
    for &id in also {
        check(id)?;
        if id != about && !others.contains(&id) {
            others.push(id);
        }
        if others.len() >= SUBJECTS_MAX {
            return Err(EventError::Subjects(1 + also.len()));
        }
    }
    Ok(others)
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
        Some(Event { number, text: line.into_boxed_str(), parts, frames: Frames::default() })
    }

    /// The event, for all of its audience but these connections.
    pub fn leaving_out(mut self, except: LeftOut) -> Event<F> {
        if except.is_nobody() {
            return self;
        }
        assert_eq!(self.parts.followed_by(), 0, "who is left out is said once");
        let mut text = String::from(self.text);
        except.iter().for_each(|id| text.push_str(&id.to_string()));
        (self.text, self.parts) = (text.into_boxed_str(), self.parts.followed(except.count()));
        self
    }

    /// The event, of which those who come back are never told.
    pub fn forgotten(self) -> Event<F> {
        Event { parts: self.parts.forgotten(), ..self }
    }

    /// Whether those who come back are told it, as far as events are remembered.
    pub fn is_remembered(&self) -> bool {
        !self.parts.is_forgotten()
    }

    /// The connections that do not hear it, whatever they are logged in under.
    pub fn except(&self) -> LeftOut {
        if self.parts.followed_by() == 0 {
            return LeftOut::NOBODY;
        }
        let ids = self.text[self.json().len()..].as_bytes().chunks(ConnectionId::DIGITS);
        ids.filter_map(|digits| ConnectionId::parse(str::from_utf8(digits).ok()?)).collect()
    }

    /// The bytes of its text, of which the line is the most.
    pub(crate) fn text_len(&self) -> usize {
        self.text.len()
    }

    /// The number that orders this event among all.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The id as clients see it: [`EventId`] as text.
    pub fn id(&self) -> &str {
        &self.text[BEFORE_ID.len()..BEFORE_ID.len() + ID_LEN]
    }

    /// The whole event as one line of JSON: `{"id":…,"about":…,"data":…}`.
    pub fn json(&self) -> &str {
        let behind = self.parts.followed_by() * ConnectionId::DIGITS;
        &self.text[..self.text.len() - behind]
    }

    /// The id of the first subject.
    pub fn about(&self) -> Cow<'_, str> {
        self.parts.about(self.json())
    }

    /// The ids of the other subjects.
    pub fn also(&self) -> impl Iterator<Item = Cow<'_, str>> {
        self.parts.also(self.json())
    }

    /// What kind of event it is, as JSON has it, without its quotes.
    pub fn name(&self) -> Option<&str> {
        self.parts.name(self.json())
    }

    /// Its name as a JSON string, with its quotes.
    pub fn name_json(&self) -> Option<&str> {
        self.parts.name_json(self.json())
    }

    /// The id of who sent it, where it says so.
    pub fn from(&self) -> Option<Cow<'_, str>> {
        self.parts.from(self.json())
    }

    /// The first form of lines that has all of it.
    pub fn form(&self) -> LineForm {
        let has_parts = self.name().is_some() || self.also().next().is_some();
        match self.from() {
            Some(_) => LineForm::WithSender,
            None if has_parts => LineForm::WithParts,
            None => LineForm::Plain,
        }
    }

    /// The payload as JSON.
    pub fn data(&self) -> &str {
        self.parts.data(self.json())
    }

    /// The id that the publisher of an update about keys has given it, as JSON has it, without its
    /// quotes: then the payload is an object that begins with it.
    pub fn own_id(&self) -> Option<&str> {
        line::own_id(self.data())
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
