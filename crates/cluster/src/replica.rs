//! The graph's versions: which record completes which, which are missing, and whether the replica
//! has the same set as whoever published.
//!
//! Changes are applied strictly by version, however their records lie in the log. A version may be
//! missing while later ones are there, or while the store of record has it. Then whichever node is
//! first fetches it there and publishes it again. The message id is made of the version and its
//! hash, so it is in the log once or does no harm.

use std::collections::BTreeMap;

use crate::action::GraphPlace;
use crate::change::{Change, Part};
use crate::limits::{EARLY_BYTES_MAX, EARLY_VERSIONS_MAX, MISSING_MS, STORE_AGAIN_MS};

/// Versions that are missing one by one; more are read from the store of record at once.
const FETCHED_MAX: u64 = 64;

/// What is to be asked of the store of record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ask {
    /// This version.
    Fetch(u64),
    /// All that there are.
    Read,
}

/// Versions whose hashes are remembered.
const KNOWN_MAX: usize = 1_024;

const _: () = {
    assert!(FETCHED_MAX <= EARLY_VERSIONS_MAX as u64, "what is fetched one by one must be kept");
};

/// A version of which parts have been read.
#[derive(Debug, Default)]
struct Early {
    parts: BTreeMap<u16, Change>,
    bytes: usize,
    whole: u16,
}

/// What is known of the graph's versions.
#[derive(Debug)]
pub(crate) struct Replica {
    /// What the replica has.
    place: GraphPlace,
    /// The last version whose change is complete and on its way to the replica, or applied.
    queued: u64,
    /// What was read of later ones.
    early: BTreeMap<u64, Early>,
    early_bytes: usize,
    /// The greatest version that there is, as far as is known.
    latest: u64,
    /// Hashes that publishers have said, of versions that the replica has not.
    hashes: BTreeMap<u64, u64>,
    /// Hashes of the last versions, as the replica had them.
    known: BTreeMap<u64, u64>,
    /// A version had another hash before: the store of record was put back to an older state, and
    /// what the replica has is no part of its history. It is to be made anew.
    is_astray: bool,
    /// When to ask for what is missing.
    ask_ms: Option<u64>,
}

impl Replica {
    pub(crate) fn new(place: GraphPlace) -> Replica {
        Replica {
            place,
            queued: place.version,
            early: BTreeMap::new(),
            early_bytes: 0,
            latest: place.version,
            hashes: BTreeMap::new(),
            known: BTreeMap::from([(place.version, place.hash)]),
            is_astray: false,
            ask_ms: None,
        }
    }

    /// The version that whoever relies on one may go by.
    pub(crate) fn version(&self) -> u64 {
        if self.is_astray { 0 } else { self.place.version }
    }

    /// Whether it is to be made anew before anybody relies on it.
    pub(crate) fn is_astray(&self) -> bool {
        self.is_astray
    }

    /// Whether nothing that was read waits for more.
    pub(crate) fn is_settled(&self) -> bool {
        self.early.is_empty() && !self.is_astray
    }

    /// The log begins anew: what is on its way will not arrive.
    pub(crate) fn restart(&mut self) {
        let latest = self.latest.max(self.queued);
        let known = std::mem::take(&mut self.known);
        *self = Replica { latest, known, is_astray: self.is_astray, ..Replica::new(self.place) };
        self.check();
    }

    /// What holds whenever nobody is at work here.
    fn check(&self) {
        debug_assert!(self.queued >= self.place.version, "the replica has what is on its way");
        debug_assert!(self.is_astray || self.latest >= self.queued);
        debug_assert!(!self.is_astray || self.early.is_empty() && self.ask_ms.is_none());
        let early = self.early.first_key_value();
        debug_assert!(early.is_none_or(|(&version, _)| version > self.queued));
        debug_assert_eq!(self.early_bytes, self.early.values().map(|early| early.bytes).sum());
        debug_assert!(self.hashes.len() <= FETCHED_MAX as usize && self.known.len() <= KNOWN_MAX);
    }

    /// A part was read: the changes that are complete with it, in their order. `rank` puts off the
    /// question for what is missing, so that not all nodes ask at once.
    pub(crate) fn read(&mut self, now_ms: u64, rank: u64, part: Part) -> Vec<Change> {
        let Part { part, parts, change } = part;
        let version = change.version;
        if self.is_astray || self.contradicts(&change) {
            if !self.is_astray {
                *self = Replica { is_astray: true, latest: version, ..Replica::new(self.place) };
            }
            self.latest = self.latest.max(version);
            return Vec::new();
        }
        self.latest = self.latest.max(version);
        if change.hash != 0
            && version > self.place.version
            && self.hashes.len() < FETCHED_MAX as usize
        {
            self.hashes.insert(version, change.hash);
        }
        let wanted = version > self.queued && version - self.queued <= EARLY_VERSIONS_MAX as u64;
        if wanted && (version == self.queued + 1 || self.early_bytes < EARLY_BYTES_MAX) {
            let early = self.early.entry(version).or_default();
            // Whoever cuts it otherwise, begins anew.
            if early.whole != parts {
                self.early_bytes -= early.bytes;
                *early = Early { whole: parts, ..Early::default() };
            }
            let bytes = change.bytes();
            if early.parts.insert(part, change).is_none() {
                early.bytes += bytes;
                self.early_bytes += bytes;
            }
        }
        let complete = self.complete();
        self.mind_missing(now_ms, rank, !complete.is_empty());
        self.check();
        complete
    }

