//! Requests of unknown length, each of which is many appends: readers hear the pieces while the
//! request goes on, whatever happens in the middle of it.

use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::json;

use crate::harness::{Answer, Api, End, Program, Server, Stream, Wire, read_answer, wait_for};
use crate::upgrade::Upgraded;

pub(crate) const PATH: &str = "/v1/stream/run/1";

pub(crate) const CLOSED: &str = "Stream-Closed: true\r\n";

/// The head of a long request, with these fields.
pub(crate) fn head(fields: &str) -> String {
    format!(
        "POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n{fields}\
         Transfer-Encoding: chunked\r\n\r\n"
    )
}

/// A long request that has said nothing yet.
pub(crate) fn begin(address: SocketAddr, fields: &str) -> Wire {
    let mut wire = Wire::connect(address);
    wire.send(head(fields));
    wire
}

pub(crate) fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

pub(crate) const LAST: &str = "0\r\n\r\n";

pub(crate) fn create(api: &Api) {
    let created = api.request("PUT", PATH, Some("text/plain"), b"").unwrap();
    assert_eq!(created.status(), 201, "{created:?}");
}

fn delete(api: &Api) {
    assert_eq!(api.request("DELETE", PATH, None, b"").unwrap().status(), 204);
}

fn append(api: &Api, fields: &str, text: &str) -> Answer {
    api.post_with(PATH, &format!("Content-Type: text/plain\r\n{fields}"), text)
}

pub(crate) fn text(api: &Api) -> String {
    let (mut text, mut offset) = (String::new(), "-1".to_owned());
    loop {
        let answer = api.get(&format!("{PATH}?offset={offset}"));
        assert_eq!(answer.status(), 200, "{answer:?}");
        text += &answer.body;
        if answer.head.field("stream-up-to-date").is_some() {
            return text;
        }
        offset = next(&answer);
    }
}

pub(crate) fn next(answer: &Answer) -> String {
    answer.head.field("stream-next-offset").unwrap().to_owned()
}

/// Where the stream is now.
pub(crate) fn tail(api: &Api) -> String {
    next(&api.request("HEAD", PATH, None, b"").unwrap())
}

/// Waits until the stream has this text, and is where it ends then.
#[track_caller]
pub(crate) fn wait_text(api: &Api, expected: &str) -> String {
    wait_for(&format!("it has {expected:?}"), || text(api) == expected);
    tail(api)
}

pub(crate) fn answer(wire: &mut Wire) -> Answer {
    read_answer(wire, "POST").unwrap()
}

fn events(server: &Server) -> Stream {
    let path = format!("{PATH}?live=sse&offset=now");
    let mut reader = Stream::open(server.api.address(), &path, "text/event-stream");
    assert!(reader.chunk().starts_with("event: control\n"));
    reader
}

#[test]
fn pieces_are_read_while_their_request_goes_on_and_the_last_one_closes() {
    let server = Server::start(&["--streams"]);
    create(&server.api);
    let mut reader = events(&server);
    let mut writer = begin(server.api.address(), &format!("{CLOSED}Expect: 100-continue\r\n"));
    assert_eq!(writer.head().status, 100);
    for piece in ["Hello ", "w\u{f6}rld"] {
        writer.send(chunk(piece));
        let event = reader.chunk();
        assert!(event.starts_with(&format!("event: data\ndata:{piece}\nid: ")), "{event}");
        assert!(!event.contains("streamClosed"), "{event}");
    }
    writer.send([&chunk("!"), LAST].concat());
    let answer = answer(&mut writer);
    assert_eq!((answer.status(), answer.head.field("stream-closed")), (204, Some("true")));
    assert_eq!(answer.head.field("connection"), None, "{answer:?}");
    assert!(reader.chunk().starts_with("event: data\ndata:!\nid: "));
    assert_eq!((text(&server.api), tail(&server.api)), ("Hello w\u{f6}rld!".into(), next(&answer)));
    // The connection goes on, and a closed stream takes nothing.
    writer.send(head("") + &chunk("x") + LAST);
    let refused = read_answer(&mut writer, "POST").unwrap();
    assert_eq!(next(&refused), next(&answer));
    refused.problem(409);
}

