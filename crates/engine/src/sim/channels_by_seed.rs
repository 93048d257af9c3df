//! Pages subscribe to channels, leave them, come and go, and versions of the server: what each
//! hears against what it must, by seed.
//!
//! Of each channel a page hears the success first. Then it hears each event once, in order, unless
//! that leaves it out. Of a presence channel it hears a list, and then what makes of it who is
//! there.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::channels::{Page, trigger, with_apps};
use super::members::{Plane, settle};
use super::one::One;
use super::random::Random;
use super::server::silent_config;

const CHANNELS: [&str; 4] = ["news", "private-a", "presence-b", "presence-c"];
const USERS: usize = 4;

/// What a page knows of a channel that it has subscribed to.
#[derive(Default)]
struct Heard {
    succeeded: bool,
    /// Who is there, of a presence channel.
    there: BTreeSet<String>,
    last: usize,
    /// What it must hear, and has not.
    expected: BTreeSet<usize>,
}

struct Client {
    page: Page,
    user: String,
    channels: BTreeMap<&'static str, Heard>,
}

impl Client {
    fn come(one: &mut One, random: &mut Random) -> Client {
        let user = random.below(USERS).to_string();
        Client { page: Page::open(one), user, channels: BTreeMap::new() }
    }

    fn read(&mut self, one: &mut One) {
        for frame in self.page.hears(one) {
            self.hear(&frame);
        }
    }

    fn hear(&mut self, frame: &Value) {
        let channel = frame["channel"].as_str().unwrap();
        // What was on its way to one who has left is nobody's.
        let Some(heard) = self.channels.get_mut(channel) else { return };
        let data: Value = serde_json::from_str(frame["data"].as_str().unwrap()).unwrap();
        let event = frame["event"].as_str().unwrap();
        if event == "pusher_internal:subscription_succeeded" {
            heard.succeeded = true;
            let hash = data["presence"]["hash"].as_object();
            let users = hash.into_iter().flat_map(|hash| hash.keys().cloned());
            heard.there = users.collect();
            return;
        }
        assert!(heard.succeeded, "the success comes first: {frame}");
        let user = || data["user_id"].as_str().unwrap().to_owned();
        match event {
            "new" => {
                let number = data.as_u64().unwrap() as usize;
                assert!(number > heard.last, "once, and in order: {frame}");
                heard.last = number;
                heard.expected.remove(&number);
            }
            "pusher_internal:member_added" => assert!(heard.there.insert(user()), "{frame}"),
            "pusher_internal:member_removed" => assert!(heard.there.remove(&user()), "{frame}"),
            other => panic!("{other}"),
        }
    }
}

struct World {
    one: One,
    plane: Plane,
    clients: Vec<Client>,
    sent: usize,
}

impl World {
    fn subscribe(&mut self, random: &mut Random) {
        let (at, channel) = (random.below(self.clients.len()), CHANNELS[random.below(4)]);
        let client = &mut self.clients[at];
        client.channels.entry(channel).or_default();
        let wish = client.page.wish(channel, &client.user);
        client.page.send(&mut self.one, &wish);
    }

    /// After it what was on its way has come: who subscribes anew begins anew.
    fn unsubscribe(&mut self, random: &mut Random) {
        let (at, channel) = (random.below(self.clients.len()), CHANNELS[random.below(4)]);
        let leave = json!({"event": "pusher:unsubscribe", "data": {"channel": channel}});
        let client = &mut self.clients[at];
        client.channels.remove(channel);
        client.page.send(&mut self.one, &leave);
        while self.one.turn_after(1) {}
        client.read(&mut self.one);
    }

