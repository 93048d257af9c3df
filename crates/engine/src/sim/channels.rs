//! One shard whose clients speak the Pusher protocol: what each is answered, and what bounds it.

use std::sync::Arc;

use hub::{ConnectionId, Draft, EventParts, IdText, Nobody, Payload};
use pusher::{Apps, Secret, SocketId};
use serde_json::{Value, json};

use super::members::{Plane, settle};
use super::one::One;
use super::server::{Place, posted, silent_config};
use super::talk::{client_frame, server_texts};
use crate::answers::Answers;
use crate::client_sends::SentBy;
use crate::config::EngineConfig;
use crate::pusher_apps::PusherApps;
use crate::said::{Answered, DirectMessage};
use crate::{Outgoing, channel_key};

pub(super) const SECRET: &str = "a-secret-of-some-length";

const APPS: &str = r#"[
    {"id":"1","key":"key","secret":"a-secret-of-some-length","client_events":true,"max_members":9},
    {"id":"2","key":"off","secret":"a-secret-of-some-length","enabled":false},
    {"id":"3","key":"one","secret":"a-secret-of-some-length","max_connections":1}
]"#;

/// A server of these apps.
pub(super) fn with_apps(config: EngineConfig) -> One {
    let apps = PusherApps::new(Apps::parse(APPS.as_bytes(), false).unwrap());
    One::start(EngineConfig { pusher: Some(Arc::new(apps)), ..config })
}

pub(super) fn upgrade_of(target: &str, lines: &str) -> String {
    format!(
        "GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{lines}\r\n"
    )
}

/// A page that is connected.
pub(super) struct Page {
    pub(super) place: Place,
    pub(super) socket: String,
}

impl Page {
    pub(super) fn open(one: &mut One) -> Page {
        Page::open_within(one, 1 << 20)
    }

    /// One whose socket takes so many bytes that are not read.
    pub(super) fn open_within(one: &mut One, room: usize) -> Page {
        let target = "/app/key?protocol=7&client=js&version=8.6.0&flash=false";
        let place = one.client(room, &upgrade_of(target, ""));
        let read = one.wire(place).client_reads(usize::MAX);
        let (head, frames) = split_head(&read);
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        let first = &events(&frames)[0];
        assert_eq!(first["event"], "pusher:connection_established");
        let data: Value = serde_json::from_str(first["data"].as_str().unwrap()).unwrap();
        assert_eq!(data["activity_timeout"], 120);
        Page { place, socket: data["socket_id"].as_str().unwrap().to_owned() }
    }

    /// What it says goes out, and is read as far as there is time.
    pub(super) fn send(&self, one: &mut One, frame: &Value) {
        one.say(self.place, &client_frame(0x81, frame.to_string().as_bytes()));
    }

    /// What it hears of now.
    pub(super) fn hears(&self, one: &mut One) -> Vec<Value> {
        events(&one.wire(self.place).client_reads(usize::MAX))
    }

    pub(super) fn says(&self, one: &mut One, frame: &Value) -> Vec<Value> {
        self.send(one, frame);
        self.hears(one)
    }

    pub(super) fn auth(&self, signed: &str) -> String {
        let text = format!("{}:{signed}", self.socket);
        format!("key:{}", Secret::new(SECRET.as_bytes()).sign(&[text.as_bytes()]))
    }

    /// The wish to subscribe, as `user` where the channel is a presence one.
    pub(super) fn wish(&self, channel: &str, user: &str) -> Value {
        let mut data = json!({"channel": channel});
        if channel.starts_with("presence-") {
            let of_user = json!({"user_id": user, "user_info": {"name": user}}).to_string();
            data["auth"] = self.auth(&format!("{channel}:{of_user}")).into();
            data["channel_data"] = of_user.into();
        } else if channel.starts_with("private-") {
            data["auth"] = self.auth(channel).into();
        }
        json!({"event": "pusher:subscribe", "data": data})
    }

    pub(super) fn signs_in(&self, user: &str) -> Value {
        let data = json!({"id": user}).to_string();
        let auth = self.auth(&format!(":user::{data}"));
        json!({"event": "pusher:signin", "data": {"auth": auth, "user_data": data}})
    }

    pub(super) fn connection_id(&self) -> ConnectionId {
        let bits = SocketId::parse(&self.socket).unwrap().unwrap().bits().unwrap();
        ConnectionId::of_bits(bits).unwrap()
    }
}

pub(super) fn split_head(read: &[u8]) -> (String, Vec<u8>) {
    let end = read.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    (String::from_utf8(read[..end].to_vec()).unwrap(), read[end..].to_vec())
}

