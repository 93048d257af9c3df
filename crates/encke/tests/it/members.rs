//! Who is in a room: lists, who joins and who leaves, on streams; [`crate::polled_members`] has the
//! other transports.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};

use serde_json::{Value, json};

use crate::harness::{
    Authority, Program, Server, Socket, Stream, TOKEN_SECRET, Wire, check_problem, encke, get,
    in_seconds, read_answer, signed, tls_client, wait_for,
};
use crate::tls_streams;
use crate::upgrade::Upgraded;

pub(crate) fn options(more: &[&str]) -> Vec<String> {
    let mut options = vec![format!("--token-key={TOKEN_SECRET}")];
    options.extend(more.iter().map(|&option| option.to_owned()));
    if !more.iter().any(|option| option.starts_with("--presence-grace")) {
        options.push("--presence-grace=0".to_owned());
    }
    options
}

pub(crate) fn serve(more: &[&str]) -> Server {
    let options = options(more);
    Server::start(&options.iter().map(String::as_str).collect::<Vec<_>>())
}

/// A token of `sub`, who may be in each room and know who else is there.
pub(crate) fn token(sub: &str, info: Option<Value>) -> String {
    let mut encke = json!({ "ids": ["room:*"], "members": ["room:*"] });
    if let Some(info) = info {
        encke["info"] = info;
    }
    signed(&json!({ "sub": sub, "exp": in_seconds(600), "encke": encke }))
}

/// A stream of NDJSON under `path`, by `token`.
pub(crate) fn open(server: &Server, path: &str, token: &str) -> Stream {
    let before = if path.contains('?') { '&' } else { '?' };
    Stream::open(server.listen(), &format!("{path}{before}token={token}"), "*/*")
}

fn socket(server: &Server, path: &str, token: &str) -> Socket {
    let before = if path.contains('?') { '&' } else { '?' };
    Socket::open(server.listen(), &format!("{path}{before}token={token}"))
}

pub(crate) fn in_room(server: &Server, sub: &str) -> Stream {
    open(server, "/stream/room:7", &token(sub, None))
}

/// The list of room:7, as the API tells it, by the ids of its members.
pub(crate) fn listed(server: &Server) -> BTreeSet<String> {
    let answer = server.api.get("/members/room:7");
    // As all answers of the API it is a line.
    assert_eq!(answer.body.find('\n'), Some(answer.body.len() - 1), "{:?}", answer.body);
    let answer = answer.ok();
    let list = answer["members"]["list"].as_array().unwrap().clone();
    assert_eq!(answer["members"]["count"], list.len());
    list.iter().map(|member| member["id"].as_str().unwrap().to_owned()).collect()
}

pub(crate) fn set(ids: &[&str]) -> BTreeSet<String> {
    ids.iter().map(|&id| id.to_owned()).collect()
}

