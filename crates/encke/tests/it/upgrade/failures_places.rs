//! What the new process cannot take is told before anything moves: places, descriptors, TLS,
//! tokens, a cluster; and who may not ask at all.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::json;
use testing::SmallDisk;

use super::failures::Kept;
use super::served::{Upgraded, kill_all_on, rewriting, run, script};
use super::subscriber::{Kind, STREAMS, Subscriber};
use crate::harness::{Authority, Program, Server, TOKEN_SECRET, encke, wait_for};

#[test]
fn fewer_places_than_streams_are_refused() {
    let mut kept = Kept::serve(&["--max-connections=100"]);
    let few = rewriting(&kept.path("few"), &[("--max-connections=", "--max-connections=5")]);
    kept.refuses(&["--binary", &few], &["--max-connections"]);
    let enough = rewriting(&kept.path("enough"), &[("--max-connections=", "--max-connections=50")]);
    kept.server.upgrade(&["--binary", &enough]);
    kept.check();
    kept.then_upgrades();
}

#[test]
fn fewer_descriptors_than_streams_are_refused() {
    let kept = Kept::serve(&["--workers=1"]);
    let listen = kept.server.listen();
    let listeners: Vec<Subscriber> =
        (0..200).map(|_| Subscriber::open(listen, Kind::Ndjson, &["listeners"])).collect();
    let encke = env!("CARGO_BIN_EXE_encke");
    let few = script(&kept.path("few"), &format!("ulimit -n 100; exec {encke} \"$@\""));
    let sentence = kept.server.refused(&["--binary", &few]);
    assert!(sentence.contains("descriptor"), "{sentence}");
    // More workers have a table each.
    let text = format!("ulimit -n 150; exec {encke} \"$@\"");
    let limited = script(&kept.path("limited"), &text);
    let text = fs::read_to_string(rewriting(&kept.path("more"), &[("--workers=", "--workers=4")]));
    let more = script(&kept.path("more"), &text.unwrap().replace(encke, &limited));
    kept.server.upgrade(&["--binary", &more]);
    assert_eq!(kept.server.api.send("listeners", "all in"), listeners.len() as u64);
    drop(listeners);
    kept.server.wait_open(kept.subscribers.len() as u64);
}

#[test]
fn tokens_that_are_switched_are_refused() {
    let key = format!("--token-key={TOKEN_SECRET}");
    let mut kept = Kept::serve(&[]);
    let on = rewriting(&kept.path("on"), &[("", &key)]);
    kept.refuses(&["--binary", &on], &["token"]);
    kept.then_upgrades();
    let server = Upgraded::serve(&[&key]);
    let off = rewriting(&server.data().join("off"), &[("--token-key=", "")]);
    let sentence = server.refused(&["--binary", &off]);
    assert!(sentence.contains("token"), "{sentence}");
    server.upgrade(&[]);
}

#[test]
fn tls_that_is_switched_off_is_refused() {
    let authority = Authority::new();
    let pair = authority.issue("own", &["localhost"]).options();
    let mut kept = Kept::serve(&["--tls-listen=127.0.0.1:0", &pair[0], &pair[1]]);
    let changes = [("--tls-listen=", ""), ("--tls-cert=", ""), ("--tls-key=", "")];
    let off = rewriting(&kept.path("off"), &changes);
    kept.refuses(&["--binary", &off], &["--tls-listen"]);
    let bad = rewriting(&kept.path("bad"), &[("--tls-key=", "--tls-key=nowhere.key")]);
    kept.refuses(&["--binary", &bad], &[]);
    wait_for("the log tells which", || kept.server.stderr().contains("nowhere.key"));
    kept.then_upgrades();
}

#[test]
fn node_of_a_cluster_is_refused() {
    let Some(nats) = testing::nats_current() else { return };
    let nats = testing::NatsServer::start(&nats);
    let url = format!("--nats={}", nats.url());
    let node = Upgraded::serve(&["--cluster=c", "--node=n1", &url]);
    let mut subscriber = Subscriber::open(node.listen(), STREAMS[0], &["all"]);
    let sentence = node.refused(&[]);
    assert!(sentence.contains("cluster"), "{sentence}");
    node.api.post("/send", &json!({ "about": "all", "data": "still" })).ok();
    assert_eq!(subscriber.data(), "still");
    // One that is alone does not become a node of one by the way either.
    let mut alone = Kept::serve(&[]);
    let joins = rewriting(&alone.path("joins"), &[("", "--cluster=c"), ("", &url)]);
    alone.refuses(&["--binary", &joins], &["cluster"]);
    alone.then_upgrades();
}

