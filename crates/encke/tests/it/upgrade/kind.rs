//! The transports, by what their clients ask for.

use super::records::Records;
use crate::harness::{Socket, get};

/// How it hears.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Sse,
    Ndjson,
    Classic,
    WebSocket,
    /// A WebSocket whose messages may be compressed.
    Deflated,
    /// HTTP/1.0: no chunks, an end by close.
    OldSse,
    OldNdjson,
    OldClassic,
    Poll,
}

/// All but the polls, which are online only while they wait.
pub(crate) const STREAMS: [Kind; 8] = [
    Kind::Sse,
    Kind::Ndjson,
    Kind::Classic,
    Kind::WebSocket,
    Kind::Deflated,
    Kind::OldSse,
    Kind::OldNdjson,
    Kind::OldClassic,
];

impl Kind {
    pub(super) fn is_old(self) -> bool {
        matches!(self, Kind::OldSse | Kind::OldNdjson | Kind::OldClassic)
    }

    pub(super) fn is_websocket(self) -> bool {
        matches!(self, Kind::WebSocket | Kind::Deflated)
    }

    /// The path and query for `ids`.
    pub(crate) fn path(self, ids: &[&str], place: Option<&str>) -> String {
        let base = match self {
            Kind::Classic | Kind::OldClassic => "test",
            Kind::Poll => "poll",
            _ => "stream",
        };
        let more: String = ids[1..].iter().map(|id| format!("&id={id}")).collect();
        let name = if self == Kind::Poll { "after" } else { "last_event_id" };
        let place = place.map(|place| format!("&{name}={place}")).unwrap_or_default();
        format!("/{base}/{}?{more}{place}", ids[0])
    }

    /// The whole request.
    pub(crate) fn request(self, path: &str) -> String {
        let fields: &[&str] = match self {
            Kind::Sse | Kind::OldSse => &["Accept: text/event-stream"],
            Kind::WebSocket => &Socket::FIELDS,
            Kind::Deflated => {
                const OFFER: &str = "Sec-WebSocket-Extensions: permessage-deflate";
                return get(path, &[&Socket::FIELDS[..], &[OFFER]].concat());
            }
            _ => &["Accept: */*"],
        };
        let request = get(path, fields);
        if self.is_old() { request.replacen("HTTP/1.1", "HTTP/1.0", 1) } else { request }
    }

    pub(super) fn records(self) -> Records {
        match self {
            Kind::Sse | Kind::OldSse => Records::sse(),
            Kind::Classic | Kind::OldClassic => Records::classic(),
            _ => Records::json(),
        }
    }
}
