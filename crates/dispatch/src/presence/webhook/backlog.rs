//! What waits for a webhook: events as JSON, in their order, within a bound.
//!
//! What finds no room is left out, and one `{"lost":true}` stands in its place.

use std::collections::VecDeque;

use crate::presence::{Batch, PresenceEvent};

/// Events that wait: with 1,000 a second a receiver may be away for a minute.
const EVENTS_MAX: usize = 65_536;

/// Their bytes: as many events of ids with 100 bytes.
const BYTES_MAX: usize = 8 << 20;

/// Events of one batch, at most.
pub(super) const BATCH_MAX: usize = 500;

/// What waits.
pub(super) struct Backlog {
    waiting: VecDeque<Box<[u8]>>,
    bytes: usize,
    events_max: usize,
    /// Whether the last one says that events are lost.
    ends_lost: bool,
}

impl Backlog {
    pub(super) fn new() -> Backlog {
        Backlog { waiting: VecDeque::new(), bytes: 0, events_max: EVENTS_MAX, ends_lost: false }
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether a batch would be full.
    pub(super) fn has_batch(&self) -> bool {
        self.waiting.len() >= BATCH_MAX
    }

    /// Puts all events of `batch` behind what waits; returns how many there was no room for.
    pub(super) fn push(&mut self, batch: &Batch) -> u64 {
        let is_left_out = |event: &&PresenceEvent| !self.push_one(event);
        batch.events.iter().filter(is_left_out).count() as u64
    }

    /// Notes that events were lost before what comes next.
    pub(super) fn push_lost(&mut self) {
        if !self.ends_lost {
            self.put(&PresenceEvent::Lost);
            self.ends_lost = true;
        }
    }

    fn push_one(&mut self, event: &PresenceEvent) -> bool {
        if *event == PresenceEvent::Lost {
            self.push_lost();
            return true;
        }
        if self.waiting.len() >= self.events_max || self.bytes >= BYTES_MAX {
            self.push_lost();
            return false;
        }
        self.put(event);
        self.ends_lost = false;
        true
    }

    fn put(&mut self, event: &PresenceEvent) {
        let mut json = Vec::new();
        event.write(&mut json);
        self.bytes += json.len();
        self.waiting.push_back(json.into());
        // The last may say that others were left out.
        debug_assert!(self.waiting.len() <= self.events_max + 1);
    }

    /// The body of the next batch, and how many events it has.
    pub(super) fn batch(&self) -> (Vec<u8>, usize) {
        let mut body = br#"{"events":["#.to_vec();
        let count = self.waiting.len().min(BATCH_MAX);
        for (n, json) in self.waiting.iter().take(count).enumerate() {
            if n > 0 {
                body.push(b',');
            }
            body.extend_from_slice(json);
        }
        body.extend_from_slice(b"]}");
        (body, count)
    }

    /// The first `count` are taken.
    pub(super) fn remove(&mut self, count: usize) {
        debug_assert!(count <= self.waiting.len().min(BATCH_MAX), "more than a batch was taken");
        let removed = self.waiting.drain(..count);
        self.bytes -= removed.map(|json| json.len()).sum::<usize>();
        debug_assert_eq!(self.waiting.is_empty(), self.bytes == 0);
        if self.waiting.is_empty() {
            *self = Backlog { events_max: self.events_max, ..Backlog::new() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presence::events::Writer;

    fn batch(numbers: std::ops::Range<u32>) -> std::sync::Arc<Batch> {
        let mut writer = Writer::default();
        for number in numbers {
            assert!(writer.push(PresenceEvent::Online(number.to_string().into())).is_none());
        }
        writer.finish().unwrap()
    }

    #[test]
    fn what_finds_no_room_is_told_as_lost_where_it_would_have_stood() {
        let mut backlog = Backlog { events_max: 3, ..Backlog::new() };
        assert_eq!(backlog.push(&batch(0..5)), 2);
        assert_eq!(backlog.push(&batch(5..6)), 1);
        let all = r#"{"events":[{"online":"0"},{"online":"1"},{"online":"2"},{"lost":true}]}"#;
        assert_eq!(backlog.batch(), (all.into(), 4));
        backlog.remove(2);
        assert_eq!(backlog.push(&batch(6..8)), 1);
        let rest = r#"{"events":[{"online":"2"},{"lost":true},{"online":"6"},{"lost":true}]}"#;
        assert_eq!(backlog.batch(), (rest.into(), 4));
        backlog.remove(4);
        assert_eq!((backlog.len(), backlog.bytes, backlog.waiting.capacity()), (0, 0, 0));
    }

    #[test]
    fn lost_twice_in_a_row_is_told_once() {
        let mut backlog = Backlog::new();
        backlog.push_lost();
        assert_eq!(backlog.push(&Batch::lost()), 0);
        assert_eq!(backlog.batch(), (br#"{"events":[{"lost":true}]}"#.to_vec(), 1));
    }
}
