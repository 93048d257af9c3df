//! Loading a file of pairs: read all, sort, write each list once, one transaction.
//!
//! The transaction begins when all is read: an input may be a pipe that is slow or never ends, and
//! nobody else can change the graph while one is open.
//!
//! Into an empty store the lists are appended in the order of their keys, which fills pages to the
//! brim; into one that has pairs they are merged list by list. The one transaction makes a load
//! that is interrupted, by whatever, leave the store as it was.
//!
//! Cost: 16 bytes of memory a pair (32 when loaded both ways) and the file's new pages, at most
//! 512 MiB of them at once.

use std::io::{self, Read};

use hub::{IdText, Names};
use thiserror::Error;

use super::Graph;
use super::acquired_names::AcquiredNames;
use super::edge_list::{self, Malformed};
use super::error::WriteError;
use super::lists::Lists;
use super::open::Store;
use super::row::{Row, member, row, subject};
use super::transaction::Transaction;

/// Rows between two calls of `progress`.
const PROGRESS_STEP: u64 = 1 << 16;

/// How to load a file.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct LoadOptions {
    /// Each line `a b` is a friendship: a follows b and b follows a. Otherwise a follows b.
    pub both: bool,
    /// Load the good lines though there are malformed ones.
    pub skip_malformed: bool,
}

/// Where a load is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// What it does now.
    pub phase: Phase,
    /// How much of that is done: bytes while reading, pairs in either direction while writing.
    pub done: u64,
    /// How much there is to do; 0 when that is not known.
    pub total: u64,
}

/// The parts of a load, in their order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Lines to pairs.
    Reading,
    /// By subject; once per direction.
    Sorting,
    /// Lists into the store.
    Writing,
    /// Waiting for the disk.
    Syncing,
}

/// What a load did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoadReport {
    /// Lines with a pair.
    pub pairs: u64,
    /// Subscriptions that are new in the store; at most two a line when loaded both ways.
    pub added: u64,
    /// The lines that were skipped.
    pub malformed: Malformed,
}

/// Why a file was not loaded. The store is as it was.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The input, not the store.
    #[error("nothing was loaded, {name} could not be read: {error}")]
    Read {
        /// The file.
        name: String,
        /// As the system says.
        error: io::Error,
    },
    /// There were malformed lines, and they were not to be skipped.
    #[error("nothing was loaded, {}", .malformed.complaint(.name))]
    Malformed {
        /// The file.
        name: String,
        /// The lines.
        malformed: Malformed,
    },
    /// The store took no more.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl Graph {
    /// Loads what `input` holds: about `bytes` (0 when that is not known), called `name` in errors.
    /// Other changes wait until it is done; reads do not.
    pub fn load(
        &self,
        name: &str,
        input: &mut dyn Read,
        bytes: u64,
        options: LoadOptions,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<LoadReport, LoadError> {
        let store = &*self.own_record()?;
        let mut read =
            Pairs { names: AcquiredNames::new(&*store.names), both: options.both, rows: vec![] };
        let (pairs, malformed) = read
            .read(input, bytes, progress)
            .map_err(|error| LoadError::Read { name: name.to_owned(), error })?;
        if malformed.count > 0 && !options.skip_malformed {
            return Err(LoadError::Malformed { name: name.to_owned(), malformed });
        }
        store.usable().map_err(WriteError::from)?;
        let added = Load::begin(store, read, progress).and_then(Load::write);
        let added = added.map_err(|error| store.write_error(error))?;
        store.usable().map_err(WriteError::from)?;
        Ok(LoadReport { pairs, added, malformed })
    }
}

/// The pairs of the input.
struct Pairs<'s> {
    names: AcquiredNames<&'s Names>,
    both: bool,
    /// Subscribees as subjects.
    rows: Vec<Row>,
}

