//! Sorting more rows than memory should hold: runs on the disk, merged at the end.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

use crate::row::Row;

const ROW_BYTES: usize = size_of::<Row>();

/// Of a run's buffer when it is read again. A billion rows are 240 runs of 4 million.
const BUFFER_BYTES: usize = 1 << 16;

/// Takes rows in any order, gives them back in theirs.
pub(super) struct Sorter {
    dir: PathBuf,
    rows: Vec<Row>,
    rows_max: usize,
    runs: Vec<File>,
}

impl Sorter {
    /// Keeps `rows_max` rows in memory, and the others in files of `dir`.
    pub(super) fn new(dir: &Path, rows_max: usize) -> Sorter {
        debug_assert!(rows_max > 0);
        Sorter { dir: dir.to_owned(), rows: Vec::new(), rows_max, runs: Vec::new() }
    }

    pub(super) fn push(&mut self, row: Row) -> io::Result<()> {
        self.rows.push(row);
        if self.rows.len() >= self.rows_max { self.spill() } else { Ok(()) }
    }

    fn spill(&mut self) -> io::Result<()> {
        self.rows.sort_unstable();
        let path = self.dir.join(format!("run-{}", self.runs.len()));
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true).open(&path)?;
        let mut writer = BufWriter::with_capacity(BUFFER_BYTES, file);
        for row in self.rows.drain(..) {
            writer.write_all(&row.to_le_bytes())?;
        }
        let mut file = writer.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        self.runs.push(file);
        // Nobody needs its name any more.
        std::fs::remove_file(&path)
    }

    /// Calls `visit` with each row, ascending, until it fails.
    pub(super) fn finish<E: From<io::Error>>(
        mut self,
        mut visit: impl FnMut(Row) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.runs.is_empty() {
            self.rows.sort_unstable();
            return self.rows.into_iter().try_for_each(visit);
        }
        self.spill()?;
        self.rows = Vec::new();
        let readers = self.runs.into_iter();
        let mut runs: Vec<_> =
            readers.map(|file| BufReader::with_capacity(BUFFER_BYTES, file)).collect();
        let mut heads = BinaryHeap::new();
        for (n, run) in runs.iter_mut().enumerate() {
            heads.extend(next(run)?.map(|row| Reverse((row, n))));
        }
        debug_assert!(heads.len() <= runs.len());
        let mut last = Row::MIN;
        while let Some(Reverse((row, n))) = heads.pop() {
            debug_assert!(last <= row, "a run was not sorted");
            last = row;
            visit(row)?;
            heads.extend(next(&mut runs[n])?.map(|row| Reverse((row, n))));
        }
        Ok(())
    }
}

/// The next row of a run, if there is one.
fn next(run: &mut impl Read) -> io::Result<Option<Row>> {
    let mut bytes = [0; ROW_BYTES];
    match run.read_exact(&mut bytes) {
        Ok(()) => Ok(Some(Row::from_le_bytes(bytes))),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_in_their_order_however_many_runs_they_take() {
        let dir = tempfile::tempdir().unwrap();
        for count in [0, 1, 9, 10, 11, 1000] {
            let mut random = fastrand::Rng::with_seed(count);
            let mut rows: Vec<Row> = (0..count).map(|_| random.u128(..500)).collect();
            let mut sorter = Sorter::new(dir.path(), 10);
            rows.iter().for_each(|&row| sorter.push(row).unwrap());
            let mut sorted = Vec::new();
            let take = |row| {
                sorted.push(row);
                Ok::<_, io::Error>(())
            };
            sorter.finish(take).unwrap();
            rows.sort_unstable();
            assert_eq!(sorted, rows);
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "no file is left");
        }
    }
}
