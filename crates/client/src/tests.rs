//! Decoders split at every byte, against the server half and against decoders of another make.

use super::*;
use eventsource_stream::Eventsource;
use futures::StreamExt;
use futures::executor::block_on;
use proto::{Carrier, classic, ndjson, poll, sse, websocket as server};

/// An event that owns its parts.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Owned {
    id: Option<String>,
    name: String,
    data: String,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn owned(event: Event<'_>) -> Owned {
    Owned { id: event.id.map(text), name: text(event.name), data: text(event.data) }
}

fn decode(
    transport: Transport,
    body: BodyLength,
    pieces: &[&[u8]],
) -> Result<(Vec<Owned>, Progress), StreamError> {
    let (mut decoder, mut events) = (StreamDecoder::new(transport, body), Vec::new());
    let mut progress = Progress::More;
    for piece in pieces {
        progress = decoder.feed(piece, |event| events.push(owned(event)))?;
    }
    Ok((events, progress))
}

fn sse_events(pieces: &[&[u8]]) -> Vec<Owned> {
    decode(Transport::Sse, BodyLength::UntilClose, pieces).unwrap().0
}

/// Asserts that `wire` gives the same events whole, cut at every byte, and byte by byte.
fn assert_any_split(transport: Transport, body: BodyLength, wire: &[u8], expected: &[Owned]) {
    for cut in 0..=wire.len() {
        let (events, _) = decode(transport, body, &[&wire[..cut], &wire[cut..]]).unwrap();
        assert_eq!(events, expected, "{transport:?}, cut at {cut}");
    }
    let bytes: Vec<&[u8]> = wire.chunks(1).collect();
    assert_eq!(decode(transport, body, &bytes).unwrap().0, expected, "{transport:?}");
}

fn plain(data: &str) -> Owned {
    Owned { id: None, name: String::new(), data: data.to_owned() }
}

