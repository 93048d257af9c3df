//! The fields of what is passed on: those that are for one connection alone are left out, and one
//! is added that says what the successor cannot see.

use std::net::IpAddr;

use axum::http::{Extensions, HeaderMap, HeaderName, HeaderValue, header};
use httpd::exchange::Peer;

/// The field in which the old program says whose request it is. Believed on the Unix socket alone.
const STATEMENT: HeaderName = HeaderName::from_static("encke-passed-on");

/// Fields that are for one connection, also where `Connection` does not name them (RFC 9110,
/// section 7.6.1), those of trailers, which are not passed on, and that by which a client asks
/// whether to send its body: it was told already.
const HOP_BY_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::EXPECT,
];

/// Takes out what is for one connection alone.
pub(super) fn keep_end_to_end(fields: &mut HeaderMap) {
    let connection = fields.get_all(header::CONNECTION).into_iter();
    let named: Vec<HeaderName> = connection
        .filter_map(|field| field.to_str().ok())
        .flat_map(|field| field.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        fields.remove(name);
    }
}

/// The number of the first line of a stream, where its beginning was taken by another program: an
/// extension of the request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FirstLine(pub u64);

impl FirstLine {
    /// The first line of the request with these `extensions`.
    pub fn of(extensions: &Extensions) -> FirstLine {
        extensions.get().copied().unwrap_or(FirstLine(1))
    }
}

/// What the old program says of a request.
#[derive(Clone, Copy, Debug)]
pub struct Statement {
    /// Who asks.
    pub peer: Peer,
    /// Which line its body begins with.
    pub first: FirstLine,
}

impl Statement {
    /// Puts it among `fields`, whatever the client has put there.
    pub fn add_to(self, fields: &mut HeaderMap) {
        let Statement { peer: Peer { address, is_tls, .. }, first: FirstLine(line) } = self;
        let proto = if is_tls { "https" } else { "http" };
        let text = format!("for={address};proto={proto};line={line}");
        if let Ok(value) = HeaderValue::from_str(&text) {
            fields.insert(STATEMENT, value);
        }
    }

    /// Takes it out of `fields`. What it does not say, or says in a way that a later version has,
    /// is as of a request whose client nobody knows.
    pub fn take_from(fields: &mut HeaderMap) -> Statement {
        let value = fields.remove(STATEMENT);
        let text = value.as_ref().and_then(|value| value.to_str().ok()).unwrap_or_default();
        let (mut peer, mut first) = (Peer::UNKNOWN, FirstLine(1));
        for (name, value) in text.split(';').filter_map(|part| part.split_once('=')) {
            match name {
                "for" => peer.address = value.parse::<IpAddr>().unwrap_or(peer.address),
                "proto" => peer.is_tls = value == "https",
                "line" => first = value.parse().map_or(first, FirstLine),
                _ => {}
            }
        }
        Statement { peer, first }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_one_connection_stay_on_it() {
        let mut fields = HeaderMap::new();
        for (name, value) in [
            ("host", "push.test"),
            ("connection", "close, X-Own"),
            ("connection", "keep-alive"),
            ("x-own", "1"),
            ("keep-alive", "timeout=5"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("expect", "100-continue"),
            ("authorization", "Bearer 1"),
        ] {
            fields.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        fields.remove("x-own");
        fields.append("x-own", HeaderValue::from_static("1"));
        keep_end_to_end(&mut fields);
        let mut left: Vec<&str> = fields.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["authorization", "host"]);
    }

    #[test]
    fn statement_is_read_as_it_was_written_and_takes_the_place_of_a_clients() {
        for (address, is_tls, line) in [("192.0.2.1", true, 1), ("2001:db8::1", false, 77)] {
            let peer = Peer { address: address.parse().unwrap(), is_tls, ..Peer::UNKNOWN };
            let mut fields = HeaderMap::new();
            fields.append(STATEMENT, HeaderValue::from_static("for=10.0.0.1"));
            fields.append(STATEMENT, HeaderValue::from_static("for=10.0.0.2"));
            Statement { peer, first: FirstLine(line) }.add_to(&mut fields);
            let read = Statement::take_from(&mut fields);
            assert_eq!((read.peer.address, read.peer.is_tls), (peer.address, is_tls));
            assert_eq!(read.first, FirstLine(line));
            assert!(fields.is_empty());
        }
    }

    #[test]
    fn statement_that_is_missing_or_of_another_version_names_nobody() {
        for text in ["", "for=somewhere;proto=x;line=-1", "v2;for", "later=1;=;"] {
            let mut fields = HeaderMap::new();
            fields.insert(STATEMENT, HeaderValue::from_static(text));
            let read = Statement::take_from(&mut fields);
            assert_eq!((read.peer.address, read.peer.is_tls), (Peer::UNKNOWN.address, false));
            assert_eq!(read.first, FirstLine(1), "{text}");
        }
    }
}
