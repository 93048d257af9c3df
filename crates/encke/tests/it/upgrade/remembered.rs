//! A history at its bound is handed on: who comes back behind an upgrade is told what it would have
//! been told before it.

use serde_json::{Value, json};

use super::served::Upgraded;
use super::subscriber::{Kind, Subscriber};

/// Events that are sent; the history has room for a part of them.
const EVENTS: usize = 800;

/// Each event is about so many of the ids, at most.
const SUBJECTS_MAX: usize = 20;

const IDS: usize = 60;

/// The last event of all, about all ids.
const LAST: &str = "last";

/// Event `n`: how many of the ids it is about, and which of them, is another thing with each.
fn event(n: usize) -> Value {
    let about = |k: usize| format!("s{}", (n * 7 + k * k + k) % IDS);
    let about: Vec<String> = (0..1 + n * 11 % SUBJECTS_MAX).map(about).collect();
    json!({ "about": about, "event": "e", "data": [n, "x".repeat(n * 37 % 900)] })
}

/// What one that comes back under `id` from `place` on is told: whether of a gap, and which events.
fn told(server: &Upgraded, id: &str, place: &str) -> (u64, Vec<Value>) {
    let mut subscriber = Subscriber::resume(server.listen(), Kind::Ndjson, &[id], place);
    let mut heard = Vec::new();
    loop {
        let data = subscriber.data();
        if data == LAST {
            return (subscriber.gaps, heard);
        }
        heard.push(data[0].clone());
    }
}

#[test]
fn full_history_of_events_about_several_is_as_full_and_as_exact_behind_an_upgrade() {
    let options = ["--history-bytes=256KiB", "--history-events=30", "--history-seconds=3600"];
    let server = Upgraded::serve(&options);
    let lines: String = (0..EVENTS).map(|n| format!("{}\n", event(n))).collect();
    let answers = server.api.post_lines("/send", &lines);
    let place = |line: &str| {
        let answer: Value = serde_json::from_str(line).unwrap();
        answer["id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    };
    let places: Vec<String> = answers.body.lines().map(place).collect();
    assert_eq!(places.len(), EVENTS);
    let ids: Vec<String> = (0..IDS).map(|id| format!("s{id}")).collect();
    server.api.post("/send", &json!({ "about": ids, "data": LAST })).ok();
    let all_told = || -> Vec<(u64, Vec<Value>)> {
        let places = || [0, EVENTS / 2, EVENTS - 200, EVENTS - 50, EVENTS - 1].map(|n| &places[n]);
        let of_id = |id: &String| places().map(|place| told(&server, id, place));
        ids.iter().flat_map(of_id).collect()
    };
    let before = all_told();
    // Some are told of a gap, and some of all that they have missed.
    assert!(before.iter().any(|(gaps, heard)| *gaps == 1 && !heard.is_empty()));
    assert!(before.iter().any(|(gaps, heard)| *gaps == 0 && !heard.is_empty()));
    let events = |server: &Upgraded| server.api.stats()["history_events"].as_u64().unwrap();
    let remembered = events(&server);
    assert!((20..EVENTS as u64 / 2).contains(&remembered), "{remembered} of {EVENTS}");
    for _ in 0..2 {
        server.upgrade(&[]);
        assert_eq!(all_told(), before);
        assert_eq!(events(&server), remembered);
    }
}
