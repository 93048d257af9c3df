//! Apps over three nodes and a real NATS: each event once, one count and one list of members,
//! whichever node clients and backends are at.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Client, apps, check_counted, data_of, get, get_whole, option_of, post};
use crate::cluster::World;
use crate::harness::{Server, wait_for};

const ADDED: &str = "pusher_internal:member_added";
const REMOVED: &str = "pusher_internal:member_removed";
const SUCCEEDED: &str = "pusher_internal:subscription_succeeded";
const WATCHLIST: &str = "pusher_internal:watchlist_events";

/// Nodes with the same apps.
pub(super) struct Nodes {
    pub(super) nodes: Vec<Server>,
    options: [String; 3],
    pub(super) world: World,
    _files: TempDir,
}

impl Nodes {
    /// `None` where there is no NATS.
    pub(super) fn start(grace: &str) -> Option<Nodes> {
        Nodes::of(&apps(), grace)
    }

    /// With these apps, of which the first is called 1.
    pub(super) fn of(apps: &Value, grace: &str) -> Option<Nodes> {
        let (world, files) = (World::new()?, tempfile::tempdir().unwrap());
        // Members of channels are told of one by one, however many rooms of ids list.
        let grace = format!("--presence-grace={grace}");
        let options = [option_of(files.path(), apps), grace, "--members-max=1".to_owned()];
        let nodes: [Server; 3] = world.nodes_with(&options.each_ref().map(String::as_str));
        // Until each has read what the others know of records, it refuses with 503.
        let body = json!({ "name": "n", "channel": "nobody", "data": "" });
        for node in &nodes {
            let post = || post(&node.api, "1", "/events", &body);
            wait_for("all have said what they know", || post().status() == 200);
        }
        Some(Nodes { nodes: nodes.into(), options, world, _files: files })
    }

    pub(super) fn another(&self, name: &str) -> Server {
        self.world.node(name, &self.options.each_ref().map(String::as_str))
    }

    pub(super) fn clients(&self) -> Vec<Client> {
        self.nodes.iter().map(client).collect()
    }
}

pub(super) fn client(node: &Server) -> Client {
    Client::open(node, "/app/app-1?protocol=7&client=js&version=8.6.0")
}

pub(super) fn trigger(node: &Server, channel: &str, data: &str) {
    let body = json!({ "name": "n", "channel": channel, "data": data });
    assert_eq!(post(&node.api, "1", "/events", &body).ok(), json!({}));
}

impl Client {
    /// Becomes a member; the users that it is told of.
    pub(super) fn sit(&mut self, channel: &str, user: &str) -> BTreeSet<String> {
        self.ask_to_sit(channel, user);
        self.hear_list(channel)
    }

    pub(super) fn ask_to_sit(&mut self, channel: &str, user: &str) {
        let user = json!({ "user_id": user, "user_info": { "name": user } }).to_string();
        let auth = self.auth("app-1", channel, Some(&user));
        self.say(&json!({ "event": "pusher:subscribe",
            "data": { "channel": channel, "auth": auth, "channel_data": user } }));
    }

    pub(super) fn hear_list(&mut self, channel: &str) -> BTreeSet<String> {
        let heard = self.hear();
        assert_eq!((&heard["event"], &heard["channel"]), (&json!(SUCCEEDED), &json!(channel)));
        listed(&heard)
    }

    fn sign_in(&mut self, user_data: &Value) {
        let text = user_data.to_string();
        let auth = self.auth_of_user("app-1", &text);
        self.say(&json!({ "event": "pusher:signin",
                          "data": { "auth": auth, "user_data": text } }));
        assert_eq!(self.hear()["event"], "pusher:signin_success");
    }

    /// The user that has come or gone, which is told next.
    #[track_caller]
    fn hear_of_user(&mut self, event: &str) -> String {
        let heard = self.hear();
        assert_eq!(heard["event"], event, "{heard}");
        data_of(&heard)["user_id"].as_str().unwrap().to_owned()
    }

    /// Takes what comes until the list is `expected`; no change may contradict the list.
    #[track_caller]
    pub(super) fn hear_until(&mut self, list: &mut BTreeSet<String>, expected: &BTreeSet<String>) {
        while list != expected {
            let heard = self.hear();
            let user = || data_of(&heard)["user_id"].as_str().unwrap().to_owned();
            match heard["event"].as_str().unwrap() {
                // Where the machine stands still: the keep-alive of a silent connection.
                "pusher:pong" => {}
                ADDED => assert!(list.insert(user()), "{heard} of {list:?}"),
                REMOVED => assert!(list.remove(&user()), "{heard} of {list:?}"),
                _ => panic!("{heard}"),
            }
        }
    }

