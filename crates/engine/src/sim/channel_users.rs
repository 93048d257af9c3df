//! These are users of the Pusher protocol: members of presence channels, those who are signed in,
//! and who watches them. Another version of the server goes on with all of it.

use std::sync::Arc;

use hub::{Id, IdText, Nobody};
use pusher::Apps;
use serde_json::{Value, json};

use super::channels::{Page, SECRET, SUCCEEDED, close_code, events, names_of, trigger, with_apps};
use super::members::{Plane, settle};
use super::one::One;
use super::random::Random;
use super::server::{posted, silent_config};
use crate::channel_notes::ChannelChange;
use crate::config::EngineConfig;
use crate::pusher_apps::PusherApps;
use crate::user_key;

#[test]
fn members_of_a_channel_are_as_many_as_the_app_says_and_each_user_is_one() {
    let mut one = with_apps(silent_config());
    let mut plane = Plane::of(&one);
    let users = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "0", "9"];
    let pages: Vec<Page> = users.iter().map(|_| Page::open(&mut one)).collect();
    for (page, user) in pages.iter().zip(users) {
        page.send(&mut one, &page.wish("presence-a", user));
        plane.work(&mut one, |_| {});
        while one.turn_after(1) {}
    }
    let full = pages[10].hears(&mut one);
    assert_eq!(names_of(&full), ["pusher:subscription_error"]);
    assert!(full[0]["data"].as_str().unwrap().contains("LimitReached"), "{full:?}");
    let again = pages[9].hears(&mut one);
    assert_eq!(names_of(&again), [SUCCEEDED], "a second connection of a member is let in");
    assert!(again[0]["data"].as_str().unwrap().contains("\"count\":9"), "{again:?}");
    let first = pages[0].hears(&mut one);
    assert_eq!(names_of(&first)[1..], ["pusher_internal:member_added"; 8]);
}

/// It takes a place from nobody then. But who comes and goes again and again has a grace as others.
#[test]
fn user_that_goes_before_the_list_has_come_leaves_at_once_the_first_time() {
    let mut one = with_apps(silent_config());
    let mut plane = Plane::of(&one);
    // Nobody tells of what nobody hears of.
    let listener = Page::open(&mut one);
    listener.send(&mut one, &listener.wish("presence-a", "ann"));
    plane.work(&mut one, |_| {});
    let page = Page::open(&mut one);
    let leaves = json!({"event": "pusher:unsubscribe", "data": {"channel": "presence-a"}});
    for (comes_again, changes) in [(false, vec![true, false]), (true, vec![true])] {
        let mut told = Vec::new();
        for frame in [page.wish("presence-a", "bob"), leaves.clone()] {
            page.send(&mut one, &frame);
            // Who was there is told, and nobody has answered with the list.
            told.extend(plane.looked(&one));
        }
        assert_eq!(told, changes, "again: {comes_again}");
    }
    one.wire(page.place).client_resets();
    while one.turn_after(1) {}
    let other = Page::open(&mut one);
    other.send(&mut one, &other.wish("presence-a", "rj"));
    assert_eq!(plane.looked(&one), [true]);
    one.wire(other.place).client_resets();
    while one.turn_after(1) {}
    assert_eq!(plane.looked(&one), [false], "nor has one whose connection has gone");
}

