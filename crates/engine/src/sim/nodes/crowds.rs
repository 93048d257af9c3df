//! Crowds that are told of a gap, or whose places are ahead: no turn is as long as all of them, and
//! nobody else waits for them.

use std::sync::Arc;

use hub::{ConnRef, Epoch, EventId, IdText, Nobody, Place as Known, Tag};

use crate::Outgoing;
use crate::ahead::FutureCursors;
use crate::config::EngineConfig;
use crate::limits::FUTURE_MS_MAX;
use crate::router::{GapStep, Step};
use crate::sim::one::One;
use crate::sim::server::{Place, silent_config};
use crate::slab;

const POLL: &str = "GET /poll/1?wait=60 HTTP/1.1\r\nHost: a\r\n\r\n";

fn cluster() -> One {
    One::start(EngineConfig { cluster: true, ..silent_config() })
}

fn stream(id: usize) -> String {
    format!("GET /stream/{id} HTTP/1.0\r\nAccept: */*\r\n\r\n")
}

/// A stream of the id 1 that goes on at `place`.
fn resumed(place: &str) -> String {
    format!("GET /stream/1?last_event_id={place} HTTP/1.0\r\nAccept: */*\r\n\r\n")
}

/// Sends an event that the log has numbered so far above the last one.
fn send(one: &One, about: &str, above: u64) -> EventId {
    send_data(one, about, "1", above)
}

fn send_data(one: &One, about: &str, data: &str, above: u64) -> EventId {
    let id = one.server.event_ids.id(one.server.event_ids.last() + above);
    let mut sending = one.router.send_numbered(Outgoing::new(about, data).unwrap(), id);
    while !matches!(sending.step(&Nobody).unwrap(), Step::Posted(_)) {}
    id
}

/// The number of the last event, as who has heard it says it.
fn place(one: &One) -> String {
    one.server.event_ids.id(one.server.event_ids.last()).to_string()
}

#[test]
fn crowd_is_told_of_a_gap_one_by_one_and_events_do_not_wait_for_it() {
    let mut one = cluster();
    let clients: Vec<Place> = (0..300).map(|id| one.client(1 << 20, &stream(id))).collect();
    let polls: Vec<Place> = (0..50).map(|_| one.client(1 << 20, POLL)).collect();
    while one.turn_after(1) {}
    assert_eq!(one.answer(&Nobody), polls.len());
    while one.turn_after(1) {}
    clients.iter().for_each(|&client| drop(one.reads(client)));
    assert_eq!(one.router.gap_to_all(), GapStep::Told);
    send(&one, "299", 1);
    one.turn_after(1);
    // It is the last one's turn only when all others have had theirs.
    let last = one.reads(clients[299]);
    let (gap, event) = last.split_once('\n').unwrap();
    assert!(gap == "{\"gap\":true}" && event.starts_with("{\"id\":"), "{last}");
    let late = one.client(1 << 20, &stream(7));
    let mut turns = 1;
    while one.turn_after(1) {
        turns += 1;
    }
    assert!(turns >= 300, "{turns} turns");
    for &client in &clients[..299] {
        assert_eq!(one.reads(client), "{\"gap\":true}\n");
    }
    for &poll in &polls {
        let answer = one.reads(poll);
        assert!(answer.contains("\r\nEncke-Gap: true\r\n") && answer.ends_with("\r\n\r\n[]\n"));
    }
    assert!(!one.reads(late).contains("gap") && one.reads(clients[299]).is_empty());
    assert_eq!(one.server.figures().gaps, 350);
    assert_eq!(one.server.account.bytes(), 0, "nothing is kept for who is told");
}

