//! Clients of the hub by seed are held against the rule of the protocol word for word. They come,
//! with a token or without, go, and come back at their place. Meanwhile others publish, and other
//! versions of the server take over. Each hears what is for it once and in its order, and nobody of
//! a gap.

use hub::{ConnRef, Id, IdText, Nobody};
use mercure::{HubUrl, MatchType, Selector, Topic};
use topics::{SubscriberNumber, TopicFollowers};

use super::lives::To;
use super::one::One;
use super::random::Random;
use super::server::{Place, SHARDS};
use super::subscribers::{HUB, post};
use super::subscribers_upgraded::{bearer, guarded};

pub(super) const TOPICS: [&str; 7] = [
    "https://a.test/books/1",
    "https://a.test/books/2",
    "https://a.test/users/bob/1",
    "https://a.test/users/rj/1",
    "https://b.test/1",
    "note",
    "a{b}",
];

/// What clients of the old dialect ask for, and what their tokens list.
const OLD: [&str; 8] = [
    "*",
    "https://a.test/books/{id}",
    "https://a.test/users/bob/{+rest}",
    "https://a.test/{+rest}",
    "{word}",
    "https://a.test/books/1",
    "note",
    "encke:bob",
];

/// The same of those of 1.0.
const NEW: [(MatchType, &str); 7] = [
    (MatchType::Exact, "*"),
    (MatchType::Exact, "https://a.test/books/2"),
    (MatchType::Exact, "a{b}"),
    (MatchType::UrlPattern, "https://a.test/books/:id"),
    (MatchType::UrlPattern, "https://a.test/users/:user/*"),
    (MatchType::UrlPattern, ":word"),
    (MatchType::Exact, "encke:bob"),
];

const STEPS: usize = 250;

pub(super) struct HubClient {
    is_v1: bool,
    /// Places in the list of its dialect.
    asks: Vec<usize>,
    /// The same of what its token lists, if it has one.
    granted: Option<Vec<usize>>,
    pub(super) place: Option<Place>,
    /// Its subscriber's name, while somebody may know it.
    name: Option<SubscriberNumber>,
    /// What it has read of this stream and not understood.
    pub(super) text: String,
    /// The id of what it heard last, or of where it began.
    pub(super) last: String,
    pub(super) expected: Vec<usize>,
    pub(super) heard: Vec<usize>,
}

struct HubWorld {
    one: One,
    random: Random,
    clients: Vec<HubClient>,
    sent: usize,
}

fn hub_url() -> HubUrl {
    HubUrl::parse("http://hub.test/.well-known/mercure").unwrap()
}

fn selector(is_v1: bool, at: usize) -> Selector {
    match is_v1 {
        true => Selector::v1(NEW[at].0, NEW[at].1, &hub_url()).unwrap(),
        false => Selector::old(OLD[at]).unwrap(),
    }
}

pub(super) fn encoded(text: &str) -> String {
    text.replace('{', "%7B").replace('}', "%7D").replace('+', "%2B")
}

impl HubClient {
    pub(super) fn of(random: &mut Random) -> HubClient {
        let is_v1 = random.one_in(3);
        let count = if is_v1 { NEW.len() } else { OLD.len() };
        let some = |random: &mut Random, least: usize| -> Vec<usize> {
            (0..least + random.below(3)).map(|_| random.below(count)).collect()
        };
        let granted = (!random.one_in(3)).then(|| some(random, 0));
        let mut asks = some(random, 1);
        // An id is for those whose token lists it.
        let id = count - 1;
        if granted.as_ref().is_none_or(|granted| !granted.contains(&id)) {
            asks.retain(|ask| *ask != id);
            asks.push(0);
        }
        let (text, last) = (String::new(), String::new());
        let (expected, heard) = (Vec::new(), Vec::new());
        HubClient { is_v1, asks, granted, place: None, name: None, text, last, expected, heard }
    }