#[test]
fn our_own_frames_are_read_at_any_split() {
    let json = [r#"{"id":"1","about":"a","data":1}"#, r#"{"id":"2","about":"ü","data":"\n"}"#];
    let streams = [Transport::Sse, Transport::Ndjson, Transport::Classic, Transport::WebSocket];
    for transport in streams {
        let (mut wire, mut expected) = (Vec::new(), Vec::new());
        if transport == Transport::Classic {
            classic::welcome("123", Carrier::Chunked, &mut wire);
        }
        for (number, json) in (1..).zip(json) {
            wire.extend_from_slice(transport.format().keep_alive(Carrier::Chunked));
            let id = number.to_string();
            let frame = match transport {
                Transport::Sse => sse::event(&id, json),
                Transport::Ndjson => ndjson::event(json),
                Transport::Classic => {
                    let tail = classic::message("\"it's\"");
                    let prefix = classic::Prefix::new(number, &tail, Carrier::Chunked);
                    wire.extend_from_slice(prefix.as_bytes());
                    tail
                }
                Transport::WebSocket => server::event(json),
                _ => unreachable!("it is not in the list"),
            };
            wire.extend_from_slice(frame.for_carrier(Carrier::Chunked));
            expected.push(match transport {
                Transport::Sse => Owned { id: Some(id), ..plain(json) },
                Transport::Ndjson | Transport::WebSocket => plain(json),
                Transport::Classic => plain("it&#39;s"),
                _ => unreachable!("it is not in the list"),
            });
        }
        match transport {
            Transport::WebSocket => server::push_close(&mut wire, server::Close::SHUTDOWN),
            _ => wire.extend_from_slice(Carrier::Chunked.end()),
        }
        assert_any_split(transport, BodyLength::Chunked, &wire, &expected);
        let (_, progress) = decode(transport, BodyLength::Chunked, &[&wire]).unwrap();
        assert_eq!(progress, Progress::End);
    }
}

#[test]
fn answers_to_polls_are_read_at_any_split() {
    let json = [r#"{"id":"1","data":[1,[2]]}"#, r#"{"id":"2","data":"],"}"#, r#"{"id":"3"}"#];
    for count in 0..=json.len() {
        let frames: Vec<_> = json[..count].iter().map(|json| poll::event(json)).collect();
        let elements =
            frames.iter().enumerate().map(|(before, frame)| poll::element(frame, before));
        let body =
            [b"[", elements.collect::<Vec<_>>().concat().as_slice(), poll::ARRAY_END].concat();
        let expected: Vec<Owned> = json[..count].iter().map(|json| plain(json)).collect();
        let length = BodyLength::Known(body.len() as u64);
        assert_any_split(Transport::Poll, length, &body, &expected);
        assert_eq!(decode(Transport::Poll, length, &[&body]).unwrap().1, Progress::End);
    }
}

/// The examples of section 9.2.6 of the standard, and what its text says beyond them.
#[test]
fn sse_is_read_as_the_standard_says() {
    let named = |name: &str, data: &str| Owned { name: name.to_owned(), ..plain(data) };
    let with_id = |id: &str, data: &str| Owned { id: Some(id.to_owned()), ..plain(data) };
    let cases: [(&str, Vec<Owned>); 10] = [
        ("data: YHOO\ndata: +2\ndata: 10\n\n", vec![plain("YHOO\n+2\n10")]),
        (
            ": test stream\n\ndata: first event\nid: 1\n\ndata:second\nid\n\ndata:  third\n\n",
            vec![with_id("1", "first event"), with_id("", "second"), plain(" third")],
        ),
        ("data\n\ndata\ndata\n\ndata:", vec![plain(""), plain("\n")]),
        ("data:test\n\ndata: test\n\n", vec![plain("test"), plain("test")]),
        ("event: add\ndata: 73857293\n\nevent: gone\n\n", vec![named("add", "73857293")]),
        ("data: a\r\n\r\ndata: b\r\rdata: c\n\n", vec![plain("a"), plain("b"), plain("c")]),
        ("\u{feff}data: a\n\n\u{feff}data: b\n\n", vec![plain("a")]),
        ("\u{feff}\n\ndata: a\n\n", vec![plain("a")]),
        ("id: a\0b\ndata: x\n\n", vec![plain("x")]),
        ("retry: 10\nnonsense: 1\n:c\ndata: x\n\n\n\n", vec![plain("x")]),
    ];
    for (stream, expected) in cases {
        assert_any_split(Transport::Sse, BodyLength::UntilClose, stream.as_bytes(), &expected);
    }
}

/// A stream put together at random out of what makes a decoder stumble.
fn random_stream(random: &mut fastrand::Rng) -> String {
    const PIECES: [&str; 13] = [
        "data: ", "data:", "data", "id: 7", "event: e", ":", " ", "x", "ü", "\n", "\n\n", "\r\n",
        "\r",
    ];
    (0..random.usize(..40)).map(|_| PIECES[random.usize(..PIECES.len())]).collect()
}

/// Both decoders get the stream in the same pieces.
#[test]
fn sse_is_what_another_decoder_reads() {
    testing::seeded(5_000, |random| {
        // That decoder takes a CR at the very end for an unfinished line, so an LF follows.
        let stream = random_stream(random) + "\n";
        let expected: Vec<(String, String)> = {
            let source =
                futures::stream::iter([Ok::<_, std::io::Error>(stream.as_bytes().to_vec())]);
            let events = block_on(source.eventsource().collect::<Vec<_>>());
            events.into_iter().map(|event| event.unwrap()).map(|e| (e.event, e.data)).collect()
        };
        let cut = random.usize(..=stream.len());
        let events = sse_events(&[&stream.as_bytes()[..cut], &stream.as_bytes()[cut..]]);
        // The standard's name for an event without one.
        let name = |name: String| if name.is_empty() { "message".to_owned() } else { name };
        let events: Vec<_> = events.into_iter().map(|e| (name(e.name), e.data)).collect();
        // A block with an id and no data is a position to ours and nothing to the other one.
        let compared = |events: Vec<(String, String)>| -> Vec<(String, String)> {
            let positions = stream.contains("id");
            events.into_iter().filter(|(_, data)| !positions || !data.is_empty()).collect()
        };
        assert_eq!(compared(events), compared(expected), "{stream:?}");
    });
}

#[test]
fn random_bytes_split_anywhere_read_the_same_and_never_panic() {
    const BYTES: &[u8] =
        b"0123af;\r\n\r\n: dateid'<br/>Recvd msg #\xef\xbb\xbf\0\xff\x81\x89\x02\x88\x80\x01";
    testing::seeded(5_000, |random| {
        let wire: Vec<u8> =
            (0..random.usize(..200)).map(|_| BYTES[random.usize(..BYTES.len())]).collect();
        let _ = response_head(&wire);
        for transport in Transport::ALL {
            for body in [BodyLength::Chunked, BodyLength::Known(50), BodyLength::UntilClose] {
                let (mut whole, mut split) = (0_usize, 0_usize);
                let mut decoder = StreamDecoder::new(transport, body);
                let end = decoder.feed(&wire, |event| whole += 1 + event.data.len());
                let mut decoder = StreamDecoder::new(transport, body);
                let mut split_end = Ok(Progress::More);
                for byte in wire.chunks(1) {
                    split_end = decoder.feed(byte, |event| split += 1 + event.data.len());
                    if split_end != Ok(Progress::More) {
                        break;
                    }
                }
                assert_eq!((whole, end), (split, split_end), "{transport:?} {body:?} {wire:?}");
            }
        }
    });
}

#[test]
fn known_length_ends_the_body() {
    let (events, progress) =
        decode(Transport::Ndjson, BodyLength::Known(2), &[b"1", b"\n2\n"]).unwrap();
    assert_eq!((events, progress), (vec![plain("1")], Progress::End));
}

#[test]
fn endless_event_is_an_error() {
    let piece = vec![b'x'; EVENT_BYTES_MAX / 2 + 1];
    for transport in [Transport::Sse, Transport::Ndjson, Transport::Classic] {
        let result = decode(transport, BodyLength::UntilClose, &[&piece, &piece]);
        assert_eq!(result.unwrap_err(), StreamError::Event(EventError::TooLong));
    }
    let mut sse = SseDecoder::default();
    let line = [b"data: ".as_slice(), &piece, b"\n"].concat();
    assert_eq!(sse.feed(&line, &mut |_| {}), Ok(()));
    assert_eq!(sse.feed(&line, &mut |_| {}), Err(EventError::TooLong));
}

#[test]
fn decoder_is_small_and_keeps_nothing_between_events() {
    assert!(size_of::<StreamDecoder>() <= 40, "{} bytes", size_of::<StreamDecoder>());
    let mut sse = SseDecoder::default();
    sse.feed(b"data: a", &mut |_| {}).unwrap();
    sse.feed(b"b\n\n:\n\n", &mut |event| assert_eq!(event.data, b"ab")).unwrap();
    assert!(format!("{sse:?}").contains("partial: None"), "{sse:?}");
}