#[test]
fn what_is_no_such_request_is_read_whole() {
    let server = Server::start(&["--streams"]);
    create(&server.api);
    let ask = |request: String| {
        let mut wire = Wire::connect(server.api.address());
        wire.send(request);
        answer(&mut wire)
    };
    ask(head("") + LAST).problem(400);
    ask(head("").replace("text/plain", "text/html") + &chunk("x") + LAST).problem(409);
    ask(head("").replace("run/1", "run/2") + &chunk("x") + LAST).problem(404);
    // What its writer may repeat is one append, however it comes.
    let producer = "Producer-Id: w\r\nProducer-Epoch: 0\r\nProducer-Seq: 0\r\n";
    for status in [200, 204] {
        let mut wire = begin(server.api.address(), producer);
        wire.send(chunk("a"));
        assert_eq!(append(&server.api, "", ",").status(), 204);
        wire.send([&chunk("b"), LAST].concat());
        assert_eq!(answer(&mut wire).status(), status);
    }
    assert_eq!(text(&server.api), ",ab,");
    assert_eq!(ask(head(CLOSED) + LAST).head.field("stream-closed"), Some("true"));
    // Messages of JSON are taken once they are whole.
    let json = Some("application/json");
    server.api.request("PUT", "/v1/stream/json", json, b"").unwrap();
    let of_json = head("").replace("text/plain", "application/json").replace("run/1", "json");
    let mut wire = Wire::connect(server.api.address());
    wire.send(of_json + &chunk("[{\"a\"") + &chunk(":1}, 2]") + LAST);
    assert_eq!(answer(&mut wire).status(), 204);
    assert_eq!(server.api.get("/v1/stream/json").json(), json!([{ "a": 1 }, 2]));
}

/// More than any body that is read whole, in chunks that are longer than an append.
#[test]
fn long_request_has_no_bound_of_its_own() {
    let server = Server::start(&["--streams"]);
    create(&server.api);
    let piece: String = (0..20_000).map(|n| format!("{n:08}\n")).collect();
    let mut writer = begin(server.api.address(), CLOSED);
    let count = (9 << 20) / piece.len() + 1;
    (0..count).for_each(|_| writer.send(chunk(&piece)));
    writer.send(LAST);
    let answer = answer(&mut writer);
    assert_eq!((answer.status(), answer.head.field("stream-closed")), (204, Some("true")));
    let all = text(&server.api);
    assert!(all == piece.repeat(count), "{} bytes of {}", all.len(), piece.len() * count);
}

#[test]
fn client_that_breaks_off_leaves_what_it_has_said_and_the_stream_open() {
    let server = Server::start(&["--streams"]);
    create(&server.api);
    let mut expected = String::new();
    for is_reset in [true, false] {
        let mut reader = events(&server);
        let mut writer = begin(server.api.address(), CLOSED);
        writer.send(chunk("Once "));
        assert!(reader.chunk().contains("data:Once \n"));
        // It may come behind the append of the first one, or while that is under way.
        writer.send(chunk("upon"));
        if is_reset {
            assert!(reader.chunk().contains("data:upon\n"));
            writer.reset();
        } else {
            writer.half_close();
            assert_eq!(writer.end(), End::Fin);
        }
        expected += "Once upon";
        wait_text(&server.api, &expected);
    }
    // What is no chunk breaks off, too. It may not be told to send all of it again.
    let mut writer = begin(server.api.address(), CLOSED);
    writer.send(chunk("!"));
    let place = wait_text(&server.api, &(expected + "!"));
    writer.send("no chunk\r\n");
    let refused = answer(&mut writer);
    assert!(refused.problem(400)["detail"].as_str().unwrap().ends_with("Send the rest."));
    assert_eq!(next(&refused), place);
    assert_eq!(append(&server.api, "", " a time").status(), 204, "it is open");
}

