//! Connections that a worker hands out: what their clients ask for is served elsewhere in this
//! process, over the same socket.
//!
//! The worker has read the request's head, and let it in. The connection goes with all that was
//! read of it, by a socket that carries descriptors, since the worker has a table of its own; with
//! the keys of TLS where that is spoken. Its place in the worker is free at once. It goes on being
//! counted for its client's address until whoever has it drops it.
//!
//! Cost: none until a client asks; then two system calls, and a message.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use hub::{AddressKey, Grant};
use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use sys::passing;
use tls::Keys;

use crate::addresses::Addresses;
use crate::client_sends::ClientSendLimits;
use crate::limits::LANE_MESSAGE_BYTES;
use crate::state::Secured;

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
    /// Sends a connection on. Whether there was room: else its client is gone with the descriptor.
    pub(crate) fn send(
        &self,
        socket: &OwnedFd,
        message: Message,
        secured: Option<Secured>,
        read: Vec<u8>,
    ) -> bool {
        let mut bytes = Vec::new();
        let message = Message { read: Some(read.into()), secured, ..message };
        // Into memory nothing fails.
        let _ = minicbor::encode(&message, &mut bytes);
        bytes.len() <= LANE_MESSAGE_BYTES
            && passing::send(self, &[IoSlice::new(&bytes)], &[socket.as_fd()]).is_ok()
    }
}

/// A connection that was handed out. What is dropped of it is not counted any more.
pub struct HandedOut {
    /// Its socket, which waits for nothing.
    pub socket: OwnedFd,
    /// What was read of it and not dealt with: the head of a request first.
    pub read: Vec<u8>,
    /// Its keys and what was received and not opened, where it speaks TLS.
    pub secured: Option<(Keys, Vec<u8>)>,
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
    /// Whose token it came with, if it came with one: its subject and its name alone.
    pub holder: Option<Grant>,
    /// How often a client may send, and how much.
    pub limits: ClientSendLimits,
}

/// Counts a connection for its client's address until it is dropped.
pub struct Counted {
    addresses: Arc<Addresses>,
    source: Option<AddressKey>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(source) = self.source {
            self.addresses.disconnect(source);
        }
    }
}

/// Where connections come that workers hand out: somebody must take them.
#[derive(Clone)]
pub struct HandOuts {
    receiver: Arc<HandOutEnd>,
    addresses: Arc<Addresses>,
}

impl AsFd for HandOuts {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.receiver.as_fd()
    }
}

impl HandOuts {
    /// A socket for workers whose clients are counted in `addresses`.
    pub(crate) fn new(addresses: &Arc<Addresses>) -> io::Result<(Arc<HandOutSocket>, HandOuts)> {
        let (worker, receiver) = passing::message_pair(4 * LANE_MESSAGE_BYTES)?;
        let receiver = Arc::new(HandOutEnd(receiver));
        let hand_outs = HandOuts { receiver, addresses: Arc::clone(addresses) };
        Ok((Arc::new(HandOutSocket(worker)), hand_outs))
    }

    /// The next one; nothing where it came to grief on the way.
    ///
    /// # Errors
    /// `WouldBlock` where there is none; others when the workers are gone.
    pub fn receive(&self) -> io::Result<Option<HandedOut>> {
        let (mut bytes, mut sockets) = (vec![0; LANE_MESSAGE_BYTES], Vec::new());
        let len = match passing::receive(self, &mut bytes, &mut sockets) {
            // No message is empty.
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            // There was no descriptor for it: what was read tells for whom it is counted.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => bytes.len(),
            received => received?,
        };
        let Ok(message) = minicbor::decode::<Message>(&bytes[..len]) else { return Ok(None) };
        let source = message.source.and_then(AddressKey::of_bits);
        let counted = Counted { addresses: Arc::clone(&self.addresses), source };
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
            let keys = Keys::read_back(of_tls.keys.as_ref()?)?;
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
            ..Grant::default()
        });
        let limits = ClientSendLimits {
            without_tokens: false,
            per_second: self.per_second,
            payload_bytes_max: self.payload_bytes_max as usize,
        };
        let origin = origin.map(|origin| (origin, credentials));
        let request = LetIn { path, origin, holder, limits };
        Some(HandedOut { socket, read, secured, request, counted })
    }
}
