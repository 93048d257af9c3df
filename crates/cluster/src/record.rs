//! A record of the log: one message of the stream, and with it one step of every node.
//!
//! ```text
//! u8 format | u8 kind | u64 incarnation | u64 batch | u64 after | u64 chain | body
//! E events:  u16 count, each: id subject, u32 length, line, u8 flags, [u32 length, Erlang term],
//!            from format 2 on: u8 once, [u128 key, u128 body]
//!            from format 3 on: u8 count, each: id further subject
//!            from format 4 on: u8 bits, [u64 connection left out]
//! G graph:   u64 version, u64 hash, u16 part, u16 parts, u32 changes, each: u8 op, id, id
//! J join:    name, address, u8 format from, u8 format to, u8 founding, [u64 since]
//! L leave:   u64 incarnation, u8 reason         X logout:  id         R revoke: text
//! ```
//!
//! What stands before the body is the same in all formats, so that a node knows a record of a newer
//! version from what is none (`crate::node`). Format 2 is that of events one of which is posted
//! [once](Once), format 3 that of events one of which has several subjects, format 4 that of events
//! one of which names its sender or leaves a connection out, and of nothing else: nodes that read
//! only an earlier one go on beside those that write no such events.
//!
//! `after` is the last sequence that the publisher had read, `chain` its sum over the log up to
//! there (see [`crate::chain`]). In a join `incarnation` is the lot of the process and `batch` its
//! how manyeth try; in a founding one `chain` is the sum of what is behind `since` only. A line is
//! opaque here: 16 zeros stand where the id goes, which is the server's matter. Beside it stands
//! the subject, which a node needs to look up the audience.
//!
//! A record is read in one form only, so what was read is written again byte by byte. Cost: one
//! pass, and two texts an event.

use crate::change::Part;
use crate::limits::{RECORD_BYTES_MAX, RECORD_EVENTS_MAX, RECORD_HEAD_BYTES};
use crate::wire::{Malformed, Reader, put_id, put_text, sequence};

/// The format of messages, and of all records but those of the next one.
pub const FORMAT: u8 = 1;

/// The format of records that have an event with a key.
pub const FORMAT_ONCE: u8 = 2;

/// The format of records that have an event with several subjects.
pub const FORMAT_SUBJECTS: u8 = 3;

/// The format of records that have an event which names its sender, or leaves a connection out.
pub const FORMAT_SENDER: u8 = 4;

/// The latest format that this node reads.
pub const FORMAT_MAX: u8 = FORMAT_SENDER;

const _: () = {
    assert!(FORMAT > 0, "format 0 is none");
    assert!(FORMAT < FORMAT_MAX);
};

/// The bit of an event's flags that says that a term follows. The lower seven are the server's.
const HAS_TERM: u8 = 0x80;

/// The bits of format 4: the line names the sender, a connection that is left out follows.
const HAS_SENDER: u8 = 1;
const HAS_EXCEPT: u8 = 2;

/// A record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Who published it, and what it knew.
    pub head: Head,
    /// What it says.
    pub body: Body,
}

/// What every record begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// The sequence of the publisher's join; in a join the lot of its process.
    pub incarnation: u64,
    /// Counts the publisher's batches; in a join its tries.
    pub batch: u64,
    /// The last sequence that the publisher had read.
    pub after: u64,
    /// Its sum over the log up to `after`.
    pub chain: u64,
}

/// What a record says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Body {
    /// Events, at most [`RECORD_EVENTS_MAX`].
    Events(Vec<Event>),
    /// A change of the graph, or a part of one.
    Graph(Part),
    /// A node joins.
    Join(Join),
    /// A member leaves.
    Leave {
        /// Which one.
        incarnation: u64,
        /// Why.
        reason: LeaveReason,
    },
    /// What every node is to do at this place of the log.
    Order(Order),
}

/// What every node does when all before it is posted, and before anything behind it is. The log
/// counts how many connections it has met.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Order {
    /// All connections of an id end.
    Logout(String),
    /// Tokens are good no more. The text is the server's matter, of at most
    /// [`ID_BYTES_MAX`](crate::limits::ID_BYTES_MAX) bytes.
    Revoke(String),
}

