//! A disk whose syncs take long: who asks for durable waits for it, and nobody else does.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;

use serde_json::{Value, json};
use tempfile::TempDir;
use testing::DEADLINE;

use super::send;
use crate::harness::{Api, Program, Server, encke, wait_for};

/// A disk that can be made slow.
struct SlowDisk {
    dir: TempDir,
}

impl SlowDisk {
    fn latch(&self) -> PathBuf {
        self.dir.path().join("latch")
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// A server whose syncs of files with `of` in their path may take long. Of the two the disk
    /// goes first, so that a server ends of which a test has failed.
    fn serve(of: &str, options: &[&str]) -> (Server, SlowDisk) {
        let disk = SlowDisk { dir: tempfile::tempdir().unwrap() };
        let library = disk.dir.path().join("slow_sync.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/fixtures/slow_sync.c");
        let mut compile = Command::new("cc");
        compile.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source);
        assert!(compile.status().unwrap().success());
        let serve = ["serve", "--json", "--listen=127.0.0.1:0", "--api=127.0.0.1:0"];
        let mut command = encke(serve);
        command.args(options).arg("--data").arg(disk.data());
        command.env("LD_PRELOAD", library).env("SYNC_OF", of);
        command.env("SYNC_WAITS_FOR", disk.latch());
        let server = Server::of(Program::spawn(&mut command));
        (server, disk)
    }

    /// From now on syncs do not end.
    fn begin_to_hang(&self) {
        fs::write(self.latch(), "").unwrap();
    }

    fn wait_until_one_hangs(&self) {
        wait_for("a sync that waits", || self.dir.path().join("latch.waits").exists());
    }

    /// They end.
    fn go_on(&self) {
        fs::remove_file(self.latch()).unwrap();
    }
}

/// Makes a request on a connection of its own, which may take long.
fn begin(api: &Api, request: impl FnOnce(Api) -> u16 + Send + 'static) -> Receiver<u16> {
    let (answered, answer) = mpsc::sync_channel(1);
    let api = api.another();
    thread::spawn(move || answered.send(request(api)));
    answer
}

#[test]
fn sync_of_the_log_that_takes_long_holds_up_durable_sends_alone() {
    let (server, disk) = SlowDisk::serve("/log/", &["--keep=k*=1d"]);
    let place = send(&server.api, "k1", "before");
    let (mut kept, mut other) = (server.listener("k1"), server.listener("x"));
    disk.begin_to_hang();
    let durable = begin(&server.api, |api| {
        let event = json!({ "about": "k1", "data": "durable", "durable": true });
        api.post("/send", &event).status()
    });
    disk.wait_until_one_hangs();
    assert_eq!(kept.data(), "durable", "clients hear it at once");
    let all: Vec<String> = (0..500).map(|nth| format!("{nth}")).collect();
    for data in &all {
        send(&server.api, "k2", data.as_str());
    }
    assert_eq!(server.api.send("x", "not kept"), 1);
    assert_eq!(other.data(), "not kept");
    let page = |id: &str| server.api.get(&format!("/events/{id}?limit=1000")).ok();
    let data = |page: Value| -> Vec<Value> {
        page["events"].as_array().unwrap().iter().map(|event| event["data"].clone()).collect()
    };
    assert_eq!(data(page("k1")), ["before", "durable"]);
    assert_eq!(data(page("k2")), all);
    let mut resumed = server.listener(&format!("k1?id=k2&after={place}"));
    assert_eq!((resumed.data(), resumed.data()), (json!("durable"), json!("0")));
    server.api.subscribe("ann", "bob");
    let log = server.api.stats()["log"].take();
    assert_eq!(log["failing"], false, "{log}");
    assert_eq!(durable.try_recv(), Err(TryRecvError::Empty), "its sync has not ended");
    disk.go_on();
    assert_eq!(durable.recv_timeout(DEADLINE), Ok(200));
    server.stop("TERM");
    let server = Server::start_in(&disk.data(), &["--keep=k*=1d"]);
    let page = server.api.get("/events/k2?limit=1000").ok();
    assert_eq!(data(page), all, "what was sent meanwhile is on disk");
}

#[test]
fn sync_of_a_stream_that_takes_long_holds_up_its_writers_alone() {
    let (server, disk) = SlowDisk::serve("/streams/", &["--streams"]);
    let text = Some("text/plain");
    let put = |path: &str, body: &str| {
        let path = format!("/v1/stream/{path}");
        server.api.request("PUT", &path, text, body.as_bytes()).unwrap().status()
    };
    assert_eq!((put("one", "first "), put("two", "other")), (201, 201));
    disk.begin_to_hang();
    let append = begin(&server.api, move |api| {
        api.request("POST", "/v1/stream/one", text, b"second").unwrap().status()
    });
    disk.wait_until_one_hangs();
    let read = |path: &str| server.api.get(&format!("/v1/stream/{path}")).body;
    assert_eq!((read("one"), read("two")), ("first ".into(), "other".into()));
    let mut listener = server.listener("x");
    assert_eq!(server.api.send("x", 1), 1);
    assert_eq!(listener.data(), 1);
    assert_eq!(append.try_recv(), Err(TryRecvError::Empty), "its sync has not ended");
    disk.go_on();
    assert_eq!(append.recv_timeout(DEADLINE), Ok(204));
    assert_eq!(read("one"), "first second");
}
