//! Who is subscribed at the hub of three nodes: one list at all, whose changes are told once,
//! whichever node clients are at and whichever is killed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::nodes::{Nodes, publish};
use super::subscriptions::{LISTEN, PATH, ask_list_at, ids, list_at, reader};
use super::v1::{ISSUER, METADATA, PUBLIC_URL};
use super::v1_subscriptions::reader_of_v1;
use super::{bearer, listen};
use crate::harness::{Server, Stream, get, read_answer, wait_for};

/// Ends what a listener hears.
const MARK: &str = "topic=mark";

/// How the users of a node that is gone leave soon.
const GRACE: &str = "--presence-grace=1";

/// One who hears changes, and what it knows by them.
struct Listener {
    stream: Stream,
    known: BTreeSet<String>,
    /// How often it has heard of each, by its path and whether it has begun.
    heard: BTreeMap<(String, bool), usize>,
}

impl Listener {
    /// At a node where it hears all changes behind this list.
    fn behind(node: &Server, list: &Value) -> Listener {
        let place = list["lastEventID"].as_str().unwrap();
        let stream = listen(
            node,
            &format!("{LISTEN}&{MARK}"),
            &[&reader(), &format!("Last-Event-ID: {place}")],
        );
        assert_eq!(stream.head.field("last-event-id"), Some(place), "it is no gap");
        Listener { stream, known: ids(list), heard: BTreeMap::new() }
    }

    /// At a node where it hears all changes in the form of 1.0 behind the list that is there now.
    fn of_v1_at(node: &Server) -> Listener {
        let answer = ask_list_at(node, PATH, &[&reader_of_v1()]);
        let place = answer.head.field("etag").unwrap().trim_matches('"');
        let stream = listen(
            node,
            &format!("match_urlpattern={PATH}/:type/:match/:who&match=mark"),
            &[&reader_of_v1(), &format!("Last-Event-ID: {place}")],
        );
        let told = stream.head.field("mercure-last-event-id");
        assert_eq!(told, Some(place), "it is no gap");
        Listener { stream, known: BTreeSet::new(), heard: BTreeMap::new() }
    }

    /// Hears up to that update of a publisher.
    fn hear_until(&mut self, mark: &str) {
        loop {
            let chunk = self.stream.chunk();
            assert!(!chunk.is_empty() && !chunk.contains("event: gap"), "{chunk}");
            for event in chunk.split_terminator("\n\n") {
                let Some(data) = event.lines().find_map(|line| line.strip_prefix("data: ")) else {
                    continue;
                };
                match data {
                    _ if data == mark => return,
                    // One of before that it has missed.
                    _ if data.starts_with("mark") => continue,
                    _ => {}
                }
                let change: Value = serde_json::from_str(data).unwrap();
                let (id, is_active) = (change["id"].as_str().unwrap(), change["active"] == true);
                *self.heard.entry((id.to_owned(), is_active)).or_default() += 1;
                match is_active {
                    true => self.known.insert(id.to_owned()),
                    false => self.known.remove(id),
                };
            }
        }
    }

    /// Whether it has heard of a change of this topic.
    fn has_heard(&self, topic: &str, is_active: bool) -> bool {
        let of = format!("{PATH}/{topic}/");
        self.heard.keys().any(|(id, active)| *active == is_active && id.starts_with(&of))
    }
}

/// Lets all hear what was told by now.
fn hear(nodes: &[&Server], listeners: &mut [Listener], mark: &mut usize) {
    *mark += 1;
    let text = format!("mark {mark}");
    publish(&nodes[0].api, &format!("{MARK}&data=mark%20{mark}"));
    listeners.iter_mut().for_each(|listener| listener.hear_until(&text));
}

/// Waits until all nodes have the same list and all listeners know it but for themselves, and
/// answers it. Each has heard each change once.
fn settle(nodes: &[&Server], listeners: &mut [Listener], count: usize, mark: &mut usize) -> Value {
    let own = |id: &String| id.contains("%7B%2Fsubscriber%7D") || id.contains("/mark/");
    let others = |all: &BTreeSet<String>| -> BTreeSet<String> {
        all.iter().filter(|id| !own(id)).cloned().collect()
    };
    wait_for("all know the same", || {
        hear(nodes, listeners, mark);
        let lists: Vec<BTreeSet<String>> =
            nodes.iter().map(|node| ids(&list_at(node, PATH))).collect();
        let wanted = others(&lists[0]);
        lists.iter().all(|list| *list == lists[0])
            && wanted.len() == count
            && listeners.iter().all(|listener| others(&listener.known) == wanted)
    });
    hear(nodes, listeners, mark);
    for listener in listeners {
        let doubled: Vec<_> = listener.heard.iter().filter(|(_, times)| **times > 1).collect();
        assert!(doubled.is_empty(), "{doubled:?}");
    }
    list_at(nodes[0], PATH)
}

