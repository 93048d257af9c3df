//! What the program says when it cannot start, and where its settings come from.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::harness::{Finished, Program, Server, encke};

/// The line's start and end are the program's name and what to do; in between, each of `words`.
#[track_caller]
fn expect_failure(finished: &Finished, words: &[&str]) {
    assert_eq!(finished.code(), Some(1), "{finished:?}");
    assert_eq!(finished.stdout, "");
    let sentence = finished.stderr.lines().find(|line| line.starts_with("encke: ")).unwrap();
    words.iter().for_each(|word| assert!(sentence.contains(word), "{word:?} in {sentence:?}"));
}

fn serve(listen: &str, api: &str, data: &Path) -> Finished {
    let args = ["serve", "--json", "--open", "--listen", listen, "--api", api, "--data"];
    Program::run(encke(args).arg(data))
}

const FREE: &str = "127.0.0.1:0";

#[test]
fn port_in_use_is_named_with_what_to_do() {
    let data = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind(FREE).unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let words = [address.as_str(), "in use", "another address"];
    expect_failure(&serve(&address, FREE, data.path()), &words);
    expect_failure(&serve(FREE, &address, data.path()), &words);
}

#[test]
fn two_servers_do_not_share_a_port() {
    let first = Server::start(&[]);
    let data = tempfile::tempdir().unwrap();
    let check = |address: SocketAddr, public: bool| {
        let address = address.to_string();
        let (listen, api) = if public { (&*address, FREE) } else { (FREE, &*address) };
        expect_failure(&serve(listen, api, data.path()), &[&address, "in use"]);
    };
    check(first.listen(), true);
    check(first.api.address(), false);
    let mut stream = first.listener("1");
    assert_eq!(first.api.send("1", "unharmed"), 1);
    assert_eq!(stream.data(), "unharmed");
}

#[test]
fn address_of_another_machine_is_told() {
    let data = tempfile::tempdir().unwrap();
    expect_failure(&serve("192.0.2.1:0", FREE, data.path()), &["192.0.2.1:0", "cannot listen"]);
    // Without a key that is not even tried.
    super::keys::new_key(data.path(), &["--scope=read"]);
    expect_failure(&serve(FREE, "192.0.2.1:0", data.path()), &["192.0.2.1:0", "cannot listen"]);
}

#[test]
fn data_directory_that_is_a_file_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    for data in [file.clone(), file.join("below")] {
        let finished = serve(FREE, FREE, &data);
        expect_failure(&finished, &[data.to_str().unwrap(), "directory"]);
    }
}

#[test]
fn proc_that_is_empty_is_told() {
    let data = tempfile::tempdir().unwrap();
    let Some(mut command) = testing::on_small_disk(Path::new("/proc"), 1 << 16) else {
        return testing::skip("this user may not mount anything (unshare --mount)");
    };
    command.arg(env!("CARGO_BIN_EXE_encke")).args(["serve", "--listen", FREE, "--api", FREE]);
    let finished = Program::run(command.arg("--data").arg(data.path()));
    expect_failure(&finished, &["below /proc", "mount it"]);
}

/// What a server that may have too little of something came to: whether it served, and its end. One
/// that serves is told to end.
pub(crate) fn start_or_end(command: &mut Command) -> (bool, Output) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let serves = !line.is_empty();
    if serves {
        let pid = child.id().to_string();
        assert!(Command::new("kill").arg(pid).status().unwrap().success());
    }
    (serves, child.wait_with_output().unwrap())
}

#[test]
fn few_descriptors_are_enough_or_too_few_with_a_sentence() {
    for descriptors in [6, 10, 20, 63, 64, 65, 128] {
        let data = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        let script = format!("ulimit -n {descriptors}; exec \"$0\" \"$@\"");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_encke"), "serve", "--workers=2"]);
        command.args(["--listen", FREE, "--api", FREE, "--data"]).arg(data.path());
        let (serves, ended) = start_or_end(&mut command);
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(serves, descriptors >= 64, "{descriptors}: {said}");
        assert_eq!(ended.status.code(), Some(i32::from(!serves)), "{descriptors}: {said}");
        let sentence = format!("encke: this process may have {descriptors} descriptors");
        assert_eq!(said.contains(&sentence), !serves, "{descriptors}: {said}");
    }
}

