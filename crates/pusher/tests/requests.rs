//! These are requests as Pusher's own libraries have sent them: `pusher` 3.3.4 of PyPI and 5.3.4 of
//! npm, and `pusher-http-go` 5.1.1. They are of the app 1 with the key and the secret of the
//! vectors. Recorded on a port that writes down what comes: triggers, batches, look-ups and ends of
//! users' connections, with odd names.

use std::collections::BTreeSet;

use pusher::http::{
    ApiRefusal, Call, ChannelsQuery, Route, SignedQuery, Signer, channel_info, parse_batch,
    parse_trigger,
};
use pusher::{Channel, Secret, SocketId, limits};
use serde::Deserialize;

/// One request on a line.
const REQUESTS: &str = include_str!("requests.jsonl");

#[derive(Deserialize)]
struct Recorded {
    lib: String,
    method: String,
    path: String,
    query: String,
    body: String,
}

fn requests() -> impl Iterator<Item = Recorded> {
    REQUESTS.lines().map(|line| serde_json::from_str(line).expect("it is recorded so"))
}

fn verified(request: &Recorded, method: &str, path: &str, body: &[u8]) -> Result<(), ApiRefusal> {
    let query = SignedQuery::parse(&request.query)?;
    let now = query.value("auth_timestamp").and_then(|time| time.parse().ok());
    let secret = Secret::new(b"encke-app-secret");
    let signer = Signer { key: "encke-app-key", secret: &secret, now: now.unwrap_or_default() };
    query.verify_head(signer, method, path)?;
    query.verify_body(body)
}

#[test]
fn every_request_is_verified_as_it_came_and_no_other() {
    let mut libraries = BTreeSet::new();
    for request in requests() {
        let Recorded { lib, method, path, body, .. } = &request;
        libraries.insert(lib.clone());
        let body = body.as_bytes();
        assert_eq!(verified(&request, method, path, body), Ok(()), "{lib}: {method} {path}");
        assert!(verified(&request, "DELETE", path, body).is_err(), "{lib}: {path}");
        assert!(verified(&request, method, &format!("{path}x"), body).is_err(), "{lib}: {path}");
        assert!(verified(&request, method, path, b"{ }").is_err(), "{lib}: {path}");
    }
    assert_eq!(libraries.len(), 3);
}

#[test]
fn every_request_is_a_call_that_is_read() {
    let mut calls = [0; 5];
    for request in requests() {
        let route = Route::of(&request.method, &request.path).expect("it is a path of the API");
        let query = SignedQuery::parse(&request.query).expect("it is a query");
        let (body, most) = (request.body.as_bytes(), limits::EVENT_DATA_BYTES_MAX);
        let is_terminate = matches!(route.call, Call::TerminateConnections(_));
        let is_python = request.lib.contains("python");
        assert_eq!(route.app_id.is_none(), is_terminate && is_python, "{}", request.path);
        calls[match &route.call {
            Call::Events => {
                let trigger = parse_trigger(body, most).expect("it is an event");
                let socket = SocketId { first: 4711, second: 815 };
                let is_user = trigger.channels == ["#server-to-user-bob"];
                assert_eq!(trigger.except, (!is_user).then_some(socket));
                assert_eq!(trigger.name, if is_user { "hi" } else { "new ünd" });
                0
            }
            Call::BatchEvents => {
                let batch = parse_batch(body, most).expect("they are events");
                assert_eq!((batch.len(), batch[0].data.contains("\"x\"")), (2, true));
                assert_eq!(batch[1].data, "s");
                1
            }
            Call::Channels => {
                let asked = ChannelsQuery::parse(&query);
                // One asks for an attribute that there is not.
                let is_odd = query.value("info") == Some("user_count,x");
                assert_eq!(asked.is_err(), is_odd, "{}", request.query);
                2
            }
            Call::Channel(name) | Call::ChannelUsers(name) => {
                let channel = Channel::parse(name).expect("it is a channel");
                let asks_for_both = query.value("info") == Some("user_count,subscription_count");
                let refused = Err(ApiRefusal::Info("subscription_count".into()));
                let info = channel_info(&query, channel).map(drop);
                assert_eq!(info, if asks_for_both { refused } else { Ok(()) });
                3
            }
            Call::TerminateConnections(id) => {
                assert!(["bob", "b ö"].contains(&&**id), "{id}");
                4
            }
            Call::ChannelEvents(_) | Call::Connections => panic!("no library asks for it"),
        }] += 1;
    }
    assert_eq!(calls, [6, 3, 4, 6, 3]);
}
