//! The bytes of one event for the API: `{"about":"<subject>","data":"<stamp and padding>"}`.

use std::io::Write;

use crate::spam::schedule::{Planned, Share};
use crate::stamp::{self, STAMP_LEN, Stamp};

/// The shortest payload: a stamp and the quotes around it.
pub const PAYLOAD_BYTES_MIN: usize = STAMP_LEN + 2;

/// Writes the events of one connection and numbers them.
#[derive(Debug)]
pub(super) struct Messages {
    first_id: u64,
    boot: u32,
    run: u32,
    start_ns: u64,
    /// The last number of each subject of this connection.
    numbers: Vec<u32>,
    padding: Vec<u8>,
}

impl Messages {
    /// For a run that starts at `start_ns`, with payloads of `payload_bytes`.
    pub(super) fn new(
        share: &Share,
        first_id: u64,
        payload_bytes: usize,
        start_ns: u64,
    ) -> Messages {
        Messages {
            first_id,
            boot: stamp::boot(),
            run: (start_ns / 1_000_000) as u32,
            start_ns,
            numbers: vec![0; share.subjects()],
            padding: vec![b'x'; payload_bytes.saturating_sub(PAYLOAD_BYTES_MIN)],
        }
    }

    /// Appends the event `planned`, which has the place `place` among the subjects.
    pub(super) fn push(&mut self, planned: Planned, place: usize, out: &mut Vec<u8>) {
        self.numbers[place] += 1;
        let stamp = Stamp {
            boot: self.boot,
            run: self.run,
            sender: planned.sender,
            subject: self.first_id + u64::from(planned.subject),
            number: self.numbers[place],
            intended_ns: self.start_ns + planned.at_ns,
        };
        write!(out, "{{\"about\":\"{}\",\"data\":\"", stamp.subject)
            .expect("writing to memory does not fail");
        stamp.push(out);
        out.extend_from_slice(&self.padding);
        out.extend_from_slice(b"\"}");
    }
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
        let mut messages = Messages::new(&share, 5, 100, 1_000_000_000);
        let planned = Planned { at_ns: 7, subject: 3, sender: 2 };
        for number in 1..=2 {
            let mut line = Vec::new();
            messages.push(planned, 3, &mut line);
            let json: serde_json::Value = serde_json::from_slice(&line).unwrap();
            assert_eq!(json["about"], "8");
            assert_eq!(json["data"].to_string().len(), 100);
            let stamp = StampFinder::default().find(&line).unwrap();
            assert_eq!((stamp.subject, stamp.number, stamp.sender), (8, number, 2));
            assert_eq!((stamp.run, stamp.intended_ns), (1_000, 1_000_000_007));
        }
    }
}
