//! What a process may say to Encke, and what comes of it.

use serde_json::{Value, json};

use super::node::{World, figures, wait_figure};
use crate::harness::{TOKEN_SECRET, get, in_seconds, signed};

#[test]
fn any_reaches_the_connections_of_the_id_and_not_its_followers() {
    let world = World::new();
    let server = world.encke(&[]);
    server.api.subscribe("follower", "123");
    let (mut one, mut two) = (server.listener("123"), server.listener("123?id=%7Bphoto,789%7D"));
    let mut follower = server.listener("follower");
    let erl = world.erl("a");
    for (id, payload, data) in [
        ("123", "<<\"Hello\">>", json!("Hello")),
        ("\"123\"", "\"Stra\\x{df}e\"", json!("Straße")),
        ("'123'", "[<<\"a\">>, $b, [\"c\"]]", json!("abc")),
        ("<<\"123\">>", "hello", json!("hello")),
        ("123", "[]", json!([])),
        ("123", "[1,2,3]", json!([1, 2, 3])),
        ("123", "[{a, 1}, {<<\"b\">>, [$c]}]", json!([["a", 1], ["b", [99]]])),
        (
            "123",
            "#{a => [1, -2.5, true], <<\"b\">> => null}",
            json!({"a": [1, -2.5, true], "b": null}),
        ),
        ("123", "{json, <<\"{\\\"x\\\": [1]}\">>}", json!({"x": [1]})),
        ("123", "{song, 7}", json!(["song", 7])),
        ("123", "1 bsl 62", json!(4_611_686_018_427_387_904_u64)),
    ] {
        erl.eval(&format!("{{any, E}} ! {{{id}, {payload}}}"));
        for stream in [&mut one, &mut two] {
            let event: Value = stream.event();
            assert_eq!((&event["about"], &event["data"]), (&json!("123"), &data), "{payload}");
        }
    }
    erl.eval("{any, E} ! {{photo, 789}, x}");
    assert_eq!(two.data(), "x");
    // What the others hear next shows that they heard nothing of these.
    assert_eq!(server.api.send("follower", 1), 1);
    assert_eq!((follower.data(), one.wire.is_open()), (json!(1), true));
    assert_eq!(server.api.send("123", 2), 3);
    assert_eq!((one.data(), two.data(), follower.data()), (json!(2), json!(2), json!(2)));
    assert_eq!(figures(&server)["events"], 12);
    let stats = server.api.stats();
    assert_eq!(stats["events"], 14, "Erlang's and the API's, each once");
    let metrics = server.api.get("/metrics").body;
    assert!(metrics.contains("\nencke_events_total 14\n"), "{metrics}");
}

#[test]
fn options_name_an_event_add_subjects_and_leave_one_connection_out() {
    let world = World::new();
    let server = world.encke(&[]);
    let (mut bob, mut rj) = (server.listener("7"), server.listener("9"));
    let id = bob.head.field("encke-connection").unwrap().to_owned();
    let erl = world.erl("a");
    let all = "{send, room, hi, [{event, typing}, {also, [7, <<\"9\">>]}]}";
    assert_eq!(erl.call("router", all), "{ok,2}");
    for stream in [&mut bob, &mut rj] {
        let event = stream.event();
        let parts = (&event["about"], &event["also"], &event["event"], &event["data"]);
        let expected = (&json!("room"), &json!(["7", "9"]), &json!("typing"), &json!("hi"));
        assert_eq!(parts, expected);
    }
    let but_bob = format!("{{send, 9, 1, [{{also, [7]}}, {{except, \"{id}\"}}]}}");
    assert_eq!(erl.call("router", &but_bob), "{ok,1}");
    assert_eq!((rj.data(), server.api.send("7", 2), bob.data()), (json!(1), 1, json!(2)));
    for refused in ["[link]", "[{event, 1}]", "[{also, 7}]", "[{key, k}]", "7"] {
        let answer = erl.call("router", &format!("{{send, 7, 3, {refused}}}"));
        assert_eq!(answer, "{error,bad_request}", "{refused}");
    }
    assert_eq!((server.api.send("7", 4), bob.data()), (1, json!(4)));
}

