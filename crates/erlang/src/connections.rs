//! Which nodes are connected, and which we are connecting to.
//!
//! Two nodes have one connection. Where both begin one at a time, the node of the greater name goes
//! on, and the other gives its own up; where a node comes back before its old connection is
//! known to be dead, it says so and the old one ends. A node that connects to us changes nothing
//! here until it has proved that it knows the cookie: a foreign node can keep no name from anybody.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, Semaphore};

use crate::handshake::Status;
use crate::peer::{End, Peer};

/// All connections to other nodes.
#[derive(Debug)]
pub(crate) struct Connections {
    own_name: Box<str>,
    nodes_max: usize,
    by_name: Mutex<HashMap<Box<str>, Connection>>,
    changed: Notify,
    large_frames: Arc<Semaphore>,
    /// Relaxed, all: each stands for itself.
    numbers: AtomicU32,
    oversized: AtomicU64,
    refused: AtomicU64,
}

/// What there is between us and another node.
#[derive(Debug)]
enum Connection {
    /// We are connecting to it, in the attempt of that number.
    Dialing(u32),
    Up(Arc<Peer>),
}

/// How an attempt to connect begins.
pub(crate) enum Begun<'c> {
    /// There is a connection.
    Connected(Arc<Peer>),
    /// Another attempt is under way.
    Waiting,
    /// There are too many nodes.
    Full,
    /// It is to be made.
    Attempt(Attempt<'c>),
}