pub(super) fn events(frames: &[u8]) -> Vec<Value> {
    server_texts(frames).into_iter().map(|text| serde_json::from_str(text).unwrap()).collect()
}

/// The code of a close at the end of `frames`.
pub(super) fn close_code(frames: &[u8]) -> Option<u16> {
    let texts: usize = server_texts(frames).iter().map(|text| text.len()).sum();
    let close = frames.iter().skip(texts).position(|&byte| byte == 0x88)? + texts;
    Some(u16::from_be_bytes([frames[close + 2], frames[close + 3]]))
}

/// An event of a channel of the app 1.
pub(super) fn on_channel(channel: &str, data: &str) -> Outgoing {
    let about = channel_key("1", pusher::Channel::parse(channel).unwrap());
    let payload = Payload::Text(data);
    let parts = EventParts { about: &about, also: &[], name: Some("new"), from: None, payload };
    Outgoing::on_channel(Draft::of_key(parts).unwrap())
}

pub(super) fn trigger(one: &One, channel: &str, data: &str, except: Option<ConnectionId>) {
    let outgoing = Outgoing { except: except.into(), ..on_channel(channel, data) };
    posted(&mut one.router.send(outgoing), &Nobody);
}

pub(super) fn names_of(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["event"].as_str().unwrap()).collect()
}

pub(super) const SUCCEEDED: &str = "pusher_internal:subscription_succeeded";

#[test]
fn who_cannot_be_at_an_app_is_told_on_the_socket_and_closed() {
    let mut one = with_apps(silent_config());
    let first = one.client(1 << 20, &upgrade_of("/app/one", ""));
    assert!(one.wire(first).client_reads(usize::MAX).starts_with(b"HTTP/1.1 101"));
    for (target, lines, code) in [
        ("/app/none", "", 4001),
        ("/app/off", "", 4003),
        ("/app/key?protocol=4", "", 4007),
        ("/app/key", "Origin: https://elsewhere.example\r\n", 4009),
        ("/app/one", "", 4100),
    ] {
        let client = one.client(1 << 20, &upgrade_of(target, lines));
        let read = one.wire(client).client_reads(usize::MAX);
        let (head, frames) = split_head(&read);
        assert!(head.starts_with("HTTP/1.1 101"), "{target}: {head}");
        let error = &events(&frames)[0];
        assert_eq!(
            (error["event"].as_str(), close_code(&frames)),
            (Some("pusher:error"), Some(code))
        );
        assert!(error["data"].as_str().unwrap().contains(&code.to_string()), "{error}");
    }
    for (target, status) in [("/app/key", "400"), ("/app/a/b", "404"), ("/app/", "404")] {
        let plain = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        let client = one.client(1 << 20, &plain);
        assert!(one.reads(client).starts_with(&format!("HTTP/1.1 {status}")), "{target}");
    }
    let mut without = One::start(silent_config());
    let client = without.client(1 << 20, &upgrade_of("/app/key", ""));
    assert!(without.reads(client).starts_with("HTTP/1.1 404"));
}

#[test]
fn subscriber_hears_its_success_and_then_the_events_of_its_channel() {
    let mut one = with_apps(silent_config());
    let (bob, rj) = (Page::open(&mut one), Page::open(&mut one));
    assert_ne!(bob.socket, rj.socket);
    for page in [&bob, &rj] {
        let heard = page.says(&mut one, &page.wish("private-a", ""));
        assert_eq!(heard, [json!({"event": SUCCEEDED, "channel": "private-a", "data": "{}"})]);
    }
    trigger(&one, "private-a", "{\"x\":1}", Some(rj.connection_id()));
    trigger(&one, "a", "not theirs", None);
    while one.turn_after(1) {}
    let heard = bob.hears(&mut one);
    let (data, id) = ("{\"x\":1}", &heard[0]["id"]);
    let event = json!({"event": "new", "channel": "private-a", "data": data, "id": id});
    assert!(id.is_string() && heard == [event], "{heard:?}");
    assert!(rj.hears(&mut one).is_empty(), "it is left out");
    assert_eq!(names_of(&bob.says(&mut one, &bob.wish("private-a", ""))), [SUCCEEDED], "again");
    let key = IdText::of_key("#c1:private-a").unwrap();
    assert_eq!(one.router.connections(key), 2, "and is counted once");
    assert_eq!(one.router.ids_online(), 0, "a channel is no id");
    let leave = json!({"event": "pusher:unsubscribe", "data": {"channel": "private-a"}});
    assert!(bob.says(&mut one, &leave).is_empty());
    assert_eq!(one.router.connections(key), 1);
    let ping = json!({"event": "pusher:ping", "data": {}});
    assert_eq!(names_of(&bob.says(&mut one, &ping)), ["pusher:pong"]);
}

