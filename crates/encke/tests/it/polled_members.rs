//! Who is in a room, told to polls and on the classic page.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Answer, Server, Stream, Wire, check_problem, get, read_answer};
use crate::members::{in_room, list_in, open, options, serve, set, token};
use crate::upgrade::Upgraded;

/// One who polls room:7 from place to place, and what it has made of what it was told.
pub(crate) struct Poller {
    token: String,
    path: &'static str,
    place: Option<String>,
    after: Option<String>,
    pub(crate) list: BTreeSet<String>,
    pub(crate) lists: usize,
}

impl Poller {
    pub(crate) fn new(sub: &str, path: &'static str) -> Poller {
        let (place, after, list) = (None, None, BTreeSet::new());
        Poller { token: token(sub, None), path, place, after, list, lists: 0 }
    }

    fn path(&self, wait: u8) -> String {
        let mut path = format!("{}?members=room:7&wait={wait}&token={}", self.path, self.token);
        for (name, value) in [("members_after", &self.place), ("after", &self.after)] {
            path.extend(value.iter().map(|value| format!("&{name}={value}")));
        }
        path
    }

    /// Asks without reading the answer.
    pub(crate) fn ask(&self, server: &Server, wait: u8) -> Wire {
        server.ask(get(&self.path(wait), &[]))
    }

    /// Reads it, and takes in what it tells of the room. All of the answer.
    pub(crate) fn read(&mut self, mut wire: Wire) -> Value {
        let answer = read_answer(&mut wire, "GET").unwrap();
        self.take(answer)
    }

    fn take(&mut self, answer: Answer) -> Value {
        let field = |name: &str| answer.head.field(name).map(str::to_owned);
        (self.place, self.after) = (field("encke-members"), field("encke-next"));
        let said = answer.ok();
        for message in said.as_array().unwrap() {
            let id = |change: &Value| change["id"].as_str().unwrap().to_owned();
            if message["members"].is_object() {
                (self.list, self.lists) = (list_in(message), self.lists + 1);
            } else if message["joined"].is_object() {
                assert!(self.list.insert(id(&message["joined"])), "{message}: it was there");
            } else if message["left"].is_object() {
                assert!(self.list.remove(&id(&message["left"])), "{message}: it was not there");
            }
        }
        said
    }

    pub(crate) fn poll(&mut self, server: &Server, wait: u8) -> Value {
        let wire = self.ask(server, wait);
        self.read(wire)
    }
}

#[test]
fn polls_are_told_the_list_and_from_then_on_what_changes_it_also_between_two_of_them() {
    let server = serve(&[]);
    let bob = in_room(&server, "bob");
    let mut eve = Poller::new("eve", "/poll/eve");
    let list = json!({ "members": { "of": "room:7", "count": 1, "list": [{ "id": "bob" }] } });
    assert_eq!(eve.poll(&server, 0), json!([list]));
    let place = eve.place.clone().unwrap();
    assert_eq!(eve.poll(&server, 0), json!([]), "it knows that");
    assert_eq!(eve.place.as_ref(), Some(&place));
    // While it waits, and between two.
    let wire = eve.ask(&server, 60);
    server.wait_online("eve", 1);
    let zoe = in_room(&server, "zoe");
    assert_eq!(eve.read(wire), json!([{ "joined": { "of": "room:7", "id": "zoe" } }]));
    drop(bob);
    server.wait_online("room:7", 1);
    let ann = in_room(&server, "ann");
    while eve.list != set(&["ann", "zoe"]) {
        eve.poll(&server, 60);
    }
    // What was told goes before what was sent.
    drop((zoe, ann));
    server.wait_online("room:7", 0);
    assert_eq!(server.api.send("eve", 7), 0);
    let said = eve.poll(&server, 60);
    assert_eq!(said[said.as_array().unwrap().len() - 1]["data"], 7, "{said}");
    while !eve.list.is_empty() {
        eve.poll(&server, 60);
    }
    assert_eq!((eve.lists, eve.place.is_some()), (1, true));
    server.wait_open(0);
}

#[test]
fn user_who_polls_is_a_member_from_poll_to_poll_and_leaves_when_it_polls_no_more() {
    let server = serve(&["--presence-grace=3600"]);
    let mut bob = Poller::new("bob", "/poll/room:7");
    bob.poll(&server, 0);
    assert_eq!(bob.list, set(&["bob"]), "it finds itself there");
    let mut zoe = Poller::new("zoe", "/poll/room:7");
    zoe.poll(&server, 0);
    assert_eq!(zoe.list, set(&["bob", "zoe"]));
    assert_eq!(bob.poll(&server, 0), json!([{ "joined": { "of": "room:7", "id": "zoe" } }]));
    for _ in 0..10 {
        assert_eq!((bob.poll(&server, 0), zoe.poll(&server, 0)), (json!([]), json!([])));
    }
    // Without a grace it has two seconds.
    let server = serve(&[]);
    let mut eve = open(&server, "/stream/eve?members=room:7", &token("eve", None));
    assert_eq!(list_in(&eve.event()), set(&[]));
    let begun = Instant::now();
    Poller::new("bob", "/poll/room:7").poll(&server, 0);
    assert_eq!(eve.event()["joined"]["id"], "bob");
    assert_eq!(eve.event()["left"]["id"], "bob");
    assert!(begun.elapsed() >= Duration::from_secs(2));
}

