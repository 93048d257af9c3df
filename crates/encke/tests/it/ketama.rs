//! `encke ketama`: the port program over pipes, held against what libketama printed, while its list
//! changes, breaks and comes back.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread;

use tempfile::TempDir;

use crate::harness::{DEADLINE, Program, encke, make_pipe, wait_for};

/// Answers that wait for their test.
const ANSWERS_MAX: usize = 300_000;

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../ketama/tests/data");

/// A running `encke ketama`, its pipes and a list of its own.
struct Port {
    child: Child,
    input: Option<ChildStdin>,
    answers: Receiver<String>,
    stderr: Arc<Mutex<String>>,
    dir: TempDir,
}

/// The list of that name among those of the original.
fn original(name: &str) -> String {
    fs::read_to_string(format!("{DATA}/{name}.servers")).unwrap()
}

/// Keys, and the servers that the original found for them.
fn keys(name: &str) -> Vec<(String, String)> {
    let table = fs::read_to_string(format!("{DATA}/{name}.keys.tsv")).unwrap();
    let rows = table.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    rows.map(|row| (row[0].to_owned(), row[3].to_owned())).collect()
}

fn packet(key: &[u8]) -> Vec<u8> {
    [&[u8::try_from(key.len()).unwrap()], key].concat()
}

