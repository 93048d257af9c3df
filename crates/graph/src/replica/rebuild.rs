//! A replica out of all the pairs of the store of record, built beside the one that answers.
//!
//! The pairs come twice, sorted by either side, as PostgreSQL reads them out of its two indexes. So
//! each list comes whole and is written once, in the order of the keys, which fills pages to the
//! brim. There names have ids of another order than here: a list's members are sorted here, and
//! the lists of names wait in a sorter of bounded memory until those of integers are written, since
//! their keys stand behind them.
//!
//! Commits come in between, as nobody sees the store before it is whole. Memory: the longest list,
//! the pages of a million pairs, 64 MiB where names are listened to, and 30 bytes a name. Cost: a
//! sixth of a µs of processor a pair, twice that where ids are names with numbers, eight times
//! where they have none.

use std::fmt::{Debug, Display};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hub::{Id, IdError, Names, pair_hash};
use thiserror::Error;
use xxhash_rust::xxh3::xxh3_64;

use super::open::Building;
use super::pairs::{NumberedId, PairBatch};
use super::sorter::Sorter;
use super::{ApplyError, Change, LogPlace, Replica, ReplicaState};
use crate::acquired_names::AcquiredNames;
use crate::edge_list;
use crate::error::{OpenError, OpenReason, WriteError};
use crate::open::Store;
use crate::row::{Row, member, row, subject};
use crate::sum::Table;
use crate::transaction::Transaction;

/// Pairs, and names, of one transaction.
const COMMIT_EVERY: usize = 1 << 20;

/// Rows of lists of names that are kept in memory: 64 MiB.
const ROWS_MAX: usize = 1 << 22;

/// Numbers that may come at once, 8 MiB of ids; further ones when there are a quarter as many.
const NUMBERS_MIN: usize = 1 << 20;

/// Of which state of the store of record the pairs are, all out of one snapshot.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Origin {
    /// See [`ReplicaState::lineage`].
    pub lineage: u128,
    /// See [`ReplicaState::version`].
    pub version: u64,
    /// From where to follow the log: a place that was reached before the snapshot was taken.
    pub at: LogPlace,
    /// The set hash of the pairs, when it is known.
    pub set_hash: Option<u64>,
}

