//! What another process has done to a store while it was not ours: its state, and which names it
//! stored and forgot.
//!
//! Pairs lie in the file, which both read. Names have a copy in memory, and ids that were given to
//! them there. A process that takes a store over may know somebody already who was stored
//! meanwhile: a connection that it inherited. Then the name has two ids, and nobody who holds the
//! one here can be told of the other. So the store takes over ours (`rename`): the pairs of
//! somebody who had none a moment ago.
//!
//! Cost: nothing to speak of when no names have changed, which a sum says. Otherwise a walk through
//! all names, without a look at their texts, and 10 µs for a pair that is renamed.

use std::iter::Peekable;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use heed::{RoTxn, WithTls};
use hub::Id;

use super::error::OpenReason;
use super::open::{Store, Tables, stored_names};
use super::sum::{State, Table};
use super::transaction::Transaction;
use super::verify::{FORMAT, FORMAT_REPLICA, META_FORMAT, META_NAMES_KEY, META_STATE};

/// A stored name, and the id under which it is stored but not known here.
pub(super) type Unmatched = (Id, String);

impl Store {
    /// Looks at what is stored now, where `known` was: names that were stored since are known from
    /// now on, those that were forgotten are not. `unmatched` are the ones that have another id
    /// here.
    pub(super) fn look_again(
        &self,
        known: &mut State,
        unmatched: &mut Vec<Unmatched>,
    ) -> Result<(), OpenReason> {
        let (txn, state) = newest(|| self.env.read_txn(), self.tables)?;
        if state.sums.of(Table::Names) != known.sums.of(Table::Names) {
            *unmatched = self.compare_names(&txn)?;
        }
        *known = state;
        self.subscriptions.store(state.subscriptions, Ordering::Relaxed);
        Ok(())
    }

    /// Makes ours of what another process has left, once its lock is ours.
    pub(super) fn catch_up(
        &self,
        mut known: MutexGuard<'_, State>,
        mut unmatched: Vec<Unmatched>,
    ) -> Result<(), OpenReason> {
        self.look_again(&mut known, &mut unmatched)?;
        self.level();
        if unmatched.is_empty() {
            return Ok(());
        }
        let mut transaction = Transaction::after(self, known)?;
        for (id, name) in &unmatched {
            transaction.rename(*id, name)?;
        }
        Ok(transaction.commit()?)
    }

    /// Makes the names that are known as stored those that are; returns those that cannot be.
    fn compare_names(&self, txn: &RoTxn<'_>) -> Result<Vec<Unmatched>, OpenReason> {
        let mut known = self.names.pinned();
        known.sort_unstable();
        let mut known = known.into_iter().peekable();
        let (mut gone, mut new) = (Vec::new(), Vec::new());
        for entry in stored_names(txn, self.tables)? {
            let (id, name) = entry?;
            gone.extend(below(&mut known, id));
            if known.next_if_eq(&id).is_none() {
                new.push((id, name.to_owned()));
            }
        }
        gone.extend(known);
        // First, so that somebody who went and came back is not unmatched.
        gone.into_iter().for_each(|id| self.names.unpin(id));
        new.retain(|(id, name)| !self.names.adopt(*id, name));
        Ok(new)
    }
}

/// Takes off what stands before `id`.
fn below(ids: &mut Peekable<impl Iterator<Item = Id>>, id: Id) -> impl Iterator<Item = Id> {
    std::iter::from_fn(move || ids.next_if(|before| *before < id))
}

/// How often a snapshot is taken anew before its state is called damaged.
const LOOKS_MAX: usize = 4;

/// A snapshot while another process may commit, and what its commit says.
///
/// LMDB writes a commit's head, and then tells readers its number. A reader that stands still
/// between its two looks (`mdb_txn_renew0`) has the head of the commit under way with the number of
/// two before. What it reads is whole, but the state is not that number's: it looks again. The next
/// look may be of the commit between them, so a snapshot can be older than the one before.
pub(super) fn newest<'env>(
    mut snapshot: impl FnMut() -> heed::Result<RoTxn<'env, WithTls>>,
    tables: Tables,
) -> Result<(RoTxn<'env, WithTls>, State), OpenReason> {
    let mut looks = 1;
    loop {
        let txn = snapshot()?;
        match read_state(&txn, tables) {
            Err(OpenReason::Damaged(_)) if looks < LOOKS_MAX => looks += 1,
            state => return Ok((txn, state?)),
        }
    }
}

/// What the newest commit says about the whole, in a store that is its own record.
pub(super) fn read_state(txn: &RoTxn<'_>, tables: Tables) -> Result<State, OpenReason> {
    let entry = |name| Ok::<_, heed::Error>(tables.meta.get(txn, name)?.unwrap_or_default());
    match entry(META_FORMAT)?.try_into().map(u32::from_le_bytes) {
        Ok(FORMAT) => {}
        Ok(FORMAT_REPLICA) => return Err(OpenReason::IsReplica),
        Ok(found) => return Err(OpenReason::OtherFormat { found, known: FORMAT }),
        Err(_) => return Err(OpenReason::Foreign),
    }
    let state = State::from_bytes(entry(META_STATE)?, entry(META_NAMES_KEY)?);
    state
        .filter(|state| state.transaction == txn.id() as u64)
        .ok_or_else(|| OpenReason::Damaged("meta: its state is not that of the newest".into()))
}
