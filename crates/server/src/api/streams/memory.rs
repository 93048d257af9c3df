//! What bodies and pieces of streams hold in memory at one time, all requests to a port together.
//!
//! Each may be megabytes long and wait for a client that sends or reads slowly, and there may be
//! thousands of connections with many requests each. Where there is no room the request is refused,
//! and its client comes back: nobody waits for a slow one. What is held is given back with the last
//! reference to it, when the kernel has it.
//!
//! Of the room for clients of the public port one address has an eighth, and so has one token. One
//! client does not take the room of all, however many requests it makes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::StatusCode;
use bytes::Bytes;
use engine::LetIn;
use httpd::problem::ApiProblem;
use hub::AddressKey;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Seconds after which a request may be tried again for which there was no room.
const RETRY_AFTER_SECONDS: u32 = 1;

/// Bytes of one request or answer that need no room. They are as few as a socket holds of each, and
/// who has no more to say is not refused while others hold all room there is.
const FREE_BYTES: usize = 64 << 10;

/// Bytes of bodies at one time, and of what readers have not taken yet.
const BODIES_BYTES_MAX: usize = 256 << 20;
const PIECES_BYTES_MAX: usize = 256 << 20;

/// What one client may hold of either.
const SHARE: usize = 8;

/// Who holds something: each has a share of its own.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(in crate::api) enum Holder {
    /// All at one address.
    Address(AddressKey),
    /// All who have one token, by its name, or its subject where it has none.
    Token(Box<str>),
    Subject(Box<str>),
}

/// Those who hold what a request holds: none whose shares are not bounded.
pub(in crate::api) type Holders = Arc<[Holder]>;

/// What the requests to one port hold.
#[derive(Debug)]
pub(super) struct StreamsMemory {
    /// Room for bodies, until what they say is done.
    pub(super) bodies: Memory,
    /// Room for what was read, until it is sent.
    pub(super) pieces: Memory,
}

impl Default for StreamsMemory {
    fn default() -> StreamsMemory {
        StreamsMemory {
            bodies: Memory::new(BODIES_BYTES_MAX),
            pieces: Memory::new(PIECES_BYTES_MAX),
        }
    }
}

/// The room for bytes of one kind.
#[derive(Clone, Debug)]
pub(super) struct Memory(Arc<Rooms>);

#[derive(Debug)]
struct Rooms {
    all: Arc<Semaphore>,
    /// Bytes that one may hold.
    share_bytes_max: usize,
    /// Bytes by who holds some: no more of them than requests.
    held: Mutex<HashMap<Holder, usize>>,
}

/// Room that is taken.
#[derive(Debug)]
pub(super) struct Room {
    memory: Memory,
    holders: Holders,
    bytes: usize,
    permit: Option<OwnedSemaphorePermit>,
}

/// Bytes with their room.
struct HeldBytes {
    bytes: Bytes,
    _room: Room,
}

impl AsRef<[u8]> for HeldBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Memory {
    /// Room for so many bytes.
    pub(super) fn new(bytes: usize) -> Memory {
        Memory(Arc::new(Rooms {
            all: Arc::new(Semaphore::new(bytes)),
            share_bytes_max: bytes / SHARE,
            held: Mutex::default(),
        }))
    }

    /// Room for nothing yet, of a request of `holders`.
    pub(super) fn room(&self, holders: &Holders) -> Room {
        Room { memory: self.clone(), holders: Arc::clone(holders), bytes: 0, permit: None }
    }

    /// Room for so many bytes, of a request of `holders`: take it before they are made.
    ///
    /// # Errors
    /// As [`Room::grow`].
    pub(super) fn take(&self, holders: &Holders, bytes: usize) -> Result<Room, ApiProblem> {
        let mut room = self.room(holders);
        room.grow(bytes)?;
        Ok(room)
    }
}

impl Rooms {
    fn held(&self) -> MutexGuard<'_, HashMap<Holder, usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Holder {
    /// Those who hold what this request of the public port does.
    pub(in crate::api) fn all_of(let_in: &LetIn) -> Holders {
        let token = let_in.holder.as_ref().and_then(|grant| match (&grant.token, &grant.subject) {
            (Some(token), _) => Some(Holder::Token(token.clone())),
            (None, Some(subject)) => Some(Holder::Subject(subject.clone())),
            (None, None) => None,
        });
        let_in.source.map(Holder::Address).into_iter().chain(token).collect()
    }
}

