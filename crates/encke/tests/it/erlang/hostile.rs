//! Nodes that know the cookie and mean no good: what one of them can hold or hold up.

use std::iter;
use std::net::TcpListener;

use erlang::term::write;

use super::node::{World, figures, wait_figure};
use super::raw::RawNode;
use crate::harness::wait_for;

fn tuple(elements: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    write::tuple(&mut out, elements.len() as u8);
    elements.iter().for_each(|element| out.extend_from_slice(element));
    out
}

fn atom(name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    write::atom(&mut out, name);
    out
}

/// A call of the process `from`, with the tag `tag`.
fn call(node: &RawNode, tag: &[u8], request: &[u8]) -> Vec<u8> {
    let mut from = Vec::new();
    node.pid().write(&mut from);
    tuple(&[&atom("$gen_call"), &tuple(&[&from, tag]), request])
}

#[test]
fn terms_of_any_depth_end_nobody() {
    let world = World::new();
    let server = world.encke(&["--erlang-queue=64MiB"]);
    let mut listener = server.listener("1");
    let node = RawNode::connect(&world, "deep");
    let one = &b"\x61\x01"[..];
    for (around, inside) in [
        (&b"l\0\0\0\0"[..], &b"j"[..]),
        (b"l\0\0\0\x01", b"j"),
        (b"l\0\0\0\x01ja\x01", b"j"),
        (b"h\x01", b"j"),
        (b"h\x02m\0\0\0\x01x", b"a\x01"),
        (b"t\0\0\0\x01a\x01", b"j"),
    ] {
        // As long as what is read at once; the deepest, and one with ends behind what is within,
        // also as long as a frame may be. That long all kinds are read in `erlang`'s own tests.
        let longest = [&b"h\x01"[..], b"l\0\0\0\x01ja\x01"].contains(&around);
        for bytes in iter::once(250 << 10).chain(longest.then_some((16 << 20) - 4096)) {
            let depth = bytes / (around.len() + 1);
            let tails = if around.starts_with(b"l\0\0\0\x01") { depth } else { 0 };
            let deep = [&around.repeat(depth)[..], inside, &b"j".repeat(tails)].concat();
            assert!(node.send("router", &tuple(&[&atom("send"), one, &deep])));
            assert!(node.send("router", &tuple(&[&atom("send"), &deep, one])));
            assert!(node.send("router", &tuple(&[&atom("login"), &deep, &deep])));
            assert!(node.send("any", &tuple(&[one, &deep])));
            assert!(node.send("subsmanager", &tuple(&[&atom("add_subscriptions"), &deep])));
            assert!(node.send("router", &deep));
            node.wait_taken();
        }
    }
    assert!(node.send("router", &tuple(&[&atom("send"), one, &atom("last")])));
    // What was before is refused or done.
    while listener.data() != "last" {}
    assert_eq!(server.api.send("1", 1), 1);
    assert_eq!(figures(&server)["nodes"], 1);
}

#[test]
fn control_messages_of_another_kind_are_counted_and_harm_nobody() {
    let world = World::new();
    let server = world.encke(&[]);
    let mut node = RawNode::connect(&world, "odd");
    let frames: [&[u8]; 8] = [
        b"\x83D\0",
        b"\x83E\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02\0",
        b"\x83F",
        b"x",
        b"p",
        b"p\x83",
        b"p\x83j",
        b"p\x83h\x01w\x01a",
    ];
    frames.iter().for_each(|frame| assert!(node.frame(frame)));
    // Group leader, exits, links, one that nobody knows.
    for operation in [1, 3, 7, 8, 24, 255] {
        assert!(node.frame(&[&b"p\x83h\x01a"[..], &[operation]].concat()));
    }
    wait_figure(&server, "unknown", frames.len() as u64);
    assert!(node.send("net_kernel", &call(&node, &atom("tag"), &tuple(&[&atom("is_auth"), b"j"]))));
    assert!(node.read().ends_with(b"w\x03yes"));
}

/// What is no message is done or dropped at once, however much of it there is, while the node's
/// messages wait because it does not take its answers.
#[test]
fn frames_that_are_no_messages_fill_no_memory() {
    const QUEUE: u64 = 1 << 20;
    const FLOOD: usize = 128 << 20;
    let world = World::new();
    let server = world.encke(&[&format!("--erlang-queue={QUEUE}")]);
    let erl = world.erl("a");
    let node = RawNode::connect(&world, "flood");
    // Answers of four kilobytes each, which it never reads, until Encke waits for it.
    let mut tag = Vec::new();
    write::binary(&mut tag, &[7; 4000]);
    let ask = call(&node, &tag, &tuple(&[&atom("is_auth"), b"j"]));
    wait_for("Encke waits for it", || {
        if figures(&server)["waiting_bytes"].as_u64().unwrap() > QUEUE / 2 {
            return true;
        }
        // Many between two looks, since what the kernel keeps of the answers comes on top.
        for _ in 0..64 {
            assert!(node.send("net_kernel", &ask));
        }
        node.wait_taken();
        false
    });
    let before = server.anonymous_bytes();
    let link = [&b"p\x83h\x03a\x01m\0\0\x0f\xa0"[..], &[0; 4000], b"j"].concat();
    for _ in 0..FLOOD / link.len() {
        assert!(node.frame(&link));
    }
    node.wait_taken();
    let grown = server.anonymous_bytes().saturating_sub(before);
    assert!(grown < FLOOD as u64 / 4, "{grown} bytes more");
    assert_eq!(erl.call("router", "{send, 1, x}"), "{ok,0}");
    drop(node);
    wait_figure(&server, "nodes", 1);
}

