//! Clients that come back and name the last event that they have heard: nothing is lost, and what
//! is no longer known is told.

use serde_json::{Value, json};

use super::{AppServer, Client, data_of, nodes, post};
use crate::upgrade::Upgraded;

/// Triggers an event with this data on a channel.
fn trigger(apps: &AppServer, channel: &str, data: &str) {
    let body = json!({ "name": "n", "channel": channel, "data": data });
    post(&apps.server.api, "1", "/events", &body).ok();
}

fn id(frame: &Value) -> String {
    frame["id"].as_str().unwrap_or_else(|| panic!("{frame}")).to_owned()
}

/// Hears so many events; their data.
fn data(client: &mut Client, count: usize) -> Vec<String> {
    let next = |_| {
        let heard = client.hear();
        assert_eq!(heard["event"], "n", "{heard}");
        heard["data"].as_str().unwrap().to_owned()
    };
    (0..count).map(next).collect()
}

#[test]
fn client_that_comes_back_hears_what_it_missed_once_and_in_order() {
    let apps = AppServer::start(&[]);
    let mut bob = apps.client("1");
    for channel in ["private-rj", "news"] {
        bob.subscribe(channel);
    }
    trigger(&apps, "private-rj", "1");
    let heard = bob.hear();
    assert_eq!(heard["data"], "1");
    let after = id(&heard);
    drop(bob);
    for (channel, data) in [("private-rj", "2"), ("news", "a"), ("private-rj", "3"), ("x", "x")] {
        trigger(&apps, channel, data);
    }
    let mut eve = apps.client("1");
    eve.subscribe("private-rj");
    eve.say(&json!({ "event": "client-4", "channel": "private-rj", "data": "4" }));
    eve.hear_nothing();
    let mut bob = apps.client("1");
    bob.subscribe_after("private-rj", &after);
    assert_eq!(data(&mut bob, 2), ["2", "3"]);
    let of_eve = bob.hear();
    assert_eq!((&of_eve["event"], &of_eve["data"]), (&json!("client-4"), &json!("4")));
    // A place is one in time: that of another channel holds too.
    bob.subscribe_after("news", &after);
    assert_eq!(data(&mut bob, 1), ["a"]);
    // What comes now is heard as ever, also by one that has nothing to make up for.
    bob.subscribe_after("x", &id(&of_eve));
    trigger(&apps, "x", "now");
    assert_eq!(data(&mut bob, 1), ["now"]);
    bob.hear_nothing();
}

#[test]
fn client_that_has_heard_nothing_yet_is_told_where_it_begins() {
    let apps = AppServer::start(&[]);
    let mut bob = apps.client("1");
    bob.subscribe_after("news", "");
    let place = bob.hear();
    assert_eq!((&place["event"], &place["channel"]), (&json!("encke:place"), &json!("news")));
    drop(bob);
    trigger(&apps, "news", "1");
    let mut bob = apps.client("1");
    bob.subscribe_after("news", &id(&place));
    assert_eq!(data(&mut bob, 1), ["1"]);
    bob.hear_nothing();
}

#[test]
fn what_is_no_longer_known_is_told_as_a_gap_with_what_is_left_behind_it() {
    let apps = AppServer::start(&["--history-events=3"]);
    let mut bob = apps.client("1");
    bob.subscribe("news");
    trigger(&apps, "news", "0");
    let after = id(&bob.hear());
    drop(bob);
    for number in 1..=5 {
        trigger(&apps, "news", &number.to_string());
    }
    let mut bob = apps.client("1");
    bob.subscribe_after("news", &after);
    let gap = bob.hear();
    assert_eq!(gap, json!({ "event": "encke:gap", "channel": "news", "data": "{}" }));
    assert_eq!(data(&mut bob, 3), ["3", "4", "5"]);
    // A place of another server is unknown: there is the gap, and a place to go on from.
    for place in ["zzzz", "0000000000000001"] {
        bob.say(&json!({ "event": "pusher:unsubscribe", "data": { "channel": "news" } }));
        bob.subscribe_after("news", place);
        let gap = bob.hear();
        assert_eq!((&gap["event"], gap["id"].is_string()), (&json!("encke:gap"), true), "{gap}");
    }
    trigger(&apps, "news", "6");
    assert_eq!(data(&mut bob, 1), ["6"]);
}

#[test]
fn what_was_missed_comes_in_windows_and_channels_do_not_wait_for_each_other() {
    let apps = AppServer::start(&[]);
    let mut bob = apps.client("1");
    bob.subscribe("private-rj");
    trigger(&apps, "private-rj", "0");
    let after = id(&bob.hear());
    drop(bob);
    let (long, mut missed) = ("x".repeat(8_000), Vec::new());
    for number in 0..60 {
        missed.push(format!("{number} {long}"));
        trigger(&apps, "private-rj", &missed[number]);
    }
    let mut bob = apps.client("1");
    bob.subscribe_after("private-rj", &after);
    // It has not read a byte of it when other things happen.
    bob.say(&json!({ "event": "pusher:subscribe",
                     "data": { "channel": "news", "after": after } }));
    trigger(&apps, "private-rj", "last");
    trigger(&apps, "news", "news");
    missed.push("last".to_owned());
    let (mut rj, mut has_news) = (Vec::new(), false);
    while rj.len() < missed.len() || !has_news {
        let heard = bob.hear();
        match (heard["channel"].as_str().unwrap(), heard["event"].as_str().unwrap()) {
            ("private-rj", "n") => rj.push(heard["data"].as_str().unwrap().to_owned()),
            ("news", "n") => has_news = true,
            ("news", "pusher_internal:subscription_succeeded") => {}
            _ => panic!("{heard}"),
        }
    }
    assert!(rj == missed, "{} of {}", rj.len(), missed.len());
    bob.hear_nothing();
}

