//! What the model remembers of clients and events.

use proto::{Framing, Transport};

use crate::receipt::Receipt;
use crate::slab::Key;

/// A client, as it is and as the model sees it.
pub(super) struct Client {
    pub(super) shard: usize,
    pub(super) socket: usize,
    pub(super) key: Key,
    /// The id of the path.
    pub(super) first_id: String,
    /// The ids that it is logged in under now.
    pub(super) ids: Vec<String>,
    pub(super) transport: Transport,
    pub(super) framing: Framing,
    /// What of the head is still to be sent.
    pub(super) unsent_head: Vec<u8>,
    /// Reads all at once and never leaves by itself: must never lose anything.
    pub(super) diligent: bool,
    pub(super) dawdles: bool,
    pub(super) connected_ms: u64,
    /// Logged out through the API.
    pub(super) expelled: bool,
    pub(super) left: bool,
    pub(super) got: Vec<u8>,
    /// Numbers of the events that it must hear, in order.
    pub(super) due: Vec<usize>,
    /// How many events its shard has been handed for it.
    pub(super) handed: usize,
    /// Bytes of its own that it must read, and after how many events.
    pub(super) replies: Vec<(usize, String)>,
}

/// An event, and how often it was handed out.
pub(super) struct SentEvent {
    pub(super) id: String,
    pub(super) json: String,
    pub(super) text: String,
    pub(super) receipt: Option<Receipt>,
    pub(super) delivered: u32,
}
