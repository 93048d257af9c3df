//! The OTP application `clients/erlang`: compiled with plain `erlc`, used as its users do.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;

use serde_json::json;
use tempfile::TempDir;

use super::node::{COOKIE, Erl, World, wait_figure};
use crate::harness::{DEADLINE, wait_for};

/// The application's folder.
pub(super) fn sources() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/erlang"))
}

/// Compiles the application and its example.
pub(super) fn compiled() -> TempDir {
    let ebin = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    for folder in ["src", "examples"] {
        let entries = std::fs::read_dir(sources().join(folder)).unwrap();
        files.extend(entries.map(|entry| entry.unwrap().path()));
    }
    files.retain(|file| file.extension().is_some_and(|extension| extension == "erl"));
    let mut erlc = Command::new("erlc");
    erlc.args(["-W", "-Werror", "-o"]).arg(ebin.path()).args(&files);
    assert!(erlc.status().unwrap().success());
    std::fs::copy(sources().join("src/encke.app.src"), ebin.path().join("encke.app")).unwrap();
    ebin
}

/// A node with the application started.
fn started(world: &World, ebin: &TempDir) -> Erl {
    let path = ebin.path().to_str().unwrap();
    let nodes = "['encke@127.0.0.1']";
    let erl = world.erl_with("app", COOKIE, &["-pa", path, "-encke", "nodes", nodes]);
    assert_eq!(erl.eval("application:start(encke)"), "ok");
    assert_eq!(erl.eval("router:await(infinity)"), "ok");
    erl
}

#[test]
fn process_waits_for_encke_that_comes_after_it() {
    let (world, ebin) = (World::new(), compiled());
    let path = ebin.path().to_str().unwrap();
    let nodes = "['encke@127.0.0.1']";
    let erl = world.erl_with("app", COOKIE, &["-pa", path, "-encke", "nodes", nodes]);
    assert_eq!(erl.eval("application:start(encke)"), "ok");
    assert_eq!(erl.eval("router:await(0)"), "{error,no_encke}");
    assert_eq!(erl.eval("router:await(1)"), "{error,no_encke}");
    erl.eval("Self = self(), spawn(fun() -> Self ! {came, router:await(infinity)} end)");
    let server = world.encke(&[]);
    assert_eq!(erl.message(), "{came,ok}");
    assert_eq!(erl.eval("router:send(rj, hello)"), "{ok,0}");
    drop(server);
}

/// What `docs/erlang.md` says to save and to type.
#[test]
fn page_shows_a_process_that_listens() {
    let page = include_str!("../../../../../docs/erlang.md");
    let module = page.split("```erlang\n").nth(1).and_then(|rest| rest.split("```").next());
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("inbox.erl"), module.unwrap()).unwrap();
    let mut erlc = Command::new("erlc");
    erlc.args(["-W", "-Werror", "-o"]).arg(folder.path()).arg(folder.path().join("inbox.erl"));
    assert!(erlc.status().unwrap().success());
    let world = World::new();
    let server = world.encke(&[]);
    let erl = world.erl_with("pages", COOKIE, &["-pa", folder.path().to_str().unwrap()]);
    erl.eval("Inbox = inbox:start(bob)");
    wait_figure(&server, "processes", 1);
    assert_eq!(erl.call("subsmanager", "{add_subscriptions, [{subscription, bob, rj}]}"), "ok");
    let mut browser = server.listener("bob");
    assert_eq!(server.api.send("rj", json!({"text": "Hello"})), 2);
    assert_eq!(erl.program.line(), "#{<<\"text\">> => <<\"Hello\">>}");
    assert_eq!(browser.data(), json!({"text": "Hello"}));
    assert_eq!(erl.call("router", "{send, rj, #{text => <<\"Hello\">>}}"), "{ok,2}");
    assert_eq!(erl.call("router", "{logout, bob}"), "{ok,2}");
    erl.wait("is_process_alive(Inbox)", "false");
}

