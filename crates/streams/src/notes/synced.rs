//! What is on disk of the notes whatever happens, for tests: a sync that fails loses what it was to
//! bring there, and the next one knows nothing of it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::thread;

use super::{NOTES_MAX, Notes, PLACE_BYTES, at};

#[derive(Debug, Default)]
pub(crate) struct Synced {
    pub(crate) bytes: Vec<u8>,
    pub(crate) syncs: u64,
    /// Places that were written since, and may not be on disk.
    pub(super) written: BTreeSet<usize>,
    /// How many of the next syncs fail.
    pub(crate) failing: u64,
    /// A sync goes on when so many have wanted one.
    pub(crate) waits_for: u64,
}

impl Synced {
    pub(super) fn take(&mut self, file: &File) {
        self.bytes.resize(NOTES_MAX * PLACE_BYTES, 0);
        for place in std::mem::take(&mut self.written) {
            let start = place * PLACE_BYTES;
            let synced = &mut self.bytes[start..start + PLACE_BYTES];
            file.read_exact_at(synced, at(place)).unwrap();
        }
        self.syncs += 1;
    }
}

impl Notes {
    pub(super) fn wait_and_fail(&self) -> io::Result<()> {
        let waits_for = self.synced.lock().waits_for;
        while self.group.asked() < waits_for {
            thread::yield_now();
        }
        let mut synced = self.synced.lock();
        if synced.failing == 0 {
            return Ok(());
        }
        synced.failing -= 1;
        synced.written.clear();
        Err(io::Error::other("on purpose"))
    }
}