    /// Who is told to be online or offline, as it comes, until that many were.
    fn hear_watched(&mut self, most: usize) -> BTreeSet<(String, String)> {
        let mut told = BTreeSet::new();
        while told.len() < most {
            let heard = self.hear();
            assert_eq!(heard["event"], WATCHLIST, "{heard}");
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            for event in data_of(&heard)["events"].as_array().unwrap() {
                let users = event["user_ids"].as_array().unwrap();
                told.extend(users.iter().map(|user| (text(user), text(&event["name"]))));
            }
        }
        told
    }
}

/// The users of a success, which has each once.
fn listed(success: &Value) -> BTreeSet<String> {
    let presence = data_of(success)["presence"].take();
    let ids = presence["ids"].as_array().unwrap();
    let users: BTreeSet<String> = ids.iter().map(|id| id.as_str().unwrap().to_owned()).collect();
    assert_eq!((presence["count"].as_u64(), users.len()), (Some(ids.len() as u64), ids.len()));
    for user in &users {
        assert_eq!(presence["hash"][user], json!({ "name": user }), "{success}");
    }
    users
}

pub(super) fn set(users: &[&str]) -> BTreeSet<String> {
    users.iter().map(|&user| user.to_owned()).collect()
}

fn watched(told: &[(&str, &str)]) -> BTreeSet<(String, String)> {
    told.iter().map(|&(user, state)| (user.to_owned(), state.to_owned())).collect()
}

#[test]
fn event_triggered_at_any_node_is_heard_once_at_all_and_counted_over_all() {
    let Some(world) = Nodes::start("0") else { return };
    let mut clients = world.clients();
    for client in &mut clients {
        client.subscribe("news");
        client.subscribe("private-rj");
    }
    let mut stream = world.nodes[1].listener("news");
    let mut counted_by_all = 0;
    for (n, node) in world.nodes.iter().enumerate() {
        let body = json!({ "name": "photo", "channels": ["news", "private-rj", "nobody"],
                           "data": n.to_string(), "socket_id": clients[0].id.to_string(),
                           "info": "subscription_count" });
        let answer = post(&node.api, "1", "/events", &body);
        let counted = json!({ "news": { "subscription_count": 3 },
                              "private-rj": { "subscription_count": 3 },
                              "nobody": { "subscription_count": 0 } });
        counted_by_all += usize::from(check_counted(&answer, "4", &json!({ "channels": counted })));
        let batch = |name: &str, info: &str| {
            json!({ "name": "b", "channel": name,
                                                     "data": "of a batch", "info": info })
        };
        let batch = json!({ "batch": [batch("private-rj", "subscription_count"),
                                      batch("news", "")] });
        let counted = json!({ "batch": [{ "subscription_count": 3 }, {}] });
        let answer = post(&node.api, "1", "/batch_events", &batch);
        counted_by_all += usize::from(check_counted(&answer, "6", &counted));
    }
    // One that is slow for a moment is late for several.
    assert!(counted_by_all > 0, "none was counted by all nodes");
    for (at, client) in clients.iter_mut().enumerate() {
        for n in 0..3 {
            let data = n.to_string();
            let own = [("news", &*data), ("private-rj", &*data)];
            let of_batch = [("private-rj", "of a batch"), ("news", "of a batch")];
            // The first of them is left out of what names its socket.
            let own = if at == 0 { &own[..0] } else { &own[..] };
            for (channel, data) in own.iter().chain(&of_batch) {
                let heard = client.hear();
                assert_eq!((&heard["channel"], &heard["data"]), (&json!(channel), &json!(data)));
            }
        }
        client.hear_nothing();
    }
    assert_eq!(world.nodes[0].api.send("news", 1), 1);
    assert_eq!(stream.event()["data"], 1, "a stream of an id hears of no channel");
    for node in &world.nodes {
        let ask = |path: &str, query: &[(&str, &str)]| get_whole(&node.api, "1", path, query);
        let both = json!({ "channels": { "news": {}, "private-rj": {} } });
        assert_eq!(ask("/channels", &[]), both);
        let one = json!({ "channels": { "private-rj": {} } });
        assert_eq!(ask("/channels", &[("filter_by_prefix", "private-")]), one);
        let counted = json!({ "occupied": true, "subscription_count": 3 });
        assert_eq!(ask("/channels/news", &[("info", "subscription_count")]), counted);
        assert_eq!(ask("/channels/nobody", &[]), json!({ "occupied": false }));
        assert_eq!(ask("/connections", &[]), json!({ "connections": 3 }));
    }
}

