//! A node that stands still holds up those alone who send to its processes.

use std::thread::{self, JoinHandle};

use testing::tried_again;

use super::node::{Erl, World, figures, wait_figure};
use crate::harness::{Server, get, wait_for};

/// More than the sockets on the way to a node hold.
const FLOOD: &str = "[{any, E} ! {stuck, binary:copy(<<\"x\">>, 4000)}
    || _ <- lists:seq(1, 10000)], ok";

/// Stops the node `stuck`, and has `busy` send to it until mail waits.
fn stop(server: &Server, stuck: &Erl, busy: Erl) -> JoinHandle<Erl> {
    stuck.program.signal("STOP");
    let flooding = thread::spawn(move || {
        busy.eval(FLOOD);
        busy
    });
    // Three quarters of the queue, past which there is no room for mail.
    wait_for("mail waits for it", || figures(server)["waiting_bytes"].as_u64().unwrap() > 48 << 10);
    flooding
}

#[test]
fn stopped_node_holds_up_only_those_who_send_to_it() {
    // It is waited for two seconds, which no option changes. Where the machine stands still the
    // first look may come later than that: then it is not known who waited for whom.
    for attempt in 1.. {
        if others_are_served_while_it_is_waited_for() {
            return;
        }
        assert!(attempt < 4, "it is cut off before anybody else is served");
        tried_again("the stopped node was cut off before the first look at the others");
    }
}

/// Whether the first ones were served before the stopped node was cut off.
fn others_are_served_while_it_is_waited_for() -> bool {
    let world = World::new();
    let server = world.encke(&["--erlang-queue=64KiB"]);
    let [stuck, other, busy] = ["stuck", "other", "busy"].map(|name| world.erl(name));
    assert_eq!(stuck.call("router", "{login, stuck, self()}"), "ok");
    assert_eq!(other.call("router", "{login, other, self()}"), "ok");
    let mut live = server.stream("/stream/live", "text/event-stream");
    let cursor = live.cursor.take().unwrap();
    let flooding = stop(&server, &stuck, busy);
    let mut first_look = 0;
    for n in 1..=20 {
        // Both are answered once the event is handed over.
        assert_eq!((server.api.send("other", n), server.api.send("live", n)), (1, 1));
        assert_eq!(other.message(), format!("{{router_msg,{n}}}"));
        assert!(live.chunk().contains(&format!("\"data\":{n}}}")));
        if n == 1 {
            // Not because it was cut off, where it is still waited for.
            first_look = figures(&server)["ended"]["slow"].as_u64().unwrap();
        }
    }
    assert_eq!(other.call("router", "{send, other, from_erlang}"), "{ok,1}");
    assert_eq!(other.message(), "{router_msg,from_erlang}");
    // Whoever comes back and whoever polls is answered as well.
    let mut back = server.ask(get(&format!("/stream/live?last_event_id={cursor}"), &[]));
    back.head();
    assert!(String::from_utf8(back.chunk().unwrap()).unwrap().contains("\"data\":1}"));
    let mut poll = server.ask(get(&format!("/poll/live?after={cursor}&wait=5"), &[]));
    assert_eq!(poll.head().status, 200);
    // Then it is cut off, and the sender goes on with all that it has sent.
    wait_figure(&server, "processes", 1);
    assert_eq!(figures(&server)["ended"]["slow"], 1);
    let busy = flooding.join().unwrap();
    busy.wait("gen_server:call({router, E}, {send, other, last}, infinity)", "{ok,1}");
    stuck.program.signal("CONT");
    stuck.wait("gen_server:call({router, E}, {login, stuck, self()})", "ok");
    first_look == 0
}

#[test]
fn id_that_is_logged_out_is_so_at_once_though_its_node_stands_still() {
    let world = World::new();
    let server = world.encke(&["--erlang-queue=64KiB"]);
    let [stuck, busy] = ["stuck", "busy"].map(|name| world.erl(name));
    assert_eq!(stuck.call("router", "{login, stuck, self()}"), "ok");
    let flooding = stop(&server, &stuck, busy);
    let api = server.api.another();
    let closing = thread::spawn(move || api.logout("stuck"));
    wait_figure(&server, "processes", 0);
    stuck.program.signal("CONT");
    // It is told behind what was sent to it before.
    let closed = "(fun() -> Wait = fun(Again) -> receive {router_closed, Why} -> Why;
        {router_msg, _} -> Again(Again) after 60000 -> none end end, Wait(Wait) end)()";
    assert_eq!(stuck.eval(closed), "logged_out");
    assert_eq!(closing.join().unwrap(), 1);
    flooding.join().unwrap();
}
