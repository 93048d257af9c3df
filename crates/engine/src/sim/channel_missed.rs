//! What a page is told of what it has missed, and what its app is told of it, while something else
//! goes on: it reads slowly, another version takes over, the file of apps is read again.

use std::sync::Arc;

use hub::{Id, Nobody};
use pusher::Apps;
use serde_json::Value;

use super::channels::{Page, SUCCEEDED, events, names_of, trigger, with_apps};
use super::members::{Plane, settle};
use super::one::One;
use super::random::Random;
use super::server::silent_config;
use crate::channel_notes::ChannelChange;
use crate::pusher_apps::PusherApps;

/// The wish to subscribe, and to go on `after` there.
fn wish_after(page: &Page, channel: &str, after: &str) -> Value {
    let mut wish = page.wish(channel, "bob");
    wish["data"]["after"] = after.into();
    wish
}

/// What a page hears until nothing more comes.
fn hears_all(one: &mut One, page: &Page) -> Vec<Value> {
    let mut heard = Vec::new();
    loop {
        let read = one.wire(page.place).client_reads(usize::MAX);
        let is_over = read.is_empty();
        heard.extend(read);
        one.server.report_one(page.place);
        let is_busy = one.turn_after(1);
        if one.answer(&Nobody) == 0 && !is_busy && is_over {
            return events(&heard);
        }
    }
}

#[test]
fn window_is_asked_for_when_the_one_of_another_channel_is_written() {
    let mut one = with_apps(silent_config());
    let page = Page::open(&mut one);
    let told = page.says(&mut one, &wish_after(&page, "a", ""));
    assert_eq!(names_of(&told), [SUCCEEDED, "encke:place"]);
    let place = told[1]["id"].as_str().unwrap().to_owned();
    let data = format!("\"{}\"", "x".repeat(4_000));
    for _ in 0..11 {
        trigger(&one, "a", &data, None);
        trigger(&one, "b", &data, None);
    }
    while one.turn_after(1) {}
    let page = Page::open_with(&mut one, 2_000);
    page.send(&mut one, &wish_after(&page, "a", &place));
    assert_eq!(one.answer(&Nobody), 1);
    while one.turn_after(1) {}
    page.send(&mut one, &wish_after(&page, "b", &place));
    while one.turn_after(1) {}
    assert_eq!(one.answer(&Nobody), 0, "the window of a is not written");
    let heard = hears_all(&mut one, &page);
    assert!(!one.is_closed(page.place), "it reads, if slowly");
    for channel in ["a", "b"] {
        let of =
            heard.iter().filter(|frame| frame["channel"] == channel && frame["event"] == "new");
        assert_eq!(of.count(), 11, "{channel}");
    }
}

#[test]
fn place_and_gap_that_were_not_told_are_told_behind_an_upgrade() {
    for (after, frame) in [("", "encke:place"), ("of-nobody", "encke:gap")] {
        let mut one = with_apps(silent_config());
        let page = Page::open(&mut one);
        let heard = page.says(&mut one, &wish_after(&page, "presence-a", after));
        assert!(heard.is_empty(), "it waits for the list: {heard:?}");
        one.upgrade(&mut Random::new(3));
        let page = Page { place: one.server.find(page.place), ..page };
        let mut plane = Plane::of(&one);
        settle(&mut one, &mut plane);
        assert_eq!(names_of(&page.hears(&mut one)), [SUCCEEDED, frame]);
    }
}

#[test]
fn leave_is_noted_by_a_worker_that_has_not_looked_since_the_file_was_read() {
    let app = |more: &str| {
        let app = format!(r#"[{{"id":"1","key":"key","secret":"a-secret-of-some-length"{more}}}]"#);
        Apps::parse(app.as_bytes(), false).unwrap()
    };
    let apps = Arc::new(PusherApps::new(app("")));
    let mut config = silent_config();
    config.pusher = Some(Arc::clone(&apps));
    let mut one = One::start(config);
    let page = Page::open(&mut one);
    assert_eq!(names_of(&page.says(&mut one, &page.wish("a", ""))), [SUCCEEDED]);
    apps.replace(app(r#","subscription_count":true"#));
    one.wire(page.place).client_ends();
    one.server.hear_out(page.place);
    while one.turn_after(1) {}
    let mut notes = Vec::new();
    assert!(!apps.notes().take(&mut notes));
    let left: Vec<_> = notes.iter().map(|note| (note.member, note.change)).collect();
    assert_eq!(left, [(Id::NONE, ChannelChange::Left)]);
    notes.into_iter().for_each(|note| note.release(one.router.names()));
}
