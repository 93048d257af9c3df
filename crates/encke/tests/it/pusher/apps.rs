//! The file of apps: how commands keep it, and how a server goes by its changes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};

use super::{AppServer, SECRET, app_with, get, option_of, post};
use crate::harness::{Finished, Program, Server, Socket, encke, wait_for};

fn app(args: &[&str], file: &Path) -> Finished {
    Program::run(encke(["pusher", "app"]).args(args).arg("--file").arg(file))
}

#[test]
fn app_is_made_and_its_secret_is_shown_once() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("apps.json");
    let made = app(&["new"], &file);
    assert_eq!(made.code(), Some(0), "{made:?}");
    let lines: Vec<(&str, &str)> =
        made.stdout.lines().map(|line| line.split_once('=').unwrap()).collect();
    let names: Vec<_> = lines.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["PUSHER_APP_ID", "PUSHER_APP_KEY", "PUSHER_APP_SECRET"]);
    let (id, key, secret) = (lines[0].1, lines[1].1, lines[2].1);
    assert_eq!((id, key.len(), secret.len()), ("1", 20, 48));
    let made: Value = serde_json::from_str(&app(&["new", "--json"], &file).stdout).unwrap();
    assert_eq!(made["id"], "2");
    for args in [&["list"][..], &["list", "--json"]] {
        let listed = app(args, &file);
        assert_eq!((listed.code(), listed.stdout.lines().count()), (Some(0), 2), "{listed:?}");
        assert!(listed.stdout.contains(key) && !listed.stdout.contains(secret), "{listed:?}");
    }
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    for (wrong, code) in [(&["new", "--id=2"][..], 1), (&["new", "--id=x"], 1), (&["list"], 1)] {
        let file = if wrong == ["list"] { dir.path().join("none") } else { file.clone() };
        let finished = app(wrong, &file);
        assert_eq!(finished.code(), Some(code), "{wrong:?}: {finished:?}");
        assert!(!finished.stderr.contains(secret));
    }
}

#[test]
fn app_that_sends_more_than_its_rate_is_told_when_to_send_again() {
    let app = |members: &Value| json!([app_with(members)]);
    let apps = AppServer::of(&app(&json!({ "max_events_per_second": 1 })), &[]);
    let channels: Vec<String> = (0..100).map(|number| format!("c-{number}")).collect();
    let many = json!({ "name": "n", "channels": channels, "data": "x" });
    let one = json!({ "name": "n", "channel": "c", "data": "x" });
    let send = |path: &str, body: &Value| post(&apps.server.api, "1", path, body);
    // It takes up the rate of a hundred seconds.
    assert_eq!(send("/events", &many).ok(), json!({}));
    for (path, body) in [("/events", one.clone()), ("/batch_events", json!({ "batch": [one] }))] {
        let refused = send(path, &body);
        let problem = refused.problem(429);
        assert!(problem["detail"].as_str().unwrap().contains("max_events_per_second"));
        let wait: u64 = refused.head.field("retry-after").unwrap().parse().unwrap();
        assert!((1..=100).contains(&wait), "{wait}");
    }
    assert_eq!(get(&apps.server.api, "1", "/channels", &[]).status(), 200, "it may look");
    option_of(apps.files.path(), &app(&json!({})));
    wait_for("it has no bound any more", || send("/events", &one).status() == 200);
}

#[test]
fn server_goes_by_changes_of_the_file_and_keeps_its_apps_where_it_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("apps.json");
    let write = |ids: &[&str]| {
        let app = |id: &&str| json!({ "id": id, "key": format!("app-{id}"), "secret": SECRET });
        let apps: Vec<Value> = ids.iter().map(app).collect();
        fs::write(&file, json!(apps).to_string()).unwrap();
    };
    let option = format!("--pusher-apps={}", file.display());
    let start = || {
        let mut serve = encke(["serve", "--listen=127.0.0.1:0", "--api=127.0.0.1:0", &option]);
        Program::run(serve.arg("--data").arg(dir.path()))
    };
    let missing = start();
    assert_eq!(missing.code(), Some(1));
    assert!(missing.stderr.contains("--pusher-apps"), "{missing:?}");
    fs::write(&file, format!(r#"[{{"id":"1","key":"k","secret":"{SECRET}","more":1}}]"#)).unwrap();
    let wrong = start();
    assert_eq!(wrong.code(), Some(1));
    assert!(wrong.stderr.contains("`more`") && !wrong.stderr.contains(SECRET), "{wrong:?}");
    write(&["1"]);
    let server = Server::start_in(dir.path(), &[&option]);
    let status = |app: &str| get(&server.api, app, "/channels", &[]).status();
    assert_eq!((status("1"), status("2")), (200, 404));
    assert!(server.stderr().contains("chmod 600"), "others can read the file");
    let mut before = Socket::open(server.listen(), "/app/app-1");
    assert_eq!(before.json()["event"], "pusher:connection_established");
    write(&["2"]);
    wait_for("the other app is there", || (status("1"), status("2")) == (404, 200));
    wait_for("the log says so", || server.stderr().contains("its apps are in use"));
    before.send(r#"{"event":"pusher:ping","data":{}}"#);
    assert_eq!(before.json()["event"], "pusher:pong", "who is there stays");
    let mut late = Socket::open(server.listen(), "/app/app-1");
    assert_eq!(late.json()["event"], "pusher:error");
    assert_eq!(u16::from(late.end().0), 4001);
    fs::write(&file, "[").unwrap();
    wait_for("the fault is told", || server.stderr().contains("stay in use"));
    assert_eq!(status("2"), 200);
    write(&["2", "3"]);
    server.signal("HUP");
    wait_for("it is read at SIGHUP", || status("3") == 200);
}
