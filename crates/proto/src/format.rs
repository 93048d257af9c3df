//! The closed list of formats. What each of them looks like is [`encoding`](crate::encoding)'s.

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

impl Format {
    /// How many there are: the length of a table with a place for each.
    pub const COUNT: usize = 7;
    /// Each one, at its [`index`](Format::index).
    pub const ALL: [Format; Format::COUNT] = [
        Self::Sse,
        Self::Ndjson,
        Self::Classic,
        Self::Text,
        Self::Poll,
        Self::Pusher,
        Self::Mercure,
    ];

    /// Its place in a table of [`COUNT`](Format::COUNT) entries.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// What HTTP calls a body of it. A WebSocket begins with the head of its handshake, and names
    /// none.
    pub const fn content_type(self) -> &'static str {
        match self {
            Format::Sse | Format::Mercure => "text/event-stream",
            Format::Ndjson => "application/x-ndjson",
            Format::Classic => "text/html; charset=utf-8",
            Format::Text | Format::Poll | Format::Pusher => "application/json",
        }
    }

    /// Whether a client goes on where it was: whether it knows ids of events, and hears of gaps.
    pub const fn resumes(self) -> bool {
        !matches!(self, Format::Classic | Format::Pusher)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_stand_at_their_index() {
        for (index, format) in Format::ALL.into_iter().enumerate() {
            assert_eq!(format.index(), index);
        }
    }
}
