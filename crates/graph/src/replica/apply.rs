//! Changes as the log brings them: in order, whole, and checked by the hash of the whole set.

use hub::{IdError, IdText, pair_hash};
use thiserror::Error;

use super::{LogPlace, Replica, ReplicaState};
use crate::error::WriteError;
use crate::follower::Moved;
use crate::open::Store;
use crate::pair::TextPair;
use crate::transaction::Transaction;

/// One change of the graph, borrowed from whoever read it. A pair stands in one of the two lists at
/// most; should it stand in both, it is there in the end.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// Its number: the next one after the replica's.
    pub version: u64,
    /// (subscriber, subscribee) that are there no more. Taken away first.
    pub removed: &'a [(String, String)],
    /// (subscriber, subscribee) that are there from now on.
    pub added: &'a [(String, String)],
    /// The set hash after it, as its publisher has it, when that is known.
    pub set_hash: Option<u64>,
    /// Where it stands in the log; `None` when it came another way.
    pub at: Option<LogPlace>,
}

/// What a change did here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Applied {
    /// Of the change.
    pub version: u64,
    /// Pairs that are new.
    pub added: u64,
    /// Pairs that were there.
    pub removed: u64,
    /// The set hash after it; of the replica as it is, when the change was skipped.
    pub set_hash: u64,
    /// It was applied before: nothing was done.
    pub skipped: bool,
}

/// Why changes were not applied: none of the call was.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ApplyError {
    /// Changes in between are missing: fetch them from the store of record.
    #[error("change {found} cannot follow version {version}: those in between are missing")]
    Gap {
        /// The replica's, or that of the change before in the call.
        version: u64,
        /// The change's.
        found: u64,
    },
    /// The pairs here are not those of the publisher: rebuild the replica.
    #[error(
        "the graph here is not the cluster's: at version {version} its hash is {here:016x} and \
         should be {expected:016x}; it must be rebuilt"
    )]
    HashDiffers {
        /// At which they differ.
        version: u64,
        /// Ours.
        here: u64,
        /// The publisher's.
        expected: u64,
    },
    /// A text of the change is no id: whoever published it let it through.
    #[error("change {version} names an id that is none ({error}); look at the store of record")]
    Id {
        /// The change's.
        version: u64,
        /// What is wrong with it.
        error: IdError,
    },
    /// The store took it not.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl From<heed::Error> for Failure {
    fn from(error: heed::Error) -> Failure {
        Failure::Store(error)
    }
}

/// Why a transaction is given up.
enum Failure {
    Change(ApplyError),
    Store(heed::Error),
}

impl Replica {
    /// Applies `changes` in one transaction: all of them or none. Readers see them wholly or not at
    /// all. A change whose version is not above the replica's is skipped.
    ///
    /// Cost: 20 to 40 µs for a change of one pair, two thirds of that in a batch.
    pub fn apply(&mut self, changes: &[Change<'_>]) -> Result<Vec<Applied>, ApplyError> {
        self.store().apply(changes)
    }
}

impl Store {
    pub(super) fn apply(&self, changes: &[Change<'_>]) -> Result<Vec<Applied>, ApplyError> {
        let store = self;
        store.usable().map_err(WriteError::from)?;
        let work = || -> Result<Vec<Applied>, Failure> {
            let mut applying = Applying::begin(Transaction::begin(store)?)?;
            let applied = changes.iter().map(|change| applying.change(change));
            let applied = applied.collect::<Result<Vec<Applied>, Failure>>()?;
            applying.commit()?;
            Ok(applied)
        };
        work().map_err(|failure| match failure {
            Failure::Change(error) => error,
            Failure::Store(error) => store.write_error(error).into(),
        })
    }
}

struct Applying<'s> {
    transaction: Transaction<'s>,
    state: ReplicaState,
}

impl<'s> Applying<'s> {
    fn begin(transaction: Transaction<'s>) -> Result<Applying<'s>, Failure> {
        let state = transaction.replica.ok_or(Failure::Change(WriteError::IsReplica.into()))?;
        Ok(Applying { transaction, state })
    }

    fn change(&mut self, change: &Change<'_>) -> Result<Applied, Failure> {
        let Change { version, removed, added, set_hash, at } = *change;
        let mut applied = Applied { version, added: 0, removed: 0, set_hash: 0, skipped: true };
        if version > self.state.version {
            if version != self.state.version + 1 {
                let version = self.state.version;
                return Err(Failure::Change(ApplyError::Gap { version, found: change.version }));
            }
            applied.skipped = false;
            applied.removed = self.pairs(version, removed, false)?;
            applied.added = self.pairs(version, added, true)?;
            self.state.version = version;
        }
        let here = self.state.set_hash;
        if version == self.state.version
            && let Some(expected) = set_hash.filter(|&expected| expected != here)
        {
            let error = ApplyError::HashDiffers { version, here, expected };
            return Err(Failure::Change(error));
        }
        self.state.at = at.unwrap_or(self.state.at);
        applied.set_hash = here;
        Ok(applied)
    }

    /// Adds or removes pairs; returns how many that changed.
    fn pairs(
        &mut self,
        version: u64,
        pairs: &[(String, String)],
        add: bool,
    ) -> Result<u64, Failure> {
        let id = |text| {
            let invalid = |error| Failure::Change(ApplyError::Id { version, error });
            IdText::parse(text).map_err(invalid)
        };
        let mut changed = 0;
        for (subscriber, subscribee) in pairs {
            let pair = TextPair { subscriber: id(subscriber)?, subscribee: id(subscribee)? };
            let place = match add {
                true => self.transaction.add(pair)?,
                false => self.transaction.remove(pair)?,
            };
            let Some(pair) = place else { continue };
            changed += 1;
            let hash = pair_hash(subscriber, subscribee);
            let sum = &mut self.state.set_hash;
            *sum = if add { sum.wrapping_add(hash.hash) } else { sum.wrapping_sub(hash.hash) };
            self.transaction.moved(Moved::new(pair, hash, add));
        }
        Ok(changed)
    }

    fn commit(mut self) -> heed::Result<()> {
        self.transaction.replica = Some(self.state);
        self.transaction.commit()
    }
}
