//! Connections that a worker hands out: what their clients ask for is served elsewhere in this
//! process, over the same socket.
//!
//! The worker has read the request's head, and let it in. The connection goes with all that was
//! read of it, by a socket that carries descriptors, since the worker has a table of its own. With
//! it go the keys of TLS where that is spoken. Its place in the worker is free at once. It goes on
//! being counted for its client's address, and for its token, until whoever has it drops it. Where
//! the socket has no room for it, it stays with the worker, which refuses it.
//!
//! Cost: none until a client asks; then two system calls, and a message.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use hub::{AddressKey, Grant};
use minicbor::bytes::ByteVec;
use minicbor::encode::write::Cursor;
use minicbor::{Decode, Encode};
use sys::passing;
use tls::Keys;
use zeroize::{Zeroize, Zeroizing};

use crate::addresses::Addresses;
use crate::client_sends::ClientSendLimits;
use crate::limits::LANE_MESSAGE_BYTES;
use crate::state::Secured;
use crate::tokens::Tokens;

/// What goes along with the descriptor.
#[derive(Default, Encode, Decode)]
#[cbor(map)]
pub(crate) struct Message {
    /// The path of the request, as it was let in.
    #[n(0)]
    path: String,
    /// The page of another origin that may read the answer, and whether with cookies.
    #[n(1)]
    pub(crate) origin: Option<String>,
    #[n(2)]
    pub(crate) credentials: bool,
    /// Whether it has shown a token, and of whom that is.
    #[n(3)]
    has_token: bool,
    #[n(4)]
    subject: Option<String>,
    #[n(5)]
    token: Option<String>,
    /// How often it may send, and how much.
    #[n(6)]
    per_second: u32,
    #[n(7)]
    payload_bytes_max: u64,
    /// For which address it is counted.
    #[n(8)]
    pub(crate) source: Option<u64>,
    #[n(9)]
    read: Option<ByteVec>,
    #[n(10)]
    secured: Option<Secured>,
    /// By what its token is counted, if that is good for so many connections.
    #[n(11)]
    pub(crate) token_use: Option<u64>,
    /// When the token ends, and when it was made.
    #[n(12)]
    expires: Option<u64>,
    #[n(13)]
    issued: Option<u64>,
}

impl Message {
    /// Of a request for `path` whose token has this `grant`.
    pub(crate) fn new(path: &str, grant: Option<&Grant>) -> Message {
        let name = |name: &Option<Box<str>>| name.as_deref().map(str::to_owned);
        Message {
            path: path.to_owned(),
            has_token: grant.is_some(),
            subject: grant.and_then(|grant| name(&grant.subject)),
            token: grant.and_then(|grant| name(&grant.token)),
            expires: grant.and_then(|grant| grant.expires),
            issued: grant.and_then(|grant| grant.issued),
            ..Message::default()
        }
    }

    pub(crate) fn set_limits(&mut self, limits: &ClientSendLimits) {
        self.per_second = limits.per_second;
        self.payload_bytes_max = limits.payload_bytes_max as u64;
    }
}

/// The workers' end of the socket, open in the table of each.
#[derive(Debug)]
pub(crate) struct HandOutSocket(OwnedFd);

/// The other end, which no worker's table has.
#[derive(Debug)]
struct HandOutEnd(OwnedFd);

impl AsFd for HandOutSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsFd for HandOutEnd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl HandOutSocket {
    /// Sends a copy of a connection on. Whether there was room for it.
    pub(crate) fn send(
        &self,
        socket: BorrowedFd<'_>,
        message: Message,
        secured: Option<Secured>,
        read: Vec<u8>,
    ) -> bool {
        // Of the whole length, or it would leave keys behind wherever it has grown from.
        let mut bytes = Zeroizing::new(vec![0; LANE_MESSAGE_BYTES]);
        let message = Message { read: Some(read.into()), secured, ..message };
        let mut cursor = Cursor::new(&mut bytes[..]);
        let is_short = minicbor::encode(&message, &mut cursor).is_ok();
        let len = cursor.position();
        is_short && passing::send(self, &[IoSlice::new(&bytes[..len])], &[socket]).is_ok()
    }
}

/// A connection that was handed out. What is dropped of it is not counted any more.
pub struct HandedOut {
    /// Its socket, which waits for nothing.
    pub socket: OwnedFd,
    /// What was read of it and not dealt with: the head of a request first.
    pub read: Vec<u8>,
    /// Its keys and what was received and not opened, where it speaks TLS.
    pub secured: Option<(Box<Keys>, Vec<u8>)>,
    /// The request that was let in.
    pub request: LetIn,
    /// Counts it as long as it is there.
    pub counted: Counted,
}

