//! Damaged input at each reader: it is read or refused, whatever it is, and what was read keeps its
//! bounds.

use fastrand::Rng;
use pusher::http::{Route, SignedQuery, parse_batch, parse_trigger};
use pusher::{
    Apps, Channel, ClientFrame, Member, SocketId, User, check_protocol, limits, plain_text,
};

/// How many mutants of each seed.
const MUTANTS: usize = 3_000;

/// What is put into the place of a byte, or between two.
const ODD: [&[u8]; 12] =
    [b"\"", b"{", b"}", b"[", b"]", b",", b":", b"\\", b"\xff", b"\0", "ü".as_bytes(), b"\\ud800"];

/// Shows mutants of `seed` to `read`.
fn mutants(random: &mut Rng, seed: &[u8], mut read: impl FnMut(&[u8])) {
    for _ in 0..MUTANTS {
        let mut bytes = seed.to_vec();
        for _ in 0..random.usize(1..5) {
            let at = random.usize(..=bytes.len());
            let to = (at + random.usize(..4)).min(bytes.len());
            match random.u8(..4) {
                0 => bytes.truncate(at),
                1 => drop(bytes.drain(at..to)),
                2 => drop(bytes.splice(at..to, ODD[random.usize(..ODD.len())].iter().copied())),
                _ => {
                    let part = bytes[at..to].to_vec();
                    drop(bytes.splice(at..at, part.repeat(random.usize(..40))));
                }
            }
        }
        read(&bytes);
    }
}

fn random() -> Rng {
    Rng::with_seed(testing::seed())
}

/// A text; what is none is not for readers of texts.
fn of_text(read: impl Fn(&str)) -> impl Fn(&[u8]) {
    move |bytes| read(&String::from_utf8_lossy(bytes))
}

#[test]
fn frames_and_what_is_in_them_keep_their_bounds() {
    let random = &mut random();
    for frame in include_str!("session.jsonl").lines() {
        let read = |text: &str| match ClientFrame::parse(text) {
            Ok(ClientFrame::Event(event)) => {
                assert!(event.name.chars().count() <= limits::EVENT_NAME_CHARS_MAX);
                assert!(text.contains(event.data) || event.data == "null", "{text}");
                assert!(!plain_text(event.data).is_empty() || event.data == "\"\"");
            }
            Ok(_) => {}
            Err(fault) => assert!(fault.to_string().ends_with('.')),
        };
        mutants(random, frame.as_bytes(), of_text(read));
    }
    for data in [r#"{"user_id":10,"user_info":{"n":"Bob"}}"#, r#"{"id":"bob","watchlist":["rj"]}"#]
    {
        let read = |text: &str| {
            if let Ok(member) = Member::parse(text) {
                assert!((1..=limits::USER_ID_CHARS_MAX).contains(&member.id.chars().count()));
                let info = member.info.map_or(0, |info| info.get().len());
                assert!(info <= limits::USER_INFO_BYTES_MAX);
            }
            if let Ok(user) = User::parse(text) {
                assert!(user.watchlist.len() <= limits::WATCHLIST_USERS_MAX);
            }
        };
        mutants(random, data.as_bytes(), of_text(read));
    }
}

#[test]
fn names_are_themselves_or_none() {
    let random = &mut random();
    for name in ["private-encrypted-cache-a_-=@,.;9", "#server-to-user-bob", "presence-rj"] {
        let read = |text: &str| {
            if let Ok(channel) = Channel::parse(text) {
                assert_eq!(channel.name(), text);
                assert!(!text.contains([':', ' ', '\n']) || channel.user().is_some(), "{text:?}");
            }
        };
        mutants(random, name.as_bytes(), of_text(read));
    }
    let read = |text: &str| {
        if let Ok(Some(socket)) = SocketId::parse(text) {
            assert_eq!(socket.to_string(), text);
        }
    };
    mutants(random, b"4711.815", of_text(read));
}

#[test]
fn requests_and_files_are_read_or_refused() {
    let random = &mut random();
    let trigger =
        r#"{"name":"n","channels":["a","b"],"data":"{}","socket_id":"1.2","info":"user_count"}"#;
    let batch =
        r#"{"batch":[{"name":"n","channel":"a","data":"x"},{"name":"m","channel":"b","data":""}]}"#;
    for body in [trigger, batch] {
        mutants(random, body.as_bytes(), |bytes| {
            let one = parse_trigger(bytes, 10).into_iter().collect();
            for trigger in parse_batch(bytes, 10).unwrap_or(one) {
                assert!(trigger.data.len() <= 10 && !trigger.name.is_empty());
                assert!(!trigger.channels.is_empty());
                assert!(trigger.channels.iter().all(|name| Channel::parse(name).is_ok()));
            }
        });
    }
    let query = "auth_key=k&auth_timestamp=1700000000&info%5B%5D=a&protocol=7";
    let read = |text: &str| {
        let _ = check_protocol(text);
        match SignedQuery::parse(text) {
            Ok(query) => assert!(query.key().is_none_or(|_| text.to_lowercase().contains("key"))),
            Err(refusal) => assert_eq!(refusal.status(), 400),
        }
    };
    mutants(random, query.as_bytes(), of_text(read));
    let path = "/apps/1/channels/presence-a%3D/users";
    let read = |text: &str| {
        if let Ok(route) = Route::of("GET", text) {
            assert!(route.app_id.is_none_or(|id| text.contains(id)));
        }
    };
    mutants(random, path.as_bytes(), of_text(read));
    let file = r#"[{"id":"1","key":"k","secret":"0123456789abcdef","webhooks":[{"url":"http://a"}],
        "graph":true}]"#;
    mutants(random, file.as_bytes(), |bytes| match Apps::parse(bytes, false) {
        Ok(apps) => assert!(apps.iter().all(|app| app.is_secret_long)),
        Err(fault) => assert!(fault.line >= 1 && !fault.what.contains("0123456789abcdef")),
    });
}
