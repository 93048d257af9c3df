//! `encke graph`: made, loaded and described.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use testing::postgres::Postgres;

use crate::harness::{Finished, Program, Server, encke, make_pipe, wait_for};

fn graph(args: &[&str]) -> Finished {
    Program::run(encke(["graph"]).args(args))
}

/// The JSON that a command prints.
#[track_caller]
fn json_of(finished: &Finished) -> Value {
    assert_eq!(finished.code(), Some(0), "{finished:?}");
    serde_json::from_str(&finished.stdout).unwrap()
}

/// A friends graph of a thousand users in a file.
fn friends(dir: &Path) -> String {
    let path = dir.join("friends.txt").display().to_string();
    let args = ["generate", "--users=1000", "--edges-per-user=15", "--seed=7", "-o", &path];
    assert_eq!(graph(&args).code(), Some(0));
    path
}

#[test]
fn generated_graph_is_the_one_that_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(friends(dir.path())).unwrap();
    let mut edges = BTreeSet::new();
    for line in text.lines() {
        let (a, b) = line.split_once(' ').unwrap();
        let (a, b): (u32, u32) = (a.parse().unwrap(), b.parse().unwrap());
        assert!(a != b && a.max(b) < 1000, "{line}");
        assert!(edges.insert((a.min(b), a.max(b))), "{line} stands there twice");
    }
    assert_eq!(edges.len(), 15 * 1000 - 120);
    let again = graph(&["generate", "--users=1000", "--seed=7"]);
    assert_eq!((again.code(), again.stdout == text), (Some(0), true), "the same from its seed");
    let other = graph(&["generate", "--users=1000", "--seed=8"]);
    assert!(other.stdout != text, "another one from another seed");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing but the file is left");
}

#[test]
fn loaded_graph_is_served_and_described() {
    let dir = tempfile::tempdir().unwrap();
    let (file, data) = (friends(dir.path()), dir.path().join("data").display().to_string());
    let loaded = json_of(&graph(&["load", &file, "--both", "--data", &data, "--json"]));
    assert_eq!((&loaded["pairs"], &loaded["added"]), (&json!(14_880), &json!(29_760)));
    let again = json_of(&graph(&["load", &file, "--data", &data, "--json"]));
    assert_eq!(again["added"], 0, "loading again does no harm");

    let plot = dir.path().join("degrees.svg").display().to_string();
    let stats = json_of(&graph(&["stats", "--data", &data, "--json", "--plot", &plot]));
    assert_eq!((&stats["users"], &stats["subscriptions"]), (&json!(1000), &json!(29_760)));
    assert_eq!((&stats["degree"]["min"], &stats["mutual"]), (&json!(15), &json!(14_880)));
    assert!(fs::read_to_string(&plot).unwrap().contains("</svg>"));
    let told = graph(&["stats", "--data", &data]);
    assert!(told.stdout.contains("29,760"), "{told:?}");

    let server = Server::start_in(Path::new(&data), &[]);
    assert_eq!(server.api.stats()["subscriptions"], 29_760);
    let mut followers = server.api.ids("/subscribers/0", 100);
    let mut following = server.api.ids("/subscriptions/0", 100);
    followers.sort_unstable();
    following.sort_unstable();
    assert_eq!(followers, following);
    let busy = graph(&["load", &file, "--data", &data]);
    assert_eq!(busy.code(), Some(1));
    assert!(busy.stderr.contains(&server.pid().to_string()), "{busy:?}");
}

#[test]
fn graph_is_loaded_into_a_running_server() {
    let dir = tempfile::tempdir().unwrap();
    let file = friends(dir.path());
    let server = Server::start(&[]);
    let loaded = json_of(&graph(&["load", &file, "--api", &server.api_url(), "--json"]));
    assert_eq!((&loaded["pairs"], &loaded["added"]), (&json!(14_880), &json!(14_880)));
    let loaded = json_of(&graph(&["load", &file, "--both", "--api", &server.api_url(), "--json"]));
    assert_eq!(loaded["added"], 14_880);
    assert_eq!(server.api.stats()["subscriptions"], 29_760);
    let first = fs::read_to_string(&file).unwrap();
    let (a, b) = first.lines().next().unwrap().split_once(' ').unwrap();
    let _follower = server.listener(a);
    assert_eq!(server.api.send(b, 1), 1, "a follows b");
}

