//! A record of the log: one message of the stream, and with it one step of every node.
//!
//! ```text
//! u8 format | u8 kind | u64 incarnation | u64 batch | u64 after | u64 chain | body
//! E events:  u16 count, each: id subject, u32 length, line, u8 flags, [u32 length, Erlang term],
//!            from format 2 on: u8 once, [u128 key, u128 body]
//!            from format 3 on: u8 count, each: id further subject
//!            from format 4 on: u8 bits, [u64 connection left out]; from format 5 on two of them
//! G graph:   u64 version, u64 hash, u16 part, u16 parts, u32 changes, each: u8 op, id, id
//! J join:    name, address, u8 format from, u8 format to, u8 founding, [u64 since]
//! L leave:   u64 incarnation, u8 reason         X logout:  id         R revoke: text
//! M members: varint count, each: see `crate::room_note`; from format 5 on
//! ```
//!
//! What stands before the body is the same in all formats, so that a node knows a record of a newer
//! version from what is none (`crate::node`). Format 2 is that of events one of which is posted
//! [once](Once), format 3 that of events one of which has several subjects, format 4 that of events
//! one of which names its sender or leaves a connection out, format 5 that of events one of which
//! leaves out two, format 6 that of who is in a room, and of nothing else, format 7 that of events
//! one of which is about a key and no id: nodes that read only an earlier one go on beside those
//! that write none of that.
//!
//! `after` is the last sequence that the publisher had read, `chain` its sum over the log up to
//! there (see [`crate::chain`]). In a join `incarnation` is the nonce of the process and `batch`
//! its how manyeth try; in a founding one `chain` is the sum of what is behind `since` only. A line
//! is opaque here: 16 zeros stand where the id goes, which is the server's matter. Beside it stands
//! the subject, which a node needs to look up the audience.
//!
//! A record is read in one form only, so what was read is written again byte by byte. Cost: one
//! pass, and two texts an event.

mod event;

pub use self::event::{Event, Once};
use crate::change::Part;
use crate::limits::{RECORD_BYTES_MAX, RECORD_EVENTS_MAX, RECORD_HEAD_BYTES, ROOM_NOTES_MAX};
use crate::room_note::RoomNote;
use crate::wire::{Malformed, Reader, put_id, put_text, put_varint, sequence};

/// The format of messages, and of all records but those of the next one.
pub const FORMAT: u8 = 1;

/// The format of records that have an event with a key.
pub const FORMAT_ONCE: u8 = 2;

/// The format of records that have an event with several subjects.
pub const FORMAT_SUBJECTS: u8 = 3;

/// The format of records that have an event which names its sender, or leaves a connection out.
pub const FORMAT_SENDER: u8 = 4;

/// The format of records that have an event which leaves two connections out.
pub const FORMAT_TWO: u8 = 5;

/// The format of records of who is in a room.
pub const FORMAT_ROOMS: u8 = 6;

/// The format of records that have an event about a key.
pub const FORMAT_KEYS: u8 = 7;

/// The latest format that this node reads.
pub const FORMAT_MAX: u8 = FORMAT_KEYS;

const _: () = {
    assert!(FORMAT > 0, "format 0 is none");
    assert!(FORMAT < FORMAT_MAX);
};

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
    /// The sequence of the publisher's join; in a join the nonce of its process.
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
    /// What a member says of who is in a room, at most [`ROOM_NOTES_MAX`] notes.
    Rooms(Vec<RoomNote>),
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
    /// It is of neither format: a node of a newer version has published it, or a foreign node.
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
            Body::Rooms(_) => b'M',
        }
    }

    /// The first format that has all of it.
    fn format(&self) -> u8 {
        match self {
            Body::Events(events) => events.iter().map(Event::format).max().unwrap_or(FORMAT),
            Body::Rooms(_) => FORMAT_ROOMS,
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
            Body::Rooms(notes) => {
                debug_assert!(notes.len() <= ROOM_NOTES_MAX);
                put_varint(out, notes.len() as u64);
                notes.iter().for_each(|note| note.encode(out));
            }
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
            b'M' => {
                let count = from.items(ROOM_NOTES_MAX)?;
                let note = |_| RoomNote::decode(from);
                Body::Rooms((0..count).map(note).collect::<Result<_, _>>()?)
            }
            _ => return Err(Malformed::Unknown),
        })
    }
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
