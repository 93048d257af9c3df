//! The closed list of transports: how users say which stream they want, and what figures are told
//! by. Each stands for a [`Format`] and the [`Carrier`](crate::Carrier)s that it comes by.

use crate::Format;

/// How one client hears events.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Transport {
    /// Server-Sent Events: `text/event-stream`.
    Sse = 0,
    /// One line of JSON per event: `application/x-ndjson`.
    Ndjson = 1,
    /// The comet page of old: one line of HTML per event, `text/html`.
    Classic = 2,
    /// A text frame per event (RFC 6455).
    WebSocket = 3,
    /// An array of JSON in an answer of its own, and the next request asks for the next ones.
    Poll = 4,
    /// The Pusher protocol on a WebSocket: a text frame per event of a channel.
    Pusher = 5,
    /// The Mercure protocol: Server-Sent Events with the text of each update.
    Mercure = 6,
}

impl Transport {
    /// How many there are: the length of a table with a place for each.
    pub const COUNT: usize = 7;
    /// Each one, at its [`index`](Transport::index).
    pub const ALL: [Transport; Transport::COUNT] = [
        Self::Sse,
        Self::Ndjson,
        Self::Classic,
        Self::WebSocket,
        Self::Poll,
        Self::Pusher,
        Self::Mercure,
    ];

    /// Its place in a table of [`COUNT`](Transport::COUNT) entries.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// What its events look like.
    pub const fn format(self) -> Format {
        match self {
            Transport::Sse => Format::Sse,
            Transport::Ndjson => Format::Ndjson,
            Transport::Classic => Format::Classic,
            Transport::WebSocket => Format::Text,
            Transport::Poll => Format::Poll,
            Transport::Pusher => Format::Pusher,
            Transport::Mercure => Format::Mercure,
        }
    }

    /// The one whose events look like that.
    pub const fn of(format: Format) -> Transport {
        match format {
            Format::Sse => Transport::Sse,
            Format::Ndjson => Transport::Ndjson,
            Format::Classic => Transport::Classic,
            Format::Text => Transport::WebSocket,
            Format::Poll => Transport::Poll,
            Format::Pusher => Transport::Pusher,
            Format::Mercure => Transport::Mercure,
        }
    }

    /// Its name in logs and metric labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Transport::Sse => "sse",
            Transport::Ndjson => "ndjson",
            Transport::Classic => "classic",
            Transport::WebSocket => "websocket",
            Transport::Poll => "poll",
            Transport::Pusher => "pusher",
            Transport::Mercure => "mercure",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transports_stand_at_their_index() {
        for (index, transport) in Transport::ALL.into_iter().enumerate() {
            assert_eq!(transport.index(), index);
            assert_eq!(Transport::of(transport.format()), transport);
        }
    }
}
