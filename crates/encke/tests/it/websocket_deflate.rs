//! Compressed messages on WebSockets (RFC 7692), read and written by zlib's format alone.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};
use serde_json::{Value, json};

use crate::harness::{Server, Socket, Wire, frame, get};

/// As browsers offer it.
const OFFER: &str = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits";

/// The answer: each message by itself, both ways.
const AGREED: &str = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";

/// What ends each compressed message and is not sent (section 7.2.1).
const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];

/// A client that offers compression to a server that agrees.
fn open(server: &Server, path: &str) -> Wire {
    let mut wire = offer(server, path, OFFER);
    let head = wire.head();
    assert_eq!((head.status, head.field("sec-websocket-extensions")), (101, Some(AGREED)));
    wire
}

/// A client that has asked for a WebSocket and for extensions.
fn offer(server: &Server, path: &str, extensions: &str) -> Wire {
    server.ask(get(path, &[&Socket::FIELDS[..], &[extensions]].concat()))
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 100);
    let mut encoder = Compress::new(Compression::best(), false);
    encoder.compress_vec(bytes, &mut out, FlushCompress::Sync).unwrap();
    assert_eq!(out.split_off(out.len() - TAIL.len()), TAIL);
    out
}

fn decompressed(payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(1 << 20);
    let mut decoder = Decompress::new(false);
    let input = [payload, &TAIL].concat();
    decoder.decompress_vec(&input, &mut out, FlushDecompress::Sync).unwrap();
    assert_eq!(decoder.total_in(), input.len() as u64);
    out
}

/// The first byte and the payload of the next frame.
fn next_frame(wire: &mut Wire) -> (u8, Vec<u8>) {
    let head = wire.take(2).unwrap();
    let number = |bytes: Vec<u8>| bytes.iter().fold(0, |number, &byte| number << 8 | byte as usize);
    let len = match head[1] {
        126 => number(wire.take(2).unwrap()),
        127 => number(wire.take(8).unwrap()),
        len => usize::from(len),
    };
    (head[0], wire.take(len).unwrap())
}

/// The JSON of the next text message, and whether it came compressed.
fn message(wire: &mut Wire) -> (Value, bool) {
    let (first, payload) = next_frame(wire);
    let (text, is_compressed) = match first {
        0xc1 => (decompressed(&payload), true),
        0x81 => (payload, false),
        _ => panic!("{first:x} is no whole text message"),
    };
    (serde_json::from_slice(&text).unwrap(), is_compressed)
}

#[test]
fn event_is_compressed_once_for_all_who_agreed() {
    let server = Server::start(&["--websocket-deflate"]);
    let mut agreed: Vec<Wire> = (0..4).map(|_| open(&server, "/stream/a")).collect();
    let mut plain = Socket::open(server.listen(), "/stream/a");
    let mut stream = server.listener("a");
    let long = json!("ab cd ".repeat(100));
    let mut lengths = Vec::new();
    for data in [long.clone(), json!("ü".repeat(30_000)), json!(1), long] {
        assert_eq!(server.api.send("a", data.clone()), 6);
        let event = stream.event();
        assert_eq!(event["data"], data);
        assert_eq!(plain.json(), event);
        let frames: Vec<_> = agreed.iter_mut().map(next_frame).collect();
        assert!(frames.iter().all(|frame| *frame == frames[0]), "the same bytes for all");
        let (first, payload) = &frames[0];
        // Short events do not get shorter, which leaves them as they are.
        let text = if *first == 0xc1 { decompressed(payload) } else { payload.clone() };
        assert_eq!(serde_json::from_slice::<Value>(&text).unwrap(), event);
        assert!(payload.len() <= event.to_string().len());
        lengths.push((*first, payload.len()));
    }
    assert!(lengths[0].0 == 0xc1 && lengths[0].1 < 150, "{lengths:?}");
    assert!(lengths[1].0 == 0xc1 && lengths[1].1 < 1_000, "{lengths:?}");
    // No message refers to an earlier one, or the second time would be much shorter.
    assert!(lengths[3].1 + 10 > lengths[0].1, "{lengths:?}");
}

