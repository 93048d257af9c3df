//! Users come and go in rooms, and connections watch that: each hears a list, and then what makes
//! of it what is there, whatever happens in between.

use std::collections::BTreeSet;
use std::sync::Arc;

use hub::{Manner, MemberChange, MemberUpdate, Roster, leave_out};
use proto::members;
use serde_json::Value;

use super::one::One;
use super::random::Random;
use super::server::Place;
use super::talk::{client_frame, server_texts};
use super::tokens::{guarded, request, silent_guarded, status, websocket};
use super::{channel_texts, each_seed};
use crate::limits::{MAILS_MAX, WATCHES_STALE_MAX};
use crate::watch::{Late, LateTask, TellStep, Telling, Watch, Watches};

pub(super) const GRACE_MS: u64 = 300;
const USERS: usize = 6;
const ROOMS: [&str; 2] = ["room:0", "room:1"];

/// The control plane, as the real one does it.
pub(super) struct Plane {
    pub(super) watches: Watches,
    pub(super) roster: Roster,
    late: Late,
    /// Channels have no place: other nodes were first.
    pub(super) is_full: bool,
}

impl Plane {
    pub(super) fn of(one: &One) -> Plane {
        let watches = one.server.watches.clone().unwrap();
        let roster = Roster::new(Arc::clone(watches.members()), GRACE_MS);
        Plane { watches, roster, late: Late::default(), is_full: false }
    }

    fn list(&self, of: &str, room: hub::Id) -> Arc<str> {
        let list = self.roster.list(room);
        if let Some(text) = channel_texts::list(of, &list) {
            return text.into();
        }
        let texts = list.members.as_ref().map(|members| {
            members.iter().map(|(id, info)| (&**id, info.as_deref().map(hub::Info::json)))
        });
        members::list(of, list.count, texts).into()
    }

    /// Tells what has changed, and answers who asks. In between the shard has its turns, or not.
    pub(super) fn work(&mut self, one: &mut One, mut between: impl FnMut(&mut One)) {
        let (now_ms, mut updates) = (one.server.clock.now_ms(), Vec::new());
        if self.roster.is_any_noted() {
            (0..Roster::STRIPES)
                .for_each(|stripe| _ = self.roster.look(stripe, now_ms, &mut updates));
        }
        while self.roster.end_graces(now_ms, 2, &mut updates) {}
        leave_out(&mut updates);
        for MemberUpdate { room, sub, change, manner, .. } in updates {
            assert_eq!(manner, Manner::Whole, "so few are always listed");
            let of = self.watches.name(room).unwrap();
            let text = channel_texts::change(&of, &sub, &change).unwrap_or_else(|| match &change {
                MemberChange::Joined(info) => {
                    members::joined(&of, &sub, info.as_deref().map(hub::Info::json))
                }
                MemberChange::Left => members::left(&of, &sub),
            });
            tell(self.watches.tell(room, text.into()), &mut self.late);
            between(one);
        }
        for worker in self.late.workers() {
            while self.watches.has_room(worker)
                && let Some(task) = self.late.take(worker)
            {
                match task {
                    LateTask::Tell(room) => self.tell_late(worker, room),
                    LateTask::Answer(watch) => self.answer(watch),
                }
            }
        }
        while let Some(watch) = self.watches.questions().take_and_count() {
            self.answer(watch);
            between(one);
        }
    }

    fn tell_late(&mut self, worker: usize, room: hub::Id) {
        let list = self.list(&self.watches.name(room).unwrap(), room);
        tell(self.watches.tell_late(worker, room, list), &mut self.late);
    }

    fn answer(&mut self, watch: Watch) {
        let of = self.watches.name(watch.room()).filter(|_| watch.is_waiting());
        let list = of.map(|of| self.list(&of, watch.room()));
        let is_full = self.is_full && watch.seat().is_some();
        let answer = |list: &Arc<str>| match is_full {
            true => self.watches.refuse(&watch),
            false => self.watches.answer(&watch, list),
        };
        match list {
            Some(list) if !answer(&list) => self.late.keep(watch),
            _ => self.watches.questions().done(1, 0),
        }
    }
}

fn tell(mut telling: Telling<'_>, late: &mut Late) {
    while telling.step(late) != TellStep::Done {}
}