/// A second gap begins where the first has come to, and goes around all who were there, however
/// many come meanwhile.
#[test]
fn second_gap_is_told_to_all_while_the_slab_grows() {
    let mut one = cluster();
    // As many as its chunks hold.
    let crowd = 2 * slab::CHUNK;
    let clients: Vec<Place> = (0..crowd).map(|_| one.client(1 << 20, &stream(1))).collect();
    while one.turn_after(1) {}
    assert_eq!(one.router.gap_to_all(), GapStep::Told);
    for _ in 0..slab::CHUNK {
        one.turn_after(1);
    }
    clients.iter().for_each(|&client| drop(one.reads(client)));
    assert_eq!(one.router.gap_to_all(), GapStep::Told);
    one.turn_after(1);
    let late = one.client(1 << 20, &stream(1));
    while one.turn_after(1) {}
    assert!(clients.iter().all(|&client| one.reads(client).ends_with("{\"gap\":true}\n")));
    assert!(!one.reads(late).contains("gap"));
}

/// Large events for a crowd of full backlogs wait in the shard: the gap waits behind them, and what
/// is small behind the gap.
#[test]
fn gap_does_not_overtake_mail_that_waits_for_time() {
    let mut one = cluster();
    let head = "GET /stream/1?id=7 HTTP/1.0\r\nAccept: */*\r\n\r\n";
    let mut clients: Vec<Place> = (0..99).map(|_| one.client(1 << 20, &stream(1))).collect();
    clients.push(one.client(1 << 20, head));
    while one.turn_after(1) {}
    clients.iter().for_each(|&client| drop(one.reads(client)));
    let large = format!("\"{}\"", "x".repeat(40_000));
    let before: Vec<EventId> = (0..4).map(|_| send_data(&one, "1", &large, 1)).collect();
    assert_eq!(one.router.gap_to_all(), GapStep::Told);
    let after = send(&one, "7", 1);
    one.turn_after(1);
    assert_eq!(one.server.figures().gaps, 0, "events from before it wait");
    while one.turn_after(1) {}
    for (index, &client) in clients.iter().enumerate() {
        let text = one.reads(client);
        let lines = text.lines().map(|line| line.get(7..23).unwrap_or("gap").to_owned());
        let due = before.iter().map(|id| id.to_string()).chain(["gap".to_owned()]);
        let due = due.chain((index == 99).then(|| after.to_string()));
        assert!(lines.eq(due), "{index}");
    }
}

#[test]
fn crowd_whose_places_never_come_is_told_of_a_gap_in_its_time_and_nobody_waits_for_it() {
    let mut one = cluster();
    let before = place(&one);
    let made_up = one.server.event_ids.id(u64::MAX).to_string();
    let clients: Vec<Place> = (0..2_000).map(|_| one.client(1 << 20, &resumed(&made_up))).collect();
    while one.turn_after(1) {}
    let mut ahead = FutureCursors::default();
    let resumes = Arc::clone(&one.server.resumes);
    let look = |one: &One, ahead: &mut FutureCursors| {
        let now_ms = one.server.clock.now_ms();
        while ahead.go_on(&one.router, &resumes, now_ms) {}
    };
    look(&one, &mut ahead);
    assert_eq!((one.answer(&Nobody), resumes.future.waiting()), (0, 2_000));
    // Others come back meanwhile, and this one's place comes.
    send(&one, "1", 1);
    let other = one.client(1 << 20, &resumed(&before));
    let soon = one.server.event_ids.id(one.server.event_ids.last() + 5);
    let soon = one.client(1 << 20, &resumed(&soon.to_string()));
    look(&one, &mut ahead);
    assert_eq!(one.answer(&Nobody), 1);
    (0..3).for_each(|above| {
        send(&one, "1", 2 + above);
    });
    look(&one, &mut ahead);
    assert_eq!(one.answer(&Nobody), 1);
    while one.turn_after(1) {}
    let heard = |text: String| text.matches("\"about\"").count();
    assert_eq!((heard(one.reads(other)), heard(one.reads(soon))), (4, 1), "of 1, 3, 6 and 10");
    one.turn_after(FUTURE_MS_MAX - 100);
    look(&one, &mut ahead);
    assert_eq!(one.answer(&Nobody), 0, "not yet");
    one.turn_after(200);
    look(&one, &mut ahead);
    assert_eq!((one.answer(&Nobody), resumes.future.waiting()), (2_000, 0));
    while one.turn_after(1) {}
    assert!(clients.iter().all(|&client| one.reads(client).matches("{\"gap\":true}").count() == 1));
}

