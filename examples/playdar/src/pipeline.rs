//! The pipeline: a query goes to the resolvers, tier by tier, until it is solved.
//!
//! All resolvers of the most weight are asked at once. After the shortest of their target times,
//! the next tier is asked, and so on, and no further once a result is as good as exact. Answers
//! may come for as long as the query lives.
//!
//! Every table has a bound: [`QUERIES_MAX`] queries, [`RESULTS_MAX`] results of each and
//! [`ALL_RESULTS_MAX`] of all, that is at most 80 MB if every result is as long as it may be. A
//! query lives for [`QUERY_LIFE`] after it was last asked about or one of its songs was played;
//! where there is no room for a new one, the oldest ends, and of others' before our own. Strangers
//! never push out our own, neither by what they ask nor by what they answer.

mod progress;

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use thiserror::Error;
use tokio::sync::{broadcast, watch};
use tokio::time::{Instant, interval, timeout};

pub use self::progress::{Progress, Watch};
use crate::model::{Found, Invalid, Query, new_id};
use crate::resolver::{Answers, Profile, Resolver};
use crate::score::{Base, SCORE_MIN, SOLVED, score};

/// Queries alive at once.
pub const QUERIES_MAX: usize = 1000;

/// Results of one query.
pub const RESULTS_MAX: usize = 200;

/// Results of all queries: 20 of each, where there are so many.
pub const ALL_RESULTS_MAX: usize = 20_000;

/// How long a query lives that nobody asks about.
pub const QUERY_LIFE: Duration = Duration::from_secs(300);

/// Resolvers at once.
pub const RESOLVERS_MAX: usize = 64;

/// Queries whose start one who is told of starts may be behind.
const STARTS_BEHIND_MAX: usize = 1024;

/// How often queries are looked for whose life is over.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(10);

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

/// The pipeline; clones are the same one.
#[derive(Clone)]
pub struct Pipeline {
    shared: Arc<Shared>,
}

/// What its clones, its queries' tasks and the resolvers' answers share.
pub(crate) struct Shared {
    state: Mutex<State>,
    started: broadcast::Sender<Arc<Query>>,
    bounds: Bounds,
}

/// What tests make smaller.
#[derive(Clone, Copy)]
struct Bounds {
    queries: usize,
    all_results: usize,
    life: Duration,
}

#[derive(Default)]
struct State {
    resolvers: Vec<(Profile, Arc<dyn Resolver>)>,
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

impl Default for Pipeline {
    fn default() -> Pipeline {
        Pipeline::new()
    }
}

impl Pipeline {
    /// One without resolvers.
    pub fn new() -> Pipeline {
        let (queries, all_results, life) = (QUERIES_MAX, ALL_RESULTS_MAX, QUERY_LIFE);
        Pipeline::bounded(Bounds { queries, all_results, life })
    }

    fn bounded(bounds: Bounds) -> Pipeline {
        let started = broadcast::Sender::new(STARTS_BEHIND_MAX);
        Pipeline { shared: Arc::new(Shared { state: Mutex::default(), started, bounds }) }
    }

    /// Takes a resolver in. One of the same name makes room for it, as a script that starts again;
    /// beyond [`RESOLVERS_MAX`] it is not taken.
    pub fn add(&self, resolver: Arc<dyn Resolver>) {
        let profile = resolver.profile();
        let mut state = self.shared.state.lock();
        state.resolvers.retain(|(other, _)| other.name != profile.name);
        if state.resolvers.len() < RESOLVERS_MAX {
            state.resolvers.push((profile, resolver));
            state.resolvers.sort_by_key(|(profile, _)| Reverse(profile.weight));
        } else {
            tracing::warn!(name = profile.name, "there are {RESOLVERS_MAX} resolvers: no more");
        }
    }

    /// Asks the resolver of this name nothing more.
    pub fn remove(&self, name: &str) {
        self.shared.state.lock().resolvers.retain(|(profile, _)| profile.name != name);
    }

    /// What each resolver is, those asked first first.
    pub fn profiles(&self) -> Vec<Profile> {
        self.shared.state.lock().resolvers.iter().map(|(profile, _)| profile.clone()).collect()
    }

