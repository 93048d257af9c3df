//! Two engines in one process, which are as strange to each other as two processes. Each worker has
//! a table of descriptors of its own.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread;

use hub::{Epoch, IdText, Names, Nobody, Tag};
use testing::{DEADLINE, wait_for};

use super::receiver;
use super::wire::{self, Kind, Way};
use crate::router::Step;
use crate::{Engine, EngineConfig, Outgoing, Predecessor, Takeover};

fn config(workers: usize) -> EngineConfig {
    EngineConfig { workers, ..EngineConfig::new("127.0.0.1:0".parse().unwrap()) }
}

fn epoch() -> Epoch {
    Epoch::begin(Tag::of(7), 0, 1_000_000)
}

fn names() -> Arc<Names> {
    Arc::new(Names::new([5; 16]))
}

fn stream(address: SocketAddr, id: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(format!("GET /stream/{id} HTTP/1.0\r\n\r\n").as_bytes()).unwrap();
    hears(&mut stream, "\r\n\r\n");
    stream
}

/// Reads until that is there.
fn hears(stream: &mut TcpStream, text: &str) -> String {
    let mut heard = Vec::new();
    let mut byte = [0];
    while !String::from_utf8_lossy(&heard).contains(text) {
        assert_eq!(stream.read(&mut byte).unwrap(), 1, "closed after {heard:?}");
        heard.push(byte[0]);
    }
    String::from_utf8(heard).unwrap()
}

fn send(engine: &Engine, about: &str, data: &str) -> u32 {
    let mut sending = engine.router().send(Outgoing::new(about, data).unwrap());
    let receipt = loop {
        if let Step::Posted(receipt) = sending.step(&Nobody).unwrap() {
            break receipt;
        }
    };
    until(|| receipt.ready())
}

fn until<T>(mut ready: impl FnMut() -> Option<T>) -> T {
    let mut value = None;
    wait_for("a step of another thread", || {
        value = ready();
        value.is_some()
    });
    value.expect("it was waited for")
}

/// Whoever takes over, ready for it.
fn successor(from: &Engine, workers: usize, dir: &Path) -> (Engine, Takeover) {
    let predecessor = from.handover_facts().predecessor;
    let mut successor =
        Engine::prepare_successor(config(workers), epoch(), names(), &predecessor).unwrap();
    let takeover = successor.take_over(dir, &predecessor).unwrap();
    (successor, takeover)
}

/// Hands everything over, between engines with so many workers.
fn upgrade(workers: usize, successors: usize, streams: usize) {
    let dir = tempfile::tempdir().unwrap();
    let mut old = Engine::start(config(workers), epoch(), names()).unwrap();
    let address = old.address();
    let mut clients: Vec<_> = (0..streams).map(|at| stream(address, &format!("u{at}"))).collect();
    let (mut new, takeover) = successor(&old, successors, dir.path());
    // One after the other, which is worth a test on a machine of more cores than workers too.
    let handover = old.begin_handover_by(1, dir.path(), successors);
    until(|| handover.progress().done.then_some(()));
    // One that comes late, and one that goes although a copy of it has crossed.
    clients.push(stream(address, "late"));
    let mut gone = clients.remove(0);
    let mut written = 0;
    if successors == workers {
        // A close is one, whoever has a copy.
        let mut sending = old.router().logout(IdText::parse("u0").unwrap());
        let Step::Posted(receipt) = sending.step(&Nobody).unwrap() else { panic!("full") };
        assert_eq!(until(|| receipt.ready()), 1);
        assert_eq!(gone.read_to_end(&mut Vec::new()).unwrap(), 0);
        drop(gone);
    } else {
        drop(gone);
        until(|| (old.handover_facts().connections == clients.len() as u64).then_some(()));
    }
    let last = old.router().event_ids().last();
    handover.freeze();
    written += until(|| handover.written()).unwrap();
    assert_eq!(until(|| takeover.received()).unwrap(), written);
    assert_eq!(written, clients.len() as u64);
    new.router().event_ids().take_over(last);
    let totals = old.totals();
    handover.leave();
    takeover.serve(totals);
    old.drain(0);
    for (at, client) in clients.iter_mut().enumerate() {
        let id = if at + 1 == streams { "late".to_owned() } else { format!("u{}", at + 1) };
        assert_eq!(send(&new, &id, "\"hello\""), 1, "{id}");
        hears(client, "hello");
    }
    let whole = new.snapshot().whole();
    assert_eq!((whole.connections_open, whole.opened), (written, written + 1));
    // Who comes now is served by the other.
    clients.push(stream(address, "new"));
    assert_eq!(send(&new, "new", "1"), 1);
    new.drain(1_000);
}

