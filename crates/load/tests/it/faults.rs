//! What a report calls a fault, and what it says that nobody checked.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread::JoinHandle;

use proto::Transport;

use super::*;

/// A server that ends its answers in good order and has left one out.
#[test]
fn event_without_an_answer_is_a_fault() {
    let report = run(
        |config| config,
        200,
        |number| match number {
            150 => Fate::Silent,
            _ => Fate::Deliver,
        },
    );
    assert_eq!((report.lost, report.spam.sent, report.spam.answered), (-1, 200, 199));
    let faults = ["1 events were not answered", "1 events more were received"];
    expect_faults(&report.findings(), &faults);
}

#[test]
fn connection_to_the_api_that_ends_early_is_a_fault() {
    let server = Server::start(|number| if number == 100 { Fate::End } else { Fate::Lose });
    let spam = finished(Spam::start(&spam_config(&server)).unwrap());
    assert!(spam.answered < 200, "{spam}");
    let findings = spam.findings();
    assert!(findings.failure().unwrap().contains("ended before its time"), "{findings:?}");
}

/// What an API says comes as the network brings it, and it need not read on.
#[test]
fn refusal_that_comes_in_pieces_is_told_whole() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let api = format!("http://{}", listener.local_addr().unwrap());
    let refusing = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_nodelay(true).unwrap();
        let _ = stream.read(&mut [0; 16]).unwrap();
        let answer = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 9\r\n\r\nneeds key";
        answer.iter().for_each(|&byte| stream.write_all(&[byte]).unwrap());
        stream.shutdown(Shutdown::Write).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let duration = Some(Duration::from_millis(20));
    let spam =
        finished(Spam::start(&SpamConfig { api, duration, ..SpamConfig::default() }).unwrap());
    refusing.join().unwrap();
    assert!(spam.to_string().contains("status 401: needs key"), "{spam}");
}

#[test]
fn rate_that_is_not_kept_is_a_fault() {
    let server = Server::start(|_| Fate::Lose);
    let late_after = Duration::ZERO;
    let config = SpamConfig { late_after, coalesce: Duration::ZERO, ..spam_config(&server) };
    let spam = finished(Spam::start(&config).unwrap());
    // 100,000 a second are more than one write each can be in time for.
    assert!(spam.late > 0 && spam.behind.max_ms > 0.0, "{spam}");
    assert!(spam.findings().failure().unwrap().contains("the rate was not kept"));
}

#[test]
fn run_that_is_stopped_says_what_it_left_out() {
    let server = Server::start(|_| Fate::Lose);
    let config = SpamConfig {
        rate: 10.0,
        duration: Some(Duration::from_secs(1_000)),
        ..spam_config(&server)
    };
    let mut spam = Spam::start(&config).unwrap();
    while spam.snapshot().totals.sent == 0 {
        std::thread::yield_now();
    }
    let report = SpamReport::from(&spam.finish());
    let findings = report.findings();
    assert_eq!((report.planned, report.stopped, findings.failure()), (Some(10_000), true, None));
    assert!(findings.unchecked[0].contains("of 10,000 events: it was stopped"), "{findings:?}");
}

/// What another run delivers must not make up for what this one has lost.
#[test]
fn events_of_another_run_are_no_deliveries_of_this_one() {
    let server = Server::start(|number| if number == 200 { Fate::Lose } else { Fate::Deliver });
    let flood = flood(&server, 10);
    server.send("0", &event(1, Duration::ZERO));
    let spam = finished(Spam::start(&spam_config(&server)).unwrap());
    assert!(flood.wait_until(TIMEOUT, |totals| totals.events == 200));
    let report = RunReport::new(FloodReport::from(&flood.finish().unwrap()), spam);
    assert_eq!((report.flood.stamped, report.spam.delivered, report.lost), (200, 200, 1));
    expect_faults(&report.findings(), &["1 events were lost"]);
}

/// An API that serves one connection by `serve`.
fn api(serve: impl FnOnce(TcpStream) + Send + 'static) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (url, std::thread::spawn(move || serve(listener.accept().unwrap().0)))
}

#[test]
fn interim_answer_comes_with_the_final_one() {
    let (api, serving) = api(|mut stream| {
        while stream.read(&mut [0; 4096]).is_ok_and(|read| read > 0) {
            let answer = b"HTTP/1.1 103 Early Hints\r\n\r\n\
                HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{\"delivered\":0}";
            stream.write_all(answer).unwrap();
        }
    });
    let (duration, mode) = (Some(Duration::from_millis(100)), SpamMode::Post);
    let config = SpamConfig { api, duration, mode, rate: 20.0, ..SpamConfig::default() };
    let spam = finished(Spam::start(&config).unwrap());
    assert_eq!((spam.sent, spam.answered), (2, 2), "{spam}");
    serving.join().unwrap();
}

/// Two thousand of them took a second each, and nobody could end that.
#[test]
fn answers_to_nothing_cost_no_time() {
    let (api, serving) = api(|mut stream| {
        let _ = stream.read(&mut [0; 4096]).unwrap();
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let lines = "{\"delivered\":0}\n".repeat(2_000);
        let answers = format!("{head}{:x}\r\n{lines}\r\n0\r\n\r\n", lines.len());
        stream.write_all(answers.as_bytes()).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let duration = Some(Duration::from_secs(1_000));
    let config = SpamConfig { api, duration, rate: 5.0, ..SpamConfig::default() };
    let spam = Spam::start(&config).unwrap();
    testing::wait_for("its end: each is waited for", || spam.is_finished());
    assert_eq!(SpamReport::from(&spam.finish()).answered, 2_000);
    serving.join().unwrap();
}

#[test]
fn runs_that_cannot_be_are_refused() {
    let refused = |config| Spam::start(&config).err().unwrap().to_string();
    let config = || SpamConfig { users: 10, ..SpamConfig::default() };
    let told = refused(SpamConfig { first_id: u64::MAX, ..config() });
    assert!(told.contains("64 bits"), "{told}");
    let told = refused(SpamConfig { in_flight_max: usize::MAX, ..config() });
    assert!(told.contains("1,000,000"), "{told}");
    let told = refused(SpamConfig { payload: Payload::Padded(9 << 30), ..config() });
    assert!(told.contains("1 MiB"), "{told}");
    let config = FloodConfig { transport: Transport::Classic, resume: true, ..Default::default() };
    let told = Flood::start(config).err().unwrap().to_string();
    assert!(told.contains("--resume"), "{told}");
}