#[test]
fn what_was_read_is_there_after_a_kill() {
    let data = tempfile::tempdir().unwrap();
    let mut expected = String::new();
    for life in 0..3 {
        let server = Server::start_in(data.path(), &["--streams"]);
        if life == 0 {
            create(&server.api);
        }
        assert_eq!(text(&server.api), expected);
        let mut reader = events(&server);
        let mut writer = begin(server.api.address(), CLOSED);
        for number in 0..20 {
            let piece = format!("{life}.{number} ");
            writer.send(chunk(&piece));
            assert!(reader.chunk().contains(&format!("data:{piece}\n")));
            expected += &piece;
        }
        server.into_program().kill();
    }
    let server = Server::start_in(data.path(), &["--streams"]);
    assert_eq!(text(&server.api), expected);
    assert_eq!(append(&server.api, "", "").status(), 400, "it is open");
}

#[test]
fn request_goes_on_over_upgrades_and_nothing_is_lost_or_doubled() {
    let server = Upgraded::serve(&["--streams"]);
    create(&server.api);
    let mut silent = begin(server.api.address(), "");
    silent.send(chunk("0 "));
    wait_text(&server.api, "0 ");
    let (address, is_over) = (server.api.address(), AtomicBool::new(false));
    let (answer_of_busy, count) = thread::scope(|scope| {
        let busy = scope.spawn(|| {
            let (mut writer, mut number, pace) = (begin(address, ""), 0, Api::new(address));
            while !is_over.load(Ordering::Relaxed) {
                number += 1;
                writer.send(chunk(&format!("{number} ")));
                // Not all come at once. Either process may answer.
                let _ = pace.request("HEAD", PATH, None, b"");
            }
            writer.send(LAST);
            (answer(&mut writer), number)
        });
        server.upgrade(&[]);
        server.upgrade(&[]);
        is_over.store(true, Ordering::Relaxed);
        busy.join().unwrap()
    });
    assert_eq!(answer_of_busy.status(), 204, "{answer_of_busy:?}");
    let expected: String = (0..=count).map(|number| format!("{number} ")).collect();
    let api = server.api.another();
    assert!(text(&api) == expected, "{}", text(&api));
    assert_eq!(next(&answer_of_busy), tail(&api));
    // One who has said nothing since goes on, too.
    silent.send([&chunk("end"), LAST].concat());
    let answer = answer(&mut silent);
    assert_eq!((answer.status(), next(&answer)), (204, tail(&api)));
    assert!(text(&api) == expected + "end");
}

#[test]
fn stream_that_ends_in_the_middle_ends_the_request() {
    let server = Server::start(&["--streams"]);
    let started = |text: &str| {
        create(&server.api);
        let mut writer = begin(server.api.address(), "");
        writer.send(chunk(text));
        (wait_text(&server.api, text), writer)
    };
    let refused = |writer: &mut Wire| {
        writer.send(chunk("more"));
        let refused = answer(writer);
        assert_eq!(refused.head.field("connection"), Some("close"), "{refused:?}");
        refused
    };
    let (place, mut writer) = started("one");
    delete(&server.api);
    let answer = refused(&mut writer);
    answer.problem(404);
    assert_eq!(next(&answer), place);
    // Another one at its path has nothing of it.
    let (place, mut writer) = started("two");
    delete(&server.api);
    create(&server.api);
    let answer = refused(&mut writer);
    assert!(answer.problem(404)["detail"].as_str().unwrap().contains("deleted"));
    assert_eq!((next(&answer), text(&server.api)), (place, String::new()));
    delete(&server.api);
    let (_, mut writer) = started("three");
    let closed = append(&server.api, CLOSED, "");
    let answer = refused(&mut writer);
    answer.problem(409);
    assert_eq!(answer.head.field("stream-closed"), Some("true"));
    assert_eq!((next(&answer), text(&server.api)), (next(&closed), "three".into()));
}

#[test]
fn server_that_stops_says_up_to_where_it_has_appended() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_in(data.path(), &["--streams"]);
    create(&server.api);
    let mut writer = begin(server.api.address(), CLOSED);
    writer.send(chunk("one"));
    let place = wait_text(&server.api, "one");
    server.signal("TERM");
    let refused = answer(&mut writer);
    refused.problem(503);
    assert_eq!((next(&refused), refused.head.field("retry-after")), (place.clone(), None));
    assert_eq!(server.into_program().finish().code(), Some(0));
    let server = Server::start_in(data.path(), &["--streams"]);
    assert_eq!((text(&server.api), tail(&server.api)), ("one".into(), place));
    assert_eq!(append(&server.api, "", "two").status(), 204, "it is open");
}