impl Connections {
    pub(crate) fn new(own_name: Box<str>, nodes_max: usize) -> Connections {
        Connections {
            own_name,
            nodes_max,
            by_name: Mutex::default(),
            changed: Notify::new(),
            large_frames: Arc::new(Semaphore::new(1)),
            numbers: AtomicU32::new(0),
            oversized: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// The connected node of that name.
    pub(crate) fn peer(&self, name: &str) -> Option<Arc<Peer>> {
        match self.lock().get(name) {
            Some(Connection::Up(peer)) => Some(Arc::clone(peer)),
            _ => None,
        }
    }

    /// All connected nodes.
    pub(crate) fn peers(&self) -> Vec<Arc<Peer>> {
        let up = |connection: &Connection| match connection {
            Connection::Up(peer) => Some(Arc::clone(peer)),
            Connection::Dialing(_) => None,
        };
        self.lock().values().filter_map(up).collect()
    }

    /// Rings whenever a connection begins or ends, or an attempt fails.
    pub(crate) fn changed(&self) -> &Notify {
        &self.changed
    }

    /// A number that no other connection or attempt has.
    pub(crate) fn number(&self) -> u32 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Begins to connect to the node `name`.
    pub(crate) fn dial<'c>(&'c self, name: &'c str) -> Begun<'c> {
        let mut by_name = self.lock();
        let count = by_name.len();
        match by_name.entry(name.into()) {
            Entry::Occupied(there) => match there.get() {
                Connection::Up(peer) => Begun::Connected(Arc::clone(peer)),
                Connection::Dialing(_) => Begun::Waiting,
            },
            Entry::Vacant(_) if count >= self.nodes_max => Begun::Full,
            Entry::Vacant(free) => {
                debug_assert!(count < self.nodes_max);
                let number = self.number();
                free.insert(Connection::Dialing(number));
                Begun::Attempt(Attempt { connections: self, name, number })
            }
        }
    }

    /// What to answer to a node that connects under `name`.
    pub(crate) fn status(&self, name: &str) -> Status {
        let by_name = self.lock();
        if *name == *self.own_name {
            return Status::NotAllowed;
        }
        match by_name.get(name) {
            None if by_name.len() >= self.nodes_max => Status::NotAllowed,
            None => Status::Ok,
            Some(Connection::Dialing(_)) if *name > *self.own_name => Status::OkSimultaneous,
            Some(Connection::Dialing(_)) => Status::Nok,
            Some(Connection::Up(_)) => Status::Alive,
        }
    }

    /// The node of `peer` has connected and proved that it may. A connection that it had is dead,
    /// and an attempt of ours is given up. `false` when there are too many nodes.
    pub(crate) fn admit(&self, peer: &Arc<Peer>) -> bool {
        debug_assert!(*peer.name() != *self.own_name, "a node of our name was refused before");
        let mut by_name = self.lock();
        let count = by_name.len();
        let up = Connection::Up(Arc::clone(peer));
        match by_name.entry(peer.name().into()) {
            Entry::Vacant(_) if count >= self.nodes_max => return false,
            Entry::Vacant(free) => drop(free.insert(up)),
            Entry::Occupied(mut there) => {
                if let Connection::Up(old) = there.insert(up) {
                    old.close(End::Superseded);
                }
            }
        }
        debug_assert!(by_name.len() <= self.nodes_max);
        drop(by_name);
        self.changed.notify_waiters();
        true
    }

    /// The connection to the node of `peer` has ended.
    pub(crate) fn forget(&self, peer: &Arc<Peer>) {
        let is_it =
            |there: &Connection| matches!(there, Connection::Up(up) if Arc::ptr_eq(up, peer));
        self.remove_if(peer.name(), is_it);
    }

    fn remove_if(&self, name: &str, is_it: impl FnOnce(&Connection) -> bool) {
        let mut by_name = self.lock();
        if by_name.get(name).is_some_and(is_it) {
            by_name.remove(name);
        }
        drop(by_name);
        self.changed.notify_waiters();
    }

    /// Frames that were too long to be read.
    pub(crate) fn oversized(&self) -> u64 {
        self.oversized.load(Ordering::Relaxed)
    }

    pub(crate) fn count_oversized(&self) {
        self.oversized.fetch_add(1, Ordering::Relaxed);
    }

    /// The place for a large frame.
    pub(crate) fn large_frames(&self) -> &Arc<Semaphore> {
        &self.large_frames
    }

    /// Handshakes of nodes that connected, and failed.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    pub(crate) fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Each change of the table is one insert or remove.
    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Connection>> {
        self.by_name.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An attempt of ours to connect. Dropping it lets others try.
pub(crate) struct Attempt<'c> {
    connections: &'c Connections,
    name: &'c str,
    number: u32,
}

impl Attempt<'_> {
    /// The handshake is done. `false` when the node has connected to us meanwhile.
    pub(crate) fn done(self, peer: &Arc<Peer>) -> bool {
        debug_assert_eq!(peer.name(), self.name, "another node has answered");
        let mut by_name = self.connections.lock();
        match by_name.get_mut(self.name) {
            Some(there) if there.is_attempt(self.number) => {
                // The end of the attempt tells those who wait.
                *there = Connection::Up(Arc::clone(peer));
                true
            }
            _ => false,
        }
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.connections.remove_if(self.name, |there| there.is_attempt(self.number));
    }
}

impl Connection {
    fn is_attempt(&self, number: u32) -> bool {
        matches!(self, Connection::Dialing(attempt) if *attempt == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(name: &str, number: u32) -> Arc<Peer> {
        Arc::new(Peer::new(name.into(), 7, false, number, 100))
    }

    #[test]
    fn node_that_connects_changes_nothing_before_it_is_admitted() {
        let ours = Connections::new("m@h".into(), 2);
        let Begun::Attempt(attempt) = ours.dial("z@h") else { panic!("nothing is there") };
        assert_eq!(ours.status("z@h"), Status::OkSimultaneous);
        assert_eq!(ours.status("z@h"), Status::OkSimultaneous, "asking again changes nothing");
        assert!(matches!(ours.dial("z@h"), Begun::Waiting));
        assert!(attempt.done(&peer("z@h", 1)) && ours.peer("z@h").is_some());
        assert_eq!(ours.status("z@h"), Status::Alive);
        let Begun::Attempt(attempt) = ours.dial("a@h") else { panic!("nothing is there") };
        assert_eq!(ours.status("a@h"), Status::Nok, "ours goes on");
        drop(attempt);
        assert_eq!((ours.status("a@h"), ours.status("m@h")), (Status::Ok, Status::NotAllowed));
    }

    #[test]
    fn node_that_is_admitted_ends_its_old_connection_and_our_attempt() {
        let ours = Connections::new("m@h".into(), 2);
        let (old, new) = (peer("z@h", 1), peer("z@h", 2));
        let Begun::Attempt(attempt) = ours.dial("z@h") else { panic!("nothing is there") };
        assert!(ours.admit(&old) && !attempt.done(&peer("z@h", 3)));
        assert!(old.is_open() && ours.admit(&new) && !old.is_open());
        ours.forget(&old);
        assert!(ours.peer("z@h").is_some_and(|up| Arc::ptr_eq(&up, &new)));
        assert!(ours.admit(&peer("a@h", 4)) && !ours.admit(&peer("b@h", 5)));
        assert_eq!(ours.status("b@h"), Status::NotAllowed, "there are enough");
        assert!(matches!(ours.dial("b@h"), Begun::Full));
        ours.forget(&new);
        assert_eq!(ours.status("b@h"), Status::Ok);
    }
}
