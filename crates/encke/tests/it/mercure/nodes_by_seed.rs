//! Clients of the hub at the nodes of a cluster by seed, against the rule of the protocol: they
//! come with a token or without, and go on at other nodes, while others publish at all of them and
//! a node is killed. Each hears what is for it once and in the log's order, and nobody of a gap.

use fastrand::Rng;

use super::nodes::{Nodes, goes_on, hear_until, publish};
use super::{listen, subscriber};
use crate::harness::Stream;

const TOPICS: [&str; 5] = [
    "https://a.test/books/1",
    "https://a.test/books/2",
    "https://a.test/users/bob/1",
    "https://a.test/users/rj/1",
    "note",
];

/// What clients ask for, and what their tokens list.
const SELECTORS: [&str; 6] = [
    "*",
    "https://a.test/books/{id}",
    "https://a.test/users/bob/{+rest}",
    "https://a.test/{+rest}",
    "https://a.test/books/1",
    "note",
];

const CLIENTS: usize = 18;
const STEPS: usize = 150;

/// The topic that all listen to beside.
const MARK: &str = "mark";

/// Whether a selector of the list matches a topic.
fn matches(selector: &str, topic: &str) -> bool {
    if let Some(begin) = selector.strip_suffix("{id}") {
        return topic.strip_prefix(begin).is_some_and(|rest| !rest.contains('/'));
    }
    match selector.strip_suffix("{+rest}") {
        Some(begin) => topic.starts_with(begin),
        None => selector == "*" || selector == topic,
    }
}

struct Client {
    asks: Vec<&'static str>,
    granted: Option<Vec<&'static str>>,
    /// While it is away: the id of what it has heard last.
    stream: Option<Stream>,
    node: usize,
    place: String,
    /// What is for it, and what it has heard.
    due: Vec<String>,
    heard: Vec<String>,
}

impl Client {
    fn query(&self) -> String {
        let escaped = |selector: &str| selector.replace('{', "%7B").replace('}', "%7D");
        let asks = self.asks.iter().chain([&MARK]);
        let escaped = asks.map(|selector| format!("topic={}", escaped(selector)));
        escaped.collect::<Vec<_>>().join("&").replace('+', "%2B")
    }

    fn token(&self) -> Option<String> {
        self.granted.as_deref().map(subscriber)
    }

    fn hears(&self, topics: &[&str], is_private: bool) -> bool {
        let any = |of: &[&str]| {
            of.iter().any(|selector| topics.iter().any(|topic| matches(selector, topic)))
        };
        let may = !is_private || self.granted.as_deref().is_some_and(any);
        topics == [MARK] || any(&self.asks) && may
    }

    /// Hears all up to the mark.
    fn hear(&mut self, mark: &str) {
        let Some(stream) = &mut self.stream else { return };
        for (id, data) in hear_until(stream, mark) {
            self.place = id;
            if data.contains(r#""type":"Subscription""#) {
                // Who is subscribed, at any node: private, on paths that `*` alone matches here.
                let lists = |of: &[&str]| of.contains(&"*");
                assert!(lists(&self.asks) && self.granted.as_deref().is_some_and(lists), "{data}");
            } else {
                self.heard.push(data);
            }
        }
        assert_eq!(self.heard, self.due, "{:?} of {:?}", self.asks, self.granted);
    }
}

struct HubNodes {
    hub: Nodes,
    random: Rng,
    clients: Vec<Client>,
    /// The node that is killed.
    killed: Option<usize>,
    sent: usize,
}

impl HubNodes {
    fn any_node(&mut self) -> usize {
        loop {
            let node = self.random.usize(..self.hub.nodes.len());
            if self.killed != Some(node) {
                return node;
            }
        }
    }