#[test]
fn streams_go_on_in_another_engine() {
    upgrade(2, 2, 600);
}

#[test]
fn there_may_be_fewer_workers() {
    upgrade(3, 2, 50);
}

#[test]
fn there_may_be_more_workers() {
    upgrade(2, 3, 50);
}

#[test]
fn successor_that_gives_up_has_done_nothing() {
    let mut old = Engine::start(config(2), epoch(), names()).unwrap();
    let mut clients: Vec<_> = (0..50).map(|at| stream(old.address(), &format!("u{at}"))).collect();
    for round in 0..3 {
        let dir = tempfile::tempdir().unwrap();
        let (mut new, takeover) = successor(&old, 2, dir.path());
        let handover = old.begin_handover(dir.path(), 2);
        until(|| handover.progress().done.then_some(()));
        if round > 0 {
            handover.freeze();
            until(|| handover.written()).unwrap();
        }
        if round > 1 {
            until(|| takeover.received()).unwrap();
        }
        drop(takeover);
        new.drain(0);
        handover.go_on();
        for (at, client) in clients.iter_mut().enumerate() {
            assert_eq!(send(&old, &format!("u{at}"), "\"still here\""), 1);
            hears(client, "still here");
        }
    }
    old.drain(1_000);
}

/// An address that this machine does not have (RFC 5737).
const NOWHERE: &str = "192.0.2.1:1";

fn from_nowhere(workers: usize) -> Predecessor {
    let listen = Some(NOWHERE.parse().unwrap());
    Predecessor { listen, tls_listen: None, workers, address_keys: Default::default() }
}

#[test]
fn successor_with_more_workers_that_may_not_listen_is_refused_before_anything_moves() {
    let (from, dir) = (from_nowhere(2), tempfile::tempdir().unwrap());
    let mut successor = Engine::prepare_successor(config(3), epoch(), names(), &from).unwrap();
    let refused = successor.take_over(dir.path(), &from).map(drop).unwrap_err().to_string();
    assert!(refused.contains(&format!("cannot listen on {NOWHERE}")), "{refused}");
}

/// A worker's way to the successor, in a directory of `dir`.
fn way_to_worker(dir: &Path, worker: usize) -> Way {
    Way::new(UnixStream::connect(receiver::socket_path(dir, worker)).unwrap())
}

#[test]
fn successor_that_gets_no_listener_and_may_have_none_does_not_say_that_it_is_ready() {
    let (from, dir) = (from_nowhere(1), tempfile::tempdir().unwrap());
    let mut successor = Engine::prepare_successor(config(1), epoch(), names(), &from).unwrap();
    let takeover = successor.take_over(dir.path(), &from).unwrap();
    wire::send(&mut way_to_worker(dir.path(), 0), Kind::End, &[0; 8], &[]).unwrap();
    let refused = until(|| takeover.received()).unwrap_err();
    assert!(refused.contains(&format!("cannot listen on {NOWHERE}")), "{refused}");
    drop(takeover);
    successor.drain(0);
}

/// Says to the test program that it is the process which shall end.
const CHILD: &str = "ENCKE_TEST_WORKER_ENDS";

