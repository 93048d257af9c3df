//! Frames that a server sends (RFC 6455, section 5): never masked, never fragmented.

use crate::Frame;
use crate::websocket::CONTROL_BYTES_MAX;
use crate::websocket::close::Close;
use crate::websocket::head::{FIN, Opcode};

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

/// Appends the answer to a client's close frame with `code`: the same code, or none.
pub fn push_close_echo(out: &mut Vec<u8>, code: Option<u16>) {
    match code {
        Some(code) => push(out, Opcode::Close, &[&code.to_be_bytes()]),
        None => push(out, Opcode::Close, &[]),
    }
}

fn push(out: &mut Vec<u8>, opcode: Opcode, parts: &[&[u8]]) {
    let payload_len = parts.iter().map(|part| part.len()).sum();
    out.extend_from_slice(FrameHead::new(FIN | opcode as u8, 0, payload_len).as_bytes());
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Framing;
    use crate::websocket::CloseCode;

    #[test]
    fn event_is_a_text_frame_of_the_shortest_head() {
        let heads: [(usize, &[u8]); 7] = [
            (0, &[0x81, 0]),
            (1, &[0x81, 1]),
            (125, &[0x81, 125]),
            (126, &[0x81, 126, 0, 126]),
            (65_535, &[0x81, 126, 0xff, 0xff]),
            (65_536, &[0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
            (70_000, &[0x81, 127, 0, 0, 0, 0, 0, 1, 0x11, 0x70]),
        ];
        for (len, head) in heads {
            let json = "x".repeat(len);
            let expected = [head, json.as_bytes()].concat();
            for framing in [Framing::Chunked, Framing::Close] {
                assert_eq!(event(&json).for_framing(framing), expected, "{len} bytes");
            }
        }
    }

    /// The examples of section 5.7 that a server may send.
    #[test]
    fn frames_are_those_of_the_rfc() {
        let mut out = Vec::new();
        push_text(&mut out, "Hello");
        assert_eq!(out, b"\x81\x05Hello");
        out.clear();
        push_ping(&mut out, b"Hello");
        assert_eq!(out, b"\x89\x05Hello");
        out.clear();
        push_pong(&mut out, b"Hello");
        assert_eq!(out, b"\x8a\x05Hello");
    }

    #[test]
    fn close_has_a_code_and_a_reason() {
        let mut out = Vec::new();
        push_close(&mut out, Close { code: CloseCode::GoingAway, reason: "shutdown" });
        assert_eq!(out, b"\x88\x0a\x03\xe9shutdown");
        out.clear();
        push_close_echo(&mut out, Some(4321));
        push_close_echo(&mut out, None);
        assert_eq!(out, b"\x88\x02\x10\xe1\x88\x00");
    }

    #[test]
    fn control_payload_is_cut_to_what_may_be_sent() {
        let mut out = Vec::new();
        push_pong(&mut out, &[b'x'; 126]);
        assert_eq!(out.len(), 2 + 125);
    }
}