/// A client, and what it has heard of the room that it watches.
struct Client {
    place: Place,
    watches: Option<&'static str>,
    heard: Option<BTreeSet<String>>,
}

impl Client {
    fn read(&mut self, one: &mut One) {
        let read = one.wire(self.place).client_reads(usize::MAX);
        for text in server_texts(&read) {
            let said: Value = serde_json::from_str(text).unwrap();
            let id = |of: &str| said[of]["id"].as_str().map(str::to_owned);
            if let Some(list) = said["members"]["list"].as_array() {
                let listed = list.iter().map(|member| member["id"].as_str().unwrap().to_owned());
                self.heard = Some(listed.collect());
            } else if let Some(id) = id("joined") {
                let is_new = self.heard.as_mut().expect("a list comes first").insert(id);
                assert!(is_new, "{text}: it was there");
            } else if let Some(id) = id("left") {
                let was_there = self.heard.as_mut().expect("a list comes first").remove(&id);
                assert!(was_there, "{text}: it was not there");
            } else {
                assert!(said["ok"].is_object(), "{text}");
            }
        }
    }
}

fn run(seed: u64, upgrades: bool) {
    let (mut random, mut one) = (Random::new(seed), silent_guarded());
    let (mut plane, mut clients) = (Plane::of(&one), Vec::<Client>::new());
    for _ in 0..300 {
        match random.below(if upgrades { 9 } else { 8 }) {
            0..3 => clients.push(come(&mut one, &mut random)),
            3 | 4 if !clients.is_empty() => {
                let at = random.below(clients.len());
                let client = clients.swap_remove(at);
                let place = one.server.find(client.place);
                one.wire(place).client_ends();
                one.server.hear_out(place);
            }
            5 if !clients.is_empty() => {
                let at = random.below(clients.len());
                let room = ROOMS[random.below(2)];
                if clients[at].watches.is_none() {
                    clients[at].watches = Some(room);
                    let wish = format!("{{\"members\":\"{room}\"}}");
                    one.say(clients[at].place, &client_frame(0x81, wish.as_bytes()));
                }
            }
            8 => {
                one.upgrade(&mut random);
                clients.iter_mut().for_each(|client| client.place = one.server.find(client.place));
                plane = Plane::of(&one);
            }
            _ => one.server.clock.pass(random.below(200) as u64),
        }
        if random.one_in(3) {
            let mut turns = Random::new(random.below(1 << 30) as u64);
            plane.work(&mut one, |one| {
                if turns.one_in(2) {
                    one.turn_after(0);
                }
            });
        }
        if random.one_in(2) {
            while one.turn_after(1) {}
        }
        clients.iter_mut().for_each(|client| client.read(&mut one));
    }
    settle(&mut one, &mut plane);
    let listed = |room: &str| -> BTreeSet<String> {
        let id = one.router.names().lookup(hub::IdText::parse(room).unwrap());
        let list = id.map(|id| plane.roster.list(id).members.unwrap()).unwrap_or_default();
        list.into_iter().map(|(id, _)| id.into()).collect()
    };
    let there = ROOMS.map(listed);
    for client in &mut clients {
        client.read(&mut one);
        if let Some(room) = client.watches {
            let at = ROOMS.iter().position(|other| *other == room).unwrap();
            assert_eq!(client.heard.as_ref(), Some(&there[at]), "seed {seed}");
        }
    }
    for client in &clients {
        one.wire(client.place).client_ends();
    }
    one.server.end();
    settle(&mut one, &mut plane);
    one.server.check_nothing_is_left();
    assert!(plane.watches.members().is_empty(), "seed {seed}: a member that nobody is");
    assert_eq!(plane.watches.members().watchers().ids_online(), 0);
}

/// A user comes into a room, or two.
fn come(one: &mut One, random: &mut Random) -> Client {
    let user = random.below(USERS);
    let more = if random.one_in(3) { "?id=room:1" } else { "" };
    let token = format!("sub=user:{user};ids=room:*;members=room:*");
    let target = format!("/stream/{}{more}", ROOMS[random.below(2)]);
    let place = one.client(1 << 20, &websocket(&target, &token));
    // Its head.
    one.wire(place).client_reads(usize::MAX);
    Client { place, watches: None, heard: None }
}

