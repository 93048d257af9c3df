//! Answers that one lane gives in another's place.
//!
//! A send whose whole audience is with another worker is delivered there. If that worker rang the
//! lane that has asked, a thread would be woken for nothing but a write. So each connection is open
//! in all lanes, as long as these are few, and the lane of the worker that delivers answers by its
//! own descriptor. Who has asked learns of it with the client's next request, if not before: the
//! receipt keeps how far it is.

use std::io::ErrorKind;

use engine::{LaneNote, LaneTurn, Receipt, Relayed};
use std::time::Instant;
use sys::socket;

use super::work::SendLane;

impl SendLane {
    /// Whether a connection has no answer to come, after it was given one if it is time for that.
    /// If another lane gives it, and it is `wanted`, this one is rung when it is given.
    pub(super) fn is_answered(&mut self, turn: &LaneTurn<'_>, index: u32, wanted: bool) -> bool {
        let Some(conn) = self.conns.get(index) else { return true };
        let Some(first) = conn.asked.first() else { return true };
        if first.receipt.is_relayed() {
            match first.receipt.how_far(wanted) {
                Relayed::Waits => return false,
                Relayed::Written => {
                    conn.asked.clear();
                    self.go_on(turn, index);
                }
                Relayed::Failed { sent } => self.write(turn, index, sent),
            }
            return true;
        }
        let is_ready = conn.asked.iter().all(|asked| asked.receipt.ready().is_some());
        if is_ready {
            self.write(turn, index, 0);
        }
        is_ready
    }

    /// Does what other lanes have asked for.
    pub(super) fn hear_notes(&mut self, turn: &LaneTurn<'_>) {
        while let Some(note) = turn.note() {
            let token = match &note {
                LaneNote::Relayed(receipt) => receipt.relayed().map(|(relay, ..)| relay.token),
                LaneNote::Forget(token) => Some(*token),
            };
            if !token.is_some_and(|token| self.seconds.contains_key(&token)) {
                // It may lie in the socket still.
                self.adopt(turn);
            }
            match note {
                LaneNote::Relayed(receipt) => self.answer_in_place(&receipt),
                LaneNote::Forget(token) => drop(self.seconds.remove(&token)),
            }
        }
    }

    fn answer_in_place(&mut self, receipt: &Receipt) {
        let Some((relay, event, count)) = receipt.relayed() else { return };
        let Some(second) = self.seconds.get(&relay.token) else { return receipt.settle(Err(0)) };
        self.output.clear();
        let (out, body) = (&mut self.output, &mut self.body);
        self.shared.api.push_http_answer(out, body, (event, count), self.date.now());
        match socket::send(second, &self.output) {
            Ok(sent) if sent == self.output.len() => {
                self.shared.api.note_duration(relay.accepted, Instant::now());
                receipt.settle(Ok(()));
            }
            // It reads nothing: whoever has asked gives it back, with what is left of the answer.
            Ok(sent) => receipt.settle(Err(sent)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => receipt.settle(Err(0)),
            // The connection is broken.
            Err(_) => {
                let _ = socket::shutdown_both(second);
                receipt.settle(Ok(()));
            }
        }
    }

    /// Tells the other lanes that a connection is not there any more.
    pub(super) fn forget_everywhere(&self, turn: &LaneTurn<'_>, id: u64) {
        let bells = self.shared.bells.get().into_iter().flatten().enumerate();
        bells.filter(|(lane, _)| *lane != turn.worker()).for_each(|(_, bell)| bell.forget(id));
    }
}