/// The blocks of Erlang in a page.
fn blocks(page: &str) -> Vec<&str> {
    page.split("```erlang\n").skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

#[test]
fn pages_show_calls_as_they_are_answered() {
    let (world, ebin) = (World::new(), compiled());
    let _server = world.encke(&[]);
    let erl = started(&world, &ebin);
    let [first] = blocks(include_str!("../../../../../README.md"))[..] else { panic!("one block") };
    let lines = first.lines().map(|line| line.split('%').next().unwrap().trim());
    let calls: Vec<&str> = lines.map(|line| line.trim_end_matches('.')).collect();
    assert_eq!(erl.eval(calls[0]), "ok");
    assert_eq!(erl.eval("subsmanager:add([{subscription, bob, rj}])"), "{ok,1}");
    assert_eq!(erl.eval(calls[1]), "{ok,1}");
    assert_eq!(erl.message(), "{router_msg,#{song => <<\"Hello\">>}}");
    assert_eq!(erl.eval("subsmanager:remove([{subscription, bob, rj}])"), "{ok,1}");
    assert_eq!(erl.eval("router:logout(self())"), "ok");
    let readme = include_str!("../../../../../clients/erlang/README.md");
    let block = blocks(readme)[0];
    assert_eq!(erl.eval(block.trim().trim_end_matches('.')), "<<\"Hi\">>");
    let page = blocks(include_str!("../../../../../docs/api-examples.md"));
    let calls = page[1..].iter().flat_map(|block| block.lines());
    let answers: Vec<String> = calls.map(|line| erl.eval(line.trim_end_matches('.'))).collect();
    let shown = [
        "{ok,1}",
        "{ok,0}",
        "{ok,0}",
        "[<<\"bob\">>]",
        "{ok,0}",
        "{ok,0,[]}",
        "{ok,1}",
        "ok",
        "{ok,0}",
        "{error,bad_id}",
    ];
    assert_eq!(answers, shown);
}

#[test]
fn application_connects_and_offers_what_the_router_and_the_manager_do() {
    let (world, ebin) = (World::new(), compiled());
    let server = world.encke(&[]);
    let erl = started(&world, &ebin);
    assert_eq!(erl.eval("router:login({photo, 1}, self())"), "ok");
    let add = "subsmanager:add_subscriptions([{subscription, {photo, 1}, rj}])";
    assert_eq!(erl.eval(add), "ok");
    let count = "{subsmanager:add([{subscription, 7, rj}, {subscription, 8, rj}]),
        subsmanager:remove([{subscription, 7, rj}]),
        subsmanager:remove_subscriptions([{subscription, 8, rj}]),
        subsmanager:add_subscriptions([{subscription, 8, []}])}";
    assert_eq!(erl.eval(count), "{{ok,2},{ok,1},ok,{error,bad_id}}");
    let all = "subsmanager:get_subscribers(rj) =:= [encke_id:normal({photo, 1})]";
    assert_eq!(erl.eval(all), "true");
    assert_eq!(erl.eval("router:send(rj, hello)"), "{ok,1}");
    assert_eq!(erl.message(), "{router_msg,hello}");
    let options = "[{event, greeting}, {also, [eve]}, {except, <<\"9f86d081884c7d65\">>}]";
    assert_eq!(erl.eval(&format!("router:send(rj, again, {options})")), "{ok,1}");
    assert_eq!(erl.message(), "{router_msg,again}");
    assert_eq!(erl.eval(&add.replace("add", "remove")), "ok");
    assert_eq!(
        erl.eval("{router:presence(self()), router:connections({photo, 1})}"),
        "{ok,{ok,1}}"
    );
    assert_eq!(erl.eval("router:members({photo, 1})"), "{ok,0,[]}", "a process is no user");
    assert_eq!(erl.eval("router:login(\"eve\", self())"), "ok");
    assert_eq!(erl.message(), "{online,<<\"eve\">>}");
    assert_eq!(erl.eval("{router:presence_off(self()), router:logout(eve)}"), "{ok,{ok,1}}");
    assert_eq!(erl.message(), "{router_closed,logged_out}");
    assert_eq!(erl.eval("router:logout(self())"), "ok");
    assert_eq!(erl.eval("router:send(rj, hello)"), "{ok,0}");
    for (id, normal) in
        [("\"12\"", "12"), ("<<\"007\">>", "<<\"007\">>"), ("<<\"{a,1.5}\">>", "<<\"{a,1.5}\">>")]
    {
        assert_eq!(erl.eval(&format!("encke_id:normal({id})")), normal);
    }
    // Encke comes back, and the application with it.
    server.into_program().kill();
    erl.wait("global:whereis_name(router)", "undefined");
    let server = world.encke(&[]);
    wait_figure(&server, "nodes", 1);
    erl.wait("is_pid(global:whereis_name(router))", "true");
    assert_eq!(erl.eval("router:send(rj, hello)"), "{ok,0}");
}