/// A node that was stopped while the cluster has begun another log has clients that come from nodes
/// which know of it.
#[test]
fn place_of_an_epoch_that_the_node_learns_of_later_is_no_gap() {
    let mut one = cluster();
    send(&one, "1", 1);
    let epoch = Epoch {
        tag: Tag::of(u64::MAX / 3),
        base: one.server.event_ids.last() + 10,
        until: u64::MAX,
    };
    let in_epoch = |above| EventId::new(epoch.base + above, epoch.tag).to_string();
    let made_up = EventId::new(epoch.base + 2, Tag::of(u64::MAX / 5)).to_string();
    let places = [in_epoch(2), in_epoch(1), made_up];
    let clients = places.map(|place| one.client(1 << 20, &resumed(&place)));
    let here = one.client(1 << 20, &stream(1));
    while one.turn_after(1) {}
    clients.iter().for_each(|&client| drop(one.reads(client)));
    drop(one.reads(here));
    assert_eq!(one.router.begin_epoch(epoch), GapStep::Told);
    for _ in 0..3 {
        send(&one, "1", 1);
    }
    let resumes = Arc::clone(&one.server.resumes);
    let mut ahead = FutureCursors::default();
    while ahead.go_on(&one.router, &resumes, one.server.clock.now_ms()) {}
    assert_eq!(one.answer(&Nobody), 3);
    while one.turn_after(1) {}
    let heard = [clients[0], clients[1], clients[2], here].map(|client| {
        let text = one.reads(client);
        (text.matches("\"about\"").count(), text.matches("{\"gap\":true}").count())
    });
    // The one whose place nobody has told may have missed what was before that number.
    assert_eq!(heard, [(1, 0), (2, 0), (1, 1), (3, 1)]);
}

#[test]
fn server_alone_takes_a_place_ahead_for_a_gap() {
    let mut one = One::start(silent_config());
    let ahead = one.server.event_ids.id(one.server.event_ids.last() + 1).to_string();
    assert!(matches!(one.server.event_ids.known(ahead.as_bytes()), Known::Future(_)));
    let client = one.client(1 << 20, &resumed(&ahead));
    assert!(one.reads(client).ends_with("{\"gap\":true}\n"));
    assert_eq!(one.server.resumes.future.waiting(), 0);
}

#[test]
fn guest_is_told_of_a_gap_in_its_order() {
    use crate::guest::{Guest, GuestMail};
    let one = cluster();
    let (mailbox, directory) = (one.server.mailboxes[1].clone(), one.server.directory.clone());
    let guest = Guest::new(1, mailbox, one.router.names().clone(), directory.clone());
    let id = guest.login(0, 0, IdText::parse("1").unwrap(), []).unwrap().unwrap();
    assert_eq!(directory.connections(id), 1);
    send(&one, "1", 1);
    let lost = one.server.event_ids.last() + 7;
    assert_eq!(one.router.lose_up_to(lost), GapStep::Told);
    assert_eq!(one.router.lose_up_to(lost - 1), GapStep::Behind);
    let after = send(&one, "1", 1);
    let mut heard = Vec::new();
    while let Some(mail) = guest.take() {
        heard.push(match mail {
            GuestMail::Deliver(delivery) => delivery.event().unwrap().number(),
            GuestMail::Gap(up_to) => up_to,
            GuestMail::Close(..) => unreachable!(),
        });
    }
    assert_eq!(heard[1..], [lost, after.number()]);
    assert_eq!(ConnRef::new(1, 0, 0).worker(), 1);
}
