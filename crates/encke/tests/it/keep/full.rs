//! A disk that is full: what is to be kept is refused, all else goes on, and what is kept, too,
//! once there is room.

use std::fs::{self, File};
use std::io::Write;
use std::process::Command;

use serde_json::json;
use testing::SmallDisk;

use super::send_durable;
use crate::full_disk::{inside, server_on_a_small_disk};
use crate::harness::{Program, Server, encke, wait_for};

/// Sends that a disk of 16 MiB has no room for.
const SENDS_MAX: usize = 100_000;

#[test]
fn full_disk_refuses_what_is_to_be_kept_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let Some(server) = server_on_a_small_disk(dir.path(), &["--keep=k*=7d"]) else {
        return testing::skip("this user may not mount a small disk (unshare --mount)");
    };
    let mut stream = server.listener("x");
    let kept = |n: usize| {
        let data = format!("{n}:{}", "x".repeat(1000));
        server.api.post("/send", &json!({ "about": "k1", "data": data, "durable": true }))
    };
    kept(0).ok();
    let ballast = inside(&server, &dir.path().join("ballast"));
    let mut file = File::create(&ballast).unwrap();
    // Until there is no room for a page any more.
    while file.write_all(&[1; 4096]).is_ok() {}
    // Open, it would have its room even when it is removed.
    drop(file);
    let refused = (1..SENDS_MAX).map(kept).find(|answer| answer.status() != 200);
    let problem = refused.expect("the disk is full").problem(503);
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("not on disk for sure") || detail.contains("is full"), "{detail}");
    wait_for("a send that is refused as a whole", || {
        let answer = kept(0);
        let is_refused = answer.status() == 503;
        is_refused && answer.json()["detail"].as_str().unwrap().contains("Nothing was sent")
    });
    assert_eq!(server.api.send("x", "goes on"), 1);
    assert_eq!(stream.data(), "goes on");
    assert_eq!(server.api.stats()["log"]["failing"], true);
    fs::remove_file(&ballast).unwrap();
    wait_for("room", || kept(0).status() == 200);
    assert_eq!(server.api.stats()["log"]["failing"], false);
    assert!(server.api.stats()["log"]["failures"].as_u64() > Some(0));
}

/// What was kept is there, too, and once there is room more is kept.
#[test]
fn server_that_is_restarted_on_a_full_disk_serves_all_that_it_need_not_write() {
    let Some(disk) = SmallDisk::mount(16 << 20) else { return };
    let data = disk.mount_point().join("data");
    let serve = || {
        let (program, before) = disk.enter().split_first().unwrap();
        let serve = ["serve", "--json", "--listen=127.0.0.1:0", "--api=127.0.0.1:0"];
        let encke = encke(serve);
        let mut command = Command::new(program);
        command.args(before).arg(encke.get_program()).args(encke.get_args());
        command.arg("--keep=k*=7d").arg("--data").arg(&data);
        Server::of(Program::spawn(&mut command))
    };
    let server = serve();
    let place = send_durable(&server.api, "k1", "heard");
    send_durable(&server.api, "k1", "missed");
    server.stop("TERM");
    disk.fill();
    let server = serve();
    assert_eq!(server.listener(&format!("k1?after={place}")).data(), "missed");
    let mut stream = server.listener("x");
    assert_eq!(server.api.send("x", "goes on"), 1);
    assert_eq!(stream.data(), "goes on");
    let kept = || {
        let event = json!({ "about": "k1", "data": "x".repeat(1000), "durable": true });
        server.api.post("/send", &event).status()
    };
    // The last page of a file may have room left.
    wait_for("a refusal", || kept() == 503);
    disk.clear();
    wait_for("room", || kept() == 200);
}
