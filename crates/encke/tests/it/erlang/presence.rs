//! Processes that hear who comes and who goes, and what they ask of ids.

use super::node::World;
use crate::harness::wait_for;
use crate::presence::figure;

const LISTENERS: &str = "encke_presence_listeners{kind=\"erlang\"}";

#[test]
fn process_hears_who_comes_and_goes_until_it_says_so_or_ends() {
    let world = World::new();
    let server = world.encke(&["--presence-grace=0.2"]);
    let erl = world.erl("a");
    assert_eq!(erl.call("router", "{presence, self()}"), "ok");
    assert_eq!(erl.call("router", "{presence, self()}"), "ok", "a second time is no error");
    let stream = server.listener("photo:7");
    assert_eq!(erl.message(), "{online,<<\"photo:7\">>}");
    // A process comes and goes as a browser does.
    assert_eq!(erl.call("router", "{login, 123, self()}"), "ok");
    assert_eq!(erl.message(), "{online,123}");
    drop(stream);
    assert_eq!(erl.message(), "{offline,<<\"photo:7\">>}");
    assert_eq!(erl.call("router", "{logout, self()}"), "ok");
    assert_eq!(erl.message(), "{offline,123}");
    assert_eq!(figure(&server, LISTENERS), 1.0);
    assert_eq!(erl.call("router", "{presence_off, self()}"), "ok");
    assert_eq!(erl.call("router", "{presence_off, self()}"), "ok");
    assert_eq!(figure(&server, LISTENERS), 0.0);
    let _stream = server.listener("later");
    assert_eq!(erl.call("router", "{connections, later}"), "{ok,1}");
    assert_eq!(erl.eval("receive Any -> Any after 0 -> nothing end"), "nothing");
}

#[test]
fn process_that_ends_hears_no_more_and_neither_does_one_whose_node_ends() {
    let world = World::new();
    let server = world.encke(&[]);
    let (erl, other) = (world.erl("a"), world.erl("b"));
    erl.eval(
        "Hears = fun() ->
             P = spawn(fun() -> receive stop -> ok end end),
             ok = gen_server:call({router, E}, {presence, P}), P
         end",
    );
    for end in ["P ! stop", "exit(P, kill)"] {
        erl.eval(&format!("(fun() -> P = Hears(), {end} end)()"));
        wait_for("it hears no more", || figure(&server, LISTENERS) == 0.0);
    }
    assert_eq!(other.call("router", "{presence, self()}"), "ok");
    assert_eq!(figure(&server, LISTENERS), 1.0);
    other.program.kill();
    wait_for("its node is gone", || figure(&server, LISTENERS) == 0.0);
    // Of one node there are not too many.
    let many = "lists:usort([catch gen_server:call({router, E},
        {presence, spawn(fun() -> receive stop -> ok end end)}) || _ <- lists:seq(1, 33)])";
    assert_eq!(erl.eval(many), "[ok,{error,overloaded}]");
    assert_eq!(figure(&server, LISTENERS), 32.0);
}

#[test]
fn id_is_asked_for_and_logged_out_as_the_api_does_it() {
    let world = World::new();
    let server = world.encke(&[]);
    let erl = world.erl("a");
    let mut streams = [server.listener("rj"), server.listener("rj")];
    assert_eq!(erl.call("router", "{login, rj, self()}"), "ok");
    assert_eq!(erl.call("router", "{connections, <<\"rj\">>}"), "{ok,3}");
    assert_eq!(erl.call("router", "{connections, nobody}"), "{ok,0}");
    assert_eq!(erl.call("router", "{logout, rj}"), "{ok,3}");
    assert_eq!(erl.message(), "{router_closed,logged_out}");
    streams.iter_mut().for_each(|stream| stream.expect_last_chunk());
    assert_eq!(erl.call("router", "{connections, rj}"), "{ok,0}");
    assert_eq!(erl.call("router", "{logout, rj}"), "{ok,0}");
    for bad in ["{connections, []}", "{logout, <<\"a b\">>}"] {
        assert_eq!(erl.call("router", bad), "{error,bad_id}");
    }
    assert_eq!(erl.call("router", "{presence, rj}"), "{error,bad_request}");
}