    /// Its request, which asks for all behind what it heard.
    pub(super) fn request(&self) -> String {
        let parameter = |at: &usize| match self.is_v1 {
            true if NEW[*at].0 == MatchType::UrlPattern => {
                format!("match_urlpattern={}", encoded(NEW[*at].1))
            }
            true => format!("match={}", encoded(NEW[*at].1)),
            false => format!("topic={}", encoded(OLD[*at])),
        };
        let query: Vec<String> = self.asks.iter().map(parameter).collect();
        let token = self.granted.as_ref().map(|granted| match self.is_v1 {
            true => bearer(true, &granted.iter().map(|at| NEW[*at]).collect::<Vec<_>>()),
            false => {
                let old = granted.iter().map(|at| (MatchType::Exact, OLD[*at]));
                bearer(false, &old.collect::<Vec<_>>())
            }
        });
        let place = match &*self.last {
            "" => String::new(),
            last => format!("Last-Event-ID: {last}\r\n"),
        };
        let (query, token) = (query.join("&"), token.unwrap_or_default());
        format!("GET {HUB}?{query} HTTP/1.0\r\nHost: hub.test\r\n{token}{place}\r\n")
    }

    pub(super) fn hears(&self, topics: &[&str], is_private: bool) -> bool {
        let any = |of: &[usize]| {
            let selectors = of.iter().map(|at| selector(self.is_v1, *at));
            let matches = |of: Selector| topics.iter().any(|topic| of.matches(&Topic::new(topic)));
            selectors.into_iter().any(matches)
        };
        any(&self.asks) && (!is_private || self.granted.as_ref().is_some_and(|of| any(of)))
    }

    pub(super) fn hears_bob(&self) -> bool {
        let id = if self.is_v1 { NEW.len() } else { OLD.len() } - 1;
        self.asks.contains(&id)
    }

    /// Understands what it has read.
    pub(super) fn understand(&mut self) {
        if let Some((head, _)) =
            self.text.split_once("\r\n\r\n").filter(|_| self.text.starts_with("HTTP"))
        {
            assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
            let next = head.lines().find_map(|line| line.strip_prefix("Encke-Next: ")).unwrap();
            if self.last.is_empty() {
                self.last = format!("#{next}");
            }
            self.text.drain(..head.len() + 4);
        }
        while let Some((block, _)) = self.text.split_once("\n\n") {
            let len = block.len() + 2;
            assert!(!block.contains("event: gap"), "nothing is missing: {block}");
            let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
            if let Some(id) = field("id: ") {
                self.last = id.to_owned();
            }
            self.heard.extend(field("data: ").map(|data| data.parse::<usize>().unwrap()));
            self.text.drain(..len);
        }
    }
}

impl HubWorld {
    fn new(seed: u64) -> HubWorld {
        let mut random = Random::new(seed);
        let one = guarded();
        if random.one_in(2) {
            one.router.topics().unwrap().subscriptions().ask(|| 0);
        }
        HubWorld { one, random, clients: Vec::new(), sent: 0 }
    }

    fn step(&mut self) {
        match self.random.below(12) {
            0..2 => self.come(),
            2 => self.go(),
            3..7 => self.publish(),
            7 => self.send(),
            8 => self.answer(),
            9 if self.random.one_in(2) => self.upgrade(),
            _ => self.read(),
        }
        if !self.random.one_in(4) {
            self.turn();
        }
    }

    fn turn(&mut self) {
        self.one.server.clock.pass(1);
        for shard in 0..SHARDS {
            self.one.server.turn(shard);
        }
    }

    /// Somebody comes, or comes back.
    fn come(&mut self) {
        let away = self.clients.iter().position(|client| client.place.is_none());
        let client = match away.filter(|_| !self.random.one_in(3)) {
            Some(client) => client,
            None => {
                self.clients.push(HubClient::of(&mut self.random));
                self.clients.len() - 1
            }
        };
        let (shard, room) = (self.random.below(SHARDS), 200 + self.random.below(2_000));
        let place = self.one.server.connect(shard, room);
        let request = self.clients[client].request();
        self.one.say(place, request.as_bytes());
        self.turn();
        let name = self.name(place);
        let client = &mut self.clients[client];
        (client.place, client.name) = (Some(place), name);
        client.text.clear();
    }

    fn name(&self, place: Place) -> Option<SubscriberNumber> {
        let subscriptions = self.one.router.topics().unwrap().subscriptions();
        let conn = ConnRef::new(place.shard, place.key.slot as usize, place.key.generation);
        subscriptions.is_wanted().then(|| subscriptions.number(conn))
    }