#[test]
fn node_that_asks_for_what_never_comes_leaves_others_room() {
    let world = World::new();
    let server = world.encke(&[]);
    // Nodes whose epmd takes connections and says nothing.
    let _silent = TcpListener::bind(("127.0.0.3", world.port())).unwrap();
    let erl = world.erl("a");
    let node = RawNode::connect(&world, "greedy");
    for n in 0..1500 {
        let mut pid = Vec::new();
        write::pid(&mut pid, &format!("n{n}@127.0.0.3"), [1, 0, 7]);
        assert!(node.send("router", &tuple(&[&atom("login"), b"\x61\x01", &pid])));
    }
    wait_for("there is no room for more of its requests", || {
        figures(&server)["refused"]["overloaded"].as_u64().unwrap() > 0
    });
    let add = "{add_subscriptions, [{subscription, a, b}]}";
    assert_eq!(erl.call("subsmanager", add), "ok");
    // A name with what a log would take for a line of its own is none.
    let mut pid = Vec::new();
    write::pid(&mut pid, "x@127.0.0.3\nfaked", [1, 0, 7]);
    assert!(node.send("router", &tuple(&[&atom("login"), b"\x61\x01", &pid])));
    wait_for("it is refused", || figures(&server)["refused"]["noconnection"].as_u64().unwrap() > 0);
    assert!(!server.stderr().contains("faked"));
}

#[test]
fn node_logs_out_no_process_of_another() {
    let world = World::new();
    let server = world.encke(&[]);
    let erl = world.erl("a");
    assert_eq!(erl.call("router", "{login, bob, self()}"), "ok");
    let node = RawNode::connect(&world, "liar");
    let mut down = b"p\x83".to_vec();
    write::tuple(&mut down, 5);
    write::integer(&mut down, 21);
    node.pid().write(&mut down);
    node.pid().write(&mut down);
    // The first process of all has the first slot.
    write::reference(&mut down, "encke@127.0.0.1", 1, [0, 0, 0]);
    write::atom(&mut down, "killed");
    assert!(node.frame(&down));
    assert!(node.frame(b"x"));
    wait_figure(&server, "unknown", 1);
    assert_eq!(server.api.send("bob", 1), 1);
    assert_eq!(erl.message(), "{router_msg,1}");
}

#[test]
fn long_changes_of_subscriptions_are_stored_and_nothing_else_that_long() {
    let world = World::new();
    let _server = world.encke(&[]);
    let erl = world.erl("a");
    let pairs = "[{subscription, N, star} || N <- lists:seq(1, 20000)]";
    let add = format!("{{add, {pairs}}}");
    assert_eq!(erl.call("subsmanager", &add), "{ok,20000}");
    assert_eq!(erl.call("subsmanager", &add.replace("add", "remove")), "{ok,20000}");
    let long = "binary:copy(<<\"x\">>, 1000000)";
    assert_eq!(erl.call("router", &format!("{{send, 1, {long}}}")), "{error,too_large}");
    assert_eq!(erl.call("subsmanager", &format!("{{frobnicate, {long}}}")), "{error,bad_request}");
    assert_eq!(erl.call("router", &format!("{{send, {long}, 1}}")), "{error,too_large}");
    // Text with nothing in it: a term of a megabyte whose JSON has two bytes.
    let empty = "lists:duplicate(50000, <<>>)";
    assert_eq!(erl.call("router", &format!("{{send, 1, {empty}}}")), "{ok,0}");
    let empty = "lists:duplicate(200000, <<>>)";
    assert_eq!(erl.call("router", &format!("{{send, 1, {empty}}}")), "{error,too_large}");
}

/// Some megabytes more than what all nodes may have at a time each.
#[test]
fn changes_of_any_length_are_stored_or_answered() {
    let world = World::new();
    let server = world.encke(&[]);
    let erl = world.erl("a");
    let slow = RawNode::connect(&world, "slow");
    // Names as long as they may be: 20 MiB that are stored as soon as ten thousands of integers.
    erl.eval(
        "Long = binary:copy(<<\"x\">>, 255), Star = binary:copy(<<\"y\">>, 255),
         Pairs = lists:duplicate(40000, {subscription, Long, Star}) ++
             [{subscription, N, star} || N <- lists:seq(1, 30000)], ok",
    );
    assert_eq!(erl.call("subsmanager", "{add, Pairs}"), "{ok,30001}");
    assert_eq!(erl.call("subsmanager", "{remove, Pairs}"), "{ok,30001}");
    // One that begins such a frame and does not go on has the place of all.
    let head = [&(20_u32 << 20).to_be_bytes()[..], &[0; 64 << 10]].concat();
    assert!(slow.bytes(&head));
    slow.wait_taken();
    wait_for("the place is taken", || {
        erl.call("subsmanager", "{add, Pairs}") == "{error,overloaded}"
    });
    assert_eq!(erl.call("subsmanager", "{add, [{subscription, a, b}]}"), "{ok,1}");
    drop(slow);
    wait_figure(&server, "nodes", 1);
    assert_eq!(erl.call("subsmanager", "{add, Pairs}"), "{ok,30001}");
    let before = figures(&server)["oversized"].as_u64().unwrap();
    let long = "{add, binary:copy(<<0>>, 140000000)}";
    assert_eq!(erl.call("subsmanager", long), "{error,too_large}");
    assert_eq!(figures(&server)["oversized"], before + 1);
    // The log says such a thing once a second, and has just told of the place that was taken.
    wait_for("the log says so", || {
        assert_eq!(erl.call("subsmanager", long), "{error,too_large}");
        server.stderr().contains("was not done: too_large")
    });
}
