//! What waits for a webhook of presence.
//!
//! What finds no room is left out, and one `{"lost":true}` stands in its place.

use crate::presence::{Batch, PresenceEvent};
use crate::webhook::{Backlog, Bounds};

/// What waits.
pub(super) struct PresenceBacklog {
    waiting: Backlog,
    /// Whether the last one says that events are lost, and is not on its way.
    ends_lost: bool,
}

impl PresenceBacklog {
    pub(super) fn new() -> PresenceBacklog {
        PresenceBacklog { waiting: Backlog::new(Bounds::default()), ends_lost: false }
    }

    pub(super) fn waiting(&self) -> &Backlog {
        &self.waiting
    }

    /// Puts all events of `batch` behind what waits; returns how many there was no room for.
    pub(super) fn push(&mut self, batch: &Batch) -> u64 {
        let is_left_out = |event: &&PresenceEvent| !self.push_one(event);
        batch.events.iter().filter(is_left_out).count() as u64
    }

    /// Notes that events were lost before what comes next.
    pub(super) fn push_lost(&mut self) {
        if !self.ends_lost {
            // The last may say that others were left out, where there is no room for more.
            self.waiting.push_anyway(json(&PresenceEvent::Lost));
            self.ends_lost = true;
        }
    }

    fn push_one(&mut self, event: &PresenceEvent) -> bool {
        if *event == PresenceEvent::Lost {
            self.push_lost();
            return true;
        }
        if !self.waiting.push(json(event)) {
            self.push_lost();
            return false;
        }
        self.ends_lost = false;
        true
    }

    /// The body of the next batch, of `most` events, and how many it has.
    pub(super) fn batch(&mut self, most: usize) -> (Vec<u8>, usize) {
        let (body, count) = self.waiting.batch(most, br#"{"events":["#, b"]}");
        // What is lost from now on is lost behind this batch, however often that is sent: a mark
        // in it would be removed with it. So there is one mark more for each batch at most.
        self.ends_lost &= count < self.waiting.len();
        (body, count)
    }

    /// The first `count` are taken.
    pub(super) fn remove(&mut self, count: usize) {
        self.waiting.remove(count);
        self.ends_lost &= self.waiting.len() > 0;
    }
}

fn json(event: &PresenceEvent) -> Box<[u8]> {
    let mut json = Vec::new();
    event.write(&mut json);
    json.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presence::events::Writer;
    use crate::webhook::BATCH_MAX;

    fn batch(numbers: std::ops::Range<u32>) -> std::sync::Arc<Batch> {
        let mut writer = Writer::default();
        for number in numbers {
            assert!(writer.push(PresenceEvent::Online(number.to_string().into())).is_none());
        }
        writer.finish().unwrap()
    }

    #[test]
    fn what_finds_no_room_is_told_as_lost_where_it_would_have_stood() {
        let mut backlog = PresenceBacklog {
            waiting: Backlog::new(Bounds { events: 3, ..Bounds::default() }),
            ends_lost: false,
        };
        assert_eq!(backlog.push(&batch(0..5)), 2);
        assert_eq!(backlog.push(&batch(5..6)), 1);
        let all = r#"{"events":[{"online":"0"},{"online":"1"},{"online":"2"},{"lost":true}]}"#;
        assert_eq!(backlog.batch(BATCH_MAX), (all.into(), 4));
        backlog.remove(2);
        assert_eq!(backlog.push(&batch(6..8)), 1);
        let rest = r#"{"events":[{"online":"2"},{"lost":true},{"online":"6"},{"lost":true}]}"#;
        assert_eq!(backlog.batch(BATCH_MAX), (rest.into(), 4));
        backlog.remove(4);
        assert_eq!(backlog.waiting().len(), 0);
    }

    #[test]
    fn lost_twice_in_a_row_is_told_once() {
        let mut backlog = PresenceBacklog::new();
        backlog.push_lost();
        assert_eq!(backlog.push(&Batch::lost()), 0);
        assert_eq!(backlog.batch(BATCH_MAX), (br#"{"events":[{"lost":true}]}"#.to_vec(), 1));
    }

    #[test]
    fn loss_while_a_batch_is_on_its_way_is_told_behind_it() {
        let mut backlog = PresenceBacklog::new();
        backlog.push_lost();
        let (_, count) = backlog.batch(BATCH_MAX);
        for _ in 0..2 {
            assert_eq!(backlog.push(&Batch::lost()), 0);
        }
        backlog.remove(count);
        assert_eq!(backlog.batch(BATCH_MAX), (br#"{"events":[{"lost":true}]}"#.to_vec(), 1));
    }
}
