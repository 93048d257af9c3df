//! Frames against those of the RFC.

use super::*;
use crate::Carrier;
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
        for framing in [Carrier::Chunked, Carrier::Close] {
            assert_eq!(event(&json).for_carrier(framing), expected, "{len} bytes");
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
