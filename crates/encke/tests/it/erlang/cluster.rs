//! Several nodes, nodes that come and go, and nodes that should not come.

use std::fs;

use super::node::{COOKIE, World, figures, wait_figure};
use crate::harness::wait_for;
use crate::upgrade::{Upgraded, served};

#[test]
fn node_with_another_cookie_is_refused_and_the_log_says_so() {
    let world = World::new();
    let server = world.encke(&[]);
    let foreign = world.erl_with("foreign", "another-cookie", &[]);
    assert_eq!(foreign.eval("net_adm:ping(E)"), "pang");
    assert_eq!(foreign.eval("{any, E} ! {1, x}, nodes(hidden)"), "[]");
    wait_for("the log says so", || {
        server.stderr().contains("foreign@127.0.0.1 was not let in: its cookie is another one")
    });
    assert_eq!(figures(&server)["nodes"], 0);
    let friend = world.erl("friend");
    assert_eq!(friend.eval("net_adm:ping(E)"), "pong");
}

#[test]
fn node_to_connect_to_is_connected_to_whenever_it_is_there() {
    let world = World::new();
    let server = world.encke(&["--erlang-connect=a@127.0.0.1"]);
    let erl = world.erl("a");
    wait_figure(&server, "nodes", 1);
    drop(erl);
    wait_figure(&server, "nodes", 0);
    let erl = world.erl("a");
    assert_eq!(erl.eval("net_adm:ping(E)"), "pong");
    wait_figure(&server, "nodes", 1);
}

#[test]
fn node_that_asks_for_a_name_is_told_so_in_the_log() {
    let world = World::new();
    let server = world.encke_as("encke@localhost", &[]);
    let nameless = world.nameless();
    assert_eq!(nameless.eval("net_kernel:connect_node('encke@localhost')"), "false");
    wait_for("the log says so", || server.stderr().contains("start it with a name"));
}

/// A node with nothing but the original's modules does not come back by itself.
#[test]
fn nodes_that_were_connected_are_come_back_to_after_a_crash_and_an_upgrade() {
    let (world, data) = (World::new(), tempfile::tempdir().unwrap());
    let server = world.encke_in(data.path(), &[]);
    let [a, b] = ["a", "b"].map(|name| world.erl(name));
    let noted = || fs::read_to_string(data.path().join("erlang-nodes.json")).unwrap_or_default();
    for node in [&a, &b] {
        assert_eq!(node.eval("net_adm:ping(E)"), "pong");
        node.wait("is_pid(global:whereis_name(router))", "true");
    }
    wait_for("both are noted", || noted().contains("a@") && noted().contains("b@"));
    // One that goes while we are there is let go.
    b.program.kill();
    wait_for("the other one is noted alone", || noted().contains("a@") && !noted().contains("b@"));
    server.into_program().kill();
    a.wait("global:whereis_name(router)", "undefined");
    let server = Upgraded::of(world.encke_in(data.path(), &[]), data.path());
    a.wait("is_pid(global:whereis_name(router))", "true");
    let mut command = server.command(&[]);
    command.env("ERL_EPMD_PORT", world.port().to_string());
    assert_eq!(served::run(&mut command).code, Some(0));
    wait_figure(&server, "nodes", 1);
    a.wait("is_pid(global:whereis_name(router))", "true");
    assert_eq!(a.eval("gen_server:call({global, router}, {login, 1, self()})"), "ok");
    assert_eq!(a.eval("gen_server:call({global, router}, {send, 1, x})"), "{ok,1}");
}

#[test]
fn global_names_are_found_on_every_node_of_a_cluster_and_outlive_the_one_that_was_asked() {
    let world = World::new();
    let server = world.encke(&[]);
    let [a, b, c] = ["a", "b", "c"].map(|name| world.erl(name));
    assert_eq!(b.eval("net_adm:ping('a@127.0.0.1')"), "pong");
    assert_eq!(a.eval("net_adm:ping(E)"), "pong");
    let found = "node(global:whereis_name(router)) =:= E";
    a.wait("is_pid(global:whereis_name(subsmanager))", "true");
    b.wait("is_pid(global:whereis_name(router))", "true");
    // One that comes later is told by the others.
    assert_eq!(c.eval("net_adm:ping('b@127.0.0.1')"), "pong");
    c.wait("is_pid(global:whereis_name(router))", "true");
    for node in [&a, &b, &c] {
        assert_eq!(node.eval(found), "true");
        assert_eq!(node.eval("gen_server:call({global, router}, {send, 1, x})"), "{ok,0}");
    }
    wait_figure(&server, "nodes", 3);
    a.program.kill();
    wait_figure(&server, "nodes", 2);
    for node in [&b, &c] {
        node.wait("is_pid(global:whereis_name(router))", "true");
        assert_eq!(node.eval("gen_server:call({global, router}, {send, 1, x})"), "{ok,0}");
    }
    // Encke goes and comes back: the names go with it, and come back with the first connection.
    server.into_program().kill();
    b.wait("global:whereis_name(router)", "undefined");
    let _server = world.encke(&["--erlang-connect=b@127.0.0.1"]);
    for node in [&b, &c] {
        node.wait("is_pid(global:whereis_name(router))", "true");
    }
}

