//! One shard whose connections are told something by the control plane.

use super::net::Wire;
use super::one::{One, STREAM};
use super::server::{Place, silent_config};
use super::tokens::websocket;
use crate::answers::Answers;
use crate::config::EngineConfig;
use crate::limits::MAILS_MAX;
use crate::said::DirectMessage;
use hub::{ConnRef, DisconnectReason};

/// The first connection there is; slots are given away from the first on.
fn conn(client: Place) -> ConnRef {
    ConnRef::new(client.shard, client.key.slot as usize, client.key.generation)
}

fn message(text: &str) -> DirectMessage {
    DirectMessage::Message(text.into())
}

impl One {
    fn tell(&self, client: Place, text: &str) -> bool {
        let answers = Answers::new(self.server.mailboxes.clone());
        answers.say(conn(client), message(text)).is_ok()
    }

    /// These clients go, and nothing is left.
    pub(super) fn end(&mut self, clients: &[Place]) {
        clients.iter().for_each(|&client| self.wire(client).client_ends());
        self.server.end();
        self.server.check_nothing_is_left();
    }
}

#[test]
fn what_is_said_stands_between_the_events_before_and_behind_it() {
    let mut one = One::start(silent_config());
    let client = one.client(1 << 20, &websocket("/stream/1", ""));
    let stream = one.client(1 << 20, STREAM);
    for client in [client, stream] {
        one.wire(client).client_reads(usize::MAX);
    }
    one.send("1", "1");
    assert!(one.tell(client, r#"{"said":1}"#) && one.tell(stream, r#"{"said":2}"#));
    one.send("1", "2");
    while one.turn_after(1) {}
    let heard = one.texts(client);
    let place = |what: &str| heard.find(what).unwrap_or_else(|| panic!("{what}: {heard}"));
    assert!(place("\"data\":1}") < place("{\"said\":1}"), "{heard}");
    assert!(place("{\"said\":1}") < place("\"data\":2}"), "{heard}");
    let lines = one.reads(stream);
    assert!(lines.contains("\"data\":1}\n{\"said\":2}\n{\"id\""), "{lines}");
    one.end(&[client, stream]);
}

#[test]
fn what_is_said_to_one_who_has_gone_is_dropped() {
    let mut one = One::start(silent_config());
    let client = one.client(1 << 20, STREAM);
    one.wire(client).client_ends();
    while one.turn_after(1) {}
    let next = one.client(1 << 20, STREAM);
    assert_eq!(next.key.slot, client.key.slot, "the slot is given away again");
    one.wire(next).client_reads(usize::MAX);
    assert!(one.tell(client, "{}"));
    while one.turn_after(1) {}
    assert_eq!(one.reads(next), "");
    one.end(&[next]);
}

#[test]
fn who_is_told_more_than_may_wait_and_reads_nothing_is_a_slow_reader() {
    let config = EngineConfig { backlog_bytes_max: 4_000, ..silent_config() };
    let mut one = One::start(config);
    let client = one.client(300, STREAM);
    let long = format!("\"{}\"", "x".repeat(1_000));
    for _ in 0..10 {
        assert!(one.tell(client, &long));
        one.turn_after(1);
    }
    assert!(one.is_closed(client));
    let slow = one.server.figures().closed[DisconnectReason::SlowReader as usize];
    assert_eq!(slow, 1);
    one.end(&[]);
}

#[test]
fn mailbox_that_is_full_gives_back_what_is_to_be_said() {
    let mut one = One::start(silent_config());
    let client = one.client(1 << 20, STREAM);
    one.wire(client).client_reads(usize::MAX);
    let answers = Answers::new(one.server.mailboxes.clone());
    let said = (0..MAILS_MAX).filter(|_| answers.say(conn(client), message("1")).is_ok()).count();
    assert_eq!(said, MAILS_MAX);
    assert_eq!(answers.say(conn(client), message("2")), Err(message("2")));
    while one.turn_after(1) {}
    let heard: fn(&mut Wire) -> Vec<u8> = |wire| wire.client_reads(usize::MAX);
    assert_eq!(heard(&mut one.wire(client)), b"1\n".repeat(MAILS_MAX));
    assert!(one.tell(client, "3"));
    one.end(&[client]);
}