#[test]
fn members_of_a_room_are_told_with_what_is_said_of_them() {
    let world = World::new();
    let key = format!("--token-key={TOKEN_SECRET}");
    let options = [&*key, "--presence-grace=0", "--members-max=2"];
    let server = world.encke(&options);
    let erl = world.erl("a");
    let members = |room: &str| erl.call("router", &format!("{{members, {room}}}"));
    assert_eq!(members("\"room:7\""), "{ok,0,[]}");
    let enter = |sub: &str, info: Option<Value>| {
        let mut encke = json!({ "ids": ["room:*"] });
        if let Some(info) = info {
            encke["info"] = info;
        }
        let token = signed(&json!({ "sub": sub, "exp": in_seconds(600), "encke": encke }));
        server.stream(&format!("/stream/room:7?token={token}"), "*/*")
    };
    let _bob = enter("bob", Some(json!({ "name": "Bob", "n": [1] })));
    let told = "{ok,1,[{<<\"bob\">>,#{<<\"n\">> => [1],<<\"name\">> => <<\"Bob\">>}}]}";
    assert_eq!(members("<<\"room:7\">>"), told);
    let seven = enter("7", None);
    let sorted = "begin {ok, N, L} = gen_server:call({router, E}, {members, \"room:7\"}),
        {N, [Id || {Id, _} <- lists:sort(L)], proplists:get_value(7, L)} end";
    assert_eq!(erl.eval(sorted), "{2,[7,<<\"bob\">>],undefined}");
    let _eve = enter("eve", None);
    assert_eq!(members("\"room:7\""), "{ok,3,too_many}");
    seven.wire.reset();
    erl.wait("element(2, gen_server:call({router, E}, {members, \"room:7\"}))", "2");
    assert_eq!(members("#{}"), "{error,bad_id}");
    drop(server);
    let _server = world.encke(&[&key, "--members-max=0"]);
    erl.wait("net_kernel:connect_node(E)", "true");
    assert_eq!(members("\"room:7\""), "{error,members_off}");
}

