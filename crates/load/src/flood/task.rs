//! What a thread of the crowd is to do, and the rate at which it does it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use proto::Transport;

use crate::flood::FloodConfig;
use crate::flood::cursor::Cursor;
use crate::flood::role::{Role, Roles};
use crate::flood::trouble::Trouble;
use crate::target::Target;

/// The key of RFC 6455, section 1.3, for all listeners: random ones keep caches from answering,
/// which an instrument does not speak to.
pub(super) const WEBSOCKET_KEY: &[u8; 24] = b"dGhlIHNhbXBsZSBub25jZQ==";

/// What a thread of the crowd is to do.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) config: Arc<FloodConfig>,
    pub(super) target: Arc<Target>,
    pub(super) sources: Arc<[IpAddr]>,
    pub(super) trouble: Arc<Trouble>,
    pub(super) roles: Roles,
    pub(super) thread: u32,
    pub(super) threads: u32,
    /// Listeners of this thread.
    pub(super) listeners: u32,
    pub(super) streams_max: usize,
}

impl Task {
    /// The number of the listener in the whole crowd.
    pub(super) fn index(&self, slot: u32) -> u32 {
        slot * self.threads + self.thread
    }

    pub(super) fn role(&self, slot: u32) -> Role {
        self.roles.role(self.index(slot))
    }

    /// The address that the listener connects from; `None` is the system's choice.
    pub(super) fn source(&self, slot: u32) -> Option<IpAddr> {
        let index = self.index(slot) as usize;
        (!self.sources.is_empty()).then(|| self.sources[index % self.sources.len()])
    }

    /// Writes the request that opens the listener's stream to `out`. With a `cursor` it asks for
    /// what came after that event.
    ///
    /// A first poll does not wait: the answer to it says that the listener is known, and where the
    /// next one goes on.
    pub(super) fn request(&self, slot: u32, cursor: Option<&Cursor>, out: &mut Vec<u8>) {
        if self.config.transport == Transport::Poll {
            return self.poll(slot, true, cursor, out);
        }
        self.push_start(slot, "", out);
        if let Some(cursor) = cursor {
            out.extend_from_slice(format!("Last-Event-ID: {cursor}\r\n").as_bytes());
        }
        if self.config.transport.is_websocket() {
            client::push_upgrade(WEBSOCKET_KEY, out);
        } else {
            let content_type = self.config.transport.format().content_type();
            out.extend_from_slice(format!("Accept: {content_type}\r\n").as_bytes());
        }
        out.extend_from_slice(b"\r\n");
    }

    /// Writes a poll of the listener to `out`: its first one, or one that goes on.
    pub(super) fn poll(&self, slot: u32, first: bool, cursor: Option<&Cursor>, out: &mut Vec<u8>) {
        let separator = self.target.separator();
        let query = match cursor {
            Some(cursor) if first => format!("{separator}wait=0&after={cursor}"),
            Some(cursor) => format!("{separator}after={cursor}"),
            None if first => format!("{separator}wait=0"),
            None => String::new(),
        };
        self.push_start(slot, &query, out);
        out.extend_from_slice(b"Accept: application/json\r\n\r\n");
    }

    /// Begins a request for the listener's path with `query` behind it.
    fn push_start(&self, slot: u32, query: &str, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(b"GET ");
        let id = self.config.first_id + u64::from(self.index(slot));
        self.target.push_path(id, out);
        out.extend_from_slice(query.as_bytes());
        out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
        out.extend_from_slice(self.target.host.as_bytes());
        out.extend_from_slice(b"\r\n");
        if let Some(tokens) = &self.config.tokens {
            out.extend_from_slice(b"Authorization: Bearer ");
            out.extend_from_slice(tokens.sign(&self.target.id(id)).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// The rate at which connections begin.
#[derive(Debug)]
pub(super) struct Pace {
    /// A second; 0 is without limit.
    rate: f64,
    pub(super) start_ns: u64,
    begun: u64,
}

impl Pace {
    pub(super) fn new(rate: f64, start_ns: u64) -> Pace {
        Pace { rate, start_ns, begun: 0 }
    }

    /// Takes one of those that may begin now; `false` when there is none.
    pub(super) fn take(&mut self, now_ns: u64) -> bool {
        let due = self.due(now_ns) > 0;
        self.begun += u64::from(due);
        due
    }

    /// How many may begin now.
    fn due(&self, now_ns: u64) -> u64 {
        if self.rate == 0.0 {
            return u64::MAX;
        }
        let elapsed = Duration::from_nanos(now_ns.saturating_sub(self.start_ns)).as_secs_f64();
        ((elapsed * self.rate) as u64 + 1).saturating_sub(self.begun)
    }

    /// Milliseconds until the next may begin.
    pub(super) fn wait_ms(&self, now_ns: u64) -> u64 {
        if self.due(now_ns) > 0 {
            return 0;
        }
        let due_ns = self.start_ns + (self.begun as f64 / self.rate * 1e9) as u64;
        due_ns.saturating_sub(now_ns).div_ceil(1_000_000)
    }
}
