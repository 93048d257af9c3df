//! Streams that open, fail, end and come back.

use testing::wait_for;

use super::*;

#[test]
fn streams_that_end_are_counted_by_reason() {
    let server = Server::start(|_| Fate::Deliver);
    let flood = flood(&server, 4);
    server.send_raw("0", b"0\r\n\r\n");
    server.close("1");
    server.send_raw("2", b"no chunk");
    assert!(flood.wait_until(TIMEOUT, |totals| totals.closed_total() == 3));
    let report = FloodReport::from(&flood.finish().unwrap());
    assert_eq!((report.open, report.opened, report.closed), (1, 4, 3));
    let reasons: Vec<_> = report.closed_by.into_iter().collect();
    assert_eq!(reasons, [("cut", 1), ("ended", 1), ("malformed", 1)]);
}

#[test]
fn streams_that_do_not_open_are_counted_with_the_servers_words() {
    let server = Server::start(|_| Fate::Deliver);
    let flood = flood(&server, 14);
    let report = FloodReport::from(&flood.finish().unwrap());
    assert_eq!((report.open, report.failed), (13, 1));
    assert_eq!(report.failed_by["status"], 1);
    assert!(report.first_failure.unwrap().contains("403: {\"title\":\"Unlucky\"}"));
}

#[test]
fn nobody_listening_is_a_failure_of_each_listener() {
    let free = std::net::SocketAddr::from(([127, 0, 0, 1], testing::free_port()));
    let url = format!("http://{free}/stream/{{id}}");
    let flood = flood_of(FloodConfig { url, users: 5, ..FloodConfig::default() });
    let report = FloodReport::from(&flood.finish().unwrap());
    assert_eq!(report.failed_by["refused"], 5);
    let api = format!("http://{free}");
    let error = Spam::start(&SpamConfig { api, ..SpamConfig::default() }).unwrap_err();
    assert!(error.to_string().contains("is the server running?"), "{error}");
}

#[test]
fn listener_that_lost_its_stream_comes_back() {
    let server = Server::start(|_| Fate::Deliver);
    let url = server.stream_url();
    let flood = flood_of(FloodConfig { url, users: 2, reconnect: true, ..FloodConfig::default() });
    server.close("1");
    assert!(flood.wait_until(TIMEOUT, |totals| totals.opened == 3));
    let report = FloodReport::from(&flood.finish().unwrap());
    assert_eq!((report.open, report.closed), (2, 1));
}

#[test]
fn crowd_leaves_when_its_time_is_over_and_not_before() {
    let server = Server::start(|_| Fate::Deliver);
    let time = Duration::from_millis(500);
    let (url, duration, begun) = (server.stream_url(), Some(time), Instant::now());
    let flood = Flood::start(FloodConfig { url, users: 3, duration, ..FloodConfig::default() });
    let flood = flood.unwrap();
    wait_for("it leaves", || flood.is_finished());
    assert!(begun.elapsed() >= time, "{:?}", begun.elapsed());
    flood.finish().unwrap();
}

#[test]
fn paced_crowd_on_threads_and_addresses_of_its_own_is_whole() {
    let server = Server::start(|_| Fate::Deliver);
    let config = FloodConfig {
        url: server.stream_url(),
        users: 12,
        first_id: 100,
        threads: 3,
        connect_rate: 2_000.0,
        sources: vec!["127.0.0.7".parse().unwrap(), "127.0.0.8".parse().unwrap()],
        ..FloodConfig::default()
    };
    let flood = flood_of(config);
    for id in 100..112 {
        server.send(&id.to_string(), "data: x\n\n");
    }
    assert!(flood.wait_until(TIMEOUT, |totals| totals.events == 12));
    assert_eq!(flood.finish().unwrap().totals.begun, 12);
}
