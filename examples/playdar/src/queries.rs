//! The queries that are alive, and what was found of each.
//!
//! Every table has a bound: [`QUERIES_MAX`] queries, [`RESULTS_MAX`] results of each and
//! [`ALL_RESULTS_MAX`] of all, that is at most 80 MB if every result is as long as it may be. A
//! query lives for [`QUERY_LIFETIME`] after it was last asked about or one of its songs was played;
//! where there is no room for a new one, the oldest ends, and of others' before our own. Others
//! never push out our own, neither by what they ask nor by what they answer.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::model::{Found, Invalid, Query, new_id};
use crate::score::{Base, SCORE_MIN, SOLVED, score};

/// Queries alive at once.
pub const QUERIES_MAX: usize = 1000;

/// Results of one query.
pub const RESULTS_MAX: usize = 200;

/// Results of all queries: 20 of each, where there are so many.
pub const ALL_RESULTS_MAX: usize = 20_000;

/// How long a query lives that nobody asks about.
pub const QUERY_LIFETIME: Duration = Duration::from_secs(300);

/// Why a query is not asked.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Refused {
    /// It breaks a bound.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// All places are taken by queries of this machine.
    #[error("too many queries are open: ask again later")]
    Full,
}

/// What tests make smaller.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) queries: usize,
    pub(crate) all_results: usize,
    pub(crate) life: Duration,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { queries: QUERIES_MAX, all_results: ALL_RESULTS_MAX, life: QUERY_LIFETIME }
    }
}

/// The queries of a pipeline: what its clones, its tasks and the resolvers' answers share.
pub(crate) struct Queries {
    state: Mutex<State>,
    bounds: Bounds,
}

#[derive(Default)]
struct State {
    queries: HashMap<String, Entry>,
    /// Which query has the result of this id.
    sids: HashMap<String, (String, Arc<Found>)>,
}

struct Entry {
    query: Arc<Query>,
    results: Vec<Arc<Found>>,
    progress: watch::Sender<Progress>,
    /// Who counts as old.
    used: Instant,
}

/// How far a query is.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Progress {
    /// How many results there are.
    pub results: usize,
    /// Whether one of them is as good as exact.
    pub is_solved: bool,
}

/// A query and what was found so far.
#[derive(Clone, Debug)]
pub struct Results {
    /// What was asked.
    pub query: Arc<Query>,
    /// The best first: by score, then by preference.
    pub found: Vec<Arc<Found>>,
    /// Whether the pipeline stopped since one result is as good as exact.
    pub is_solved: bool,
}

impl Queries {
    pub(crate) fn new(bounds: Bounds) -> Queries {
        Queries { state: Mutex::default(), bounds }
    }

    /// What is there at this moment.
    fn current(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        state.expire(Instant::now(), self.bounds.life);
        state
    }

    /// Takes a query in, and tells how far it is from now on; nothing where it is known.
    pub(crate) fn begin(
        &self,
        query: &Arc<Query>,
    ) -> Result<Option<watch::Receiver<Progress>>, Refused> {
        let mut state = self.current();
        let used = Instant::now();
        if let Some(known) = state.queries.get_mut(&query.qid) {
            known.used = used;
            return Ok(None);
        }
        state.make_room(query, self.bounds)?;
        let progress = watch::Sender::new(Progress::default());
        let told = progress.subscribe();
        let entry = Entry { query: query.clone(), results: Vec::new(), progress, used };
        state.queries.insert(query.qid.clone(), entry);
        Ok(Some(told))
    }

    /// Ends a query; says whether there was one.
    pub(crate) fn end(&self, qid: &str) -> bool {
        self.state.lock().end(qid)
    }

    /// How many ids of results are known.
    #[cfg(test)]
    pub(crate) fn sids_len(&self) -> usize {
        self.state.lock().sids.len()
    }

    /// Ends those whose life is over.
    pub(crate) fn expire(&self) {
        drop(self.current());
    }

    /// What was found so far, or nothing for a query that is not known.
    pub(crate) fn results(&self, qid: &str) -> Option<Results> {
        let mut state = self.current();
        let entry = state.queries.get_mut(qid)?;
        entry.used = Instant::now();
        let mut found = entry.results.clone();
        found.sort_by(|a, b| {
            let by_score = b.score.unwrap_or(0.0).total_cmp(&a.score.unwrap_or(0.0));
            by_score.then(b.preference.cmp(&a.preference))
        });
        let is_solved = entry.progress.borrow().is_solved;
        Some(Results { query: entry.query.clone(), found, is_solved })
    }

