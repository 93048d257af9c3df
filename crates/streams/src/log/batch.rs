//! Appends on their way into the log, as the bytes that it is given.

use std::io::{self, ErrorKind};
use std::sync::{Arc, OnceLock};

use super::SharedLog;
use super::segment::{Entry, Generation, HEAD_BYTES};
use crate::file::FileName;
use crate::record::Record;

/// Where an append goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryPlace {
    pub(crate) name: FileName,
    /// The number of the stream.
    pub(crate) id: u64,
    /// Where in its file.
    pub(crate) position: u64,
    /// When, in milliseconds since 1970.
    pub(crate) at_ms: u64,
}

/// Appends that become one group, or a part of one. Each is built here once: its file is written
/// from here, too.
#[derive(Debug)]
pub(crate) struct Batch {
    /// Room for the head of a group, and entries.
    bytes: Vec<u8>,
    pub(super) names: Vec<FileName>,
    /// How many syncs had failed before the first of them was in its file.
    pub(super) failures: Option<u64>,
    /// What became of [`SharedLog::ready`] before the first of them.
    ready: Option<Result<(), (ErrorKind, String)>>,
}

/// Appends that go to the disk together.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// What became of them, or why they may not be there.
    pub(super) outcome: OnceLock<Result<(), String>>,
}

/// Why appends are not known to be on disk.
#[derive(Clone, Debug)]
pub(crate) struct Unstored {
    pub(crate) why: String,
    /// Whether the log may have them.
    pub(crate) is_unsure: bool,
}

/// What is written next.
#[derive(Debug, Default)]
pub(super) struct WaitingGroup {
    pub(super) batch: Batch,
    pub(super) group: Arc<Group>,
}

impl Default for Batch {
    fn default() -> Batch {
        Batch { bytes: vec![0; HEAD_BYTES], names: Vec::new(), failures: None, ready: None }
    }
}

impl Batch {
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// As [`SharedLog::ready`], which is asked once for all.
    ///
    /// # Errors
    /// The disk fails still.
    pub(crate) fn ready(&mut self, log: Option<&SharedLog>) -> io::Result<()> {
        let ready = || log.map_or(Ok(()), SharedLog::ready);
        let asked = || ready().map_err(|error| (error.kind(), error.to_string()));
        let ready = self.ready.get_or_insert_with(asked);
        ready.clone().map_err(|(kind, why)| io::Error::new(kind, why))
    }

    /// Bytes of its entries.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - HEAD_BYTES
    }

    /// Adds an append; the bytes that its file is to have. So many syncs had
    /// [failed](crate::disk::Doubt::failures) before those are written there.
    pub(crate) fn add(&mut self, place: EntryPlace, record: &Record<'_>, failures: u64) -> &[u8] {
        let EntryPlace { name, id, position, at_ms } = place;
        let entry = Entry { name, id, position, at_ms, bytes: &[] };
        let from = entry.write_with(&mut self.bytes, |out| record.write(out));
        self.names.push(name);
        self.failures = Some(self.failures.unwrap_or(failures).min(failures));
        &self.bytes[from..]
    }

    /// Takes back what was added last, when so many bytes of entries were there before.
    pub(crate) fn take_back(&mut self, len: usize) {
        self.bytes.truncate(HEAD_BYTES + len);
        self.names.pop();
    }

    /// Adds what another one has.
    pub(super) fn extend(&mut self, other: Batch) {
        if self.is_empty() {
            *self = other;
            return;
        }
        self.bytes.extend_from_slice(&other.bytes[HEAD_BYTES..]);
        self.names.extend(other.names);
        let failures = [self.failures, other.failures];
        self.failures = failures.into_iter().flatten().min();
    }

    /// Group `number` of a generation.
    pub(super) fn into_group(self, generation: Generation, number: u64) -> Vec<u8> {
        let mut bytes = self.bytes;
        generation.seal(number, &mut bytes);
        bytes
    }
}
