//! Webhooks of apps: what a backend is told of its channels, at a receiver that fails, is silent
//! and comes back.

use ::pusher::Secret;
use serde_json::{Value, json};

use super::{AppServer, Client, SECRET, app_with};
use crate::harness::wait_for;
use crate::presence::figure;
use crate::presence::receiver::{Mood, Receiver, field};

/// As Pusher's libraries do it.
fn check(head: &str, body: &[u8]) {
    assert_eq!(field(head, "x-pusher-key"), Some("app-1"), "{head}");
    // Node's library takes no other, and nothing behind it.
    assert_eq!(field(head, "content-type"), Some("application/json"), "{head}");
    let signature = Secret::new(SECRET.as_bytes()).sign(&[body]);
    assert_eq!(field(head, "x-pusher-signature"), Some(&*signature), "{head}");
    let body: Value = serde_json::from_slice(body).unwrap();
    let now = sys::clock::unix_ms();
    assert!(now.abs_diff(body["time_ms"].as_u64().unwrap()) < 600_000, "{body}");
}

/// A receiver, and what has come of it.
pub(super) struct Heard {
    pub(super) receiver: Receiver,
    pub(super) events: Vec<Value>,
}

impl Heard {
    pub(super) fn start(mood: Mood) -> Heard {
        Heard { receiver: Receiver::checking(mood, check), events: Vec::new() }
    }

    /// Waits until the receiver has taken `wanted`.
    #[track_caller]
    pub(super) fn until(&mut self, wanted: &Value) {
        while !self.events.contains(wanted) {
            self.events.extend(self.receiver.taken().events);
        }
    }

    /// What has come of `channel`, in its order.
    pub(super) fn of(&self, channel: &str) -> Vec<Value> {
        self.events.iter().filter(|event| event["channel"] == channel).cloned().collect()
    }
}

pub(super) fn of_channel(name: &str, channel: &str) -> Value {
    json!({ "name": name, "channel": channel })
}

pub(super) fn of_member(name: &str, user: &str) -> Value {
    json!({ "name": name, "channel": "presence-room", "user_id": user })
}

fn server(heard: &Heard, members: &Value) -> AppServer {
    let mut app = app_with(members);
    if app["webhooks"].is_null() {
        app["webhooks"] = json!([{ "url": heard.receiver.url }]);
    }
    AppServer::of(&json!([app]), &["--presence-grace=0"])
}

#[test]
fn backend_is_told_who_comes_what_is_said_and_who_goes() {
    let mut heard = Heard::start(Mood::Takes);
    let apps = server(&heard, &json!({}));
    let (mut bob, mut eve) = (apps.client("1"), apps.client("1"));
    bob.sit_and_sign_in();
    // A second connection of a user is no other member.
    eve.sit_and_sign_in();
    bob.subscribe("private-rj");
    eve.subscribe("cache-song");
    assert_eq!(eve.hear()["event"], "pusher:cache_miss");
    bob.say(&json!({ "event": "client-typing", "channel": "presence-room",
                     "data": { "at": 1 } }));
    let sent = json!({ "name": "client_event", "channel": "presence-room", "user_id": "bob",
                       "event": "client-typing", "data": "{\"at\":1}",
                       "socket_id": bob.id.to_string() });
    heard.until(&sent);
    heard.until(&of_channel("cache_miss", "cache-song"));
    drop((bob, eve));
    for channel in ["presence-room", "private-rj", "cache-song"] {
        heard.until(&of_channel("channel_vacated", channel));
    }
    let occupied = |channel| of_channel("channel_occupied", channel);
    let vacated = |channel| of_channel("channel_vacated", channel);
    let room = [
        occupied("presence-room"),
        of_member("member_added", "bob"),
        sent,
        of_member("member_removed", "bob"),
        vacated("presence-room"),
    ];
    assert_eq!(heard.of("presence-room"), room);
    assert_eq!(heard.of("private-rj"), [occupied("private-rj"), vacated("private-rj")]);
    let song =
        [occupied("cache-song"), of_channel("cache_miss", "cache-song"), vacated("cache-song")];
    assert_eq!(heard.of("cache-song"), song);
    // Of users' own channels nothing is told.
    assert_eq!(heard.events.len(), 10, "{:?}", heard.events);
    apps.wait_empty("1");
}

