//! Which rules of RFC 6455 the other side can break, and with which close code each is answered.

use crate::websocket::close::{Close, CloseCode};
use crate::websocket::utf8::NotUtf8;

macro_rules! errors {
    ($($(#[doc = $doc:literal])+ $name:ident = $code:ident, $reason:literal;)+) => {
        /// Which rule the other side broke. Nothing can be read after that: answer with a close
        /// frame and end the connection (section 7.1.7).
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum ReadError { $($(#[doc = $doc])+ $name,)+ }

        impl ReadError {
            /// All variants.
            pub const ALL: &[ReadError] = &[$(ReadError::$name,)+];

            /// What to tell the other side.
            pub const fn close(self) -> Close {
                match self {
                    $(ReadError::$name => Close { code: CloseCode::$code, reason: $reason },)+
                }
            }
        }
    };
}

errors! {
    /// A reserved bit is set that nothing was agreed on for (section 5.2).
    ReservedBit = ProtocolError, "a reserved bit is set";
    /// An opcode that has no meaning (section 5.2).
    ReservedOpcode = ProtocolError, "an opcode is reserved";
    /// A control frame that is not the last of its message (section 5.5).
    FragmentedControl = ProtocolError, "a control frame is fragmented";
    /// A control frame with a payload over 125 bytes (section 5.5).
    LongControl = ProtocolError, "a control frame is longer than 125 bytes";
    /// A client's frame without a mask (section 5.1).
    Unmasked = ProtocolError, "a frame of a client is not masked";
    /// A server's frame with a mask (section 5.1).
    Masked = ProtocolError, "a frame of a server is masked";
    /// A length in more bytes than it takes (section 5.2).
    LengthNotMinimal = ProtocolError, "a length is not written in its shortest form";
    /// A length of 2^63 or more (section 5.2).
    LengthTooGreat = ProtocolError, "a length has its most significant bit set";
    /// A continuation of nothing (section 5.4).
    NothingToContinue = ProtocolError, "a frame continues a message that has not begun";
    /// A message in the middle of another (section 5.4).
    MessageInMessage = ProtocolError, "a message begins before the one before has ended";
    /// A close frame with half a code (section 5.5.1).
    HalfCloseCode = ProtocolError, "a close frame has a payload of one byte";
    /// A close code that may not be sent (section 7.4).
    InvalidCloseCode = ProtocolError, "a close code is reserved";
    /// A text message or a close reason that is no UTF-8 (section 8.1).
    InvalidUtf8 = InvalidPayload, "a text is not UTF-8";
    /// A message that is longer than the rules let pass (section 10.4).
    TooLong = TooBig, "a message is too long";
    /// A compressed message that does not decompress (RFC 7692, section 7.2.2).
    Undecompressable = InvalidPayload, "a compressed message is broken";
}

const _: () = {
    let mut at = 0;
    while at < ReadError::ALL.len() {
        ReadError::ALL[at].close().check();
        at += 1;
    }
};

impl std::fmt::Display for ReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.close().reason)
    }
}

impl std::error::Error for ReadError {}

impl From<NotUtf8> for ReadError {
    fn from(_: NotUtf8) -> ReadError {
        ReadError::InvalidUtf8
    }
}