#[test]
fn what_is_subscribed_at_any_node_is_listed_at_all_and_told_once() {
    let Some(hub) = Nodes::start(&[]) else { return };
    let nodes: Vec<&Server> = hub.nodes.iter().collect();
    let mut mark = 0;
    // Who was there before somebody wanted to know.
    let before = hub.nodes.each_ref().map(|node| listen(node, "topic=before", &[]));
    // The list of one node has a place for all.
    let list = list_at(nodes[1], PATH);
    assert_eq!(ids(&list).len(), 3);
    let mut listeners: Vec<Listener> = vec![Listener::behind(nodes[1], &list)];
    settle(&nodes, &mut listeners, 3, &mut mark);
    assert!(listeners[0].heard.is_empty(), "it does not hear of itself");
    for node in [0, 2] {
        let list = list_at(nodes[node], PATH);
        listeners.push(Listener::behind(nodes[node], &list));
    }
    let payload = json!({ "user": "bob" });
    let granted = json!({ "subscribe": ["a{b}"], "payload": payload });
    let token = bearer(&json!({ "mercure": granted }));
    let streams: Vec<Stream> = nodes
        .iter()
        .map(|node| listen(node, "topic=a%7Bb%7D&topic=x%2Fy&topic=*", &[&token]))
        .collect();
    let list = settle(&nodes, &mut listeners, 3 + 9, &mut mark);
    let of_bob: Vec<&Value> = list["subscriptions"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["payload"] == payload)
        .collect();
    assert_eq!(of_bob.len(), 9, "{list}");
    let one = of_bob[0]["id"].as_str().unwrap();
    for node in &nodes {
        assert_eq!(list_at(node, one)["payload"], payload);
        assert_eq!(ids(&list_at(node, &format!("{PATH}/x%2Fy"))).len(), 3);
        // As long as nothing changes the list is what its tag says.
        let tag = list_at(node, PATH)["lastEventID"].as_str().unwrap().to_owned();
        let known = format!("If-None-Match: {tag}");
        assert_eq!(ask_list_at(node, PATH, &[&reader(), &known]).status(), 304);
    }
    let tag = list_at(nodes[0], PATH)["lastEventID"].as_str().unwrap().to_owned();
    drop(streams);
    settle(&nodes, &mut listeners, 3, &mut mark);
    assert!(listeners.iter().all(|listener| listener.has_heard("x%2Fy", false)));
    let known = format!("If-None-Match: {tag}");
    assert_eq!(ask_list_at(nodes[0], PATH, &[&reader(), &known]).status(), 200);
    drop(before);
    settle(&nodes, &mut listeners, 0, &mut mark);
}

/// The node that publishes the changes is the one that asked first.
#[test]
fn what_a_killed_node_held_goes_away_and_its_changes_are_told_by_another() {
    let Some(hub) = Nodes::start(&[GRACE]) else { return };
    let [first, second, third] = &hub.nodes;
    // From then on it is known what all nodes read, also when one of them is gone.
    hub.nodes.iter().for_each(|node| drop(publish(&node.api, "topic=x&data=1")));
    let mut mark = 0;
    let list = list_at(first, PATH);
    let mut listeners = vec![Listener::behind(first, &list)];
    settle(&[first, second, third], &mut listeners, 0, &mut mark);
    for node in [second, third] {
        listeners.push(Listener::behind(node, &list_at(node, PATH)));
    }
    let _held = listen(first, "topic=held&topic=held2", &[]);
    let _stays = listen(third, "topic=stays", &[]);
    settle(&[first, second, third], &mut listeners, 3, &mut mark);
    first.signal("KILL");
    let mut listeners = listeners.split_off(1);
    let nodes = [second, third];
    // What comes while nobody publishes is told afterwards.
    let _later = listen(second, "topic=later", &[]);
    settle(&nodes, &mut listeners, 2, &mut mark);
    for listener in &listeners {
        assert!(listener.has_heard("held", false) && listener.has_heard("held2", false));
        assert!(listener.has_heard("later", true) && !listener.has_heard("stays", false));
    }
    // One that comes anew has the same list.
    let again = hub.node("n1");
    wait_for("it has the list", || ids(&list_at(&again, PATH)) == ids(&list_at(second, PATH)));
    let _at_it = listen(&again, "topic=again", &[]);
    settle(&[second, third, &again], &mut listeners, 3, &mut mark);
}

