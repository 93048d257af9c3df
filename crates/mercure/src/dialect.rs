//! The two dialects that are spoken on one path.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

/// Where a hub is, unless the app says otherwise. Paths below it are the hub's own.
pub const PATH: &str = "/.well-known/mercure";

/// The place before everything that is kept, and the answer where no place is known.
pub const EARLIEST: &str = "earliest";

/// A version of the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Dialect {
    /// Draft 07 and before: URI templates, the claim `mercure`. All installed clients speak it.
    Old,
    /// Draft 08, which becomes 1.0: URL patterns, OAuth 2.0 access tokens (RFC 9068).
    V1,
}

impl Dialect {
    /// The dialect of a token, by the type in its header (RFC 9068, section 2.1). The prefix
    /// `application/` may be left out, and case does not count (RFC 7515, section 4.1.9).
    pub fn of_token(typ: Option<&str>) -> Dialect {
        let named = |typ: &str| {
            typ.eq_ignore_ascii_case("at+jwt") || typ.eq_ignore_ascii_case("application/at+jwt")
        };
        if typ.is_some_and(named) { Dialect::V1 } else { Dialect::Old }
    }

    /// The dialect that a token says it is of. Nobody has verified it: it decides how a refusal is
    /// told, and no more.
    pub fn of_unverified(token: &str) -> Dialect {
        #[derive(Deserialize)]
        struct Header {
            typ: Option<String>,
        }
        let header = token.split('.').next().and_then(|header| URL_SAFE_NO_PAD.decode(header).ok());
        let header = header.and_then(|json| serde_json::from_slice::<Header>(&json).ok());
        Dialect::of_token(header.and_then(|header| header.typ).as_deref())
    }

    /// The field of an answer that tells a subscriber from which place on it hears.
    pub const fn place_field(self) -> &'static str {
        match self {
            Dialect::Old => "Last-Event-ID",
            Dialect::V1 => "Mercure-Last-Event-ID",
        }
    }

    /// The name of the cookie that a token may stand in.
    pub const fn cookie(self) -> &'static str {
        match self {
            Dialect::Old => "mercureAuthorization",
            Dialect::V1 => "__Secure-mercure_access_token",
        }
    }

    /// The event name of the hub's own updates, which nobody else may use.
    pub const fn own_event_name(self) -> Option<&'static str> {
        match self {
            Dialect::Old => None,
            Dialect::V1 => Some("mercure"),
        }
    }

    /// The content type of the answer to a publish, which is the update's id and nothing else.
    pub const fn id_content_type(self) -> &'static str {
        match self {
            Dialect::Old => "text/plain",
            Dialect::V1 => "text/plain; charset=utf-8",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_of_a_token_is_its_dialect() {
        for typ in ["at+jwt", "AT+JWT", "application/at+jwt", "Application/at+JWT"] {
            assert_eq!(Dialect::of_token(Some(typ)), Dialect::V1, "{typ}");
        }
        for typ in [None, Some("JWT"), Some(""), Some("at+jwt "), Some("text/at+jwt")] {
            assert_eq!(Dialect::of_token(typ), Dialect::Old, "{typ:?}");
        }
    }
}