#[test]
fn past_of_an_id_is_told_in_pages_with_the_parts_of_its_events() {
    let world = World::new();
    let _server = world.encke(&[]);
    let erl = world.erl("a");
    assert_eq!(erl.call("router", "{events, 7}"), "{ok,[],undefined,false}");
    for n in 0..3 {
        let send = format!("{{send, 7, {n}, [{{event, typing}}, {{also, [room]}}]}}");
        assert_eq!(erl.call("router", &send), "{ok,0}");
    }
    let pages = "begin {ok, A, N, false} =
            gen_server:call({router, E}, {events, \"room\", [{limit, 2}]}),
        {ok, B, undefined, false} = gen_server:call({router, E}, {events, room, [{'after', N}]}),
        {ok, C, N2, false} =
            gen_server:call({router, E}, {events, <<\"7\">>, [{order, desc}, {limit, 1}]}),
        {ok, D, undefined, _} =
            gen_server:call({router, E}, {events, 7, [{before, N2}, {order, desc}]}),
        {[P || {_, P, _} <- A ++ B ++ C ++ D], N =:= element(1, lists:last(A)),
            element(3, hd(A))} end";
    let parts = "[{about,7},{also,[<<\"room\">>]},{event,<<\"typing\">>}]";
    assert_eq!(erl.eval(pages), format!("{{[0,1,2,2,1,0],true,{parts}}}"));
    for refused in ["[{limit, 0}]", "[{order, up}]", "[{'after', x}]", "[{since, 1}]", "[link]"] {
        let answer = erl.call("router", &format!("{{events, 7, {refused}}}"));
        assert_eq!(answer, "{error,bad_request}", "{refused}");
    }
    assert_eq!(erl.call("router", "{events, #{}}"), "{error,bad_id}");
}

#[test]
fn events_to_any_are_not_remembered_for_those_who_come_back() {
    let world = World::new();
    let server = world.encke(&[]);
    let erl = world.erl("a");
    let cursor = server.stream("/stream/9", "text/event-stream").cursor.unwrap();
    assert_eq!(erl.eval("{any, E} ! {9, narrow}"), "{9,narrow}");
    assert_eq!(erl.call("router", "{send, 9, wide}"), "{ok,0}");
    let mut back = server.ask(get(&format!("/stream/9?last_event_id={cursor}"), &[]));
    back.head();
    let line = String::from_utf8(back.chunk().unwrap()).unwrap();
    assert!(line.contains("\"wide\""), "{line}");
}

#[test]
fn calls_casts_and_messages_ask_for_the_same() {
    let world = World::new();
    let server = world.encke(&[]);
    let mut stream = server.listener("7");
    let erl = world.erl("a");
    assert_eq!(erl.call("router", "{send, 7, call}"), "{ok,1}");
    erl.eval("gen_server:cast({router, E}, {send, 7, cast})");
    erl.eval("{router, E} ! {send, 7, message}");
    assert_eq!(erl.call("any", "{7, any_call}"), "{ok,1}");
    for data in ["call", "cast", "message", "any_call"] {
        assert_eq!(stream.data(), data);
    }
    let many = "[gen_server:send_request({router, E}, {send, 7, N}) || N <- lists:seq(1, 1000)]";
    let answers = format!("lists:usort([gen_server:receive_response(R, 30000) || R <- {many}])");
    assert_eq!(erl.eval(&answers), "[{reply,{ok,1}}]");
    (1..=1000).for_each(|n| assert_eq!(stream.data(), n));
}

#[test]
fn subscriptions_are_kept_by_the_manager() {
    let world = World::new();
    let server = world.encke(&[]);
    let erl = world.erl("a");
    let pairs =
        "[{subscription, bob, rj}, {subscription, 7, \"rj\"}, {subscription, {photo, 1}, rj}]";
    let add = format!("{{add, {pairs}}}");
    assert_eq!(erl.call("subsmanager", &add), "{ok,3}");
    assert_eq!(erl.call("subsmanager", &add), "{ok,0}");
    assert_eq!(erl.call("subsmanager", "{add, []}"), "{ok,0}");
    // As the original answered.
    assert_eq!(erl.call("subsmanager", &format!("{{add_subscriptions, {pairs}}}")), "ok");
    assert_eq!(erl.call("subsmanager", "{add_subscriptions, []}"), "ok");
    let sorted = "lists:sort(gen_server:call({subsmanager, E}, {get_subscribers, <<\"rj\">>}))";
    assert_eq!(erl.eval(sorted), "[7,{photo,1},<<\"bob\">>]");
    assert_eq!(server.api.ids("/subscribers/rj", 10).len(), 3);
    let mut bob = server.listener("bob");
    assert_eq!(erl.call("router", "{send, rj, hi}"), "{ok,1}");
    assert_eq!(bob.data(), "hi");
    let remove = "{remove, [{subscription, bob, rj}, {subscription, nobody, rj}]}";
    assert_eq!(erl.call("subsmanager", remove), "{ok,1}");
    assert_eq!(erl.call("subsmanager", &remove.replace("remove", "remove_subscriptions")), "ok");
    assert_eq!(erl.eval(sorted), "[7,{photo,1}]");
    assert_eq!(erl.call("subsmanager", "{get_subscribers, nobody}"), "[]");
    // More than one slice of the graph.
    let many = "{add, [{subscription, N, star} || N <- lists:seq(1, 3000)]}";
    assert_eq!(erl.call("subsmanager", many), "{ok,3000}");
    let all = "gen_server:call({subsmanager, E}, {get_subscribers, star}) =:= lists:seq(1, 3000)";
    assert_eq!(erl.eval(all), "true");
}

#[test]
fn what_makes_no_sense_is_refused_counted_and_harms_nobody() {
    let world = World::new();
    let server = world.encke(&["--max-backlog=4096"]);
    let erl = world.erl("a");
    for (name, request, reason) in [
        ("router", "{frobnicate, 1}", "bad_request"),
        ("router", "{login, 1, me}", "bad_request"),
        ("router", "{login, 1, self(), [links]}", "bad_request"),
        ("router", "{login, 1, self(), [link, links]}", "bad_request"),
        ("router", "{send, 1, self(), [link]}", "bad_request"),
        ("router", "{send, [], 1}", "bad_id"),
        ("router", "{send, {self()}, 1}", "bad_id"),
        ("router", "{send, lists:duplicate(256, $a), 1}", "id_too_long"),
        ("router", "{send, 1 bsl 1000, 1}", "id_too_long"),
        ("router", "{send, 1, #{a => 1, <<\"a\">> => 2}}", "doubled_key"),
        ("router", "{send, <<\"a b\">>, 1}", "bad_id"),
        ("router", "{send, #{}, 1}", "bad_id"),
        ("router", "{send, 1, self()}", "no_json"),
        ("router", "{send, 1, {json, {}}}", "not_text"),
        ("router", "{send, 1, <<255>>}", "not_utf8"),
        ("router", "{send, 1, #{self() => 1}}", "bad_key"),
        ("router", "{send, 1, {json, <<\"{\">>}}", "not_json"),
        ("router", "{send, 1, binary:copy(<<\"x\">>, 5000)}", "too_large"),
        ("router", "{send, 1, <<1:3>>}", "no_json"),
        ("subsmanager", "{add_subscriptions, [{subscription, a}]}", "bad_request"),
        ("subsmanager", "{add_subscriptions, [{subscription, a, b} | c]}", "bad_request"),
        ("subsmanager", "{get_subscribers, []}", "bad_id"),
        ("any", "nonsense", "bad_request"),
    ] {
        assert_eq!(erl.call(name, request), format!("{{error,{reason}}}"), "{name} {request}");
    }
    // Casts of the same have nobody to be told; thousands of them are a few lines of the log.
    erl.eval("[{any, E} ! {N, self(), fun() -> ok end} || N <- lists:seq(1, 2000)], ok");
    erl.eval("[{nobody, E} ! N || N <- lists:seq(1, 10)], ok");
    assert_eq!(erl.call("router", "{send, 1, fine}"), "{ok,0}");
    let figures = figures(&server);
    assert_eq!(figures["refused"]["bad_request"], 2008, "{figures}");
    assert_eq!(figures["unknown"], 10);
    let lines = server.stderr().lines().filter(|line| line.contains("was not done")).count();
    assert!((1..100).contains(&lines), "{lines}");
    let noproc = "catch gen_server:call({nobody, E}, x)";
    assert!(erl.eval(noproc).starts_with("{'EXIT',{noproc,"));
    assert_eq!(erl.eval("rpc:call(E, erlang, node, [])"), "{badrpc,notsup}");
}

#[test]
fn node_is_hidden_answers_pings_and_takes_links() {
    let world = World::new();
    let server = world.encke(&[]);
    let erl = world.erl("a");
    assert_eq!(erl.eval("net_adm:ping(E)"), "pong");
    assert_eq!(erl.eval("{nodes(), nodes(hidden)}"), "{[],['encke@127.0.0.1']}");
    erl.wait("is_pid(global:whereis_name(router))", "true");
    let link = "R = global:whereis_name(router), process_flag(trap_exit, true), link(R), unlink(R)";
    assert_eq!(erl.eval(link), "true");
    assert_eq!(
        erl.eval("link(R), monitor(process, R), gen_server:call(R, {send, 1, x})"),
        "{ok,0}"
    );
    wait_figure(&server, "nodes", 1);
    server.into_program().kill();
    let mut gone = [erl.message(), erl.message()];
    gone.sort();
    assert!(gone[0].contains("'DOWN'") && gone[0].contains("noconnection"), "{gone:?}");
    assert!(gone[1].contains("'EXIT'") && gone[1].contains("noconnection"), "{gone:?}");
}