    /// Asks, and answers the query's id; results come later. For an id that is known it does
    /// nothing: who asks the same twice hears the same.
    ///
    /// Must be called within a tokio runtime, whose task walks the tiers.
    pub fn resolve(&self, query: Query) -> Result<String, Refused> {
        let query = Arc::new(query.checked()?);
        let progress = watch::Sender::new(Progress::default());
        let watch = Watch {
            pipeline: self.clone(),
            query: query.clone(),
            progress: progress.subscribe(),
            seen: 0,
        };
        let tiers = {
            let mut state = self.shared.state.lock();
            let now = Instant::now();
            state.expire(now, self.shared.bounds.life);
            if let Some(known) = state.queries.get_mut(&query.qid) {
                known.used = now;
                return Ok(query.qid.clone());
            }
            state.make_room(&query, self.shared.bounds)?;
            let entry = Entry { query: query.clone(), results: Vec::new(), progress, used: now };
            state.queries.insert(query.qid.clone(), entry);
            state.tiers(&query)
        };
        // Nobody need be told.
        let _ = self.shared.started.send(query.clone());
        let pipeline = Arc::downgrade(&self.shared);
        let answers = move |preference| Answers { pipeline: pipeline.clone(), preference };
        tokio::spawn(ask(tiers, watch, answers));
        Ok(query.qid.clone())
    }

    /// Every query that begins from now on, ours and others'.
    pub fn started(&self) -> broadcast::Receiver<Arc<Query>> {
        self.shared.started.subscribe()
    }

    /// Ends a query; says whether there was one.
    pub fn cancel(&self, qid: &str) -> bool {
        self.shared.state.lock().end(qid)
    }

    /// What was found so far, or nothing for a query that is not known.
    pub fn results(&self, qid: &str) -> Option<Results> {
        let mut state = self.shared.state.lock();
        state.expire(Instant::now(), self.shared.bounds.life);
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

    /// Ends queries whose life is over, until the pipeline is gone, so that what they hold and who
    /// watches them need not wait until somebody asks.
    pub fn expiry(&self) -> impl Future<Output = ()> + use<> {
        let shared = Arc::downgrade(&self.shared);
        async move {
            let mut turns = interval(EXPIRY_INTERVAL);
            loop {
                turns.tick().await;
                let Some(shared) = shared.upgrade() else { return };
                shared.state.lock().expire(Instant::now(), shared.bounds.life);
            }
        }
    }

    /// Tells the results of a query, from its first one on.
    pub fn watch(&self, qid: &str) -> Option<Watch> {
        let mut state = self.shared.state.lock();
        state.expire(Instant::now(), self.shared.bounds.life);
        let entry = state.queries.get(qid)?;
        let (query, progress) = (entry.query.clone(), entry.progress.subscribe());
        Some(Watch { pipeline: self.clone(), query, progress, seen: 0 })
    }

    /// All queries that are alive, with how far they are, the last one asked about first.
    pub fn queries(&self) -> Vec<(Arc<Query>, Progress)> {
        let mut state = self.shared.state.lock();
        state.expire(Instant::now(), self.shared.bounds.life);
        let mut entries: Vec<&Entry> = state.queries.values().collect();
        entries.sort_by_key(|entry| Reverse(entry.used));
        entries.iter().map(|entry| (entry.query.clone(), *entry.progress.borrow())).collect()
    }

    /// The result of this id. Its query lives on: somebody listens.
    pub fn find_sid(&self, sid: &str) -> Option<Found> {
        let mut state = self.shared.state.lock();
        state.expire(Instant::now(), self.shared.bounds.life);
        let (qid, found) = state.sids.get(sid)?.clone();
        if let Some(entry) = state.queries.get_mut(&qid) {
            entry.used = Instant::now();
        }
        Some(Found::clone(&found))
    }
}

/// Asks tier after tier, each for the shortest of its target times.
async fn ask(
    tiers: Vec<Vec<(Profile, Arc<dyn Resolver>)>>,
    watch: Watch,
    answers: impl Fn(i64) -> Answers,
) {
    let Watch { pipeline, query, mut progress, .. } = watch;
    // The task must not keep the query's life up, nor the pipeline's.
    drop(pipeline);
    for tier in tiers {
        let mut wait = Duration::MAX;
        for (profile, resolver) in tier {
            wait = wait.min(profile.target_time);
            resolver.ask(&query, &answers(profile.preference.into()));
        }
        match timeout(wait, progress.wait_for(|progress| progress.is_solved)).await {
            // Nothing was as good as exact in time: the next tier's turn.
            Err(_elapsed) => {}
            // Solved, or ended.
            Ok(_) => return,
        }
    }
}

impl Shared {
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
    /// Whom to ask about a query, those of equal weight together, the most first.
    fn tiers(&self, query: &Query) -> Vec<Vec<(Profile, Arc<dyn Resolver>)>> {
        let mut tiers: BTreeMap<Reverse<u8>, Vec<_>> = BTreeMap::new();
        for (profile, resolver) in &self.resolvers {
            if profile.weight > 0 && (query.is_local || !profile.is_local_only) {
                let tier = tiers.entry(Reverse(profile.weight)).or_default();
                tier.push((profile.clone(), resolver.clone()));
            }
        }
        tiers.into_values().collect()
    }

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

#[cfg(test)]
mod tests;
