//! Clients that poll two rooms: from poll to poll each hears what makes of its lists the lists of
//! now, also where an answer was lost, a room was forgotten, or another version takes over.

use std::collections::BTreeMap;

use hub::Nobody;

use super::*;

/// The longest wait of a poll, in seconds.
const WAIT_SECONDS: usize = 60;

struct Poller {
    user: usize,
    /// Its connection, if it has one.
    place: Option<Place>,
    /// Its last request is not answered.
    waits: bool,
    after: String,
    members_after: String,
    heard: BTreeMap<String, BTreeSet<String>>,
    lists: usize,
    lost: usize,
}

impl Poller {
    fn new(user: usize) -> Poller {
        let (after, members_after) = (String::new(), String::new());
        let (heard, lists, lost) = (BTreeMap::new(), 0, 0);
        Poller { user, place: None, waits: false, after, members_after, heard, lists, lost }
    }

    fn ask(&mut self, one: &mut One, wait: usize) {
        let token = format!("sub=user:{};ids=room:*;members=room:*", self.user);
        let mut target = format!("/poll/{}?wait={wait}", ROOMS[self.user % 2]);
        ROOMS.iter().for_each(|room| target += &format!("&members={room}"));
        for (name, value) in [("after", &self.after), ("members_after", &self.members_after)] {
            target += &format!("&{name}={value}");
        }
        let request = request(&target, &token);
        match self.place {
            Some(place) => one.say(place, request.as_bytes()),
            None => self.place = Some(one.client(1 << 20, &request)),
        }
        self.waits = true;
    }

    /// Reads an answer, if there is one.
    fn read(&mut self, one: &mut One) -> bool {
        let Some(place) = self.place.filter(|_| self.waits) else { return false };
        let answer = one.reads(place);
        let Some((head, body)) = answer.split_once("\r\n\r\n") else { return false };
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        self.waits = false;
        let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
        if let Some(next) = field("Encke-Next: ") {
            self.after = next.to_owned();
        }
        // Where it stands is not known any more, if that is not said.
        self.members_after = field("Encke-Members: ").unwrap_or_default().to_owned();
        let said: Vec<Value> = serde_json::from_str(body).unwrap();
        said.iter().for_each(|said| self.hear(said));
        true
    }

    fn hear(&mut self, said: &Value) {
        let text = |of: &str, name: &str| said[of][name].as_str().unwrap_or_default().to_owned();
        if let Some(list) = said["members"]["list"].as_array() {
            let listed = list.iter().map(|member| member["id"].as_str().unwrap().to_owned());
            self.heard.insert(text("members", "of"), listed.collect());
            self.lists += 1;
        } else if said["joined"].is_object() {
            let set = self.heard.get_mut(&text("joined", "of")).expect("a list comes first");
            assert!(set.insert(text("joined", "id")), "{said}: it was there");
        } else {
            let set = self.heard.get_mut(&text("left", "of")).expect("a list comes first");
            assert!(set.remove(&text("left", "id")), "{said}: it was not there");
        }
    }

    /// Goes away. What it was answered and has not read is lost.
    fn give_up(&mut self, one: &mut One) {
        let Some(place) = self.place.take() else { return };
        one.wire(place).client_ends();
        one.server.hear_out(place);
        self.waits = false;
        self.lost += 1;
    }
}

struct World {
    random: Random,
    one: One,
    plane: Plane,
    pollers: Vec<Poller>,
    streams: Vec<Client>,
}

impl World {
    fn step(&mut self, is_rough: bool) {
        let World { random, one, plane, pollers, streams } = self;
        let poller = random.below(USERS);
        match random.below(if is_rough { 12 } else { 10 }) {
            0..5 if !pollers[poller].waits => {
                let wait = random.below(3);
                pollers[poller].ask(one, wait);
            }
            5 if random.one_in(4) => pollers[poller].give_up(one),
            6 => streams.push(come(one, random)),
            7 if !streams.is_empty() => {
                let stream = streams.swap_remove(random.below(streams.len()));
                one.wire(stream.place).client_ends();
                one.server.hear_out(stream.place);
            }
            10 => plane.forget(),
            11 if random.one_in(4) => {
                one.upgrade(random);
                let places = pollers.iter_mut().filter_map(|poller| poller.place.as_mut());
                let places = places.chain(streams.iter_mut().map(|stream| &mut stream.place));
                places.for_each(|place| *place = one.server.find(*place));
                *plane = Plane::of(one);
            }
            _ => one.server.clock.pass(random.below(400) as u64),
        }
        if random.one_in(3) {
            let mut turns = Random::new(random.below(1 << 30) as u64);
            plane.work(one, |one| {
                if turns.one_in(2) {
                    one.turn_after(0);
                }
            });
        }
        if random.one_in(3) {
            one.answer(&Nobody);
        }
        if random.one_in(2) {
            while one.turn_after(1) {}
        }
        if random.one_in(2) {
            pollers[poller].read(one);
        }
    }

