//! One shard against clients who want more than their part: what a turn does for them, what is kept
//! for them, and when they are cut.

use hub::{DisconnectReason, HistoryLimits, Nobody};

use super::one::{One, STREAM};
use super::random::Random;
use super::server::{Place, UNBOUNDED, config, silent_config};
use super::talk::client_frame;
use crate::config::EngineConfig;
use crate::limits::{self, WORK_PER_TURN, work};
use crate::resume::{ResumeStep, Resuming};
use crate::settings::Settings;

pub(super) const POLL: &str = "GET /poll/1?after=0000000000000000 HTTP/1.1\r\nHost: a\r\n\r\n";

/// Hundreds of polls that are answered at once came in one read. A turn serves one connection a
/// tenth of its budget, and others their part; nobody is forgotten.
#[test]
fn pipelined_polls_are_answered_a_few_a_turn() {
    let mut one = One::start(config());
    let asked = 150;
    let client = one.client(1 << 20, &POLL.repeat(asked));
    let count = |answers: &str| answers.matches("HTTP/1.1 200").count();
    let first = count(&one.reads(client));
    let most = (limits::WORK_PER_CONNECTION / work::REQUEST + 1) as usize;
    assert!((1..=most).contains(&first), "{first} in one turn");
    let mut answered = first;
    for turn in 0.. {
        one.turn_after(1);
        answered += count(&one.reads(client));
        if answered == asked {
            break;
        }
        assert!(turn < 2 * asked, "{answered} of {asked}");
    }
}

/// Whoever talks first does not keep the others from being read, and a turn has an end.
#[test]
fn budget_of_a_turn_is_shared_and_what_is_left_is_done_later() {
    let mut one = One::start(config());
    let clients: Vec<Place> = (0..40).map(|_| one.client(1 << 20, &POLL.repeat(100))).collect();
    let mut served = clients.iter().map(|&client| !one.reads(client).is_empty());
    let served_at_once = served.by_ref().filter(|&served| served).count();
    assert!(served_at_once < clients.len(), "a turn has an end");
    drop(served);
    let turns = 2 * clients.len();
    let mut heard = vec![false; clients.len()];
    for _ in 0..turns {
        one.turn_after(1);
        for (index, &client) in clients.iter().enumerate() {
            heard[index] |= !one.reads(client).is_empty();
        }
    }
    assert!(heard.iter().all(|&heard| heard), "each has its turn");
}

