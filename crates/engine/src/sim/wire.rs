//! What a client got, compared byte by byte with what it must have got.

use proto::{Framing, Transport};

/// The stream that a client reads.
pub(super) struct Expected<'e> {
    pub(super) transport: Transport,
    pub(super) framing: Framing,
    pub(super) first_id: &'e str,
    /// Id, JSON line and payload text of each event, in order.
    pub(super) events: Vec<(String, String, String)>,
    /// What it is told beside, each after so many events.
    pub(super) replies: &'e [(usize, String)],
}

/// How many events `bytes` hold, whole; panics when they are anything but the head, the expected
/// events and replies from the first on without a gap or a double, and keep-alives between them.
/// The last thing may be cut.
pub(super) fn check(bytes: &[u8], expected: &Expected<'_>) -> usize {
    let text = std::str::from_utf8(bytes).expect("all of it is text");
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        assert!(text.len() < 1000, "a head without end: {text}");
        return 0;
    };
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    let body = match expected.framing {
        Framing::Chunked => dechunk(body),
        Framing::Close => body.to_string(),
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
    let silence = std::str::from_utf8(expected.transport.keep_alive(Framing::Close)).unwrap();
    let (mut heard, mut replies) = (0, expected.replies.iter().peekable());
    while !rest.is_empty() {
        let reply = replies.peek().filter(|(after, _)| *after == heard);
        let is_reply = reply.is_some();
        let next = reply.map(|(_, text)| text.clone()).or_else(|| {
            let event = expected.events.get(heard)?;
            Some(frame(expected.transport, event, heard))
        });
        if let Some(after) = next.as_ref().and_then(|next| rest.strip_prefix(next.as_str())) {
            rest = after;
            if is_reply {
                replies.next();
            } else {
                heard += 1;
            }
        } else if let Some(after) = rest.strip_prefix(silence) {
            rest = after;
        } else {
            let cut = next.as_ref().is_some_and(|next| next.starts_with(rest));
            assert!(
                cut || silence.starts_with(rest),
                "expected {next:?} after {heard}, got {rest}"
            );
            break;
        }
    }
    heard
}

fn frame(
    transport: Transport,
    (id, json, text): &(String, String, String),
    before: usize,
) -> String {
    match transport {
        Transport::Sse => format!("id: {id}\ndata: {json}\n\n"),
        Transport::Ndjson => format!("{json}\n"),
        Transport::Classic => format!("Recvd msg #{}: '{text}'<br/>\n", before + 1),
        Transport::WebSocket => unreachable!("it is not among the transports spoken"),
        Transport::Poll => unreachable!("an answer of its own, see `polls`"),
    }
}

/// The bodies of the chunks, the last one possibly cut; nothing may follow the end.
fn dechunk(mut rest: &str) -> String {
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
