//! One shard and polls that are answered while a part of the mail waits: each goes on where it is.

use hub::Nobody;

use super::one::{One, STREAM};
use super::server::{Place, silent_config};

/// A client that polls, and what it has heard.
struct Poller {
    client: Place,
    ids: &'static str,
    heard: Vec<usize>,
}

impl Poller {
    /// One that waits for what comes next.
    fn start(one: &mut One, ids: &'static str) -> Poller {
        let place = one.server.event_ids.id(one.server.event_ids.last()).to_string();
        let client = one.client(1 << 20, "");
        let poller = Poller { client, ids, heard: Vec::new() };
        poller.ask(one, &place);
        poller
    }

    fn ask(&self, one: &mut One, place: &str) {
        let request = format!("GET /poll/{}&after={place} HTTP/1.1\r\nHost: a\r\n\r\n", self.ids);
        one.say(self.client, request.as_bytes());
        one.turn_after(0);
        one.answer(&Nobody);
    }

    /// Reads an answer if there is one, and asks on from where it says.
    fn go_on(&mut self, one: &mut One) {
        let answer = one.reads(self.client);
        let Some((head, body)) = answer.split_once("\r\n\r\n") else { return };
        let next = head.lines().find_map(|line| line.strip_prefix("Encke-Next: "));
        let events = body.split("\"data\":\"").skip(1);
        self.heard
            .extend(events.map(|rest| rest.split(' ').next().unwrap().parse::<usize>().unwrap()));
        self.ask(one, next.unwrap());
    }
}

/// An event for more connections than a mail is for comes in several mails. A poll that is answered
/// between two of them goes on with the event that is in the second.
#[test]
fn poll_that_is_answered_between_two_mails_of_an_event_hears_it_next() {
    let mut one = One::start(silent_config());
    let mut poller = Poller::start(&mut one, "1?id=7");
    for _ in 0..7_000 {
        one.client(1 << 20, STREAM);
    }
    while one.turn_after(1) {}
    // A turn has time for the first mail of the last one. What is for few is written in it.
    for (about, n) in [("1", 1), ("7", 2), ("1", 3)] {
        one.send(about, &format!("\"{n} \""));
    }
    for _ in 0..1_000 {
        one.turn_after(1);
        poller.go_on(&mut one);
    }
    assert_eq!(poller.heard, [1, 2, 3]);
}

/// The same for one that is answered while the rest of a mail waits for time, which is for it too.
/// One for which nothing waits is told what it missed at once, and its place never goes back.
#[test]
fn poll_that_is_answered_while_mail_waits_hears_that_next() {
    let mut one = One::start(silent_config());
    for _ in 0..200 {
        one.client(1 << 20, STREAM);
    }
    while one.turn_after(1) {}
    let mut poller = Poller::start(&mut one, "1?wait=1");
    let mut other = Poller::start(&mut one, "2?wait=0");
    while one.turn_after(1) {}
    let data = "x".repeat(one.server.backlog_bytes_max / 4);
    let events = 12;
    (1..=events).for_each(|n| one.send("1", &format!("\"{n} {data}\"")));
    one.send("2", "\"100 \"");
    for turn in 0..1_000 {
        one.turn_after(7);
        poller.go_on(&mut one);
        other.go_on(&mut one);
        assert!(turn < 3 || other.heard == [100], "{:?} in turn {turn}", other.heard);
    }
    assert!(poller.heard.iter().copied().eq(1..=events), "{:?}", poller.heard);
}