#[test]
fn malformed_lines_are_named_by_file_and_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pairs.txt");
    fs::write(&path, "# friends\nbob rj\n\nonly-one\ncarol  rj\na b c\n7 \u{e9}\r\nx/y z\n")
        .unwrap();
    let (file, data) = (path.to_str().unwrap(), dir.path().join("data").display().to_string());
    let server = Server::start(&[]);
    for target in [["--data", &data], ["--api", &server.api_url()]] {
        let refused = graph(&[&["load", file][..], &target].concat());
        assert_eq!(refused.code(), Some(1), "{refused:?}");
        for number in [4, 6, 8] {
            let place = format!("{file}:{number}: ");
            assert!(refused.stderr.contains(&place), "{place} in {refused:?}");
        }
        assert!(!refused.stderr.contains(&format!("{file}:5: ")), "{refused:?}");
        let skipped = graph(&[&["load", file, "--skip-malformed", "--json"][..], &target].concat());
        let report = json_of(&skipped);
        assert_eq!((&report["added"], &report["skipped"]), (&json!(3), &json!(3)), "{target:?}");
    }
    assert_eq!(server.api.get("/subscriptions/7").ok()["ids"], json!(["é"]));
    let mut followers = server.api.ids("/subscribers/rj", 10);
    followers.sort_unstable();
    assert_eq!(followers, ["bob", "carol"]);
}

#[test]
fn what_is_not_there_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let none = dir.path().join("none").display().to_string();
    for args in [
        &["load", &none, "--data", &none][..],
        &["stats", "--data", &none],
        &["generate", "--users=100", "-o", &format!("{none}/friends.txt")],
    ] {
        let finished = graph(args);
        assert_eq!(finished.code(), Some(1), "{finished:?}");
        assert!(finished.stderr.contains(&none), "{finished:?}");
    }
    assert_eq!(graph(&["generate", "--users=x"]).code(), Some(2));
    assert_eq!(graph(&["generate", "--model=er"]).code(), Some(2));
}

#[test]
fn load_that_is_stopped_leaves_the_store_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let (file, data) = (friends(dir.path()), dir.path().join("data"));
    let fifo = dir.path().join("fifo");
    make_pipe(&fifo);
    let server = Server::start_in(&data, &[]);
    server.api.subscribe("bob", "rj");
    assert_eq!(server.stop("TERM").code(), Some(0));

    let load = Program::spawn(encke(["graph", "load"]).arg(&fifo).arg("--data").arg(&data));
    // Opens once the load reads; half a graph, and no end of it.
    let mut writer = fs::File::options().write(true).open(&fifo).unwrap();
    std::io::Write::write_all(&mut writer, &fs::read(&file).unwrap()).unwrap();
    load.signal("TERM");
    let stopped = load.finish();
    assert_eq!(stopped.code(), Some(1), "{stopped:?}");
    assert!(stopped.stderr.contains("stopped"), "{stopped:?}");
    let server = Server::start_in(&data, &[]);
    assert_eq!(server.api.stats()["subscriptions"], 1);
}

#[test]
fn check_says_what_is_damaged_and_what_to_do_and_ends_with_1() {
    let dir = tempfile::tempdir().unwrap();
    let (file, data) = (friends(dir.path()), dir.path().join("data").display().to_string());
    let missing = graph(&["check", "--data", &data]);
    assert_eq!(missing.code(), Some(1), "{missing:?}");
    assert!(missing.stderr.contains(&data), "{missing:?}");
    assert_eq!(graph(&["load", &file, "--data", &data]).code(), Some(0));
    let sound = json_of(&graph(&["check", "--data", &data, "--json"]));
    assert_eq!((&sound["damaged"], &sound["subscriptions"]), (&json!(false), &json!(14_880)));
    let told = graph(&["check", "--data", &data]);
    assert!(told.stdout.starts_with("sound: 14,880 subscriptions"), "{told:?}");

    let store = Path::new(&data).join("data.mdb");
    let whole = fs::read(&store).unwrap();
    let mut damaged = whole.clone();
    let leaf = damaged.chunks_exact_mut(4096).rfind(|page| page[10..12] == [2, 0]).unwrap();
    leaf[4090] ^= 1;
    fs::write(&store, &damaged).unwrap();
    let found = graph(&["check", "--data", &data]);
    assert_eq!(found.code(), Some(1), "{found:?}");
    assert!(found.stdout.contains("page") && found.stderr.contains("graph restore"), "{found:?}");
    let found = graph(&["check", "--data", &data, "--json"]);
    assert_eq!(found.code(), Some(1), "{found:?}");
    let json: Value = serde_json::from_str(&found.stdout).unwrap();
    assert_eq!((&json["damaged"], &json["findings_total"]), (&json!(true), &json!(1)), "{json}");
    let refused = Program::run(
        encke(["serve", "--listen=127.0.0.1:0", "--api=127.0.0.1:0"]).args(["--data", &data]),
    );
    assert_eq!(refused.code(), Some(1), "{refused:?}");
    assert!(refused.stderr.contains("encke graph check"), "{refused:?}");

    fs::write(&store, b"").unwrap();
    let emptied = graph(&["check", "--data", &data]);
    assert_eq!(emptied.code(), Some(1), "{emptied:?}");
    assert!(emptied.stdout.contains("14880 subscriptions"), "{emptied:?}");
    fs::remove_file(&store).unwrap();
    let gone = graph(&["check", "--data", &data]);
    assert_eq!(gone.code(), Some(1), "{gone:?}");
    assert!(gone.stdout.contains("14880 subscriptions"), "{gone:?}");
    // No store, whatever it holds.
    let state = Path::new(&data).join("data.state");
    let said = fs::read(&state).unwrap();
    fs::remove_file(&state).unwrap();
    let elsewhere = dir.path().join("elsewhere.mdb");
    fs::write(&elsewhere, &whole).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &store).unwrap();
    let link = graph(&["check", "--data", &data]);
    assert_eq!(link.code(), Some(1), "{link:?}");
    fs::remove_file(&store).unwrap();
    fs::write(&state, said).unwrap();
    fs::write(&store, whole).unwrap();
    let server = Server::start_in(Path::new(&data), &[]);
    let busy = graph(&["check", "--data", &data]);
    assert_eq!(busy.code(), Some(1));
    assert!(busy.stderr.contains(&server.pid().to_string()), "{busy:?}");
}

