//! Upgrades that fail before the point of no return: a sentence, and the old server as it was, with
//! all its streams, its sends and its store. The next upgrade succeeds.

use std::fs;
use std::path::Path;

use serde_json::json;

use super::served::{Upgraded, rewriting, run, said, script};
use super::subscriber::{STREAMS, Subscriber};
use crate::harness::{Program, Server, encke, wait_for};

/// A server with a stream of each kind, which stay whatever happens.
pub(super) struct Kept {
    pub(super) server: Upgraded,
    pub(super) subscribers: Vec<Subscriber>,
    sends: u64,
}

impl Kept {
    pub(super) fn serve(options: &[&str]) -> Kept {
        Kept::of(Upgraded::serve(&[&["--websocket-deflate"], options].concat()))
    }

    pub(super) fn of(server: Upgraded) -> Kept {
        let kinds = STREAMS.iter().enumerate();
        let open =
            |(n, &kind)| Subscriber::open(server.listen(), kind, &["all", &format!("own:{n}")]);
        let subscribers = kinds.map(open).collect();
        let mut kept = Kept { server, subscribers, sends: 0 };
        kept.check();
        kept
    }

    /// All are there and hear, and the graph can be changed and read.
    #[track_caller]
    pub(super) fn check(&mut self) {
        let Kept { server, subscribers, sends } = self;
        *sends += 1;
        let subject = format!("subject:{sends}");
        server.api.subscribe("all", &subject);
        assert_eq!(server.api.ids(&format!("/subscribers/{subject}"), 9), ["all"]);
        let event = json!({ "about": subject, "data": "still", "key": subject });
        let answer = server.api.post("/send", &event).ok();
        assert_eq!(answer["delivered"], subscribers.len(), "{answer}");
        for (n, subscriber) in subscribers.iter_mut().enumerate() {
            assert_eq!(subscriber.data(), "still", "{:?}", subscriber.kind);
            assert_eq!(server.api.send(&format!("own:{n}"), "here"), 1);
            assert_eq!(subscriber.data(), "here", "{:?}", subscriber.kind);
            assert!(subscriber.heard.is_empty() && subscriber.gaps == 0, "{:?}", subscriber.kind);
        }
        let stats = server.api.stats();
        assert_eq!(stats["connections_open"], subscribers.len(), "{stats}");
        assert_eq!(stats["connections_opened"], subscribers.len(), "{stats}");
        server.api.get("/readyz").ok();
    }

    /// An upgrade with `options` fails with a sentence that has all of `words` in it.
    #[track_caller]
    pub(super) fn refuses(&mut self, options: &[&str], words: &[&str]) {
        let sentence = self.server.refused(options);
        for word in words {
            assert!(sentence.contains(word), "{word:?} in {sentence:?}");
        }
        self.check();
    }

    /// And nothing of it is left that hinders the next one.
    #[track_caller]
    pub(super) fn then_upgrades(mut self) {
        self.server.upgrade(&[]);
        self.check();
    }

    pub(super) fn path(&self, name: &str) -> std::path::PathBuf {
        self.server.data().join(name)
    }
}

#[test]
fn binary_that_cannot_be_one_leaves_the_old_server() {
    let mut kept = Kept::serve(&[]);
    let nowhere = kept.path("nowhere").display().to_string();
    kept.refuses(&["--binary", &nowhere], &[&nowhere]);
    // Not executable; a folder; bytes that no system runs.
    let no_program = kept.path("no-program");
    fs::write(&no_program, [0x7f, b'E', b'L', b'F', 0, 1, 2, 3]).unwrap();
    let no_program = no_program.display().to_string();
    kept.refuses(&["--binary", &no_program], &[&no_program]);
    script(Path::new(&no_program), "");
    fs::write(&no_program, [0x7f, b'E', b'L', b'F', 0, 1, 2, 3]).unwrap();
    kept.refuses(&["--binary", &no_program], &[&no_program]);
    let folder = kept.server.data().display().to_string();
    kept.refuses(&["--binary", &folder], &[&folder]);
    kept.then_upgrades();
}

