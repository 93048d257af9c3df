//! What friends say to each other: the payloads of events, and the ids that they are about.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use axum::http::Uri;
use proto::request::split_port;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::model::{Found, Query};

/// Songs in one event; with 4 KiB each they are within what one event may have.
pub(super) const SONGS_MAX: usize = 10;

/// A payload that is for us. What applications say otherwise about the same names is none.
#[derive(Debug, Deserialize)]
#[serde(tag = "_msgtype")]
pub(super) enum FriendMessage {
    /// Who knows this song?
    #[serde(rename = "rq")]
    Query {
        /// The id that answers are to be about.
        reply: String,
        /// The query itself.
        #[serde(flatten)]
        query: Map<String, Value>,
    },
    /// I do.
    #[serde(rename = "results")]
    Results {
        /// Of which query.
        qid: String,
        /// Where its songs are played.
        base: String,
        /// The songs.
        results: Vec<Map<String, Value>>,
    },
}

/// The id of the answers to `name`, with `secret`, which is a UUID.
pub(super) fn inbox(name: &str, secret: &str) -> String {
    format!("playdar:{name}:{secret}")
}

/// Whether `reply` is such an id of `name`. Any other could be somebody's whom the answers of many
/// friends would flood.
pub(super) fn is_inbox(reply: &str, name: &str) -> bool {
    let secret = reply.strip_prefix("playdar:").and_then(|rest| rest.strip_prefix(name));
    let secret = secret.and_then(|rest| rest.strip_prefix(':'));
    let is_uuid = |text: &str| {
        text.len() == 36 && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
    };
    secret.is_some_and(is_uuid)
}

/// The payload of a query.
pub(super) fn query(query: &Query, inbox: &str) -> Value {
    #[derive(Serialize)]
    struct Rq<'a> {
        _msgtype: &'static str,
        reply: &'a str,
        #[serde(flatten)]
        query: &'a Query,
    }
    let query = serde_json::to_value(Rq { _msgtype: "rq", reply: inbox, query });
    query.expect("strings are JSON")
}

/// The payload of an answer: songs of `name`, without the addresses from which it reads them.
pub(super) fn results(
    qid: &str,
    base: &ServerUrl,
    name: &str,
    songs: &[std::sync::Arc<Found>],
) -> Value {
    let song =
        |song: &std::sync::Arc<Found>| Found { source: name.to_owned(), ..Found::clone(song) };
    let songs: Vec<Found> = songs.iter().map(song).collect();
    json!({"_msgtype": "results", "qid": qid, "base": base.text, "results": songs})
}

/// Where a port of Encke or a daemon's `/sid/` is: `http://host:port` or `https://host`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerUrl {
    /// Without a path.
    text: String,
    host: String,
    pub(super) is_tls: bool,
}

impl FromStr for ServerUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<ServerUrl, String> {
        let wrong = || "write it as http://host:port or https://host".to_owned();
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let authority = uri.authority().map(|authority| authority.as_str()).unwrap_or_default();
        let is_bare = matches!(uri.path(), "" | "/") && uri.query().is_none();
        let (host, port) = split_port(authority);
        let port_is_good = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port != 0));
        let scheme = uri.scheme_str().filter(|scheme| matches!(*scheme, "http" | "https"));
        let scheme = scheme.filter(|_| is_bare && port_is_good).ok_or_else(wrong)?;
        if host.is_empty() || authority.contains('@') || authority.len() > 255 {
            return Err(wrong());
        }
        let text = format!("{scheme}://{authority}");
        Ok(ServerUrl { text, host: host.to_owned(), is_tls: scheme == "https" })
    }
}

impl ServerUrl {
    /// One without TLS, as songs are fetched.
    pub(super) fn plain(text: &str) -> Result<ServerUrl, String> {
        let url = text.parse::<ServerUrl>().ok().filter(|url| !url.is_tls);
        url.ok_or("write it as http://host:port, such as http://alice.example:60210".to_owned())
    }

    /// Whether it leads to the machine of whoever reads from it, or to no one machine at all. A
    /// friend that says so would make us read what only this machine may.
    pub(super) fn is_own_machine(&self) -> bool {
        is_own_machine(&self.host)
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Whether `host` is this machine for whoever uses it.
fn is_own_machine(host: &str) -> bool {
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    let address = name.trim_start_matches('[').trim_end_matches(']');
    match address.parse::<IpAddr>().map(|address| address.to_canonical()) {
        Ok(IpAddr::V4(address)) => {
            let octets = address.octets();
            address.is_loopback() || octets[0] == 0 || octets[0] >= 224 || address.is_link_local()
        }
        Ok(IpAddr::V6(address)) => {
            let is_link_local = address.segments()[0] & 0xffc0 == 0xfe80;
            let is_one = address.is_loopback() || address.is_unspecified();
            is_one || address.is_multicast() || is_link_local
        }
        // What is written in other ways than addresses are, as `127.1`, resolvers still read.
        Err(_) => {
            let last = name.rsplit('.').next().unwrap_or_default();
            last == "localhost" || last.is_empty() || last.starts_with(|c: char| c.is_ascii_digit())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_go_to_the_asker_alone() {
        let uuid = crate::model::new_id();
        assert!(is_inbox(&inbox("alice", &uuid), "alice"));
        for reply in [
            inbox("bob", &uuid),
            inbox("alice", ""),
            inbox("alice", "*"),
            inbox("alice:x", &uuid),
            "rj".to_owned(),
            format!("playdar:alice{uuid}"),
        ] {
            assert!(!is_inbox(&reply, "alice"), "{reply}");
        }
    }

    #[test]
    fn server_of_encke_may_have_tls() {
        for text in ["http://127.0.0.1:8000", "https://encke.test", "http://[::1]:8000/"] {
            let url: ServerUrl = text.parse().unwrap();
            assert_eq!(url.to_string(), text.trim_end_matches('/'));
        }
        assert!("https://u:p@encke.test".parse::<ServerUrl>().is_err());
    }

    #[test]
    fn base_is_a_host_and_a_port_and_nothing_else() {
        for (text, base) in [
            ("http://a.test:60210", "http://a.test:60210"),
            ("http://a.test/", "http://a.test"),
            ("http://[2001:db8::1]:7", "http://[2001:db8::1]:7"),
        ] {
            assert_eq!(ServerUrl::plain(text).unwrap().to_string(), base);
        }
        for text in [
            "",
            "a.test:7",
            "https://a.test",
            "file:///etc",
            "http://",
            "http://u@a.test:7",
            "http://a.test:7/x",
            "http://a.test:7/?x",
            "http://a.test:0",
            "http://a.test:99999",
            "http://a.test:7/\r\nX: y",
            "http://a b",
        ] {
            assert!(ServerUrl::plain(text).is_err(), "{text}");
        }
    }

    #[test]
    fn own_machine_is_known_by_all_its_names() {
        for host in [
            "127.0.0.1",
            "127.9.9.9",
            "localhost",
            "LOCALHOST.",
            "a.localhost",
            "0.0.0.0",
            "[::1]",
            "[::]",
            "[::ffff:127.0.0.1]",
            "169.254.169.254",
            "[fe80::1]",
            "239.255.0.1",
            "127.1",
            "2130706433",
            "0x7f.1",
            "[ff02::1]",
        ] {
            assert!(is_own_machine(host), "{host}");
        }
        for host in ["192.0.2.1", "a.test", "[2001:db8::1]", "localhost.test"] {
            assert!(!is_own_machine(host), "{host}");
        }
    }
}
