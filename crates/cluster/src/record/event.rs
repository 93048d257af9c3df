//! An event in a record: what it is, and how each format has it.

use super::{
    FORMAT, FORMAT_KEYS, FORMAT_ONCE, FORMAT_SENDER, FORMAT_SUBJECTS, FORMAT_TWO, FORMAT_UPDATES,
};
use crate::limits::RECORD_BYTES_MAX;
use crate::wire::{Malformed, Reader, put_id};

/// The bit of an event's flags that says that a term follows. The lower seven are the server's.
const HAS_TERM: u8 = 0x80;

/// The bits of format 4: the line names the sender, a connection that is left out follows.
const HAS_SENDER: u8 = 1;
const HAS_EXCEPT: u8 = 2;

/// The bit of format 5: a second connection that is left out follows.
const HAS_SECOND: u8 = 4;

/// The bit of format 7: the subject is a key.
const HAS_KEY: u8 = 8;

/// The bit of format 8: it is an update, whose topics stand in its line.
const HAS_TOPICS: u8 = 16;

/// An event on its way through the log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Event {
    /// The id that it is about, or the key.
    pub subject: String,
    /// The others, at most 255.
    pub also: Vec<String>,
    /// The line that clients get, with a place for its number.
    pub line: String,
    /// Seven bits of the server's.
    pub flags: u8,
    /// The payload as an Erlang term, where it came as one.
    pub term: Option<Vec<u8>>,
    /// What it is known by, if it is posted once however often it is sent.
    pub once: Option<Once>,
    /// Whether the line names who sent it, which readers of earlier formats take for no event.
    pub has_sender: bool,
    /// The ids of the connections that do not hear it, wherever they are: two at most.
    pub except: Vec<u64>,
    /// Whether the subject is no id: readers of earlier formats know ids alone.
    pub is_of_key: bool,
    /// Whether it is an update of topics. They stand in its line, and not here once more: there may
    /// be a hundred of 4 KiB.
    pub is_update: bool,
}

/// The hashes of an idempotency key and of what is sent with it. The first event of a key in the
/// log is the one that is posted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Once {
    /// Of the key, and of whose it is.
    pub key: u128,
    /// Of what is sent.
    pub body: u128,
}

impl Event {
    /// What it counts for in a queue or a record.
    pub(crate) fn bytes(&self) -> usize {
        // Two lengths of four bytes, three of flags, and at most four bytes before the subject.
        let once = if self.once.is_some() { size_of::<Once>() } else { 0 };
        // One byte for how many other subjects there are, and two at least before each.
        let also = self.also.iter().map(|id| id.len() + 4).sum::<usize>() + 1;
        let term = self.term.as_ref().map_or(0, Vec::len);
        let except = self.except.len() * size_of::<u64>();
        self.subject.len() + also + self.line.len() + term + once + except + 15
    }

    /// The first format that has all of it.
    pub(super) fn format(&self) -> u8 {
        match (self.also.is_empty(), self.once.is_none()) {
            _ if self.is_update => FORMAT_UPDATES,
            _ if self.is_of_key => FORMAT_KEYS,
            _ if self.except.len() > 1 => FORMAT_TWO,
            _ if self.has_sender || !self.except.is_empty() => FORMAT_SENDER,
            (true, true) => FORMAT,
            (true, false) => FORMAT_ONCE,
            (false, _) => FORMAT_SUBJECTS,
        }
    }

    pub(super) fn encode(&self, format: u8, out: &mut Vec<u8>) {
        debug_assert_eq!(self.flags & HAS_TERM, 0, "the bit is the record's own");
        debug_assert!(!self.is_update || !self.has_subjects(), "its topics stand in its line");
        put_id(out, &self.subject);
        put_long(out, self.line.as_bytes());
        out.push(self.flags & !HAS_TERM | if self.term.is_some() { HAS_TERM } else { 0 });
        if let Some(term) = &self.term {
            put_long(out, term);
        }
        if format >= FORMAT_ONCE {
            out.push(u8::from(self.once.is_some()));
            for hash in self.once.iter().flat_map(|once| [once.key, once.body]) {
                out.extend_from_slice(&hash.to_be_bytes());
            }
        }
        if format >= FORMAT_SUBJECTS {
            debug_assert!(self.also.len() <= usize::from(u8::MAX));
            out.push(self.also.len() as u8);
            self.also.iter().for_each(|id| put_id(out, id));
        }
        if format >= FORMAT_SENDER {
            let sender = if self.has_sender { HAS_SENDER } else { 0 };
            let key = if self.is_of_key { HAS_KEY } else { 0 };
            let topics = if self.is_update { HAS_TOPICS } else { 0 };
            debug_assert!(self.except.len() <= 2);
            let except = [0, HAS_EXCEPT, HAS_EXCEPT | HAS_SECOND][self.except.len().min(2)];
            out.push(sender | except | key | topics);
            self.except.iter().for_each(|id| out.extend_from_slice(&id.to_be_bytes()));
        }
    }

    pub(super) fn decode(format: u8, from: &mut Reader<'_>) -> Result<Event, Malformed> {
        let subject = from.id()?;
        let len = from.u32()? as usize;
        let line = str::from_utf8(from.bytes(len)?).map_err(|_| Malformed::Text)?.to_owned();
        let flags = from.u8()?;
        let term = if flags & HAS_TERM == 0 {
            None
        } else {
            let len = from.u32()? as usize;
            Some(from.bytes(len)?.to_vec())
        };
        let once = match format >= FORMAT_ONCE && from.flag()? {
            true => Some(Once { key: from.u128()?, body: from.u128()? }),
            false => None,
        };
        let others = if format >= FORMAT_SUBJECTS { from.u8()? } else { 0 };
        let also = (0..others).map(|_| from.id()).collect::<Result<_, _>>()?;
        let bits = if format >= FORMAT_SENDER { from.u8()? } else { 0 };
        let (has_except, has_second) = (bits & HAS_EXCEPT != 0, bits & HAS_SECOND != 0);
        let second = if format >= FORMAT_TWO { HAS_SECOND } else { 0 };
        let key = if format >= FORMAT_KEYS { HAS_KEY } else { 0 };
        let topics = if format >= FORMAT_UPDATES { HAS_TOPICS } else { 0 };
        let known = HAS_SENDER | HAS_EXCEPT | second | key | topics;
        if bits & !known != 0 || has_second && !has_except {
            return Err(Malformed::Number);
        }
        let (has_sender, is_of_key) = (bits & HAS_SENDER != 0, bits & HAS_KEY != 0);
        let is_update = bits & HAS_TOPICS != 0;
        let ids = [has_except, has_second].into_iter().filter(|has| *has);
        let except = ids.map(|_| from.u64()).collect::<Result<_, _>>()?;
        let flags = flags & !HAS_TERM;
        let event = Event {
            subject,
            also,
            line,
            flags,
            term,
            once,
            has_sender,
            except,
            is_of_key,
            is_update,
        };
        // It has one form.
        if is_update && event.has_subjects() { Err(Malformed::Number) } else { Ok(event) }
    }

    /// Whether it says here what it is about.
    fn has_subjects(&self) -> bool {
        self.is_of_key || !self.subject.is_empty() || !self.also.is_empty()
    }
}

fn put_long(out: &mut Vec<u8>, bytes: &[u8]) {
    debug_assert!(bytes.len() <= RECORD_BYTES_MAX);
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(bytes);
}
