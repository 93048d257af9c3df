//! The client half against an outside server.

use super::*;
use crate::{EventError, response_head};
use proto::request::{self, Parsed};
use proto::resume::end_head;
use proto::websocket as server;
use proto::websocket::ReadError;
use std::io::{self, Read, Write};
use tungstenite::protocol::Role;
use tungstenite::{Message, WebSocket};

/// Both halves of the handshake agree, and each with the RFC's example (section 1.3).
#[test]
fn handshake_of_both_halves_is_that_of_the_rfc() {
    let key = key(*b"the sample nonce");
    assert_eq!(&key, b"dGhlIHNhbXBsZSBub25jZQ==");
    let mut wire = b"GET /stream/1 HTTP/1.1\r\nHost: h\r\n".to_vec();
    push_upgrade(&key, &mut wire);
    wire.extend_from_slice(b"\r\n");
    let Parsed::Request(request) = request::parse(&wire, 0) else { panic!("a request") };
    let upgrade = request.upgrade.unwrap();
    let mut head = Vec::new();
    let agreement = handshake::agree(&upgrade, false).unwrap();
    handshake::push_head(&agreement, &mut head);
    end_head(&mut head, None, None);
    let head = response_head(&head).unwrap().unwrap();
    assert_eq!(head.status, 101);
    assert!(accepts(&key, head.websocket_accept.unwrap()));
    assert!(!accepts(&key, "s3pPLMBiTxaQ9kYGzzhZRbK+xO="));
}

/// What the other end sent, and what it was sent.
struct Wire(Vec<u8>, usize, Vec<u8>);

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = (&self.0[self.1..]).read(buffer)?;
        self.1 += len;
        Ok(len)
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.2.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn outside_server_reads_what_we_send() {
    testing::seeded(300, |rng| {
        let text = testing::random_text(rng, 100);
        let mut sent = Vec::new();
        push_text(&text, rng.u32(..).to_ne_bytes(), &mut sent);
        push_reply(&Reply::Pong(vec![7; 125]), rng.u32(..).to_ne_bytes(), &mut sent);
        push_reply(
            &Reply::Close { code: Some(1000), reason: String::new() },
            rng.u32(..).to_ne_bytes(),
            &mut sent,
        );
        let wire = Wire(sent, 0, Vec::new());
        let mut socket = WebSocket::from_raw_socket(wire, Role::Server, None);
        assert_eq!(socket.read().unwrap(), Message::text(text));
        assert_eq!(socket.read().unwrap(), Message::Pong(vec![7; 125].into()));
        assert!(matches!(socket.read().unwrap(), Message::Close(Some(close))
            if u16::from(close.code) == 1000));
    });
}

/// Frames of an outside server, its fragments among them, in any pieces.
#[test]
fn outside_server_is_read_in_any_pieces() {
    use tungstenite::protocol::frame::Frame;
    use tungstenite::protocol::frame::coding::{Data, OpCode};
    testing::seeded(300, |rng| {
        let wire = Wire(Vec::new(), 0, Vec::new());
        let mut socket = WebSocket::from_raw_socket(wire, Role::Server, None);
        let (mut sent, mut last_ping) = (Vec::new(), None);
        for _ in 0..rng.usize(1..6) {
            let len_max = if rng.bool() { 20 } else { 300 };
            let text = testing::random_text(rng, len_max);
            let cut = text.char_indices().map(|(at, _)| at).nth(5);
            match cut.filter(|_| rng.bool()) {
                None => socket.send(Message::text(text.clone())).unwrap(),
                Some(cut) => {
                    let part = |bytes: &str, kind, fin| {
                        let bytes = bytes.as_bytes().to_vec();
                        Message::Frame(Frame::message(bytes, OpCode::Data(kind), fin))
                    };
                    socket.send(part(&text[..cut], Data::Text, false)).unwrap();
                    let ping = vec![rng.u8(..); 3];
                    socket.send(Message::Ping(ping.clone().into())).unwrap();
                    last_ping = Some(Reply::Pong(ping));
                    socket.send(part(&text[cut..], Data::Continue, true)).unwrap();
                }
            }
            sent.push(text);
        }
        let wire = &socket.get_ref().2;
        let (mut decoder, mut heard) = (WebSocketDecoder::default(), Vec::new());
        for piece in wire.chunks(rng.usize(1..100)) {
            let mut hear = |event: Event<'_>| heard.push(event.data.to_vec());
            assert_eq!(decoder.feed(piece, &mut hear), Ok(Progress::More));
        }
        let sent: Vec<Vec<u8>> = sent.into_iter().map(String::into_bytes).collect();
        assert_eq!(heard, sent);
        assert_eq!(decoder.take_reply(), last_ping);
        assert!(decoder.open.is_none(), "nothing is kept between messages");
    });
}

#[test]
fn close_ends_the_stream_and_is_to_be_answered() {
    let mut wire = Vec::new();
    server::push_close(&mut wire, server::Close::SHUTDOWN);
    wire.extend_from_slice(b"\xff\xff");
    let mut decoder = WebSocketDecoder::default();
    assert_eq!(decoder.feed(&wire, &mut |_| panic!("no event")), Ok(Progress::End));
    let mut reply = Vec::new();
    push_reply(&decoder.take_reply().unwrap(), [0; 4], &mut reply);
    assert_eq!(reply, b"\x88\x8a\0\0\0\0\x03\xe9shutdown");
    assert_eq!(decoder.take_reply(), None);
}

#[test]
fn frames_that_break_the_rules_are_errors() {
    let table: [(&[u8], StreamError); 5] = [
        (b"\x81\x81\0\0\0\0x", ReadError::Masked.into()),
        (b"\xc1\x01x", ReadError::ReservedBit.into()),
        (b"\x80\x00", ReadError::NothingToContinue.into()),
        (b"\x01\x00\x81\x00", ReadError::MessageInMessage.into()),
        (b"\x81\x7f\0\0\0\0\0\x10\0\x01", EventError::TooLong.into()),
    ];
    for (wire, error) in table {
        let mut decoder = WebSocketDecoder::default();
        assert_eq!(decoder.feed(wire, &mut |_| {}), Err(error), "{wire:x?}");
    }
}