/// Whoever is neither root nor the server's user may not ask, whatever the socket's mode says.
#[test]
fn socket_answers_its_own_user_alone() {
    let mut kept = Kept::serve(&[]);
    let socket = kept.path("upgrade.sock");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&socket), 0o600);
    let folder = tempfile::tempdir().unwrap();
    let binary = folder.path().join("encke");
    fs::copy(env!("CARGO_BIN_EXE_encke"), &binary).unwrap();
    for path in [folder.path(), &binary, kept.server.data()] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let as_nobody = |arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&binary);
        command.args(arguments);
        command
    };
    let may = as_nobody(&["--version"]).output();
    if !may.is_ok_and(|output| output.status.success()) {
        return testing::skip("this user may not become another one (setpriv)");
    }
    let owner = kept.server.owner();
    let ask = ["upgrade", "--data", kept.server.data().to_str().unwrap()];
    let sentence = kept.server.assert_refused(&run(&mut as_nobody(&ask)), owner);
    assert!(sentence.contains("user"), "{sentence}");
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o666)).unwrap();
    kept.server.assert_refused(&run(&mut as_nobody(&ask)), owner);
    wait_for("the log tells who", || kept.server.stderr().contains("another user"));
    kept.check();
    kept.then_upgrades();
}

/// It succeeds, or it fails with a sentence and all is as before; with room again it succeeds.
#[test]
fn full_disk_ends_an_upgrade_one_way_or_the_other() {
    let Some(disk) = SmallDisk::mount(16 << 20) else { return };
    let data = disk.mount_point().join("data");
    let entered = |arguments: &[&str]| {
        let mut command = Command::new(&disk.enter()[0]);
        command.args(&disk.enter()[1..]);
        let program = encke(arguments);
        command.arg(program.get_program()).args(program.get_args()).arg("--data").arg(&data);
        command
    };
    let arguments = ["serve", "--json", "--listen=127.0.0.1:0", "--api=127.0.0.1:0", "--workers=2"];
    let server = Server::of(Program::spawn(&mut entered(&arguments)));
    let mut subscribers: Vec<Subscriber> = [Kind::Sse, Kind::WebSocket, Kind::Classic]
        .into_iter()
        .map(|kind| Subscriber::open(server.listen(), kind, &["all"]))
        .collect();
    let mut all_hear = |text: &str| {
        assert_eq!(server.api.send("all", text), subscribers.len() as u64);
        subscribers.iter_mut().for_each(|subscriber| assert_eq!(subscriber.data(), text));
    };
    all_hear("before");
    disk.fill();
    let full = run(&mut entered(&["upgrade"]));
    println!("on a full disk: {full:?}");
    match full.code {
        Some(0) => {}
        Some(1) => assert!(full.stderr.contains("encke: "), "{full:?}"),
        other => panic!("{other:?}: {full:?}"),
    }
    all_hear("full");
    disk.clear();
    let cleared = run(&mut entered(&["upgrade"]));
    assert_eq!(cleared.code, Some(0), "{cleared:?}");
    all_hear("cleared");
    server.api.subscribe("all", "rj");
    assert_eq!(server.api.send("rj", "followed"), 3);
    kill_all_on(&data);
}

/// What is lacking in the middle of it, when the listeners' state is on its way already.
#[test]
fn successor_whose_descriptors_run_out_on_the_way_leaves_the_old_server() {
    let kept = Kept::serve(&["--workers=1"]);
    let listen = kept.server.listen();
    let listeners: Vec<Subscriber> =
        (0..100).map(|_| Subscriber::open(listen, Kind::Sse, &["listeners"])).collect();
    let (go, encke) = (kept.path("go"), env!("CARGO_BIN_EXE_encke"));
    // It has enough when it checks, and too few right behind that: by chance, so the outcome is
    // either of the two.
    let limits = format!(
        "pid=$$; (until [ -e {0} ]; do :; done; sleep 0.05; prlimit --pid $pid --nofile=40:40) & \
         : > {0}; exec {encke} \"$@\"",
        go.display()
    );
    let program = script(&kept.path("shrinking"), &limits);
    let said = run(&mut kept.server.command(&["--binary", &program]));
    println!("descriptors that run out: {said:?}");
    assert!(matches!(said.code, Some(0 | 1)), "{said:?}");
    wait_for("one process is left", || kept.server.processes().len() == 1);
    assert_eq!(kept.server.api.send("listeners", "all in"), listeners.len() as u64);
    drop(listeners);
    kept.server.wait_open(kept.subscribers.len() as u64);
    assert_eq!(kept.server.api.send("all", "still"), kept.subscribers.len() as u64);
}
