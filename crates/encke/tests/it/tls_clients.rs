//! These are streams over TLS, as the TLS of other languages and libraries speaks it. Each client
//! trusts the authority of the test, checks the server's name, and hears the same events by both
//! versions.

use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::harness::{Authority, Program, Server, get};

const VERSIONS: [&str; 2] = ["1.2", "1.3"];

/// Lengths of events: within a record, around its end, and of several.
const LENGTHS: [usize; 6] = [0, 1, 16_300, 16_384, 16_400, 100_000];

fn server(authority: &Authority) -> Server {
    let pair = authority.issue("own", &["localhost"]).options();
    Server::start(&["--tls-listen=127.0.0.1:0", "--max-backlog=1MiB", &pair[0], &pair[1]])
}

/// A source of `fixtures`.
fn fixture(name: &str) -> String {
    format!("{}/tests/it/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Whether `program` starts; where it does not, the test is skipped.
fn is_here(program: &str, version: &str) -> bool {
    let started = Command::new(program)
        .arg(version)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if let Err(error) = &started {
        assert_eq!(error.kind(), ErrorKind::NotFound, "{program}: {error}");
        testing::skip(&format!("this machine has no {program}"));
    }
    started.is_ok()
}

/// The next line of `client` that is an event: others tell of the handshake, or are of HTTP.
fn event(client: &Program) -> Value {
    loop {
        let line = client.line();
        if line.starts_with("{\"") {
            return serde_json::from_str(&line).unwrap();
        }
    }
}

/// `client` is to hear as bob, whole and in order.
fn hears(server: &Server, client: &Program) {
    server.wait_online("bob", 1);
    for len in LENGTHS {
        assert_eq!(server.api.send("bob", "x".repeat(len)), 1);
    }
    for n in 0..100 {
        assert_eq!(server.api.send("bob", n), 1);
    }
    for len in LENGTHS {
        assert_eq!(event(client)["data"].as_str().unwrap().len(), len);
    }
    for n in 0..100 {
        assert_eq!(event(client)["data"], n);
    }
}

/// What `command` becomes with port, authority and version hears over each version, and is counted.
fn hears_by_both_versions(command: impl Fn() -> Command, last: &[&str]) {
    let authority = Authority::new();
    let server = server(&authority);
    for version in VERSIONS {
        let mut command = command();
        command.arg(server.tls_listen().port().to_string()).arg(authority.ca());
        let client = Program::spawn(command.arg(version).args(last));
        hears(&server, &client);
        client.kill();
        server.wait_online("bob", 0);
        assert_eq!(handshakes(&server, version), 1);
    }
}

/// How many came to something in that version.
fn handshakes(server: &Server, version: &str) -> u64 {
    let start = format!("encke_tls_handshakes_total{{version=\"{version}\",");
    let metrics = server.api.get("/metrics").body;
    let figures = metrics.lines().filter(|line| line.starts_with(&start));
    figures.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

#[test]
fn python_hears_by_both_versions() {
    if is_here("python3", "--version") {
        let command = || {
            let mut command = Command::new("python3");
            command.arg(fixture("hear.py"));
            command
        };
        hears_by_both_versions(command, &[]);
    }
}

#[test]
fn java_hears_by_both_versions_and_transports() {
    if is_here("java", "--version") {
        // What runs for seconds does not pay for the second of its compilers.
        let java = || {
            let mut java = Command::new("java");
            java.args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
            java
        };
        // Once: a source that `java` is given it compiles each time anew. As a module, for Java
        // without its development kit has no `javac`.
        let classes = tempfile::tempdir().unwrap();
        let mut build = java();
        build.args(["--module", "jdk.compiler/com.sun.tools.javac.Main", "-d"]);
        assert!(build.arg(classes.path()).arg(fixture("Hear.java")).status().unwrap().success());
        let command = || {
            let mut command = java();
            command.arg("-cp").arg(classes.path()).arg("Hear");
            command
        };
        hears_by_both_versions(command, &["sse"]);
        hears_by_both_versions(command, &["websocket"]);
    }
}

#[test]
fn go_hears_by_both_versions() {
    if is_here("go", "version") {
        // Built first, which may take longer than a test waits.
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("hear");
        let mut build = Command::new("go");
        build.args(["build", "-o"]).arg(&program).arg(fixture("hear.go"));
        // A cache that a build server need not have.
        if std::env::var_os("HOME").is_none() {
            build.env("GOCACHE", folder.path().join("cache"));
        }
        assert!(build.status().unwrap().success());
        hears_by_both_versions(|| Command::new(&program), &[]);
    }
}

/// `gnutls-cli` as a stream of bob, with the way to tell it more.
fn gnutls(server: &Server, ca: &Path, version: &str) -> (Program, std::process::ChildStdin) {
    let mut command = Command::new("gnutls-cli");
    command.arg(format!("--x509cafile={}", ca.display()));
    command.arg(format!("--priority=NORMAL:-VERS-ALL:+VERS-TLS{version}"));
    command.args(["--inline-commands", "--alpn=http/1.1", "localhost"]);
    command.args(["-p", &server.tls_listen().port().to_string()]);
    let (client, mut input) = Program::spawn_with_input(&mut command);
    input.write_all(get("/stream/bob", &[]).as_bytes()).unwrap();
    (client, input)
}

#[test]
fn gnutls_hears_by_both_versions_and_updates_its_keys() {
    if !is_here("gnutls-cli", "--version") {
        return;
    }
    let authority = Authority::new();
    let server = server(&authority);
    for version in VERSIONS {
        let (client, mut input) = gnutls(&server, &authority.ca(), version);
        hears(&server, &client);
        if version == "1.3" {
            // More than eight of them a second it does not take from anybody.
            for n in 0..5 {
                // It asks for ours too: what is heard next is under another key.
                input.write_all(b"^rekey^\n").unwrap();
                assert_eq!(server.api.send("bob", n), 1);
                assert_eq!(event(&client)["data"], n);
            }
        }
        client.kill();
        server.wait_online("bob", 0);
        assert_eq!(handshakes(&server, version), 1);
    }
}