#[test]
fn clock_before_1970_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/fixtures/clock.c");
    let library = dir.path().join("clock.so");
    let mut compile = Command::new("cc");
    compile.args(["-shared", "-fPIC", "-o"]).args([&library, &source]);
    assert!(compile.status().unwrap().success());
    let mut command = encke(["serve", "--listen", FREE, "--api", FREE, "--data"]);
    command.arg(dir.path().join("data")).env("LD_PRELOAD", &library);
    expect_failure(&Program::run(&mut command), &["clock", "before 1970", "set it"]);
}

#[test]
fn data_directory_is_made_with_its_parents() {
    let dir = tempfile::tempdir().unwrap();
    let deep = dir.path().join("a/b/c");
    let server = Server::start_in(&deep, &[]);
    server.api.subscribe("a", "b");
    assert!(deep.join("data.mdb").is_file());
}

#[test]
fn data_directory_of_another_server_is_told_with_its_pid() {
    let data = tempfile::tempdir().unwrap();
    let first = Server::start_in(data.path(), &[]);
    let pid = first.pid().to_string();
    let finished = serve(FREE, FREE, data.path());
    expect_failure(&finished, &[data.path().to_str().unwrap(), &pid, "stop that one"]);
    first.api.subscribe("a", "b");
    first.into_program().kill();
    let second = Server::start_in(data.path(), &[]);
    assert_eq!(second.api.stats()["subscriptions"], 1);
}

#[test]
fn store_of_another_version_is_told() {
    let data = tempfile::tempdir().unwrap();
    drop(Server::start_in(data.path(), &[]).stop("TERM"));
    let path = data.path().join("data.mdb");
    let mut bytes = fs::read(&path).unwrap();
    // In the table of settings: the key `format`, then the number in four bytes.
    let key = b"format";
    let places: Vec<_> =
        (0..bytes.len() - key.len()).filter(|&at| bytes[at..].starts_with(key)).collect();
    assert!(!places.is_empty());
    places.iter().for_each(|at| bytes[at + key.len()] += 41);
    fs::write(&path, &bytes).unwrap();
    let finished = serve(FREE, FREE, data.path());
    expect_failure(&finished, &["has format 43", "version of Encke", "new directory"]);
    assert!(fs::read(&path).unwrap() == bytes, "the store is left as it was");
}

#[test]
fn file_that_is_no_store_is_told() {
    let data = tempfile::tempdir().unwrap();
    let path = data.path().join("data.mdb");
    let text = "this is a letter to my grandmother\n".repeat(1000);
    fs::write(&path, &text).unwrap();
    let finished = serve(FREE, FREE, data.path());
    expect_failure(&finished, &["data.mdb", "damaged"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), text, "the file is left as it was");
}

#[test]
fn start_that_waits_for_its_cluster_ends_with_its_input() {
    // It takes connections, and says no word.
    let silent = TcpListener::bind(FREE).unwrap();
    let nats = format!("--nats=nats://{}", silent.local_addr().unwrap());
    let data = tempfile::tempdir().unwrap();
    let mut command = encke(["serve", "--until-eof", "--open", "--listen", FREE, "--api", FREE]);
    command.args(["--cluster=c", "--node=n1", &nats, "--data"]).arg(data.path());
    let (program, input) = Program::spawn_with_input(&mut command);
    // It has come so far that it asks, and hears nothing.
    let _asking = silent.accept().unwrap();
    drop(input);
    let finished = program.finish();
    assert_eq!(finished.code(), Some(0), "{finished:?}");
    assert!(finished.stderr.contains("stopped before it had started"), "{finished:?}");
}

