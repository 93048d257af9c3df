//! What the client of a WebSocket sends: frames, and commands in them.

use std::io::{self, Read, Write};

use proto::websocket::command::{self, Command};
use proto::websocket::deflate;
use proto::websocket::{ReadError, Reader, Received, Rules};
use tungstenite::error::ProtocolError;
use tungstenite::protocol::{Role, WebSocketConfig};
use tungstenite::{Error, Message, WebSocket};

const RULES: Rules = Rules { message_bytes_max: 200, deflate: false };

/// What was read, as kind and payload.
type HeardMessages = Vec<(char, Vec<u8>)>;

/// A client's frames: the same however they are split, bounded, and what an outside reader makes of
/// them.
pub fn websocket_frames(data: &[u8]) {
    let (ours, error) = read(data, data.len().max(1), RULES);
    for piece_len in [1, 2, 3, data.len() / 2 + 1] {
        let split = read(data, piece_len, RULES);
        assert_eq!(split, (ours.clone(), error), "{piece_len} bytes at a time");
    }
    let rules = Rules { deflate: true, ..RULES };
    let (compressed, error_of_it) = read(data, data.len().max(1), rules);
    assert_eq!(read(data, 1, rules), (compressed.clone(), error_of_it));
    compressed.iter().filter(|(kind, _)| "TB".contains(*kind)).for_each(|(_, bytes)| {
        let mut out = Vec::new();
        let inflated = deflate::inflate(false, bytes, 1000, &mut out);
        assert!(inflated.is_err() || out.len() <= 1000);
    });
    // Where they are laxer (lengths that are too long) or stricter (1014, of the registry), or
    // where we refuse what they would still wait for, only what came before is compared.
    use ReadError::{LengthNotMinimal, LengthTooGreat, LongControl};
    match (error, theirs(data)) {
        (Some(LengthNotMinimal | LengthTooGreat | LongControl), (heard, _)) => {
            assert!(heard.starts_with(&ours), "{ours:?} {heard:?}");
        }
        (Some(_), (heard, End::More)) => assert_eq!(ours, heard),
        (None, (heard, End::Refused)) if ours.last().is_some_and(is_1014) => {
            assert_eq!(ours[..ours.len() - 1], heard);
        }
        (error, (heard, end)) => {
            assert_eq!((ours, error.is_some()), (heard, end == End::Refused), "{error:?}");
        }
    }
}

fn is_1014((kind, payload): &(char, Vec<u8>)) -> bool {
    *kind == 'c' && payload.starts_with(&1014_u16.to_be_bytes())
}

fn read(wire: &[u8], piece_len: usize, rules: Rules) -> (HeardMessages, Option<ReadError>) {
    let (mut reader, mut buffer) = (Reader::default(), Vec::new());
    let mut heard = Vec::new();
    for piece in wire.to_vec().chunks_mut(piece_len) {
        let mut input = piece;
        loop {
            match reader.next(&mut input, &mut buffer, rules) {
                Ok(Some(received)) => heard.push(owned(received)),
                Ok(None) => break,
                Err(error) => return (heard, Some(error)),
            }
        }
        assert!(input.is_empty() && buffer.len() <= rules.message_bytes_max + 125);
        if reader.is_idle() {
            (reader, buffer) = (Reader::default(), Vec::new());
        }
    }
    (heard, None)
}

fn owned(received: Received<'_>) -> (char, Vec<u8>) {
    match received {
        Received::Text(text) => ('t', text.as_bytes().to_vec()),
        Received::Binary(bytes) => ('b', bytes.to_vec()),
        Received::Compressed { is_text, bytes } => {
            (if is_text { 'T' } else { 'B' }, bytes.to_vec())
        }
        Received::Ping(bytes) => ('p', bytes.to_vec()),
        Received::Pong(bytes) => ('q', bytes.to_vec()),
        Received::Close { code, reason } => ('c', close(code, reason)),
    }
}

fn close(code: Option<u16>, reason: &str) -> Vec<u8> {
    let code = code.map_or(Vec::new(), |code| code.to_be_bytes().to_vec());
    [&code, reason.as_bytes()].concat()
}

