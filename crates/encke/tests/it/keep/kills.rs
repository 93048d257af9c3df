//! `kill -9` while many send what is kept: what was acknowledged as durable is there afterwards,
//! once, in the order of its ids, and no part of the log is damaged.
//!
//! `ENCKE_KILLS=200` kills so often.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::thread;

use serde_json::{Value, json};

use crate::harness::{Api, Server, wait_for};

/// Of a usual run.
const KILLS: usize = 10;
const SENDERS: usize = 4;
/// Acknowledged events of a run, after which it is killed.
const EVENTS: usize = 200;

/// By their ids, what they told.
pub(super) type Acknowledged = BTreeMap<String, String>;

/// Sends one event after the other until the server is gone.
pub(super) fn send_until_killed(api: &Api, sender: &str, acknowledged: &Mutex<Acknowledged>) {
    for nth in 0.. {
        let data = format!("{sender}:{nth}");
        let event = json!({ "about": "x", "data": data, "durable": true });
        let Ok(answer) = api.try_post("/send", &event) else { return };
        let id = answer.ok()["id"].as_str().unwrap().to_owned();
        acknowledged.lock().unwrap().insert(id, data);
    }
}

/// All that is kept about `x`.
pub(super) fn kept(api: &Api) -> Vec<(String, String)> {
    let (mut all, mut after) = (Vec::new(), "earliest".to_owned());
    loop {
        let page = api.get(&format!("/events/x?limit=1000&after={after}")).ok();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let events = page["events"].as_array().unwrap().iter();
        all.extend(events.map(|event| (text(&event["id"]), text(&event["data"]))));
        match page["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => return all,
        }
    }
}

#[test]
fn durable_events_that_were_acknowledged_survive_kills() {
    let data = tempfile::tempdir().unwrap();
    let acknowledged = Mutex::new(Acknowledged::new());
    let kills = std::env::var("ENCKE_KILLS").map_or(KILLS, |text| text.parse().unwrap());
    for run in 0..kills {
        let server = Server::start_in(data.path(), &["--keep=*=7d"]);
        let before = acknowledged.lock().unwrap().len();
        let apis: Vec<Api> = (0..SENDERS).map(|_| server.api.another()).collect();
        thread::scope(|scope| {
            for (sender, api) in apis.into_iter().enumerate() {
                let acknowledged = &acknowledged;
                let sender = format!("{run}:{sender}");
                scope.spawn(move || send_until_killed(&api, &sender, acknowledged));
            }
            wait_for("events", || acknowledged.lock().unwrap().len() >= before + EVENTS);
            server.stop("KILL");
        });
    }
    let server = Server::start_in(data.path(), &["--keep=*=7d"]);
    let kept = kept(&server.api);
    assert!(kept.is_sorted_by(|one, other| one.0 < other.0), "ids grow over all runs");
    let kept: Acknowledged = kept.into_iter().collect();
    let acknowledged = acknowledged.into_inner().unwrap();
    for (id, data) in &acknowledged {
        assert_eq!(kept.get(id), Some(data), "{id}");
    }
    println!("{} acknowledged, {} kept, over {kills} kills", acknowledged.len(), kept.len());
    server.stop("TERM");
    let check = super::commands::log("check", data.path(), &[]);
    assert_eq!(check.code(), Some(0), "{}", check.stdout);
}
