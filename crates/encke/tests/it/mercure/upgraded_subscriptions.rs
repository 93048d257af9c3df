//! Who is subscribed, over an upgrade: names, list and place stay, and nobody is told of an end or
//! a begin that was none.

use std::thread;

use serde_json::json;

use super::subscriptions::{LISTEN, PATH, change, follow, ids, reader};
use super::{BOOKS, Hub, bearer};
use crate::harness::{Stream, wait_for};
use crate::upgrade::Upgraded;

fn subscribers(hub: &Hub<Upgraded>, count: usize) {
    wait_for("all are there", || hub.server.api.stats()["mercure"]["subscribers"] == count);
}

#[test]
fn list_is_what_it_was_and_listeners_hear_of_real_changes_alone() {
    let hub = Hub::start_upgraded(&["--mercure-open", "--workers=3"]);
    let mut listener = hub.listen(LISTEN, &[&reader()]);
    let granted = json!({ "subscribe": ["https://a.test/books/{id}", "a"], "payload": { "u": 7 } });
    let bobs = bearer(&json!({ "mercure": granted }));
    let bob = hub.listen(&format!("{BOOKS}&topic=b"), &[&bobs]);
    let _plain = hub.listen("topic=a&topic=*", &[]);
    let told: Vec<_> = (0..4).map(|_| change(&mut listener)).collect();
    assert!(told.iter().all(|told| told["active"] == true));
    subscribers(&hub, 3);
    let list = hub.list(PATH);
    for _ in 0..2 {
        hub.server.upgrade(&[]);
        assert_eq!(hub.list(PATH), list, "it is for another process to say");
        let tag = format!("If-None-Match: {}", list["lastEventID"].as_str().unwrap());
        assert_eq!(hub.ask_list(PATH, &[&reader(), &tag]).status(), 304);
    }
    let changes = || hub.server.api.stats()["mercure"]["subscription_changes"].clone();
    // One is its own.
    assert_eq!(changes(), json!({ "told": 5, "lost": 0 }), "counts go on");
    // The next change is the next one that is heard.
    let place = list["lastEventID"].as_str().unwrap();
    let new = hub.listen("topic=new", &[]);
    assert_eq!(change(&mut listener)["topic"], "new");
    drop(bob);
    for _ in 0..2 {
        let ended = change(&mut listener);
        assert_eq!((&ended["active"], &ended["payload"]), (&json!(false), &json!({ "u": 7 })));
        let begun = told.iter().find(|told| told["id"] == ended["id"]);
        assert!(begun.is_some(), "it is called what it was called: {ended}");
    }
    drop(new);
    assert_eq!(change(&mut listener)["active"], false);
    // Who had the list before comes back behind it.
    let mut back = hub.listen(LISTEN, &[&reader(), &format!("Last-Event-ID: {place}")]);
    assert_eq!(back.head.field("last-event-id"), Some(place));
    let mut known = ids(&list);
    let wanted = ids(&hub.list(PATH));
    known.extend(wanted.iter().filter(|id| id.contains("%7B%2Fsubscriber%7D")).cloned());
    follow(&mut back, &mut known, &wanted);
}

/// Streams that come and go around the moment at which all is written down.
#[test]
fn changes_around_upgrades_give_the_list_by_seed() {
    let mut rng = fastrand::Rng::with_seed(testing::seed());
    // The listener reads at the end: it has all of the changes, some 800 KB, waiting for it.
    let hub = Hub::start_upgraded(&["--mercure-open", "--workers=2", "--max-backlog=4MiB"]);
    let mut listener = hub.listen(LISTEN, &[&reader()]);
    let mut known = ids(&hub.list(PATH));
    let mut streams: Vec<Stream> = Vec::new();
    for _ in 0..3 {
        streams = thread::scope(|scope| {
            let (mut rng, listen) = (rng.fork(), hub.server.listen());
            let mut there = std::mem::take(&mut streams);
            let busy = scope.spawn(move || {
                let mut turns = 0;
                while turns < 150 {
                    turns += 1;
                    if there.len() > 10 || !there.is_empty() && rng.bool() {
                        drop(there.swap_remove(rng.usize(..there.len())));
                    } else {
                        let topic = ["a", "b%7Bc%7D", "*"][rng.usize(..3)];
                        let path = format!("{}?topic={topic}&topic=d{turns}", super::HUB);
                        there.push(Stream::open(listen, &path, "text/event-stream"));
                    }
                    thread::park_timeout(std::time::Duration::from_millis(2));
                }
                there
            });
            hub.server.upgrade(&[]);
            busy.join().unwrap()
        });
    }
    subscribers(&hub, streams.len() + 1);
    let wanted = ids(&hub.list(PATH));
    assert_eq!(wanted.len(), 2 * streams.len() + 1);
    follow(&mut listener, &mut known, &wanted);
    let changes = &hub.server.api.stats()["mercure"]["subscription_changes"];
    assert_eq!(changes["lost"], 0, "{changes}");
}

/// Nobody knows who is subscribed: nothing is kept of it, and nothing told.
#[test]
fn subscriptions_that_nobody_wants_cost_nothing_behind_an_upgrade() {
    let hub = Hub::start_upgraded(&["--mercure-open"]);
    let _stream = hub.listen("topic=a", &[]);
    hub.server.upgrade(&[]);
    let figures = &hub.server.api.stats()["mercure"];
    assert_eq!((&figures["topics"], &figures["subscribers"]), (&json!(0), &json!(1)));
    let mut listener = hub.listen(LISTEN, &[&reader()]);
    assert_eq!(ids(&hub.list(PATH)).len(), 2);
    let _other = hub.listen("topic=b", &[]);
    assert_eq!(change(&mut listener)["topic"], "b");
}