/// The next message, which is a list of room:7.
#[track_caller]
pub(crate) fn list_in(message: &Value) -> BTreeSet<String> {
    assert_eq!(message["members"]["of"], "room:7", "{message}");
    let list = message["members"]["list"].as_array().unwrap();
    assert_eq!(message["members"]["count"], list.len());
    list.iter().map(|member| member["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn each_transport_is_told_the_list_and_what_changes_it() {
    let server = serve(&[]);
    let bob = open(&server, "/stream/room:7", &token("bob", Some(json!({ "name": "Bob" }))));
    let eve = token("eve", None);
    let mut lines = open(&server, "/stream/eve?members=room:7", &eve);
    let path = format!("/stream/eve?members=room:7&token={eve}");
    let mut sse = Stream::open(server.listen(), &path, "text/event-stream");
    let mut messages = socket(&server, "/stream/eve", &eve);
    messages.send(json!({ "members": "room:7" }).to_string());
    let list = json!({ "members": { "of": "room:7", "count": 1,
        "list": [{ "id": "bob", "info": { "name": "Bob" } }] } });
    assert_eq!((lines.event(), messages.json()), (list.clone(), list.clone()));
    let mut next = || loop {
        let block = sse.chunk();
        if let Some(data) = block.strip_prefix("data: ") {
            assert!(!block.contains("id: "), "it is no event: {block}");
            return serde_json::from_str::<Value>(data.trim_end()).unwrap();
        }
    };
    assert_eq!(next(), list);
    let zoe = open(&server, "/stream/room:7", &token("zoe", Some(json!(7))));
    let joined = json!({ "joined": { "of": "room:7", "id": "zoe", "info": 7 } });
    assert_eq!((lines.event(), next(), messages.json()), (joined.clone(), joined.clone(), joined));
    drop(bob);
    let left = json!({ "left": { "of": "room:7", "id": "bob" } });
    assert_eq!((lines.event(), next(), messages.json()), (left.clone(), left.clone(), left));
    assert_eq!(listed(&server), set(&["zoe"]));
    drop(zoe);
    assert_eq!(lines.event()["left"]["id"], "zoe");
    let nobody = json!({ "members": { "of": "room:7", "count": 0, "list": [] } });
    assert_eq!(server.api.get("/members/room:7").ok(), nobody);
}

/// The place that the answer to a poll names, and the first of what it tells.
fn told_by_poll(answer: impl Read) -> (String, Value) {
    let mut place = None;
    for line in BufReader::new(answer).lines() {
        let line = line.unwrap();
        match line.split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("encke-members") => {
                place = Some(value.to_owned());
            }
            _ if line.starts_with('[') => {
                let told: Value = serde_json::from_str(&line).unwrap();
                return (place.unwrap(), told[0].clone());
            }
            _ => {}
        }
    }
    panic!("it has ended");
}

/// The list is longer than a record of TLS.
#[test]
fn each_transport_is_told_over_tls_too() {
    let authority = Authority::new();
    let [cert, key] = authority.issue("own", &["localhost"]).options();
    let server = serve(&["--tls-listen=127.0.0.1:0", &cert, &key]);
    let tls = || tls_client(server.tls_listen(), "localhost", &authority.ca());
    let asking = |path: &str, token: &str| {
        let mut stream = tls();
        let bearer = format!("Authorization: Bearer {token}");
        stream.write_all(get(path, &[&bearer]).as_bytes()).unwrap();
        stream
    };
    let info = json!("x".repeat(900));
    let user = |n: u32| token(&format!("user{n:02}"), Some(info.clone()));
    let mut users: Vec<_> = (0..20).map(|n| asking("/stream/room:7", &user(n))).collect();
    let ids: BTreeSet<String> = (0..20).map(|n| format!("user{n:02}")).collect();
    wait_for("all are there", || listed(&server) == ids);

    let eve = token("eve", None);
    let mut lines = BufReader::new(asking("/stream/eve?members=room:7", &eve));
    let mut socket = Socket::on(tls(), &format!("/stream/eve?token={eve}"));
    let list = socket.ask(json!({ "members": "room:7" }));
    assert_eq!(list["members"]["list"][7]["info"], info);
    let poll =
        |query: &str| told_by_poll(asking(&format!("/poll/eve?members=room:7{query}"), &eve));
    let (place, polled) = poll("&wait=0");
    for told in [tls_streams::event(&mut lines), list, polled] {
        assert_eq!(list_in(&told), ids);
    }

    // One leaves as TLS wants it, the other one by the network alone.
    let mut orderly = users.pop().unwrap();
    orderly.conn.send_close_notify();
    orderly.flush().unwrap();
    let left = json!({ "left": { "of": "room:7", "id": "user19" } });
    let (_, polled) = poll(&format!("&members_after={place}"));
    assert_eq!(
        (tls_streams::event(&mut lines), socket.json(), polled),
        (left.clone(), left.clone(), left)
    );
    drop(users.pop());
    let left = json!({ "left": { "of": "room:7", "id": "user18" } });
    assert_eq!((tls_streams::event(&mut lines), socket.json()), (left.clone(), left));
    let _zoe = asking("/stream/room:7", &token("zoe", None));
    let joined = json!({ "joined": { "of": "room:7", "id": "zoe" } });
    assert_eq!((tls_streams::event(&mut lines), socket.json()), (joined.clone(), joined));
}

#[test]
fn user_with_several_connections_is_there_once_and_leaves_with_the_last() {
    let server = serve(&[]);
    let (first, second) = (in_room(&server, "bob"), in_room(&server, "bob"));
    let mut eve = open(&server, "/stream/eve?members=room:7", &token("eve", None));
    assert_eq!(list_in(&eve.event()), set(&["bob"]));
    drop(first);
    server.wait_online("room:7", 1);
    let zoe = in_room(&server, "zoe");
    assert_eq!(eve.event()["joined"]["id"], "zoe", "nobody has left");
    drop(second);
    assert_eq!(eve.event()["left"]["id"], "bob");
    drop(zoe);
    assert_eq!(eve.event()["left"]["id"], "zoe");
}

#[test]
fn who_comes_back_within_the_grace_has_never_left() {
    let server = serve(&["--presence-grace=3600"]);
    let bob = in_room(&server, "bob");
    let mut eve = open(&server, "/stream/eve?members=room:7", &token("eve", None));
    assert_eq!(list_in(&eve.event()), set(&["bob"]));
    drop(bob);
    server.wait_online("room:7", 0);
    assert_eq!(listed(&server), set(&["bob"]), "its grace is not over");
    let _bob = in_room(&server, "bob");
    let _zoe = in_room(&server, "zoe");
    assert_eq!(eve.event()["joined"]["id"], "zoe");
}

#[test]
fn logins_and_logouts_on_a_websocket_count_and_who_watches_finds_itself() {
    let server = serve(&[]);
    let mut bob = socket(&server, "/stream/room:7?members=room:7", &token("bob", None));
    assert_eq!(list_in(&bob.json()), set(&["bob"]));
    assert_eq!(bob.ask(json!({ "login": ["room:8"] }))["ok"]["login"], json!(["room:8"]));
    assert_eq!(server.api.get("/members/room:8").ok()["members"]["count"], 1);
    // A user is a member of its own id too.
    bob.ask(json!({ "login": ["bob"] }));
    assert_eq!(server.api.get("/members/bob").ok()["members"]["list"], json!([{ "id": "bob" }]));
    bob.ask(json!({ "logout": ["room:7"] }));
    assert_eq!(bob.json(), json!({ "left": { "of": "room:7", "id": "bob" } }));
    bob.ask(json!({ "unwatch": "room:7" }));
    let _zoe = in_room(&server, "zoe");
    bob.send(json!({ "members": "room:7" }).to_string());
    assert_eq!(list_in(&bob.json()), set(&["zoe"]), "a new list, and nothing in between");
}

#[test]
fn another_token_with_another_info_is_told_as_joined_once_more() {
    let server = serve(&[]);
    let mut bob = socket(&server, "/stream/room:7", &token("bob", Some(json!("away"))));
    let mut eve = open(&server, "/stream/eve?members=room:7", &token("eve", None));
    assert_eq!(eve.event()["members"]["list"], json!([{ "id": "bob", "info": "away" }]));
    for (info, told) in [
        (Some(json!("here")), json!({ "of": "room:7", "id": "bob", "info": "here" })),
        (None, json!({ "of": "room:7", "id": "bob" })),
    ] {
        let renewed = bob.ask(json!({ "token": token("bob", info) }));
        assert_eq!(renewed, json!({ "ok": { "token": true } }));
        assert_eq!(eve.event(), json!({ "joined": told }));
    }
}

#[test]
fn past_the_bound_the_count_alone_is_told() {
    let server = serve(&["--members-max=2"]);
    let mut eve = open(&server, "/stream/eve?members=room:7", &token("eve", None));
    assert_eq!(list_in(&eve.event()), set(&[]));
    let mut users = Vec::new();
    for (n, user) in ["a", "b", "c"].into_iter().enumerate() {
        users.push(in_room(&server, user));
        let joined = match n {
            2 => json!({ "of": "room:7", "count": 3 }),
            _ => json!({ "of": "room:7", "id": user }),
        };
        assert_eq!(eve.event(), json!({ "joined": joined }));
    }
    let counted = json!({ "members": { "of": "room:7", "count": 3 } });
    assert_eq!(server.api.get("/members/room:7").ok(), counted);
    let mut zoe = socket(&server, "/stream/zoe?members=room:7", &token("zoe", None));
    assert_eq!(zoe.json(), counted);
    users.truncate(2);
    assert_eq!(eve.event(), json!({ "left": { "of": "room:7", "count": 2 } }));
    users.truncate(1);
    assert_eq!(list_in(&eve.event()), set(&["a"]), "few enough are listed again");
}

#[test]
fn who_is_not_granted_to_know_is_refused() {
    let server = serve(&[]);
    let granted = json!({ "ids": ["*"], "members": ["room:7"] });
    let token = signed(&json!({ "sub": "bob", "exp": in_seconds(60), "encke": granted }));
    let status = |path: &str| {
        let bearer = format!("Authorization: Bearer {token}");
        let mut wire: Wire = server.ask(get(path, &[&bearer]));
        let head = wire.head();
        head.status
    };
    assert_eq!(status("/stream/bob?members=room:7"), 200);
    assert_eq!(status("/stream/bob?members=room:8"), 403);
    assert_eq!(status("/stream/bob?members=room:7&members=bob"), 403);
    assert_eq!(status("/poll/bob?members=room:8"), 403);
    assert_eq!(status("/test/bob?members=room:8"), 403);
    let mut socket = socket(&server, "/stream/bob", &token);
    let denied = socket.ask(json!({ "members": "room:8" }));
    check_problem(&denied["error"], 403);
    assert_eq!(denied["members"], "room:8");
    // The stream goes on.
    assert_eq!(server.api.send("bob", 1), 1);
    assert_eq!(socket.data(), 1);
}

#[test]
fn without_tokens_nobody_is_in_a_room_and_what_is_off_says_so() {
    let server = Server::start(&[]);
    let nobody = json!({ "members": { "of": "room:7", "count": 0, "list": [] } });
    let _stream = server.listener("room:7");
    let mut socket = Socket::open(server.listen(), "/stream/room:7?members=room:7");
    assert_eq!(socket.json(), nobody);
    assert_eq!(socket.ask(json!({ "members": "room:7" })), nobody);
    assert_eq!(server.api.get("/members/room:7").ok(), nobody);
    let server = serve(&["--members-max=0"]);
    let off = server.api.get("/members/room:7").problem(404);
    assert_eq!(off["type"], "errors#members-off");
    let path = format!("/stream/room:7?members=room:7&token={}", token("bob", None));
    let answer = read_answer(&mut server.ask(get(&path, &[])), "GET").unwrap();
    check_problem(&answer.json(), 404);
    server.wait_open(0);
}

#[test]
fn rooms_are_no_ids_and_members_no_connections() {
    let server = serve(&[]);
    let _bob = in_room(&server, "bob");
    let mut eve = open(&server, "/stream/eve?members=room:7&members=room:8", &token("eve", None));
    let lists = [eve.event(), eve.event()];
    assert!(lists.iter().all(|list| list["members"]["count"].is_u64()), "{lists:?}");
    // Who watches is logged in under its own id alone.
    let stats = server.api.stats();
    assert_eq!(stats["ids_online"], 2, "{stats}");
    assert_eq!((server.api.connections("room:7"), server.api.connections("bob")), (1, 0));
    assert_eq!((server.api.send("room:7", 1), server.api.send("room:8", 1)), (1, 0));
    server.api.subscribe("eve", "room:9");
    assert_eq!(server.api.get("/members/room:9").ok()["members"]["count"], 0, "a follower");
}

#[test]
fn command_lists_who_is_there() {
    let server = serve(&["--members-max=2"]);
    let said = |args: &[&str]| {
        let finished = Program::run(encke(args).args(["--api", &server.api_url()]));
        assert_eq!(finished.code(), Some(0), "{finished:?}");
        finished.stdout
    };
    assert_eq!(said(&["members", "room:7"]), "nobody is in room:7\n");
    let _bob = open(&server, "/stream/room:7", &token("bob", Some(json!({ "n": 1 }))));
    let _zoe = in_room(&server, "zoe");
    let said_of = said(&["members", "room:7"]);
    let lines: BTreeSet<&str> = said_of.lines().collect();
    assert_eq!(lines, BTreeSet::from(["bob\t{\"n\":1}", "zoe"]));
    let answer: Value = serde_json::from_str(&said(&["members", "room:7", "--json"])).unwrap();
    assert_eq!(answer["members"]["count"], 2);
    let _eve = in_room(&server, "eve");
    wait_for("three are counted", || {
        server.api.get("/members/room:7").ok()["members"]["count"] == 3
    });
    assert_eq!(said(&["members", "room:7"]), "3 are in room:7, too many to list\n");
}

#[test]
fn members_and_who_watches_them_go_with_an_upgrade() {
    let options = options(&[]);
    let server = Upgraded::serve(&options.iter().map(String::as_str).collect::<Vec<_>>());
    let bob = open(&server, "/stream/room:7", &token("bob", Some(json!([1]))));
    let mut eve = open(&server, "/stream/eve?members=room:7", &token("eve", None));
    let mut zoe = socket(&server, "/stream/room:7?members=room:7", &token("zoe", None));
    assert_eq!(list_in(&zoe.json()), set(&["bob", "zoe"]));
    // It may have come before zoe or behind it.
    let mut heard = list_in(&eve.event());
    while !heard.contains("zoe") {
        heard.insert(eve.event()["joined"]["id"].as_str().unwrap().to_owned());
    }
    assert_eq!(heard, set(&["bob", "zoe"]));
    server.upgrade(&[]);
    for list in [eve.event(), zoe.json()] {
        assert_eq!(list_in(&list), set(&["bob", "zoe"]), "a new list takes the old one's place");
    }
    let list = server.api.get("/members/room:7").ok();
    let bobs = json!({ "id": "bob", "info": [1] });
    assert!(list["members"]["list"].as_array().unwrap().contains(&bobs), "{list}");
    drop(bob);
    assert_eq!(eve.event()["left"]["id"], "bob");
    assert_eq!(zoe.json()["left"]["id"], "bob");
    drop(zoe);
    assert_eq!(eve.event()["left"]["id"], "zoe");
}