/// Why a replica was not rebuilt. It is as it was.
#[derive(Debug, Error)]
pub enum RebuildError<E: Debug + Display> {
    /// The pairs did not all come. The caller's own error.
    #[error("the pairs did not all come: {0}")]
    Source(E),
    /// A text is no id.
    #[error("the store of record has an id that is none: {0}")]
    Id(#[from] IdError),
    /// The streams are not sorted as they must be.
    #[error("{0}; this is a fault of the program or of the store of record")]
    Order(String),
    /// The streams contradict one another, or the hash.
    #[error("{0}: the pairs were not all of one snapshot, or were changed past the versions")]
    Differs(String),
    /// The disk.
    #[error("the graph cannot be built beside the one there is: {0}")]
    Disk(#[from] io::Error),
    /// The new store could not be made.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The new store took no more.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// What goes wrong with the new store has no owner yet who could name it better.
impl<E: Debug + Display> From<heed::Error> for RebuildError<E> {
    fn from(error: heed::Error) -> RebuildError<E> {
        match error {
            heed::Error::Io(error) => RebuildError::Disk(error),
            other => RebuildError::Disk(io::Error::other(other.to_string())),
        }
    }
}

/// A replica that will be built beside the one that answers.
pub struct Rebuild {
    building: Building,
    store: Arc<Store>,
    held: AcquiredNames<Arc<Names>>,
}

/// A replica that is built, and still beside the one that answers. Dropped, it never was.
pub struct Built(Rebuild, ReplicaState);

impl Replica {
    /// Begins to build a replica beside this one, which goes on: it can be changed meanwhile.
    pub fn begin_rebuild(&self) -> Result<Rebuild, OpenError> {
        let fail = |reason| OpenError { dir: self.dir.clone(), reason };
        let names = Arc::clone(self.graph.names());
        let building =
            Building::make(&self.dir).map_err(|error| fail(OpenReason::Directory(error)))?;
        let held = AcquiredNames::new(Arc::clone(&names));
        let store = building.store(&self.dir, &self.options, Some(names), self.lock.clone());
        let store = Arc::new(store.map_err(fail)?);
        Ok(Rebuild { building, store, held })
    }

    /// Puts what was built into this one's place: from then on look-ups are answered out of it.
    pub fn finish_rebuild(&mut self, built: Built) -> io::Result<ReplicaState> {
        let Built(Rebuild { building, store, held }, state) = built;
        self.take(&building, store, held)?;
        Ok(state)
    }

    /// Makes the replica anew, as [`Rebuild::run`] does, while it stands still.
    pub fn rebuild<E: Debug + Display>(
        &mut self,
        origin: &Origin,
        by_subscribee: impl IntoIterator<Item = Result<PairBatch, E>>,
        by_subscriber: impl IntoIterator<Item = Result<PairBatch, E>>,
    ) -> Result<ReplicaState, RebuildError<E>> {
        let built = self.begin_rebuild()?.run(origin, by_subscribee, by_subscriber)?;
        Ok(self.finish_rebuild(built)?)
    }
}

impl Built {
    /// What it is a copy of.
    pub fn state(&self) -> ReplicaState {
        self.1
    }

    /// As [`Replica::apply`]: what was changed while it was built.
    pub fn apply(&mut self, changes: &[Change<'_>]) -> Result<(), ApplyError> {
        self.0.store.apply(changes)?;
        self.1 = self.0.store.replica_state().unwrap_or(self.1);
        Ok(())
    }
}

impl Rebuild {
    /// Builds the replica out of all pairs of `origin`, which come twice: sorted by subscribee
    /// and then by subscriber, and the other way round. Each stream has the lists of integers in
    /// the order of their numbers; names may stand anywhere, and a list's members in any order.
    /// The second stream is first asked for when the first one has ended.
    ///
    /// Look-ups are answered as before until the new pairs are in the replica's place, by all
    /// graphs that were handed out. Ids that somebody holds stay what they are. Runs on the
    /// caller's thread for as long as the pairs come, so the batches hold up whoever reads them
    /// out: over a bounded channel, `std::iter::from_fn(|| batches.blocking_recv())`. A stream that
    /// breaks off must end with an error; should it just end, the two differ, which is one.
    pub fn run<E: Debug + Display>(
        mut self,
        origin: &Origin,
        by_subscribee: impl IntoIterator<Item = Result<PairBatch, E>>,
        by_subscriber: impl IntoIterator<Item = Result<PairBatch, E>>,
    ) -> Result<Built, RebuildError<E>> {
        let mut build = Build::begin(&self.store, &self.building.0, &mut self.held)?;
        let followers = build.direction(Table::Followers, by_subscribee)?;
        let following = build.direction(Table::Following, by_subscriber)?;
        if followers.pairs != following.pairs || followers.sum != following.sum {
            let text = format!(
                "the two streams have {} and {} pairs, which are not the same",
                followers.pairs, following.pairs
            );
            return Err(RebuildError::Differs(text));
        }
        let Origin { lineage, version, at, .. } = *origin;
        let here = followers.set_hash;
        if let Some(expected) = origin.set_hash.filter(|&expected| expected != here) {
            let text = format!("at version {version} the hash {here:016x} is not {expected:016x}");
            return Err(RebuildError::Differs(text));
        }
        let state = ReplicaState { lineage, version, at, set_hash: here };
        build.finish(state)?;
        debug_assert_eq!(self.store.subscriptions.load(Ordering::Relaxed), followers.pairs);
        self.store.env.force_sync()?;
        Ok(Built(self, state))
    }
}

/// What a direction had.
#[derive(Default)]
struct Read {
    pairs: u64,
    /// The sum over all pairs, which is the same for both directions.
    sum: u64,
    /// Of the first direction only: it costs more than the rest.
    set_hash: u64,
}

impl Read {
    fn count(&mut self, table: Table, pair: Row) {
        self.pairs += 1;
        let pair = if table == Table::Following { pair.rotate_left(64) } else { pair };
        self.sum = self.sum.wrapping_add(xxh3_64(&pair.to_le_bytes()));
    }
}

/// The new store.
struct Build<'b> {
    store: &'b Store,
    /// For files that are needed meanwhile.
    dir: &'b Path,
    held: &'b mut AcquiredNames<Arc<Names>>,
    /// Ids by the numbers of the store of record; [`Id::NONE`] where it has not come yet.
    known: Vec<Id>,
    /// `None` only between two.
    transaction: Option<Transaction<'b>>,
    /// Pairs and names that the transaction has written.
    written: usize,
}

impl<'b> Build<'b> {
    fn begin(
        store: &'b Store,
        dir: &'b Path,
        held: &'b mut AcquiredNames<Arc<Names>>,
    ) -> heed::Result<Build<'b>> {
        let transaction = Some(Transaction::begin(store)?);
        Ok(Build { store, dir, held, known: Vec::new(), transaction, written: 0 })
    }

    /// Writes one direction.
    fn direction<E: Debug + Display>(
        &mut self,
        table: Table,
        batches: impl IntoIterator<Item = Result<PairBatch, E>>,
    ) -> Result<Read, RebuildError<E>> {
        let mut read = Read::default();
        let mut names = Sorter::new(self.dir, ROWS_MAX);
        let mut lists = ListsWriter { build: self, table, subject: None, ids: Vec::new() };
        let mut last = (String::new(), None);
        for batch in batches {
            for (subscriber, subscribee) in batch.map_err(RebuildError::Source)?.iter() {
                let (subject, member) = match table {
                    Table::Following => (subscriber, subscribee),
                    _ => (subscribee, subscriber),
                };
                let member = lists.build.id(member)?;
                // The pairs of a list come together.
                let subject = match last {
                    (ref text, Some(id)) if text == subject.text => id,
                    _ => {
                        let id = lists.build.id(subject)?;
                        subject.text.clone_into(&mut last.0);
                        last.1 = Some(id);
                        id
                    }
                };
                let pair = row(subject, member);
                read.count(table, pair);
                if table == Table::Followers {
                    let hash = pair_hash(subscriber.text, subscribee.text).hash;
                    read.set_hash = read.set_hash.wrapping_add(hash);
                }
                if subject.is_name() { names.push(pair)? } else { lists.push(pair)? }
            }
        }
        names.finish(|pair| lists.push(pair))?;
        lists.flush()?;
        Ok(read)
    }

    /// The id of what has come, which is held from now on.
    fn id(&mut self, NumberedId { text, number }: NumberedId<'_>) -> Result<Id, IdError> {
        let Some(number) = number.map(|number| number as usize) else {
            return Ok(self.held.hold(edge_list::parse_id(text)?));
        };
        if let Some(&known) = self.known.get(number).filter(|known| **known != Id::NONE) {
            return Ok(known);
        }
        let id = self.held.hold(edge_list::parse_id(text)?);
        // 8 bytes a name, unless numbers have large gaps: then it is found by its text each time.
        if number < NUMBERS_MIN + 4 * self.held.ids.len() {
            if self.known.len() <= number {
                self.known.resize((number + 1).next_power_of_two(), Id::NONE);
            }
            debug_assert!(id != Id::NONE);
            self.known[number] = id;
        }
        Ok(id)
    }

    fn transaction(&mut self) -> &mut Transaction<'b> {
        self.transaction.as_mut().expect("there is always one but while it is committed")
    }

    /// Counts what was written, and commits now and then.
    fn wrote(&mut self, count: usize) -> heed::Result<()> {
        self.written += count;
        if self.written >= COMMIT_EVERY {
            self.written = 0;
            self.transaction.take().map_or(Ok(()), Transaction::commit)?;
            self.transaction = Some(Transaction::begin(self.store)?);
        }
        Ok(())
    }

    /// Writes the names, and what the store is a copy of.
    fn finish(mut self, state: ReplicaState) -> heed::Result<()> {
        let mut ids: Vec<Id> = self.held.ids.iter().copied().collect();
        ids.sort_unstable();
        for id in ids {
            let name = self.store.names.text(id).expect("a name that is held has a text");
            self.transaction().put_name(id, &name)?;
            self.wrote(1)?;
        }
        self.transaction().replica = Some(state);
        self.transaction.take().map_or(Ok(()), Transaction::commit)
    }
}

/// The lists of one direction, as they come.
struct ListsWriter<'l, 'b> {
    build: &'l mut Build<'b>,
    table: Table,
    /// Whose list it is.
    subject: Option<Id>,
    ids: Vec<Id>,
}

impl ListsWriter<'_, '_> {
    fn push<E: Debug + Display>(&mut self, pair: Row) -> Result<(), RebuildError<E>> {
        let subject = subject(&pair);
        if self.subject != Some(subject) {
            self.flush()?;
            if self.subject.is_some_and(|before| before > subject) {
                let text = format!("{} came too late", self.list(subject));
                return Err(RebuildError::Order(text));
            }
            self.subject = Some(subject);
        }
        self.ids.push(member(&pair));
        Ok(())
    }

    /// Writes the list that has come.
    fn flush<E: Debug + Display>(&mut self) -> Result<(), RebuildError<E>> {
        let Some(subject) = self.subject else { return Ok(()) };
        if !self.ids.is_sorted() {
            self.ids.sort_unstable();
        }
        if self.ids.windows(2).any(|both| both[0] == both[1]) {
            let text = format!("{} has somebody twice", self.list(subject));
            return Err(RebuildError::Order(text));
        }
        let transaction = self.build.transaction();
        let lists = transaction.tables().lists(self.table);
        let (txn, uncommitted) = transaction.parts();
        lists.append(txn, subject, &self.ids, uncommitted)?;
        if self.table == Table::Followers {
            transaction.added(self.ids.len() as u64);
        }
        self.build.wrote(self.ids.len())?;
        self.ids.clear();
        Ok(())
    }

    fn list(&self, subject: Id) -> String {
        let name = self.build.store.names.text(subject).unwrap_or_default();
        format!("the list of {name} in {}", self.table.name())
    }
}