#[test]
fn program_that_ends_at_once_leaves_the_old_server() {
    let mut kept = Kept::serve(&[]);
    for text in ["exit 0", "exit 3", "kill -9 $$", "echo nonsense; exit 1"] {
        let program = script(&kept.path("ends"), text);
        kept.refuses(&["--binary", &program], &[]);
    }
    // Another program altogether, which knows no `serve`.
    kept.refuses(&["--binary", "/bin/ls"], &[]);
    kept.then_upgrades();
}

#[test]
fn program_that_says_nothing_is_given_up_and_ended() {
    let mut kept = Kept::serve(&[]);
    // Its command line stays, so that whoever is left is seen.
    let program = script(&kept.path("silent"), "while :; do sleep 0.1; done");
    kept.refuses(&["--binary", &program], &[]);
    kept.then_upgrades();
}

#[test]
fn configuration_that_cannot_be_read_leaves_the_old_server() {
    let mut kept = Kept::serve(&[]);
    let config = kept.path("bad.toml");
    let texts = [
        None,
        Some("serve = ["),
        Some("[serve]\nno-such = 1\n"),
        Some("[serve]\nkeepalive = \"x\"\n"),
    ];
    for text in texts {
        text.iter().for_each(|text| fs::write(&config, text).unwrap());
        let owner = kept.server.owner();
        let said = run(&mut kept.server.command(&["--config", config.to_str().unwrap()]));
        // What nobody can read is wrong usage of the command itself.
        assert!(matches!(said.code, Some(1 | 2)), "{said:?}");
        // Why stands here, or where the new process says things: in the server's log.
        wait_for("somebody says why", || {
            [&said.stderr, &kept.server.stderr()].iter().any(|told| told.contains("bad.toml"))
        });
        assert_eq!(kept.server.owner(), owner);
        wait_for("nobody else is left", || kept.server.processes() == [owner]);
        kept.check();
    }
    fs::write(&config, "[serve]\nkeepalive = 77\n").unwrap();
    kept.server.upgrade(&["--config", config.to_str().unwrap()]);
    kept.check();
    kept.then_upgrades();
}

/// A second one is told so; the first goes its way.
#[test]
fn upgrade_during_an_upgrade_is_refused() {
    let mut kept = Kept::serve(&[]);
    let (owner, go) = (kept.server.owner(), kept.path("go"));
    let encke = env!("CARGO_BIN_EXE_encke");
    let text = format!("until [ -e {} ]; do sleep 0.05; done; exec {encke} \"$@\"", go.display());
    let waiting = script(&kept.path("waiting"), &text);
    let first = Program::spawn(&mut kept.server.command(&["--binary", &waiting]));
    wait_for("the first is on its way", || kept.server.processes().len() == 2);
    let second = run(&mut kept.server.command(&[]));
    assert_eq!(second.code, Some(1), "{second:?}");
    assert!(second.stderr.contains("under way"), "{second:?}");
    kept.check();
    fs::write(go, "").unwrap();
    let first = said(first);
    assert_eq!(first.code, Some(0), "{first:?}");
    assert_ne!(kept.server.owner(), owner);
    kept.check();
    kept.then_upgrades();
}

/// The program that was started by the signal ends with it.
#[test]
fn server_that_is_told_to_end_in_an_upgrade_by_signal_ends() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("program");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_encke"), &program).unwrap();
    let first = Server::start_program(&program, dir.path(), &[]);
    let server = Upgraded::of(first, dir.path());
    fs::remove_file(&program).unwrap();
    script(&program, "while :; do sleep 0.1; done");
    server.signal("USR2");
    wait_for("a program is started", || server.processes().len() == 2);
    server.signal("TERM");
    wait_for("both have ended", || server.processes().is_empty());
}

