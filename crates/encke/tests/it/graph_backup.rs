//! Backup, restore and export: of a state that was, whole or not there, whatever is killed or full.

use std::collections::BTreeSet;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use serde_json::{Value, json};
use testing::SmallDisk;

use crate::harness::{Finished, Program, Server, encke, wait_for};

type Pairs = BTreeSet<(String, String)>;

fn graph(args: &[&str]) -> Finished {
    Program::run(encke(["graph"]).args(args))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[track_caller]
fn json_of(finished: &Finished) -> Value {
    assert_eq!(finished.code(), Some(0), "{finished:?}");
    serde_json::from_str(&finished.stdout).unwrap()
}

#[track_caller]
fn refused(finished: &Finished, why: &str) {
    assert_eq!(finished.code(), Some(1), "{finished:?}");
    assert!(finished.stderr.contains(why), "{why} in {finished:?}");
}

/// All pairs of a text, each once.
#[track_caller]
fn pairs_of(text: &str) -> Pairs {
    let pair = |line: &str| {
        let (a, b) = line.split_once(' ').unwrap();
        (a.to_owned(), b.to_owned())
    };
    let pairs: Pairs = text.lines().map(pair).collect();
    assert_eq!(pairs.len(), text.lines().count());
    pairs
}

/// The pairs in a data directory, which must be sound.
#[track_caller]
fn pairs_in(data: &Path) -> Pairs {
    assert_eq!(json_of(&graph(&["check", "--data", text(data), "--json"]))["damaged"], false);
    let export = graph(&["export", "--data", text(data)]);
    assert_eq!(export.code(), Some(0), "{export:?}");
    pairs_of(&export.stdout)
}

/// Files in a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> =
        fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}

/// The change with this number: each second one takes away what was added 20 changes before.
fn change(number: usize) -> (&'static str, (String, String)) {
    let pair = |n: usize| match n % 3 {
        0 => (n.to_string(), "7".to_owned()),
        1 => (format!("bob:{n}"), "photo:é".to_owned()),
        _ => ("rj".to_owned(), n.to_string()),
    };
    if number % 2 == 1 && number > 20 {
        ("/subscriptions/remove", pair(number / 2 - 10))
    } else {
        ("/subscriptions/add", pair(number))
    }
}

/// The graph after so many changes.
fn state_after(changes: usize) -> Pairs {
    let mut pairs = Pairs::new();
    for (path, pair) in (0..changes).map(change) {
        if path.ends_with("add") {
            pairs.insert(pair);
        } else {
            pairs.remove(&pair);
        }
    }
    pairs
}

#[test]
fn backup_under_changes_is_a_state_that_was() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&[]);
    let (made, done) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let api = server.api.another();
        let (made, done) = (&made, &done);
        scope.spawn(move || {
            for number in 0.. {
                if done.load(Ordering::SeqCst) {
                    return;
                }
                let (path, (a, b)) = change(number);
                api.post(path, &json!([{ "subscriber": a, "subscribee": b }])).ok();
                made.store(number + 1, Ordering::SeqCst);
            }
        });
        let mut seen = 0;
        for number in 0..6 {
            let enough = seen + 30;
            wait_for("changes are made", || made.load(Ordering::SeqCst) >= enough);
            let file = dir.path().join("graph.mdb");
            let from = made.load(Ordering::SeqCst);
            let args = ["backup", text(&file), "--json", "--api", &server.api_url()];
            let backup = json_of(&graph(&args));
            // One may be stored whose answer has not been read.
            seen = made.load(Ordering::SeqCst) + 1;
            let data = dir.path().join(number.to_string());
            let restored =
                json_of(&graph(&["restore", text(&file), "--data", text(&data), "--json"]));
            for field in ["transaction", "digest", "subscriptions", "bytes"] {
                assert_eq!(backup[field], restored[field], "{backup} {restored}");
            }
            let marker = fs::read_to_string(data.join("data.state")).unwrap();
            assert!(marker.contains(backup["digest"].as_str().unwrap()), "{marker} {backup}");
            let pairs = pairs_in(&data);
            assert_eq!(backup["subscriptions"], pairs.len());
            let was = (from..=seen).find(|&changes| state_after(changes) == pairs);
            assert!(was.is_some(), "{from} to {seen}: {pairs:?}");
        }
        done.store(true, Ordering::SeqCst);
    });
    let data = dir.path().join("5");
    let expected = pairs_in(&data);
    let restored = Server::start_in(&data, &[]);
    let listener = restored.listener("bob:1");
    let of_api = graph(&["export", "--api", &restored.api_url()]);
    assert_eq!(pairs_of(&of_api.stdout), expected);
    restored.api.subscribe("bob:1", "new");
    assert_eq!(restored.api.send("new", 1), 1);
    drop(listener);
}