    fn go(&mut self) {
        if self.clients.is_empty() {
            return;
        }
        let at = self.random.below(self.clients.len());
        self.read_one(at);
        let client = &mut self.clients[at];
        // It must know where it stands.
        if let Some(place) = client.place.filter(|_| !client.last.is_empty()) {
            client.place = None;
            self.one.wire(place).client_ends();
        }
    }

    fn publish(&mut self) {
        let topics: Vec<&str> = (0..1 + self.random.below(3))
            .map(|_| TOPICS[self.random.below(TOPICS.len())])
            .collect();
        let is_private = self.random.one_in(2);
        let form: Vec<String> =
            topics.iter().map(|topic| format!("topic={}", encoded(topic))).collect();
        let mut form = format!("{}&data={}", form.join("&"), self.sent);
        if is_private {
            form += "&private=on";
        }
        if self.random.one_in(3) {
            form += &format!("&id=urn:{}", self.sent);
        }
        post(&self.one, &form);
        let sent = self.sent;
        let hears = self.clients.iter_mut().filter(|client| client.hears(&topics, is_private));
        hears.for_each(|client| client.expected.push(sent));
        self.sent += 1;
    }

    /// An event about an id of the graph.
    fn send(&mut self) {
        self.one.send("bob", &self.sent.to_string());
        let sent = self.sent;
        let hears = self.clients.iter_mut().filter(|client| client.hears_bob());
        hears.for_each(|client| client.expected.push(sent));
        self.sent += 1;
    }

    fn answer(&mut self) {
        let topics = self.one.router.topics().unwrap().clone();
        self.one.answer(&TopicFollowers::new(&topics, &Nobody));
    }

    fn upgrade(&mut self) {
        self.one.upgrade_to(To::AnyShard, &mut self.random);
        for at in 0..self.clients.len() {
            if let Some(place) = self.clients[at].place {
                let place = self.one.server.find(place);
                self.clients[at].place = Some(place);
                let (before, now) = (self.clients[at].name, self.name(place));
                assert!(before.is_none() || now == before, "it is called as before");
            }
        }
    }

    fn read(&mut self) {
        if !self.clients.is_empty() {
            let at = self.random.below(self.clients.len());
            self.read_one(at);
        }
    }

    fn read_one(&mut self, at: usize) {
        let Some(place) = self.clients[at].place else { return };
        assert!(!self.one.is_closed(place), "nobody is closed");
        let text = self.one.reads(place);
        self.clients[at].text.push_str(&text);
        self.clients[at].understand();
    }

    /// All hear what is left, and go. What was heard in all.
    fn end(mut self) -> usize {
        while self.clients.iter().any(|client| client.place.is_none()) {
            self.come();
        }
        for _ in 0..400 {
            self.answer();
            self.turn();
            (0..self.clients.len()).for_each(|at| self.read_one(at));
        }
        for client in &self.clients {
            let what = (client.is_v1, &client.asks, &client.granted);
            assert_eq!(client.heard, client.expected, "{what:?} {}", client.text);
        }
        let heard = self.clients.iter().map(|client| client.heard.len()).sum();
        for client in &self.clients {
            self.one.wire(client.place.unwrap()).client_ends();
        }
        (0..20).for_each(|_| self.turn());
        let topics = self.one.router.topics().unwrap();
        let figures = topics.figures();
        assert_eq!((figures.keys, figures.lists, figures.patterns), (0, 0, 0));
        let logged_in = |id: Id| self.one.router.is_online(id);
        let bob = self.one.router.names().lookup(IdText::parse("bob").unwrap());
        assert!(!bob.is_some_and(logged_in));
        heard
    }
}

#[test]
fn hub_by_seed_each_hears_what_is_for_it_once_over_upgrades() {
    let seed = testing::seed();
    let heard: usize = (0..60)
        .map(|run| {
            let mut world = HubWorld::new(seed.wrapping_add(run));
            (0..STEPS).for_each(|_| world.step());
            world.end()
        })
        .sum();
    assert!(heard > 5_000, "{heard} heard");
}