#[test]
fn second_encke_is_one_by_itself_and_takes_the_names_when_the_first_one_goes() {
    let world = World::new();
    let first = world.encke(&[]);
    let erl = world.erl("a");
    assert_eq!(erl.eval("net_adm:ping(E)"), "pong");
    erl.wait("is_pid(global:whereis_name(router))", "true");
    erl.wait("is_pid(global:whereis_name(subsmanager))", "true");
    let second = world.encke_as("other@127.0.0.1", &["--erlang-connect=a@127.0.0.1"]);
    wait_figure(&second, "nodes", 1);
    erl.eval("E2 = 'other@127.0.0.1'");
    // Each has its own audience: what is sent at one is not heard by who is logged in at the other.
    assert_eq!(erl.eval("gen_server:call({router, E2}, {login, 7, self()})"), "ok");
    assert_eq!(erl.eval("gen_server:call({global, router}, {send, 7, x})"), "{ok,0}");
    assert_eq!(erl.call("any", "{7, x}"), "{ok,0}");
    assert_eq!(erl.eval("gen_server:call({any, E2}, {7, y})"), "{ok,1}");
    assert_eq!(erl.message(), "{router_msg,y}");
    // The names are the first one's as long as it is there, and then the second one's.
    let owners = "[node(global:whereis_name(N)) || N <- [router, subsmanager]]";
    assert_eq!(erl.eval(owners), "['encke@127.0.0.1','encke@127.0.0.1']");
    first.into_program().kill();
    erl.wait(owners, "['other@127.0.0.1','other@127.0.0.1']");
    // Who was logged in there all the time hears what is sent by the name.
    assert_eq!(erl.eval("gen_server:call({global, router}, {send, 7, z})"), "{ok,1}");
    assert_eq!(erl.message(), "{router_msg,z}");
    assert_eq!(second.api.connections("7"), 1);
}

#[test]
fn process_of_another_node_is_logged_in_and_goes_with_that_node() {
    let world = World::new();
    let server = world.encke(&[]);
    let [a, b] = ["a", "b"].map(|name| world.erl(name));
    assert_eq!(b.eval("register(me, self())"), "true");
    assert_eq!(a.eval("P = rpc:call('b@127.0.0.1', erlang, whereis, [me]), is_pid(P)"), "true");
    // Encke and the other node are not connected yet.
    assert_eq!(a.call("router", "{login, bob, P}"), "ok");
    wait_figure(&server, "nodes", 2);
    assert_eq!(a.call("router", "{send, bob, hi}"), "{ok,1}");
    assert_eq!(b.message(), "{router_msg,hi}");
    b.program.kill();
    wait_figure(&server, "processes", 0);
    assert_eq!(a.call("router", "{login, bob, P}"), "{error,noconnection}");
    assert_eq!(a.call("router", "{send, bob, hi}"), "{ok,0}");
}

#[test]
fn stopped_node_is_gone_after_the_tick_time_and_comes_back() {
    let world = World::new();
    let server = world.encke(&["--erlang-ticktime=4"]);
    let erl = world.erl_with("a", COOKIE, &["-kernel", "net_ticktime", "4"]);
    let quiet = world.erl_with("quiet", COOKIE, &["-kernel", "net_ticktime", "4"]);
    assert_eq!(quiet.call("router", "{login, quiet, self()}"), "ok");
    assert_eq!(erl.call("router", "{login, bob, self()}"), "ok");
    assert_eq!(server.api.send("bob", 1), 1);
    erl.program.signal("STOP");
    wait_figure(&server, "processes", 1);
    wait_for("it was silent", || figures(&server)["ended"]["silent"] == 1);
    assert_eq!(server.api.send("bob", 2), 0);
    erl.program.signal("CONT");
    assert_eq!(erl.message(), "{router_msg,1}");
    erl.wait("gen_server:call({router, E}, {login, bob, self()})", "ok");
    assert_eq!(server.api.send("bob", 3), 1);
    assert_eq!(erl.message(), "{router_msg,3}");
    // The other one, which said nothing all the time, ticked.
    assert_eq!(server.api.send("quiet", 4), 1);
    assert_eq!(quiet.message(), "{router_msg,4}");
    assert_eq!(figures(&server)["connected"], 3);
}

#[test]
fn epmd_that_comes_late_is_found() {
    let world = World::without_epmd();
    let server = world.encke(&[]);
    wait_for("the log says so", || server.stderr().contains("cannot register the Erlang node"));
    assert_eq!(figures(&server)["registered"], false);
    world.start_epmd();
    wait_for("it is registered", || figures(&server)["registered"] == true);
    assert_eq!(world.erl("a").eval("net_adm:ping(E)"), "pong");
}

#[test]
fn server_without_a_cookie_does_not_start() {
    use crate::harness::{Program, encke};
    let missing = ["serve", "--erlang-node=encke@127.0.0.1"];
    let finished = Program::run(&mut encke(missing));
    assert_eq!(finished.code(), Some(2));
    assert!(finished.stderr.contains("--erlang-cookie-file"), "{}", finished.stderr);
    let data = tempfile::tempdir().unwrap();
    let empty = data.path().join("cookie");
    fs::write(&empty, "\n").unwrap();
    let option = format!("--erlang-cookie-file={}", empty.display());
    let finished = Program::run(encke(missing).arg(&option).arg("--data").arg(data.path()));
    assert_eq!(finished.code(), Some(1));
    assert!(finished.stderr.contains("holds no cookie"), "{}", finished.stderr);
}