impl Order {
    /// What it counts for in a queue.
    pub(crate) fn bytes(&self) -> usize {
        let (Order::Logout(text) | Order::Revoke(text)) = self;
        text.len() + RECORD_HEAD_BYTES
    }
}

/// An event on its way through the log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Event {
    /// The id that it is about.
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
    /// The id of the connection that does not hear it, wherever it is.
    pub except: Option<u64>,
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
        // Two lengths of four bytes, three bytes of flags, and at most four bytes before the subject.
        let once = if self.once.is_some() { size_of::<Once>() } else { 0 };
        // One byte for how many other subjects there are, and two at least before each.
        let also = self.also.iter().map(|id| id.len() + 4).sum::<usize>() + 1;
        let term = self.term.as_ref().map_or(0, Vec::len);
        let except = if self.except.is_some() { size_of::<u64>() } else { 0 };
        self.subject.len() + also + self.line.len() + term + once + except + 15
    }
}

/// A node joins: the record's sequence is its incarnation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Join {
    /// The node's name, of which there is one member.
    pub name: String,
    /// Where other nodes reach it.
    pub address: String,
    /// The formats of records that it reads: from, to.
    pub formats: (u8, u8),
    /// It knows no sum and no view, and nobody told it: both begin anew with this record. It has
    /// read what is behind this sequence, and `chain` is the sum of that.
    pub founding: Option<u64>,
}

/// Why a member leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeaveReason {
    /// It ends in order.
    Drained,
    /// The others hear nothing of it.
    Silent,
    /// It is too far behind.
    Slow,
}

impl Record {
    /// The record as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let format = self.body.format();
        let mut out = vec![format, self.body.kind()];
        let Head { incarnation, batch, after, chain } = self.head;
        for number in [incarnation, batch, after, chain] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        self.body.encode(format, &mut out);
        out
    }

    /// Reads a record.
    ///
    /// # Errors
    ///
    /// It is of neither format: a node of a newer version has published it, or a stranger.
    pub fn decode(bytes: &[u8]) -> Result<Record, Malformed> {
        if bytes.len() > RECORD_BYTES_MAX {
            return Err(Malformed::Long);
        }
        let mut from = Reader::new(bytes);
        let format = check_format(from.u8()?, FORMAT_MAX)?;
        let kind = from.u8()?;
        let head = Head::decode(&mut from)?;
        let body = Body::decode(kind, format, &mut from)?;
        from.end()?;
        // It has one form.
        if body.format() != format {
            return Err(Malformed::Number);
        }
        Ok(Record { head, body })
    }
}

/// The format, if this node reads it: from the first one to `latest`.
pub(crate) fn check_format(format: u8, latest: u8) -> Result<u8, Malformed> {
    match format {
        0 => Err(Malformed::Unknown),
        _ if format > latest => Err(Malformed::Newer),
        _ => Ok(format),
    }
}

impl Head {
    fn decode(from: &mut Reader<'_>) -> Result<Head, Malformed> {
        Ok(Head {
            incarnation: from.u64()?,
            batch: from.u64()?,
            after: sequence(from.u64()?)?,
            chain: from.u64()?,
        })
    }

    /// What stands in the head of a record of any format, and which that is; `None` where there is
    /// no head, or no letter for its kind.
    pub(crate) fn of_any(bytes: &[u8]) -> Option<(u8, Head)> {
        let mut from = Reader::new(bytes);
        let format = from.u8().ok()?;
        from.u8().ok().filter(u8::is_ascii_uppercase)?;
        Some((format, Head::decode(&mut from).ok()?))
    }
}

impl Body {
    fn kind(&self) -> u8 {
        match self {
            Body::Events(_) => b'E',
            Body::Graph(_) => b'G',
            Body::Join(_) => b'J',
            Body::Leave { .. } => b'L',
            Body::Order(Order::Logout(_)) => b'X',
            Body::Order(Order::Revoke(_)) => b'R',
        }
    }

    /// The first format that has all of it.
    fn format(&self) -> u8 {
        match self {
            Body::Events(events) => events.iter().map(Event::format).max().unwrap_or(FORMAT),
            _ => FORMAT,
        }
    }

