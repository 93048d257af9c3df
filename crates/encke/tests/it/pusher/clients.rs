//! What Pusher's users have, as their registries have it: pusher-js and Laravel Echo, and Pusher's
//! libraries for backends in JavaScript, Python and Go. Their programs stand in
//! `compat/pusher-node`, `compat/pusher-python` and `compat/pusher-go`; `cargo xtask programs`
//! installs what they take.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::{AppServer, SECRET, data_of};
use crate::compat::programs_of;
use crate::harness::{Authority, DEADLINE, Program};

/// Where the programs of a language are; `None` where its tools could not be had.
fn programs(language: &str) -> Option<PathBuf> {
    let name = format!("pusher-{language}");
    Some(programs_of([&*name])?.join(name))
}

/// The addresses and the app that a program is told.
fn told(apps: &AppServer, command: &mut Command, is_page: bool) {
    let listen = is_page.then(|| apps.server.listen());
    told_at(listen, apps.server.api.address(), command);
}

fn told_at(listen: Option<SocketAddr>, api: SocketAddr, command: &mut Command) {
    let addresses = listen.into_iter().chain([api]);
    command.args(addresses.map(|address| address.to_string())).args(["1", "app-1", SECRET]);
}

/// Runs a page in Node, and checks that it has done each of `steps`.
fn page(file: &str, steps: &[&str]) {
    let Some(folder) = programs("node") else { return };
    let apps = AppServer::start(&["--presence-grace=0"]);
    let mut command = Command::new(folder.join("node"));
    told(&apps, command.arg(folder.join(file)), true);
    does_each(&mut command, steps);
}

fn does_each(command: &mut Command, steps: &[&str]) {
    let program = Program::spawn(command);
    for step in steps {
        let line = program.line_within(DEADLINE);
        let line = line.unwrap_or_else(|why| panic!("{step}: {why}{}", program.stderr()));
        assert_eq!(line, format!("{step:?}"));
    }
    assert_eq!(program.finish().code(), Some(0));
}

/// What the page of pusher-js does.
const PUSHER_JS: [&str; 11] = [
    "connected",
    "public and private channels",
    "presence",
    "triggers",
    "client events",
    "encrypted channels",
    "users",
    "watchlist",
    "looks",
    "cache channels",
    "ends",
];

#[test]
fn pusher_js_does_all_that_its_documentation_shows() {
    page("pusher-js.js", &PUSHER_JS);
}

#[test]
fn pusher_js_and_the_library_of_its_backend_do_the_same_over_tls() {
    let Some(folder) = programs("node") else { return };
    let authority = Authority::new();
    let [cert, key] = authority.issue("own", &["localhost", "127.0.0.1"]).options();
    let ports = ["--tls-listen=127.0.0.1:0", "--tls-api=127.0.0.1:0"];
    let apps = AppServer::start(&[&ports[..], &[&cert, &key, "--presence-grace=0"]].concat());
    let mut command = Command::new(folder.join("node"));
    command.env("PUSHER_TLS", "1").env("NODE_EXTRA_CA_CERTS", authority.ca());
    let (listen, api) = (apps.server.tls_listen(), apps.server.tls_api());
    told_at(Some(listen), api, command.arg(folder.join("pusher-js.js")));
    does_each(&mut command, &PUSHER_JS);
    let streams = apps.server.api.stats()["tls"]["faults"].clone();
    assert_eq!(streams, json!({}));
}

#[test]
fn laravel_echo_does_all_that_laravel_s_documentation_shows() {
    let of = |broadcaster: &str| {
        ["private", "refused", "presence", "typing", "leaving"]
            .map(|step| format!("{broadcaster}: {step}"))
    };
    let steps = [of("reverb"), of("pusher")].concat();
    page("echo.js", &steps.iter().map(String::as_str).collect::<Vec<_>>());
}

/// The list of cases is for other servers, too: what asks them of any server finds none wrong here.
#[test]
fn cases_are_kept_as_any_server_is_asked_them() {
    let Some(folder) = programs_of(["python"]) else { return };
    let apps = AppServer::start(&["--presence-grace=0"]);
    let asker = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../compat/pusher-python/run.py");
    let mut command = Command::new("python3");
    command.arg(asker).arg("--patience=60");
    command.arg(format!("--listen={}", apps.server.listen()));
    command.arg(format!("--api={}", apps.server.api.address()));
    command.env("PYTHONPATH", folder.join("python/packages"));
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    let finished = Program::run(&mut command);
    assert_eq!(finished.code(), Some(0), "{finished:?}");
}

#[test]
fn libraries_for_backends_send_ask_and_end() {
    for (language, has_end) in [("node", true), ("python", true), ("go", false)] {
        let Some(folder) = programs(language) else { continue };
        let apps = AppServer::start(&[]);
        let mut command = match language {
            "node" => Command::new(folder.join("node")),
            "python" => Command::new("python3"),
            _ => Command::new(folder.join("clients")),
        };
        match language {
            "node" => {
                command.arg(folder.join("backend.js"));
            }
            "python" => {
                command.arg(folder.join("backend.py"));
                command.env("PYTHONPATH", folder.join("packages"));
                command.env("PYTHONDONTWRITEBYTECODE", "1");
            }
            _ => {}
        }
        let (mut bob, mut eve) = (apps.client("1"), apps.client("1"));
        for channel in ["news", "private-rj"] {
            bob.subscribe(channel);
            eve.subscribe(channel);
        }
        bob.sit_and_sign_in();
        told(&apps, &mut command, language == "node");
        let finished = Program::run(command.arg(eve.id.to_string()));
        assert_eq!(finished.code(), Some(0), "{language}: {finished:?}");
        for channel in ["news", "private-rj"] {
            let heard = bob.hear();
            assert_eq!((&heard["event"], &heard["channel"]), (&json!("photo"), &json!(channel)));
            assert_eq!(data_of(&heard), json!({ "photo": 789 }), "{language}");
        }
        for (name, data) in [("1", "first"), ("2", "second")] {
            for client in [&mut bob, &mut eve] {
                let heard = client.hear();
                let (event, said) = (&heard["event"], heard["data"].as_str().unwrap());
                // Some write a text as JSON, as they do all data.
                assert_eq!((event, said.trim_matches('"')), (&json!(name), data), "{language}");
            }
        }
        let hello = bob.hear();
        assert_eq!((&hello["event"], data_of(&hello)), (&json!("hello"), json!({ "to": "bob" })));
        eve.hear_nothing();
        let told: Value = serde_json::from_str(finished.stdout.lines().next().unwrap()).unwrap();
        let wanted = json!({
            "channels": { "presence-room": { "user_count": 1 } },
            "channel": { "occupied": true, "subscription_count": 2 },
            "users": [{ "id": "bob" }],
        });
        assert_eq!(told, wanted, "{language}");
        match has_end {
            true => assert_eq!(u16::from(bob.socket.end().0), 4009, "{language}"),
            false => bob.hear_nothing(),
        }
    }
}