    fn some_of(&mut self, most: usize) -> Vec<&'static str> {
        let count = 1 + self.random.usize(..most);
        (0..count).map(|_| SELECTORS[self.random.usize(..SELECTORS.len())]).collect()
    }

    fn come(&mut self) {
        let (asks, node) = (self.some_of(3), self.any_node());
        let granted = if self.random.bool() { Some(self.some_of(2)) } else { None };
        let (place, due, heard) = (String::new(), Vec::new(), Vec::new());
        let mut client = Client { asks, granted, stream: None, node, place, due, heard };
        let token = client.token();
        let fields: Vec<&str> = token.iter().map(String::as_str).collect();
        client.stream = Some(listen(&self.hub.nodes[node], &client.query(), &fields));
        self.clients.push(client);
    }

    fn publish(&mut self, topics: &[&str], is_private: bool) -> String {
        let (node, data) = (self.any_node(), self.sent.to_string());
        self.sent += 1;
        let named: Vec<String> = topics.iter().map(|topic| format!("topic={topic}")).collect();
        let mut form = format!("{}&data={data}", named.join("&"));
        if is_private {
            form += "&private=on";
        }
        if self.random.u8(..3) == 0 {
            form += &format!("&id=urn:{data}");
        }
        let (_, delivered) = publish(&self.hub.nodes[node].api, &form);
        let mut live = 0;
        for client in &mut self.clients {
            if client.hears(topics, is_private) {
                client.due.push(data.clone());
                live += u64::from(client.stream.is_some());
            }
        }
        // A client that has gone may be counted until its node knows.
        assert!(delivered >= live, "{topics:?} {is_private}: {delivered} of {live}");
        data
    }

    fn publish_some(&mut self) {
        let count = 1 + self.random.usize(..3);
        let mut topics: Vec<&str> =
            (0..count).map(|_| TOPICS[self.random.usize(..TOPICS.len())]).collect();
        topics.sort_unstable();
        topics.dedup();
        let is_private = self.random.bool();
        self.publish(&topics, is_private);
    }

    /// Some clients go away, and know where they stand.
    fn go(&mut self, goes: impl Fn(usize, &Client) -> bool) {
        let mark = self.publish(&[MARK], false);
        for (at, client) in self.clients.iter_mut().enumerate() {
            if goes(at, client) {
                client.hear(&mark);
                client.stream = None;
            }
        }
    }

    fn come_back(&mut self) {
        let Some(at) = self.clients.iter().position(|client| client.stream.is_none()) else {
            return;
        };
        let node = self.any_node();
        let client = &mut self.clients[at];
        let token = client.token();
        let fields: Vec<&str> = token.iter().map(String::as_str).collect();
        let node_at = &self.hub.nodes[node];
        client.stream = Some(goes_on(node_at, &client.query(), &client.place, &fields));
        client.node = node;
    }

    fn step(&mut self, step: usize) {
        if step == STEPS / 3 {
            let node = self.any_node();
            self.go(|_, client| client.node == node);
            self.killed = Some(node);
            self.hub.nodes[node].signal("KILL");
        }
        if step == STEPS * 2 / 3
            && let Some(node) = self.killed
        {
            self.hub.nodes[node] = self.hub.node(&format!("n{}", node + 1));
            self.killed = None;
        }
        match self.random.u8(..8) {
            0 => {
                let one = self.random.usize(..CLIENTS);
                self.go(|at, _| at == one);
            }
            1 | 2 => self.come_back(),
            _ => self.publish_some(),
        }
    }
}

#[test]
fn each_hears_what_the_protocol_says_whichever_node_it_is_at() {
    // As many are remembered as are published.
    let Some(hub) = Nodes::start(&["--history-events=1000"]) else { return };
    let random = Rng::with_seed(testing::seed());
    let mut world = HubNodes { hub, random, clients: Vec::new(), killed: None, sent: 0 };
    (0..CLIENTS).for_each(|_| world.come());
    (0..STEPS).for_each(|step| world.step(step));
    (0..CLIENTS).for_each(|_| world.come_back());
    let mark = world.publish(&[MARK], false);
    world.clients.iter_mut().for_each(|client| client.hear(&mark));
    let private = world.clients.iter().filter(|client| client.granted.is_some()).count();
    assert!(private > 0 && private < CLIENTS, "both kinds of clients");
}
