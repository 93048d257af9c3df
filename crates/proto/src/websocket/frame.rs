//! Frames (RFC 6455, section 5), never fragmented: those that a server sends, never masked, and
//! those of a client, always masked.

use crate::Frame;
use crate::websocket::CONTROL_BYTES_MAX;
use crate::websocket::close::{Close, may_be_sent};
use crate::websocket::head::{FIN, MASKED, Opcode};
use crate::websocket::mask;

/// An empty ping, which a browser answers by itself.
pub(crate) const KEEP_ALIVE: &[u8] = &[FIN | Opcode::Ping as u8, 0];

/// The longest head of a frame without a mask: two bytes and a length of eight.
const HEAD_MAX: usize = 10;

/// The first bytes of a frame, up to its payload, on the stack.
pub(crate) struct FrameHead {
    bytes: [u8; HEAD_MAX],
    len: usize,
}

impl FrameHead {
    /// The head of a whole message or control frame; `first` is its first byte, `mask_bit` is added
    /// to the second. The length is written in as few bytes as it takes (section 5.2).
    pub(crate) fn new(first: u8, mask_bit: u8, payload_len: usize) -> FrameHead {
        debug_assert_eq!(mask_bit & 0x7f, 0, "it would change the length");
        let mut bytes = [0; HEAD_MAX];
        bytes[0] = first;
        let len = match payload_len {
            0..=125 => {
                bytes[1] = payload_len as u8;
                2
            }
            126..=0xffff => {
                bytes[1] = 126;
                bytes[2..4].copy_from_slice(&(payload_len as u16).to_be_bytes());
                4
            }
            _ => {
                bytes[1] = 127;
                bytes[2..].copy_from_slice(&(payload_len as u64).to_be_bytes());
                10
            }
        };
        bytes[1] |= mask_bit;
        FrameHead { bytes, len }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The event whose JSON is `json`, as one text message.
pub fn event(json: &str) -> Frame {
    let head = FrameHead::new(FIN | Opcode::Text as u8, 0, json.len());
    Frame::bare(&[head.as_bytes(), json.as_bytes()])
}

/// Appends `text` as one message.
pub fn push_text(out: &mut Vec<u8>, text: &str) {
    push(out, Opcode::Text, &[text.as_bytes()]);
}

/// Appends a ping. A payload over [`CONTROL_BYTES_MAX`] is cut there.
pub fn push_ping(out: &mut Vec<u8>, payload: &[u8]) {
    push(out, Opcode::Ping, &[&payload[..payload.len().min(CONTROL_BYTES_MAX)]]);
}

/// Appends the answer to a ping that had `payload` (section 5.5.3).
pub fn push_pong(out: &mut Vec<u8>, payload: &[u8]) {
    push(out, Opcode::Pong, &[&payload[..payload.len().min(CONTROL_BYTES_MAX)]]);
}

/// Appends the close frame that says `close`; after it nothing may follow (section 5.5.1).
pub fn push_close(out: &mut Vec<u8>, close: Close) {
    let reason = close.reason.as_bytes();
    debug_assert!(2 + reason.len() <= CONTROL_BYTES_MAX, "a reason is one of a few short texts");
    push(out, Opcode::Close, &[&close.code.number().to_be_bytes(), reason]);
}

/// Appends the close frame with a code and a reason of an application's protocol.
pub fn push_close_code(out: &mut Vec<u8>, code: u16, reason: &str) {
    debug_assert!((4000..5000).contains(&code), "RFC 6455, section 7.4.2: those of applications");
    debug_assert!(2 + reason.len() <= CONTROL_BYTES_MAX, "a reason is one of a few short texts");
    push(out, Opcode::Close, &[&code.to_be_bytes(), reason.as_bytes()]);
}

/// Appends the answer to a client's close frame with `code`: the same code, or none.
pub fn push_close_echo(out: &mut Vec<u8>, code: Option<u16>) {
    debug_assert!(code.is_none_or(may_be_sent), "a peer's code is checked when it is read");
    match code {
        Some(code) => push(out, Opcode::Close, &[&code.to_be_bytes()]),
        None => push(out, Opcode::Close, &[]),
    }
}

/// Appends a whole message or control frame as a client sends it, masked with `key` (section 5.3).
pub fn push_masked(out: &mut Vec<u8>, opcode: Opcode, payload: &[u8], key: [u8; 4]) {
    out.extend_from_slice(FrameHead::new(FIN | opcode as u8, MASKED, payload.len()).as_bytes());
    out.extend_from_slice(&key);
    let start = out.len();
    out.extend_from_slice(payload);
    mask::apply(&mut out[start..], key);
}

fn push(out: &mut Vec<u8>, opcode: Opcode, parts: &[&[u8]]) {
    let payload_len = parts.iter().map(|part| part.len()).sum();
    debug_assert!(!opcode.is_control() || payload_len <= CONTROL_BYTES_MAX, "section 5.5");
    out.extend_from_slice(FrameHead::new(FIN | opcode as u8, 0, payload_len).as_bytes());
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

#[cfg(test)]
mod tests;
