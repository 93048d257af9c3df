//! Tokens on the side of the commands that listen: how they are given, go on with the next one, and
//! what is said when there is none.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{
    Finished, Program, Server, TOKEN_SECRET, Wire, encke, get, in_seconds, read_answer, signed,
    token_for, wait_for,
};
use crate::tokens::guarded;

const TRANSPORTS: [&str; 3] = ["sse", "websocket", "poll"];

/// `encke listen ID…` at `server`.
fn listen(server: &Server, ids: &[&str], options: &[&str]) -> Command {
    let mut command = encke(["listen", "--json", "--url", &server.url()]);
    command.args(ids).args(options);
    command
}

/// It ends at once, as one that is refused, and says this much; and never a token.
#[track_caller]
fn expect_end(command: &mut Command, token: &str, says: &[&str]) {
    let Finished { status, stderr, .. } = Program::run(command);
    assert_eq!(status.code(), Some(1), "{stderr}");
    for words in says {
        assert!(stderr.contains(words), "{words}: {stderr}");
    }
    assert!(token.is_empty() || !stderr.contains(token), "{stderr}");
}

/// The payload of the next event.
fn data(listener: &Program) -> Value {
    let line: Value = serde_json::from_str(&listener.line()).unwrap();
    line["data"].clone()
}

fn key() -> String {
    format!("--token-key={TOKEN_SECRET}")
}

#[test]
fn listener_with_a_key_signs_a_token_for_all_its_ids() {
    let server = guarded();
    for transport in TRANSPORTS {
        let options = [&*key(), "--transport", transport];
        let listener = Program::spawn(&mut listen(&server, &["bob", "news"], &options));
        server.wait_online("news", 1);
        // A poll hears the second one when it comes back: it is not counted as delivered then.
        server.api.send("bob", 1);
        server.api.send("news", 2);
        assert_eq!((data(&listener), data(&listener)), (json!(1), json!(2)), "{transport}");
        listener.kill();
        server.wait_online("news", 0);
    }
}

#[test]
fn listener_goes_on_with_the_next_token_of_its_file() {
    let server = guarded();
    let file = tempfile::NamedTempFile::new().unwrap();
    // It is over after the server's leeway of 10 s: time enough for all of them to begin.
    let short = signed(&json!({ "sub": "bob", "exp": in_seconds(0) }));
    fs::write(file.path(), format!("{short}\n")).unwrap();
    let given = format!("@{}", file.path().display());
    let listener = |transport| {
        let options = ["--token", &given, "--transport", transport, "--silence=20"];
        Program::spawn(&mut listen(&server, &["bob"], &options))
    };
    let listeners = TRANSPORTS.map(listener);
    let send = |n: u64| {
        server.wait_online("bob", TRANSPORTS.len() as u64);
        server.api.send("bob", n);
    };
    let hear = |n: u64| {
        for (listener, transport) in listeners.iter().zip(TRANSPORTS) {
            assert_eq!(data(listener), n, "{transport}");
        }
    };
    send(1);
    hear(1);
    fs::write(file.path(), token_for("bob")).unwrap();
    wait_for("the first token is over", || is_refused(&server, &short));
    // Nothing is lost by that.
    server.api.send("bob", 2);
    hear(2);
    send(3);
    hear(3);
    for listener in listeners {
        let said = listener.stderr();
        assert!(!said.contains("gap") && !said.contains(&short), "{said}");
    }
}

fn is_refused(server: &Server, token: &str) -> bool {
    let field = format!("Authorization: Bearer {token}");
    server.ask(get("/poll/bob?wait=0", &[&field])).head().status == 401
}

#[test]
fn listener_with_a_key_comes_back_when_its_token_is_revoked() {
    let server = guarded();
    let options = [&*key(), "--transport", "websocket"];
    let listener = Program::spawn(&mut listen(&server, &["bob"], &options));
    server.wait_online("bob", 1);
    let online = in_seconds(0);
    wait_for("its token is of another second than the next one", || in_seconds(0) > online);
    server.api.post("/tokens/revoke", &json!({ "sub": "bob", "before": in_seconds(0) })).ok();
    wait_for("it is told why", || listener.stderr().contains("3000 token_revoked"));
    wait_for("it is back", || listener.stderr().contains("online again"));
}

#[test]
fn refusals_are_final_and_say_what_to_do() {
    let server = guarded();
    let (bob, over) = (token_for("bob"), signed(&json!({ "sub": "bob", "exp": in_seconds(-60) })));
    for transport in TRANSPORTS {
        let transport = ["--transport", transport];
        expect_end(
            &mut listen(&server, &["bob"], &transport),
            "",
            &["401", "Streams need a token here", "ENCKE_TOKEN", "--token @FILE"],
        );
        let with = |token: &str, id: &str| {
            let mut command = listen(&server, &[id], &transport);
            command.env("ENCKE_TOKEN", token);
            command
        };
        expect_end(&mut with(&over, "bob"), &over, &["it has expired: get a new one"]);
        expect_end(&mut with(&bob, "alice"), &bob, &["403", "does not grant the id alice"]);
        expect_end(&mut with("not one", "bob"), "not one", &["characters that no token has"]);
        expect_end(&mut with("@/no/file", "bob"), "", &["cannot read the token in /no/file"]);
    }
    let wrong = format!("--token-key={}", file!());
    expect_end(&mut listen(&server, &["bob"], &[&wrong]), "", &[file!()]);
}

