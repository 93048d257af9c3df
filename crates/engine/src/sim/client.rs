//! What the model remembers of clients and events.

use std::collections::VecDeque;

use hub::ConnectionId;
use proto::{Carrier, Transport};

use super::server::Place;
use crate::receipt::Receipt;

/// A client, as it is and as the model sees it.
pub(super) struct Client {
    pub(super) place: Place,
    /// The id of the path.
    pub(super) first_id: String,
    /// The ids that it is logged in under now.
    pub(super) ids: Vec<String>,
    pub(super) transport: Transport,
    pub(super) carrier: Carrier,
    /// How many bytes its request has.
    pub(super) head_len: usize,
    /// What of the request, and of the commands after it, is still to be sent.
    pub(super) unsent: Vec<u8>,
    /// How many bytes it has to say, sent or not.
    pub(super) said: usize,
    /// Commands that the server has not read, and after how many bytes it has read each.
    pub(super) commands: VecDeque<(usize, Said)>,
    /// Reads all at once and never leaves by itself: must never lose anything.
    pub(super) diligent: bool,
    pub(super) dawdles: bool,
    pub(super) connected_ms: u64,
    /// What its connection is called, once somebody has looked.
    pub(super) connection_id: Option<ConnectionId>,
    /// Logged out for good, through the API or by its own close frame.
    pub(super) expelled: bool,
    pub(super) left: bool,
    pub(super) got: Vec<u8>,
    /// Numbers of the events that it must hear, in order.
    pub(super) due: Vec<usize>,
    /// How many events its shard has been handed for it.
    pub(super) handed: usize,
    /// Bytes of its own that it must read, and after how many events.
    pub(super) replies: Vec<(usize, Vec<u8>)>,
}

/// What a client says on its WebSocket, and the bytes that it is answered with, if any.
pub(super) enum Said {
    Login(Vec<String>, Vec<u8>),
    Logout(Vec<String>, Vec<u8>),
    /// Something that changes nothing.
    Other(Vec<u8>),
    Close,
}

/// An event, and how often it was handed out.
pub(super) struct SentEvent {
    pub(super) id: String,
    pub(super) json: String,
    pub(super) text: String,
    pub(super) receipt: Option<Receipt>,
    pub(super) delivered: u32,
}