#[test]
fn who_is_back_within_three_seconds_was_never_gone() {
    let mut heard = Heard::start(Mood::Takes);
    let apps = server(&heard, &json!({}));
    let mut bob = apps.client("1");
    for channel in ["a", "b"] {
        bob.subscribe(channel);
    }
    heard.until(&of_channel("channel_occupied", "b"));
    // It is all there when the server comes to look, so that bob is back in time also where the
    // machine stands still.
    apps.server.signal("STOP");
    for channel in ["a", "b"] {
        bob.say(&json!({ "event": "pusher:unsubscribe", "data": { "channel": channel } }));
    }
    bob.say(&json!({ "event": "pusher:subscribe", "data": { "channel": "a" } }));
    apps.server.signal("CONT");
    assert_eq!(bob.hear()["event"], "pusher_internal:subscription_succeeded");
    // Both were left at one time, so this tells that the grace of both is over.
    heard.until(&of_channel("channel_vacated", "b"));
    bob.say(&json!({ "event": "pusher:unsubscribe", "data": { "channel": "a" } }));
    heard.until(&of_channel("channel_vacated", "a"));
    let a = [of_channel("channel_occupied", "a"), of_channel("channel_vacated", "a")];
    assert_eq!(heard.of("a"), a);
}

#[test]
fn receiver_that_fails_is_told_again_and_a_silent_one_holds_up_no_other() {
    let (mut heard, silent) = (Heard::start(Mood::Fails), Heard::start(Mood::IsSilent));
    let hooks = json!({ "webhooks": [
        { "url": heard.receiver.url, "event_types": ["channel_occupied", "channel_vacated"],
          "filter": { "channel_name_starts_with": "private-" } },
        { "url": silent.receiver.url },
    ] });
    let apps = server(&heard, &hooks);
    let mut bob = apps.client("1");
    for channel in ["private-a", "news", "private-b"] {
        bob.subscribe(channel);
    }
    assert_eq!(silent.receiver.next().mood, Mood::IsSilent);
    // The same batch comes again until it is taken.
    let first = heard.receiver.next();
    let again = heard.receiver.next();
    assert_eq!((again.mood, &again.events), (Mood::Fails, &first.events));
    heard.receiver.set(Mood::Redirects);
    while heard.receiver.next().mood != Mood::Redirects {}
    heard.receiver.set(Mood::Takes);
    heard.until(&of_channel("channel_occupied", "private-b"));
    drop(bob);
    heard.until(&of_channel("channel_vacated", "private-b"));
    heard.until(&of_channel("channel_vacated", "private-a"));
    assert_eq!(heard.events.len(), 4, "{:?}", heard.events);
    wait_for("the silent one's events wait", || {
        figure(&apps.server, "encke_pusher_webhook_backlog") >= 6.0
    });
    assert_eq!(figure(&apps.server, "encke_pusher_webhook_dropped_total"), 0.0);
    let metrics = apps.server.api.get("/metrics").body;
    assert!(metrics.contains("encke_pusher_webhook_posts_total{result=\"failed\"}"), "{metrics}");
}

#[test]
fn webhooks_of_the_file_are_those_of_now() {
    let mut heard = Heard::start(Mood::Takes);
    let apps = server(&heard, &json!({ "webhooks": [] }));
    let mut bob = apps.client("1");
    bob.subscribe("before");
    let app = app_with(&json!({ "webhooks": [{ "url": heard.receiver.url }] }));
    super::option_of(apps.files.path(), &json!([app]));
    wait_for("the file is read again", || apps.server.stderr().contains("apps.json was read"));
    let mut eve = Client::open(&apps.server, "/app/app-1");
    eve.subscribe("now");
    heard.until(&of_channel("channel_occupied", "now"));
    assert_eq!(heard.events.len(), 1, "{:?}", heard.events);
    // What waits for one that is removed is forgotten.
    let silent = Heard::start(Mood::IsSilent);
    let both = json!([{ "url": heard.receiver.url }, { "url": silent.receiver.url }]);
    super::option_of(apps.files.path(), &json!([app_with(&json!({ "webhooks": both }))]));
    let is_read = |times| apps.server.stderr().matches("apps.json was read").count() >= times;
    wait_for("the file is read again", || is_read(2));
    eve.subscribe("both");
    assert_eq!(silent.receiver.next().mood, Mood::IsSilent);
    heard.until(&of_channel("channel_occupied", "both"));
    wait_for("it waits for the silent one alone", || {
        figure(&apps.server, "encke_pusher_webhook_backlog") == 1.0
    });
    super::option_of(apps.files.path(), &json!([app]));
    wait_for("nothing waits any more", || {
        figure(&apps.server, "encke_pusher_webhook_backlog") == 0.0
    });
}