/// A friends graph of many users: its file, and how many subscriptions it has both ways.
fn friends(dir: &Path, users: usize) -> (PathBuf, u64) {
    let path = dir.join("friends.txt");
    let users = format!("--users={users}");
    let made = graph(&["generate", &users, "--seed=3", "--edges-per-user=5", "-o", text(&path)]);
    assert_eq!(made.code(), Some(0), "{made:?}");
    let lines = fs::read_to_string(&path).unwrap().lines().count() as u64;
    (path, 2 * lines)
}

/// A server with a graph whose backup does not fit into any socket's buffers.
fn server_with_friends(dir: &Path) -> (Server, u64) {
    let (file, subscriptions) = friends(dir, 100_000);
    let data = dir.join("data");
    let loaded = graph(&["load", text(&file), "--both", "--data", text(&data)]);
    assert_eq!(loaded.code(), Some(0), "{loaded:?}");
    (Server::start_in(&data, &[]), subscriptions)
}

/// A way to `to` on which the first 100 kB of the answer come through, and no more before `go_on`.
/// When its client is gone, so is the connection to the server.
fn narrow(to: SocketAddr, go_on: &Arc<AtomicBool>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let go_on = Arc::clone(go_on);
    thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut server = TcpStream::connect(to).unwrap();
        let (mut request, mut piece) = (Vec::new(), [0; 1000]);
        while !request.ends_with(b"\r\n\r\n") {
            let len = client.read(&mut piece).unwrap();
            request.extend(&piece[..len]);
        }
        server.write_all(&request).unwrap();
        let mut left = 100_000_usize;
        while left > 0 {
            let Ok(len @ 1..) = server.read(&mut piece) else { return };
            let _ = client.write_all(&piece[..len]);
            left = left.saturating_sub(len);
        }
        client.set_nonblocking(true).unwrap();
        let is_gone = |client: &TcpStream| match client.peek(&mut [0]) {
            Ok(len) => len == 0,
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        };
        wait_for("the test goes on", || go_on.load(Ordering::SeqCst) || is_gone(&client));
        client.set_nonblocking(false).unwrap();
        if go_on.load(Ordering::SeqCst) {
            let _ = std::io::copy(&mut server, &mut client);
        }
    });
    url
}

/// Begins a backup that gets no further than its first bytes before `go_on`.
fn half_a_backup(server: &Server, file: &Path, go_on: &Arc<AtomicBool>) -> Program {
    let api = narrow(server.api.address(), go_on);
    let backup = Program::spawn(&mut encke(["graph", "backup", text(file), "--api", &api]));
    let partial = file.with_extension("mdb.partial");
    wait_for("a part of it is written", || {
        fs::metadata(&partial).is_ok_and(|partial| partial.len() > 10_000)
    });
    backup
}

