//! Streams whose lifetime is over, and for which nobody asks.

use std::fs;
use std::io;

use crate::file;
use crate::links::FileKind;
use crate::refusal::Refusal;
use crate::store::Store;

impl Store {
    /// Removes the streams of directory `number`, modulo 256, whose lifetime is over, and whose
    /// last append was told; also what was deleted and kept for forks that have ended. Whoever asks
    /// for one removes it too. It reads the first record of each, some 20 µs. How many were
    /// removed.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn sweep(&self, number: usize) -> io::Result<usize> {
        let mut removed = 0;
        for entry in fs::read_dir(file::directory(self.dir(), number % file::DIRECTORIES))? {
            let found = entry?.path();
            let path = match FileKind::of(&found) {
                FileKind::Stream => file::path_if_over(&found, self.now_ms(), &self.long_reads),
                FileKind::Gone => file::name(&found, &self.long_reads).map(|(_, path)| Some(path)),
                FileKind::Link | FileKind::Unfinished | FileKind::Foreign => continue,
            };
            // A file that cannot be read is told to who asks for its stream.
            let Ok(Some(path)) = path else { continue };
            let is_gone = matches!(self.look(&self.stream(&path)), Err(Refusal::Unknown));
            removed += usize::from(is_gone && !self.is_noted(&path));
        }
        Ok(removed)
    }
}
