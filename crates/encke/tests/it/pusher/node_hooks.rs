//! These are webhooks of apps over three nodes and a real NATS, at a real receiver. What is so over
//! all nodes is told by one of them, whichever of them come, end and are killed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::hooks::{Heard, of_channel, of_member};
use super::nodes::{Nodes, client};
use super::{Client, app_with, get_whole};
use crate::harness::{Server, wait_for};
use crate::presence::figure;
use crate::presence::receiver::Mood;

fn start(heard: &Heard, members: &Value) -> Option<Nodes> {
    let mut app = app_with(members);
    app["webhooks"] = json!([{ "url": heard.receiver.url }]);
    Nodes::of(&json!([app]), "0")
}

/// Events that wait at a node.
fn backlog(node: &Server) -> f64 {
    figure(node, "encke_pusher_webhook_backlog")
}

/// What of channels and members was told, by channel and user, in its order: whether they came.
fn told(heard: &Heard) -> BTreeMap<(String, String), Vec<bool>> {
    let mut told: BTreeMap<_, Vec<bool>> = BTreeMap::new();
    for event in &heard.events {
        let has_come = match event["name"].as_str().unwrap() {
            "channel_occupied" | "member_added" => true,
            "channel_vacated" | "member_removed" => false,
            _ => continue,
        };
        let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        told.entry((text("channel"), text("user_id"))).or_default().push(has_come);
    }
    told
}

impl Heard {
    /// Takes what comes until the last that was told of each channel and member is that it is
    /// there, of those in `there`, and of all others that they have gone.
    fn until_there(&mut self, there: &[(&str, &str)]) {
        let is_so = |heard: &Heard| {
            let told = told(heard);
            let is_there = |of: &(String, String)| there.contains(&(&*of.0, &*of.1));
            let all = there.iter().all(|(channel, user)| {
                told.contains_key(&((*channel).to_owned(), (*user).to_owned()))
            });
            all && told.iter().all(|(of, told)| told.last() == Some(&is_there(of)))
        };
        while !is_so(self) {
            self.events.extend(self.receiver.taken().events);
        }
        for (of, mut told) in told(self) {
            told.dedup();
            assert!(told[0], "{of:?} was told to be gone first: {:?}", self.of(&of.0));
        }
    }
}

#[test]
fn what_is_so_over_all_nodes_is_told_once_and_what_is_of_one_by_that() {
    let mut heard = Heard::start(Mood::Takes);
    let Some(mut world) = start(&heard, &json!({ "subscription_count": true })) else { return };
    let mut clients = world.clients();
    clients.iter_mut().for_each(|client| client.subscribe("private-a"));
    let count = |count: u32| {
        json!({ "name": "subscription_count", "channel": "private-a",
                                     "subscription_count": count })
    };
    heard.until(&count(3));
    for (client, user) in clients.iter_mut().zip(["bob", "eve", "bob"]) {
        client.ask_to_sit("presence-room", user);
        while client.hear()["channel"] != "presence-room" {}
        // Two nodes say it each in its time.
        heard.until(&of_member("member_added", user));
    }
    clients[1].say(&json!({ "event": "client-typing", "channel": "presence-room", "data": "x" }));
    let sent = json!({ "name": "client_event", "channel": "presence-room", "user_id": "eve",
                       "event": "client-typing", "data": "x",
                       "socket_id": clients[1].id.to_string() });
    heard.until(&sent);
    clients[2].say(&json!({ "event": "pusher:subscribe", "data": { "channel": "cache-a" } }));
    heard.until(&of_channel("cache_miss", "cache-a"));
    // Another node's end takes nobody away who is elsewhere, too.
    world.nodes.remove(2).into_program().kill();
    heard.until(&of_channel("channel_vacated", "cache-a"));
    heard.until(&count(2));
    drop(clients);
    let vacated = of_channel("channel_vacated", "presence-room");
    heard.until(&vacated);
    heard.until(&of_channel("channel_vacated", "private-a"));
    heard.until(&count(0));
    let a: Vec<Value> = heard.of("private-a").into_iter().filter(is_no_count).collect();
    assert_eq!(
        a,
        [of_channel("channel_occupied", "private-a"), of_channel("channel_vacated", "private-a")]
    );
    let room: Vec<Value> = heard.of("presence-room").into_iter().filter(|e| *e != sent).collect();
    let came = [
        of_channel("channel_occupied", "presence-room"),
        of_member("member_added", "bob"),
        of_member("member_added", "eve"),
    ];
    assert_eq!(room[..3], came);
    assert_eq!((room.len(), room.last()), (6, Some(&vacated)), "members go first: {room:?}");
}

