//! What listeners are told, in batches that all of them share.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

/// Bytes of a batch's lines past which another one is begun.
const BATCH_BYTES: usize = 16 * 1024;

/// One thing that listeners are told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PresenceEvent {
    /// The first connection of an id has come.
    Online(Box<str>),
    /// Its last one has been gone for the grace.
    Offline(Box<str>),
    /// Some of both may be missing here: ask anew about whom you must know.
    Lost,
}

/// Some of them in their order.
#[derive(Debug)]
pub struct Batch {
    /// Each of them.
    pub events: Vec<PresenceEvent>,
    lines: Bytes,
    sse: OnceLock<Bytes>,
}

/// A batch that grows.
#[derive(Default)]
pub(super) struct Writer {
    events: Vec<PresenceEvent>,
    lines: Vec<u8>,
}

impl PresenceEvent {
    /// The JSON, without a line's end.
    pub fn write(&self, out: &mut Vec<u8>) {
        let (name, id) = match self {
            PresenceEvent::Online(id) => ("online", id),
            PresenceEvent::Offline(id) => ("offline", id),
            PresenceEvent::Lost => return out.extend_from_slice(br#"{"lost":true}"#),
        };
        out.extend_from_slice(format!("{{\"{name}\":").as_bytes());
        serde_json::to_writer(&mut *out, id).expect("text is written to memory");
        out.push(b'}');
    }
}

impl Batch {
    /// A line for each, as NDJSON streams have them.
    pub fn lines(&self) -> Bytes {
        self.lines.clone()
    }

    /// An event for each, as `EventSource` reads them. Made for the first who wants it.
    pub fn sse(&self) -> Bytes {
        let make = || {
            let mut out = Vec::with_capacity(self.lines.len() + 8 * self.events.len());
            for line in self.lines.split_inclusive(|&byte| byte == b'\n') {
                out.extend_from_slice(b"data: ");
                out.extend_from_slice(line);
                out.push(b'\n');
            }
            out.into()
        };
        self.sse.get_or_init(make).clone()
    }

    /// The only thing that is told to one who was too slow.
    pub fn lost() -> Arc<Batch> {
        let mut writer = Writer::default();
        writer.push(PresenceEvent::Lost);
        writer.finish().expect("it has one")
    }
}

impl Writer {
    /// Puts `event` behind those that are there; returns the batch when that is full.
    pub(super) fn push(&mut self, event: PresenceEvent) -> Option<Arc<Batch>> {
        event.write(&mut self.lines);
        self.lines.push(b'\n');
        self.events.push(event);
        if self.lines.len() >= BATCH_BYTES { self.finish() } else { None }
    }

    /// What is there, if anything.
    pub(super) fn finish(&mut self) -> Option<Arc<Batch>> {
        let Writer { events, lines } = std::mem::take(self);
        let is_empty = events.is_empty();
        let batch = || Arc::new(Batch { events, lines: lines.into(), sse: OnceLock::new() });
        (!is_empty).then(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_one_line_or_one_event_each_whatever_the_id_is() {
        let mut writer = Writer::default();
        assert!(writer.push(PresenceEvent::Online("123".into())).is_none());
        assert!(writer.push(PresenceEvent::Offline("a\"b\\é".into())).is_none());
        assert!(writer.push(PresenceEvent::Lost).is_none());
        let batch = writer.finish().unwrap();
        assert!(writer.finish().is_none());
        let lines = "{\"online\":\"123\"}\n{\"offline\":\"a\\\"b\\\\é\"}\n{\"lost\":true}\n";
        assert_eq!(batch.lines(), lines);
        let sse: String = lines.lines().map(|line| format!("data: {line}\n\n")).collect();
        assert_eq!(batch.sse(), sse);
    }

    #[test]
    fn piece_is_full_at_its_bound() {
        let (mut writer, mut batches, id) = (Writer::default(), Vec::new(), "x".repeat(255));
        (0..1_000)
            .for_each(|_| batches.extend(writer.push(PresenceEvent::Online(id.clone().into()))));
        batches.extend(writer.finish());
        assert_eq!(batches.iter().map(|batch| batch.events.len()).sum::<usize>(), 1_000);
        assert!(batches.iter().all(|batch| batch.lines().len() < BATCH_BYTES + 300));
    }
}