#[test]
fn backup_that_is_killed_leaves_nothing_that_looks_like_one() {
    let dir = tempfile::tempdir().unwrap();
    let (server, subscriptions) = server_with_friends(dir.path());
    let api = server.api_url();
    let file = dir.path().join("graph.mdb");
    let backup = half_a_backup(&server, &file, &Arc::default());
    // One at a time, and the others are told.
    for other in [
        &["backup", text(&dir.path().join("other")), "--api", &api][..],
        &["export", "--api", &api],
        &["stats", "--api", &api],
    ] {
        refused(&graph(other), "is under way");
    }
    server.api.subscribe("bob", "rj");
    backup.kill();
    assert!(!file.exists() && !dir.path().join("other").exists());

    // Its place comes back, what it left is written over, and the server has noticed nothing.
    let mut again = None;
    wait_for("the place is free", || {
        let tried = graph(&["backup", text(&file), "--api", &api, "--json"]);
        assert!(tried.code() == Some(0) || tried.stderr.contains("is under way"), "{tried:?}");
        again = (tried.code() == Some(0)).then(|| json_of(&tried));
        again.is_some()
    });
    assert_eq!(again.unwrap()["subscriptions"], subscriptions + 1);
    assert!(!file.with_extension("mdb.partial").exists());
    let stats = json_of(&graph(&["stats", "--api", &api, "--json"]));
    assert_eq!(server.stop("TERM").code(), Some(0));
    let data = dir.path().join("data");
    assert_eq!(json_of(&graph(&["stats", "--data", text(&data), "--json"])), stats);
}

#[test]
fn server_that_is_killed_leaves_the_backup_from_before() {
    let dir = tempfile::tempdir().unwrap();
    let (server, subscriptions) = server_with_friends(dir.path());
    let file = dir.path().join("graph.mdb");
    fs::write(&file, "what was there before").unwrap();
    let go_on = Arc::default();
    let backup = half_a_backup(&server, &file, &go_on);
    server.into_program().kill();
    go_on.store(true, Ordering::SeqCst);
    refused(&backup.finish(), "ended early");
    assert_eq!(fs::read_to_string(&file).unwrap(), "what was there before");
    assert!(!file.with_extension("mdb.partial").exists());
    let data = dir.path().join("data");
    assert_eq!(pairs_in(&data).len() as u64, subscriptions);
}

#[test]
fn full_disk_is_told_and_nothing_is_lost() {
    let Some(disk) = SmallDisk::mount(4 << 20) else { return };
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&[]);
    let (pairs, subscriptions) = friends(dir.path(), 2000);
    let loaded = graph(&["load", text(&pairs), "--both", "--api", &server.api_url()]);
    assert_eq!(loaded.code(), Some(0), "{loaded:?}");
    let inside = |args: &[&str]| {
        let (program, before) = disk.enter().split_first().unwrap();
        let encke = encke([""; 0]);
        let mut command = Command::new(program);
        command.args(before).arg(encke.get_program()).arg("graph").args(args);
        Program::run(&mut command)
    };
    let (outside, file) = (disk.seen_from_outside(), disk.mount_point().join("graph.mdb"));
    let args = ["backup", text(&file), "--api", &server.api_url()];
    assert_eq!(inside(&args).code(), Some(0));
    let before = fs::read(outside.join("graph.mdb")).unwrap();
    disk.fill();
    refused(&inside(&args), "No space left");
    let text_file = disk.mount_point().join("pairs.txt");
    let export = ["export", "-o", text(&text_file), "--api", &server.api_url()];
    refused(&inside(&export), "No space left");
    let data = disk.mount_point().join("data");
    let restore = ["restore", text(&file), "--data", text(&data)];
    refused(&inside(&restore), "No space left");
    assert!(fs::read(outside.join("graph.mdb")).unwrap() == before, "it is the one from before");
    let left = files(&outside);
    assert!(left.iter().all(|path| path.extension() != Some("partial".as_ref())), "{left:?}");
    disk.clear();
    let restored = json_of(&inside(&[&restore[..], &["--json"]].concat()));
    assert_eq!(restored["subscriptions"], subscriptions);
}

