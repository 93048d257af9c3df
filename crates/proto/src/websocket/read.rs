//! Reading what the other side sends (RFC 6455, sections 5 and 6): frames, from bytes that come in
//! any pieces, to messages and control frames, each handed out as soon as it is whole. A server and
//! a client read the same way; what they read differs in its mask alone, see [`Input`].
//!
//! A frame that stands whole in the input is unmasked there and handed out from there. What comes
//! in pieces is gathered in a buffer of the caller's, which never holds more than the longest
//! message that [`Rules`] let pass and one control frame. Text is checked as it comes.
//!
//! Cost: each byte is unmasked once and looked at once, or twice if its message came in pieces.

mod written;

use crate::websocket::close::may_be_sent;
use crate::websocket::error::ReadError;
use crate::websocket::head::{Head, Opcode, PartialHead};
use crate::websocket::utf8::Utf8;
use crate::websocket::{CONTROL_BYTES_MAX, mask};

/// What one side lets the other send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// The longest message, in bytes as they come, all fragments of it together.
    pub message_bytes_max: usize,
    /// Whether messages may be compressed: the handshake agreed to it.
    pub deflate: bool,
}

/// Something whole that the other side sent.
#[derive(PartialEq, Eq, Debug)]
pub enum Received<'r> {
    /// A text message.
    Text(&'r str),
    /// A binary message.
    Binary(&'r [u8]),
    /// A compressed message, as it came (RFC 7692, section 6).
    Compressed {
        /// Whether it is a text once it is decompressed.
        is_text: bool,
        /// Its bytes, without the tail that every one of them has.
        bytes: &'r [u8],
    },
    /// To be answered by a pong with the same payload, unless a close frame went out before
    /// (section 5.5.2).
    Ping(&'r [u8]),
    /// An answer to a ping, or a sign of life of its own (section 5.5.3).
    Pong(&'r [u8]),
    /// The other side ends the connection and is to be answered by a close frame, unless this is
    /// the answer to ours (section 5.5.1). Whatever follows is skipped.
    Close {
        /// Its code, when it gave one.
        code: Option<u16>,
        /// Its words, for the log.
        reason: &'r str,
    },
}

impl Received<'_> {
    /// Whether it is a frame of control, which may stand between the fragments of a message.
    pub fn is_control(&self) -> bool {
        matches!(self, Received::Ping(_) | Received::Pong(_) | Received::Close { .. })
    }

    /// The bytes of its payload; of a close frame those of its words.
    pub fn len(&self) -> usize {
        match self {
            Received::Text(text) | Received::Close { reason: text, .. } => text.len(),
            Received::Binary(bytes)
            | Received::Compressed { bytes, .. }
            | Received::Ping(bytes)
            | Received::Pong(bytes) => bytes.len(),
        }
    }

    /// Whether its payload is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Bytes that come from one side: those of a client are masked, and unmasked where they stand;
/// those of a server never are (section 5.1).
pub trait Input<'b> {
    /// Whether each payload must be masked, or none may be.
    const MASKED: bool;

    /// All that is left.
    fn bytes(&self) -> &[u8];

    /// Moves past `len` bytes, or all.
    fn skip(&mut self, len: usize);

    /// Takes up to `len` bytes of a payload off the front, unmasked with `key`, which is turned to
    /// the byte behind them.
    fn take(&mut self, len: u64, key: &mut [u8; 4]) -> &'b [u8];
}

/// What a client sends.
impl<'b> Input<'b> for &'b mut [u8] {
    const MASKED: bool = true;

    fn bytes(&self) -> &[u8] {
        self
    }

    fn skip(&mut self, len: usize) {
        let len = len.min(self.len());
        *self = &mut std::mem::take(self)[len..];
    }

    fn take(&mut self, len: u64, key: &mut [u8; 4]) -> &'b [u8] {
        let len = at_most(len, self.len());
        let (piece, rest) = std::mem::take(self).split_at_mut(len);
        *self = rest;
        *key = mask::apply(piece, *key);
        piece
    }
}

/// What a server sends.
impl<'b> Input<'b> for &'b [u8] {
    const MASKED: bool = false;

    fn bytes(&self) -> &[u8] {
        self
    }

    fn skip(&mut self, len: usize) {
        *self = &self[len.min(self.len())..];
    }

    fn take(&mut self, len: u64, _key: &mut [u8; 4]) -> &'b [u8] {
        let (piece, rest) = self.split_at(at_most(len, self.len()));
        *self = rest;
        piece
    }
}

fn at_most(len: u64, there: usize) -> usize {
    usize::try_from(len).map_or(there, |len| len.min(there))
}

/// Where a connection stands between two reads.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    head: PartialHead,
    /// The frame whose payload has not come whole.
    frame: Option<OpenFrame>,
    /// The message whose last frame has not come whole.
    message: Option<OpenMessage>,
    /// Bytes of the buffer that belong to that message. Behind them may be a control frame.
    kept: usize,
    closed: bool,
}

#[derive(Clone, Copy, Debug)]
struct OpenFrame {
    opcode: Opcode,
    fin: bool,
    left: u64,
    /// Turned to the next byte.
    key: [u8; 4],
}

#[derive(Clone, Copy, Debug)]
struct OpenMessage {
    is_text: bool,
    compressed: bool,
    utf8: Utf8,
}

impl Reader {
    /// Whether nothing is half there: then this reader and its buffer may be dropped, and a new one
    /// goes on in its place.
    pub fn is_idle(&self) -> bool {
        self.head.is_empty() && self.frame.is_none() && self.message.is_none() && !self.closed
    }