#[test]
fn what_is_refused_is_answered_and_leaves_the_connection() {
    let mut one = with_apps(silent_config());
    let page = Page::open(&mut one);
    let subscribe = |data: Value| json!({"event": "pusher:subscribe", "data": data});
    for (frame, event, word) in [
        (json!(7), "pusher:error", "object"),
        (json!({"event": "pusher:what"}), "pusher:error", "does not know"),
        (json!({"event": "typing", "channel": "a"}), "pusher:error", "4301"),
        (subscribe(json!({"channel": "private-a"})), "pusher:subscription_error", "AuthError"),
        (
            subscribe(json!({"channel": "private-a", "auth": page.auth("private-b")})),
            "pusher:subscription_error",
            "AuthError",
        ),
        (subscribe(json!({"channel": "a b"})), "pusher:subscription_error", "InvalidRequest"),
        (
            subscribe(json!({"channel": "#server-to-user-bob"})),
            "pusher:subscription_error",
            "AuthError",
        ),
        (
            json!({"event": "client-a", "channel": "private-a", "data": 1}),
            "pusher:error",
            "Subscribe to the channel",
        ),
        (
            json!({"event": "pusher:signin", "data": {"auth": "key:00", "user_data": "{}"}}),
            "pusher:error",
            "signature",
        ),
    ] {
        let heard = page.says(&mut one, &frame);
        assert_eq!(names_of(&heard), [event], "{frame}");
        assert!(heard[0]["data"].as_str().unwrap().contains(word), "{frame}: {heard:?}");
    }
    assert_eq!(names_of(&page.says(&mut one, &page.wish("a", ""))), [SUCCEEDED]);
}