#[test]
fn restore_takes_nothing_away() {
    let dir = tempfile::tempdir().unwrap();
    let (data, file) = (dir.path().join("data"), dir.path().join("graph.mdb"));
    let server = Server::start_in(&data, &[]);
    server.api.subscribe("bob", "rj");
    server.api.subscribe("7", "12");
    let backup = ["backup", text(&file), "--api", &server.api_url()];
    assert_eq!(graph(&backup).code(), Some(0));
    let restore = |to: &Path| graph(&["restore", text(&file), "--data", text(to)]);
    refused(&restore(&data), &server.pid().to_string());
    let offline = dir.path().join("offline.mdb");
    refused(&graph(&["backup", text(&offline), "--data", text(&data)]), "leave --data out");
    assert_eq!(server.stop("TERM").code(), Some(0));
    let before: Vec<_> = files(&data).iter().map(|path| fs::read(path).unwrap()).collect();
    refused(&restore(&data), "holds 2 subscriptions");
    let after: Vec<_> = files(&data).iter().map(|path| fs::read(path).unwrap()).collect();
    assert!(before == after, "nothing is changed there");

    // A server was there and nobody followed anybody; or the file is gone, and said to be.
    let empty = dir.path().join("empty");
    assert_eq!(Server::start_in(&empty, &[]).stop("TERM").code(), Some(0));
    assert_eq!(restore(&empty).code(), Some(0));
    fs::remove_file(empty.join("data.mdb")).unwrap();
    assert_eq!(restore(&empty).code(), Some(0));
    let expected = pairs_of("bob rj\n7 12\n");
    assert_eq!(pairs_in(&empty), expected);
    assert_eq!(graph(&["backup", text(&offline), "--data", text(&empty)]).code(), Some(0));

    // What is no backup, or a part of one, or has one bit turned, is none.
    let whole = fs::read(&offline).unwrap();
    let used = whole.iter().rposition(|&byte| byte != 0).unwrap();
    let mut turned = whole.clone();
    turned[used] ^= 1;
    for (bytes, name) in [
        (&b"bob rj\n"[..], "text"),
        (&whole[..whole.len() / 2], "half"),
        (&turned, "turned"),
        (b"", "nothing"),
    ] {
        let (bad, to) = (dir.path().join("bad"), dir.path().join(name));
        fs::write(&bad, bytes).unwrap();
        refused(&graph(&["restore", text(&bad), "--data", text(&to)]), "no sound backup");
        assert!(!to.join("data.mdb").exists(), "{name}");
        let fresh = json_of(&graph(&["restore", text(&offline), "--data", text(&to), "--json"]));
        assert_eq!(fresh["subscriptions"], 2, "{name}: the directory is still good");
    }
    let none = dir.path().join("none");
    refused(&graph(&["restore", text(&none), "--data", text(&dir.path().join("x"))]), "none");
}

#[test]
fn exported_pairs_load_to_the_same_graph() {
    let dir = tempfile::tempdir().unwrap();
    let pairs = "0 1\n1 0\n007 7\nbob rj\nrj bob\nphoto:é \u{6f22}\u{5b57}\n\
                 18446744073709551615 a\n9223372036854775807 9223372036854775808\n\"x\" 'y'\na a\n";
    let (file, data) = (dir.path().join("pairs.txt"), dir.path().join("data"));
    fs::write(&file, pairs).unwrap();
    assert_eq!(graph(&["load", text(&file), "--data", text(&data)]).code(), Some(0));
    assert_eq!(pairs_in(&data), pairs_of(pairs));
    let server = Server::start_in(&data, &[]);
    let exported = dir.path().join("exported.txt");
    let args = ["export", "-o", text(&exported), "--api", &server.api_url()];
    assert_eq!(graph(&args).code(), Some(0));
    let second = dir.path().join("second");
    assert_eq!(graph(&["load", text(&exported), "--data", text(&second)]).code(), Some(0));
    assert_eq!(pairs_in(&second), pairs_of(pairs));
    assert_eq!(server.stop("TERM").code(), Some(0));
    refused(&graph(&["export", "--data", text(&dir.path().join("none"))]), "no friends graph");
}