impl Room {
    /// Takes room for so many bytes more.
    ///
    /// # Errors
    /// 503: there is none. 429: one who holds it has no more of it.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), ApiProblem> {
        let number = counted(self.bytes + bytes) - counted(self.bytes);
        if number == 0 {
            self.bytes += bytes;
            return Ok(());
        }
        let rooms = &self.memory.0;
        let mut held = rooms.held();
        let held_by = |holder| held.get(holder).copied().unwrap_or(0);
        let is_over = |holder| held_by(holder) + number > rooms.share_bytes_max;
        if self.holders.iter().any(is_over) {
            let detail = "Your requests about streams hold as much memory as those of one client \
                          may. Read the answers to the others, then try again.";
            let problem = ApiProblem::new(StatusCode::TOO_MANY_REQUESTS, detail);
            return Err(problem.retry_after(RETRY_AFTER_SECONDS));
        }
        let permits = u32::try_from(number).expect("a body is bounded far below 4 GiB");
        let permit = Arc::clone(&rooms.all).try_acquire_many_owned(permits).map_err(|_| {
            let detail = "Requests about streams hold as much memory as they may. Try again.";
            ApiProblem::unavailable(detail).retry_after(RETRY_AFTER_SECONDS)
        })?;
        for holder in self.holders.iter() {
            *held.entry(holder.clone()).or_default() += number;
        }
        drop(held);
        self.bytes += bytes;
        match &mut self.permit {
            Some(taken) => taken.merge(permit),
            None => self.permit = Some(permit),
        }
        Ok(())
    }

    /// How many bytes it is for.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Holds bytes for which room was taken, if they are so many that they needed some.
    pub(super) fn hold(self, bytes: Bytes) -> Bytes {
        match self.permit {
            Some(_) => Bytes::from_owner(HeldBytes { bytes, _room: self }),
            None => bytes,
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let number = counted(self.bytes);
        if number == 0 || self.holders.is_empty() {
            return;
        }
        let mut held = self.memory.0.held();
        for holder in self.holders.iter() {
            let Some(bytes) = held.get_mut(holder) else { continue };
            *bytes -= number;
            if *bytes == 0 {
                held.remove(holder);
            }
        }
    }
}

/// Bytes of one request or answer for which room is taken.
fn counted(bytes: usize) -> usize {
    bytes.saturating_sub(FREE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(memory: &Memory, holders: &Holders, bytes: usize) -> Result<Bytes, ApiProblem> {
        Ok(memory.take(holders, bytes)?.hold(vec![1_u8; bytes].into()))
    }

    #[test]
    fn one_who_holds_much_leaves_room_for_others_and_has_it_again() {
        let memory = Memory::new(8 * 100);
        let holders = |name: &str, address| -> Holders {
            let address = Holder::Address(AddressKey::of_bits(address).unwrap());
            [Holder::Subject(name.into()), address].into()
        };
        let hold =
            |name: &str, address, bytes| held(&memory, &holders(name, address), FREE_BYTES + bytes);
        let status = |held: Result<Bytes, ApiProblem>| {
            held.map_or_else(|problem| problem.status().as_u16(), |_| 0)
        };
        let first = hold("bob", 1, 60).unwrap();
        assert_eq!(status(hold("bob", 2, 41)), 429, "the token has so much already");
        assert_eq!(status(hold("eve", 1, 41)), 429, "the address has");
        let second = hold("bob", 1, 40).unwrap();
        assert_eq!(status(hold("bob", 1, 0)), 0, "who says little needs none");
        let others: Vec<Bytes> = (2..9).map(|n| hold(&n.to_string(), n, 100).unwrap()).collect();
        assert_eq!(status(hold("rj", 10, 1)), 503, "all have taken all");
        drop((first, others));
        assert_eq!(status(hold("bob", 2, 60)), 0);
        drop(second);
        assert!(memory.0.held().is_empty(), "nothing is kept of who holds nothing");
        let nobody: Holders = [].into();
        let all = held(&memory, &nobody, FREE_BYTES + 800).unwrap();
        assert_eq!(all.len(), FREE_BYTES + 800);
    }

    #[test]
    fn room_is_bounded_and_given_back_with_the_last_reference_and_who_says_little_needs_none() {
        let memory = Memory::new(10);
        let nobody: Holders = [].into();
        let first = held(&memory, &nobody, FREE_BYTES + 6).unwrap();
        assert_eq!(first, [1; FREE_BYTES + 6].as_slice());
        let mut room = memory.room(&nobody);
        room.grow(FREE_BYTES - 1).unwrap();
        room.grow(4).unwrap();
        assert_eq!(room.grow(2).unwrap_err().status(), 503);
        room.grow(1).unwrap();
        let part = first.slice(2..3);
        drop(first);
        let more = || held(&memory, &nobody, FREE_BYTES + 1);
        assert!(more().is_err(), "a part of it is held");
        assert!(held(&memory, &nobody, FREE_BYTES).is_ok());
        drop(part);
        assert!(more().is_ok());
    }
}