#[test]
fn each_piece_is_an_event() {
    let server = Server::start(&["--streams", "--streams-events=run:*"]);
    let path = "/v1/stream/run:1";
    server.api.request("PUT", path, Some("text/plain"), b"").unwrap();
    let mut listener = server.listener("run:1");
    let mut writer = Wire::connect(server.api.address());
    writer.send(head(CLOSED).replace("run/1", "run:1"));
    let mut from = None;
    for piece in ["a", "b"] {
        writer.send(chunk(piece));
        let event = listener.event();
        assert_eq!((&event["event"], &event["data"]["text"]), (&json!("append"), &json!(piece)));
        assert!(from.is_none_or(|from| event["data"]["from"] == from), "{event}");
        from = Some(event["data"]["next"].clone());
    }
    writer.send(LAST);
    let answer = answer(&mut writer);
    assert_eq!((answer.status(), answer.head.field("encke-id")), (204, Some("run:1")));
    let close = listener.event();
    assert_eq!((&close["event"], &close["data"]["next"]), (&json!("close"), &json!(next(&answer))));
}

#[test]
fn curl_pipes_what_a_program_says() {
    let server = Server::start(&["--streams"]);
    create(&server.api);
    let mut reader = events(&server);
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--fail", "-X", "POST", "-T", "-"]);
    curl.args(["-H", "Content-Type: text/plain", "-H", "Stream-Closed: true"]);
    curl.arg(format!("{}{PATH}", server.api_url())).stdin(Stdio::piped());
    let (curl, mut input) = Program::spawn_with_input(&mut curl);
    for piece in ["one\n", "two\n"] {
        input.write_all(piece.as_bytes()).unwrap();
        let event = reader.chunk();
        assert!(event.contains(&format!("data:{}\n", piece.trim_end())), "{event}");
    }
    drop(input);
    let finished = curl.finish();
    assert_eq!(finished.code(), Some(0), "{}", finished.stderr);
    assert_eq!(text(&server.api), "one\ntwo\n");
    assert!(reader.chunk().contains("streamClosed"));
}

/// By `appendStream`, and by `fetch` with a stream as its body.
#[test]
fn clients_for_node_pipe_into_one_request() {
    let Some(complete) = testing::tool("compat/streams/complete") else { return };
    let folder = complete.parent().unwrap();
    let server = Server::start(&["--streams"]);
    let script = r#"
        import { DurableStream, stream } from "@durable-streams/client"
        const [url, contentType] = [process.argv[1], "text/plain"]
        const written = await DurableStream.create({ url, contentType })
        const read = await stream({ url, offset: "-1", live: "sse" })
        const reader = read.textStream().getReader()
        // The next piece is written when the one before was read.
        let text = ""
        async function* pieces(all) {
            for (const piece of all) {
                yield new TextEncoder().encode(piece)
                const end = text.length + piece.length
                while (text.length < end) {
                    text += (await reader.read()).value
                }
            }
        }
        await written.appendStream(pieces(["Hello ", "world"]))
        const answer = await fetch(url, {
            method: "POST", body: ReadableStream.from(pieces([", ", "all"])), duplex: "half",
            headers: { "content-type": contentType, "stream-closed": "true" },
        })
        const end = await reader.read()
        console.log(JSON.stringify([text, answer.status, end.done || end.value === ""]))
    "#;
    let mut node = Command::new(folder.join("node"));
    node.args(["--input-type=module", "-e", script, "--"]).current_dir(folder);
    node.arg(format!("{}/v1/stream/client/long", server.api_url()));
    let finished = Program::run(&mut node);
    let said: serde_json::Value = serde_json::from_str(&finished.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", finished.stderr));
    assert_eq!(said, json!(["Hello world, all", 204, true]));
}