#[test]
fn place_is_good_at_another_server_that_has_the_same_list_and_after_an_upgrade() {
    let (first, second) = (serve(&[]), serve(&[]));
    let _bobs = [in_room(&first, "bob"), in_room(&second, "bob")];
    let mut eve = Poller::new("eve", "/poll/eve");
    eve.poll(&first, 0);
    eve.after = None;
    assert_eq!((eve.poll(&second, 0), eve.lists), (json!([]), 1));
    let _zoe = in_room(&second, "zoe");
    while !eve.list.contains("zoe") {
        eve.poll(&second, 60);
    }
    assert_eq!(eve.lists, 1, "the second has told it what has changed");
    eve.after = None;
    eve.poll(&first, 0);
    assert_eq!((&eve.list, eve.lists), (&set(&["bob"]), 2), "its list is another one");

    let options = options(&[]);
    let server = Upgraded::serve(&options.iter().map(String::as_str).collect::<Vec<_>>());
    let bob = in_room(&server, "bob");
    let (mut waits, mut between) = (Poller::new("a", "/poll/a"), Poller::new("b", "/poll/b"));
    waits.poll(&server, 0);
    between.poll(&server, 0);
    let wire = waits.ask(&server, 60);
    server.wait_online("a", 1);
    server.upgrade(&[]);
    waits.read(wire);
    assert_eq!((&waits.list, waits.lists), (&set(&["bob"]), 2));
    drop(bob);
    for poller in [&mut waits, &mut between] {
        while !poller.list.is_empty() {
            poller.poll(&server, 60);
        }
    }
    assert!(between.lists <= 2);
}

#[test]
fn many_rooms_and_rooms_without_members_have_places_too() {
    let server = Server::start(&[]);
    let path = "/poll/bob?members=room:7&members=room:8&wait=60";
    let answer = read_answer(&mut server.ask(get(path, &[])), "GET").unwrap();
    let list = |of: &str| json!({ "members": { "of": of, "count": 0, "list": [] } });
    let places = answer.head.field("encke-members").unwrap().to_owned();
    assert_eq!(places.split('.').count(), 2);
    assert_eq!(answer.ok(), json!([list("room:7"), list("room:8")]));
    let path = format!("/poll/bob?members=room:8&members=room:7&wait=0&members_after={places}");
    let answer = read_answer(&mut server.ask(get(&path, &[])), "GET").unwrap();
    assert_eq!(answer.ok(), json!([list("room:8"), list("room:7")]), "it is another order");
    let path = format!("/poll/bob?members=room:7&members=room:8&wait=0&members_after={places}");
    assert_eq!(read_answer(&mut server.ask(get(&path, &[])), "GET").unwrap().ok(), json!([]));
    let path = "/poll/bob?members=room:7&members_after=yesterday";
    check_problem(&read_answer(&mut server.ask(get(path, &[])), "GET").unwrap().json(), 400);
}

#[test]
fn poll_asks_for_a_hundred_rooms_at_most_also_where_none_has_members() {
    for server in [Server::start(&[]), serve(&[])] {
        let path = |rooms: usize| {
            let rooms: String = (0..rooms).map(|n| format!("&members=room:{n}")).collect();
            format!("/poll/bob?wait=0&token={}{rooms}", token("bob", None))
        };
        let asked = |rooms| server.ask(get(&path(rooms), &[]));
        let answer = read_answer(&mut asked(100), "GET").unwrap().ok();
        assert!(!answer.as_array().unwrap().is_empty(), "{answer}");
        check_problem(&read_answer(&mut asked(101), "GET").unwrap().json(), 400);
    }
}

/// It could begin anew for ever, with whole lists each time.
#[test]
fn poll_is_refused_at_once_whose_next_one_would_have_a_head_that_is_too_long() {
    const HEAD_BYTES_MAX: usize = 8 * 1024;
    let server = Server::start(&[]);
    let path = "/poll/bob?members=room:1&members=room:2&wait=0";
    let fills = |path: &str, bytes: usize| {
        let len = get(path, &["X: "]).len();
        get(path, &[&format!("X: {}", "x".repeat(bytes - len))])
    };
    let spare = "&members_after=.&after=".len() + 2 * 16 + 27;
    let fitting = fills(path, HEAD_BYTES_MAX - spare);
    let answer = read_answer(&mut server.ask(fitting), "GET").unwrap();
    let places = answer.head.field("encke-members").unwrap();
    let next = format!("{path}&members_after={places}&after={}", "2".repeat(27));
    assert_eq!(answer.ok().as_array().unwrap().len(), 2);
    let again = fills(&next, HEAD_BYTES_MAX);
    assert_eq!(read_answer(&mut server.ask(again), "GET").unwrap().ok(), json!([]));
    let longer = fills(path, HEAD_BYTES_MAX - spare + 1);
    check_problem(&read_answer(&mut server.ask(longer), "GET").unwrap().json(), 431);
}

#[test]
fn classic_page_is_told_in_lines_of_its_own() {
    let server = serve(&[]);
    let path = format!("/test/eve?members=room:7&token={}", token("eve", None));
    let mut page = Stream::open(server.listen(), &path, "*/*");
    assert_eq!(page.chunk(), "Welcome, id eve<br/>\n");
    let list = "{&quot;members&quot;:{&quot;of&quot;:&quot;room:7&quot;,&quot;count&quot;:0,\
                &quot;list&quot;:[]}}";
    assert_eq!(page.chunk(), format!("Said: '{list}'<br/>\n"));
    let bob = open(&server, "/stream/room:7", &token("bob", Some(json!("<b>"))));
    let joined = "{&quot;joined&quot;:{&quot;of&quot;:&quot;room:7&quot;,&quot;id&quot;:\
                  &quot;bob&quot;,&quot;info&quot;:&quot;&lt;b&gt;&quot;}}";
    assert_eq!(page.chunk(), format!("Said: '{joined}'<br/>\n"));
    assert_eq!(server.api.send("eve", 7), 1);
    assert_eq!(page.chunk(), "Recvd msg #1: '7'<br/>\n", "only events have numbers");
    drop(bob);
    assert!(page.chunk().contains("left"));
}