#[test]
fn removed_data_directory_fails_changes_and_readiness() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Server::start_in(&data, &[]);
    server.api.subscribe("bob", "rj");
    server.api.get("/readyz").ok();
    fs::remove_dir_all(&data).unwrap();
    let pair = json!([{ "subscriber": "bob", "subscribee": "kim" }]);
    for path in ["/subscriptions/add", "/subscriptions/remove"] {
        let problem = server.api.post(path, &pair).problem(503);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("is gone") && detail.contains("backup"), "{detail}");
    }
    let problem = server.api.get("/readyz").problem(503);
    assert!(problem["detail"].as_str().unwrap().contains(data.to_str().unwrap()), "{problem}");
    server.api.get("/healthz").ok();
    let mut bob = server.listener("bob");
    assert_eq!(server.api.send("rj", "still known"), 1);
    assert_eq!(bob.data(), "still known");
    assert_eq!(server.stop("TERM").code(), Some(0));
    assert!(!data.exists());
}

/// As where a standby that is waited for is far away, or gone.
#[test]
fn load_that_is_stopped_in_its_commit_does_not_say_that_nothing_was_loaded() {
    let Some(server) = Postgres::start(&["fsync=off"]) else { return };
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, pairs: &str| {
        let path = dir.path().join(name).display().to_string();
        fs::write(&path, pairs).unwrap();
        path
    };
    let (first, second) = (file("first", "1 2\n"), file("second", "3 4\n5 6\n"));
    let load = |file: &str| {
        Program::spawn(&mut encke(["graph", "load", file, "--postgres", &server.url()]))
    };
    assert_eq!(load(&first).finish().code(), Some(0));
    server.sql("alter system set synchronous_standby_names = 'nobody'").unwrap();
    server.sql("select pg_reload_conf()").unwrap();
    wait_for("commits wait for a standby", || {
        server.sql("show synchronous_standby_names").unwrap() == "nobody"
    });
    let loading = load(&second);
    let waits = "select count(*) from pg_stat_activity where wait_event = 'SyncRep'";
    wait_for("it waits in its commit", || server.sql(waits).unwrap() != "0");
    loading.signal("INT");
    let stopped = loading.finish();
    assert_eq!(stopped.code(), Some(1), "{stopped:?}");
    assert!(stopped.stderr.contains("all pairs were loaded or none"), "{stopped:?}");
    assert!(!stopped.stderr.contains("nothing was loaded"), "{stopped:?}");
    server.sql("alter system reset synchronous_standby_names").unwrap();
    server.sql("select pg_reload_conf()").unwrap();
    let pairs = "select count(*) from encke.subscriptions";
    wait_for("they were loaded", || server.sql(pairs).unwrap() == "3");
    // As the message says.
    let again = load(&second).finish();
    assert!(again.code() == Some(0) && again.stdout.contains("0 new"), "{again:?}");
}
