//! The hub over three nodes of a cluster and a real NATS: who hears what, in which order, and from
//! which place on, whichever node clients and backends are at.

use std::thread;

use serde_json::json;
use tempfile::TempDir;
use testing::tried_again;

use super::{BOOKS, FORM, HUB, Hub, bearer, listen, publisher, subscriber};
use crate::cluster::World;
use crate::harness::{Answer, Api, Server, Stream, TOKEN_SECRET, get, wait_for};

/// Nodes that are one hub.
pub(super) struct Nodes {
    pub(super) nodes: [Server; 3],
    pub(super) world: World,
    options: Vec<String>,
    _files: TempDir,
}

impl Nodes {
    /// `None` where there is no NATS.
    pub(super) fn start(options: &[&str]) -> Option<Nodes> {
        let (world, files) = (World::new()?, Hub::key_file());
        let own = options.iter().map(|&option| option.to_owned());
        let options: Vec<String> =
            own.chain([Hub::key_option(files.path()), "--mercure-open".to_owned()]).collect();
        let nodes = world.nodes_with(&options.iter().map(String::as_str).collect::<Vec<_>>());
        Some(Nodes { nodes, options, world, _files: files })
    }

    /// The node of that name, anew.
    pub(super) fn node(&self, name: &str) -> Server {
        self.world.node(name, &self.options.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

fn publish_by(api: &Api, authorization: &str, form: &str) -> Answer {
    api.post_with(HUB, &format!("{FORM}\r\n{authorization}\r\n"), form)
}

/// The id of what was published, and how many have heard it at all nodes.
#[track_caller]
pub(super) fn publish(api: &Api, form: &str) -> (String, u64) {
    let answer = published(api, form);
    let delivered = delivered(&answer);
    (answer.body, delivered)
}

/// How many have heard what was published.
fn delivered(answer: &Answer) -> u64 {
    answer.head.field("encke-delivered").unwrap().parse().unwrap()
}

/// The answer to what was published.
#[track_caller]
fn published(api: &Api, form: &str) -> Answer {
    let mut answer = publish_by(api, &publisher(), form);
    // A node that has just come has not said yet what it knows of records. With `Retry-After`
    // nothing was published.
    wait_for("it may be published", || {
        let is_early = answer.status() == 503 && answer.head.field("retry-after").is_some();
        if is_early {
            answer = publish_by(api, &publisher(), form);
        }
        !is_early
    });
    assert_eq!(answer.status(), 200, "{answer:?}");
    answer
}

/// Publishes so many updates, each of which twelve hear; returns how many of them were not counted
/// by all nodes in time, as it may be where the machine stands still.
fn publish_to_twelve(api: &Api, at: usize, updates: usize) -> usize {
    let mut uncounted = 0;
    for n in 0..updates {
        let form = format!("topic=https://a.test/books/1&topic=alt&data={at}-{n}");
        let answer = published(api, &form);
        let is_whole = answer.head.field("encke-at-least").is_none();
        let least = if is_whole { 12 } else { 0 };
        assert!((least..=12).contains(&delivered(&answer)), "{answer:?}");
        uncounted += usize::from(!is_whole);
    }
    uncounted
}

/// A stream that goes on behind this place, which is no gap.
#[track_caller]
pub(super) fn goes_on(node: &Server, query: &str, place: &str, fields: &[&str]) -> Stream {
    let place_field = format!("Last-Event-ID: {place}");
    let stream = listen(node, query, &[&[&*place_field], fields].concat());
    assert_eq!(stream.head.field("last-event-id"), Some(place), "{query}");
    stream
}

/// The ids and texts of the next updates, until one is `last`.
#[track_caller]
pub(super) fn hear_until(stream: &mut Stream, last: &str) -> Vec<(String, String)> {
    let mut heard: Vec<(String, String)> = Vec::new();
    while heard.last().is_none_or(|(_, data)| data != last) {
        let text = stream.chunk();
        assert!(!text.contains("event: gap"), "nothing is missing behind {heard:?}: {text}");
        assert!(!text.is_empty(), "it ends behind {heard:?}");
        for event in text.split_terminator("\n\n") {
            let field = |name| event.lines().find_map(|line| line.strip_prefix(name));
            // On a busy machine a keep-alive may come between.
            if let (Some(id), Some(data)) = (field("id: "), field("data: ")) {
                heard.push((id.to_owned(), data.to_owned()));
            }
        }
    }
    heard
}

fn texts(heard: &[(String, String)]) -> Vec<&str> {
    heard.iter().map(|(_, data)| &**data).collect()
}

#[test]
fn update_at_any_node_is_heard_at_all_once_in_one_order() {
    let Some(hub) = Nodes::start(&[]) else { return };
    let nodes = &hub.nodes;
    let granted = subscriber(&["https://a.test/books/{id}"]);
    let listen_at = |node| {
        [
            listen(node, &format!("{BOOKS}&topic=https://a.test/books/1"), &[]),
            listen(node, "topic=*", &[]),
            listen(node, "topic=alt&topic=end", &[]),
            listen(node, BOOKS, &[&granted]),
        ]
    };
    let mut streams: Vec<Stream> = nodes.iter().flat_map(listen_at).collect();
    let _others = nodes.each_ref().map(|node| listen(node, "topic=https://a.test/films/1", &[]));
    // Each node counts those at the others, and an own id is the same everywhere.
    let form = "topic=https%3A%2F%2Fa.test%2Fbooks%2F1&topic=alt&data=a%0Ab&id=urn:1&type=t";
    assert_eq!(publish(&nodes[1].api, form), ("urn:1".to_owned(), 12));
    for stream in &mut streams {
        assert_eq!(stream.chunk(), "event: t\nid: urn:1\ndata: a\ndata: b\n\n");
    }
    let each = 40;
    let uncounted: usize = thread::scope(|scope| {
        let publish_at = |(at, node): (usize, &Server)| {
            let api = node.api.another();
            scope.spawn(move || publish_to_twelve(&api, at, each))
        };
        let publishing: Vec<_> = nodes.iter().enumerate().map(publish_at).collect();
        publishing.into_iter().map(|one| one.join().unwrap()).sum()
    });
    // That all have heard them is seen below.
    let told = format!("{uncounted} updates were not counted by all");
    assert!(2 * uncounted <= nodes.len() * each, "{told}");
    if uncounted > 0 {
        tried_again(&told);
    }
    let (end, _) = publish(&nodes[0].api, "topic=https://a.test/books/9&topic=end&data=end");
    let all: Vec<_> = streams.iter_mut().map(|stream| hear_until(stream, "end")).collect();
    assert_eq!(all[0].len(), nodes.len() * each + 1);
    assert_eq!(all[0].last().unwrap().0, end);
    for heard in &all {
        assert_eq!(heard, &all[0], "all hear the same in one order");
    }
    for at in 0..nodes.len() {
        let of_node = format!("{at}-");
        let in_order: Vec<&str> =
            texts(&all[0]).into_iter().filter(|text| text.starts_with(&of_node)).collect();
        let sent: Vec<String> = (0..each).map(|n| format!("{at}-{n}")).collect();
        assert_eq!(in_order, sent, "each publisher's in its order");
    }
}

#[test]
fn place_of_one_node_is_one_at_another_and_after_a_kill() {
    let Some(mut hub) = Nodes::start(&[]) else { return };
    let [first, second, third] = &hub.nodes;
    let mut stream = listen(first, BOOKS, &[]);
    let (place, _) = publish(&second.api, "topic=https://a.test/books/1&data=1");
    publish(&third.api, "topic=https://a.test/books/2&data=2&id=urn:2");
    assert_eq!(texts(&hear_until(&mut stream, "2")), ["1", "2"]);
    first.signal("KILL");
    publish(&third.api, "topic=https://a.test/books/1&data=3");
    publish(&second.api, "topic=https://a.test/books/2&private=on&data=hidden");
    publish(&second.api, "topic=https://a.test/books/2&data=4");
    // Two that know what was published by reading the log again.
    let another = hub.node("n4");
    hub.nodes[0] = hub.node("n1");
    for node in hub.nodes.iter().chain([&another]) {
        for query in [BOOKS, "topic=*", "topic=https://a.test/books/1&topic=https://a.test/books/2"]
        {
            let mut by_word = goes_on(node, query, &place, &[]);
            assert_eq!(texts(&hear_until(&mut by_word, "4")), ["2", "3", "4"], "{query}");
            let mut by_own_id = goes_on(node, query, "urn:2", &[]);
            assert_eq!(texts(&hear_until(&mut by_own_id, "4")), ["3", "4"], "{query}");
        }
        let earliest = format!("{BOOKS}&lastEventID=earliest");
        let mut all = listen(node, &earliest, &[&subscriber(&["https://a.test/books/{id}"])]);
        assert_eq!(texts(&hear_until(&mut all, "4")), ["1", "2", "3", "hidden", "4"]);
        let mut unknown = listen(node, BOOKS, &["Last-Event-ID: urn:nobody"]);
        assert_eq!(unknown.head.field("last-event-id"), Some("earliest"));
        assert!(unknown.chunk().starts_with("event: gap\nid: #"));
    }
}

/// Its node has not read yet what the client has heard elsewhere.
#[test]
fn client_that_is_faster_than_its_node_goes_on_there() {
    let Some(hub) = Nodes::start(&[]) else { return };
    let [first, _, third] = &hub.nodes;
    for own_id in ["", "&id=urn:fast"] {
        let topic = format!("topic=https://a.test/books/{}", own_id.len());
        let mut stream = listen(first, &topic, &[]);
        // From then on it is known what all nodes read.
        publish(&first.api, &format!("{topic}&data=before"));
        third.signal("STOP");
        let (form, api) = (format!("{topic}&data=heard{own_id}"), first.api.another());
        let publishing = thread::spawn(move || publish(&api, &form));
        let (place, _) = hear_until(&mut stream, "heard").remove(1);
        let field = format!("Last-Event-ID: {place}");
        let mut wire = third.ask(get(&format!("{HUB}?{topic}"), &[&field]));
        third.signal("CONT");
        publishing.join().unwrap();
        let head = wire.head();
        assert_eq!(head.field("last-event-id"), Some(&*place), "{}", head.text);
        let mut moved = Stream { wire, head, cursor: None };
        publish(&first.api, &format!("{topic}&data=missed"));
        assert_eq!(texts(&hear_until(&mut moved, "missed")), ["missed"]);
    }
}

#[test]
fn node_that_ends_sends_its_subscribers_to_the_others_and_they_miss_nothing() {
    let options = ["--drain=1", "--history-events=100000"];
    let Some(mut hub) = Nodes::start(&options) else { return };
    let [first, second, _] = &mut hub.nodes;
    let mut stream = listen(first, BOOKS, &[]);
    let (place, _) = publish(&second.api, "topic=https://a.test/books/1&data=0");
    assert_eq!(hear_until(&mut stream, "0")[0].0, place);
    first.signal("TERM");
    let mut sent: Vec<String> = Vec::new();
    while first.exit_code().is_none() {
        sent.push((sent.len() + 1).to_string());
        let form = format!("topic=https://a.test/books/1&data={}", sent.len());
        publish(&second.api, &form);
    }
    assert_eq!(first.exit_code(), Some(0));
    // Of what it has heard meanwhile it knows nothing any more.
    let mut elsewhere = goes_on(second, BOOKS, &place, &[]);
    assert_eq!(texts(&hear_until(&mut elsewhere, &sent.len().to_string())), sent);
}

#[test]
fn id_of_the_graph_and_topics_come_by_one_stream_at_any_node() {
    let Some(hub) = Nodes::start(&[]) else { return };
    let nodes = &hub.nodes;
    for node in nodes {
        let mut stream =
            listen(node, "topic=encke:bob&topic=note&topic=end", &[&subscriber(&["encke:bob"])]);
        for from in nodes {
            let event = json!({ "about": "bob", "text": "event" });
            assert_eq!(from.api.post("/send", &event).ok()["delivered"], 1);
            assert_eq!(publish(&from.api, "topic=note&data=update").1, 1);
        }
        publish(&nodes[0].api, "topic=end&data=end");
        let heard = hear_until(&mut stream, "end");
        let due = ["event", "update", "event", "update", "event", "update", "end"];
        assert_eq!(texts(&heard), due);
    }
}

#[test]
fn revoked_token_ends_its_streams_at_all_nodes_and_opens_none() {
    let own = format!("--token-key={TOKEN_SECRET}");
    let Some(hub) = Nodes::start(&[&own]) else { return };
    let nodes = &hub.nodes;
    let of = |jti: &str| {
        let granted = json!({ "publish": ["*"], "subscribe": ["*"] });
        bearer(&json!({ "mercure": granted, "jti": jti }))
    };
    let (revoked, good) = (of("1"), of("2"));
    let mut ends = nodes.each_ref().map(|node| listen(node, "topic=a", &[&revoked]));
    let mut stay = nodes.each_ref().map(|node| listen(node, "topic=a", &[&good]));
    nodes[2].api.post("/tokens/revoke", &json!({ "jti": "1" })).ok();
    ends.iter_mut().for_each(Stream::expect_last_chunk);
    for node in nodes {
        let status = node.ask(get(&format!("{HUB}?topic=a"), &[&revoked])).head().status;
        assert_eq!(status, 401);
        assert_eq!(publish_by(&node.api, &revoked, "topic=a&data=x").status(), 401);
        assert_eq!(publish_by(&node.api, &good, "topic=a&data=good").status(), 200);
    }
    publish(&nodes[0].api, "topic=a&data=end");
    for stream in &mut stay {
        assert_eq!(texts(&hear_until(stream, "end")), ["good", "good", "good", "end"]);
    }
}

#[test]
fn what_the_log_does_not_take_is_refused() {
    let Some(mut hub) = Nodes::start(&["--max-backlog=1MiB"]) else { return };
    let [first, second, _] = &hub.nodes;
    let mut stream = listen(second, "topic=a", &[]);
    // Longer than a record of the log.
    let data = "x".repeat(300_000);
    let long = publish_by(&first.api, &publisher(), &format!("topic=a&data={data}"));
    assert!(long.problem(413)["detail"].as_str().unwrap().contains("In a cluster"), "{long:?}");
    // Topics stand in it once.
    let topics: Vec<String> = (10..60).map(|n| format!("topic={}{n}", "t".repeat(3_900))).collect();
    let (id, _) = publish(&first.api, &format!("topic=a&{}&data=many", topics.join("&")));
    assert_eq!(hear_until(&mut stream, "many"), [(id, "many".to_owned())]);
    hub.world.nats.kill();
    let away = publish_by(&first.api, &publisher(), "topic=a&data=away");
    away.problem(503);
    hub.world.nats.restart();
    wait_for("it is sent", || {
        publish_by(&first.api, &publisher(), "topic=a&data=back").status() == 200
    });
    let heard = hear_until(&mut stream, "back");
    let may_be = away.body.contains("may still be sent");
    assert!(may_be || !texts(&heard).contains(&"away"), "{heard:?}");
}

#[test]
fn each_node_keeps_updates_on_its_disk_and_has_those_of_while_it_was_away() {
    let options = ["--keep=https://a.test/*=7d", "--log-sync=always", "--history-events=2"];
    let Some(mut hub) = Nodes::start(&options) else { return };
    let topic = "topic=https://a.test/books/1&topic=https://a.test/all";
    let apis = hub.nodes.each_ref().map(|node| node.api.another());
    let (place, _) = publish(&apis[0], &format!("{topic}&data=0&id=urn:first"));
    let (word, _) = publish(&apis[1], &format!("{topic}&data=1"));
    let mut due: Vec<String> = vec!["1".to_owned()];
    let publish_ten = |due: &mut Vec<String>| {
        for n in due.len() + 1..=due.len() + 10 {
            publish(&apis[n % 2], &format!("{topic}&data={n}"));
            due.push(n.to_string());
        }
    };
    publish_ten(&mut due);
    hub.nodes[2].signal("KILL");
    publish_ten(&mut due);
    hub.nodes[2] = hub.node("n3");
    let check = |nodes: &[Server; 3], due: &[String]| {
        for node in nodes {
            for query in [BOOKS, "topic=https://a.test/all", &format!("{BOOKS}&{topic}")] {
                let last = due.last().unwrap();
                let mut by_own_id = goes_on(node, query, &place, &[]);
                assert_eq!(texts(&hear_until(&mut by_own_id, last)), due, "{query}");
                let mut by_word = goes_on(node, query, &word, &[]);
                assert_eq!(texts(&hear_until(&mut by_word, last)), due[1..], "{query}");
            }
            assert_eq!(node.api.stats()["resume_gaps"], 0);
        }
    };
    check(&hub.nodes, &due);
    // The whole cluster goes, and comes back.
    for at in 0..hub.nodes.len() {
        hub.nodes[at].signal("KILL");
    }
    for (at, name) in ["n1", "n2", "n3"].into_iter().enumerate() {
        hub.nodes[at] = hub.node(name);
    }
    check(&hub.nodes, &due);
}
