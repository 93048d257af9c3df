//! Events for many where there are more workers than cores, so that not all of them send to it
//! at one time.

use serde_json::Value;

use crate::harness::{Server, Stream};

/// So many that each worker's part is a large audience.
const USERS: usize = 2_400;
const EVENTS: usize = 20;

/// Everybody hears everything in its order: the users, one of them who also hears small events, and
/// one who is not of them.
#[test]
fn users_of_one_id_in_many_workers_hear_all_in_order() {
    let server = Server::start(&["--workers=16"]);
    let mut users: Vec<Stream> = (0..USERS).map(|_| server.listener("celebrity")).collect();
    let mut member = server.listener("celebrity?id=member");
    let mut other = server.listener("other");
    server.wait_streams(USERS as u64 + 2);
    for n in 0..EVENTS {
        assert_eq!(server.api.send("celebrity", format!("all {n}")), USERS as u64 + 1);
        assert_eq!(server.api.send("member", format!("member {n}")), 1);
        assert_eq!(server.api.send("other", format!("other {n}")), 1);
    }
    let text = |name: &str, n: usize| Value::from(format!("{name} {n}"));
    for n in 0..EVENTS {
        assert_eq!(other.data(), text("other", n));
        assert_eq!([member.data(), member.data()], [text("all", n), text("member", n)]);
    }
    for stream in &mut users {
        (0..EVENTS).for_each(|n| assert_eq!(stream.data(), text("all", n)));
    }
    let stats = server.api.stats();
    assert_eq!(stats["deliveries"], (EVENTS * (USERS + 3)) as u64);
}
