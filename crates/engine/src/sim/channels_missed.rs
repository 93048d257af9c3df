//! Clients of the Pusher protocol that come back to their channels, read slowly, are taken over by
//! another version, or leave when their app has changed.

use std::sync::Arc;

use hub::{HistoryLimits, Nobody};
use pusher::Apps;
use serde_json::{Value, json};

use super::channels::{Page, SECRET, SUCCEEDED, events, names_of, on_channel, trigger, with_apps};
use super::members::Plane;
use super::one::One;
use super::random::Random;
use super::server::{posted, silent_config};
use super::talk::client_frame;
use crate::channel_notes::ChannelChange;
use crate::config::EngineConfig;
use crate::limits;
use crate::outgoing::Outgoing;
use crate::pusher_apps::PusherApps;

/// The wish to subscribe, behind the event with this id.
fn wish_after(page: &Page, channel: &str, after: &str) -> Value {
    let mut wish = page.wish(channel, "bob");
    wish["data"]["after"] = after.into();
    wish
}

#[test]
fn page_that_reads_slowly_is_given_one_window_at_a_time_in_all_its_channels() {
    const EVENTS: usize = 200;
    let history = HistoryLimits { events_max: 10_000, ..HistoryLimits::default() };
    let mut one = with_apps(EngineConfig { history, ..silent_config() });
    let channels = ["a", "b"];
    channels.iter().for_each(|channel| trigger(&one, channel, "0", None));
    let after = one.server.event_ids.id(one.server.event_ids.last()).to_string();
    let rest = "x".repeat(1_000);
    for n in 0..EVENTS {
        channels.iter().for_each(|channel| trigger(&one, channel, &format!("{n} {rest}"), None));
    }
    let page = Page::open_within(&mut one, 4_000);
    for channel in channels {
        page.send(&mut one, &wish_after(&page, channel, &after));
        // A window of it is on its way, and nobody reads.
        one.answer(&Nobody);
        while one.turn_after(1) {}
        let kept = one.server.account.bytes();
        let window = limits::window_bytes(one.server.backlog_bytes_max);
        assert!(kept <= window + 4_096, "{kept} bytes, where a window has {window}");
    }
    let mut read = Vec::new();
    for _ in 0..20 * EVENTS {
        read.extend(one.wire(page.place).client_reads(2_000));
        one.answer(&Nobody);
        one.turn_after(1);
        assert!(!one.is_closed(page.place), "who reads slowly is no slow reader");
    }
    let heard = events(&read);
    for channel in channels {
        let of = |event: &&Value| event["channel"] == channel && event["event"] == "new";
        let number =
            |event: &Value| event["data"].as_str().unwrap().split(' ').next().map(str::to_owned);
        let numbers: Vec<Option<String>> = heard.iter().filter(of).map(number).collect();
        let all: Vec<Option<String>> = (0..EVENTS).map(|n| Some(n.to_string())).collect();
        assert_eq!(numbers, all, "{channel}");
    }
}

/// Events of its channel came while it read slowly, and are forgotten when it has read all.
#[test]
fn channel_whose_last_event_is_forgotten_is_asked_for_once_more_and_goes_on() {
    let history = HistoryLimits { events_max: 10_000, ..HistoryLimits::default() };
    let mut one = with_apps(EngineConfig { history, ..silent_config() });
    trigger(&one, "a", "0", None);
    let after = one.server.event_ids.id(one.server.event_ids.last()).to_string();
    let rest = "x".repeat(1_000);
    (0..200).for_each(|_| trigger(&one, "a", &rest, None));
    let page = Page::open_within(&mut one, 4_000);
    page.send(&mut one, &wish_after(&page, "a", &after));
    one.answer(&Nobody);
    while one.turn_after(1) {}
    trigger(&one, "a", "late", None);
    while one.turn_after(1) {}
    while one.router.history().unwrap().expire(u64::MAX) {}
    let (mut read, mut asked) = (Vec::new(), 0);
    for _ in 0..300 {
        read.extend(one.wire(page.place).client_reads(2_000));
        asked += one.answer(&Nobody);
        one.turn_after(1);
    }
    assert!((1..20).contains(&asked), "{asked} questions");
    let heard = events(&read);
    let gaps = names_of(&heard).into_iter().filter(|name| *name == "encke:gap").count();
    assert!((1..=2).contains(&gaps), "{gaps}");
    trigger(&one, "a", "1", None);
    while one.turn_after(1) {}
    let heard = page.hears(&mut one);
    assert_eq!((heard.len(), heard[0]["data"].as_str()), (1, Some("1")));
}

#[test]
fn channel_that_is_left_while_it_is_asked_for_holds_up_no_other() {
    let mut one = with_apps(silent_config());
    let channels = ["a", "b"];
    channels.iter().for_each(|channel| trigger(&one, channel, "0", None));
    let after = one.server.event_ids.id(one.server.event_ids.last()).to_string();
    channels.iter().for_each(|channel| trigger(&one, channel, "1", None));
    for (is_answered, all) in [(false, &["1", "2"][..]), (true, &["1", "2", "3"])] {
        let page = Page::open(&mut one);
        let wishes = channels.map(|channel| wish_after(&page, channel, &after));
        wishes.iter().for_each(|wish| page.send(&mut one, wish));
        // The answer is on its way, or is not there yet.
        if is_answered {
            one.answer(&Nobody);
        }
        page.send(&mut one, &json!({"event": "pusher:unsubscribe", "data": {"channel": "a"}}));
        for _ in 0..10 {
            one.answer(&Nobody);
            one.turn_after(1);
        }
        trigger(&one, "b", all[all.len() - 1], None);
        while one.turn_after(1) {}
        let heard = page.hears(&mut one);
        let of_b = heard.iter().filter(|event| event["channel"] == "b" && event["event"] == "new");
        let texts: Vec<&str> = of_b.map(|event| event["data"].as_str().unwrap()).collect();
        assert_eq!(texts, all, "{is_answered}");
    }
}

