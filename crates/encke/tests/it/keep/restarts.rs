//! A restart is no gap for what is kept, and one for all else.

use std::fs;
use std::path::{Path, PathBuf};

use super::{send, send_durable};
use crate::epoch::{expect_gaps, told};
use crate::harness::{Server, wait_for};

/// What is kept here.
const KEEP: &[&str] = &["--keep=x=7d", "--keep=k*=7d"];

/// Each transport hears `data` from `place`, first of all, and no gap.
#[track_caller]
fn expect(server: &Server, place: &str, data: &str) {
    for (transport, told) in told(server, place) {
        let is_gap = told.to_lowercase().contains("gap");
        assert!(told.contains(data) && !is_gap, "{transport}, from {place}: {told:?}");
    }
}

#[test]
fn client_that_comes_back_after_a_restart_hears_what_it_missed_on_every_transport() {
    let data = tempfile::tempdir().unwrap();
    let mut before: Vec<String> = Vec::new();
    for (nth, signal) in ["TERM", "KILL", "TERM", "KILL", "TERM"].into_iter().enumerate() {
        let server = Server::start_in(data.path(), KEEP);
        for place in &before {
            expect(&server, place, "missed");
        }
        let heard = send(&server.api, "x", format!("heard {nth}"));
        assert!(before.iter().max() < Some(&heard), "{before:?}, then {heard}");
        before.push(heard);
        send_durable(&server.api, "x", format!("missed {nth}"));
        let stats = server.api.stats();
        assert_eq!(stats["resumes"].as_u64() > Some(0), nth > 0, "{stats}");
        assert_eq!(stats["resume_gaps"], 0);
        server.stop(signal);
    }
}

/// Its place may be that of an event that nobody keeps, which the log does not know.
#[test]
fn client_of_what_is_kept_alone_hears_no_gap_after_a_kill_wherever_it_was() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_in(data.path(), KEEP);
    send_durable(&server.api, "x", "heard");
    let place = send(&server.api, "other", "not kept");
    server.stop("KILL");
    let server = Server::start_in(data.path(), KEEP);
    send(&server.api, "x", "missed");
    expect(&server, &place, "missed");
}

#[test]
fn restart_is_a_gap_for_what_is_not_kept_also_beside_what_is() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_in(data.path(), KEEP);
    server.api.subscribe("x", "other");
    server.api.subscribe("k1", "k2");
    let place = send_durable(&server.api, "k2", "heard");
    send_durable(&server.api, "x", "missed");
    send_durable(&server.api, "k2", "missed");
    server.stop("TERM");
    let server = Server::start_in(data.path(), KEEP);
    let mut merged = server.listener(&format!("k1?after={place}"));
    assert_eq!(merged.data(), "missed", "it follows what is kept alone");
    for (transport, told) in told(&server, &place) {
        assert!(told.to_lowercase().contains("gap"), "{transport}: {told:?}");
    }
    assert!(server.api.stats()["resume_gaps"].as_u64().unwrap() > 0);
}

#[test]
fn place_of_a_log_that_was_lost_or_not_kept_for_a_while_is_a_gap() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_in(data.path(), KEEP);
    let place = send_durable(&server.api, "x", "heard");
    server.stop("TERM");
    // What is sent meanwhile is not kept.
    Server::start_in(data.path(), &[]).stop("TERM");
    let server = Server::start_in(data.path(), KEEP);
    expect_gaps(&server, &place);
    let place = send_durable(&server.api, "x", "heard");
    server.stop("TERM");
    fs::remove_dir_all(data.path().join("log")).unwrap();
    let server = Server::start_in(data.path(), KEEP);
    expect_gaps(&server, &place);
    assert!(send(&server.api, "x", "later") > place);
}

#[test]
fn rule_that_is_new_claims_nothing_of_before() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_in(data.path(), &["--keep=k*=7d"]);
    let place = send_durable(&server.api, "k1", "heard");
    send(&server.api, "x", "never kept");
    server.stop("TERM");
    let server = Server::start_in(data.path(), KEEP);
    expect_gaps(&server, &place);
    let place = send_durable(&server.api, "x", "heard");
    send_durable(&server.api, "x", "missed");
    server.stop("TERM");
    let server = Server::start_in(data.path(), KEEP);
    expect(&server, &place, "missed");
}

#[test]
fn log_with_less_room_than_before_is_cut_to_it_without_a_send() {
    let data = tempfile::tempdir().unwrap();
    let serve = |room: &str| Server::start_in(data.path(), &[KEEP, &[room]].concat());
    let bytes = |server: &Server| server.api.stats()["log"]["bytes"].as_u64().unwrap();
    let server = serve("--log-bytes=16MiB");
    let text = "x".repeat(4_000);
    (0..1000).for_each(|_| drop(send(&server.api, "x", &*text)));
    let place = send_durable(&server.api, "x", "heard");
    send_durable(&server.api, "x", "missed");
    assert!(bytes(&server) > 4_000_000);
    server.stop("TERM");
    let server = serve("--log-bytes=1MiB");
    wait_for("it is cut", || bytes(&server) <= (1 << 20) + (1 << 20) / 20);
    expect(&server, &place, "missed");
}

/// The last segment of a log.
fn last_segment(data: &Path) -> PathBuf {
    let files = fs::read_dir(data.join("log")).unwrap().map(|file| file.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|of| of == "log")).max().unwrap()
}

#[test]
fn torn_tail_is_cut_and_told_and_a_place_in_it_is_a_gap() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_in(data.path(), KEEP);
    let place = send_durable(&server.api, "x", "heard");
    send_durable(&server.api, "x", "missed");
    let torn = send_durable(&server.api, "x", "torn".repeat(200));
    server.stop("KILL");
    let segment = last_segment(data.path());
    let bytes = fs::read(&segment).unwrap();
    // In the midst of the last event, whatever stands behind it.
    fs::write(&segment, &bytes[..bytes.len() - 400]).unwrap();
    let server = Server::start_in(data.path(), KEEP);
    expect_gaps(&server, &torn);
    expect(&server, &place, "missed");
    assert!(send(&server.api, "x", "later") > torn);
    let stderr = server.stop("TERM").stderr;
    assert!(stderr.contains("cut off") && stderr.contains(".log: "), "{stderr}");
}

/// Nobody knows how many events were in it: so no place of before is good, also where the epoch's
/// file is gone, as it may be beside a copy of the log.
#[test]
fn newest_segment_that_has_lost_its_beginning_is_a_gap_for_all_who_come_back() {
    for is_copy in [false, true] {
        let data = tempfile::tempdir().unwrap();
        // Killed, so that numbers run ahead of the clock.
        Server::start_in(data.path(), KEEP).stop("KILL");
        let server = Server::start_in(data.path(), KEEP);
        let places: Vec<String> =
            (0..3).map(|nth| send_durable(&server.api, "x", format!("lost {nth}"))).collect();
        server.stop("KILL");
        let segment = last_segment(data.path());
        let mut bytes = fs::read(&segment).unwrap();
        bytes[..64].fill(0);
        fs::write(&segment, bytes).unwrap();
        if is_copy {
            fs::remove_file(data.path().join("epoch")).unwrap();
        }
        let server = Server::start_in(data.path(), KEEP);
        places.iter().for_each(|place| expect_gaps(&server, place));
        let place = send_durable(&server.api, "x", "heard");
        send_durable(&server.api, "x", "missed");
        expect(&server, &place, "missed");
        let stderr = server.stop("TERM").stderr;
        assert!(stderr.contains("it was written last"), "{stderr}");
    }
}
