//! Erlang nodes that have joined at one Encke of a cluster: their processes hear, and are heard, at
//! all of them.

use std::fs;

use serde_json::json;

use super::failures::copy;
use super::{NAME, World, cluster_stats, connections_at_all, wait_members, wait_ready};
use crate::erlang::node::World as Erlang;
use crate::harness::{Server, wait_for};

/// The cluster's node `name`, among Erlang nodes `alive@127.0.0.1`.
fn encke(world: &World, erlang: &Erlang, name: &str, alive: &str) -> Server {
    let (nats, node) = (format!("--nats={}", world.nats.url()), format!("--node={name}"));
    erlang.encke_as(&format!("{alive}@127.0.0.1"), &[NAME, &nats, &node])
}

#[test]
fn process_at_one_node_hears_and_is_heard_at_the_others() {
    let Some(world) = World::new() else { return };
    let erlang = Erlang::new();
    let first = encke(&world, &erlang, "n1", "encke");
    let second = encke(&world, &erlang, "n2", "other");
    let third = world.node("n3", &[]);
    [&first, &second, &third].into_iter().for_each(|node| wait_members(node, 3));
    let [here, there] = ["a", "b"].map(|name| erlang.erl(name));
    assert_eq!(there.eval("E2 = 'other@127.0.0.1', net_adm:ping(E2)"), "pong");
    // Streams at the other nodes hear what a process sends, and it is told the count of all.
    let mut streams = [&second, &third].map(|node| node.listener("bob"));
    assert_eq!(here.call("router", "{send, bob, hi}"), "{ok,2}");
    here.eval("{any, E} ! {bob, narrow}");
    for stream in &mut streams {
        assert_eq!((stream.data(), stream.data()), (json!("hi"), json!("narrow")));
    }
    // Processes hear what is sent at nodes where they are not, terms as terms.
    assert_eq!(here.call("router", "{login, alice, self()}"), "ok");
    assert_eq!(there.eval("gen_server:call({router, E2}, {login, alice, self()})"), "ok");
    assert_eq!(third.api.send("alice", 7), 2);
    assert_eq!(here.call("router", "{send, alice, {song, <<7>>, 'x y'}}"), "{ok,2}");
    for process in [&here, &there] {
        assert_eq!(process.message(), "{router_msg,7}");
        assert_eq!(process.message(), "{router_msg,{song,<<7>>,'x y'}}");
    }
    assert_eq!(connections_at_all(&third, "alice"), 2);
    // A pool: whichever node is asked, by `any` or by the router's global name, all of them answer.
    here.eval("{any, 'other@127.0.0.1'} ! {alice, narrow}");
    for process in [&here, &there] {
        assert_eq!(process.message(), "{router_msg,narrow}");
        process.wait("is_pid(global:whereis_name(router))", "true");
        let send = "gen_server:call({global, router}, {send, {photo, 789}, x})";
        assert_eq!(process.eval(send), "{ok,0}");
    }
    let login = "gen_server:call({router, E2}, {login, {photo, 789}, self()})";
    assert_eq!(there.eval(login), "ok");
    assert_eq!(here.call("any", "{{photo, 789}, y}"), "{ok,1}");
    assert_eq!(there.message(), "{router_msg,y}");
    // One goes with its node, and the others count without it.
    there.program.kill();
    wait_for("it is logged out", || third.api.connections("alice") == 1);
    assert_eq!(third.api.send("alice", 8), 1);
    assert_eq!(here.message(), "{router_msg,8}");
}

#[test]
fn processes_are_told_of_a_gap_when_the_log_lost_its_tail() {
    let Some(mut world) = World::new() else { return };
    let erlang = Erlang::new();
    let first = encke(&world, &erlang, "n1", "encke");
    let second = world.node("n2", &[]);
    [&first, &second].into_iter().for_each(|node| wait_members(node, 2));
    let erl = erlang.erl("a");
    assert_eq!(erl.call("router", "{login, eve, self()}"), "ok");
    assert_eq!(second.api.send("eve", 1), 1);
    let (store, older) = (world.nats.store(), world.stores.path().join("older"));
    world.nats.kill();
    copy(&store, &older);
    world.nats.restart();
    wait_ready(&[&first, &second]);
    assert_eq!(second.api.send("eve", 2), 1);
    world.nats.kill();
    fs::remove_dir_all(&store).unwrap();
    copy(&older, &store);
    world.nats.restart();
    wait_for("another epoch begins", || {
        [&first, &second].iter().all(|node| cluster_stats(node)["epoch"] == 2)
    });
    second.api.post_until_taken("/send", &json!({"about": "eve", "data": 3}));
    for message in ["{router_msg,1}", "{router_msg,2}", "{router_gap}", "{router_msg,3}"] {
        assert_eq!(erl.message(), message);
    }
    assert_eq!(erl.call("router", "{send, eve, on}"), "{ok,1}", "it is still logged in");
    assert_eq!(erl.message(), "{router_msg,on}");
}