#[test]
fn wrong_usage_exits_2_and_names_what_is_wrong() {
    for (args, word) in [
        (&["serve", "--colour=red"][..], "--colour"),
        (&["serve", "--workers=many"], "many"),
        (&["serve", "--max-backlog=1"], "4096"),
        (&["serve", "--listen=nonsense"], "nonsense"),
        (&["serve", "--keepalive=-1"], "-1"),
        (&["serve", "--head-timeout=0"], "head"),
        (&["serve", "--allow-origin=app.test/path"], "origin"),
        (&["serve", "surplus"], "surplus"),
        (&["fly"], "fly"),
        (&[], "Usage"),
    ] {
        let finished = Program::run(&mut encke(args));
        assert_eq!(finished.code(), Some(2), "{args:?}: {finished:?}");
        assert!(finished.stderr.contains(word), "{args:?}: {finished:?}");
    }
}

/// How many connections a server with these settings has room for.
fn room(config: Option<&str>, variable: Option<&str>, option: Option<&str>) -> usize {
    let data = tempfile::tempdir().unwrap();
    let mut command = encke(["serve", "--json", "--listen", FREE, "--api", FREE, "--workers=1"]);
    command.arg("--data").arg(data.path().join("store"));
    if let Some(text) = config {
        let path = data.path().join("encke.toml");
        fs::write(&path, text).unwrap();
        command.arg("--config").arg(path);
    }
    if let Some(value) = variable {
        command.env("ENCKE_MAX_CONNECTIONS", value);
    }
    command.args(option);
    let server = Server::of(Program::spawn(&mut command));
    let mut streams = Vec::new();
    loop {
        let mut wire = server.ask("GET /stream/1 HTTP/1.1\r\nHost: localhost\r\n\r\n");
        if wire.head().status != 200 {
            return streams.len();
        }
        streams.push(wire);
    }
}

#[test]
fn command_line_wins_over_environment_and_that_over_the_file() {
    let file = "max-connections = 9\n[serve]\nmax-connections = 2\n[send]\n";
    assert_eq!(room(Some(file), None, None), 2);
    assert_eq!(room(Some(file), Some("3"), None), 3);
    assert_eq!(room(Some(file), Some("3"), Some("--max-connections=4")), 4);
    assert_eq!(room(Some("max_connections = 5"), None, None), 5);
}

#[test]
fn unknown_key_of_a_file_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("encke.toml");
    for text in ["colour = 1", "[serve]\ncolour = 1", "[colour]\n", "[graph.load]\ncolour = 1"] {
        fs::write(&path, text).unwrap();
        let finished = Program::run(encke(["serve", "--config"]).arg(&path));
        assert_eq!(finished.code(), Some(2), "{finished:?}");
        let named = finished.stderr.contains("`colour`") && finished.stderr.contains("encke.toml");
        assert!(named, "{finished:?}");
    }
    fs::write(&path, "max-backlog = [").unwrap();
    let finished = Program::run(encke(["serve", "--config"]).arg(&path));
    assert_eq!(finished.code(), Some(2), "{finished:?}");
    let finished = Program::run(encke(["serve", "--config"]).arg(dir.path().join("none.toml")));
    assert_eq!(finished.code(), Some(1), "{finished:?}");
    assert!(finished.stderr.contains("none.toml"), "{finished:?}");
}

#[test]
fn workers_are_as_many_as_asked_for() {
    let server = Server::start(&["--workers=5"]);
    let streams: Vec<_> = (0..50).map(|_| server.listener("1")).collect();
    let stats = server.api.stats();
    let workers = stats["workers"].as_array().unwrap();
    assert_eq!(workers.len(), 5);
    let open = |worker: &serde_json::Value| worker["connections_open"].as_u64().unwrap();
    assert_eq!(workers.iter().map(open).sum::<u64>(), 50);
    assert_eq!(server.api.send("1", 1), 50);
    drop(streams);
}

#[test]
fn addresses_may_be_ipv6() {
    if TcpListener::bind("[::1]:0").is_err() {
        return testing::skip("this machine has no IPv6");
    }
    let server = Server::start(&["--listen=[::1]:0", "--api=[::1]:0"]);
    assert!(server.listen().is_ipv6() && server.api.address().is_ipv6());
    let mut stream = server.listener("1");
    assert_eq!(server.api.send("1", "hello"), 1);
    assert_eq!(stream.data(), "hello");
    let words = ["in use", "another address"];
    let data = tempfile::tempdir().unwrap();
    expect_failure(&serve(&server.listen().to_string(), FREE, data.path()), &words);
}