    /// The results behind the first `seen` of a query that is alive.
    pub(crate) fn results_after(&self, qid: &str, seen: usize) -> Option<Vec<Arc<Found>>> {
        let state = self.state.lock();
        Some(state.queries.get(qid)?.results.get(seen..)?.to_vec())
    }

    /// A query, and how far it is from now on.
    pub(crate) fn watch(&self, qid: &str) -> Option<(Arc<Query>, watch::Receiver<Progress>)> {
        let state = self.current();
        let entry = state.queries.get(qid)?;
        Some((entry.query.clone(), entry.progress.subscribe()))
    }

    /// All that are alive, with how far they are, the last one asked about first.
    pub(crate) fn all(&self) -> Vec<(Arc<Query>, Progress)> {
        let state = self.current();
        let mut entries: Vec<&Entry> = state.queries.values().collect();
        entries.sort_by_key(|entry| Reverse(entry.used));
        entries.iter().map(|entry| (entry.query.clone(), *entry.progress.borrow())).collect()
    }

    /// The result of this id. Its query lives on: somebody listens.
    pub(crate) fn find_sid(&self, sid: &str) -> Option<Found> {
        let mut state = self.current();
        let (qid, found) = state.sids.get(sid)?.clone();
        if let Some(entry) = state.queries.get_mut(&qid) {
            entry.used = Instant::now();
        }
        Some(Found::clone(&found))
    }

    /// What a resolver found: scored, bounded, told. What other machines found ends no query of
    /// ours: it is dropped where it has no room else.
    pub(crate) fn add(&self, qid: &str, found: Vec<Found>, preference: i64, is_foreign: bool) {
        let mut state = self.state.lock();
        let state = &mut *state;
        while is_foreign && state.sids.len() + found.len() > self.bounds.all_results {
            if !state.end_oldest(|old| !old.is_local) {
                return;
            }
        }
        let Some(entry) = state.queries.get_mut(qid) else { return };
        let before = entry.results.len();
        for mut one in found {
            if entry.results.len() >= RESULTS_MAX {
                break;
            }
            let of_song = || score(&entry.query, &one.artist, &one.track, &one.album, Base::Query);
            let score = one.score.unwrap_or_else(of_song);
            if score < SCORE_MIN || !entry.query.takes(&one.mimetype) {
                continue;
            }
            one.score = Some(score);
            one.preference.get_or_insert(preference);
            // One that is taken would play another song.
            if one.sid.is_empty() || state.sids.contains_key(&one.sid) {
                one.sid = new_id();
            }
            let one = Arc::new(one);
            state.sids.insert(one.sid.clone(), (qid.to_owned(), one.clone()));
            entry.results.push(one);
        }
        let (results, added) = (entry.results.len(), &entry.results[before..]);
        let solves = added.iter().any(|one| one.score.is_some_and(|score| score >= SOLVED));
        if results > before {
            entry.progress.send_modify(|progress| {
                progress.results = results;
                progress.is_solved |= solves;
            });
        }
        while state.sids.len() > self.bounds.all_results
            && (state.end_oldest(|old| !old.is_local) || state.end_oldest(|_| true))
        {}
    }
}

impl State {
    fn make_room(&mut self, query: &Query, bounds: Bounds) -> Result<(), Refused> {
        if self.queries.len() < bounds.queries {
            return Ok(());
        }
        let has_room =
            self.end_oldest(|old| !old.is_local) || query.is_local && self.end_oldest(|_| true);
        if has_room { Ok(()) } else { Err(Refused::Full) }
    }

    fn end_oldest(&mut self, may_end: impl Fn(&Query) -> bool) -> bool {
        let may_end = self.queries.values().filter(|entry| may_end(&entry.query));
        let oldest = may_end.min_by_key(|entry| entry.used);
        let Some(qid) = oldest.map(|entry| entry.query.qid.clone()) else { return false };
        self.end(&qid)
    }

    fn expire(&mut self, now: Instant, life: Duration) {
        let is_old = |entry: &&Entry| now.duration_since(entry.used) >= life;
        let old = self.queries.values().filter(is_old);
        let old: Vec<String> = old.map(|entry| entry.query.qid.clone()).collect();
        for qid in old {
            self.end(&qid);
        }
    }

    /// Whoever watches it hears that by its sender's end.
    fn end(&mut self, qid: &str) -> bool {
        let Some(entry) = self.queries.remove(qid) else { return false };
        for found in entry.results {
            self.sids.remove(&found.sid);
        }
        true
    }
}