    /// All poll on, until nobody is told anything more.
    fn settle(&mut self, seed: u64) {
        let (mut quiet, mut rounds) = (0, 0);
        while quiet < 12 {
            let World { one, plane, pollers, .. } = self;
            for poller in pollers.iter_mut().filter(|poller| !poller.waits) {
                poller.ask(one, WAIT_SECONDS);
            }
            for _ in 0..3 {
                plane.work(one, |_| {});
                one.answer(&Nobody);
                while one.turn_after(1) {}
            }
            one.server.clock.pass(GRACE_MS);
            let answered = pollers.iter_mut().filter_map(|poller| poller.read(one).then_some(()));
            let answered = answered.count();
            (quiet, rounds) = (if answered == 0 { quiet + 1 } else { 0 }, rounds + 1);
            assert!(rounds < 200, "seed {seed}: polls call each other back");
        }
    }
}

fn run_polls(seed: u64, is_rough: bool) {
    let one = silent_guarded();
    let plane = Plane::of(&one);
    let pollers = (0..USERS).map(Poller::new).collect();
    let random = Random::new(seed);
    let mut world = World { random, one, plane, pollers, streams: Vec::new() };
    for _ in 0..400 {
        world.step(is_rough);
    }
    world.settle(seed);
    let World { mut one, mut plane, mut pollers, streams, .. } = world;
    for room in ROOMS {
        let id = one.router.names().lookup(hub::IdText::parse(room).unwrap()).unwrap();
        let list = plane.roster.list(id).members.unwrap();
        let there: BTreeSet<String> = list.into_iter().map(|(id, _)| id.into()).collect();
        for poller in &pollers {
            assert_eq!(poller.heard.get(room), Some(&there), "seed {seed}");
        }
    }
    for poller in &pollers {
        let most = ROOMS.len() * (1 + poller.lost);
        assert!(is_rough || poller.lists <= most, "seed {seed}: {} lists", poller.lists);
    }
    pollers.iter_mut().for_each(|poller| poller.give_up(&mut one));
    streams.iter().for_each(|stream| one.wire(stream.place).client_ends());
    one.server.end();
    plane.forget();
    for _ in 0..10 {
        settle(&mut one, &mut plane);
    }
    one.server.check_nothing_is_left();
    assert!(plane.watches.members().is_empty(), "seed {seed}: a member that nobody is");
    assert_eq!(plane.watches.members().watchers().ids_online(), 0);
}

#[test]
fn each_poll_goes_on_where_the_one_before_ended_and_none_gets_a_list_twice() {
    each_seed("sim::members::polled::each_poll", 60, |seed| run_polls(seed, false));
}

#[test]
fn polls_whose_rooms_are_forgotten_or_that_meet_an_upgrade_are_told_lists_that_fit() {
    each_seed("sim::members::polled::polls_whose_rooms", 60, |seed| run_polls(200 + seed, true));
}

#[test]
fn poll_is_told_its_rooms_before_its_events_and_waits_once_it_knows_all() {
    let mut one = silent_guarded();
    let mut plane = Plane::of(&one);
    let mut poller = Poller::new(0);
    let mut bob = Poller::new(1);
    let mut work = |one: &mut One| {
        for _ in 0..3 {
            plane.work(one, |_| {});
            one.answer(&Nobody);
            while one.turn_after(1) {}
        }
    };
    poller.ask(&mut one, 0);
    work(&mut one);
    assert!(poller.read(&mut one), "it is answered once it has its lists");
    assert_eq!(poller.heard["room:0"], BTreeSet::from(["user:0".into()]));
    poller.ask(&mut one, 20);
    work(&mut one);
    assert!(!poller.read(&mut one), "there is nothing to be told");
    bob.ask(&mut one, 20);
    work(&mut one);
    assert!(poller.read(&mut one) && poller.heard["room:1"].contains("user:1"));
    poller.ask(&mut one, 20);
    work(&mut one);
    one.send("room:0", "7");
    while one.turn_after(1) {}
    let place = poller.place.unwrap();
    let answer = one.reads(place);
    assert!(
        answer.ends_with("\"data\":7}]\n") && answer.contains("\r\nEncke-Members: "),
        "{answer}"
    );
}