#[test]
fn nothing_is_lost_or_told_twice_while_others_send() {
    let apps = AppServer::start(&["--workers=2"]);
    let mut bob = apps.client("1");
    bob.subscribe("news");
    let api = apps.server.api.another();
    let sender = std::thread::spawn(move || {
        for number in 0..400 {
            let body = json!({ "name": "n", "channel": "news", "data": number.to_string() });
            post(&api, "1", "/events", &body).ok();
        }
    });
    let mut heard = Vec::new();
    let mut after = String::new();
    while heard.len() < 400 {
        let frame = bob.hear();
        assert_eq!(frame["event"], "n", "{frame}");
        heard.push(frame["data"].as_str().unwrap().parse::<usize>().unwrap());
        after = id(&frame);
        if heard.len() % 40 == 0 {
            bob = apps.client("1");
            bob.subscribe_after("news", &after);
        }
    }
    assert_eq!(heard, (0..400).collect::<Vec<_>>());
    assert!(!after.is_empty());
    sender.join().unwrap();
    bob.hear_nothing();
}

#[test]
fn member_that_comes_back_hears_the_list_and_then_what_it_missed() {
    let apps = AppServer::start(&["--presence-grace=0"]);
    let sit = |after: Option<&str>| {
        let mut bob = apps.client("1");
        let channel_data = r#"{"user_id":"bob"}"#;
        let auth = bob.auth("app-1", "presence-cache-room", Some(channel_data));
        let mut data = json!({ "channel": "presence-cache-room", "auth": auth,
                               "channel_data": channel_data });
        if let Some(after) = after {
            data["after"] = json!(after);
        }
        bob.say(&json!({ "event": "pusher:subscribe", "data": data }));
        let list = bob.hear();
        assert_eq!(data_of(&list)["presence"]["count"], 1, "{list}");
        bob
    };
    let mut bob = sit(None);
    assert_eq!(bob.hear()["event"], "pusher:cache_miss");
    trigger(&apps, "presence-cache-room", "1");
    let after = id(&bob.hear());
    drop(bob);
    for number in ["2", "3"] {
        trigger(&apps, "presence-cache-room", number);
    }
    let mut bob = sit(Some(&after));
    assert_eq!(data(&mut bob, 2), ["2", "3"]);
    bob.hear_nothing();
    drop(bob);
    let mut newcomer = sit(None);
    assert_eq!(data(&mut newcomer, 1), ["3"], "the last event is for those who name none");
}

#[test]
fn client_goes_on_where_it_was_over_an_upgrade() {
    let files = tempfile::tempdir().unwrap();
    let server = Upgraded::serve(&[&super::option(files.path())]);
    let send = |data: &str| {
        let body = json!({ "name": "n", "channel": "news", "data": data });
        post(&server.api.another(), "1", "/events", &body).ok();
    };
    let mut bob = Client::open(&server, "/app/app-1");
    bob.subscribe("news");
    send("1");
    let after = id(&bob.hear());
    drop(bob);
    send("2");
    server.upgrade(&[]);
    send("3");
    let mut bob = Client::open(&server, "/app/app-1");
    bob.subscribe_after("news", &after);
    assert_eq!(data(&mut bob, 2), ["2", "3"]);
    bob.hear_nothing();
}

#[test]
fn client_that_goes_to_another_node_hears_there_what_it_missed() {
    let Some(world) = nodes::Nodes::start("0") else { return };
    let mut bob = nodes::client(&world.nodes[0]);
    bob.subscribe("news");
    let hear = |bob: &mut Client| {
        let heard = bob.hear();
        (heard["data"].as_str().unwrap_or_else(|| panic!("{heard}")).to_owned(), id(&heard))
    };
    nodes::trigger(&world.nodes[1], "news", "0");
    let (_, mut after) = hear(&mut bob);
    for (at, missed) in [(1, ["1", "2"]), (2, ["3", "4"]), (0, ["5", "6"])] {
        drop(bob);
        missed.iter().for_each(|data| nodes::trigger(&world.nodes[2], "news", data));
        bob = nodes::client(&world.nodes[at]);
        bob.subscribe_after("news", &after);
        for data in missed {
            let heard = hear(&mut bob);
            assert_eq!(heard.0, data);
            after = heard.1;
        }
    }
    // One that has heard it before its next node has is told of no gap either.
    for number in 0..20 {
        nodes::trigger(&world.nodes[number % 3], "news", "at once");
        let heard = hear(&mut bob);
        drop(bob);
        bob = nodes::client(&world.nodes[(number + 1) % 3]);
        bob.subscribe_after("news", &heard.1);
    }
    nodes::trigger(&world.nodes[0], "news", "last");
    assert_eq!(hear(&mut bob).0, "last");
}
