//! The closed lists of formats and of transports, which stand for each other one by one, and the
//! one table of what is so of each. What a format looks like is [`encoding`](crate::encoding)'s.

/// What all that one stream says looks like.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Format {
    /// Server-Sent Events: blocks of fields (WHATWG HTML, section 9.2).
    Sse = 0,
    /// One line of JSON for each event.
    Ndjson = 1,
    /// The comet page of old: one line of HTML for each event.
    Classic = 2,
    /// A message of JSON for each event, in a frame of a WebSocket.
    Text = 3,
    /// An array of JSON, in an answer of its own.
    Poll = 4,
    /// A message of the Pusher protocol for each event, in a frame of a WebSocket.
    Pusher = 5,
    /// Server-Sent Events as the Mercure protocol has them: the text of an update, under its name.
    Mercure = 6,
}

/// How one client hears events: how users say which stream they want, and what figures are told by.
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

/// A format and its transport, and what is so of both.
struct Row {
    format: Format,
    transport: Transport,
    name: &'static str,
    content_type: &'static str,
    is_websocket: bool,
    resumes: bool,
}

impl Row {
    /// A stream over HTTP whose clients go on where they were.
    const fn new(
        format: Format,
        transport: Transport,
        name: &'static str,
        content_type: &'static str,
    ) -> Row {
        Row { format, transport, name, content_type, is_websocket: false, resumes: true }
    }

    const fn on_websocket(self) -> Row {
        Row { is_websocket: true, ..self }
    }

    const fn without_resume(self) -> Row {
        Row { resumes: false, ..self }
    }
}

const ROWS: &[Row; Format::COUNT] = &[
    Row::new(Format::Sse, Transport::Sse, "sse", "text/event-stream"),
    Row::new(Format::Ndjson, Transport::Ndjson, "ndjson", "application/x-ndjson"),
    Row::new(Format::Classic, Transport::Classic, "classic", "text/html; charset=utf-8")
        .without_resume(),
    Row::new(Format::Text, Transport::WebSocket, "websocket", "application/json").on_websocket(),
    Row::new(Format::Poll, Transport::Poll, "poll", "application/json"),
    Row::new(Format::Pusher, Transport::Pusher, "pusher", "application/json")
        .on_websocket()
        .without_resume(),
    Row::new(Format::Mercure, Transport::Mercure, "mercure", "text/event-stream"),
];

// A row that stood elsewhere would be another one's.
const _: () = {
    let mut at = 0;
    while at < ROWS.len() {
        assert!(ROWS[at].format as usize == at && ROWS[at].transport as usize == at);
        at += 1;
    }
};

impl Format {
    /// How many there are: the length of a table with a place for each.
    pub const COUNT: usize = 7;
    /// Each one, at its [`index`](Format::index).
    pub const ALL: [Format; Format::COUNT] = {
        let mut all = [Format::Sse; Format::COUNT];
        let mut at = 0;
        while at < all.len() {
            all[at] = ROWS[at].format;
            at += 1;
        }
        all
    };

    /// Its place in a table of [`COUNT`](Format::COUNT) entries.
    pub const fn index(self) -> usize {
        self as usize
    }

    const fn row(self) -> &'static Row {
        &ROWS[self.index()]
    }

    /// What HTTP calls a body of it. A WebSocket begins with the head of its handshake, and names
    /// none.
    pub const fn content_type(self) -> &'static str {
        self.row().content_type
    }

    /// Whether a client goes on where it was: whether it knows ids of events, and hears of gaps.
    pub const fn resumes(self) -> bool {
        self.row().resumes
    }
}

impl Transport {
    /// How many there are: the length of a table with a place for each.
    pub const COUNT: usize = Format::COUNT;
    /// Each one, at its [`index`](Transport::index).
    pub const ALL: [Transport; Transport::COUNT] = {
        let mut all = [Transport::Sse; Transport::COUNT];
        let mut at = 0;
        while at < all.len() {
            all[at] = ROWS[at].transport;
            at += 1;
        }
        all
    };

    /// Its place in a table of [`COUNT`](Transport::COUNT) entries.
    pub const fn index(self) -> usize {
        self as usize
    }

    const fn row(self) -> &'static Row {
        &ROWS[self.index()]
    }

    /// What its events look like.
    pub const fn format(self) -> Format {
        self.row().format
    }

    /// The one whose events look like that.
    pub const fn of(format: Format) -> Transport {
        format.row().transport
    }

    /// Its name in logs and metric labels.
    pub const fn as_str(self) -> &'static str {
        self.row().name
    }

    /// Whether its events are messages of a WebSocket. All others come as bodies over HTTP.
    pub const fn is_websocket(self) -> bool {
        self.row().is_websocket
    }
}