fn is_no_count(event: &Value) -> bool {
    event["name"] != "subscription_count"
}

#[test]
fn node_that_is_drained_hands_its_webhooks_over_and_nothing_is_told_twice() {
    let mut heard = Heard::start(Mood::Takes);
    let Some(mut world) = start(&heard, &json!({})) else { return };
    let (mut first, mut second) = (client(&world.nodes[0]), client(&world.nodes[1]));
    first.subscribe("moves");
    second.subscribe("stays");
    heard.until(&of_channel("channel_occupied", "stays"));
    heard.until(&of_channel("channel_occupied", "moves"));
    let fourth = world.another("n4");
    // The one that reports, which has been a member for longest.
    let drained = world.nodes.remove(0);
    let stopping = std::thread::spawn(move || drained.stop("TERM"));
    assert_eq!(u16::from(first.socket.end().0), 4200);
    let mut first = client(&fourth);
    first.subscribe("moves");
    assert_eq!(stopping.join().unwrap().code(), Some(0));
    second.subscribe("after");
    heard.until(&of_channel("channel_occupied", "after"));
    drop(first);
    heard.until(&of_channel("channel_vacated", "moves"));
    let (moves, stays) = (heard.of("moves"), heard.of("stays"));
    let occupied = |channel| of_channel("channel_occupied", channel);
    assert_eq!(moves, [occupied("moves"), of_channel("channel_vacated", "moves")]);
    assert_eq!(stays, [occupied("stays")]);
}

#[test]
fn node_that_takes_over_tells_what_a_killed_one_could_not() {
    let mut heard = Heard::start(Mood::Fails);
    let Some(mut world) = start(&heard, &json!({})) else { return };
    let mut clients = world.clients();
    clients[1].subscribe("stays");
    clients[2].subscribe("goes");
    clients[1].sit("presence-room", "bob");
    assert_eq!(heard.receiver.next().mood, Mood::Fails, "it is told in vain");
    // It goes, for more than three seconds, while nobody takes anything.
    clients[2].say(&json!({ "event": "pusher:unsubscribe", "data": { "channel": "goes" } }));
    let gone = of_channel("channel_vacated", "goes");
    wait_for("all five wait", || backlog(&world.nodes[0]) == 5.0);
    world.nodes.remove(0).into_program().kill();
    // One that begins only now, and one that was there.
    let fourth = world.another("n4");
    heard.receiver.set(Mood::Takes);
    heard.until(&gone);
    let there = [("stays", ""), ("presence-room", ""), ("presence-room", "bob")];
    heard.until_there(&there);
    // And the next one after that.
    world.nodes.remove(0).into_program().kill();
    let mut last = client(&fourth);
    last.subscribe("last");
    heard.until_there(&[("last", "")]);
    let told = told(&heard);
    assert!(told[&("goes".to_owned(), String::new())].contains(&false), "{told:?}");
}

#[test]
fn whoever_comes_and_goes_and_is_killed_where_the_last_that_is_told_is_so() {
    let mut heard = Heard::start(Mood::Takes);
    let Some(mut world) = start(&heard, &json!({})) else { return };
    let mut random = fastrand::Rng::with_seed(testing::seed());
    let mut there: Vec<(usize, Client)> = Vec::new();
    let mut place: Vec<usize> = vec![0, 1, 2];
    for turn in 0..90 {
        if turn % 10 == 5 {
            let mood = if random.bool() { Mood::Takes } else { Mood::Fails };
            heard.receiver.set(mood);
        }
        if turn == 30 || turn == 60 {
            // The one that reports, in the middle of it.
            world.nodes.remove(0).into_program().kill();
            let killed = place.remove(0);
            there.retain(|(at, _)| *at != killed);
            let name = format!("again-{turn}");
            world.nodes.push(world.another(&name));
            place.push(turn);
        }
        if there.len() > 6 || !there.is_empty() && random.bool() {
            drop(there.swap_remove(random.usize(..there.len())));
            continue;
        }
        let at = random.usize(..3);
        let mut client = client(&world.nodes[at]);
        match random.usize(..4) {
            3 => client.ask_to_sit("presence-room", &format!("user-{}", random.usize(..3))),
            n => client.subscribe(&format!("private-{n}")),
        }
        there.push((place[at], client));
    }
    heard.receiver.set(Mood::Takes);
    drop(there);
    let mut last = client(&world.nodes[2]);
    last.subscribe("last");
    last.sit("presence-last", "bob");
    let there = [("last", ""), ("presence-last", ""), ("presence-last", "bob")];
    heard.until_there(&there);
    // Nothing that comes later says anything else.
    last.subscribe("later");
    heard.until(&of_channel("channel_occupied", "later"));
    let there = [&there[..], &[("later", "")]].concat();
    heard.until_there(&there);
}