/// How the other reader's work ended.
#[derive(PartialEq, Eq, Debug)]
enum End {
    /// A close frame was read.
    Closed,
    /// It waits for more.
    More,
    Refused,
}

/// A client that has sent all it will and takes every answer.
struct Sent<'w>(&'w [u8]);

impl Read for Sent<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Sent<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn theirs(wire: &[u8]) -> (HeardMessages, End) {
    let limit = Some(RULES.message_bytes_max);
    let config = WebSocketConfig::default().max_message_size(limit).max_frame_size(limit);
    // Its own buffer of 128 KiB would be most of the work.
    let config = config.read_buffer_size(512);
    let mut socket = WebSocket::from_raw_socket(Sent(wire), Role::Server, Some(config));
    let mut heard = Vec::new();
    loop {
        heard.push(match socket.read() {
            Ok(Message::Text(text)) => ('t', text.as_bytes().to_vec()),
            Ok(Message::Binary(bytes)) => ('b', bytes.to_vec()),
            Ok(Message::Ping(bytes)) => ('p', bytes.to_vec()),
            Ok(Message::Pong(bytes)) => ('q', bytes.to_vec()),
            Ok(Message::Close(None)) => ('c', Vec::new()),
            // How it says that a code may not be sent.
            Ok(Message::Close(Some(frame))) if frame.reason == "Protocol violation" => {
                return (heard, End::Refused);
            }
            Ok(Message::Close(Some(frame))) => ('c', close(Some(frame.code.into()), &frame.reason)),
            Ok(Message::Frame(frame)) => panic!("{frame} was read raw"),
            Err(Error::ConnectionClosed) => return (heard, End::Closed),
            Err(Error::Protocol(ProtocolError::ResetWithoutClosingHandshake)) => {
                return (heard, End::More);
            }
            Err(_) => return (heard, End::Refused),
        });
    }
}

/// A text message of a client: a command or a problem, and an answer that is JSON on one line.
pub fn websocket_command(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let outside = serde_json::from_str::<serde_json::Value>(text);
    let (name, answer) = match command::parse(text) {
        Ok(command) => {
            let is_send = matches!(command, Command::Send(_));
            let Ok(value) = outside else {
                // A number may be too great, and a list too deep, for what reads all of it.
                assert!(is_send, "{text}");
                return;
            };
            let members = value.as_object().unwrap();
            assert!(members.len() == 1 || is_send && members.contains_key("ref"), "{text}");
            match &command {
                Command::Login(ids) => {
                    assert_eq!(members["login"].as_array().unwrap().len(), ids.len());
                }
                Command::Logout(ids) => {
                    assert_eq!(members["logout"].as_array().unwrap().len(), ids.len());
                }
                Command::Members(id) => assert_eq!(!id.0.is_empty(), members["members"] != ""),
                Command::Unwatch(id) => assert_eq!(!id.0.is_empty(), members["unwatch"] != ""),
                Command::Token(token) => assert_eq!(members["token"], token.text()),
                Command::Ping(number) => assert_eq!(members["ping"], serde_json::json!(number)),
                Command::Send(send) => {
                    let read = |json: &str| serde_json::from_str::<serde_json::Value>(json);
                    assert_eq!(read(send.event).unwrap(), members["send"]);
                    let repeated = read(send.reference.unwrap_or("null")).unwrap();
                    let expected = members.get("ref").cloned().unwrap_or_default();
                    assert!(repeated == expected && !expected.is_object(), "{text}");
                    let problem = proto::Problem::too_many("Slowly.", 1);
                    for answer in [
                        command::send_ok("{}", send.reference),
                        command::send_error(&problem, send.reference),
                    ] {
                        let answer = read(&answer).unwrap();
                        assert_eq!(answer.get("ref").cloned().unwrap_or_default(), expected);
                    }
                    return;
                }
            }
            ("ok", command::ok(&command, Some("0123456789abcdef")))
        }
        Err(problem) => ("error", command::error(&problem)),
    };
    let value: serde_json::Value = serde_json::from_str(&answer).unwrap();
    assert!(value[name].is_object(), "{answer}");
    assert!(!answer.contains(['\n', '\r']), "{answer}");
}