impl Pairs<'_> {
    /// Fills `rows`; returns how many lines had a pair.
    fn read(
        &mut self,
        input: &mut dyn Read,
        bytes: u64,
        progress: &mut dyn FnMut(Progress),
    ) -> io::Result<(u64, Malformed)> {
        let (mut number, mut pairs, mut malformed) = (0, 0, Malformed::default());
        let mut reported = u64::MAX;
        edge_list::for_each_line::<io::Error>(input, |line, done| {
            number += 1;
            if done != reported {
                reported = done;
                progress(Progress { phase: Phase::Reading, done, total: bytes });
            }
            match line {
                Ok(Some((a, b))) => {
                    pairs += 1;
                    self.push(a, b);
                }
                Ok(None) => {}
                Err(error) => malformed.note(number, error),
            }
            Ok(())
        })?;
        Ok((pairs, malformed))
    }

    fn push(&mut self, a: IdText<'_>, b: IdText<'_>) {
        let (a, b) = (self.names.hold(a), self.names.hold(b));
        self.rows.push(row(b, a));
        if self.both {
            self.rows.push(row(a, b));
        }
    }
}

/// Pairs on their way into the store.
struct Load<'s, 'p> {
    transaction: Transaction<'s>,
    progress: &'p mut dyn FnMut(Progress),
    both: bool,
    rows: Vec<Row>,
}

impl<'s, 'p> Load<'s, 'p> {
    /// Waits for the transaction that is under way, if any.
    fn begin(
        store: &'s Store,
        pairs: Pairs<'_>,
        progress: &'p mut dyn FnMut(Progress),
    ) -> heed::Result<Load<'s, 'p>> {
        let mut transaction = Transaction::begin(store)?;
        for &id in &pairs.names.ids {
            transaction.pin_held(id)?;
        }
        Ok(Load { transaction, progress, both: pairs.both, rows: pairs.rows })
    }

    /// Sorts and writes both directions; returns how many subscriptions are new.
    fn write(mut self) -> heed::Result<u64> {
        let tables = self.transaction.tables();
        self.sort();
        self.rows.dedup();
        let added = self.fill(tables.followers, 0)?;
        // Loaded both ways the rows are the same from either side.
        if !self.both {
            self.rows.iter_mut().for_each(|row| *row = row.rotate_left(64));
            self.sort();
        }
        // Both directions must agree: as `Transaction` has it of each pair.
        if self.fill(tables.following, self.rows.len() as u64)? != added {
            return Err(heed::MdbError::Corrupted.into());
        }
        debug_assert!(added <= self.rows.len() as u64);
        (self.progress)(Progress { phase: Phase::Syncing, done: 0, total: 0 });
        self.rows = Vec::new();
        self.transaction.added(added);
        self.transaction.commit()?;
        Ok(added)
    }

    fn sort(&mut self) {
        let total = self.rows.len() as u64;
        (self.progress)(Progress { phase: Phase::Sorting, done: 0, total });
        self.rows.sort_unstable();
    }

    /// Writes the rows as lists, `done` having been written before; returns how many are new.
    fn fill(&mut self, lists: Lists, mut done: u64) -> heed::Result<u64> {
        let total = 2 * self.rows.len() as u64;
        debug_assert!(
            self.rows.is_sorted_by(|one, next| one < next),
            "the rows of a list stand together, each once"
        );
        let (txn, uncommitted) = self.transaction.parts();
        let empty = lists.is_empty(txn)?;
        let (mut added, mut ids) = (0, Vec::new());
        let mut reported = None;
        for list in self.rows.chunk_by(|a, b| subject(a) == subject(b)) {
            if reported.replace(done / PROGRESS_STEP) != Some(done / PROGRESS_STEP) {
                (self.progress)(Progress { phase: Phase::Writing, done, total });
            }
            ids.clear();
            ids.extend(list.iter().map(member));
            added += if empty {
                lists.append(txn, subject(&list[0]), &ids, uncommitted)?;
                ids.len()
            } else {
                lists.merge(txn, subject(&list[0]), &ids, uncommitted)?
            } as u64;
            done += ids.len() as u64;
        }
        Ok(added)
    }
}