#[test]
fn client_events_and_users_reach_over_nodes() {
    let Some(world) = Nodes::start("0") else { return };
    let mut clients = world.clients();
    for client in &mut clients {
        client.subscribe("private-chat");
    }
    let typing = json!({ "event": "client-typing", "channel": "private-chat", "data": { "x": 1 } });
    clients[0].say(&typing);
    for client in &mut clients[1..] {
        let mut heard = client.hear();
        let id = heard.as_object_mut().unwrap().remove("id");
        assert!(heard == typing && id.is_some_and(|id| id.is_string()), "{heard}");
    }
    clients[0].hear_nothing();
    for at in [0, 2] {
        clients[at].sign_in(&json!({ "id": "bob" }));
        clients[at].say(&json!({ "event": "pusher:subscribe",
            "data": { "channel": "#server-to-user-bob", "auth": "" } }));
        assert_eq!(clients[at].hear()["event"], SUCCEEDED);
    }
    clients[1].sign_in(&json!({ "id": "rj" }));
    trigger(&world.nodes[1], "#server-to-user-bob", "hello");
    for at in [0, 2] {
        let heard = clients[at].hear();
        assert_eq!(
            (&heard["channel"], &heard["data"]),
            (&json!("#server-to-user-bob"), &json!("hello"))
        );
    }
    clients[1].hear_nothing();
    let path = "/users/bob/terminate_connections";
    assert_eq!(post(&world.nodes[1].api, "1", path, &json!({})).ok(), json!({}));
    for at in [0, 2] {
        assert_eq!(u16::from(clients[at].socket.end().0), 4009);
    }
    clients[1].hear_nothing();
}

#[test]
fn last_event_of_a_channel_is_known_at_all_nodes_and_at_one_that_begins() {
    let Some(world) = Nodes::start("0") else { return };
    let mut first = client(&world.nodes[0]);
    first.say(&json!({ "event": "pusher:subscribe", "data": { "channel": "cache-a" } }));
    assert_eq!(first.hear()["event"], SUCCEEDED);
    assert_eq!(first.hear()["event"], "pusher:cache_miss");
    for (node, data) in world.nodes.iter().zip(["1", "2", "3"]) {
        trigger(node, "cache-a", data);
        assert_eq!(first.hear()["data"], data);
    }
    let fourth = world.another("n4");
    for node in world.nodes.iter().chain([&fourth]) {
        let mut later = client(node);
        later.say(&json!({ "event": "pusher:subscribe", "data": { "channel": "cache-a" } }));
        assert_eq!(later.hear()["event"], SUCCEEDED);
        assert_eq!(later.hear()["data"], "3");
        later.hear_nothing();
        let told = get(&node.api, "1", "/channels/cache-a", &[("info", "cache")]).ok();
        assert_eq!(told["cache"]["data"], "3", "{told}");
    }
}

#[test]
fn members_of_all_nodes_are_one_list_and_those_of_a_killed_node_leave() {
    let Some(mut world) = Nodes::start("2") else { return };
    let room = "presence-room";
    let mut clients = world.clients();
    assert_eq!(clients[0].sit(room, "bob"), set(&["bob"]));
    assert_eq!(clients[1].sit(room, "zoe"), set(&["bob", "zoe"]));
    assert_eq!(clients[0].hear_of_user(ADDED), "zoe");
    assert_eq!(clients[2].sit(room, "eve"), set(&["bob", "eve", "zoe"]));
    for client in &mut clients[..2] {
        assert_eq!(client.hear_of_user(ADDED), "eve");
    }
    // A user of two nodes is a member once, whatever both say of it.
    let mut again = client(&world.nodes[1]);
    assert_eq!(again.sit(room, "bob"), set(&["bob", "eve", "zoe"]));
    for client in &mut clients {
        client.hear_nothing();
    }
    let users = json!({ "users": [{ "id": "bob" }, { "id": "eve" }, { "id": "zoe" }] });
    for node in &world.nodes {
        let ask = |path: &str, query: &[(&str, &str)]| get_whole(&node.api, "1", path, query);
        assert_eq!(ask("/channels/presence-room/users", &[]), users);
        let counted = json!({ "occupied": true, "user_count": 3 });
        assert_eq!(ask("/channels/presence-room", &[("info", "user_count")]), counted);
        let query = [("filter_by_prefix", "presence-"), ("info", "user_count")];
        let counted = json!({ "channels": { "presence-room": { "user_count": 3 } } });
        assert_eq!(ask("/channels", &query), counted);
    }
    // An event of a client says who sent it.
    clients[2].say(&json!({ "event": "client-x", "channel": room, "data": "y" }));
    for client in [&mut again].into_iter().chain(&mut clients[..2]) {
        let heard = client.hear();
        assert_eq!((&heard["event"], &heard["user_id"]), (&json!("client-x"), &json!("eve")));
    }
    drop(again);
    world.nodes.remove(2).into_program().kill();
    for client in &mut clients[..2] {
        assert_eq!(client.hear_of_user(REMOVED), "eve", "bob is at another node still");
    }
    let left = json!({ "users": [{ "id": "bob" }, { "id": "zoe" }] });
    for node in &world.nodes {
        let path = "/channels/presence-room/users";
        assert_eq!(get_whole(&node.api, "1", path, &[]), left);
    }
    // A node that begins has all of them in its first list.
    let third = world.another("n3");
    let mut eve = client(&third);
    assert_eq!(eve.sit(room, "eve"), set(&["bob", "eve", "zoe"]));
    for client in &mut clients[..2] {
        assert_eq!(client.hear_of_user(ADDED), "eve");
    }
    clients[0].say(&json!({ "event": "pusher:unsubscribe", "data": { "channel": room } }));
    for client in [&mut eve, &mut clients[1]] {
        assert_eq!(client.hear_of_user(REMOVED), "bob");
    }
}

