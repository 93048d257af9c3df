//! `encke watch`: the rows say what the server says, also of one that was not there.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::harness::{Program, Server, encke, own_ports, wait_for};

/// `encke watch` of the API at `api` into `file`, ten times a second.
pub(crate) fn watch(api: &str, file: &Path) -> Program {
    Program::spawn(encke(["watch", "--every=0.1", "--api", api, "-o"]).arg(file))
}

/// The rows that are complete, as maps by column.
pub(crate) fn rows(text: &str) -> Vec<BTreeMap<&str, &str>> {
    let complete = text.rfind("\r\n").map_or("", |end| &text[..end]);
    let mut lines = complete.split("\r\n");
    let names: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    lines
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            assert_eq!(fields.len(), names.len(), "{line}");
            names.iter().copied().zip(fields).collect()
        })
        .collect()
}

/// Waits until a row of `file` is as `right` says.
fn wait_row(file: &Path, what: &str, right: impl Fn(&BTreeMap<&str, &str>) -> bool) {
    wait_for(what, || {
        let text = fs::read_to_string(file).unwrap_or_default();
        rows(&text).iter().any(&right)
    });
}

#[test]
fn rows_show_connections_events_and_memory() {
    let server = Server::start(&[]);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("run.csv");
    let watch = watch(&server.api_url(), &file);
    wait_row(&file, "a row before anything happens", |row| row["connections_open"] == "0");
    let mut bob = server.listener("bob");
    server.api.subscribe("bob", "rj");
    for n in 0..5 {
        server.api.send("rj", n);
    }
    assert_eq!(bob.data(), 0);
    wait_row(&file, "the interval of the events", |row| {
        row["events"] == "5"
            && row["deliveries"] == "5"
            && row["subscriptions"] == "1"
            && row["connections_open"] == "1"
            && row["ids_online"] == "1"
    });
    watch.signal("INT");
    let finished = watch.finish();
    assert_eq!((finished.code(), &*finished.stderr), (Some(0), ""), "{finished:?}");
    assert!(finished.stdout.contains(" s  open 1  heap "), "{finished:?}");
    assert!(finished.stdout.contains(" rows in "), "says what there is now: {finished:?}");

    let text = fs::read_to_string(&file).unwrap();
    let rows = rows(&text);
    let number = |row: &BTreeMap<&str, &str>, name: &str| row[name].parse::<f64>().unwrap_or(0.0);
    let sent: Vec<_> = rows.iter().filter(|row| !row["send_p50_ms"].is_empty()).collect();
    assert!(!sent.is_empty(), "the interval in which events were sent has percentiles");
    for row in sent {
        assert!(number(row, "send_p50_ms") <= number(row, "send_max_ms"), "{row:?}");
    }
    // A row may be of a moment between an event and its answer, which has its time in the next row.
    let is_sending = |row: &BTreeMap<&str, &str>| number(row, "events_per_second") > 0.0;
    for pair in rows.windows(2).filter(|pair| !pair[1]["send_p50_ms"].is_empty()) {
        assert!(pair.iter().any(is_sending), "{pair:?}");
    }
    let last = rows.last().unwrap();
    assert_eq!((last["deliveries"], last["subscriptions"]), ("5", "1"));
    let (whole, heap) = (number(last, "resident_bytes"), number(last, "resident_anonymous_bytes"));
    assert!(whole > heap && heap > 0.0, "{last:?}");
    assert!(last["utc"].ends_with('Z') && last["utc"].contains('T'));
    assert!(rows.windows(2).all(|pair| number(&pair[0], "seconds") < number(&pair[1], "seconds")));
}

#[test]
fn server_that_goes_away_leaves_a_gap_and_is_heard_of_again() {
    let (data, [_, api]) = (tempfile::tempdir().unwrap(), own_ports());
    let server = Server::start_in(data.path(), &[&api]);
    let url = server.api_url();
    let file = data.path().join("run.csv");
    let watch = watch(&url, &file);
    server.api.send("rj", 1);
    wait_row(&file, "a row with the event", |row| row["events"] == "1");
    server.into_program().kill();
    wait_row(&file, "a row without figures", |row| row["events"].is_empty());
    wait_for("it is said", || watch.stderr().contains("the server is away"));
    let _server = Server::start_in(data.path(), &[&api]);
    wait_row(&file, "a row of the new server", |row| row["events"] == "0");
    wait_for("it is said", || watch.stderr().contains("the server is back"));
    watch.signal("TERM");
    let finished = watch.finish();
    assert_eq!(finished.code(), Some(0), "{finished:?}");
    assert_eq!(finished.stderr.matches("away").count(), 1, "said once: {finished:?}");

    let text = fs::read_to_string(&file).unwrap();
    let rows = rows(&text);
    for pair in rows.windows(2).filter(|pair| pair[0]["events"].is_empty()) {
        assert_eq!(pair[1]["events_per_second"], "", "nobody knows how many there were");
    }
}

#[test]
fn rows_go_to_standard_output_and_end_after_their_time() {
    let server = Server::start(&[]);
    let args = ["watch", "--every=0.05", "--seconds=0.2", "-o", "-", "--api"];
    let finished = Program::run(encke(args).arg(server.api_url()));
    assert_eq!((finished.code(), &*finished.stderr), (Some(0), ""), "{finished:?}");
    let lines: Vec<&str> = finished.stdout.lines().collect();
    assert!(lines.len() > 1 && lines[0].starts_with("seconds,utc,resident_bytes,"), "{finished:?}");
    assert!(lines.iter().all(|line| line.matches(',').count() == lines[0].matches(',').count()));
}

#[test]
fn file_that_exists_is_left_alone_and_no_server_is_a_sentence() {
    // Nobody else is given the port when the server is gone.
    let [_, api] = own_ports();
    let server = Server::start(&[&api]);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("run.csv");
    fs::write(&file, "precious").unwrap();
    let finished = watch(&server.api_url(), &file).finish();
    assert_eq!(finished.code(), Some(1), "{finished:?}");
    assert!(finished.stderr.contains("exists and is left as it is"), "{finished:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");

    let gone = server.api_url();
    assert_eq!(server.stop("TERM").code(), Some(0));
    let other = dir.path().join("other.csv");
    let finished = watch(&gone, &other).finish();
    assert_eq!(finished.code(), Some(1), "{finished:?}");
    assert!(finished.stderr.contains("start one with `encke serve`"), "{finished:?}");
    assert!(!other.exists(), "no run, no file");
}
