//! Processes that are logged in: members of audiences like any connection.

use serde_json::json;

use super::node::{World, figures, wait_figure};

#[test]
fn send_counts_processes_and_connections_together_each_once() {
    let world = World::new();
    let server = world.encke(&[]);
    let mut stream = server.listener("rj");
    let erl = world.erl("a");
    erl.call(
        "subsmanager",
        "{add_subscriptions, [{subscription, bob, rj}, {subscription, 7, rj}]}",
    );
    for id in ["rj", "bob", "7", "7"] {
        assert_eq!(erl.call("router", &format!("{{login, {id}, self()}}")), "ok");
    }
    assert_eq!(server.api.connections("rj"), 2);
    assert_eq!(erl.call("router", "{send, rj, {song, \"x\", self()}}"), "{error,no_json}");
    assert_eq!(erl.call("router", "{send, rj, {song, \"x\"}}"), "{ok,2}");
    assert_eq!(erl.message(), "{router_msg,{song,\"x\"}}");
    assert_eq!(stream.data(), json!(["song", [120]]));
    // What others send is the term that its JSON stands for.
    assert_eq!(server.api.send("rj", json!({"n": [1, 2.5, null], "é": "x"})), 2);
    let message = "{router_msg,#{<<\"n\">> => [1,2.5,null],<<\"é\"/utf8>> => <<\"x\">>}}";
    assert_eq!(erl.message(), message);
    assert_eq!(erl.call("router", "{logout, self()}"), "ok");
    assert_eq!(erl.call("router", "{logout, self()}"), "ok");
    assert_eq!(erl.call("router", "{send, rj, later}"), "{ok,1}");
    assert_eq!(figures(&server)["processes"], 0);
    assert_eq!(erl.eval("receive Any -> Any after 0 -> nothing end"), "nothing");
}

#[test]
fn process_that_ends_is_logged_out_however_it_ends() {
    let world = World::new();
    let server = world.encke(&[]);
    let erl = world.erl("a");
    erl.eval(
        "In = fun(Id) ->
             P = spawn(fun() -> receive stop -> ok end end),
             ok = gen_server:call({router, E}, {login, Id, P}), P
         end",
    );
    for end in ["P ! stop", "exit(P, kill)"] {
        erl.eval(&format!("(fun() -> P = In(zoe), {end} end)()"));
        wait_figure(&server, "processes", 0);
        assert_eq!(server.api.connections("zoe"), 0);
    }
    // One that is gone already is logged out as soon as its node has said so.
    let dead = "(fun() -> P = spawn(fun() -> ok end), M = monitor(process, P),
        receive {'DOWN', M, _, _, _} -> ok end,
        gen_server:call({router, E}, {login, zoe, P}) end)()";
    assert_eq!(erl.eval(dead), "ok");
    wait_figure(&server, "processes", 0);
    assert_eq!(figures(&server)["logins"], 3);
}

#[test]
fn application_that_logs_an_id_out_ends_its_processes_log_in() {
    let world = World::new();
    let server = world.encke(&[]);
    let erl = world.erl("a");
    erl.call("router", "{login, bob, self()}");
    erl.call("router", "{login, other, self()}");
    assert_eq!(server.api.logout("bob"), 1);
    assert_eq!(erl.message(), "{router_closed,logged_out}");
    assert_eq!((server.api.connections("bob"), server.api.connections("other")), (0, 0));
    assert_eq!(erl.call("router", "{login, bob, self()}"), "ok");
    assert_eq!(server.api.send("bob", 1), 1);
    assert_eq!(erl.message(), "{router_msg,1}");
}

#[test]
fn ten_thousand_processes_hear_and_are_gone_with_their_node() {
    let world = World::new();
    let server = world.encke(&[]);
    let erl = world.erl("a");
    erl.eval("net_kernel:connect_node(E), Me = self()");
    let crowd = "Crowd = [spawn(fun() ->
            ok = gen_server:call({router, E}, {login, crowd, self()}, infinity),
            ok = gen_server:call({router, E}, {login, N, self()}, infinity),
            Me ! in, receive Heard -> Me ! Heard end, receive stop -> ok end
        end) || N <- lists:seq(1, 10000)],
        [receive in -> ok end || _ <- Crowd], ok";
    assert_eq!(erl.eval(crowd), "ok");
    assert_eq!(figures(&server)["processes"], 10_000);
    assert_eq!(server.api.connections("crowd"), 10_000);
    assert_eq!(erl.call("router", "{send, crowd, hi}"), "{ok,10000}");
    let heard = "lists:usort([receive Heard -> Heard after 30000 -> none end || _ <- Crowd])";
    assert_eq!(erl.eval(heard), "[{router_msg,hi}]");
    assert_eq!(server.api.send("4711", "x"), 1);
    erl.program.kill();
    wait_figure(&server, "processes", 0);
    wait_figure(&server, "nodes", 0);
    assert_eq!(server.api.connections("crowd"), 0);
    assert_eq!(server.api.stats()["ids_online"], 0);
    // The node comes back under the same name, with other processes.
    let erl = world.erl("a");
    assert_eq!(erl.call("router", "{login, crowd, self()}"), "ok");
    assert_eq!(server.api.send("crowd", 1), 1);
    assert_eq!(erl.message(), "{router_msg,1}");
}
