//! A collector that is not there, or takes what it gets and says nothing, costs no send anything.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;

use crate::harness::{Server, wait_for};

/// Sends whose spans are more than the queue and a batch hold, 2,048 and 512, at three each.
const SENDS: usize = 1_000;

/// The count of spans with this outcome.
fn spans(server: &Server, outcome: &str) -> u64 {
    let metrics = server.api.get("/metrics").body;
    let name = format!("encke_trace_spans_total{{outcome=\"{outcome}\"}} ");
    metrics.lines().find_map(|line| line.strip_prefix(&name)).unwrap().parse().unwrap()
}

#[test]
fn sends_go_on_while_the_collector_says_nothing_and_the_end_is_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let otlp = format!("--otlp=http://{}/base/", listener.local_addr().unwrap());
    let server = Server::start(&[&otlp, "--otlp-headers=api-key=s3cret,x-tenant=a%20b"]);
    server.api.send("1", "x");
    // It takes one request, and says nothing to it.
    let (silent, _) = listener.accept().unwrap();
    let mut lines = BufReader::new(&silent).lines().map(Result::unwrap);
    let head: Vec<String> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
    assert_eq!(head[0], "POST /base/v1/traces HTTP/1.1");
    for field in ["content-type: application/x-protobuf", "api-key: s3cret", "x-tenant: a b"] {
        assert!(head.iter().any(|line| line == field), "{field}: {head:?}");
    }
    // Further requests wait there unanswered, too. A send that waited for one would be a request
    // each.
    listener.set_nonblocking(true).unwrap();
    let mut requests = Vec::new();
    for sent in 0..SENDS {
        server.api.send("1", "x");
        requests.extend(std::iter::from_fn(|| listener.accept().ok()));
        assert!(requests.len() < 10 + sent / 2, "{sent} sends wait for the collector");
    }
    // The queue holds 2,048, and has room for a batch more as often as a request was given up.
    wait_for("what finds no room is counted", || {
        server.api.send("1", "x");
        spans(&server, "dropped") >= 952
    });
    // What is left are four requests or five, and the end waits for less than one.
    let ended = server.stop("TERM");
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert!(ended.stderr.contains("did not take the last traces in time"), "{ended:?}");
    assert!(!ended.stderr.contains("s3cret"), "{ended:?}");
}

#[test]
fn collector_that_is_away_is_told_once_with_its_cause() {
    // Nobody listens there any more.
    let address = format!("127.0.0.1:{}", testing::free_port());
    let server = Server::start(&[&format!("--otlp=http://{address}")]);
    server.api.send("1", "x");
    wait_for("what was not taken is counted", || spans(&server, "failed") == 3);
    server.api.send("1", "x");
    wait_for("what was not taken is counted", || spans(&server, "failed") == 6);
    let ended = server.stop("TERM");
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    let told = "the collector did not take traces";
    let lines: Vec<&str> = ended.stderr.lines().filter(|line| line.contains(told)).collect();
    assert_eq!(lines.len(), 1, "{ended:?}");
    assert!(lines[0].contains("refused") && lines[0].contains(&address), "{ended:?}");
}