pub(super) fn websocket(ids: &str) -> String {
    format!(
        "GET /stream/{ids} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
}

#[test]
fn message_that_does_not_come_whole_is_refused_in_its_time() {
    let config = silent_config();
    not_whole(One::start(config.clone()));
    not_whole(One::start(config).upgraded());
}

fn not_whole(mut one: One) {
    let client = one.client(1 << 20, &websocket("1"));
    one.reads(client);
    // A fragment, and a ping before the next one, which makes the message no younger.
    one.say(client, &client_frame(0x01, b"{\"pi"));
    one.turn_after(9_000);
    one.say(client, &client_frame(0x89, b""));
    assert!(!one.is_closed(client));
    let before = one.wire(client).server_ended;
    one.turn_after(1_200);
    let after = one.wire(client).server_ended;
    assert_eq!((before, after), (false, true));
}

#[test]
fn head_timeout_beyond_the_wheel_holds() {
    let settings = Settings { head_timeout_ms: 300_000, ..Settings::default() };
    let config = EngineConfig { settings, ..config() };
    head_timeout(One::start(config.clone()));
    head_timeout(One::start(config).upgraded());
}

fn head_timeout(mut one: One) {
    let client = one.client(1 << 20, "GET /stream");
    for _ in 0..299 {
        one.turn_after(1_000);
    }
    assert_eq!(one.reads(client), "");
    one.turn_after(1_200);
    assert!(one.reads(client).starts_with("HTTP/1.1 408"));
}

#[test]
fn head_with_too_many_ids_is_refused() {
    let mut one = One::start(config());
    let ids = |count| (1..count).map(|id| format!("&id={id}")).collect::<String>();
    let head = |count| format!("GET /stream/0?{} HTTP/1.1\r\nHost: a\r\n\r\n", ids(count));
    let most = one.client(1 << 20, &head(limits::IDS_PER_HEAD_MAX));
    assert!(one.reads(most).starts_with("HTTP/1.1 200"));
    let more = one.client(1 << 20, &head(limits::IDS_PER_HEAD_MAX + 1));
    assert!(one.reads(more).starts_with("HTTP/1.1 400"));
}

/// A client comes back to much that it has missed, logs out and does not read: a window is kept for
/// it, whatever the history remembers. One that reads hears all of it.
#[test]
fn client_that_comes_back_is_kept_a_window_and_hears_all_if_it_reads() {
    let history = HistoryLimits { events_max: 10_000, ..HistoryLimits::default() };
    let config = EngineConfig { history, ..config() };
    hears_all_if_it_reads(One::start(config.clone()));
    hears_all_if_it_reads(One::start(config).upgraded());
}

fn hears_all_if_it_reads(mut one: One) {
    one.send("1", "0");
    let after = one.server.event_ids.id(one.server.event_ids.last()).to_string();
    let (events, data) = (1_000, "x".repeat(1_000));
    for n in 1..=events {
        one.send("1", &format!("\"{n} {data}\""));
    }
    let head = format!("GET /stream/1?last_event_id={after} HTTP/1.0\r\nAccept: */*\r\n\r\n");
    let (mute, reader) = (one.client(2_000, &head), one.client(20_000, &head));
    let mut heard = String::new();
    for _ in 0..3 * events {
        one.answer(&Nobody);
        one.turn_after(1);
        heard += &one.reads(reader);
        // Only what one client does not take is kept: a window, and what is put by.
        let kept = one.server.account.bytes();
        assert!(kept <= 2 * one.server.backlog_bytes_max + 4_096, "{kept} bytes");
    }
    let numbers: Vec<usize> = heard
        .lines()
        .filter_map(|line| line.split("\"data\":\"").nth(1)?.split(' ').next()?.parse().ok())
        .collect();
    assert!(numbers.iter().copied().eq(1..=events), "{} heard", numbers.len());
    assert!(!one.is_closed(mute));
    one.turn_after(limits::STILL_MS + 1_000);
    assert!(one.is_closed(mute), "it has stood still for too long");
    assert!(!one.is_closed(reader));
    assert_eq!(one.server.account.bytes(), 0, "nothing is kept for who is gone or has read all");
}

/// What is kept for all together has a bound, and who is gone leaves nothing in it.
#[test]
fn what_is_kept_for_all_together_is_bounded() {
    let bytes_max = 40_000;
    let mut one = One::start(EngineConfig { buffered_bytes_max: bytes_max, ..config() });
    let half = format!("GET /stream/1 HTTP/1.1\r\nHost: {}", "a".repeat(4_000));
    let clients: Vec<Place> = (0..20).map(|_| one.client(1 << 20, &half)).collect();
    assert!(one.server.account.bytes() <= bytes_max);
    let open: Vec<Place> =
        clients.iter().copied().filter(|&client| !one.is_closed(client)).collect();
    assert!((5..15).contains(&open.len()), "{open:?} of {}", clients.len());
    for client in open {
        one.wire(client).client_resets();
    }
    one.turn_after(1);
    assert_eq!(one.server.account.bytes(), 0);
}

/// What a stream's client sends means nothing, and has to be read all the same.
#[test]
fn bytes_that_nobody_expects_spend_the_budget() {
    let mut one = One::start(config());
    let clients: Vec<Place> = (0..60).map(|_| one.client(1 << 20, STREAM)).collect();
    while one.turn_after(1) {}
    for &client in &clients {
        one.wire(client).client_sends(&[b'x'; 40_000]);
    }
    let mut turns = 1;
    while one.turn_after(1) {
        turns += 1;
    }
    assert!(clients.iter().all(|&client| one.wire(client).to_server.is_empty()));
    let all = clients.len() * 40_000 / work::BYTES as usize;
    assert!(turns >= all / WORK_PER_TURN as usize, "{turns} turns");
}

/// A client that has stood still is kept alive like others when it goes on: the time after which it
/// would have been cut is none of its keep-alive's.
#[test]
fn stream_that_was_blocked_is_kept_alive_in_its_time() {
    is_kept_alive(One::start(config()));
    is_kept_alive(One::start(config()).upgraded());
}

fn is_kept_alive(mut one: One) {
    let client = one.client(280, STREAM);
    one.reads(client);
    one.send("1", &format!("\"{}\"", "x".repeat(300)));
    one.turn_after(1);
    assert!(one.wire(client).starved);
    one.turn_after(1_000);
    let begins = one.reads(client);
    one.turn_after(1);
    assert!(begins.starts_with('{') && one.reads(client).ends_with("}\n"));
    one.turn_after(29_000);
    assert_eq!(one.reads(client), "", "not yet");
    one.turn_after(1_100);
    assert_eq!(one.reads(client), "\n");
}

/// Polls that come back together with nothing to wait for are answered one by one, in turns: no
/// turn is as long as all of them.
#[test]
fn polls_that_come_back_together_are_answered_a_few_a_turn() {
    let mut one = One::start(config());
    let place = one.server.event_ids.id(one.server.event_ids.last()).to_string();
    let poll = format!("GET /poll/1?wait=0&after={place} HTTP/1.1\r\nHost: a\r\n\r\n");
    let clients: Vec<Place> = (0..1_000).map(|_| one.client(1 << 20, &poll)).collect();
    while one.turn_after(1) {}
    assert_eq!(one.answer(&Nobody), clients.len());
    // Each turn sees that it is not too long.
    while one.turn_after(1) {}
    assert!(clients.iter().all(|&client| one.reads(client).starts_with("HTTP/1.1 200")));
}

/// What clients have missed, and no turn has had time for yet, is kept for them: its events too,
/// which the history may forget meanwhile.
#[test]
fn what_was_missed_and_waits_for_a_turn_is_in_the_account_of_all() {
    let mut one = One::start(config());
    let after = one.server.event_ids.id(one.server.event_ids.last()).to_string();
    let (events, data) = (5, format!("\"{}\"", "x".repeat(1_000)));
    (0..events).for_each(|_| one.send("1", &data));
    let stream = format!("GET /stream/1?last_event_id={after} HTTP/1.0\r\nAccept: */*\r\n\r\n");
    let poll = format!("GET /poll/1?after={after} HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut clients: Vec<Place> =
        (0..40).flat_map(|_| [&stream, &poll]).map(|head| one.client(1 << 20, head)).collect();
    while one.turn_after(1) {}
    assert_eq!(one.server.account.bytes(), 0);
    one.server.set_work_per_turn(0);
    assert_eq!(one.answer(&Nobody), clients.len());
    one.turn_after(1);
    let each = one.server.account.bytes() / clients.len();
    let least = events * data.len();
    assert!((least..least + events * 200).contains(&each), "{each} bytes each");
    one.server.set_work_per_turn(WORK_PER_TURN);
    one.wire(clients.remove(0)).client_resets();
    while one.turn_after(1) {}
    for client in clients {
        assert_eq!(one.reads(client).matches(&data).count(), events);
    }
    assert_eq!(one.server.account.bytes(), 0, "nothing is kept for who has heard it, or is gone");
}

/// The control plane needs longer for what a poll has missed than the poll would wait: it is
/// answered as soon as that is known.
#[test]
fn poll_whose_time_is_over_is_answered_with_what_it_missed() {
    let mut one = One::start(config());
    for seconds in [0, 1] {
        let poll = format!("GET /poll/1?wait={seconds} HTTP/1.1\r\nHost: a\r\n\r\n");
        let client = one.client(1 << 20, &poll);
        while one.turn_after(500 + 1000 * seconds) {}
        one.turn_after(500);
        assert_eq!(one.reads(client), "", "before it is known what it missed");
        assert_eq!(one.answer(&Nobody), 1);
        while one.turn_after(1) {}
        assert!(one.reads(client).starts_with("HTTP/1.1 200"), "wait={seconds}");
    }
}

/// Events of which each is for one are written in turns, too.
#[test]
fn events_for_many_are_written_a_few_hundred_a_turn() {
    let mut one = One::start(config());
    let head = |id| format!("GET /stream/{id} HTTP/1.0\r\n\r\n");
    let clients: Vec<Place> = (0..1_000).map(|id| one.client(1 << 20, &head(id))).collect();
    while one.turn_after(1) {}
    (0..1_000).for_each(|id: usize| one.send(&id.to_string(), "\"here\""));
    // Each turn sees that it is not too long.
    while one.turn_after(1) {}
    assert!(clients.iter().all(|&client| one.reads(client).contains("here")));
}

/// What is left of a message that was too long means nothing, however much of it comes in one go:
/// its client is told why it is ended.
#[test]
fn rest_of_a_long_message_is_no_reason_for_another_end() {
    let mut one = One::start(config());
    one.server.set_work_per_turn(UNBOUNDED);
    let client = one.client(1 << 20, &websocket("1"));
    one.say(client, &client_frame(0x81, &[b'x'; 500_000]));
    assert!(one.wire(client).server_ended && !one.is_closed(client), "it has a moment");
    one.wire(client).client_ends();
    one.turn_after(1);
    let closed = one.server.counters[0].snapshot().closed;
    assert_eq!(closed[DisconnectReason::MessageTooLarge as usize], 1, "{closed:?}");
}

/// A client that asks and hangs up costs the control plane nothing, and one with few ids is taken
/// before those with many.
#[test]
fn resumes_of_clients_that_are_gone_take_no_time_and_small_ones_do_not_wait_for_large() {
    let mut one = One::start(config());
    let ids: String = (2..200).map(|n| format!("&id={n}")).collect();
    let large = format!("GET /poll/1?wait=0{ids} HTTP/1.1\r\nHost: a\r\n\r\n");
    let clients: Vec<Place> = (0..20).map(|_| one.client(1 << 20, &large)).collect();
    while one.turn_after(1) {}
    for &client in &clients[1..] {
        one.wire(client).client_resets();
        one.server.report_one(client);
    }
    let small = one.client(1 << 20, "GET /poll/7?wait=0 HTTP/1.1\r\nHost: a\r\n\r\n");
    while one.turn_after(1) {}
    let steps_of_next = |one: &One| {
        let mut resuming =
            Resuming::begin(&one.router, one.server.resumes.take().unwrap()).unwrap();
        let mut steps = 1;
        while resuming.step(&Nobody) != ResumeStep::Done {
            steps += 1;
        }
        steps
    };
    assert_eq!(steps_of_next(&one), 2, "of the small one, which came last");
    assert!(steps_of_next(&one) > 100, "of the one that is still there");
    for _ in &clients[1..] {
        assert_eq!(steps_of_next(&one), 1, "of one that is gone");
    }
    assert!(one.server.resumes.take().is_none());
    while one.turn_after(1) {}
    for client in [small, clients[0]] {
        assert!(one.reads(client).starts_with("HTTP/1.1 200"));
    }
}

/// The place that a client is told in the first turn of another version, before it takes any mail,
/// is that of now.
#[test]
fn place_that_is_told_right_after_an_upgrade_is_none_of_long_ago() {
    let mut one = One::start(config());
    let socket = one.client(1 << 20, &websocket("7"));
    one.send("1", "1");
    let poll = one.client(1 << 20, "GET /poll/7?wait=1 HTTP/1.1\r\nHost: a\r\n\r\n");
    while one.turn_after(1) {}
    one.answer(&Nobody);
    while one.turn_after(1) {}
    let place = one.server.event_ids.id(one.server.event_ids.last()).to_string();
    one.upgrade(&mut Random::new(1));
    one.reads(poll);
    one.wire(socket).client_reads(usize::MAX);
    one.server.clock.pass(1_000);
    one.server.begin_turn(0);
    one.say(socket, &client_frame(0x81, b"{\"ping\":1}"));
    for client in [poll, socket] {
        let told = one.wire(client).client_reads(usize::MAX);
        assert!(String::from_utf8_lossy(&told).contains(&place), "{}", told.escape_ascii());
    }
}
