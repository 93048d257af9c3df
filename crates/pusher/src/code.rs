//! Numbers that errors and closes have, and what pusher-js does when it hears one.
//!
//! A close of 4000 to 4099 ends the client for good, 4100 to 4199 brings it back after a second,
//! 4200 to 4299 at once. It takes 4300 and above for the first kind, so those are never a close.

/// Why a connection is closed. Each is a frame `pusher:error` first, then the close, with one code.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u16)]
pub enum Close {
    /// There is no app with this key.
    NoSuchApp = 4001,
    /// The app is switched off.
    AppDisabled = 4003,
    /// Another version of the protocol is asked for.
    Protocol = 4007,
    /// The connection may not be here: its page is of another origin, or its user was ended.
    Unauthorized = 4009,
    /// The server, the app or the client's address has as many connections as it may, or the server
    /// lets nobody in because it ends.
    OverCapacity = 4100,
    /// The server ends; another serves.
    Reconnect = 4200,
    /// The client has been silent for too long.
    Silent = 4201,
}

/// What pusher-js does after a close.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Afterwards {
    /// It never comes back by itself.
    StaysAway,
    /// It comes back after a second.
    InASecond,
    /// It comes back at once.
    AtOnce,
}

impl Close {
    /// Each one.
    pub const ALL: [Close; 7] = [
        Close::NoSuchApp,
        Close::AppDisabled,
        Close::Protocol,
        Close::Unauthorized,
        Close::OverCapacity,
        Close::Reconnect,
        Close::Silent,
    ];

    /// Its number, in the error and in the WebSocket's close.
    pub const fn code(self) -> u16 {
        self as u16
    }

    /// What the client is told.
    pub const fn message(self) -> &'static str {
        match self {
            Close::NoSuchApp => "There is no app with this key. Check the key.",
            Close::AppDisabled => "This app is disabled.",
            Close::Protocol => "This server speaks protocol 5 to 7 of Pusher Channels.",
            Close::Unauthorized => "This connection is not authorized.",
            Close::OverCapacity => "There is no place for this connection. Retry after a second.",
            Close::Reconnect => "The server is going away. Reconnect.",
            Close::Silent => "No ping and no pong came in time.",
        }
    }

    /// What pusher-js does after it.
    pub const fn afterwards(self) -> Afterwards {
        match self.code() {
            4000..=4099 => Afterwards::StaysAway,
            4100..=4199 => Afterwards::InASecond,
            _ => Afterwards::AtOnce,
        }
    }
}

/// The number of an error that leaves the connection open.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ErrorCode {
    /// A frame that nobody can read, or a sign-in that failed. It has no number: pusher-js would
    /// take one for the reason of a close.
    None,
    /// A client event that was refused.
    ClientEvent,
    /// A watchlist that is longer than what is watched of it.
    WatchlistCut,
}

impl ErrorCode {
    /// The number, if it has one.
    pub const fn number(self) -> Option<u16> {
        match self {
            ErrorCode::None => None,
            ErrorCode::ClientEvent => Some(4301),
            ErrorCode::WatchlistCut => Some(4302),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_is_one_that_clients_understand() {
        for close in Close::ALL {
            assert!((4000..4300).contains(&close.code()), "{close:?}");
            assert!(close.message().len() <= 123, "RFC 6455: what a close frame has room for");
            let away = matches!(close.code(), 4000..=4099);
            assert_eq!(close.afterwards() == Afterwards::StaysAway, away, "{close:?}");
        }
        assert_eq!(Close::Reconnect.afterwards(), Afterwards::AtOnce);
        assert_eq!(Close::OverCapacity.afterwards(), Afterwards::InASecond);
    }
}
