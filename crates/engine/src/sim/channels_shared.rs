//! Clients of the Pusher protocol whose channels are one audience with ids: each event once, on
//! each channel of its subjects, in order, also for those who come back and for users of the graph.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hub::{
    Draft, EventId, EventParts, Followers, FollowersError, Id, IdText, Names, Nobody, Payload,
    SUBJECTS_MAX,
};
use pusher::Apps;
use pusher::limits::APPS_MAX;
use serde_json::{Value, json};

use super::channels::{Page, SECRET, SUCCEEDED, names_of};
use super::one::One;
use super::server::{posted, silent_config};
use super::talk::client_frame;
use crate::config::EngineConfig;
use crate::outgoing::Outgoing;
use crate::pusher_apps::PusherApps;

fn apps(members: &str) -> Apps {
    let app = format!(r#"[{{"id":"1","key":"key","secret":"{SECRET}"{members}}}]"#);
    Apps::parse(app.as_bytes(), true).unwrap()
}

fn with_ids(members: &str) -> (One, Arc<PusherApps>) {
    let apps = apps(&format!(r#","ids":"chat:"{members}"#));
    let apps = Arc::new(PusherApps::new(apps));
    let pusher = Some(Arc::clone(&apps));
    (One::start(EngineConfig { pusher, ..silent_config() }), apps)
}

/// One server, and one that another version takes over before each turn.
fn both_with_ids(members: &str) -> [One; 2] {
    [with_ids(members).0, with_ids(members).0.upgraded()]
}

fn about(about: &[&str], data: &str) -> Outgoing {
    let (about, also) = about.split_first().unwrap();
    let parts = EventParts { about, also, name: None, from: None, payload: Payload::Json(data) };
    Draft::of(parts).unwrap().into()
}

/// Sends it, and takes turns until all is delivered: to how many.
fn send(one: &mut One, outgoing: Outgoing) -> u32 {
    let receipt = posted(&mut one.router.send(outgoing), &Nobody);
    while one.turn_after(1) {}
    receipt.ready().unwrap()
}

fn heard(page: &Page, one: &mut One) -> Vec<(String, String)> {
    let text = |event: &Value, member: &str| event[member].as_str().unwrap().to_owned();
    let events = page.hears(one);
    events.iter().map(|event| (text(event, "channel"), text(event, "data"))).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|&(one, other)| (one.to_owned(), other.to_owned())).collect()
}

/// Subscribes, behind the event with this id if there is one.
fn subscribe(one: &mut One, page: &Page, channel: &str, after: Option<&str>) {
    let mut wish = page.wish(channel, "");
    if let Some(after) = after {
        wish["data"]["after"] = after.into();
    }
    assert_eq!(names_of(&page.says(one, &wish)), [SUCCEEDED]);
}

/// Nobody is logged in under it, and nobody remembers anything of it but the disk.
#[test]
fn id_that_is_asked_for_keeps_its_name_until_it_is_answered() {
    let (mut one, _) = with_ids("");
    let name = |one: &One| one.router.names().lookup(IdText::parse("chat:news").unwrap());
    send(&mut one, about(&["a"], "0"));
    let after = one.server.event_ids.id(one.server.event_ids.last()).to_string();
    let page = Page::open(&mut one);
    subscribe(&mut one, &page, "news", Some(&after));
    assert!(name(&one).is_some());
    for _ in 0..3 {
        one.answer(&Nobody);
        while one.turn_after(1) {}
    }
    assert_eq!(name(&one), None);
}

#[test]
fn event_about_several_ids_is_heard_once_in_each_of_their_channels() {
    let (mut one, live) = with_ids("");
    let page = Page::open(&mut one);
    ["news", "a"].iter().for_each(|channel| subscribe(&mut one, &page, channel, None));
    let both = || about(&["chat:news", "bob", "chat:a"], "{\"n\":1}");
    assert_eq!(send(&mut one, both()), 1, "one connection");
    let twice = [("news", "{\"n\":1}"), ("a", "{\"n\":1}")];
    assert_eq!(heard(&page, &mut one), pairs(&twice));
    assert_eq!(send(&mut one, about(&["news"], "1")), 0, "the name alone is another id");
    page.send(&mut one, &json!({"event": "pusher:unsubscribe", "data": {"channel": "news"}}));
    assert_eq!(send(&mut one, both()), 1);
    assert_eq!(heard(&page, &mut one), pairs(&twice[1..]));
    // What the file says is so from now on, for those who are there, too.
    let before = one.server.event_ids.id(one.server.event_ids.last()).to_string();
    send(&mut one, both());
    page.hears(&mut one);
    live.replace(apps(""));
    assert_eq!(send(&mut one, both()), 0);
    live.replace(apps(r#","ids":"""#));
    assert_eq!(send(&mut one, about(&["a"], "2")), 1);
    assert_eq!(heard(&page, &mut one), pairs(&[("a", "2")]));
    // What was sent on a channel before is about another id, so that is told.
    let later = one.server.event_ids.id(one.server.event_ids.last()).to_string();
    send(&mut one, about(&["a"], "3"));
    for (after, told) in [(&before, "encke:gap"), (&later, "message")] {
        let page = Page::open(&mut one);
        let mut wish = page.wish("a", "");
        wish["data"]["after"] = after.as_str().into();
        page.send(&mut one, &wish);
        one.answer(&Nobody);
        while one.turn_after(1) {}
        assert_eq!(names_of(&page.hears(&mut one)), [SUCCEEDED, told]);
    }
}

/// As many subjects as an event may have, each with a channel of its own: one copy for each of
/// them, who is in all has each, and nothing is kept. A connection that does not read counts, too.
#[test]
fn event_about_as_many_ids_as_may_be_is_heard_in_each_of_their_channels() {
    let (mut one, _) = with_ids("");
    let channels: Vec<String> = (0..SUBJECTS_MAX).map(|n| format!("n{n}")).collect();
    let ids: Vec<String> = channels.iter().map(|channel| format!("chat:{channel}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let pages = [1 << 16, 1 << 20, 1 << 20].map(|room| Page::open_within(&mut one, room));
    for page in &pages {
        for channel in &channels {
            page.send(&mut one, &page.wish(channel, ""));
            // A turn has time for some of them.
            while one.turn_after(1) {}
        }
        assert_eq!(names_of(&page.hears(&mut one)), [SUCCEEDED; SUBJECTS_MAX]);
    }
    assert_eq!(send(&mut one, about(&ids, "1")), 3, "each connection counts once");
    let all: Vec<(&str, &str)> = channels.iter().map(|channel| (&**channel, "1")).collect();
    for page in &pages {
        assert_eq!(heard(page, &mut one), pairs(&all));
    }
    // The first does not read any more, and all copies are longer than its backlog.
    let long = format!("\"{}\"", "x".repeat(2 * one.server.backlog_bytes_max / SUBJECTS_MAX));
    for _ in 0..3 {
        send(&mut one, about(&ids, &long));
        for page in &pages[1..] {
            assert_eq!(heard(page, &mut one).len(), SUBJECTS_MAX);
        }
    }
    assert!(one.is_closed(pages[0].place), "it does not read");
    while one.turn_after(1) {}
    assert_eq!(one.server.account.bytes(), 0, "of nobody else anything waits");
}

/// As many apps as a file may have, and all of them share one id.
#[test]
fn event_about_an_id_of_as_many_apps_as_may_be_is_heard_once_by_each_subscriber() {
    let app =
        |n: usize| format!(r#"{{"id":"{n}","key":"k{n}","secret":"{SECRET}","ids":"chat:"}}"#);
    let file: Vec<String> = (1..=APPS_MAX).map(app).collect();
    let apps = Apps::parse(format!("[{}]", file.join(",")).as_bytes(), true).unwrap();
    let names = Names::new([3; 16]);
    let live = PusherApps::new(apps);
    let log_in = |n| {
        let key = format!("#c{n}:news");
        (names.login(IdText::of_key(&key).unwrap(), true).unwrap(), key)
    };
    let keys: BTreeMap<Id, String> = (1..=APPS_MAX).map(log_in).collect();
    let draft = |about| {
        let payload = Payload::Json("1");
        Draft::of(EventParts { about, also: &[], name: None, from: None, payload }).unwrap()
    };
    let found: BTreeSet<Id> = live.shared_keys(&names, &draft("chat:news")).into_iter().collect();
    assert_eq!(found, keys.keys().copied().collect());
    let event = draft("chat:news").numbered(EventId::parse(b"0000000000700000").unwrap());
    let mut channels = live.shared_channels(&names, &event);
    assert_eq!(channels.len(), APPS_MAX);
    for channel in &mut channels {
        let expected = &keys[&channel.id];
        // It is made once, for all who ask.
        let [first, again] = [(); 2].map(|()| channel.event(&event).unwrap().clone());
        assert!(Arc::ptr_eq(&first, &again) && *first.about() == **expected);
    }
    assert!(live.shared_keys(&names, &draft("chat:nobody")).is_empty());
}

#[test]
fn subscriber_that_comes_back_hears_what_was_sent_about_the_id() {
    both_with_ids("").into_iter().for_each(come_back);
}

fn come_back(mut one: One) {
    send(&mut one, about(&["chat:news"], "0"));
    let after = one.server.event_ids.id(one.server.event_ids.last()).to_string();
    for data in ["1", "2"] {
        send(&mut one, about(&["bob", "chat:news"], data));
    }
    let page = Page::open(&mut one);
    subscribe(&mut one, &page, "news", Some(&after));
    // Of that it is told with what it has missed.
    send(&mut one, about(&["chat:news"], "3"));
    assert_eq!(heard(&page, &mut one), []);
    one.answer(&Nobody);
    while one.turn_after(1) {}
    one.answer(&Nobody);
    send(&mut one, about(&["chat:news"], "4"));
    let all = [("news", "1"), ("news", "2"), ("news", "3"), ("news", "4")];
    assert_eq!(heard(&page, &mut one), pairs(&all));
}

/// Its audience is known, and it is not recorded yet: a mailbox was full, or the crowd is large.
#[test]
fn event_is_heard_by_who_comes_back_while_it_is_sent() {
    let (mut one, _) = with_ids("");
    send(&mut one, about(&["chat:news"], "0"));
    let after = one.server.event_ids.id(one.server.event_ids.last()).to_string();
    let page = Page::open(&mut one);
    let mut wish = page.wish("news", "");
    wish["data"]["after"] = after.into();
    let wish = client_frame(0x81, wish.to_string().as_bytes());
    let mut sending = one.router.send(about(&["chat:news"], "1"));
    while !sending.gather(&Nobody).unwrap() {}
    one.server.wire(page.place).client_sends(&wish);
    one.server.hear_out(page.place);
    while one.server.turn(0) {}
    assert_eq!(one.answer(&Nobody), 1, "it asks what it has missed, and does not wait");
    posted(&mut sending, &Nobody);
    drop(sending);
    for _ in 0..50 {
        one.answer(&Nobody);
        one.turn_after(1);
    }
    send(&mut one, about(&["chat:news"], "2"));
    let heard = page.hears(&mut one);
    let data: Vec<&Value> = heard.iter().skip(1).map(|event| &event["data"]).collect();
    assert_eq!(data, ["1", "2"], "{heard:?}");
}

#[test]
fn user_of_the_graph_hears_in_the_channel_what_it_would_hear_on_its_own() {
    both_with_ids(r#","graph":true"#).into_iter().for_each(hear_as_bob);
}

fn hear_as_bob(mut one: One) {
    send(&mut one, about(&["bob"], "0"));
    let after = one.server.event_ids.id(one.server.event_ids.last()).to_string();
    let page = Page::open(&mut one);
    page.says(&mut one, &page.signs_in("bob"));
    let own = "#server-to-user-bob";
    [own, "news"].iter().for_each(|channel| subscribe(&mut one, &page, channel, None));
    assert_eq!(send(&mut one, about(&["bob", "chat:news"], "1")), 1);
    assert_eq!(send(&mut one, about(&["bob"], "2")), 1);
    assert_eq!(heard(&page, &mut one), pairs(&[("news", "1"), (own, "2")]));
    let page = Page::open(&mut one);
    page.says(&mut one, &page.signs_in("bob"));
    subscribe(&mut one, &page, "news", None);
    subscribe(&mut one, &page, own, Some(&after));
    one.answer(&Nobody);
    while one.turn_after(1) {}
    assert_eq!(heard(&page, &mut one), pairs(&[(own, "2")]));
}

#[test]
fn sender_about_an_id_is_not_taken_for_the_server() {
    let (mut one, _) = with_ids(r#","graph":true"#);
    let page = Page::open(&mut one);
    page.says(&mut one, &page.signs_in("bob"));
    for channel in ["#server-to-user-bob", "news"] {
        subscribe(&mut one, &page, channel, None);
    }
    for about in ["bob", "chat:news"] {
        for (name, called) in [("pusher:error", "message"), ("typing", "typing")] {
            let (name, payload) = (Some(name), Payload::Json("{}"));
            let parts = EventParts { about, also: &[], name, from: None, payload };
            send(&mut one, Draft::of(parts).unwrap().into());
            assert_eq!(names_of(&page.hears(&mut one)), [called], "{about}");
        }
    }
}

/// The id `news` follows `rj`.
struct Follows {
    news: Id,
    rj: Id,
}

impl Followers for Follows {
    fn slice(
        &self,
        subject: Id,
        after: Option<Id>,
        visit: &mut dyn FnMut(Id),
    ) -> Result<Option<Id>, FollowersError> {
        let is_followed = subject == self.rj && after.is_none();
        is_followed.then_some(self.news).into_iter().for_each(visit);
        Ok(None)
    }

    fn slice_of_following(
        &self,
        subscriber: Id,
        after: Option<Id>,
        visit: &mut dyn FnMut(Id),
    ) -> Result<Option<Id>, FollowersError> {
        let follows = subscriber == self.news && after.is_none();
        follows.then_some(self.rj).into_iter().for_each(visit);
        Ok(None)
    }
}

#[test]
fn subscriber_hears_nothing_of_whom_the_id_follows_also_when_it_comes_back() {
    let (mut one, _) = with_ids("");
    let pin = |text| one.router.names().pin(IdText::parse(text).unwrap());
    let graph = Follows { news: pin("chat:news"), rj: pin("rj") };
    let send_all = |one: &mut One| {
        for about_whom in ["rj", "chat:news"] {
            let sent = about(&[about_whom], &format!("\"{about_whom}\""));
            posted(&mut one.router.send(sent), &graph);
        }
        while one.turn_after(1) {}
    };
    let page = Page::open(&mut one);
    subscribe(&mut one, &page, "news", None);
    send(&mut one, about(&["chat:news"], "0"));
    assert_eq!(heard(&page, &mut one), pairs(&[("news", "0")]));
    let after = one.server.event_ids.id(one.server.event_ids.last()).to_string();
    send_all(&mut one);
    assert_eq!(heard(&page, &mut one), pairs(&[("news", "chat:news")]));
    let page = Page::open(&mut one);
    subscribe(&mut one, &page, "news", Some(&after));
    one.answer(&graph);
    while one.turn_after(1) {}
    assert_eq!(heard(&page, &mut one), pairs(&[("news", "chat:news")]));
}
