//! A listener that polls, against a server of one connection that looks at every request.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use load::report::FloodReport;
use load::{Flood, FloodConfig};
use proto::Transport;

use crate::{TIMEOUT, payload};

/// The first line of the next request.
fn request(reader: &mut BufReader<TcpStream>) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "it ended after {head:?}");
    }
    assert!(head.contains("\r\nAccept: application/json\r\n"), "{head}");
    head.lines().next().unwrap().to_owned()
}

/// An answer with further `fields`, each with its line end.
fn answer(fields: &str, body: &str) -> String {
    let len = body.len();
    format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n{fields}\r\n{body}")
}

fn event(number: u32) -> String {
    format!("{{\"id\":\"{number:016x}\",\"data\":{}}}", payload(number, Duration::ZERO))
}

fn start(listener: &TcpListener, path: &str, resume: bool) -> (Flood, BufReader<TcpStream>) {
    let url = format!("http://{}{path}", listener.local_addr().unwrap());
    let transport = Transport::Poll;
    let config = FloodConfig { url, users: 1, transport, resume, ..FloodConfig::default() };
    let flood = Flood::start(config).unwrap();
    (flood, BufReader::new(listener.accept().unwrap().0))
}

#[test]
fn each_poll_goes_on_where_the_answer_before_ended() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (flood, mut reader) = start(&listener, "/poll/{id}", false);
    let mut send = reader.get_ref().try_clone().unwrap();
    assert_eq!(request(&mut reader), "GET /poll/0?wait=0 HTTP/1.1");
    assert_eq!(flood.totals().opened, 0, "it is online once it is answered");
    send.write_all(answer("Encke-Next: 0000000000000007\r\n", "[]\n").as_bytes()).unwrap();
    assert_eq!(request(&mut reader), "GET /poll/0?after=0000000000000007 HTTP/1.1");
    assert!(flood.wait_until(TIMEOUT, |totals| totals.open() == 1));
    // In pieces, and without a place: the one before still holds.
    for piece in answer("", &format!("[{},\n{}]\n", event(1), event(2))).as_bytes().chunks(31) {
        send.write_all(piece).unwrap();
        send.flush().unwrap();
    }
    assert_eq!(request(&mut reader), "GET /poll/0?after=0000000000000007 HTTP/1.1");
    let fields = "Encke-Next: 00000000000000ff\r\nEncke-Gap: true\r\n";
    send.write_all(answer(fields, &format!("[{}]\n", event(4))).as_bytes()).unwrap();
    assert_eq!(request(&mut reader), "GET /poll/0?after=00000000000000ff HTTP/1.1");
    send.write_all(answer("Connection: close\r\n", "[]\n").as_bytes()).unwrap();
    assert!(flood.wait_until(TIMEOUT, |totals| totals.closed_total() == 1));
    assert_eq!(flood.totals().told_gaps, 1);
    let report = FloodReport::from(&flood.finish().unwrap());
    assert_eq!((report.stamped, report.missing, report.doubled), (3, 1, 0), "{report}");
    assert_eq!((report.opened, report.closed_by["ended"]), (1, 1));
}

#[test]
fn place_that_tells_where_a_gap_ends_is_given_back_whole() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    for resume in [false, true] {
        let (flood, mut reader) = start(&listener, "/poll/{id}", resume);
        let mut send = reader.get_ref().try_clone().unwrap();
        request(&mut reader);
        let place = "2F7NAE26uSeW7eeX2F7NAE26uSe";
        let fields = format!("Encke-Next: {place}\r\nEncke-Gap: true\r\n");
        send.write_all(answer(&fields, &format!("[{}]\n", event(1))).as_bytes()).unwrap();
        assert_eq!(request(&mut reader), format!("GET /poll/0?after={place} HTTP/1.1"));
        send.write_all(answer("Encke-Next: 0000000000000007\r\n", "[]\n").as_bytes()).unwrap();
        assert_eq!(request(&mut reader), "GET /poll/0?after=0000000000000007 HTTP/1.1");
        let report = FloodReport::from(&flood.finish().unwrap());
        assert_eq!(report.told_gaps, 1, "resumes: {resume}, {report}");
    }
}

/// As of a server that stops. The number of its polls is bounded, since they wait for each other.
#[test]
fn server_that_answers_at_once_with_nothing_is_asked_once_a_second() {
    const POLLS: u32 = 5;
    let answers =
        [answer("", "[]\n"), answer("Encke-Next: 0000000000000007\r\nEncke-Gap: true\r\n", "[]\n")];
    for (answer, polls_at_once) in answers.iter().zip([1, 2]) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/poll/{{id}}", listener.local_addr().unwrap());
        let transport = Transport::Poll;
        let config = FloodConfig { url, users: 1, transport, ..FloodConfig::default() };
        let begin = Instant::now();
        let flood = Flood::start(config).unwrap();
        let mut reader = BufReader::new(listener.accept().unwrap().0);
        let mut asked = 0;
        let mut line = String::new();
        while asked < POLLS {
            line.clear();
            assert!(reader.read_line(&mut line).unwrap() > 0, "it goes on");
            if line == "\r\n" {
                asked += 1;
                reader.get_ref().write_all(answer.as_bytes()).unwrap();
            }
        }
        // The first poll does not wait, so it is followed at once.
        let pauses = POLLS - 1 - polls_at_once;
        assert!(begin.elapsed() >= pauses * Duration::from_millis(999), "{:?}", begin.elapsed());
        drop(reader);
        flood.finish().unwrap();
    }
}

#[test]
fn poll_that_is_not_answered_well_is_a_failure_first_and_an_end_later() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (flood, mut reader) = start(&listener, "/poll?ch={id}", false);
    assert_eq!(request(&mut reader), "GET /poll?ch=0&wait=0 HTTP/1.1");
    let refusal = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n";
    reader.get_ref().write_all(refusal).unwrap();
    assert!(flood.wait_until(TIMEOUT, |totals| totals.failed_total() == 1));
    flood.finish().unwrap();

    for (bad, reason) in [(&refusal[..], "malformed"), (b"", "cut")] {
        let (flood, mut reader) = start(&listener, "/poll/{id}", false);
        request(&mut reader);
        reader.get_ref().write_all(answer("", "[]\n").as_bytes()).unwrap();
        assert_eq!(request(&mut reader), "GET /poll/0 HTTP/1.1", "no place, no parameter");
        reader.get_ref().write_all(bad).unwrap();
        drop(reader);
        assert!(flood.wait_until(TIMEOUT, |totals| totals.closed_total() == 1));
        let report = FloodReport::from(&flood.finish().unwrap());
        assert_eq!((report.opened, report.closed_by[reason]), (1, 1), "{report}");
    }
}