/// All that is noted is told, and all graces end.
pub(super) fn settle(one: &mut One, plane: &mut Plane) {
    for _ in 0..3 {
        plane.work(one, |_| {});
        while one.turn_after(GRACE_MS) {}
    }
}

#[test]
fn list_and_changes_fit_each_other_whatever_happens_in_between() {
    each_seed("sim::members::list_and_changes", 60, |seed| run(seed, false));
}

#[test]
fn who_watches_is_told_whole_lists_by_the_version_that_takes_over() {
    each_seed("sim::members::who_watches", 40, |seed| run(100 + seed, true));
}

#[test]
fn rooms_are_watched_as_far_as_the_token_grants() {
    let mut one = guarded();
    let token = "sub=bob;ids=room:*;members=room:*";
    for (target, answered) in [
        ("/stream/bob?members=room:7&members=room:8", "200"),
        ("/stream/bob?members=room:7&members=bob", "403"),
        ("/stream/bob?members=room:%20", "400"),
        ("/poll/bob?members=room:7", "400"),
        ("/test/bob?members=room:7", "400"),
    ] {
        let client = one.client(1 << 20, &request(target, token));
        assert_eq!(status(&one.reads(client)), answered, "{target}");
    }
    let socket = one.client(1 << 20, &websocket("/stream/bob", token));
    let denied = one.says(socket, r#"{"members":"bob"}"#);
    assert!(denied.contains("\"status\":403") && denied.ends_with("\"members\":\"bob\"}"));
    assert_eq!(one.says(socket, r#"{"unwatch":"room:7"}"#), r#"{"ok":{"unwatch":"room:7"}}"#);
    for n in 0..100 {
        assert_eq!(one.says(socket, &format!("{{\"members\":\"room:{n}\"}}")), "");
    }
    let over = one.says(socket, r#"{"members":"room:x"}"#);
    assert!(over.contains("at most 100 rooms"), "{over}");
    let mut plane = Plane::of(&one);
    plane.work(&mut one, |_| {});
    while one.turn_after(1) {}
    one.texts(socket);
    assert_eq!(one.says(socket, r#"{"members":"room:7"}"#), "", "one of these is asked again");
    plane.work(&mut one, |_| {});
    while one.turn_after(1) {}
    assert!(one.texts(socket).contains("\"of\":\"room:7\""));
}

#[test]
fn list_for_a_watch_of_before_is_none_for_the_one_of_now() {
    let mut one = guarded();
    let plane = Plane::of(&one);
    let token = "sub=bob;ids=room:*;members=room:*";
    let socket = one.client(1 << 20, &websocket("/stream/bob", token));
    assert_eq!(one.says(socket, r#"{"members":"room:7"}"#), "");
    let before = plane.watches.questions().take().unwrap();
    one.says(socket, r#"{"unwatch":"room:7"}"#);
    assert_eq!(one.says(socket, r#"{"members":"room:7"}"#), "");
    let now = plane.watches.questions().take().unwrap();
    assert!(!before.is_waiting() && now.is_waiting());
    for (watch, list, heard) in [(&before, "old", ""), (&now, "new", "new")] {
        // As if it had been made before the connection watched anew.
        assert!(plane.watches.answer(watch, &list.into()));
        while one.turn_after(1) {}
        assert_eq!(one.texts(socket), heard);
    }
    assert!(!now.is_waiting());
}

#[test]
fn token_that_does_not_grant_what_is_watched_is_refused_and_another_info_is_told() {
    let mut one = guarded();
    let mut plane = Plane::of(&one);
    let token = "sub=bob;ids=room:*;members=room:*;info=1";
    let socket = one.client(1 << 20, &websocket("/stream/room:7?members=room:7", token));
    one.wire(socket).client_reads(usize::MAX);
    plane.work(&mut one, |_| {});
    while one.turn_after(1) {}
    let list = r#"{"members":{"of":"room:7","count":1,"list":[{"id":"bob","info":1}]}}"#;
    assert_eq!(one.texts(socket), list);
    let denied = one.says(socket, r#"{"token":"sub=bob;ids=room:*;info=2"}"#);
    assert!(denied.contains("encke.members"), "{denied}");
    let token = r#"{"token":"sub=bob;ids=room:*;members=*;info=2"}"#;
    assert_eq!(one.says(socket, token), r#"{"ok":{"token":true}}"#);
    plane.work(&mut one, |_| {});
    while one.turn_after(1) {}
    assert_eq!(one.texts(socket), r#"{"joined":{"of":"room:7","id":"bob","info":2}}"#);
}

/// A WebSocket of `user` in `room:7`, which it watches and whose list it has.
fn watcher(one: &mut One, plane: &mut Plane, shard: usize, user: &str) -> Place {
    let token = format!("sub={user};ids=room:*;members=room:*");
    let place = one.server.connect(shard, 1 << 20);
    one.say(place, websocket("/stream/room:7?members=room:7", &token).as_bytes());
    // Its head.
    one.wire(place).client_reads(usize::MAX);
    plane.work(one, |_| {});
    while one.server.turn(shard) {}
    assert!(one.texts(place).contains("\"count\""));
    place
}

fn heard(one: &mut One, place: Place, shard: usize) -> String {
    while one.server.turn(shard) {}
    one.texts(place)
}

#[test]
fn worker_whose_mailbox_is_full_holds_up_nobody_and_gets_whole_lists_later() {
    let mut one = silent_guarded();
    let mut plane = Plane::of(&one);
    let late = watcher(&mut one, &mut plane, 0, "ann");
    let other = watcher(&mut one, &mut plane, 1, "bob");
    let quiet = watcher(&mut one, &mut plane, 0, "cid");
    for (place, shard) in [(late, 0), (quiet, 0), (other, 1)] {
        heard(&mut one, place, shard);
    }
    let mailboxes = Arc::clone(&one.server.mailboxes);
    let full = mailboxes[0].reserve(MAILS_MAX, 0).unwrap();
    let zoe = watcher(&mut one, &mut plane, 1, "zoe");
    assert_eq!(heard(&mut one, other, 1), r#"{"joined":{"of":"room:7","id":"zoe"}}"#);
    assert_eq!(one.says(late, r#"{"members":"room:7"}"#), "");
    plane.work(&mut one, |_| {});
    assert_eq!(plane.watches.questions().waiting(), 1, "a question that is kept counts");
    one.wire(zoe).client_ends();
    one.server.hear_out(zoe);
    plane.work(&mut one, |_| {});
    one.server.clock.pass(GRACE_MS);
    plane.work(&mut one, |_| {});
    assert_eq!(heard(&mut one, other, 1), r#"{"left":{"of":"room:7","id":"zoe"}}"#);
    assert!(!plane.late.is_empty());
    drop(full);
    plane.work(&mut one, |_| {});
    for place in [late, quiet] {
        let heard = heard(&mut one, place, 0);
        assert!(heard.contains("\"count\":3,") && !heard.contains("zoe"), "{heard}");
        assert_eq!(heard.lines().count(), 1, "{heard}");
    }
    assert!(plane.late.is_empty());
    assert_eq!(plane.watches.questions().waiting(), 0);
}

/// What is answered to a command, in this turn or in a later one.
fn answered(one: &mut One, place: Place, command: &str) -> String {
    let at_once = one.says(place, command);
    at_once + &heard(one, place, 0)
}

#[test]
fn connection_that_asks_and_stops_again_and_again_is_refused_until_its_questions_are_looked_at() {
    let mut one = silent_guarded();
    let mut plane = Plane::of(&one);
    let token = "sub=bob;ids=room:*;members=room:*";
    let socket = one.client(1 << 20, &websocket("/stream/bob", token));
    let (ask, stop) = (r#"{"members":"room:7"}"#, r#"{"unwatch":"room:7"}"#);
    for n in 0..2 * WATCHES_STALE_MAX {
        let asked = answered(&mut one, socket, ask);
        let is_refused = asked.contains("\"status\":429");
        assert_eq!((is_refused, asked.is_empty()), (n >= WATCHES_STALE_MAX, !is_refused), "{n}");
        assert_eq!(answered(&mut one, socket, stop), r#"{"ok":{"unwatch":"room:7"}}"#, "{n}");
    }
    assert_eq!(plane.watches.questions().waiting(), WATCHES_STALE_MAX);
    plane.work(&mut one, |_| {});
    assert_eq!(answered(&mut one, socket, ask), "", "all were looked at");
    plane.work(&mut one, |_| {});
    assert!(heard(&mut one, socket, 0).contains("\"of\":\"room:7\""));
}
