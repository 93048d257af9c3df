//! What the kernel keeps for sockets, read at most once a second.
//!
//! It takes two dozen files of the kernel, any of which may make its reader wait while others open
//! and close sockets by the million. So a thread beside the control plane reads them: `/stats`
//! waits for it, and sends do not.

use std::time::{Duration, Instant};

use sys::socket_memory;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

/// A reading serves for so long.
const FRESH: Duration = Duration::from_secs(1);

/// Kernel memory of the machine's sockets, in bytes; `None` for what may not be read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SocketBytes {
    pub(crate) total: Option<u64>,
    pub(crate) buffers: Option<u64>,
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
pub(crate) struct SocketMemoryReader(Mutex<Option<(Instant, SocketBytes)>>);

impl SocketMemoryReader {
    /// The figures, at most a second old.
    pub(crate) async fn read(&self) -> SocketBytes {
        // Held while it is read: who comes in the meantime takes the same reading.
        let mut last = self.0.lock().await;
        match *last {
            Some((at, bytes)) if at.elapsed() < FRESH => bytes,
            _ => {
                // Fails only while the runtime ends.
                let bytes = spawn_blocking(SocketBytes::now).await.unwrap_or_default();
                *last = Some((Instant::now(), bytes));
                bytes
            }
        }
    }
}