    /// Whether a version is another one than the one of its number that was there before.
    fn contradicts(&self, change: &Change) -> bool {
        let before = self.known.get(&change.version);
        change.hash != 0 && before.is_some_and(|&hash| hash != 0 && hash != change.hash)
    }

    fn know(&mut self, version: u64, hash: u64) {
        self.known.insert(version, hash);
        if self.known.len() > KNOWN_MAX {
            self.known.pop_first();
        }
    }

    /// Whether `version` is there as a whole, or too far away to be kept, and waits for others:
    /// whoever has it may have acknowledged it.
    pub(crate) fn waits_for_others(&self, version: u64) -> bool {
        let partly = |early: &Early| early.parts.len() < usize::from(early.whole);
        self.is_astray || version > self.queued && !self.early.get(&version).is_some_and(partly)
    }

    /// The changes that may go to the replica.
    fn complete(&mut self) -> Vec<Change> {
        let mut complete = Vec::new();
        while let Some(early) = self.early.get(&(self.queued + 1)) {
            if early.parts.len() < usize::from(early.whole) {
                break;
            }
            self.queued += 1;
            let Some(early) = self.early.remove(&self.queued) else { break };
            self.early_bytes -= early.bytes;
            complete.extend(early.parts.into_values().reduce(|mut whole, part| {
                debug_assert_eq!(whole.version, part.version);
                whole.added.extend(part.added);
                whole.removed.extend(part.removed);
                whole
            }));
        }
        complete
    }

    /// The store of record is at `version`.
    pub(crate) fn latest(&mut self, now_ms: u64, rank: u64, version: u64) {
        self.latest = self.latest.max(version);
        self.mind_missing(now_ms, rank, false);
        self.check();
    }

    /// Sets the time at which to ask, anew if there was `progress`.
    fn mind_missing(&mut self, now_ms: u64, rank: u64, progress: bool) {
        if self.latest <= self.queued || self.is_astray {
            self.ask_ms = None;
        } else if progress || self.ask_ms.is_none() {
            self.ask_ms = Some(now_ms + MISSING_MS * (1 + rank));
        }
    }

    /// The replica is at `place`. Whether its set is another one than a publisher's.
    ///
    /// Where it has gone back, the store of record was put back to an older state, and the replica
    /// was made anew from that: the versions from there on are others than those that were read.
    pub(crate) fn moved(&mut self, now_ms: u64, place: GraphPlace) -> (bool, Vec<Change>) {
        if self.is_astray {
            return (false, Vec::new());
        }
        if place.version < self.place.version {
            *self = Replica::new(place);
        }
        self.place = place;
        self.know(place.version, place.hash);
        self.latest = self.latest.max(place.version);
        self.queued = self.queued.max(place.version);
        let differs = self.differs();
        self.hashes = self.hashes.split_off(&(place.version + 1));
        let later = self.early.split_off(&(self.queued + 1));
        self.early = later;
        self.early_bytes = self.early.values().map(|early| early.bytes).sum();
        let complete = self.complete();
        self.mind_missing(now_ms, 0, true);
        self.check();
        (differs, complete)
    }

    /// The replica was made anew out of the store of record, and is at `place`.
    pub(crate) fn renewed(&mut self, now_ms: u64, place: GraphPlace) -> (bool, Vec<Change>) {
        if std::mem::take(&mut self.is_astray) {
            *self = Replica { latest: self.latest, ..Replica::new(place) };
        }
        // What it had before may have been wrong.
        self.known.clear();
        self.moved(now_ms, place)
    }

    /// Whether a publisher has said another hash for the replica's version. Compared once.
    fn differs(&mut self) -> bool {
        let hash = self.hashes.remove(&self.place.version);
        hash.is_some_and(|hash| hash != self.place.hash)
    }

    /// What to ask for, if it is time.
    pub(crate) fn tick(&mut self, now_ms: u64) -> Option<Ask> {
        self.ask_ms.filter(|&ask_ms| ask_ms <= now_ms)?;
        self.ask_ms = Some(now_ms + STORE_AGAIN_MS);
        debug_assert!(self.latest > self.queued && !self.is_astray, "nothing is missing");
        let many = self.latest - self.queued > FETCHED_MAX;
        Some(if many { Ask::Read } else { Ask::Fetch(self.queued + 1) })
    }

