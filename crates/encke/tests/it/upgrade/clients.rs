//! Programs of others beside an upgrade: they notice nothing, which is that they neither connect
//! again nor miss anything. Those of `compat/` are tried in `compat::upgrade`, Chromium in
//! `clients/js/e2e/upgrade.test.ts`.

use std::process::Command;

use serde_json::Value;

use super::served::Upgraded;
use crate::harness::{Program, encke, wait_for};

/// The payload of the next event in what a client prints.
fn event(program: &Program) -> Value {
    loop {
        let line = program.line();
        let line = line.strip_prefix("data: ").unwrap_or(&line);
        if line.starts_with('{') {
            let mut event: Value = serde_json::from_str(line).unwrap();
            return event["data"].take();
        }
    }
}

#[test]
fn curl_does_not_notice() {
    let server = Upgraded::serve(&["--keepalive=0.5"]);
    let url = format!("{}/stream/bob", server.url());
    let curl = |options: &[&str]| {
        let mut command = Command::new("curl");
        command.args(["-sSN", "--fail"]).args(options).arg(&url);
        Program::spawn(&mut command)
    };
    if Command::new("curl").arg("--version").output().is_err() {
        return testing::skip("this machine has no curl");
    }
    let sse = "Accept: text/event-stream";
    let clients = [curl(&["-H", sse]), curl(&[]), curl(&["--http1.0"])];
    server.wait_online("bob", clients.len() as u64);
    for round in 0..3 {
        for n in 0..20 {
            let data = round * 100 + n;
            assert_eq!(server.api.send("bob", data), clients.len() as u64);
            clients.iter().for_each(|client| assert_eq!(event(client), data));
        }
        server.upgrade(&[]);
    }
    assert_eq!(server.api.stats()["connections_opened"], clients.len());
}

/// Our own commands: what they print goes on, and nothing of it says that they had to come back.
#[test]
fn own_listeners_do_not_notice() {
    let server = Upgraded::serve(&[]);
    let listen = |transport: &str| {
        let transport = format!("--transport={transport}");
        let url = server.url();
        Program::spawn(&mut encke(["listen", "--json", "--url", &url, "bob", &transport]))
    };
    let clients = ["sse", "websocket", "poll"].map(listen);
    server.wait_online("bob", clients.len() as u64);
    let said = || clients.each_ref().map(Program::stderr);
    wait_for("all have said so", || said().iter().all(|said| said.contains("online")));
    let before = said();
    for n in 0..40 {
        if n % 10 == 5 {
            server.upgrade(&[]);
        }
        server.api.send("bob", n);
        clients.iter().for_each(|client| assert_eq!(event(client), n));
    }
    assert_eq!(said(), before, "nothing to tell");
    assert_eq!(server.api.stats()["connections_opened"], clients.len());
}