    fn trigger(&mut self, random: &mut Random) {
        self.sent += 1;
        let channel = CHANNELS[random.below(4)];
        let left_out = (!self.clients.is_empty() && random.one_in(2))
            .then(|| random.below(self.clients.len()));
        let except = left_out.map(|at| self.clients[at].page.connection_id());
        trigger(&self.one, channel, &self.sent.to_string(), except);
        for (at, client) in self.clients.iter_mut().enumerate() {
            if let Some(heard) = client.channels.get_mut(channel) {
                if Some(at) != left_out && heard.succeeded {
                    heard.expected.insert(self.sent);
                }
                if Some(at) == left_out {
                    assert_ne!(heard.last, self.sent);
                }
            }
        }
    }

    fn leave(&mut self, random: &mut Random) {
        let at = random.below(self.clients.len());
        let client = self.clients.swap_remove(at);
        self.one.wire(client.page.place).client_ends();
        self.one.server.hear_out(client.page.place);
    }

    fn upgrade(&mut self, random: &mut Random) {
        self.one.upgrade(random);
        for client in &mut self.clients {
            client.page.place = self.one.server.find(client.page.place);
            client.read(&mut self.one);
        }
        self.plane = Plane::of(&self.one);
    }
}

fn run(seed: u64, upgrades: bool) {
    let mut random = Random::new(seed);
    let one = with_apps(silent_config());
    let plane = Plane::of(&one);
    let mut world = World { one, plane, clients: Vec::new(), sent: 0 };
    for _ in 0..300 {
        match random.below(if upgrades { 16 } else { 15 }) {
            0 | 1 if world.clients.len() < 8 => {
                let client = Client::come(&mut world.one, &mut random);
                world.clients.push(client);
            }
            2..6 if !world.clients.is_empty() => world.subscribe(&mut random),
            6 if !world.clients.is_empty() => world.unsubscribe(&mut random),
            7..11 => world.trigger(&mut random),
            11 if !world.clients.is_empty() => world.leave(&mut random),
            15 => world.upgrade(&mut random),
            _ => world.one.server.clock.pass(random.below(200) as u64),
        }
        let World { one, plane, clients, .. } = &mut world;
        if random.one_in(3) {
            let mut turns = Random::new(random.below(1 << 30) as u64);
            plane.work(one, |one| {
                if turns.one_in(2) {
                    one.turn_after(0);
                }
            });
        }
        if random.one_in(2) {
            while one.turn_after(1) {}
        }
        clients.iter_mut().for_each(|client| client.read(one));
    }
    end(world, seed);
}

fn end(world: World, seed: u64) {
    let World { mut one, mut plane, mut clients, .. } = world;
    settle(&mut one, &mut plane);
    clients.iter_mut().for_each(|client| client.read(&mut one));
    for channel in CHANNELS {
        let subscribed = || clients.iter().filter(|client| client.channels.contains_key(channel));
        let users: BTreeSet<String> = subscribed().map(|client| client.user.clone()).collect();
        for client in subscribed() {
            let heard = &client.channels[channel];
            assert!(heard.succeeded, "seed {seed}: {channel}");
            assert!(heard.expected.is_empty(), "seed {seed}: {channel}: {:?}", heard.expected);
            if channel.starts_with("presence-") {
                assert_eq!(heard.there, users, "seed {seed}: {channel}");
            }
        }
    }
    for client in &clients {
        one.wire(client.page.place).client_ends();
    }
    one.server.end();
    settle(&mut one, &mut plane);
    one.server.check_nothing_is_left();
    assert!(plane.watches.members().is_empty(), "seed {seed}: a member that nobody is");
    assert_eq!(plane.watches.members().watchers().keys_online(), 0, "seed {seed}");
    // What was sent is remembered for those who come back.
    while one.router.history().is_some_and(|history| history.expire(u64::MAX)) {}
    assert_eq!(one.router.names().bytes(), 0, "seed {seed}: counted for nobody");
}

#[test]
fn pages_hear_their_channels_whatever_happens_in_between() {
    (0..40).for_each(|seed| run(seed, false));
}

#[test]
fn pages_hear_their_channels_over_versions_of_the_server() {
    (100..130).for_each(|seed| run(seed, true));
}
