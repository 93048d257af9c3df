//! What can be wrong with a peer, each with the section of the RFC that says so.

use thiserror::Error;

use crate::Alert;

/// Why a connection ends whose handshake is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum Fault {
    /// The record was not sealed with its key, in its place (RFC 8446, section 5.2; RFC 5246,
    /// section 7.2.2; RFC 5288, section 3).
    #[error("a record was forged, damaged or out of order")]
    BadRecordMac,
    /// More than 2^14 plain bytes, or 2^14 + 256 sealed ones (RFC 8446, sections 5.1, 5.2 and 5.4;
    /// RFC 5246, section 6.2.1).
    #[error("a record is too long")]
    RecordOverflow,
    /// A type of record that has no place here (RFC 8446, section 5; RFC 5246, section 6.2.1).
    #[error("a record has the type {0}, which has no place here")]
    UnexpectedType(u8),
    /// Padding and nothing else (RFC 8446, section 5.4).
    #[error("a record has no content type")]
    NoType,
    /// Another version than the one that was agreed on (RFC 5246, section 6.2.1).
    #[error("a record has another version")]
    Version,
    /// An alert or a handshake message without a byte (RFC 8446, section 5.1; RFC 5246, section
    /// 6.2.1).
    #[error("a message is empty")]
    EmptyMessage,
    /// A handshake message in pieces, which RFC 8446, section 5.1, allows and nobody sends: the
    /// messages that may come are short.
    #[error("a handshake message came in pieces")]
    Fragment,
    /// A handshake message that has no place behind the handshake (RFC 8446, section 4.6; RFC 5246,
    /// section 7.4).
    #[error("a handshake message of type {0} has no place here")]
    UnexpectedMessage(u8),
    /// A key update of another length (RFC 8446, section 4.6.3).
    #[error("a key update cannot be read")]
    KeyUpdateLength,
    /// A key update that neither asks nor asks not (RFC 8446, section 4.6.3).
    #[error("a key update has the value {0}")]
    KeyUpdateValue(u8),
    /// A key update that is not the last message of its record (RFC 8446, section 5.1).
    #[error("something stands behind a key update in its record")]
    KeyUpdateNotLast,
    /// An alert of another length (RFC 8446, section 5.1 and 6).
    #[error("an alert cannot be read")]
    AlertLength,
    /// The peer has ended the connection (RFC 8446, section 6.2; RFC 5246, section 7.2.2).
    #[error("the peer sent the alert {0}")]
    Received(Alert),
    /// The peer wants another handshake, which TLS 1.2 lets us refuse (RFC 5246, section 7.2.2).
    #[error("the peer wants to negotiate again")]
    Renegotiation,
    /// More than [`IDLE_RECORDS_MAX`](crate::limits::IDLE_RECORDS_MAX) records without data in a
    /// row: RFC 8446, appendix D, leaves it to us.
    #[error("too many records without data")]
    Idle,
    /// Sequence numbers do not wrap (RFC 8446, section 5.3; RFC 5246, section 6.1).
    #[error("too many records under one key")]
    Spent,
}

impl Fault {
    /// What the peer is told. Nothing where it was the one to tell.
    pub fn alert(self) -> Option<Alert> {
        match self {
            Fault::BadRecordMac => Some(Alert::BAD_RECORD_MAC),
            Fault::RecordOverflow => Some(Alert::RECORD_OVERFLOW),
            Fault::UnexpectedType(_)
            | Fault::NoType
            | Fault::EmptyMessage
            | Fault::Fragment
            | Fault::UnexpectedMessage(_)
            | Fault::KeyUpdateNotLast
            | Fault::Idle => Some(Alert::UNEXPECTED_MESSAGE),
            Fault::Version => Some(Alert::PROTOCOL_VERSION),
            Fault::KeyUpdateLength | Fault::AlertLength => Some(Alert::DECODE_ERROR),
            Fault::KeyUpdateValue(_) => Some(Alert::ILLEGAL_PARAMETER),
            Fault::Received(_) => None,
            Fault::Renegotiation => Some(Alert::NO_RENEGOTIATION),
            Fault::Spent => Some(Alert::INTERNAL_ERROR),
        }
    }
}

/// Why nothing more is sealed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum Unsealed {
    /// We have said that we have said all, or that something is wrong.
    #[error("this side of the connection is closed")]
    Closed,
    /// The key has sealed what it may, and TLS 1.2 has no other.
    #[error("the key of this connection has sealed all that it may")]
    Spent,
}

/// Why there is no connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum Failure {
    /// We refused the peer, by this alert, which is among the bytes to be sent.
    #[error("the handshake was refused with the alert {0}")]
    Refused(Alert),
    /// The peer refused us.
    #[error("the peer refused the handshake with the alert {0}")]
    Received(Alert),
    /// The peer ended the connection in the middle of the handshake.
    #[error("the peer ended the handshake")]
    Ended,
    /// The peer has sent more than a handshake has.
    #[error("the handshake is too long")]
    TooLong,
    /// What came is not TLS; it may be HTTP.
    #[error("this is not TLS")]
    NotTls,
    /// What rustls gave us is not what we need: a fault of ours.
    #[error("the keys of the handshake cannot be taken over")]
    Keys,
}
