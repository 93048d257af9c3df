//! `encke key` and the commands that show a key.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::keys::{new_key, revoke};
use crate::harness::{Program, Server, encke, seed, without_settings};

fn listed(data: &Path) -> Vec<Value> {
    let listed = Program::run(encke(["key", "list", "--json", "--data"]).arg(data));
    assert_eq!(listed.code(), Some(0), "{listed:?}");
    listed.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn ids(data: &Path) -> BTreeSet<String> {
    listed(data).iter().map(|key| key["id"].as_str().unwrap().to_owned()).collect()
}

fn id_of(key: &str) -> String {
    key.split('_').nth(1).unwrap().to_owned()
}

/// As it stands, in a shell that has no key.
#[test]
fn send_that_a_server_with_keys_prints_at_its_start_works() {
    let data = tempfile::tempdir().unwrap();
    new_key(data.path(), &["--scope=admin"]);
    let mut command = encke(["serve", "--listen=127.0.0.1:0", "--api=127.0.0.1:0", "--data"]);
    let server = Program::spawn(command.arg(data.path()));
    let printed = loop {
        let line = server.line();
        if line.contains("encke send") {
            break line;
        }
    };
    let folder = Path::new(env!("CARGO_BIN_EXE_encke")).parent().unwrap().display();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap());
    let mut shell = without_settings(Path::new("sh"));
    let sent = Program::run(shell.args(["-c", &printed]).env("PATH", path));
    assert_eq!(sent.code(), Some(0), "{printed}: {sent:?}");
}

#[test]
fn keys_are_listed_with_what_they_may_do_and_without_their_secret() {
    let data = tempfile::tempdir().unwrap();
    let none = Program::run(encke(["key", "list", "--data"]).arg(data.path()));
    assert_eq!((none.code(), none.stdout.as_str()), (Some(0), ""));
    let first = new_key(data.path(), &["--scope=send", "--about=room:*", "--expires=90d"]);
    let second = new_key(data.path(), &["--scope=graph,read"]);
    revoke(data.path(), &id_of(&second));
    let text = Program::run(encke(["key", "list", "--data"]).arg(data.path())).stdout;
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].contains("send about room:*")
            && (lines[0].contains("90 d") || lines[0].contains("89 d")),
        "{text}"
    );
    assert!(lines[1].contains("graph,read") && lines[1].contains("revoked"), "{text}");
    let keys = listed(data.path());
    let created = keys[0]["created"].as_u64().unwrap();
    assert_eq!(keys[0]["expires"], created + 90 * 86_400);
    assert_eq!((&keys[0]["usable"], &keys[1]["usable"]), (&true.into(), &false.into()));
    let audit = fs::read_to_string(data.path().join("keys-audit.ndjson")).unwrap();
    let changes: Vec<Value> =
        audit.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<_> = changes.iter().map(|line| line["change"].as_str().unwrap()).collect();
    assert_eq!(told, ["made", "made", "revoked"]);
    assert_eq!(changes[2]["id"], id_of(&second));
    let mode = fs::metadata(data.path().join("keys.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    for key in [first, second] {
        let secret = key.splitn(3, '_').nth(2).unwrap();
        assert!(!text.contains(secret) && !audit.contains(secret));
    }
    for (wrong, code) in [
        (&["new"][..], 2),
        (&["new", "--scope=all"], 2),
        (&["new", "--scope=read", "--about=a"], 1),
        (&["new", "--scope=send", "--about=a b"], 2),
        (&["new", "--scope=send", "--expires=0d"], 2),
        (&["revoke", "nobody"], 1),
    ] {
        let finished = Program::run(encke(["key"]).args(wrong).arg("--data").arg(data.path()));
        assert_eq!(finished.code(), Some(code), "{wrong:?}: {finished:?}");
    }
}

