//! The datagrams of the LAN: one JSON object each, which says in `_msgtype` what it is.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::model::{Found, Query};

/// What we send at most: one Ethernet frame's worth, so that no datagram is sent in fragments, of
/// which one that is lost loses all.
pub(super) const SENT_BYTES_MAX: usize = 1400;

/// What we read at most. Others may send in fragments; what is longer is cut off and is no JSON.
pub(super) const READ_BYTES_MAX: usize = 8 << 10;

/// Where a daemon serves `/sid/` that does not say so.
const HTTP_PORT_DEFAULT: u16 = 60210;

/// One that came.
#[derive(PartialEq, Debug, Deserialize)]
#[serde(tag = "_msgtype")]
pub(super) enum LanMessage {
    /// Who knows this song?
    #[serde(rename = "rq")]
    Query(Map<String, Value>),
    /// I do.
    #[serde(rename = "result")]
    Result {
        /// Of which query.
        qid: String,
        /// The song, with the port at which its daemon serves it.
        result: Map<String, Value>,
    },
    /// I am here; who else is?
    #[serde(rename = "ping")]
    Ping {
        /// Who is there. Where it serves `/sid/` stands here too; its results say it themselves.
        from_name: String,
    },
    /// So am I.
    #[serde(rename = "pong")]
    Pong {
        /// Who is there.
        from_name: String,
    },
    /// I go.
    #[serde(rename = "pang")]
    Pang {
        /// Who goes.
        from_name: String,
    },
}

/// The port in a result. It stands inside, and in what the Erlang daemon reads, outside.
pub(super) fn port_of(result: &mut Map<String, Value>) -> Option<u16> {
    match result.remove("port") {
        None | Some(Value::Null) => Some(HTTP_PORT_DEFAULT),
        Some(port) => {
            let port = port.as_u64().or_else(|| port.as_str()?.parse().ok())?;
            u16::try_from(port).ok().filter(|port| *port != 0)
        }
    }
}

/// A query to the group. `None` where it is too long for a datagram.
pub(super) fn query(query: &Query) -> Option<Vec<u8>> {
    #[derive(Serialize)]
    struct Asked<'a> {
        _msgtype: &'static str,
        #[serde(flatten)]
        query: &'a Query,
    }
    bounded(&Asked { _msgtype: "rq", query })
}

/// A result to whoever asked, said by `name`, who serves it at `http_port`. `None` where it is too
/// long even without the fields that we do not know.
pub(super) fn result(qid: &str, found: &Found, name: &str, http_port: u16) -> Option<Vec<u8>> {
    #[derive(Serialize)]
    struct Told<'a> {
        _msgtype: &'static str,
        qid: &'a str,
        result: Ported,
    }
    #[derive(Serialize)]
    struct Ported {
        port: u16,
        #[serde(flatten)]
        found: Found,
    }
    let mut found = Found { source: name.to_owned(), ..found.clone() };
    // It would stand there twice.
    found.more.remove("port");
    let told = |found| {
        bounded(&Told { _msgtype: "result", qid, result: Ported { port: http_port, found } })
    };
    told(found.clone()).or_else(|| told(Found { more: Map::new(), ..found }))
}

/// `ping` or `pong`.
pub(super) fn presence(kind: &str, name: &str, http_port: u16) -> Option<Vec<u8>> {
    bounded(&serde_json::json!({"_msgtype": kind, "from_name": name, "http_port": http_port}))
}

/// The last word.
pub(super) fn pang(name: &str) -> Option<Vec<u8>> {
    bounded(&serde_json::json!({"_msgtype": "pang", "from_name": name}))
}

fn bounded(message: &impl Serialize) -> Option<Vec<u8>> {
    let datagram = serde_json::to_vec(message).ok()?;
    (datagram.len() <= SENT_BYTES_MAX).then_some(datagram)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn song() -> Found {
        let song = json!({"sid": "S", "artist": "A", "track": "B", "url": "file:///a/b.mp3"});
        serde_json::from_value(song).unwrap()
    }

    #[test]
    fn query_and_result_are_written_as_the_old_daemons_write_them() {
        let asked =
            Query { qid: "Q".into(), artist: "A".into(), track: "B".into(), ..Query::default() };
        let datagram: Value = serde_json::from_slice(&query(&asked).unwrap()).unwrap();
        assert_eq!(datagram, json!({"_msgtype": "rq", "qid": "Q", "artist": "A", "track": "B"}));
        let datagram: Value =
            serde_json::from_slice(&result("Q", &song(), "us", 7000).unwrap()).unwrap();
        assert_eq!(datagram["_msgtype"], "result");
        assert_eq!(datagram["result"]["source"], "us");
        assert_eq!((&datagram["qid"], &datagram["result"]["port"]), (&json!("Q"), &json!(7000)));
        assert!(datagram["result"].get("url").is_none() && datagram.get("port").is_none());
    }

    #[test]
    fn result_too_long_for_a_datagram_goes_without_what_nobody_knows() {
        let mut found = song();
        found.more.insert("lyrics".into(), json!("x".repeat(SENT_BYTES_MAX)));
        found.more.insert("port".into(), json!(1));
        let datagram = result("Q", &found, "us", 7000).unwrap();
        assert!(datagram.len() < 200);
        found.artist = "x".repeat(SENT_BYTES_MAX);
        assert!(result("Q", &found, "us", 7000).is_none());
    }

    #[test]
    fn port_of_a_result_is_a_port_or_the_default() {
        let port = |value: Value| port_of(&mut value.as_object().unwrap().clone());
        assert_eq!(port(json!({})), Some(HTTP_PORT_DEFAULT));
        assert_eq!(port(json!({"port": 7000})), Some(7000));
        assert_eq!(port(json!({"port": "7000"})), Some(7000));
        for wrong in [json!(0), json!(65_536), json!(-1), json!("x"), json!([]), json!(1.5)] {
            assert_eq!(port(json!({"port": wrong})), None);
        }
    }
}