/// However shortly before or after all is its own: who is told that it serves finds a server, and
/// where none is left the old one has ended as one that failed, so that it is started again.
#[test]
fn successor_that_dies_as_it_takes_over_is_never_said_to_serve() {
    for milliseconds in [0, 1, 2, 3, 4, 6, 8, 12, 16, 30] {
        let dir = tempfile::tempdir().unwrap();
        let mut server = Upgraded::of(Server::start_in(dir.path(), &[]), dir.path());
        let old = server.owner();
        let text = format!(
            "{0} \"$@\" & pid=$!; until read owner < {1} && [ \"$owner\" = $pid ]; do :; done; \
             sleep 0.{milliseconds:03}; kill -9 $pid; wait",
            env!("CARGO_BIN_EXE_encke"),
            dir.path().join("lock").display()
        );
        let program = script(&dir.path().join("dies"), &text);
        let said = run(&mut server.command(&["--binary", &program]));
        println!("killed {milliseconds} ms after it has the lock: {said:?}");
        if said.stderr.contains("goes on as before") {
            assert_eq!((said.code, server.owner()), (Some(1), old));
            assert_eq!(server.api.send("nobody", 1), 0);
            continue;
        }
        wait_for("all have ended", || server.processes().is_empty());
        // It may have served before it was killed.
        let is_lost = said.code == Some(1) && said.stderr.contains("start the server");
        assert!(is_lost || said.code == Some(0), "{said:?}");
        wait_for("the old one says how it went", || server.exit_code().is_some());
        assert_eq!(server.exit_code() == Some(0), !is_lost, "{}", server.stderr());
    }
}

#[test]
fn upgrade_without_a_server_says_so() {
    let data = tempfile::tempdir().unwrap();
    let upgrade = |data: &Path| {
        let said = run(encke(["upgrade", "--data"]).arg(data));
        assert_eq!(said.code, Some(1), "{said:?}");
        said.stderr
    };
    let folder = data.path().display().to_string();
    let sentence = upgrade(data.path());
    assert!(sentence.contains(&folder) && sentence.contains("encke serve"), "{sentence}");
    let nowhere = data.path().join("nowhere");
    assert!(upgrade(&nowhere).contains("nowhere"));
    // What a server that was killed has left is no server.
    let server = Server::start_in(data.path(), &[]);
    assert!(data.path().join("upgrade.sock").exists());
    server.into_program().kill();
    assert!(upgrade(data.path()).contains(&folder));
    // One that ended in order has left nothing, and the next one serves.
    let server = Server::start_in(data.path(), &[]);
    assert_eq!(server.stop("TERM").code(), Some(0));
    assert!(upgrade(data.path()).contains(&folder));
    let kept = Kept::of(Upgraded::of(
        Server::start_in(data.path(), &["--websocket-deflate"]),
        data.path(),
    ));
    kept.then_upgrades();
}

/// The starter that goes away stops nothing and starts nothing: what it began ends one way or the
/// other.
#[test]
fn starter_that_is_killed_leaves_a_server_with_all_streams() {
    let mut kept = Kept::serve(&[]);
    let slow = format!("sleep 0.3; exec {} \"$@\"", env!("CARGO_BIN_EXE_encke"));
    let slow = script(&kept.path("slow"), &slow);
    let starter = Program::spawn(&mut kept.server.command(&["--binary", &slow]));
    wait_for("it is on its way", || kept.server.processes().len() == 2);
    starter.kill();
    // Where one program becomes another, for a moment neither is seen.
    wait_for("the upgrade has ended", || {
        let log = kept.server.stderr();
        ["a new program has taken over", "the upgrade has failed"]
            .iter()
            .any(|end| log.contains(end))
    });
    // A server that was replaced stays for its clients' connections, and ends each with an answer.
    wait_for("one process is left", || {
        kept.server.api.stats();
        kept.server.processes().len() == 1
    });
    kept.check();
    kept.then_upgrades();
}

#[test]
fn successor_that_starts_by_itself_beside_no_server_begins_anew() {
    let server = Server::start(&["--take-over"]);
    let mut subscriber = Subscriber::open(server.listen(), STREAMS[0], &["bob"]);
    assert_eq!(server.api.send("bob", "hello"), 1);
    assert_eq!(subscriber.data(), "hello");
}

#[test]
fn other_ports_are_refused() {
    let mut kept = Kept::serve(&[]);
    for option in ["--listen=", "--api="] {
        let port = testing::free_port();
        let changed = format!("{option}127.0.0.1:{port}");
        let program = rewriting(&kept.path("ports"), &[(option, &changed)]);
        kept.refuses(&["--binary", &program], &[&port.to_string()]);
    }
    kept.then_upgrades();
}
