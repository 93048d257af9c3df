//! One shard whose clients ask for durable streams. Here nobody serves them: it is looked at what
//! is handed out, and when.

use hub::DisconnectReason;

use super::one::One;
use super::server::silent_config;
use super::tokens::{guarded_of, request, status};
use crate::config::EngineConfig;
use crate::handing_out::{HandOutReceiver, HandedOut};

const ROOM: usize = 1 << 20;

/// More clients than there is room for at once.
const CROWD: usize = 10_000;

/// A body that is longer than what is kept of a request.
const LONG_BYTES: usize = 40 << 10;

fn one_of(seed: Option<u64>, change: impl FnOnce(&mut EngineConfig)) -> One {
    let mut config = EngineConfig { hands_out: true, ..silent_config() };
    change(&mut config);
    guarded_of(config, seed)
}

/// Whose clients speak no TLS, and those whose TLS is cut by some seeds.
fn in_all_ways(test: fn(One)) {
    test(one_of(None, |_| {}));
    (0..20).for_each(|seed| test(one_of(Some(seed), |_| {})));
}

fn receiver(one: &One) -> HandOutReceiver {
    one.server.hand_outs.as_ref().unwrap().receiver()
}

/// The next that was handed out.
fn taken(receiver: &mut HandOutReceiver) -> Option<HandedOut> {
    receiver.receive().ok().map(Option::unwrap)
}

fn append(target: &str, token: &str, bytes: usize) -> String {
    format!(
        "POST {target} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: text/plain\r\nContent-Length: {bytes}\r\n\r\n{}",
        "x".repeat(bytes)
    )
}

fn closed(one: &One, reason: DisconnectReason) -> u64 {
    one.server.figures().closed[reason as usize]
}

#[test]
fn request_that_is_granted_is_handed_out_as_it_was_read() {
    in_all_ways(|mut one| {
        let mut receiver = receiver(&one);
        let says = request("/v1/stream/run%2F1?offset=now", "sub=bob;read=run/*");
        let client = one.client(ROOM, &says);
        let handed = taken(&mut receiver).unwrap();
        assert_eq!(handed.request.path, "/v1/stream/run%2F1");
        assert_eq!(handed.request.holder.unwrap().subject.as_deref(), Some("bob"));
        assert_eq!(handed.read, says.as_bytes());
        assert_eq!((one.is_closed(client), one.reads(client)), (true, String::new()));
        assert_eq!(closed(&one, DisconnectReason::Answered), 1);
        assert!(taken(&mut receiver).is_none());
    });
}

/// What a client is told is what the log is told, too.
#[test]
fn path_that_is_not_granted_is_repeated_nowhere() {
    let mut one = one_of(None, |_| {});
    let long = format!("/v1/stream/{}", "a".repeat(1_025));
    for (target, token, answered) in [
        ("/v1/stream/a%0Ab", "sub=bob;read=run/*", "400"),
        ("/v1/stream/a%0Ab", "sub=bob;read=*", "400"),
        ("/v1/stream/a%C2%85b", "sub=bob;read=*", "400"),
        ("/v1/stream/%FF", "sub=bob;read=*", "400"),
        (&long, "sub=bob;read=*", "400"),
        ("/v1/stream/a/secret", "sub=bob;read=run/*", "403"),
        ("/v1/stream/a/secret", "sub=bob", "403"),
    ] {
        let client = one.client(ROOM, &request(target, token));
        let answer = one.reads(client);
        assert_eq!(status(&answer), answered, "{target} {answer}");
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(!body.trim_end().contains(['\n', '\u{85}']) && !body.contains("\\n"), "{body}");
        assert!(!body.contains("secret"), "{body}");
    }
}

#[test]
fn append_longer_than_what_is_kept_waits_for_its_token() {
    in_all_ways(|mut one| {
        let mut receiver = receiver(&one);
        let says = append("/v1/stream/run/1", "late;sub=bob;write=run/1", LONG_BYTES);
        let client = one.client(ROOM, &says);
        assert!(taken(&mut receiver).is_none() && !one.is_closed(client));
        assert_eq!(one.verify_all(), 1);
        let handed = taken(&mut receiver).unwrap();
        // The rest of it is in the kernel, or sealed.
        let has_head = says.find("\r\n\r\n").unwrap() < handed.read.len();
        assert!(has_head && says.as_bytes().starts_with(&handed.read), "{}", handed.read.len());
        assert_eq!(closed(&one, DisconnectReason::Answered), 1);
        // Who is refused is told so, and what it says on is read.
        let says = append("/v1/stream/run/1", "late;sub=bob;read=run/1", LONG_BYTES);
        let refused = one.client(ROOM, &says);
        assert_eq!(one.verify_all(), 1);
        assert_eq!(status(&one.reads(refused)), "403");
        assert!(one.wire(refused).server_ended && !one.is_closed(refused));
        assert!(taken(&mut receiver).is_none());
    });
}