    pub(crate) fn deadline(&self) -> Option<u64> {
        self.ask_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(version: u64, part: u16, parts: u16, hash: u64) -> Part {
        let added = vec![(version.to_string(), part.to_string())];
        Part { part, parts, change: Change { version, hash, added, removed: Vec::new() } }
    }

    fn versions(changes: &[Change]) -> Vec<u64> {
        changes.iter().map(|change| change.version).collect()
    }

    fn at(version: u64) -> GraphPlace {
        GraphPlace { version, hash: version * 100 }
    }

    #[test]
    fn versions_are_applied_in_their_order_whatever_the_logs_is() {
        let mut replica = Replica::new(at(5));
        assert_eq!(versions(&replica.read(0, 0, part(7, 0, 1, 0))), []);
        assert_eq!(versions(&replica.read(0, 0, part(6, 1, 2, 0))), []);
        assert_eq!(versions(&replica.read(0, 0, part(6, 1, 2, 0))), []);
        assert_eq!(versions(&replica.read(0, 0, part(5, 0, 1, 0))), []);
        let complete = replica.read(0, 0, part(6, 0, 2, 0));
        assert_eq!(versions(&complete), [6, 7]);
        assert_eq!(complete[0].added.len(), 2);
        assert_eq!((replica.deadline(), replica.early_bytes), (None, 0));
    }

    #[test]
    fn what_is_missing_is_fetched_and_much_is_read_at_once() {
        let mut replica = Replica::new(at(5));
        replica.read(0, 2, part(7, 0, 1, 0));
        assert_eq!(replica.tick(299), None);
        assert_eq!(replica.tick(300), Some(Ask::Fetch(6)));
        assert_eq!(replica.tick(301), None);
        replica.latest(400, 0, 5 + FETCHED_MAX + 1);
        assert_eq!(replica.tick(1_300), Some(Ask::Read));
        let (_, complete) = replica.moved(1_400, at(6));
        assert_eq!(versions(&complete), [7]);
        replica.moved(1_400, at(70));
        assert_eq!(replica.deadline(), None);
    }

    #[test]
    fn hashes_are_compared_at_the_same_version_and_once() {
        let mut replica = Replica::new(at(5));
        replica.read(0, 0, part(6, 0, 1, 600));
        assert!(!replica.moved(0, at(6)).0);
        replica.read(0, 0, part(7, 0, 1, 701));
        assert!(replica.moved(0, at(7)).0);
        assert!(!replica.moved(0, at(7)).0);
        // It was applied already, from the store of record.
        replica.read(0, 0, part(7, 0, 1, 700));
        assert!(!replica.is_astray());
    }

    #[test]
    fn replica_of_another_history_is_relied_on_by_nobody_until_it_is_made_anew() {
        let mut replica = Replica::new(at(5));
        replica.moved(0, at(6));
        replica.moved(0, at(7));
        assert_eq!(replica.read(0, 0, part(6, 0, 1, 600)), [], "it is the one that was applied");
        assert_eq!((replica.version(), replica.is_astray()), (7, false));
        assert_eq!(replica.read(0, 0, part(6, 0, 1, 601)), []);
        assert!(replica.is_astray() && replica.waits_for_others(6) && !replica.is_settled());
        // What was on its way is no part of it either.
        assert_eq!(replica.read(0, 0, part(8, 0, 1, 801)), []);
        assert_eq!(replica.moved(0, at(8)), (false, vec![]));
        replica.restart();
        assert_eq!((replica.version(), replica.deadline()), (0, None));
        let renewed = GraphPlace { version: 7, hash: 701 };
        assert_eq!(replica.renewed(500, renewed), (false, vec![]));
        assert_eq!((replica.version(), replica.is_astray()), (7, false));
        assert_eq!(
            replica.tick(500 + MISSING_MS),
            Some(Ask::Fetch(8)),
            "it was read, and not kept"
        );
        assert_eq!(versions(&replica.read(600, 0, part(8, 0, 1, 801))), [8]);
        replica.moved(600, GraphPlace { version: 8, hash: 801 });
        replica.renewed(700, GraphPlace { version: 9, hash: 901 });
        replica.read(700, 0, part(8, 0, 1, 802));
        assert!(!replica.is_astray(), "what it was before it was made anew is no measure");
    }

    #[test]
    fn versions_of_a_store_that_was_put_back_are_taken_anew() {
        let mut replica = Replica::new(GraphPlace { version: 1, hash: 1 });
        assert_eq!(replica.read(0, 0, part(2, 0, 1, 2)).len(), 1);
        replica.moved(0, GraphPlace { version: 2, hash: 2 });
        replica.moved(0, GraphPlace { version: 1, hash: 1 });
        assert_eq!(replica.read(0, 0, part(2, 0, 1, 20)).len(), 1, "it is another version 2");
        let (differs, _) = replica.moved(0, GraphPlace { version: 2, hash: 20 });
        assert!(!differs);
    }
}