/// Its audience is known, and it is not recorded yet: a mailbox was full, or the crowd is large.
#[test]
fn event_of_a_channel_that_caches_is_heard_by_who_subscribes_while_it_is_sent() {
    let mut one = with_apps(silent_config());
    for channel in ["cache-a", "private-cache-a"] {
        let page = Page::open(&mut one);
        let wish = client_frame(0x81, page.wish(channel, "").to_string().as_bytes());
        let mut sending = one.router.send(on_channel(channel, "1"));
        while !sending.gather(&Nobody).unwrap() {}
        one.server.wire(page.place).client_sends(&wish);
        one.server.hear_out(page.place);
        posted(&mut sending, &Nobody);
        drop(sending);
        for _ in 0..50 {
            one.answer(&Nobody);
            one.turn_after(1);
        }
        trigger(&one, channel, "2", None);
        while one.turn_after(1) {}
        let heard = page.hears(&mut one);
        assert_eq!(names_of(&heard), [SUCCEEDED, "pusher:cache_miss", "new", "new"], "{channel}");
        assert_eq!((heard[2]["data"].as_str(), heard[3]["data"].as_str()), (Some("1"), Some("2")));
    }
}

/// Such as what an Erlang process sends to those alone who are there.
#[test]
fn event_that_nobody_remembers_is_told_at_once_while_a_user_catches_up() {
    let app = format!(r#"[{{"id":"1","key":"key","secret":"{SECRET}","graph":true}}]"#);
    let apps = Arc::new(PusherApps::new(Apps::parse(app.as_bytes(), true).unwrap()));
    let mut one = One::start(EngineConfig { pusher: Some(apps), ..silent_config() });
    let page = Page::open(&mut one);
    assert_eq!(names_of(&page.says(&mut one, &page.signs_in("bob"))), ["pusher:signin_success"]);
    let own = "#server-to-user-bob";
    trigger(&one, own, "0", None);
    let after = one.server.event_ids.id(one.server.event_ids.last()).to_string();
    page.send(&mut one, &wish_after(&page, own, &after));
    let outgoing = Outgoing::new("bob", "1").unwrap().for_subjects_alone();
    posted(&mut one.router.send(outgoing), &Nobody);
    let mut asked = 0;
    for _ in 0..50 {
        asked += one.answer(&Nobody);
        one.turn_after(1);
    }
    assert_eq!(asked, 1);
    let heard = page.hears(&mut one);
    assert!(heard.iter().any(|event| event["channel"] == own && event["data"] == "1"), "{heard:?}");
}

#[test]
fn what_a_subscriber_waits_to_be_told_of_its_place_is_told_by_another_version() {
    let mut one = with_apps(silent_config());
    let mut pages = [Page::open(&mut one), Page::open(&mut one)];
    let plane = Plane::of(&one);
    for (page, after) in pages.iter().zip(["", "no place"]) {
        page.send(&mut one, &wish_after(page, "presence-a", after));
    }
    while one.turn_after(1) {}
    pages.iter().for_each(|page| assert!(page.hears(&mut one).is_empty(), "no list is there yet"));
    drop(plane);
    one.upgrade(&mut Random::new(7));
    pages.iter_mut().for_each(|page| page.place = one.server.find(page.place));
    let mut plane = Plane::of(&one);
    while one.turn_after(1) {}
    plane.work(&mut one, |_| {});
    while one.turn_after(1) {}
    for (page, told) in pages.iter().zip(["encke:place", "encke:gap"]) {
        assert_eq!(names_of(&page.hears(&mut one)), [SUCCEEDED, told]);
    }
}

#[test]
fn who_leaves_is_noted_as_the_apps_are_now_whatever_its_worker_has_seen_of_them() {
    let file = |counts: bool| {
        let app = format!(
            r#"[{{"id":"1","key":"key","secret":"{SECRET}","subscription_count":{counts}}}]"#
        );
        Apps::parse(app.as_bytes(), false).unwrap()
    };
    let apps = Arc::new(PusherApps::new(file(false)));
    let mut one = One::start(EngineConfig { pusher: Some(Arc::clone(&apps)), ..silent_config() });
    let page = Page::open(&mut one);
    assert_eq!(names_of(&page.says(&mut one, &page.wish("a", ""))), [SUCCEEDED]);
    apps.replace(file(true));
    one.wire(page.place).client_resets();
    while one.turn_after(1) {}
    let mut notes = Vec::new();
    apps.notes().take(&mut notes);
    let changes: Vec<ChannelChange> = notes.iter().map(|note| note.change).collect();
    assert_eq!(changes, [ChannelChange::Left]);
    notes.into_iter().for_each(|note| note.release(one.router.names()));
}