#[test]
fn append_whose_token_is_not_looked_at_in_time_is_told_so() {
    let mut one = one_of(None, |_| {});
    let says = append("/v1/stream/run/1", "late;sub=bob;write=run/1", LONG_BYTES);
    let client = one.client(ROOM, &says);
    one.turn_after(crate::limits::TOKEN_TIMEOUT_MS + 200);
    assert_eq!(status(&one.reads(client)), "503");
    assert!(one.wire(client).server_ended && !one.is_closed(client));
}

#[test]
fn client_for_whom_there_is_no_room_is_told_to_come_back() {
    // Of more seeds the handshakes would take their time.
    for seed in [None, Some(1)] {
        let mut one = one_of(seed, |_| {});
        let mut receiver = receiver(&one);
        let says = request("/v1/stream/run/1", "sub=bob;read=run/1");
        let mut handed = 0;
        let refused = (0..CROWD).find_map(|_| {
            let client = one.client(ROOM, &says);
            while one.turn_after(1) {}
            let answer = one.reads(client);
            handed += u64::from(one.is_closed(client));
            (!answer.is_empty()).then_some((client, answer))
        });
        let (client, answer) = refused.expect("nobody has taken any of them");
        assert!(status(&answer) == "503" && answer.contains("\r\nRetry-After: "), "{answer}");
        one.wire(client).client_ends();
        while one.turn_after(1) {}
        let ended = |reason| closed(&one, reason);
        assert_eq!((ended(DisconnectReason::Full), ended(DisconnectReason::Answered)), (1, handed));
        for _ in 0..handed {
            assert!(taken(&mut receiver).is_some());
        }
        assert!(taken(&mut receiver).is_none(), "who was refused is not served");
        one.server.check_nothing_is_left();
        one.client(ROOM, &says);
        assert!(taken(&mut receiver).is_some(), "there is room again");
    }
}

#[test]
fn token_is_good_for_so_many_requests_at_a_time() {
    in_all_ways(|mut one| {
        let mut receiver = receiver(&one);
        let ask = |one: &mut One, token: &str| {
            let client = one.client(ROOM, &request("/v1/stream/run/1", token));
            while one.turn_after(1) {}
            status(&one.reads(client)).to_owned()
        };
        let [bob, eve] = ["sub=bob;uses=2;read=*", "sub=eve;uses=1;read=*"];
        let mut taken_by_bob = Vec::new();
        for _ in 0..2 {
            assert_eq!(ask(&mut one, bob), "");
            taken_by_bob.extend(taken(&mut receiver));
        }
        assert_eq!((ask(&mut one, bob), ask(&mut one, eve)), ("429".into(), String::new()));
        // A stream of it counts with them.
        let stream = one.client(ROOM, &request("/stream/bob", bob));
        assert_eq!(status(&one.reads(stream)), "429");
        taken_by_bob.pop();
        assert_eq!((ask(&mut one, bob), ask(&mut one, bob)), (String::new(), "429".into()));
        // Nobody has taken that one: the message has it.
        while taken(&mut receiver).is_some() {}
        assert_eq!(ask(&mut one, bob), "");
        while taken(&mut receiver).is_some() {}
        drop(taken_by_bob);
        let again: Vec<String> = (0..3).map(|_| ask(&mut one, bob)).collect();
        assert_eq!(again, ["", "", "429"], "all were given back");
    });
}

#[test]
fn append_needs_a_name_where_appends_have_a_rate() {
    for (per_second, answered) in [(10, "403"), (0, "")] {
        let mut one = one_of(None, |config| config.settings.client_sends.per_second = per_second);
        let appends = one.client(ROOM, &append("/v1/stream/run/1", "write=*;read=*", 1));
        assert_eq!(status(&one.reads(appends)), answered);
        let reads = one.client(ROOM, &request("/v1/stream/run/1", "write=*;read=*"));
        assert_eq!(one.reads(reads), "", "reads have no rate");
        for named in ["sub=bob;write=*", "jti=1;write=*"] {
            let client = one.client(ROOM, &append("/v1/stream/run/1", named, 1));
            assert_eq!(one.reads(client), "", "{named}");
        }
    }
}
