//! The connections of a lane.

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use engine::{Event, Receipt};
use smallvec::SmallVec;

use crate::api::{AnswerAtOnce, PostedAppend};

/// A connection of a sender.
#[derive(Debug)]
pub(super) struct Conn {
    /// What the control plane calls it.
    pub(super) id: u64,
    pub(super) peer: IpAddr,
    pub(super) socket: OwnedFd,
    /// The begin of a request, or that of the append that is under way and what is behind it.
    pub(super) input: Vec<u8>,
    /// What is not answered, in the order of the requests.
    pub(super) asked: SmallVec<[Asked; 1]>,
    /// A request of it was answered here.
    pub(super) has_served: bool,
    /// When it was leased, or answered last.
    pub(super) since_ms: u64,
    /// There may be something to read that is not reported again.
    pub(super) unread: bool,
    /// It is to be read again in the next turn.
    pub(super) is_again: bool,
    /// Since when there is no room for its next event, or no turn.
    pub(super) held_since_ms: Option<u64>,
    /// It stands in the list of those that wait.
    pub(super) is_waiting: bool,
    /// It goes back once it is answered.
    pub(super) leaves: bool,
}

impl Conn {
    /// One that is leased at `now_ms`.
    pub(super) fn leased(id: u64, peer: IpAddr, socket: OwnedFd, now_ms: u64) -> Conn {
        Conn {
            id,
            peer,
            socket,
            input: Vec::new(),
            asked: SmallVec::new(),
            has_served: false,
            since_ms: now_ms,
            unread: false,
            is_again: false,
            held_since_ms: None,
            is_waiting: false,
            leaves: false,
        }
    }
}

/// A request that is not answered.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) awaited: Awaited,
    pub(super) accepted: Instant,
}

/// What it waits for.
#[derive(Debug)]
pub(super) enum Awaited {
    /// A send that is posted.
    Event { event: Arc<Event>, receipt: Receipt, answer: AnswerAtOnce },
    /// An append that is under way, the last one that is asked for: its request, of so many bytes,
    /// is the first one that is unread. It is done elsewhere where it could not be done.
    Append { append: PostedAppend, bytes: usize },
}

impl Asked {
    pub(super) fn is_ready(&self) -> bool {
        match &self.awaited {
            Awaited::Event { receipt, .. } => receipt.ready().is_some(),
            Awaited::Append { append, .. } => append.is_done(),
        }
    }
}

/// Connections by index.
#[derive(Debug, Default)]
pub(super) struct Slots {
    conns: Vec<Option<Conn>>,
    free: Vec<u32>,
}

impl Slots {
    pub(super) fn insert(&mut self, conn: Conn) -> u32 {
        if let Some(index) = self.free.pop() {
            let before = self.conns[index as usize].replace(conn);
            debug_assert!(before.is_none(), "somebody's connection would be closed without a word");
            return index;
        }
        self.conns.push(Some(conn));
        (self.conns.len() - 1) as u32
    }

    pub(super) fn get(&mut self, index: u32) -> Option<&mut Conn> {
        self.conns.get_mut(index as usize)?.as_mut()
    }

    pub(super) fn remove(&mut self, index: u32) -> Option<Conn> {
        let conn = self.conns.get_mut(index as usize)?.take()?;
        self.free.push(index);
        debug_assert!(self.free.len() <= self.conns.len(), "a place was freed twice");
        Some(conn)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.free.len() == self.conns.len()
    }

    /// The indices of those for which `wanted` holds.
    pub(super) fn of(&self, wanted: impl Fn(&Conn) -> bool) -> Vec<u32> {
        let all = (0..).zip(&self.conns);
        let wanted = |(index, conn): (u32, &Option<Conn>)| wanted(conn.as_ref()?).then_some(index);
        all.filter_map(wanted).collect()
    }
}