/// Root runs commands in a directory that is the server's user's, who may have put links there.
#[test]
fn no_command_follows_a_link_in_the_directory() {
    let (data, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let [victim, pairs] = ["victim", "pairs"].map(|name| outside.path().join(name));
    fs::write(&victim, "kept\n").unwrap();
    fs::write(&pairs, "1 2\n").unwrap();
    let state = || {
        let there = fs::metadata(&victim).unwrap();
        (fs::read(&victim).unwrap(), there.uid(), there.mode(), there.modified().unwrap())
    };
    let before = state();
    let key: &[&str] = &["key", "new", "--scope=read"];
    let load: &[&str] = &["graph", "load", pairs.to_str().unwrap()];
    for (command, name) in [
        (key, "keys.lock"),
        (key, "keys-audit.ndjson"),
        (key, "keys.json"),
        (load, "lock"),
        (load, "data.mdb"),
        (load, "lock.mdb"),
    ] {
        let link = data.path().join(name);
        symlink(&victim, &link).unwrap();
        let refused = Program::run(encke(command).arg("--data").arg(data.path()));
        assert_eq!(refused.code(), Some(1), "{name}: {refused:?}");
        assert!(refused.stderr.contains("must be a plain file"), "{name}: {}", refused.stderr);
        assert!(state() == before, "{name}");
        fs::remove_file(&link).unwrap();
    }
    // What is written anew comes in a link's place.
    symlink(&victim, data.path().join("keys.json.new")).unwrap();
    symlink(&victim, data.path().join("data.state.partial")).unwrap();
    for command in [key, load] {
        let done = Program::run(encke(command).arg("--data").arg(data.path()));
        assert_eq!(done.code(), Some(0), "{}", done.stderr);
    }
    assert!(state() == before, "what was to be replaced");
}

#[test]
fn commands_at_one_time_lose_nothing() {
    let data = tempfile::tempdir().unwrap();
    let first = new_key(data.path(), &["--scope=read"]);
    let start = |args: &[&str]| Program::spawn(encke(args).arg("--data").arg(data.path()));
    let makers: Vec<Program> = (0..16).map(|_| start(&["key", "new", "--scope=read"])).collect();
    let revoker = start(&["key", "revoke", &first]);
    let made: BTreeSet<String> =
        makers.into_iter().map(|maker| id_of(maker.finish().stdout.trim_end())).collect();
    assert_eq!(revoker.finish().code(), Some(0));
    assert_eq!(made.len(), 16);
    let keys = listed(data.path());
    let usable: BTreeSet<String> = keys
        .iter()
        .filter(|key| key["usable"] == true)
        .map(|key| key["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!((usable, keys.len()), (made, 17));
}

#[test]
fn key_that_was_printed_is_kept_whenever_its_command_is_killed() {
    let data = tempfile::tempdir().unwrap();
    let mut random = fastrand::Rng::with_seed(seed());
    let mut acknowledged = BTreeSet::new();
    let mut cut_off = 0;
    for _ in 0..60 {
        let mut command = Command::new("timeout");
        let after = format!("{:.4}", random.f64() * 0.02);
        command.args(["-s", "KILL", &after, env!("CARGO_BIN_EXE_encke")]);
        command.args(["key", "new", "--scope=read", "--data"]).arg(data.path());
        let printed = Program::run(&mut command).stdout;
        match printed.strip_suffix('\n') {
            Some(key) => acknowledged.extend([id_of(key)]),
            None => cut_off += 1,
        }
        if !acknowledged.is_empty() {
            assert!(acknowledged.is_subset(&ids(data.path())), "{acknowledged:?}");
        }
    }
    println!("{} keys were printed, {cut_off} commands were cut off before", acknowledged.len());
    new_key(data.path(), &["--scope=read"]);
}

#[test]
fn commands_show_the_key_of_the_environment_or_of_their_option() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_in(data.path(), &[]);
    let key = new_key(data.path(), &["--scope=admin"]);
    let pairs = data.path().join("pairs.txt");
    fs::write(&pairs, "1 2\n").unwrap();
    let pairs = pairs.to_str().unwrap();
    let run = data.path().join("run.csv");
    let run = run.to_str().unwrap();
    let file = data.path().join("key.txt");
    fs::write(&file, format!("{key}\n")).unwrap();
    let in_file = format!("@{}", file.display());
    let spam = ["spam", "--users=5", "--rate=50", "--seconds=0.3", "--late-after=60"];
    let post = [&spam[..], &["--post"]].concat();
    for args in [
        &["send", "a", "1"][..],
        &["subscribe", "a", "b"],
        &["unsubscribe", "a", "b"],
        &["subscribers", "a"],
        &spam[..],
        &post[..],
        &["watch", "--every=0.05", "--seconds=0.1", "-o", run],
        &["graph", "load", pairs],
    ] {
        let url = server.api_url();
        let command = || {
            let mut command = encke(args);
            command.args(["--api", &url]);
            command
        };
        let without = Program::run(&mut command());
        assert_eq!(without.code(), Some(1), "{args:?}: {without:?}");
        let said = without.stdout.clone() + &without.stderr;
        assert!(
            ["needs a key", "Unauthorized"].iter().any(|word| said.contains(word)),
            "{args:?}: {without:?}"
        );
        let with = Program::run(command().env("ENCKE_KEY", &key));
        assert_eq!(with.code(), Some(0), "{args:?}: {with:?}");
        let _ = fs::remove_file(run);
        for given in [&key, &in_file] {
            let with = Program::run(command().args(["--key", given]));
            assert_eq!(with.code(), Some(0), "{args:?}: {with:?}");
            let _ = fs::remove_file(run);
        }
    }
}
