//! What bodies and pieces of streams hold in memory at one time, all requests to a port together.
//!
//! Each may be megabytes long and wait for a client that sends or reads slowly, and there may be
//! thousands of connections with many requests each. Where there is no room the request is refused,
//! and its client comes back: nobody waits for a slow one. What is held is given back with the last
//! reference to it, when the kernel has it.

use std::sync::Arc;

use bytes::Bytes;
use httpd::problem::ApiProblem;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Seconds after which a request may be tried again for which there was no room.
const RETRY_AFTER_SECONDS: u32 = 1;

/// Bytes of one request or answer that need no room. They are as few as a socket holds of each, and
/// who has no more to say is not refused while others hold all room there is.
const FREE_BYTES: usize = 64 << 10;

/// Bytes of bodies at one time, and of what readers have not taken yet.
const BODIES_BYTES_MAX: usize = 256 << 20;
const PIECES_BYTES_MAX: usize = 256 << 20;

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
pub(super) struct Memory(Arc<Semaphore>);

/// Room that is taken.
#[derive(Debug)]
pub(super) struct Room {
    memory: Memory,
    bytes: usize,
    permit: Option<OwnedSemaphorePermit>,
}

/// Bytes with their room.
struct Held {
    bytes: Bytes,
    _room: Room,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Memory {
    /// Room for so many bytes.
    pub(super) fn new(bytes: usize) -> Memory {
        Memory(Arc::new(Semaphore::new(bytes)))
    }

    /// Room for nothing yet.
    pub(super) fn room(&self) -> Room {
        Room { memory: self.clone(), bytes: 0, permit: None }
    }

    /// Holds bytes that are there.
    ///
    /// # Errors
    /// 503: there is no room for them.
    pub(super) fn hold(&self, bytes: Vec<u8>) -> Result<Bytes, ApiProblem> {
        let mut room = self.room();
        room.grow(bytes.len())?;
        Ok(room.hold(bytes.into()))
    }
}

impl Room {
    /// Takes room for so many bytes more.
    ///
    /// # Errors
    /// 503: there is none.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), ApiProblem> {
        let counted = |bytes: usize| bytes.saturating_sub(FREE_BYTES);
        let number = counted(self.bytes + bytes) - counted(self.bytes);
        let number = u32::try_from(number).expect("a body is bounded far below 4 GiB");
        let permit = Arc::clone(&self.memory.0).try_acquire_many_owned(number).map_err(|_| {
            let detail = "Requests about streams hold as much memory as they may. Try again.";
            ApiProblem::unavailable(detail).retry_after(RETRY_AFTER_SECONDS)
        })?;
        self.bytes += bytes;
        match &mut self.permit {
            Some(taken) => taken.merge(permit),
            None => self.permit = Some(permit),
        }
        Ok(())
    }

    /// Holds bytes for which room was taken.
    pub(super) fn hold(self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Held { bytes, _room: self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_bounded_and_given_back_with_the_last_reference_and_who_says_little_needs_none() {
        let memory = Memory::new(10);
        let held = memory.hold(vec![1; FREE_BYTES + 6]).unwrap();
        assert_eq!(held, [1; FREE_BYTES + 6].as_slice());
        let mut room = memory.room();
        room.grow(FREE_BYTES - 1).unwrap();
        room.grow(4).unwrap();
        assert_eq!(room.grow(2).unwrap_err().status(), 503);
        room.grow(1).unwrap();
        let part = held.slice(2..3);
        drop(held);
        let more = || memory.hold(vec![2; FREE_BYTES + 1]);
        assert!(more().is_err(), "a part of it is held");
        assert!(memory.hold(vec![2; FREE_BYTES]).is_ok());
        drop(part);
        assert!(more().is_ok());
    }
}
