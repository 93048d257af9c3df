//! Which ids come and go: what the directory notes while somebody wants to hear of it.
//!
//! An id comes with its first connection and goes with its last one. The directory notes both under
//! the lock of the id's stripe, so those of one id stand in the order in which they happened. A
//! note never waits for who takes it. Each of the lists has a bound, and what it has no room for is
//! counted as lost instead. [Keys](crate::Key) are no ids, and are not noted.
//!
//! A name is kept while a note of it waits: it may be that of one who has just gone. Whoever
//! [takes](Changes::take) a change has to [release](crate::Names::release) its id.
//!
//! Cost of a log-in or log-out: a load while nobody listens, a lock that is hardly ever taken and
//! 16 bytes while somebody does, and a look-up of a name.

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::id::Id;
use crate::names::Names;

/// Lists, so that workers seldom meet at one. A stripe of the directory always has the same.
pub(crate) const LISTS: usize = 64;

/// Notes of one list: with 100,000 log-ins a second all lists together are full after 1.3 s in
/// which nobody takes any, and have 2 MiB then.
const LIST_MAX: usize = 2048;

/// An id that has come or gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// Which. It must be released.
    pub id: Id,
    /// Whether it has come.
    pub is_online: bool,
}

/// On a cache line of its own, as the directory's stripes are.
#[derive(Default)]
#[repr(align(64))]
struct List(Mutex<Vec<Change>>);

/// What has come and gone and is not taken yet.
pub struct Changes {
    names: Arc<Names>,
    /// Acquire and release: who has begun to listen hears of all log-ins that begin after that. It
    /// is looked at again under a list's lock, which orders it with the list's being emptied.
    is_heard: AtomicBool,
    /// Relaxed: it is only a count.
    lost: AtomicU64,
    lists: Box<[List]>,
}

impl Changes {
    /// None. The ids are those of `names`.
    pub fn new(names: Arc<Names>) -> Changes {
        let lists = (0..LISTS).map(|_| List::default()).collect();
        Changes { names, is_heard: AtomicBool::new(false), lost: AtomicU64::new(0), lists }
    }

    /// How many lists there are to be taken.
    pub const LISTS: usize = LISTS;

    /// From now on changes are noted, or they are not any more, and those that wait are forgotten.
    pub fn hear(&self, is_heard: bool) {
        self.is_heard.store(is_heard, Ordering::Release);
        if !is_heard {
            for list in 0..LISTS {
                let left = std::mem::take(&mut *self.list(list));
                left.iter().for_each(|change| self.names.release(change.id));
            }
        }
    }

    /// Appends what waits in the list with the number `list` to `changes`.
    pub fn take(&self, list: usize, changes: &mut Vec<Change>) {
        changes.append(&mut self.list(list));
    }

    /// How many changes there was no room for since the last time.
    pub fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }

    /// Notes a change of `id`, whose name somebody keeps and whose stripe, `stripe`, is locked.
    pub(crate) fn note(&self, stripe: usize, id: Id, is_online: bool) {
        if !self.is_heard.load(Ordering::Acquire) {
            return;
        }
        let mut list = self.list(stripe % LISTS);
        if !self.is_heard.load(Ordering::Acquire) {
            return;
        }
        if list.len() >= LIST_MAX {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.names.acquire_id(id);
        list.push(Change { id, is_online });
        debug_assert!(list.len() <= LIST_MAX);
    }

    /// Each change of a list is one step.
    fn list(&self, number: usize) -> MutexGuard<'_, Vec<Change>> {
        self.lists[number].0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