#[test]
fn changes_that_are_too_many_are_told_to_all_as_a_gap() {
    // Some dozen changes.
    let Some(hub) = Nodes::start(&["--history-bytes=512KiB"]) else { return };
    let nodes: Vec<&Server> = hub.nodes.iter().collect();
    let mut listeners: Vec<Stream> =
        nodes.iter().map(|node| listen(node, LISTEN, &[&reader()])).collect();
    let lists =
        || -> Vec<usize> { nodes.iter().map(|node| ids(&list_at(node, PATH)).len()).collect() };
    wait_for("all are listed", || lists() == [3; 3]);
    let tags: Vec<String> =
        nodes.iter().map(|node| list_at(node, PATH)["lastEventID"].to_string()).collect();
    let query: Vec<String> = (0..200).map(|n| format!("topic=t{n}")).collect();
    let _many = listen(nodes[2], &query.join("&"), &[]);
    // The last chunk, behind some changes.
    for stream in &mut listeners {
        while !stream.chunk().is_empty() {}
    }
    wait_for("the list has all", || lists() == [200; 3]);
    for (node, tag) in nodes.iter().zip(tags) {
        assert_ne!(list_at(node, PATH)["lastEventID"].to_string(), tag);
        let mut stream = listen(
            node,
            LISTEN,
            &[&reader(), &format!("Last-Event-ID: {}", tag.trim_matches('"'))],
        );
        assert!(stream.chunk().contains("event: gap"), "{}", stream.head.text);
    }
}

#[test]
fn nodes_have_one_list_in_the_form_of_1_0_and_tell_each_change_once_in_both_forms() {
    let Some(hub) = Nodes::start(&[GRACE, PUBLIC_URL, ISSUER]) else { return };
    let nodes: Vec<&Server> = hub.nodes.iter().collect();
    let metadata = read_answer(&mut nodes[0].ask(get(METADATA, &[])), "GET").unwrap().ok();
    assert_eq!(metadata["mercure_subscriptions"], true);
    // From then on it is known what all nodes read, also when one of them is gone.
    nodes.iter().for_each(|node| drop(publish(&node.api, "topic=x&data=1")));
    // The first node publishes the changes, in the old form until somebody wants the other one.
    let mut listeners = vec![Listener::behind(nodes[0], &list_at(nodes[0], PATH))];
    listeners.extend([1, 2].map(|node| Listener::of_v1_at(nodes[node])));
    let _held = listen(nodes[0], "match=a&match_urlpattern=https://a.test/:id", &[]);
    let _template = listen(nodes[2], "topic=a%7Bb%7D", &[]);
    let of_v1 = ["exact/a", "urlpattern/https%3A%2F%2Fa.test%2F%3Aid"];
    let heard =
        |one: &Listener, of: &[&str], is_active| of.iter().all(|of| one.has_heard(of, is_active));
    let mut mark = 0;
    wait_for("all have heard of the begins", || {
        hear(&nodes, &mut listeners, &mut mark);
        heard(&listeners[0], &["a", "a%7Bb%7D"], true)
            && listeners[1..].iter().all(|one| heard(one, &of_v1, true))
    });
    let lists = |nodes: &[&Server]| -> Vec<BTreeSet<String>> {
        let list = |node: &&Server| ids(&ask_list_at(node, PATH, &[&reader_of_v1()]).ok());
        nodes.iter().map(list).collect()
    };
    let is_listed = |list: &BTreeSet<String>, of: &str| {
        list.iter().any(|id| id.starts_with(&format!("{PATH}/{of}/")))
    };
    wait_for("all list it", || {
        let lists = lists(&nodes);
        lists.iter().all(|list| *list == lists[0] && of_v1.iter().all(|of| is_listed(list, of)))
    });
    assert!(listeners[0].heard.keys().all(|(id, _)| !id.contains("urlpattern")));
    nodes[0].signal("KILL");
    let mut listeners = listeners.split_off(1);
    let nodes = &nodes[1..];
    wait_for("all have heard of the ends", || {
        hear(nodes, &mut listeners, &mut mark);
        listeners.iter().all(|one| heard(one, &of_v1, false))
    });
    wait_for("none lists it", || {
        lists(nodes).iter().all(|list| !of_v1.iter().any(|of| is_listed(list, of)))
    });
    for one in &listeners {
        assert!(one.heard.values().all(|times| *times == 1), "{:?}", one.heard);
        assert!(!one.has_heard("exact/a%7Bb%7D", true), "a template has no such form");
    }
}

/// Nobody has asked for a list, and no client of the old dialect listens.
#[test]
fn client_of_1_0_that_listens_at_a_node_is_enough_for_changes_to_be_told() {
    let Some(hub) = Nodes::start(&[PUBLIC_URL, ISSUER]) else { return };
    let nodes: Vec<&Server> = hub.nodes.iter().collect();
    let query = format!("match_urlpattern={PATH}/:type/:match/:who&match=mark");
    let stream = listen(nodes[1], &query, &[&reader_of_v1()]);
    wait_for("it is a listener", || nodes[1].api.stats()["mercure"]["subscription_listeners"] == 1);
    let mut listener = Listener { stream, known: BTreeSet::new(), heard: BTreeMap::new() };
    let mut mark = 0;
    wait_for("it has heard of one", || {
        drop(listen(nodes[0], "match=a", &[]));
        hear(&nodes, std::slice::from_mut(&mut listener), &mut mark);
        listener.has_heard("exact/a", true)
    });
}