impl Port {
    /// Starts it with a copy of the original's list `name`.
    fn start(name: &str) -> Port {
        let dir = tempfile::tempdir().unwrap();
        let list = dir.path().join("servers.txt");
        fs::write(&list, original(name)).unwrap();
        let mut command = encke(["ketama"]);
        command.arg(&list).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (sender, answers) = mpsc::sync_channel(ANSWERS_MAX);
        let mut stdout = child.stdout.take().unwrap();
        thread::spawn(move || {
            while let Some(answer) = read_packet(&mut stdout) {
                // Fails only when the test has no more interest.
                let _ = sender.send(answer);
            }
        });
        let stderr = Arc::new(Mutex::new(String::new()));
        let (mut errors, shared) = (child.stderr.take().unwrap(), Arc::clone(&stderr));
        thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(len @ 1..) = errors.read(&mut piece) {
                shared.lock().unwrap().push_str(&String::from_utf8_lossy(&piece[..len]));
            }
        });
        Port { input: child.stdin.take(), child, answers, stderr, dir }
    }

    fn list(&self) -> PathBuf {
        self.dir.path().join("servers.txt")
    }

    /// Puts `list` in the place of the list, whole.
    fn replace(&self, list: &str) {
        let new = self.dir.path().join("new");
        fs::write(&new, list).unwrap();
        fs::rename(new, self.list()).unwrap();
    }

    fn send(&mut self, bytes: &[u8]) {
        self.input.as_mut().unwrap().write_all(bytes).unwrap();
    }

    fn answer(&self) -> String {
        self.answers.recv_timeout(DEADLINE).unwrap()
    }

    fn ask(&mut self, key: &str) -> String {
        self.send(&packet(key.as_bytes()));
        self.answer()
    }

    /// Asks for all keys at once, and holds the answers against the original's.
    fn check(&mut self, name: &str) {
        let keys = keys(name);
        let packets: Vec<u8> = keys.iter().flat_map(|(key, _)| packet(key.as_bytes())).collect();
        self.send(&packets);
        for (key, server) in keys {
            assert_eq!(self.answer(), server, "{key}");
        }
    }

    /// How often it has said so far what contains `text`.
    fn said(&self, text: &str) -> usize {
        self.stderr.lock().unwrap().matches(text).count()
    }

    /// Ends its input; returns its exit code and what it said.
    fn end(mut self) -> (Option<i32>, String) {
        drop(self.input.take());
        self.wait()
    }

    fn wait(&mut self) -> (Option<i32>, String) {
        wait_for("the port program ends", || self.child.try_wait().unwrap().is_some());
        let code = self.child.wait().unwrap().code();
        // The reader has everything once its pipe has ended.
        wait_for("standard error ends", || Arc::strong_count(&self.stderr) == 1);
        (code, self.stderr.lock().unwrap().clone())
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The next packet, or `None` at the end.
fn read_packet(stdout: &mut impl Read) -> Option<String> {
    let mut len = [0];
    stdout.read_exact(&mut len).ok()?;
    let mut answer = vec![0; len[0].into()];
    stdout.read_exact(&mut answer).unwrap();
    Some(String::from_utf8(answer).unwrap())
}

#[test]
fn program_under_the_original_s_name_is_the_port_program() {
    let dir = tempfile::tempdir().unwrap();
    let (list, driver) = (dir.path().join("servers.txt"), dir.path().join("ketama_erlang_driver"));
    fs::write(&list, original("equal5")).unwrap();
    symlink(env!("CARGO_BIN_EXE_encke"), &driver).unwrap();
    let mut command = Command::new(driver);
    command.arg(&list).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (key, server) = keys("equal5").swap_remove(0);
    child.stdin.take().unwrap().write_all(&packet(key.as_bytes())).unwrap();
    assert_eq!(read_packet(child.stdout.as_mut().unwrap()), Some(server));
    assert!(child.wait().unwrap().success());
}

#[test]
fn keys_of_the_original_get_its_servers() {
    for name in ["equal5", "equal5_minus3", "unequal8"] {
        let mut port = Port::start(name);
        port.check(name);
        // And one at a time.
        for (key, server) in keys(name).into_iter().step_by(100) {
            assert_eq!(port.ask(&key), server, "{key}");
        }
        assert_eq!(port.end(), (Some(0), String::new()));
    }
}

#[test]
fn keys_may_come_in_any_pieces_and_have_any_bytes() {
    let mut port = Port::start("unequal8");
    for byte in packet(b"user:1") {
        port.send(&[byte]);
    }
    assert_eq!(port.answer(), "10.0.1.7:11211");
    let all: Vec<u8> = (0..=255).flat_map(|len| packet(&vec![255 - len; len.into()])).collect();
    all.chunks(1000).for_each(|piece| port.send(piece));
    (0..=255).for_each(|_| assert!(port.answer().ends_with(":11211")));
    assert_eq!(port.end(), (Some(0), String::new()));
}

#[test]
fn keys_on_their_way_are_all_answered_in_order() {
    const ROUNDS: usize = 200;
    let mut port = Port::start("unequal8");
    let keys = keys("unequal8");
    let packets: Vec<u8> = keys.iter().flat_map(|(key, _)| packet(key.as_bytes())).collect();
    let mut input = port.input.take().unwrap();
    // It ends while answers are on their way.
    let sender =
        thread::spawn(move || (0..ROUNDS).for_each(|_| input.write_all(&packets).unwrap()));
    for _ in 0..ROUNDS {
        keys.iter().for_each(|(key, server)| assert_eq!(port.answer(), *server, "{key}"));
    }
    sender.join().unwrap();
    assert_eq!(port.end(), (Some(0), String::new()));
}

#[test]
fn list_that_changes_is_taken_however_it_is_written() {
    let mut port = Port::start("equal5");
    let key = "user:40";
    let servers = |name: &str| keys(name).into_iter().find(|(k, _)| k == key).unwrap().1;
    let (all, fewer) = (servers("equal5"), servers("equal5_minus3"));
    assert_ne!(all, fewer);
    assert_eq!(port.ask(key), all);
    port.replace(&original("equal5_minus3"));
    wait_for("the list that took its place", || port.ask(key) == fewer);
    port.check("equal5_minus3");
    fs::write(port.list(), original("equal5")).unwrap();
    wait_for("the list that was written over it", || port.ask(key) == all);
    port.check("equal5");
    for told in ["4 servers now, 5 before", "5 servers now, 4 before"] {
        wait_for(told, || port.said(told) == 1);
    }
}

#[test]
fn servers_of_before_hold_while_the_list_is_bad() {
    let mut port = Port::start("unequal8");
    // It has read its list.
    port.check("unequal8");
    let list = port.list();
    let mut states = 0;
    let mut check = |change: &dyn Fn(&Path), told: &str| {
        change(&list);
        states += 1;
        wait_for(told, || port.said("the 8 servers of before hold: ") == states);
        assert!(port.said(told) > 0, "{told}");
        port.check("unequal8");
    };
    check(&|list| fs::write(list, "10.0.1.1:11211 1\nnonsense\n").unwrap(), "line 2: no memory");
    check(&|list| fs::write(list, "# nobody\n").unwrap(), "there is no server");
    check(&|list| fs::write(list, [0xff; 9000]).unwrap(), "line 1: these bytes are not UTF-8");
    check(&|list| fs::remove_file(list).unwrap(), "cannot read");
    check(&|list| fs::create_dir(list).unwrap(), "is not a file that can be read again");
    let pipe = |list: &Path| {
        fs::remove_dir(list).unwrap();
        make_pipe(list);
    };
    check(&pipe, "is not a file that can be read again");
    let huge = |list: &Path| {
        fs::remove_file(list).unwrap();
        fs::File::create(list).unwrap().set_len(1 << 30).unwrap();
    };
    check(&huge, "more than 16777216 bytes");
    port.replace(&original("unequal8"));
    wait_for("the good list is back", || port.said("is as before: 8 servers") == 1);
    port.replace(&original("equal5"));
    wait_for("another good list", || port.said("has changed: 5 servers now, 8 before") == 1);
    port.check("equal5");
    let (code, stderr) = port.end();
    assert_eq!(code, Some(0));
    assert_eq!(stderr.lines().count(), 9, "each state of the file is told of once: {stderr}");
}

#[test]
fn half_a_key_at_the_end_is_a_failure() {
    let mut port = Port::start("equal5");
    assert_eq!(port.ask("user:1"), "10.0.1.5:11211");
    port.send(b"\x06user");
    let (code, stderr) = port.end();
    assert_eq!(code, Some(1));
    assert!(stderr.starts_with("encke: standard input ended within a packet, 5 of 7 bytes"));
}

#[test]
fn signals_and_a_reader_that_is_gone_are_good_ends() {
    for signal in ["TERM", "INT"] {
        let mut port = Port::start("equal5");
        assert_eq!(port.ask("user:1"), "10.0.1.5:11211");
        testing::signal(port.child.id(), signal);
        assert_eq!(port.wait(), (Some(0), String::new()), "{signal}");
    }
    let mut command = encke(["ketama", &format!("{DATA}/equal5.servers")]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    child.stdin.as_mut().unwrap().write_all(&packet(b"user:1")).unwrap();
    wait_for("it sees that nobody reads", || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn bad_list_at_the_start_is_wrong_usage_and_told_by_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let list = dir.path().join("servers.txt");
    let run = |list: &Path| Program::run(encke(["ketama"]).arg(list));
    for (text, told) in [
        ("10.0.1.1:11211 600\n10.0.1.2:11211\n", "servers.txt, line 2: no memory after"),
        ("10.0.1.1:11211 600MB\n", "servers.txt, line 1: \"600MB\" is no memory: write"),
        ("# nobody\n", "servers.txt: there is no server: name one"),
    ] {
        fs::write(&list, text).unwrap();
        let finished = run(&list);
        assert_eq!((finished.code(), finished.stdout.as_str()), (Some(2), ""), "{finished:?}");
        let line = finished.stderr.lines().next().unwrap_or_default();
        assert!(line.starts_with("encke: ") && line.contains(told), "{finished:?}");
    }
    assert_eq!(run(dir.path()).code(), Some(2), "a directory is no list");
    let finished = run(&dir.path().join("none.txt"));
    assert_eq!(finished.code(), Some(1), "{finished:?}");
    assert!(finished.stderr.contains("cannot read ") && finished.stderr.contains("none.txt"));
    assert_eq!(Program::run(&mut encke(["ketama"])).code(), Some(2), "a list must be named");
}

#[test]
fn server_without_keys_is_told_of() {
    let dir = tempfile::tempdir().unwrap();
    let list = dir.path().join("servers.txt");
    fs::write(&list, "10.0.1.1:11211 100000\n10.0.1.2:11211 1\n").unwrap();
    let finished = Program::run(encke(["ketama"]).arg(&list));
    assert_eq!(finished.code(), Some(0), "{finished:?}");
    assert!(finished.stderr.contains("10.0.1.2:11211 has no keys"), "{finished:?}");
}
