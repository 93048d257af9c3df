//! What a client got, compared byte by byte with what it must have got.

use proto::{Carrier, Transport};

use super::talk::server_text;

/// The stream that a client reads.
pub(super) struct Expected<'e> {
    pub(super) transport: Transport,
    pub(super) carrier: Carrier,
    pub(super) first_id: &'e str,
    /// Id, JSON line and payload text of each event, in order.
    pub(super) events: Vec<(String, String, String)>,
    /// What it is told beside, each after so many events.
    pub(super) replies: &'e [(usize, Vec<u8>)],
    /// Whether a WebSocket may end with a close frame.
    pub(super) ended: bool,
}

/// How many events `bytes` hold, whole; panics when they are anything but the head, the expected
/// events and replies from the first on without a gap or a double, and keep-alives between them.
/// The last thing may be cut.
pub(super) fn check(bytes: &[u8], expected: &Expected<'_>) -> usize {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        assert!(bytes.len() < 1000, "a head without end: {}", show(bytes));
        return 0;
    };
    let (head, body) = (&bytes[..end], &bytes[end + 4..]);
    if expected.transport == Transport::WebSocket {
        assert!(head.starts_with(b"HTTP/1.1 101 Switching Protocols\r\n"), "{}", show(head));
        return follow(body, expected);
    }
    assert!(head.starts_with(b"HTTP/1.1 200 OK\r\n"), "{}", show(head));
    let text = std::str::from_utf8(body).expect("all of it is text");
    let body = match expected.carrier {
        Carrier::Chunked => dechunk(text),
        _ => text.to_string(),
    };
    let mut rest = body.as_str();
    if expected.transport == Transport::Classic {
        let welcome = format!("Welcome, id {}<br/>\n", expected.first_id);
        match rest.strip_prefix(&welcome) {
            Some(after) => rest = after,
            None => {
                assert!(welcome.starts_with(rest), "no welcome: {rest}");
                return 0;
            }
        }
    }
    follow(rest.as_bytes(), expected)
}

/// The same for what comes after the head.
fn follow(mut rest: &[u8], expected: &Expected<'_>) -> usize {
    let silence = expected.transport.format().keep_alive(Carrier::Close);
    let mut begins = expected.transport == Transport::Sse;
    let (mut heard, mut replies) = (0, expected.replies.iter().peekable());
    while !rest.is_empty() {
        let reply = replies.peek().filter(|(after, _)| *after == heard);
        let is_reply = reply.is_some();
        let next = reply.map(|(_, bytes)| bytes.clone()).or_else(|| {
            let event = expected.events.get(heard)?;
            Some(frame(expected.transport, event, heard))
        });
        if let Some(after) = next.as_ref().and_then(|next| rest.strip_prefix(&next[..])) {
            rest = after;
            if is_reply {
                replies.next();
            } else {
                heard += 1;
            }
        } else if let Some(after) = rest.strip_prefix(silence) {
            rest = after;
        } else if expected.transport == Transport::WebSocket && rest[0] == CLOSE {
            assert!(expected.ended, "a close frame that nobody asked for");
            let whole = rest.get(1).map_or(2, |len| 2 + usize::from(*len));
            assert!(rest.len() <= whole, "bytes after the end: {}", show(rest));
            break;
        } else if let Some(after) = begins.then(|| after_cursor(rest)).flatten() {
            (rest, begins) = (after, false);
        } else {
            let cut = next.as_ref().is_some_and(|next| next.starts_with(rest));
            let next = next.as_deref().map(show);
            let got = show(rest);
            let cut = cut || silence.starts_with(rest) || (begins && rest.len() < CURSOR_BYTES);
            assert!(cut, "{next:?} after {heard}, got {got}");
            break;
        }
    }
    heard
}

/// The first byte of a close frame.
const CLOSE: u8 = 0x88;

fn show(bytes: &[u8]) -> String {
    bytes[..bytes.len().min(400)].escape_ascii().to_string()
}

/// The length of the block that says where a stream of SSE begins.
const CURSOR_BYTES: usize = "id: 0123456789abcdef\nretry: 1234\n\n".len();

/// What stands behind that block, if `rest` begins with it.
fn after_cursor(rest: &[u8]) -> Option<&[u8]> {
    let (block, after) = rest.split_at_checked(CURSOR_BYTES)?;
    let block = str::from_utf8(block).ok()?.strip_prefix("id: ")?.strip_suffix("\n\n")?;
    let (id, retry) = block.split_once("\nretry: ")?;
    retry.parse::<u32>().ok().filter(|ms| (1_000..3_000).contains(ms))?;
    hub::EventId::parse(id.as_bytes()).map(|_| after)
}

fn frame(
    transport: Transport,
    (id, json, text): &(String, String, String),
    before: usize,
) -> Vec<u8> {
    match transport {
        Transport::Sse => format!("id: {id}\ndata: {json}\n\n").into(),
        Transport::Ndjson => format!("{json}\n").into(),
        Transport::Classic => format!("Recvd msg #{}: '{text}'<br/>\n", before + 1).into(),
        Transport::WebSocket => server_text(json),
        Transport::Poll => unreachable!("an answer of its own, see `polls`"),
        _ => unreachable!("protocols of their own, see `channels` and `topics`"),
    }
}

/// The bodies of the chunks, the last one possibly cut; nothing may follow the end.
pub(super) fn dechunk(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).expect("a size line");
        if size == 0 {
            assert!("\r\n".starts_with(after), "bytes after the end: {after}");
            break;
        }
        body.push_str(&after[..size.min(after.len())]);
        rest = after.get(size + 2..).unwrap_or("");
    }
    body
}
