//! The state of one stream, and which requests it takes: pure, without file and clock.

use std::collections::HashMap;

use crate::record::Record;
use crate::refusal::Refusal;
use crate::request::{Append, Producer};

/// Producers of one stream.
pub(crate) const PRODUCERS_MAX: usize = 1_024;

/// Bytes of a producer in memory beside its name, about.
const PRODUCER_BYTES: usize = 64;

/// What became of an append.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Appended {
    /// The tail behind it.
    pub next: crate::Offset,
    /// Whether the stream is closed.
    pub closed: bool,
    /// Whether it had been taken before, so nothing was appended.
    pub repeated: bool,
    /// Epoch and highest accepted sequence of its producer.
    pub producer: Option<(u64, u64)>,
}

/// What a request comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Checked {
    /// It is to be stored.
    Take,
    /// It was taken before; the producer's highest sequence.
    Repeat(Option<(u64, u64)>),
}

/// All that a stream's records come to, but for where they end.
#[derive(Debug)]
pub(crate) struct State {
    content_type: Box<str>,
    closed: bool,
    /// Who closed it, if a producer did.
    closed_by: Option<(Box<str>, u64, u64)>,
    sequence: Option<Box<str>>,
    producers: HashMap<Box<str>, (u64, u64)>,
    /// Bytes that these take in memory, about.
    producers_bytes: usize,
}

impl State {
    /// The state of a stream of this type without a record.
    pub(crate) fn new(content_type: &str) -> State {
        State {
            content_type: content_type.into(),
            closed: false,
            closed_by: None,
            sequence: None,
            producers: HashMap::new(),
            producers_bytes: 0,
        }
    }

    /// Goes on by a record that is stored.
    pub(crate) fn apply(&mut self, record: &Record<'_>) {
        match record {
            Record::Create { create, .. } => self.closed |= create.closed,
            Record::Append(append) => {
                self.closed |= append.closes;
                if let Some(sequence) = append.sequence {
                    self.sequence = Some(sequence.into());
                }
                if let Some(Producer { id, epoch, sequence }) = append.producer {
                    if self.producers.insert(id.into(), (epoch, sequence)).is_none() {
                        self.producers_bytes += id.len() + PRODUCER_BYTES;
                    }
                    if append.closes {
                        self.closed_by = Some((id.into(), epoch, sequence));
                    }
                }
            }
        }
    }

    /// Bytes that its producers take in memory, about.
    pub(crate) fn bytes(&self) -> usize {
        self.producers_bytes
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether `append` is to be stored; `tail` is told to who meets a closed stream.
    ///
    /// Several faults: a stale epoch, then closed, then the type, then sequences.
    pub(crate) fn check(
        &self,
        append: &Append<'_>,
        tail: crate::Offset,
    ) -> Result<Checked, Refusal> {
        let known = append.producer.and_then(|producer| self.producers.get(producer.id));
        if let (Some(producer), Some(&(epoch, _))) = (append.producer, known)
            && producer.epoch < epoch
        {
            return Err(Refusal::StaleEpoch(epoch));
        }
        if self.closed {
            return self.check_closed(append).ok_or(Refusal::Closed(tail));
        }
        let other = |content_type: &&str| !same_type(content_type, &self.content_type);
        if append.content_type.filter(|_| !append.data.is_empty()).is_some_and(|t| other(&t)) {
            return Err(Refusal::OtherType(self.content_type.clone()));
        }
        if let Some(producer) = append.producer
            && let Checked::Repeat(highest) = self.check_producer(producer)?
        {
            return Ok(Checked::Repeat(highest));
        }
        match (append.sequence, self.sequence.as_deref()) {
            (Some(sequence), Some(last)) if sequence.as_bytes() <= last.as_bytes() => {
                Err(Refusal::Sequence)
            }
            _ => Ok(Checked::Take),
        }
    }

    /// The answer of a closed stream to who closes it once more; nobody else has one.
    fn check_closed(&self, append: &Append<'_>) -> Option<Checked> {
        match (append.producer, &self.closed_by) {
            (Some(producer), Some((id, epoch, sequence))) => {
                let same = (producer.id, producer.epoch, producer.sequence)
                    == (id.as_ref(), *epoch, *sequence);
                same.then_some(Checked::Repeat(Some((*epoch, *sequence))))
            }
            (Some(_), None) => None,
            (None, _) => (append.closes && append.data.is_empty()).then_some(Checked::Repeat(None)),
        }
    }

    fn check_producer(&self, producer: Producer<'_>) -> Result<Checked, Refusal> {
        let Producer { id, epoch, sequence } = producer;
        let Some(&(known, last)) = self.producers.get(id) else {
            if self.producers.len() >= PRODUCERS_MAX {
                return Err(Refusal::Producers(PRODUCERS_MAX));
            }
            return match sequence {
                0 => Ok(Checked::Take),
                received => Err(Refusal::Gap { expected: 0, received }),
            };
        };
        debug_assert!(epoch >= known, "a stale one is refused before");
        if epoch > known {
            return if sequence == 0 { Ok(Checked::Take) } else { Err(Refusal::EpochStart) };
        }
        if sequence <= last {
            return Ok(Checked::Repeat(Some((known, last))));
        }
        match last + 1 {
            expected if expected == sequence => Ok(Checked::Take),
            expected => Err(Refusal::Gap { expected, received: sequence }),
        }
    }
}

/// Whether two content types are the same: by their media type, without regard to case and
/// parameters (RFC 9110, section 8.3.1).
pub fn same_type(one: &str, other: &str) -> bool {
    essence(one).eq_ignore_ascii_case(essence(other))
}

/// Whether the messages of a stream of this type keep their bounds.
pub fn is_json(content_type: &str) -> bool {
    same_type(content_type, "application/json")
}

fn essence(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests;
