//! A disk that is full: changes of the graph say so, everything else goes on, and it all works
//! again once there is room.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::harness::{Program, Server, encke};
use crate::starting::start_or_end;

const DISK_BYTES: usize = 16 << 20;
const BALLAST_BYTES: usize = 12 << 20;

/// A server whose data directory is a small disk, which goes when the server goes. `None` where
/// this user may not make one.
pub(crate) fn server_on_a_small_disk(mount_point: &Path, options: &[&str]) -> Option<Server> {
    let mut command = testing::on_small_disk(mount_point, DISK_BYTES)?;
    let data = mount_point.join("data");
    let serve = encke(["serve", "--json", "--listen=127.0.0.1:0", "--api=127.0.0.1:0", "--data"]);
    command.arg(serve.get_program()).args(serve.get_args()).arg(data).args(options);
    Some(Server::of(Program::spawn(&mut command)))
}

/// `path` as the process sees it in its own mount namespace.
pub(crate) fn inside(server: &Server, path: &Path) -> PathBuf {
    Path::new(&format!("/proc/{}/root", server.pid())).join(path.strip_prefix("/").unwrap())
}

/// Subscriptions in one request.
const BATCH: usize = 5000;

/// Adds batch after batch until one is refused; returns how many were acknowledged.
fn add_until_full(server: &Server, label: &str) -> usize {
    for batch in 0..1000 {
        let pairs: Vec<_> = (0..BATCH)
            .map(|n| json!({ "subscriber": format!("{label}:{batch}:{n}"), "subscribee": n % 50 }))
            .collect();
        let answer = server.api.post("/subscriptions/add", &json!(pairs));
        if answer.status() != 200 {
            let problem = answer.problem(507);
            let detail = problem["detail"].as_str().unwrap();
            assert!(detail.contains("disk is full") && detail.contains("free"), "{detail}");
            return batch;
        }
    }
    panic!("five million subscriptions fit on {DISK_BYTES} bytes");
}

#[test]
fn full_disk_is_told_and_the_server_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let Some(server) = server_on_a_small_disk(dir.path(), &[]) else {
        return testing::skip("this user may not mount a small disk (unshare --mount)");
    };
    server.api.subscribe("bob", "rj");
    let ballast = inside(&server, &dir.path().join("ballast"));
    fs::write(&ballast, vec![1; BALLAST_BYTES]).unwrap();
    let stored = 1 + BATCH * add_until_full(&server, "early");

    let mut bob = server.listener("bob");
    for n in 0..20 {
        assert_eq!(server.api.send("rj", n), 1);
        assert_eq!(bob.data(), n);
        assert_eq!(server.api.get("/subscribers/rj").ok()["ids"], json!(["bob"]));
        // A single pair may find room in pages that are there already.
        let more = json!([{ "subscriber": n, "subscribee": "new" }]);
        let answer = server.api.post("/subscriptions/add", &more);
        assert!(matches!(answer.status(), 200 | 507), "{answer:?}");
    }
    server.api.get("/readyz").ok();
    assert!(server.api.stats()["subscriptions"].as_u64().unwrap() >= stored as u64);

    fs::remove_file(&ballast).unwrap();
    let before = server.api.stats()["subscriptions"].as_u64().unwrap();
    let more = add_until_full(&server, "late");
    assert!(more > 0, "works again once there is room");
    let after = server.api.stats()["subscriptions"].as_u64().unwrap();
    assert_eq!(after, before + (BATCH * more) as u64);
    let ids = server.api.ids("/subscribers/7", 5000);
    assert_eq!(ids.len(), (stored - 1 + BATCH * more) / 50);
    assert_eq!(server.api.send("rj", "still here"), 1);
    assert_eq!(bob.data(), "still here");
    assert_eq!(server.stop("TERM").code(), Some(0));
}

/// Also of the file that LMDB maps and writes by way of the map, for which it asks the disk for
/// nothing before.
#[test]
fn server_starts_on_a_disk_that_is_nearly_full_or_says_why_not() {
    let dir = tempfile::tempdir().unwrap();
    let (mut starts, mut refusals) = (0, 0);
    for free_kib in [0, 4, 8, 16, 64, 160, 264, 272, 284, 300, 320, 400, 900] {
        let Some(mut command) = testing::on_small_disk(dir.path(), 1 << 20) else {
            return testing::skip("this user may not mount a small disk (unshare --mount)");
        };
        // A folder, and what is left of a mebibyte.
        let script = "mkdir \"$1/data\" && head -c \"$2\" /dev/zero > \"$1/ballast\"; \
                      exec \"$0\" serve --listen=127.0.0.1:0 --api=127.0.0.1:0 --data=\"$1/data\"";
        let ballast = ((1 << 20) - (free_kib << 10)).to_string();
        let program = env!("CARGO_BIN_EXE_encke");
        command.args(["sh", "-c", script, program]).arg(dir.path()).arg(ballast);
        let (starts_up, ended) = start_or_end(&mut command);
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.signal(), None, "{free_kib} KiB free: {said}");
        assert_eq!(ended.status.code(), Some(i32::from(!starts_up)), "{free_kib} KiB: {said}");
        if starts_up {
            starts += 1;
        } else {
            refusals += 1;
            let is_told = said.contains("encke: ") && said.contains("space");
            assert!(is_told && !said.contains("report it"), "{free_kib} KiB: {said}");
        }
    }
    assert!(starts > 1 && refusals > 5, "{starts} starts, {refusals} refusals");
}