#[test]
fn processes_are_logged_in_again_when_encke_is_back() {
    let (world, ebin) = (World::new(), compiled());
    let server = world.encke(&[]);
    let erl = started(&world, &ebin);
    erl.eval(
        "In = fun(Ids, Options) ->
             P = spawn(fun() -> receive stop -> ok end end),
             [ok = router:login(Id, P, Options) || Id <- Ids], P
         end,
         Linked = In([page], [link]), Stays = In([a, {b, 2}, a], []), Out = In([out], []),
         Ended = In([ended], []), exit(Ended, kill), ok = router:login(me, self()),
         ok = router:logout(Out)",
    );
    wait_figure(&server, "processes", 3);
    server.into_program().kill();
    erl.wait("is_process_alive(Linked)", "false");
    let server = world.encke(&[]);
    wait_figure(&server, "processes", 2);
    // A process counts from the first of its ids on.
    for id in ["a", "%7Bb,2%7D"] {
        server.wait_online(id, 1);
    }
    assert_eq!(server.api.send("me", "again"), 1);
    assert_eq!(erl.message(), "{router_msg,<<\"again\">>}");
    // Twenty thousand of them. One after another they would take a round trip each.
    erl.eval(
        "Me = self(), Many = [spawn(fun() ->
             ok = router:login(N, self()), Me ! in, receive stop -> ok end
         end) || N <- lists:seq(1, 20000)],
         [receive in -> ok end || _ <- Many], ok",
    );
    wait_figure(&server, "processes", 20_002);
    server.into_program().kill();
    let server = world.encke(&[]);
    wait_figure(&server, "processes", 20_002);
    assert_eq!(server.api.send("20000", 1), 1);
}

#[test]
fn supervisors_start_what_stands_for_encke() {
    let (world, ebin) = (World::new(), compiled());
    let server = world.encke(&[]);
    let erl = started(&world, &ebin);
    assert_eq!(erl.eval("subsmanager:first_run()"), "{atomic,ok}");
    erl.eval("process_flag(trap_exit, true), {ok, R} = router:start_link()");
    assert_eq!(erl.eval("{ok, S} = subsmanager:start_link(), is_process_alive(S)"), "true");
    assert_eq!(erl.eval("router:start_link() =:= {error, {already_started, R}}"), "true");
    assert_eq!(erl.eval("{subsmanager:stop(), is_process_alive(S)}"), "{ok,false}");
    assert!(erl.message().ends_with("normal}"));
    assert_eq!(erl.eval("router:send(rj, goes_on)"), "{ok,0}");
    server.into_program().kill();
    assert!(erl.message().ends_with("{encke_is_gone,noconnection}}"));
    // It waits for Encke, in a process of its own so that the test can go on.
    erl.eval("Me = self(), spawn(fun() -> Me ! router:start_link(), receive stop -> ok end end)");
    let _server = world.encke(&[]);
    assert!(erl.message().starts_with("{ok,<"));
}

#[test]
fn users_of_the_page_server_hear_each_other() {
    let (world, ebin) = (World::new(), compiled());
    let server = world.encke(&[]);
    let erl = started(&world, &ebin);
    let start = format!(
        "{{ok, Pages}} = page_server:start(0, \"{}\"), page_server:port(Pages)",
        server.url()
    );
    let port: u16 = erl.eval(&start).parse().unwrap();
    let pages = SocketAddr::from(([127, 0, 0, 1], port));
    erl.eval("subsmanager:add_subscriptions([{subscription, bob, alice}])");
    let page = read_to_end(pages, "GET /bob HTTP/1.1\r\nHost: h\r\n\r\n");
    assert!(page.contains("<h1>bob</h1>") && page.contains(&server.url()), "{page}");
    let mut bob = server.listener("bob");
    // Both processes and bob's browser.
    let say = "POST /alice HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n<hi>!";
    assert!(read_to_end(pages, say).ends_with("\r\n\r\n3"));
    assert_eq!(bob.event()["data"], json!({"from": "alice", "said": "<hi>!"}));
    let page = read_to_end(pages, "GET /bob HTTP/1.1\r\nHost: h\r\n\r\n");
    assert!(page.contains("<li>&lt;hi&gt;!</li>"), "{page}");
    // A stream that a process of the node holds ends with Encke.
    let mut feed = TcpStream::connect(pages).unwrap();
    feed.write_all(b"GET /feed/carol HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    wait_for("carol is online", || server.api.connections("carol") == 1);
    assert_eq!(server.api.send("carol", "hi"), 1);
    feed.set_read_timeout(Some(DEADLINE)).unwrap();
    let (mut heard, mut byte) = (String::new(), [0]);
    while !heard.ends_with("\r\n\r\n<<\"hi\">>\n") {
        feed.read_exact(&mut byte).expect(&heard);
        heard.push(char::from(byte[0]));
    }
    drop(server.into_program());
    assert_eq!(feed.read(&mut byte).unwrap(), 0, "it ends");
}

/// All that is answered to `request` until the connection is closed.
fn read_to_end(pages: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(pages).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
