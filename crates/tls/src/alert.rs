//! Alerts: what one side tells the other before it ends (RFC 8446, section 6).

use std::fmt;

use rustls::{Error, PeerIncompatible, PeerMisbehaved};

/// The description of an alert: the registry's number.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Alert(pub u8);

impl Alert {
    /// The sender has said all.
    pub const CLOSE_NOTIFY: Alert = Alert(0);
    /// A message that has no place here.
    pub const UNEXPECTED_MESSAGE: Alert = Alert(10);
    /// A record is not what was sealed.
    pub const BAD_RECORD_MAC: Alert = Alert(20);
    /// A record is too long.
    pub const RECORD_OVERFLOW: Alert = Alert(22);
    /// Nothing that both sides can do.
    pub const HANDSHAKE_FAILURE: Alert = Alert(40);
    /// A field that is in its range and makes no sense.
    pub const ILLEGAL_PARAMETER: Alert = Alert(47);
    /// A message that cannot be read.
    pub const DECODE_ERROR: Alert = Alert(50);
    /// A signature or a finish that is not right.
    pub const DECRYPT_ERROR: Alert = Alert(51);
    /// A version that is not spoken here.
    pub const PROTOCOL_VERSION: Alert = Alert(70);
    /// Something that has nothing to do with the peer.
    pub const INTERNAL_ERROR: Alert = Alert(80);
    /// The sender gives up, for a reason of its own.
    pub const USER_CANCELED: Alert = Alert(90);
    /// TLS 1.2 is not negotiated again.
    pub const NO_RENEGOTIATION: Alert = Alert(100);
    /// A name that has no certificate here.
    pub const UNRECOGNIZED_NAME: Alert = Alert(112);
    /// No protocol that both sides speak (RFC 7301).
    pub const NO_APPLICATION_PROTOCOL: Alert = Alert(120);

    /// Those that are told apart in figures, in the order of their numbers; the last stands for all
    /// others.
    pub const NAMED: [(Alert, &'static str); 32] = [
        (Alert::CLOSE_NOTIFY, "close_notify"),
        (Alert::UNEXPECTED_MESSAGE, "unexpected_message"),
        (Alert::BAD_RECORD_MAC, "bad_record_mac"),
        (Alert::RECORD_OVERFLOW, "record_overflow"),
        (Alert::HANDSHAKE_FAILURE, "handshake_failure"),
        (Alert(42), "bad_certificate"),
        (Alert(43), "unsupported_certificate"),
        (Alert(44), "certificate_revoked"),
        (Alert(45), "certificate_expired"),
        (Alert(46), "certificate_unknown"),
        (Alert::ILLEGAL_PARAMETER, "illegal_parameter"),
        (Alert(48), "unknown_ca"),
        (Alert(49), "access_denied"),
        (Alert::DECODE_ERROR, "decode_error"),
        (Alert::DECRYPT_ERROR, "decrypt_error"),
        (Alert(60), "export_restriction"),
        (Alert::PROTOCOL_VERSION, "protocol_version"),
        (Alert(71), "insufficient_security"),
        (Alert::INTERNAL_ERROR, "internal_error"),
        (Alert(86), "inappropriate_fallback"),
        (Alert::USER_CANCELED, "user_canceled"),
        (Alert::NO_RENEGOTIATION, "no_renegotiation"),
        (Alert(109), "missing_extension"),
        (Alert(110), "unsupported_extension"),
        (Alert(111), "certificate_unobtainable"),
        (Alert::UNRECOGNIZED_NAME, "unrecognized_name"),
        (Alert(113), "bad_certificate_status_response"),
        (Alert(114), "bad_certificate_hash_value"),
        (Alert(115), "unknown_psk_identity"),
        (Alert(116), "certificate_required"),
        (Alert::NO_APPLICATION_PROTOCOL, "no_application_protocol"),
        (Alert(255), "other"),
    ];

    /// Where it stands in [`Alert::NAMED`].
    pub fn index(self) -> usize {
        const {
            let mut at = 1;
            while at < Alert::NAMED.len() {
                let (before, after) = (Alert::NAMED[at - 1].0, Alert::NAMED[at].0);
                assert!(before.0 < after.0, "an alert is counted under one name");
                at += 1;
            }
        }
        let place = Alert::NAMED.iter().position(|&(alert, _)| alert == self);
        place.unwrap_or(Alert::NAMED.len() - 1)
    }

    /// Its name in the registry.
    pub fn name(self) -> &'static str {
        Alert::NAMED[self.index()].1
    }

    /// The level that goes with it: 1 is a warning, 2 ends the connection.
    pub(crate) fn level(self) -> u8 {
        match self {
            Alert::CLOSE_NOTIFY | Alert::USER_CANCELED | Alert::NO_RENEGOTIATION => 1,
            _ => 2,
        }
    }
}

impl fmt::Display for Alert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.0)
    }
}

impl fmt::Debug for Alert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The alert that goes with an error, for figures: what rustls has sealed it does not tell.
pub(crate) fn alert_of(error: &Error) -> Alert {
    match error {
        Error::DecryptError => Alert::BAD_RECORD_MAC,
        Error::PeerSentOversizedRecord => Alert::RECORD_OVERFLOW,
        Error::InvalidMessage(_) => Alert::DECODE_ERROR,
        Error::InappropriateMessage { .. } | Error::InappropriateHandshakeMessage { .. } => {
            Alert::UNEXPECTED_MESSAGE
        }
        Error::NoApplicationProtocol => Alert::NO_APPLICATION_PROTOCOL,
        Error::PeerIncompatible(PeerIncompatible::Tls12NotOffered) => Alert::PROTOCOL_VERSION,
        // In TLS 1.2 that no signature of the certificate's key is one that the client takes.
        Error::PeerIncompatible(_) | Error::General(_) => Alert::HANDSHAKE_FAILURE,
        Error::PeerMisbehaved(PeerMisbehaved::MessageInterleavedWithHandshakeMessage) => {
            Alert::UNEXPECTED_MESSAGE
        }
        Error::PeerMisbehaved(_) => Alert::ILLEGAL_PARAMETER,
        Error::InvalidCertificate(_) => Alert(42),
        _ => Alert::INTERNAL_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_in_order_and_find_themselves() {
        assert!(Alert::NAMED.is_sorted_by_key(|(alert, _)| alert.0));
        for (at, (alert, name)) in Alert::NAMED.into_iter().enumerate() {
            assert_eq!((alert.index(), alert.name()), (at, name));
        }
        assert_eq!(Alert(7).name(), "other");
        assert_eq!(format!("{:?}", Alert::RECORD_OVERFLOW), "record_overflow (22)");
    }
}
