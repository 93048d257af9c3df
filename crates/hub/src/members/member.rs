//! A user in a room: how many connections it has there, and what others were told of it.

use super::info::Info;
use crate::id::{Id, NarrowId};

/// How a connection goes from a room.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Going {
    Away,
    /// It polls, and is likely to come back at once.
    BetweenPolls,
    /// It was not to be there.
    AtOnce,
}

/// What a connection shows of its user, and how many may be there.
#[derive(Clone, Copy)]
pub(super) struct Shown<'i> {
    pub(super) info: Option<&'i Info>,
    /// Where there is a bound, what is told of a user stays what it is.
    pub(super) most: Option<usize>,
    /// A poll has shown it.
    pub(super) by_poll: bool,
}

/// A user in a room.
#[derive(Debug)]
pub(super) struct Member {
    sub: NarrowId,
    /// Its connections that are logged in under the room's id.
    pub(super) conns: u32,
    /// What it takes up in a list, once others were told that it is there.
    pub(super) told_bytes: u16,
    /// It waits to be looked at.
    pub(super) is_noted: bool,
    marks: Marks,
}

/// What else is to be known of it when it is looked at.
#[derive(Clone, Copy, Debug, Default)]
struct Marks(u8);

impl Marks {
    /// Its info is another one than was told.
    const RENEWED: u8 = 1;
    /// The last of its connections that has gone was a poll.
    const POLLS: u8 = 2;
    /// Its room is too large to tell more than how many are there.
    const COUNTED_ALONE: u8 = 4;

    fn has(self, mark: u8) -> bool {
        self.0 & mark != 0
    }

    fn set(&mut self, mark: u8, is_so: bool) {
        self.0 = self.0 & !mark | if is_so { mark } else { 0 };
    }
}

impl Member {
    pub(super) fn new(sub: Id) -> Member {
        let (sub, marks) = (sub.into(), Marks::default());
        Member { sub, conns: 0, told_bytes: 0, is_noted: false, marks }
    }

    pub(super) fn sub(&self) -> Id {
        self.sub.id()
    }

    /// Its info is another one than was told.
    pub(super) fn renew(&mut self) {
        self.marks.set(Marks::RENEWED, true);
    }

    /// Whether its info was another one than was told. Now it is told.
    pub(super) fn take_renewed(&mut self) -> bool {
        let is_renewed = self.marks.has(Marks::RENEWED);
        self.marks.set(Marks::RENEWED, false);
        is_renewed
    }

    /// Whether the last of its connections that has gone was a poll.
    pub(super) fn polls(&self) -> bool {
        self.marks.has(Marks::POLLS)
    }

    pub(super) fn set_polls(&mut self, polls: bool) {
        self.marks.set(Marks::POLLS, polls);
    }

    /// Whether its room is too large to tell more than how many are there. All members of a room
    /// say the same, unless they are many: then the room says it.
    pub(super) fn is_counted_alone(&self) -> bool {
        self.marks.has(Marks::COUNTED_ALONE)
    }

    pub(super) fn set_counted_alone(&mut self, is_so: bool) {
        self.marks.set(Marks::COUNTED_ALONE, is_so);
    }

    /// Whether others were told that it is there.
    pub(super) fn is_told(&self) -> bool {
        self.told_bytes > 0
    }
}