#[test]
fn member_for_whom_other_nodes_leave_no_place_is_let_go_of_without_a_grace() {
    let app =
        format!(r#"[{{"id":"1","key":"key","secret":"{SECRET}","subscription_count":true}}]"#);
    let apps = Arc::new(PusherApps::new(Apps::parse(app.as_bytes(), false).unwrap()));
    let pusher = Some(Arc::clone(&apps));
    let mut one = One::start(EngineConfig { pusher, ..silent_config() });
    let mut plane = Plane::of(&one);
    let sits = |one: &mut One, plane: &mut Plane, page: &Page, user: &str| {
        page.send(one, &page.wish("presence-a", user));
        for _ in 0..2 {
            plane.work(one, |_| {});
            while one.turn_after(1) {}
        }
        page.hears(one)
    };
    let (bob, eve) = (Page::open(&mut one), Page::open(&mut one));
    assert_eq!(names_of(&sits(&mut one, &mut plane, &bob, "bob")), [SUCCEEDED]);
    plane.is_full = true;
    let heard = sits(&mut one, &mut plane, &eve, "eve");
    assert_eq!(names_of(&heard), ["pusher:subscription_error"]);
    assert!(heard[0]["data"].as_str().unwrap().contains("LimitReached"), "{heard:?}");
    let room = plane.watches.names().lookup(IdText::of_key("#c1:presence-a").unwrap()).unwrap();
    let there = (plane.roster.list(room).count, plane.roster.waiting());
    assert_eq!(there, (1, 0), "it has left, and waits for nothing");
    trigger(&one, "presence-a", "1", None);
    while one.turn_after(1) {}
    assert!(eve.hears(&mut one).is_empty(), "it is not subscribed");
    // Whoever is in has the list anew, whatever the others say.
    assert!(names_of(&sits(&mut one, &mut plane, &bob, "bob")).contains(&SUCCEEDED));
    let mut notes = Vec::new();
    apps.notes().take(&mut notes);
    let told: Vec<_> = notes.iter().map(|note| (note.member != Id::NONE, note.change)).collect();
    let waited = (true, ChannelChange::Waited);
    assert_eq!(told, [(true, ChannelChange::Came), (false, ChannelChange::Came), waited]);
    notes.into_iter().for_each(|note| note.release(one.router.names()));
}

#[test]
fn user_hears_its_own_channel_and_its_connections_are_ended_together() {
    let mut one = with_apps(silent_config());
    let (bob, rj) = (Page::open(&mut one), Page::open(&mut one));
    for (page, user) in [(&bob, "bob"), (&rj, "rj")] {
        let heard = page.says(&mut one, &page.signs_in(user));
        assert_eq!(names_of(&heard), ["pusher:signin_success"], "{heard:?}");
        assert_eq!(names_of(&page.says(&mut one, &page.signs_in(user))), ["pusher:signin_success"]);
    }
    assert_eq!(names_of(&bob.says(&mut one, &bob.signs_in("rj"))), ["pusher:error"]);
    let own = |page: &Page| page.wish("#server-to-user-bob", "");
    assert_eq!(names_of(&bob.says(&mut one, &own(&bob))), [SUCCEEDED]);
    assert_eq!(names_of(&rj.says(&mut one, &own(&rj))), ["pusher:subscription_error"]);
    trigger(&one, "#server-to-user-bob", "hi", None);
    while one.turn_after(1) {}
    assert_eq!(bob.hears(&mut one)[0]["channel"], "#server-to-user-bob");
    let key = user_key("1", "bob");
    posted(&mut one.router.logout(IdText::of_key(&key).unwrap()), &Nobody);
    while one.turn_after(1) {}
    let last = one.wire(bob.place).client_reads(usize::MAX);
    assert_eq!((names_of(&events(&last)), close_code(&last)), (vec!["pusher:error"], Some(4009)));
    assert!(rj.hears(&mut one).is_empty() && !one.is_closed(rj.place));
}

#[test]
fn another_version_goes_on_with_channels_users_and_seats() {
    let mut one = with_apps(silent_config());
    let mut plane = Plane::of(&one);
    let mut pages = [Page::open(&mut one), Page::open(&mut one)];
    for page in &pages {
        page.send(&mut one, &page.wish("private-a", ""));
        page.send(&mut one, &page.signs_in("bob"));
        page.send(&mut one, &page.wish("presence-b", "bob"));
    }
    plane.work(&mut one, |_| {});
    while one.turn_after(1) {}
    pages.iter().for_each(|page| assert_eq!(page.hears(&mut one).len(), 3));
    one.upgrade(&mut Random::new(7));
    pages.iter_mut().for_each(|page| page.place = one.server.find(page.place));
    let mut plane = Plane::of(&one);
    while one.turn_after(1) {}
    plane.work(&mut one, |_| {});
    while one.turn_after(1) {}
    trigger(&one, "private-a", "1", Some(pages[0].connection_id()));
    trigger(&one, "presence-b", "2", None);
    while one.turn_after(1) {}
    assert_eq!(names_of(&pages[0].hears(&mut one)), [SUCCEEDED, "new"], "a list anew");
    assert_eq!(names_of(&pages[1].hears(&mut one)), [SUCCEEDED, "new", "new"]);
    let own = pages[1].wish("#server-to-user-bob", "");
    assert_eq!(names_of(&pages[1].says(&mut one, &own)), [SUCCEEDED], "it is bob still");
}

/// The sign-in of bob, who watches rj and zoe.
fn bob_with_watchlist(page: &Page) -> Value {
    let data = json!({"id": "bob", "watchlist": ["rj", "zoe"]}).to_string();
    let auth = page.auth(&format!(":user::{data}"));
    json!({"event": "pusher:signin", "data": {"auth": auth, "user_data": data}})
}

/// Checks that the last that was heard tells this of watched users.
fn told(heard: &[Value], online: &[&str], offline: &[&str]) {
    let last = heard.last().unwrap();
    assert_eq!(last["event"], "pusher_internal:watchlist_events", "{heard:?}");
    let data: Value = serde_json::from_str(last["data"].as_str().unwrap()).unwrap();
    let of = |name: &str, ids: &[&str]| json!({"name": name, "user_ids": ids});
    let events = [("online", online), ("offline", offline)].into_iter();
    let events = events.filter(|(_, ids)| !ids.is_empty()).map(|(name, ids)| of(name, ids));
    assert_eq!(data["events"], Value::Array(events.collect()));
}

#[test]
fn watchlist_of_a_node_of_a_cluster_is_asked_for_each_of_it() {
    let mut one = with_apps(EngineConfig { cluster: true, ..silent_config() });
    let mut plane = Plane::of(&one);
    let (bob, rj) = (Page::open(&mut one), Page::open(&mut one));
    rj.says(&mut one, &rj.signs_in("rj"));
    let heard = bob.says(&mut one, &bob_with_watchlist(&bob));
    assert_eq!(names_of(&heard), ["pusher:signin_success"], "nobody here knows who is elsewhere");
    settle(&mut one, &mut plane);
    let heard = bob.hears(&mut one);
    assert_eq!(heard.len(), 2, "{heard:?}");
    told(&heard[..1], &["rj"], &[]);
    told(&heard[1..], &[], &["zoe"]);
    let key = IdText::of_key("#s1:rj").unwrap();
    assert_eq!(one.router.connections(key), 1, "who watches a user is not that user");
    one.wire(rj.place).client_ends();
    one.server.hear_out(rj.place);
    settle(&mut one, &mut plane);
    told(&bob.hears(&mut one), &[], &["rj"]);
    // It is asked anew by who signs in again.
    bob.says(&mut one, &bob_with_watchlist(&bob));
    settle(&mut one, &mut plane);
    let heard = bob.hears(&mut one);
    assert_eq!(heard.len(), 2, "{heard:?}");
    told(&heard, &[], &["zoe"]);
}

#[test]
fn watchlist_is_told_who_is_signed_in_and_who_comes_and_goes() {
    let mut one = with_apps(silent_config());
    let mut plane = Plane::of(&one);
    let (bob, rj, too) = (Page::open(&mut one), Page::open(&mut one), Page::open(&mut one));
    let heard = bob.says(&mut one, &bob_with_watchlist(&bob));
    assert_eq!(heard[0]["event"], "pusher:signin_success");
    told(&heard, &[], &["rj", "zoe"]);
    for page in [&rj, &too] {
        page.says(&mut one, &page.signs_in("rj"));
    }
    settle(&mut one, &mut plane);
    let heard = bob.hears(&mut one);
    assert_eq!(heard.len(), 1, "once for both connections: {heard:?}");
    told(&heard, &["rj"], &[]);
    one.upgrade(&mut Random::new(3));
    let [bob, rj, too] =
        [bob, rj, too].map(|page| Page { place: one.server.find(page.place), ..page });
    let mut plane = Plane::of(&one);
    while one.turn_after(1) {}
    told(&bob.hears(&mut one), &["rj"], &["zoe"]);
    settle(&mut one, &mut plane);
    bob.hears(&mut one);
    one.wire(rj.place).client_ends();
    settle(&mut one, &mut plane);
    assert!(bob.hears(&mut one).is_empty(), "one of two has gone");
    one.wire(too.place).client_ends();
    one.server.hear_out(too.place);
    settle(&mut one, &mut plane);
    told(&bob.hears(&mut one), &[], &["rj"]);
}
