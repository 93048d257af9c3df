//! How a WebSocket ends (RFC 6455, section 7): the codes, and the reasons that this server gives.
//!
//! The reason in a close frame is the word that the log and the metrics have for the same end.
//! After a frame that breaks the rules it is the rule that it broke.

use crate::websocket::CONTROL_BYTES_MAX;

/// The status codes that a server sends (RFC 6455, section 7.4.1; IANA's registry for the later
/// ones).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum CloseCode {
    /// What the connection was opened for is done.
    Normal = 1000,
    /// The server is going down.
    GoingAway = 1001,
    /// A frame that the protocol does not know.
    ProtocolError = 1002,
    /// A kind of message that is not taken: binary.
    Unsupported = 1003,
    /// A text that is no UTF-8, or a compressed message that does not decompress.
    InvalidPayload = 1007,
    /// The client broke a rule that has no code of its own.
    Policy = 1008,
    /// A message that is longer than the server takes.
    TooBig = 1009,
    /// The server met something that it was not made for.
    InternalError = 1011,
    /// The server begins anew; its client may come back (IANA's registry).
    ServiceRestart = 1012,
    /// The server has no room now; another try later may do better.
    TryAgainLater = 1013,
    /// The client has shown no token that is good now (IANA's registry).
    Unauthorized = 3000,
}

impl CloseCode {
    /// The code as it stands in the frame.
    pub const fn number(self) -> u16 {
        self as u16
    }
}

/// What a close frame says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Close {
    /// The status code.
    pub code: CloseCode,
    /// Why, in words: at most 123 bytes.
    pub reason: &'static str,
}

// A close frame has a code that may be sent, and as many words as a control frame has room for.
const _: () = {
    let ours = [
        Close::LOGGED_OUT,
        Close::SHUTDOWN,
        Close::MOVED,
        Close::TOKEN_EXPIRED,
        Close::TOKEN_REVOKED,
        Close::SLOW_READER,
        Close::MESSAGE_TIMEOUT,
        Close::ADDRESS_LIMIT,
        Close::BINARY,
    ];
    let mut at = 0;
    while at < ours.len() {
        ours[at].check();
        at += 1;
    }
};

impl Close {
    pub(super) const fn check(self) {
        assert!(may_be_sent(self.code.number()));
        assert!(self.reason.len() + size_of::<u16>() <= CONTROL_BYTES_MAX);
    }

    /// The application ended the connections of this id. A client has no cause to come back.
    pub const LOGGED_OUT: Close = Close { code: CloseCode::Normal, reason: "logged_out" };
    /// The server is stopping. A client comes back to the next one.
    pub const SHUTDOWN: Close = Close { code: CloseCode::GoingAway, reason: "shutdown" };
    /// This node of a cluster is ending and others go on: a client comes back at once.
    pub const MOVED: Close = Close { code: CloseCode::ServiceRestart, reason: "moved" };
    /// The client's token has expired. It comes back with another one.
    pub const TOKEN_EXPIRED: Close =
        Close { code: CloseCode::Unauthorized, reason: "token_expired" };
    /// The client's token was revoked. It comes back with another one, if it gets one.
    pub const TOKEN_REVOKED: Close =
        Close { code: CloseCode::Unauthorized, reason: "token_revoked" };
    /// The client did not read fast enough and missed events. It comes back and resumes.
    pub const SLOW_READER: Close = Close { code: CloseCode::Policy, reason: "slow_reader" };
    /// The client began a message and did not end it in time.
    pub const MESSAGE_TIMEOUT: Close = Close { code: CloseCode::Policy, reason: "message_timeout" };
    /// The client's address sends more than one may.
    pub const ADDRESS_LIMIT: Close = Close { code: CloseCode::Policy, reason: "address_limit" };
    /// A binary message, where commands are texts.
    pub const BINARY: Close =
        Close { code: CloseCode::Unsupported, reason: "commands are text messages" };
}

/// Whether a client may send the code `number` in a close frame (section 7.4): the codes of the
/// RFC and of IANA's registry that are not reserved for an API's use, and those that libraries
/// (3000 to 3999) and applications (4000 to 4999) give a meaning to.
pub const fn may_be_sent(number: u16) -> bool {
    matches!(number, 1000..=1003 | 1007..=1014 | 3000..=4999)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_codes_may_not_be_sent() {
        for number in [0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65_535] {
            assert!(!may_be_sent(number), "{number}");
        }
    }
}
