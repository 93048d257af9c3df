//! What may be set while the engine runs: what is read anew for each request or each timer.
//!
//! It comes to the workers as an [order](crate::mailbox), and counts from their next turn on.
//! Bounds that tables were made for are not among it. A new one is a field here, with its default,
//! and is read where it counts, as `config.settings`.

use crate::client_sends::ClientSendLimits;
use crate::origins::Origins;

/// The settings of an engine that may change while it runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Which browser pages may connect.
    pub origins: Origins,
    /// Silence after which a stream sends a keep-alive, in milliseconds; 0 is never. Where it
    /// changes, a stream that waits for its next one goes by the time from before until then; one
    /// that waits for none, until it hears something.
    pub keepalive_ms: u64,
    /// Time for a client to send its request head, in milliseconds.
    pub head_timeout_ms: u64,
    /// Connections of one id, past which a log-in under it is refused; 0 is any number.
    pub connections_per_id_max: usize,
    /// The longest message of a WebSocket client, in bytes, compressed or not.
    pub message_bytes_max: usize,
    /// What clients may send.
    pub client_sends: ClientSendLimits,
}

impl Default for Settings {
    /// The contract's.
    fn default() -> Settings {
        Settings {
            origins: Origins::default(),
            keepalive_ms: 30_000,
            head_timeout_ms: 10_000,
            connections_per_id_max: 0,
            message_bytes_max: 4 * 1024,
            client_sends: ClientSendLimits::default(),
        }
    }
}