/// A request about a durable stream that may be served, or an update of the Mercure protocol.
#[derive(Debug)]
pub struct LetIn {
    /// The path of its target: nothing else was let in.
    pub path: String,
    /// The page of another origin that may read the answer, and whether with cookies.
    pub origin: Option<(String, bool)>,
    /// Whose token it came with, if it came with one: its subject, its name and its times alone.
    pub holder: Option<Grant>,
    /// How often a client may send, and how much.
    pub limits: ClientSendLimits,
    /// What its client's address is counted under, if that is.
    pub source: Option<AddressKey>,
}

/// Counts a connection for its client's address, and for its token, until it is dropped.
pub struct Counted {
    counts: Counts,
    source: Option<AddressKey>,
    token_use: Option<u64>,
}

/// Where they are counted.
#[derive(Clone)]
struct Counts {
    addresses: Arc<Addresses>,
    tokens: Arc<Tokens>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(source) = self.source {
            self.counts.addresses.disconnect(source);
        }
        if let Some(token_use) = self.token_use {
            self.counts.tokens.uses.give_back(token_use);
        }
    }
}

/// Where connections come that workers hand out: somebody must take them.
#[derive(Clone)]
pub struct HandOuts {
    receiver: Arc<HandOutEnd>,
    counts: Counts,
}

impl AsFd for HandOuts {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.receiver.as_fd()
    }
}

/// Takes connections, one after the other.
pub struct HandOutReceiver {
    hand_outs: HandOuts,
    /// The one buffer for messages, wiped behind each: keys of TLS are among them.
    bytes: Zeroizing<Vec<u8>>,
}

impl HandOuts {
    /// A socket for workers whose clients are counted in `addresses`, and in `tokens`.
    pub(crate) fn new(
        addresses: &Arc<Addresses>,
        tokens: &Arc<Tokens>,
    ) -> io::Result<(Arc<HandOutSocket>, HandOuts)> {
        let (worker, receiver) = passing::message_pair(4 * LANE_MESSAGE_BYTES)?;
        let receiver = Arc::new(HandOutEnd(receiver));
        let counts = Counts { addresses: Arc::clone(addresses), tokens: Arc::clone(tokens) };
        let hand_outs = HandOuts { receiver, counts };
        Ok((Arc::new(HandOutSocket(worker)), hand_outs))
    }

    /// Takes them.
    pub fn receiver(&self) -> HandOutReceiver {
        HandOutReceiver {
            hand_outs: self.clone(),
            bytes: Zeroizing::new(vec![0; LANE_MESSAGE_BYTES]),
        }
    }
}

impl HandOutReceiver {
    /// The next one; nothing where it came to grief on the way.
    ///
    /// # Errors
    /// `WouldBlock` where there is none; `UnexpectedEof` when the workers are gone; others where
    /// the kernel has no memory, for example: the next call may fare better.
    pub fn receive(&mut self) -> io::Result<Option<HandedOut>> {
        let mut sockets = Vec::new();
        let len = match passing::receive(&self.hand_outs, &mut self.bytes, &mut sockets) {
            // No message is empty.
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            // There was no descriptor for it: what was read tells for whom it is counted.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => self.bytes.len(),
            received => received?,
        };
        let message = minicbor::decode::<Message>(&self.bytes[..len]);
        self.bytes[..len].zeroize();
        let Ok(message) = message else { return Ok(None) };
        let source = message.source.and_then(AddressKey::of_bits);
        let counts = self.hand_outs.counts.clone();
        let counted = Counted { counts, source, token_use: message.token_use };
        let Some(socket) = sockets.pop() else { return Ok(None) };
        Ok(message.handed_out(socket, counted))
    }
}

impl Message {
    /// What it says of the connection on `socket`; nothing where that cannot go on.
    fn handed_out(self, socket: OwnedFd, counted: Counted) -> Option<HandedOut> {
        let Message { path, origin, credentials, has_token, subject, token, .. } = self;
        let (mut read, mut secured) = (self.read.map(Vec::from).unwrap_or_default(), None);
        if let Some(mut of_tls) = self.secured {
            let mut keys = Box::<Keys>::default();
            keys.read_back(of_tls.keys.as_ref()?).then_some(())?;
            // What was opened and not taken came behind all that was.
            read.extend(of_tls.text.take().into_iter().flat_map(Vec::from));
            let sealed = of_tls.sealed.take().map(Vec::from).unwrap_or_default();
            if of_tls.faulty || of_tls.unsent.is_some() {
                return None;
            }
            secured = Some((keys, sealed));
        }
        let holder = has_token.then(|| Grant {
            subject: subject.map(Into::into),
            token: token.map(Into::into),
            expires: self.expires,
            issued: self.issued,
            ..Grant::default()
        });
        let limits = ClientSendLimits {
            without_tokens: false,
            per_second: self.per_second,
            payload_bytes_max: self.payload_bytes_max as usize,
        };
        let origin = origin.map(|origin| (origin, credentials));
        let request = LetIn { path, origin, holder, limits, source: counted.source };
        Some(HandedOut { socket, read, secured, request, counted })
    }
}