#[test]
fn event_of_a_client_is_asked_with_its_sender_and_at_most_twenty_at_once() {
    let mut one = with_apps(silent_config());
    let mut plane = Plane::of(&one);
    let page = Page::open(&mut one);
    page.send(&mut one, &page.wish("presence-a", "b b"));
    plane.work(&mut one, |_| {});
    while one.turn_after(1) {}
    assert_eq!(names_of(&page.hears(&mut one)), [SUCCEEDED]);
    let event = json!({"event": "client-typing", "channel": "presence-a", "data": {"x": 1}});
    let errors: Vec<Value> = (0..40).flat_map(|_| page.says(&mut one, &event)).collect();
    assert_eq!(errors.len(), 20);
    assert!(errors.iter().all(|error| error["data"].as_str().unwrap().contains("4301")));
    let mut sent = Vec::new();
    while let Some(send) = one.server.client_sends.questions().take() {
        sent.push(send);
    }
    assert_eq!(sent.len(), 20);
    let SentBy::Channel(first) = sent[0].by() else { panic!("{:?}", sent[0].by()) };
    assert_eq!((&*first.key, &*first.name), ("#c1:presence-a", "client-typing"));
    assert_eq!((first.from.as_deref(), first.own), (Some("b b"), page.connection_id()));
    assert_eq!(sent[0].event(), br#"{"x":1}"#);
    let answers = Answers::new(one.server.mailboxes.clone());
    for (number, send) in sent.iter().enumerate() {
        let outcome = match number {
            0 => Err(proto::Problem::sends_busy(1)),
            _ => Ok("{}".into()),
        };
        let answered = Answered { outcome, reference: None };
        answers.say(send.conn(), DirectMessage::Sent(Box::new(answered))).unwrap();
    }
    while one.turn_after(1) {}
    assert_eq!(names_of(&page.hears(&mut one)), ["pusher:error"], "one could not be posted");
}

#[test]
fn drain_tells_clients_to_come_back_at_once() {
    let mut one = with_apps(silent_config());
    let page = Page::open(&mut one);
    one.server.mailboxes[0].post_drain(0).unwrap();
    while one.turn_after(1) {}
    let last = one.wire(page.place).client_reads(usize::MAX);
    assert_eq!((names_of(&events(&last)), close_code(&last)), (vec!["pusher:error"], Some(4200)));
}

#[test]
fn silent_page_hears_that_the_server_lives_before_it_would_ask() {
    let mut config = silent_config();
    config.settings.keepalive_ms = 30_000;
    let mut one = with_apps(config);
    let place = one.client(1 << 20, &upgrade_of("/app/key", ""));
    let (_, first) = split_head(&one.wire(place).client_reads(usize::MAX));
    let data = events(&first)[0]["data"].take();
    let data: Value = serde_json::from_str(data.as_str().unwrap()).unwrap();
    assert_eq!(data["activity_timeout"], 38);
    let mut heard = Vec::new();
    for _ in 0..38 {
        one.turn_after(1_000);
        heard.extend(events(&one.wire(place).client_reads(usize::MAX)));
    }
    assert_eq!(names_of(&heard), ["pusher:pong"]);
}

#[test]
fn channels_without_end_are_bounded_for_one_and_for_all_and_given_back() {
    let bytes_max = 150_000;
    let mut one = with_apps(EngineConfig { ids_bytes_max: bytes_max, ..silent_config() });
    one.router.names().set_bytes_max(bytes_max);
    let (greedy, other) = (Page::open(&mut one), Page::open(&mut one));
    let (mut let_in, mut refused) = (0, 0);
    for n in 0..2_000 {
        match names_of(&greedy.says(&mut one, &greedy.wish(&format!("channel-{n}"), "")))[..] {
            [SUCCEEDED] => let_in += 1,
            ["pusher:subscription_error"] => refused += 1,
            ref heard => panic!("{heard:?}"),
        }
        while one.turn_after(1) {}
    }
    assert!(let_in > 500 && refused > 500, "{let_in} and {refused}");
    assert!(one.router.names().bytes() <= bytes_max);
    let others = other.says(&mut one, &other.wish("a", ""));
    assert_eq!(names_of(&others), [SUCCEEDED], "the first of another one is let in");
    one.wire(greedy.place).client_resets();
    one.wire(other.place).client_resets();
    one.server.end();
    one.server.check_nothing_is_left();
    assert_eq!((one.router.names().bytes(), one.router.names().len()), (0, 0));
}

#[test]
fn signatures_by_the_thousand_are_put_off_turn_by_turn() {
    let mut one = with_apps(silent_config());
    let page = Page::open(&mut one);
    let wish = json!({
        "event": "pusher:subscribe",
        "data": {"channel": "private-a", "auth": "key:00"},
    });
    let frame = client_frame(0x81, wish.to_string().as_bytes());
    one.wire(page.place).client_sends(&frame.repeat(1_000));
    let (mut turns, mut answered) = (0, 0);
    loop {
        let is_busy = one.turn_after(1);
        let heard = page.hears(&mut one).len();
        assert!(heard <= 60, "{heard} signatures in one turn");
        answered += heard;
        turns += 1;
        if !is_busy && heard == 0 {
            break;
        }
    }
    assert_eq!(answered, 1_000);
    assert!(turns > 10, "{turns}");
}

#[test]
fn subscriber_of_a_channel_that_caches_hears_its_last_event_once() {
    let mut one = with_apps(silent_config());
    let mut plane = Plane::of(&one);
    let channels = ["cache-a", "private-cache-a", "presence-cache-a"];
    let first = Page::open(&mut one);
    for channel in channels {
        first.send(&mut one, &first.wish(channel, "bob"));
        settle(&mut one, &mut plane);
        assert_eq!(names_of(&first.hears(&mut one)), [SUCCEEDED, "pusher:cache_miss"], "{channel}");
        for data in ["1", "2"] {
            trigger(&one, channel, data, None);
        }
        while one.turn_after(1) {}
        assert_eq!(names_of(&first.hears(&mut one)), ["new", "new"], "{channel}");
        let second = Page::open(&mut one);
        trigger(&one, channel, "3", None);
        // The worker has not taken the mail of that one when the client subscribes.
        second.send(&mut one, &second.wish(channel, "rj"));
        trigger(&one, channel, "4", Some(first.connection_id()));
        settle(&mut one, &mut plane);
        let heard = second.hears(&mut one);
        let data: Vec<&str> = heard[1..].iter().map(|new| new["data"].as_str().unwrap()).collect();
        match channel {
            // It is in there once the list has come.
            "presence-cache-a" => assert_eq!(data, ["4"]),
            _ => assert_eq!(data, ["3", "4"], "{channel}"),
        }
        let again = second.says(&mut one, &second.wish(channel, "rj"));
        let at_once: &[&str] = if channel.starts_with("presence-") { &[] } else { &[SUCCEEDED] };
        assert_eq!(names_of(&again), at_once, "it is told once");
        settle(&mut one, &mut plane);
        first.hears(&mut one);
    }
    let key = IdText::of_key("#k1:cache-a").unwrap();
    assert_eq!(one.router.cached_event(key).unwrap().0.data(), "\"4\"");
}
