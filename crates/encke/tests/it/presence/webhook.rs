//! Webhooks, at a receiver that fails, is silent, hangs up and comes back.

use std::io::Write;

use serde_json::{Value, json};
use tempfile::NamedTempFile;

use super::figure;
use super::receiver::{Mood, Receiver, SECRET};
use crate::harness::{Program, Server, Socket, encke, wait_for};

fn secret() -> (NamedTempFile, String) {
    let mut file = NamedTempFile::new().unwrap();
    writeln!(file, "{SECRET}").unwrap();
    let option = format!("--webhook-secret-file={}", file.path().display());
    (file, option)
}

/// A server that tells `receiver`, without a grace.
fn server(receiver: &Receiver) -> Server {
    let (_file, secret) = secret();
    Server::start(&["--presence-grace=0", &format!("--webhook={}", receiver.url), &secret])
}

fn lost() -> Value {
    json!({"lost": true})
}

#[test]
fn batches_are_signed_in_order_and_the_first_one_says_that_much_may_be_lost() {
    let receiver = Receiver::start(Mood::Takes);
    let server = server(&receiver);
    assert_eq!(receiver.taken().events, [lost()]);
    let mut socket = Socket::open(server.listen(), "/stream/bob");
    let mut expected = vec![json!({"online": "bob"})];
    for n in 0..1_200 {
        socket.ask(json!({"login": [n]}));
        socket.ask(json!({"logout": [n]}));
        expected.extend([json!({"online": n.to_string()}), json!({"offline": n.to_string()})]);
    }
    let (mut heard, mut numbers) = (Vec::new(), Vec::new());
    while heard.len() < expected.len() {
        let batch = receiver.taken();
        heard.extend(batch.events);
        numbers.push(batch.number);
    }
    // Those of one id are in order; others stand as they were found.
    let of = |id: &str, events: &[Value]| -> Vec<Value> {
        let is_of = |event: &&Value| event["online"] == id || event["offline"] == id;
        events.iter().filter(is_of).cloned().collect()
    };
    for id in ["bob", "0", "599", "1199"] {
        assert_eq!(of(id, &heard), of(id, &expected), "{id}");
    }
    assert_eq!(heard.len(), expected.len());
    numbers.dedup();
    assert!(numbers.len() >= 5, "500 events a batch at most: {numbers:?}");
    assert_eq!(figure(&server, "encke_presence_webhook_dropped_total"), 0.0);
    wait_for("all is taken", || figure(&server, "encke_presence_webhook_backlog") == 0.0);
}

#[test]
fn receiver_that_fails_hangs_up_and_is_silent_hears_all_when_it_is_back() {
    let receiver = Receiver::start(Mood::Takes);
    let server = server(&receiver);
    assert_eq!(receiver.taken().events, [lost()]);
    let mut socket = Socket::open(server.listen(), "/stream/bob");
    assert_eq!(receiver.taken().events, [json!({"online": "bob"})]);
    let mut came = 0;
    for mood in [Mood::Fails, Mood::HangsUp, Mood::Redirects, Mood::IsSilent] {
        receiver.set(mood);
        socket.ask(json!({"login": [came]}));
        came += 1;
        let first = receiver.next();
        let again = receiver.next();
        assert_eq!((again.mood, &first.number), (mood, &again.number), "it is repeated");
        assert_eq!(first.events, again.events, "and the same");
        receiver.set(Mood::Takes);
        let taken = receiver.taken();
        let mut events = taken.events;
        // What came while the batch was on its way is in the next one.
        assert_eq!(events.remove(0), json!({"online": (came - 1).to_string()}));
        assert!(events.is_empty() && taken.number == first.number);
    }
    // One who has said that it is taken may say the rest as slowly as it likes.
    receiver.set(Mood::TakesAndHangs);
    socket.ask(json!({"login": ["last"]}));
    let taken = receiver.next();
    receiver.set(Mood::Takes);
    socket.ask(json!({"login": ["behind"]}));
    let next = receiver.taken();
    assert_ne!(next.number, taken.number);
    assert_eq!(next.events, [json!({"online": "behind"})]);
    assert!(figure(&server, "encke_presence_webhook_posts_total{result=\"failed\"}") >= 8.0);
    assert!(server.stderr().contains("the webhook at 127.0.0.1:"), "{}", server.stderr());
    for secret in [SECRET, "tenant", "hook?"] {
        assert!(!server.stderr().contains(secret), "{}", server.stderr());
    }
}

#[test]
fn receiver_that_is_away_for_long_loses_what_the_bound_says_and_is_told() {
    const ROUNDS: usize = 40;
    let receiver = Receiver::start(Mood::Takes);
    let server = server(&receiver);
    assert_eq!(receiver.taken().events, [lost()]);
    receiver.set(Mood::Fails);
    let mut socket = Socket::open(server.listen(), "/stream/0");
    for _ in 0..ROUNDS {
        for part in 0..10 {
            let ids: Vec<usize> = (0..100).map(|n| 1 + part * 100 + n).collect();
            socket.ask(json!({ "login": ids }));
        }
        let told = figure(&server, "encke_presence_events_total{state=\"offline\"}");
        for part in 0..10 {
            let ids: Vec<usize> = (0..100).map(|n| 1 + part * 100 + n).collect();
            socket.ask(json!({ "logout": ids }));
        }
        wait_for("they are told", || {
            figure(&server, "encke_presence_events_total{state=\"offline\"}") >= told + 1_000.0
        });
    }
    let told = 1.0 + 2.0 * 1_000.0 * ROUNDS as f64;
    let dropped = || figure(&server, "encke_presence_webhook_dropped_total");
    let kept = || figure(&server, "encke_presence_webhook_backlog");
    // The mark of what is lost waits too.
    wait_for("all is kept or dropped", || dropped() + kept() >= told);
    assert!((65_536.0..65_540.0).contains(&kept()), "{}", kept());
    let dropped = dropped();
    assert!(dropped > 0.0);
    receiver.set(Mood::Takes);
    let (mut heard, mut marks) = (0, 0);
    while marks == 0 {
        for event in receiver.taken().events {
            if event == lost() { marks += 1 } else { heard += 1 }
        }
    }
    assert_eq!(f64::from(heard) + dropped, told, "nothing within the bound is lost");
}

#[test]
fn webhook_is_refused_without_a_secret_and_where_its_url_is_none() {
    let (_file, secret) = secret();
    let serve = |options: &[&str]| {
        Program::run(encke(["serve", "--listen=127.0.0.1:0", "--api=127.0.0.1:0"]).args(options))
    };
    let alone = serve(&["--webhook=http://127.0.0.1:1/"]);
    assert_eq!(alone.code(), Some(2), "{alone:?}");
    assert!(alone.stderr.contains("--webhook-secret-file"), "{alone:?}");
    let wrong = serve(&["--webhook=http://me:pass-word@127.0.0.1:1/", &secret]);
    assert_eq!(wrong.code(), Some(2), "{wrong:?}");
    let long = serve(&["--presence-grace=3601"]);
    assert!(long.code() == Some(2) && long.stderr.contains("3600"), "{long:?}");
}
