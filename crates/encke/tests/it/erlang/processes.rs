//! Processes that are logged in: members of audiences like any connection.

use serde_json::json;

use super::node::{World, figures, wait_figure};
use crate::harness::wait_for;

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
fn linked_process_ends_with_the_router_and_no_other_does() {
    let world = World::new();
    let server = world.encke(&[]);
    let erl = world.erl("a");
    erl.eval(
        "In = fun(Id, Options) ->
             P = spawn(fun() -> receive stop -> ok end end),
             ok = gen_server:call({router, E}, {login, Id, P, Options}), P
         end",
    );
    erl.eval("Plain = In(a, []), Linked = In(b, [link]), Both = In(c, []), Out = In(d, [link])");
    assert_eq!(erl.call("router", "{login, e, Both, [link]}"), "ok");
    assert_eq!(erl.call("router", "{logout, Out}"), "ok");
    erl.eval("Later = In(f, [link])");
    assert_eq!(server.api.logout("f"), 1);
    assert_eq!(
        erl.eval("[is_process_alive(P) || P <- [Linked, Both, Out, Later]]"),
        "[true,true,true,true]"
    );
    // Its end, however it comes, is as that of any other.
    erl.eval("exit(In(g, [link]), kill)");
    wait_figure(&server, "processes", 3);
    erl.eval("Watched = monitor(process, Linked)");
    server.into_program().kill();
    assert!(erl.message().ends_with(",noconnection}"));
    let alive = "[is_process_alive(P) || P <- [Plain, Linked, Both, Out, Later]]";
    erl.wait(alive, "[true,false,false,true,true]");
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
    let heard = "lists:usort([receive Heard -> Heard after 60000 -> none end || _ <- Crowd])";
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

#[test]
fn node_that_takes_nothing_is_cut_off_and_costs_no_other_an_answer() {
    let world = World::new();
    let server = world.encke(&["--erlang-queue=64KiB"]);
    let [stuck, busy] = ["stuck", "busy"].map(|name| world.erl(name));
    assert_eq!(stuck.call("router", "{login, stuck, self()}"), "ok");
    stuck.program.signal("STOP");
    // More than the sockets on the way and the mailbox can hold.
    let many = 10_000;
    let flood = format!(
        "[{{any, E}} ! {{stuck, binary:copy(<<\"x\">>, 4000)}} || _ <- lists:seq(1, {many})], ok"
    );
    assert_eq!(busy.eval(&flood), "ok");
    busy.wait("gen_server:call({router, E}, {send, stuck, last}, infinity)", "{ok,0}");
    wait_figure(&server, "processes", 0);
    let figures = figures(&server);
    assert_eq!(figures["ended"]["slow"], 1, "{figures}");
    // What was not sent was refused, and counted: nothing is lost in between.
    let done = figures["events"].as_u64().unwrap();
    let refused = figures["refused"]["overloaded"].as_u64().unwrap();
    assert!((many + 1..many + 1000).contains(&(done + refused)), "{figures}");
    stuck.program.signal("CONT");
    stuck.wait("gen_server:call({router, E}, {login, stuck, self()})", "ok");
}

/// Twenty megabytes through a queue of 64 KiB: what does not fit waits, and nothing is refused.
#[test]
fn node_that_floods_itself_hears_all_of_it() {
    let world = World::new();
    let server = world.encke(&["--erlang-queue=64KiB"]);
    let erl = world.erl("loud");
    assert_eq!(erl.call("router", "{login, loud, self()}"), "ok");
    let hear = "Flood = fun() -> [{any, E} ! {loud, binary:copy(<<\"x\">>, 4000)}
            || _ <- lists:seq(1, 5000)] end,
        Hear = fun Hear(0) -> all; Hear(Left) ->
            receive {router_msg, _} -> Hear(Left - 1) after 60000 -> {missing, Left} end end,
        spawn(Flood), Hear(5000)";
    assert_eq!(erl.eval(hear), "all");
    assert_eq!(figures(&server)["refused"]["overloaded"], 0);
}

/// Its mail cannot be delivered, and its own requests cannot be done because of that mail.
#[test]
fn node_that_dies_while_it_floods_itself_holds_up_nobody() {
    let world = World::new();
    let server = world.encke(&["--erlang-queue=64KiB"]);
    let [loud, other] = ["loud", "other"].map(|name| world.erl(name));
    assert_eq!(loud.call("router", "{login, loud, self()}"), "ok");
    assert_eq!(other.call("router", "{login, other, self()}"), "ok");
    let flood = "Flood = fun(Again) -> {any, E} ! {loud, binary:copy(<<\"x\">>, 4000)},
        Again(Again) end, [spawn(fun() -> Flood(Flood) end) || _ <- [1, 2, 3]], ok";
    assert_eq!(loud.eval(flood), "ok");
    wait_for("it is loud", || figures(&server)["events"].as_u64().unwrap() > 5_000);
    loud.program.kill();
    wait_figure(&server, "processes", 1);
    assert_eq!(other.call("router", "{send, other, still_here}"), "{ok,1}");
    assert_eq!(other.message(), "{router_msg,still_here}");
}
