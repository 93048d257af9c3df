//! What a node says in the log of who is in a room. A room is a text; so is a user.
//!
//! ```text
//! u8 op, then: W want, U unwant, B begin, E end:  id room
//!              J joined:  id room, id user, u8 whether info, [text info]
//!              L left:    id room, id user
//!              A answered: varint sequence        G gone: varint incarnation
//! ```

use std::sync::Arc;

use crate::wire::{Malformed, Reader, put_id, put_text, put_varint, sequence};

/// One thing that a node says of rooms. See [`Rooms`](crate::Rooms) for what follows from it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RoomNote {
    /// The node wants to know who is in the room.
    Want(Box<str>),
    /// It does not want to know it any more.
    Unwant(Box<str>),
    /// What follows, up to the end, is everybody whom the node has in the room.
    Begin(Box<str>),
    /// The node has this user in the room, with this info.
    Joined {
        /// Which room.
        room: Box<str>,
        /// Who.
        sub: Box<str>,
        /// What is told of the user: one JSON value.
        info: Option<Arc<str>>,
    },
    /// The node has this user in the room no more.
    Left {
        /// Which room.
        room: Box<str>,
        /// Who.
        sub: Box<str>,
    },
    /// What began is at its end.
    End(Box<str>),
    /// The node has said whom it has in all rooms that were wanted for the first time up to this
    /// record; of 0 its next want is one of before, said once more for a node that is new.
    Answered(u64),
    /// The users of a node that is no member any more have had time to come back; of 0 the room
    /// that the node begins next is one of which it tells the count alone.
    Gone(u64),
}

impl RoomNote {
    /// What it counts for in a queue or a record.
    pub(crate) fn bytes(&self) -> usize {
        let texts = match self {
            RoomNote::Want(room)
            | RoomNote::Unwant(room)
            | RoomNote::Begin(room)
            | RoomNote::End(room) => room.len(),
            RoomNote::Joined { room, sub, info } => {
                room.len() + sub.len() + info.as_ref().map_or(0, |info| info.len())
            }
            RoomNote::Left { room, sub } => room.len() + sub.len(),
            RoomNote::Answered(_) | RoomNote::Gone(_) => 0,
        };
        // An op, a flag, and three lengths of at most four bytes, or a number of at most ten.
        texts + 14
    }

    fn op(&self) -> u8 {
        match self {
            RoomNote::Want(_) => b'W',
            RoomNote::Unwant(_) => b'U',
            RoomNote::Begin(_) => b'B',
            RoomNote::Joined { .. } => b'J',
            RoomNote::Left { .. } => b'L',
            RoomNote::End(_) => b'E',
            RoomNote::Answered(_) => b'A',
            RoomNote::Gone(_) => b'G',
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.op());
        match self {
            RoomNote::Want(room)
            | RoomNote::Unwant(room)
            | RoomNote::Begin(room)
            | RoomNote::End(room) => put_id(out, room),
            RoomNote::Joined { room, sub, info } => {
                put_id(out, room);
                put_id(out, sub);
                out.push(u8::from(info.is_some()));
                info.iter().for_each(|info| put_text(out, info));
            }
            RoomNote::Left { room, sub } => {
                put_id(out, room);
                put_id(out, sub);
            }
            RoomNote::Answered(number) | RoomNote::Gone(number) => put_varint(out, *number),
        }
    }

    pub(crate) fn decode(from: &mut Reader<'_>) -> Result<RoomNote, Malformed> {
        Ok(match from.u8()? {
            b'W' => RoomNote::Want(id(from)?),
            b'U' => RoomNote::Unwant(id(from)?),
            b'B' => RoomNote::Begin(id(from)?),
            b'J' => {
                let (room, sub) = (id(from)?, id(from)?);
                let info = if from.flag()? { Some(from.text()?.into()) } else { None };
                RoomNote::Joined { room, sub, info }
            }
            b'L' => RoomNote::Left { room: id(from)?, sub: id(from)? },
            b'E' => RoomNote::End(id(from)?),
            b'A' => RoomNote::Answered(sequence(from.varint()?)?),
            b'G' => RoomNote::Gone(sequence(from.varint()?)?),
            _ => return Err(Malformed::Unknown),
        })
    }
}

fn id(from: &mut Reader<'_>) -> Result<Box<str>, Malformed> {
    Ok(from.id()?.into_boxed_str())
}