    fn encode(&self, format: u8, out: &mut Vec<u8>) {
        match self {
            Body::Events(events) => {
                debug_assert!(events.len() <= RECORD_EVENTS_MAX);
                out.extend_from_slice(&(events.len() as u16).to_be_bytes());
                events.iter().for_each(|event| event.encode(format, out));
            }
            Body::Graph(part) => part.encode(out),
            Body::Join(join) => join.encode(out),
            Body::Leave { incarnation, reason } => {
                out.extend_from_slice(&incarnation.to_be_bytes());
                out.push(*reason as u8);
            }
            Body::Order(Order::Logout(id)) => put_id(out, id),
            Body::Order(Order::Revoke(text)) => put_text(out, text),
        }
    }

    fn decode(kind: u8, format: u8, from: &mut Reader<'_>) -> Result<Body, Malformed> {
        Ok(match kind {
            b'E' => {
                let count = usize::from(from.u16()?);
                if count > RECORD_EVENTS_MAX {
                    return Err(Malformed::Number);
                }
                let event = |_| Event::decode(format, from);
                Body::Events((0..count).map(event).collect::<Result<_, _>>()?)
            }
            b'G' => Body::Graph(Part::decode(from)?),
            b'J' => Body::Join(Join::decode(from)?),
            b'L' => Body::Leave { incarnation: from.u64()?, reason: LeaveReason::of(from.u8()?)? },
            b'X' => Body::Order(Order::Logout(from.id()?)),
            b'R' => Body::Order(Order::Revoke(from.text()?)),
            _ => return Err(Malformed::Unknown),
        })
    }
}

impl Event {
    /// The first format that has all of it.
    fn format(&self) -> u8 {
        match (self.also.is_empty(), self.once.is_none()) {
            _ if self.has_sender || self.except.is_some() => FORMAT_SENDER,
            (true, true) => FORMAT,
            (true, false) => FORMAT_ONCE,
            (false, _) => FORMAT_SUBJECTS,
        }
    }

    fn encode(&self, format: u8, out: &mut Vec<u8>) {
        debug_assert_eq!(self.flags & HAS_TERM, 0, "the bit is the record's own");
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
            out.push(sender | if self.except.is_some() { HAS_EXCEPT } else { 0 });
            self.except.iter().for_each(|id| out.extend_from_slice(&id.to_be_bytes()));
        }
    }

    fn decode(format: u8, from: &mut Reader<'_>) -> Result<Event, Malformed> {
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
        if bits & !(HAS_SENDER | HAS_EXCEPT) != 0 {
            return Err(Malformed::Number);
        }
        let has_sender = bits & HAS_SENDER != 0;
        let except = (bits & HAS_EXCEPT != 0).then(|| from.u64()).transpose()?;
        let flags = flags & !HAS_TERM;
        Ok(Event { subject, also, line, flags, term, once, has_sender, except })
    }
}

fn put_long(out: &mut Vec<u8>, bytes: &[u8]) {
    debug_assert!(bytes.len() <= RECORD_BYTES_MAX);
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(bytes);
}

impl Join {
    fn encode(&self, out: &mut Vec<u8>) {
        put_text(out, &self.name);
        put_text(out, &self.address);
        let founding = u8::from(self.founding.is_some());
        out.extend_from_slice(&[self.formats.0, self.formats.1, founding]);
        if let Some(since) = self.founding {
            out.extend_from_slice(&since.to_be_bytes());
        }
    }

    fn decode(from: &mut Reader<'_>) -> Result<Join, Malformed> {
        let (name, address) = (from.text()?, from.text()?);
        let formats = (from.u8()?, from.u8()?);
        let founding = if from.flag()? { Some(from.u64()?) } else { None };
        Ok(Join { name, address, formats, founding })
    }
}

impl LeaveReason {
    fn of(byte: u8) -> Result<LeaveReason, Malformed> {
        let all = [LeaveReason::Drained, LeaveReason::Silent, LeaveReason::Slow];
        all.into_iter().find(|&reason| reason as u8 == byte).ok_or(Malformed::Number)
    }
}

#[cfg(test)]
mod tests;
