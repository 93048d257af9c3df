//! Streams that begin in the past while too many clients ask for theirs.

use hub::Nobody;

use super::one::One;
use super::server::silent_config;

const ROOM: usize = 1 << 20;

/// The queue is full when a stream asks for its second window: it is told of a gap, and of what it
/// asked to be told, which else comes behind the past.
#[test]
fn stream_that_cannot_hear_all_of_its_past_is_told_what_it_is_called() {
    let mut one = One::start(silent_config());
    let payload = format!("\"{}\"", "x".repeat(2_000));
    (0..200).for_each(|_| one.send("1", &payload));
    while one.turn_after(1) {}
    let client = one.client(ROOM, "GET /stream/1?last=200&next=1 HTTP/1.0\r\n\r\n");
    assert_eq!(one.answer(&Nobody), 1);
    one.server.resumes.small().fill();
    one.send("1", "\"live\"");
    while one.turn_after(1) {}
    let heard = one.reads(client);
    let (past, rest) = heard.split_once("\"gap\"").expect("it is told of a gap");
    assert!(past.matches("\"about\"").count() < 200 && !past.contains("\"connection\""));
    let (first, live) = rest.split_once("\"connection\":\"").expect("it is told what it is called");
    assert!(first.contains("\"next\":\"") && !first.contains("\"live\""), "{first}");
    assert!(live.contains("\"live\""), "{live}");
    one.end(&[client]);
}