/// In the child: a worker gets a file for its listener, which epoll does not take.
fn serve_with_a_file_for_a_listener() {
    let (from, dir) = (from_nowhere(1), tempfile::tempdir().unwrap());
    let mut successor = Engine::prepare_successor(config(1), epoch(), names(), &from).unwrap();
    let takeover = successor.take_over(dir.path(), &from).unwrap();
    let mut way = way_to_worker(dir.path(), 0);
    let file = tempfile::tempfile().unwrap();
    wire::send(&mut way, Kind::Listeners, &[0], &[file.as_fd()]).unwrap();
    wire::send(&mut way, Kind::End, &[0; 8], &[]).unwrap();
    until(|| takeover.received()).unwrap();
    takeover.serve(Vec::new());
    successor.drain(DEADLINE.as_millis() as u64);
}

#[test]
fn worker_that_cannot_go_on_ends_the_process_and_says_why() {
    if std::env::var_os(CHILD).is_some() {
        return serve_with_a_file_for_a_listener();
    }
    let name = "handover::tests::worker_that_cannot_go_on_ends_the_process_and_says_why";
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args([name, "--exact", "--nocapture"]).env(CHILD, "1");
    let output = child.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(6), "SIGABRT: {told}");
    assert!(told.contains("cannot go on: Operation not permitted"), "{told}");
}

/// How long a crowd's pause is: `ENCKE_STREAMS=200000 cargo test --release -p engine --lib pause --
/// --ignored --nocapture`. The streams speak to both engines from this process.
#[test]
#[ignore = "a measurement"]
fn pause_of_a_crowd() {
    const OF_A_THREAD: usize = 15_000;
    let streams = std::env::var("ENCKE_STREAMS").map_or(30_000, |text| text.parse().unwrap());
    let threads = streams / OF_A_THREAD;
    let workers = threads.max(2);
    let dir = tempfile::tempdir().unwrap();
    let mut old = Engine::start(config(workers), epoch(), names()).unwrap();
    let address = old.address();
    let barrier = std::sync::Barrier::new(threads + 1);
    thread::scope(|scope| {
        for number in 0..threads {
            let barrier = &barrier;
            scope.spawn(move || {
                sys::table::make_private(&[]).unwrap();
                let source = [127, 0, 1, number as u8 + 1].into();
                let sockets: Vec<_> = (0..OF_A_THREAD)
                    .map(|at| {
                        let socket = sys::socket::connect_from(Some(source), address).unwrap();
                        let id = number * OF_A_THREAD + at + 1;
                        let head = format!("GET /stream/{id} HTTP/1.0\r\n\r\n");
                        while sys::socket::send(&socket, head.as_bytes()).is_err() {
                            thread::yield_now();
                        }
                        socket
                    })
                    .collect();
                barrier.wait();
                barrier.wait();
                drop(sockets);
            });
        }
        barrier.wait();
        let whole = (threads * OF_A_THREAD) as u64;
        let streams_of =
            |engine: &Engine| -> u64 { engine.snapshot().whole().streams_open.iter().sum() };
        while streams_of(&old) < whole {
            thread::yield_now();
        }
        let now = sys::clock::monotonic_ns;
        let (mut new, takeover) = successor(&old, workers, dir.path());
        let begun = now();
        let handover = old.begin_handover(dir.path(), workers);
        while !handover.progress().done {
            thread::yield_now();
        }
        let copied = now();
        handover.freeze();
        while handover.written().is_none() {
            thread::yield_now();
        }
        let written = now();
        let received = loop {
            match takeover.received() {
                Some(received) => break received.unwrap(),
                None => thread::yield_now(),
            }
        };
        let taken = now();
        handover.leave();
        takeover.serve(old.totals());
        assert_eq!(received, whole);
        assert_eq!(send(&new, "1", "1"), 1);
        let served = now();
        old.drain(0);
        let left = now();
        let ms = |from: u64, to: u64| (to - from) / 1_000_000;
        println!(
            "{whole} streams: copied {} ms, written {} ms, taken {} ms, served {} ms, left {} ms",
            ms(begun, copied),
            ms(copied, written),
            ms(written, taken),
            ms(taken, served),
            ms(served, left)
        );
        barrier.wait();
        new.drain(0);
    });
}