#[test]
fn compressed_commands_are_carried_out() {
    let server = Server::start(&["--websocket-deflate"]);
    let mut wire = open(&server, "/stream/a");
    let login = compressed(br#"{"login":["b","b","b","c"]}"#);
    wire.send(frame(0xc1, &login));
    assert_eq!(message(&mut wire).0, json!({"ok": {"login": ["b", "b", "b", "c"]}}));
    assert_eq!(server.api.send("c", 1), 1);
    assert_eq!(message(&mut wire).0["about"], "c");
    // In two fragments, of which only the first says so, with a ping between them; then plain.
    let logout = compressed(br#"{"logout":["b","c"]}"#);
    let (start, rest) = logout.split_at(7);
    wire.send([frame(0x41, start), frame(0x89, b"!"), frame(0x80, rest)].concat());
    assert_eq!(next_frame(&mut wire), (0x8a, b"!".into()));
    assert_eq!(message(&mut wire).0, json!({"ok": {"logout": ["b", "c"]}}));
    wire.send(frame(0x81, br#"{"ping":7}"#));
    assert_eq!(message(&mut wire).0["ok"]["ping"], 7);
    // Whatever is no command is answered, compressed or not.
    for (first, bytes) in [(0xc1, &b"no command"[..]), (0xc2, br#"{"ping":1}"#)] {
        wire.send(frame(first, &compressed(bytes)));
        assert_eq!(message(&mut wire).0["error"]["status"], 400);
    }
    assert_eq!(server.api.send("a", 2), 1);
    assert_eq!(message(&mut wire).0["data"], 2);
}

#[test]
fn broken_and_swelling_messages_end_their_connection() {
    let server = Server::start(&["--websocket-deflate", "--max-message=1KiB"]);
    let bomb = compressed(&vec![b' '; 500_000]);
    assert!(bomb.len() < 1024);
    let not_whole = compressed("κόσμε, again and again".as_bytes());
    let mut too_large = 0;
    for (bytes, code) in [
        (frame(0xc1, &bomb), 1009_u16),
        (frame(0xc1, &compressed(&[b' '; 1025])), 1009),
        (frame(0xc1, b"\xff\xff\xff"), 1007),
        (frame(0xc1, &not_whole[..9]), 1007),
        (frame(0xc1, &compressed(b"\xff\xfe")), 1007),
        ([frame(0x41, b"\0"), frame(0xc0, b"\0")].concat(), 1002),
        (frame(0xc9, b""), 1002),
        (frame(0xa1, b"x"), 1002),
    ] {
        let mut wire = open(&server, "/stream/a");
        wire.send(&bytes);
        let (first, payload) = next_frame(&mut wire);
        assert_eq!((first, &payload[..2]), (0x88, &code.to_be_bytes()[..]), "{bytes:?}");
        assert_eq!(wire.rest(), b"");
        too_large += u64::from(code == 1009);
    }
    server.wait_closed("message_too_large", too_large);
    server.wait_closed("protocol_error", 8 - too_large);
    assert_eq!(server.wait_open(0)["ids_online"], 0);
}

/// What a client missed comes as it is, or compressed where somebody else heard it so.
#[test]
fn who_comes_back_hears_what_it_missed_compressed_or_not() {
    let server = Server::start(&["--websocket-deflate"]);
    let mut wire = open(&server, "/stream/a");
    wire.send(frame(0x81, br#"{"ping":1}"#));
    let (answer, _) = message(&mut wire);
    drop(wire);
    server.wait_online("a", 0);
    let data = |number: u64| json!([number, "again and ".repeat(20)]);
    assert_eq!(server.api.send("a", data(0)), 0);
    let mut other = open(&server, "/stream/a");
    assert_eq!(server.api.send("a", data(1)), 1);
    assert!(message(&mut other).1);
    let cursor = answer["ok"]["next"].as_str().unwrap();
    let mut wire = open(&server, &format!("/stream/a?last_event_id={cursor}"));
    for number in 0..2 {
        assert_eq!(message(&mut wire).0["data"], data(number));
    }
    assert_eq!(server.api.send("a", data(2)), 2);
    let (event, is_compressed) = message(&mut wire);
    assert_eq!((&event["data"], is_compressed), (&data(2), true));
}

#[test]
fn offer_that_cannot_be_taken_leaves_messages_as_they_are() {
    let deflating = Server::start(&["--websocket-deflate"]);
    let plain = Server::start(&[]);
    for (server, extensions) in [
        (&plain, OFFER),
        (&deflating, "Sec-WebSocket-Extensions: permessage-deflate; server_max_window_bits=9"),
        (&deflating, "Sec-WebSocket-Extensions: x-own"),
    ] {
        let mut wire = offer(server, "/stream/a", extensions);
        let head = wire.head();
        assert_eq!((head.status, head.field("sec-websocket-extensions")), (101, None));
        server.api.send("a", "x".repeat(1_000));
        assert!(!message(&mut wire).1);
        wire.send(frame(0xc1, &compressed(b"{}")));
        assert_eq!(next_frame(&mut wire).1[..2], 1002_u16.to_be_bytes());
    }
    let mut wire = offer(&plain, "/stream/a", "Sec-WebSocket-Extensions: permessage-deflate; =");
    assert_eq!(wire.head().status, 400);
}