    /// The next thing that is whole in `input`, which is moved past it; `None` when `input` is used
    /// up. `buffer` starts empty and is left alone between the calls.
    ///
    /// # Errors
    /// The other side broke a rule: [`ReadError::close`] says what to answer. The reader is of no
    /// use any more.
    pub fn next<'b: 'r, 'r>(
        &mut self,
        input: &mut impl Input<'b>,
        buffer: &'r mut Vec<u8>,
        rules: Rules,
    ) -> Result<Option<Received<'r>>, ReadError> {
        debug_assert!(self.kept <= buffer.len(), "the buffer is another one, or was changed");
        debug_assert!(self.message.is_some() || self.kept == 0, "what is kept is of a message");
        if self.frame.is_none() {
            // What was handed out from it is done with.
            buffer.truncate(self.kept);
        }
        loop {
            if self.closed {
                input.skip(usize::MAX);
                return Ok(None);
            }
            let mut frame = match self.frame.take() {
                Some(frame) => frame,
                None => match self.begin(input, rules)? {
                    Some(frame) => frame,
                    None => return Ok(None),
                },
            };
            let piece = input.take(frame.left, &mut frame.key);
            debug_assert!(piece.len() as u64 <= frame.left, "it belongs to the next frame");
            frame.left -= piece.len() as u64;
            let is_control = frame.opcode.is_control();
            let is_alone = frame.left == 0 && frame.fin && buffer.len() == self.kept;
            if !is_control {
                self.check_text(piece, frame, is_alone && self.kept == 0)?;
            }
            if frame.left > 0 {
                buffer.extend_from_slice(piece);
                self.frame = Some(frame);
                return Ok(None);
            }
            if !frame.fin {
                buffer.extend_from_slice(piece);
                self.kept = buffer.len();
                continue;
            }
            let start = if is_control { self.kept } else { 0 };
            let payload = if is_alone && start == self.kept {
                piece
            } else {
                buffer.extend_from_slice(piece);
                &buffer[start..]
            };
            return self.finish(frame.opcode, payload).map(Some);
        }
    }

    /// Reads the head of the next frame and checks it against what came before.
    fn begin<'b, I: Input<'b>>(
        &mut self,
        input: &mut I,
        rules: Rules,
    ) -> Result<Option<OpenFrame>, ReadError> {
        let (len, head) = self.head.gather(input.bytes(), I::MASKED, rules.deflate)?;
        input.skip(len);
        let Some(Head { opcode, fin, compressed, payload_len, key }) = head else {
            return Ok(None);
        };
        match opcode {
            Opcode::Text | Opcode::Binary => {
                if self.message.is_some() {
                    return Err(ReadError::MessageInMessage);
                }
                let is_text = opcode == Opcode::Text;
                self.message = Some(OpenMessage { is_text, compressed, utf8: Utf8::default() });
            }
            Opcode::Continuation if self.message.is_none() => {
                return Err(ReadError::NothingToContinue);
            }
            Opcode::Continuation | Opcode::Close | Opcode::Ping | Opcode::Pong => {}
        }
        let room = rules.message_bytes_max.saturating_sub(self.kept);
        if !opcode.is_control() && payload_len > room as u64 {
            return Err(ReadError::TooLong);
        }
        Ok(Some(OpenFrame { opcode, fin, left: payload_len, key }))
    }

    /// Looks at the next piece of a message. One that is `whole` is looked at when it is finished.
    fn check_text(&mut self, piece: &[u8], frame: OpenFrame, whole: bool) -> Result<(), ReadError> {
        match &mut self.message {
            Some(message) if message.is_text && !message.compressed && !whole => {
                message.utf8.feed(piece)?;
                let ends = frame.fin && frame.left == 0;
                if ends && !message.utf8.is_whole() { Err(ReadError::InvalidUtf8) } else { Ok(()) }
            }
            _ => Ok(()),
        }
    }

    /// Hands out what has come whole.
    fn finish<'r>(&mut self, opcode: Opcode, payload: &'r [u8]) -> Result<Received<'r>, ReadError> {
        debug_assert!(!self.closed, "nothing comes behind a close frame");
        debug_assert!(!opcode.is_control() || payload.len() <= CONTROL_BYTES_MAX);
        match opcode {
            Opcode::Ping => return Ok(Received::Ping(payload)),
            Opcode::Pong => return Ok(Received::Pong(payload)),
            Opcode::Close => {
                let received = close(payload)?;
                self.closed = true;
                return Ok(received);
            }
            Opcode::Continuation | Opcode::Text | Opcode::Binary => {}
        }
        self.kept = 0;
        let message = self.message.take().ok_or(ReadError::NothingToContinue)?;
        if message.compressed {
            return Ok(Received::Compressed { is_text: message.is_text, bytes: payload });
        }
        received(message.is_text, payload)
    }
}

/// A whole message that is not compressed, or no longer.
pub(crate) fn received(is_text: bool, payload: &[u8]) -> Result<Received<'_>, ReadError> {
    if !is_text {
        return Ok(Received::Binary(payload));
    }
    str::from_utf8(payload).map(Received::Text).map_err(|_| ReadError::InvalidUtf8)
}

/// Reads the payload of a close frame (section 5.5.1).
fn close(payload: &[u8]) -> Result<Received<'_>, ReadError> {
    let (code, reason) = match payload {
        [] => return Ok(Received::Close { code: None, reason: "" }),
        [_] => return Err(ReadError::HalfCloseCode),
        [high, low, reason @ ..] => (u16::from_be_bytes([*high, *low]), reason),
    };
    if !may_be_sent(code) {
        return Err(ReadError::InvalidCloseCode);
    }
    let reason = str::from_utf8(reason).map_err(|_| ReadError::InvalidUtf8)?;
    Ok(Received::Close { code: Some(code), reason })
}
