//! What the kernel keeps for sockets, read at most once a second.
//!
//! The kernel goes through all its slabs for it, which takes some 0.5 ms; a dashboard and a few
//! scrapers together must not make that a load.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sys::socket_memory;

/// A reading serves for so long.
const FRESH: Duration = Duration::from_secs(1);

/// Kernel memory of the machine's sockets, in bytes; `None` for what may not be read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SocketBytes {
    pub(super) total: Option<u64>,
    pub(super) buffers: Option<u64>,
}

impl SocketBytes {
    fn now() -> SocketBytes {
        match socket_memory::socket_memory() {
            Ok(memory) => {
                SocketBytes { total: Some(memory.total()), buffers: Some(memory.buffers) }
            }
            Err(_) => SocketBytes { total: None, buffers: socket_memory::buffers().ok() },
        }
    }
}

/// Reads it, and keeps what it read.
#[derive(Debug, Default)]
pub(super) struct SocketMemoryReader(Mutex<Option<(Instant, SocketBytes)>>);

impl SocketMemoryReader {
    /// The figures, at most a second old.
    pub(super) fn read(&self) -> SocketBytes {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match *last {
            Some((at, bytes)) if at.elapsed() < FRESH => bytes,
            _ => {
                let bytes = SocketBytes::now();
                *last = Some((Instant::now(), bytes));
                bytes
            }
        }
    }
}