#[test]
fn list_and_changes_fit_each_other_whoever_comes_and_goes_at_which_node() {
    let Some(world) = Nodes::start("0") else { return };
    let mut random = fastrand::Rng::with_seed(testing::seed());
    let room = "presence-room";
    let mut watching: Vec<(Client, BTreeSet<String>)> = Vec::new();
    let mut there: Vec<(Client, String)> = Vec::new();
    for (n, node) in world.nodes.iter().enumerate() {
        let mut client = client(node);
        let list = client.sit(room, &format!("watcher-{n}"));
        watching.push((client, list));
    }
    for _ in 0..120 {
        if there.len() > 8 || !there.is_empty() && random.bool() {
            drop(there.swap_remove(random.usize(..there.len())));
            continue;
        }
        let user = format!("user-{}", random.usize(..5));
        let mut client = client(&world.nodes[random.usize(..3)]);
        let list = client.sit(room, &user);
        assert!(list.contains(&user) && list.contains("watcher-2"), "{list:?}");
        there.push((client, user));
    }
    let mut expected = set(&["watcher-0", "watcher-1", "watcher-2"]);
    expected.extend(there.iter().map(|(_, user)| user.clone()));
    for (client, list) in &mut watching {
        client.hear_until(list, &expected);
    }
    // The last changes may be under way, and all come to the same.
    wait_for("all nodes have the same users", || {
        let users = |node: &Server| {
            let told = get(&node.api, "1", "/channels/presence-room/users", &[]).ok();
            let users = told["users"].as_array().unwrap().clone();
            users.iter().map(|user| user["id"].as_str().unwrap().to_owned()).collect()
        };
        world.nodes.iter().all(|node| {
            let users: BTreeSet<String> = users(node);
            users == expected
        })
    });
    there.clear();
    for (client, list) in &mut watching {
        client.hear_until(list, &set(&["watcher-0", "watcher-1", "watcher-2"]));
    }
}

#[test]
fn watchlist_tells_of_users_who_are_signed_in_at_other_nodes() {
    let Some(mut world) = Nodes::start("1") else { return };
    let mut clients = world.clients();
    clients[1].sign_in(&json!({ "id": "zoe" }));
    clients[0].sign_in(&json!({ "id": "bob", "watchlist": ["zoe", "eve"] }));
    let first = watched(&[("zoe", "online"), ("eve", "offline")]);
    assert_eq!(clients[0].hear_watched(2), first);
    clients[2].sign_in(&json!({ "id": "eve" }));
    assert_eq!(clients[0].hear_watched(1), watched(&[("eve", "online")]));
    // A second connection elsewhere is nothing new, and the first one's end neither.
    let mut too = client(&world.nodes[1]);
    too.sign_in(&json!({ "id": "eve" }));
    world.nodes.remove(2).into_program().kill();
    drop(clients.remove(1));
    assert_eq!(clients[0].hear_watched(1), watched(&[("zoe", "offline")]));
    drop(too);
    assert_eq!(clients[0].hear_watched(1), watched(&[("eve", "offline")]));
}
