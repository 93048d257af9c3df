//! The bytes of one event for the API: `{"about":"<subject>","data":"<stamp and padding>"}`, or
//! `{"about":"<subject>","data":{"song":"<title>","sent_ms":<time>,"stamp":"<stamp>"}}`.

use std::io::Write;

use sys::clock;

use crate::spam::config::{PAYLOAD_BYTES_MIN, Payload};
use crate::spam::schedule::{Planned, Share};
use crate::spam::songs::song;
use crate::stamp::{RunName, Stamp};

/// Writes the events of one connection and numbers them.
#[derive(Debug)]
pub(super) struct Messages {
    first_id: u64,
    run: RunName,
    start_ns: u64,
    /// The last number of each subject of this connection.
    numbers: Vec<u32>,
    content: Content,
}

/// What stands beside the stamp.
#[derive(Debug)]
enum Content {
    Padding(Vec<u8>),
    Song,
}

impl Messages {
    /// For the run `run`, which starts at `start_ns`.
    pub(super) fn new(
        share: &Share,
        first_id: u64,
        payload: Payload,
        run: RunName,
        start_ns: u64,
    ) -> Messages {
        Messages {
            first_id,
            run,
            start_ns,
            numbers: vec![0; share.subjects()],
            content: match payload {
                Payload::Padded(bytes) => {
                    Content::Padding(vec![b'x'; bytes.saturating_sub(PAYLOAD_BYTES_MIN)])
                }
                Payload::Song => Content::Song,
            },
        }
    }

    /// Appends the event `planned`, which has the place `place` among the subjects.
    pub(super) fn push(&mut self, planned: Planned, place: usize, out: &mut Vec<u8>) {
        self.numbers[place] += 1;
        let stamp = Stamp {
            run: self.run,
            sender: planned.sender,
            subject: self.first_id + u64::from(planned.subject),
            number: self.numbers[place],
            intended_ns: self.start_ns.saturating_add(planned.at_ns),
        };
        push(out, format_args!("{{\"about\":\"{}\",\"data\":", stamp.subject));
        match &self.content {
            Content::Padding(padding) => {
                out.push(b'"');
                stamp.push(out);
                out.extend_from_slice(padding);
                out.extend_from_slice(b"\"}");
            }
            Content::Song => {
                let song = song(stamp.subject, stamp.number);
                let (ms, us) = split_ms(unix_ns(stamp.intended_ns));
                push(out, format_args!("{{\"song\":\"{song}\",\"sent_ms\":{ms}.{us:03},"));
                out.extend_from_slice(b"\"stamp\":\"");
                stamp.push(out);
                out.extend_from_slice(b"\"}}");
            }
        }
    }
}

/// What the calendar's clock showed, or will show, at a time of the monotonic one. It is asked anew
/// each time, since it may be set while a run goes on.
fn unix_ns(monotonic_ns: u64) -> u64 {
    clock::unix_ns().wrapping_sub(clock::monotonic_ns()).wrapping_add(monotonic_ns)
}

/// Milliseconds, and the microseconds beside them.
fn split_ms(ns: u64) -> (u64, u64) {
    (ns / 1_000_000, ns / 1_000 % 1_000)
}

fn push(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to memory does not fail");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spam::SpamConfig;
    use crate::spam::schedule::Schedule;
    use crate::stamp::StampFinder;

    #[test]
    fn message_is_json_with_a_payload_of_the_length_asked_for() {
        let share = Share::new(Schedule::new(&SpamConfig::default()), 0, 1);
        let run = RunName { boot: 1, start_ms: 1_000, random: 2 };
        let mut messages = Messages::new(&share, 5, Payload::Padded(100), run, 1_000_000_000);
        let planned = Planned { at_ns: 7, subject: 3, sender: 2 };
        for number in 1..=2 {
            let mut line = Vec::new();
            messages.push(planned, 3, &mut line);
            let json: serde_json::Value = serde_json::from_slice(&line).unwrap();
            assert_eq!(json["about"], "8");
            assert_eq!(json["data"].to_string().len(), 100);
            let stamp = StampFinder::default().find(&line).unwrap();
            assert_eq!((stamp.subject, stamp.number, stamp.sender), (8, number, 2));
            assert_eq!((stamp.run, stamp.intended_ns), (run, 1_000_000_007));
        }
    }

    #[test]
    fn song_is_an_object_with_title_time_and_stamp() {
        let share = Share::new(Schedule::new(&SpamConfig::default()), 0, 1);
        let before_ms = clock::unix_ns() as f64 / 1e6;
        let start_ns = clock::monotonic_ns();
        let run = RunName::new(start_ns);
        let mut messages = Messages::new(&share, 0, Payload::Song, run, start_ns);
        let mut line = Vec::new();
        messages.push(Planned { at_ns: 0, subject: 8, sender: 2 }, 3, &mut line);
        let after_ms = clock::unix_ns() as f64 / 1e6;
        let json: serde_json::Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(json["about"], "8");
        assert_eq!(json["data"]["song"], song(8, 1));
        let sent_ms = json["data"]["sent_ms"].as_f64().unwrap();
        assert!(sent_ms > before_ms - 1.0 && sent_ms < after_ms + 1.0, "{sent_ms}");
        let stamp = StampFinder::default().find(&line).unwrap();
        assert_eq!((stamp.subject, stamp.number, stamp.intended_ns), (8, 1, start_ns));
    }
}