/// A token that was given is not replaced by one of a key that the environment happens to name.
#[test]
fn given_token_goes_before_a_key() {
    let server = guarded();
    let mut command = listen(&server, &["alice"], &[&key()]);
    expect_end(command.env("ENCKE_TOKEN", token_for("bob")), "", &["does not grant the id alice"]);
}

#[test]
fn help_shows_no_token_of_the_environment() {
    let mut command = encke(["listen", "--help"]);
    let said = Program::run(command.env("ENCKE_TOKEN", "hidden.to.ken")).stdout;
    assert!(said.contains("ENCKE_TOKEN") && !said.contains("hidden"), "{said}");
}

/// Runs a crowd until it has told of so many.
fn until_told(command: &mut Command, told: &str) -> Finished {
    let flood = Program::spawn(command);
    wait_for(told, || flood.stderr().contains(told));
    flood.signal("INT");
    flood.finish()
}

#[test]
fn crowd_shows_a_token_for_each_listener() {
    let server = guarded();
    let flood = |transport: &str, options: &[&str], told: &str| {
        let path = if transport == "poll" { "poll" } else { "stream" };
        let url = format!("{}/{path}/user:{{id}}", server.url());
        let fixed = ["flood", "--users=50", "--json", "--url", &url];
        until_told(encke(fixed).args(["--transport", transport]).args(options), told)
    };
    for transport in ["sse", "ndjson", "websocket", "poll"] {
        let finished = flood(transport, &[&key()], "  open 50 ");
        let report: Value = serde_json::from_str(&finished.stdout).unwrap();
        assert_eq!((&report["opened"], &report["failed"]), (&json!(50), &json!(0)), "{finished:?}");
    }
    let refused = flood("sse", &[], "failed 50");
    assert_eq!(refused.code(), Some(1));
    let last = refused.stderr.lines().last().unwrap();
    assert!(last.contains("status 401") && last.contains("--token-key"), "{last}");
}

const CLAIMS: [&str; 2] = ["--token-issuer=https://i.example", "--token-audience=push"];

/// A server that asks for issuer and audience takes what is signed with them, and nothing else.
#[test]
fn tokens_are_signed_for_whoever_asks_for_issuer_and_audience() {
    let server = Server::start(&[&[&*key()], &CLAIMS[..], &["--token-audience=other"]].concat());
    let url = format!("{}/stream/{{id}}", server.url());
    let flood = |options: &[&str], told: &str| {
        let fixed = ["flood", "--users=20", "--json", "--url", &url, &key()];
        until_told(encke(fixed).args(options), told)
    };
    let finished = flood(&CLAIMS, "  open 20 ");
    let report: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!((&report["opened"], &report["failed"]), (&json!(20), &json!(0)), "{finished:?}");
    for wrong in [&CLAIMS[..1], &CLAIMS[1..]] {
        let refused = flood(wrong, "failed 20");
        assert_eq!(refused.code(), Some(1));
        assert!(refused.stderr.contains("status 401"), "{refused:?}");
    }
    let key = key();
    let options = [&[&*key], &CLAIMS[..]].concat();
    let listener = Program::spawn(&mut listen(&server, &["bob"], &options));
    server.wait_online("bob", 1);
    server.api.send("bob", 1);
    assert_eq!(data(&listener), 1);
    expect_end(&mut listen(&server, &["bob"], &[&key]), "", &["401", "issuer"]);
}

#[test]
fn demo_with_tokens_loses_nothing_and_its_page_has_one() {
    let fixed = ["demo", "--listen=127.0.0.1:0", "--api=127.0.0.1:0", "--json", "--users=200"];
    let mut command = encke(fixed);
    command.args(["--rate=200", &key()]).args(CLAIMS);
    let demo = Program::spawn(&mut command);
    let said = |words: &str| {
        wait_for(&format!("it says {words}"), || demo.stderr().contains(words));
        let text = demo.stderr();
        text.split_once(words).unwrap().1.split_whitespace().next().unwrap().to_owned()
    };
    let (process, look) = (said("server   process "), said("look     http://"));
    said("online   200");
    said("sending");
    let address = look.trim_end_matches('/').parse().unwrap();
    let mut page = Wire::connect(address);
    page.send(get("/", &[]));
    let text = read_answer(&mut page, "GET").unwrap().body;
    let token = text.split_once("\"token\":\"").unwrap().1.split_once('"').unwrap().0;
    let mut stream = Wire::connect(address);
    stream.send(get("/stream/17", &[&format!("Authorization: Bearer {token}")]));
    assert_eq!(stream.head().status, 200);
    let line = fs::read_to_string(Path::new("/proc").join(process).join("cmdline")).unwrap();
    assert!(CLAIMS.iter().all(|claim| line.contains(claim)), "{line}");
    assert!(line.contains("--token-key") && !line.contains(token), "{line}");
    assert!(!stream.chunk().unwrap().is_empty(), "its user hears something");
    drop((page, stream));
    demo.signal("INT");
    let finished = demo.finish();
    assert_eq!(finished.code(), Some(0), "{finished:?}");
    let report: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!(report["flood"]["opened"], 200, "{report}");
}