#[test]
fn one_node_after_the_other_is_all_there_is_of_an_app() {
    let mut heard = Heard::start(Mood::Takes);
    let Some(world) = start(&heard, &json!({})) else { return };
    let mut at_last = client(&world.nodes[2]);
    at_last.subscribe("a");
    heard.until(&of_channel("channel_occupied", "a"));
    // What is told by one node waits at no other one.
    wait_for("nothing waits", || world.nodes.iter().all(|node| backlog(node) == 0.0));
    let posts = "encke_pusher_webhook_posts_total{result=\"taken\"}";
    let told = world.nodes.iter().filter(|node| figure(node, posts) > 0.0);
    assert_eq!(told.count(), 1);
}

/// How many members each node counts over all.
fn counted(nodes: &[Server]) -> Vec<Value> {
    let count = |node: &Server| {
        let query = [("info", "user_count")];
        get_whole(&node.api, "1", "/channels/presence-room", &query)["user_count"].take()
    };
    nodes.iter().map(count).collect()
}

/// The channel, and these members of it.
fn channel_with(users: &BTreeSet<String>) -> Vec<(&str, &str)> {
    let all = [""].into_iter().chain(users.iter().map(String::as_str));
    all.map(|user| ("presence-room", user)).collect()
}

#[test]
fn user_at_two_nodes_among_many_is_one_member_and_leaves_with_the_last_of_its_connections() {
    let mut heard = Heard::start(Mood::Takes);
    let Some(mut world) = start(&heard, &json!({})) else { return };
    let room = "presence-room";
    // Bob is at the first node and at the third, in the middle of the others.
    let user = |n: usize| match n {
        15 | 17 => "bob".to_owned(),
        _ => format!("user-{n}"),
    };
    let mut opened: Vec<Client> = (0..30).map(|n| client(&world.nodes[n % 3])).collect();
    opened.iter_mut().enumerate().for_each(|(n, one)| one.ask_to_sit(room, &user(n)));
    let mut members: Vec<(usize, Client, BTreeSet<String>)> = opened
        .into_iter()
        .enumerate()
        .map(|(n, mut one)| {
            let list = one.hear_list(room);
            (n, one, list)
        })
        .collect();
    let all: BTreeSet<String> = (0..30).map(user).collect();
    for (_, one, list) in &mut members {
        one.hear_until(list, &all);
    }
    assert_eq!(counted(&world.nodes), [29, 29, 29]);
    members.iter_mut().for_each(|(_, one, _)| one.hear_nothing());
    // The first node of a new cluster tells nothing until the others have not answered what was
    // told before it. Members who have gone by then it tells nobody of.
    heard.until_there(&channel_with(&all));
    // Bob stays at the first node.
    world.nodes.remove(2).into_program().kill();
    members.retain(|(n, _, _)| n % 3 != 2);
    let stay: BTreeSet<String> = members.iter().map(|&(n, _, _)| user(n)).collect();
    for (_, one, list) in &mut members {
        one.hear_until(list, &stay);
    }
    heard.until_there(&channel_with(&stay));
    assert_eq!(counted(&world.nodes), [20, 20]);
    members.iter_mut().for_each(|(_, one, _)| one.hear_nothing());
    members.retain(|(n, _, _)| *n != 15);
    let rest: BTreeSet<String> = members.iter().map(|&(n, _, _)| user(n)).collect();
    for (_, one, list) in &mut members {
        one.hear_until(list, &rest);
        one.hear_nothing();
    }
    heard.until_there(&channel_with(&rest));
    // Each came once, and left once if it has left.
    for ((_, user), told) in told(&heard) {
        let has_left = !user.is_empty() && !rest.contains(&user);
        assert_eq!(told, [&[true][..], &[false][..usize::from(has_left)]].concat(), "{user}");
    }
    assert_eq!(told(&heard).len(), 1 + all.len());
}
