//! The pipeline: a query goes to the resolvers, tier by tier, until it is solved.
//!
//! All resolvers of the most weight are asked at once. After the shortest of their target times,
//! the next tier is asked, and so on, and no further once a result is as good as exact. Answers
//! may come for as long as the query lives.
//!
//! What is asked and found, and its bounds, is in `queries`.

mod progress;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{broadcast, watch};
use tokio::time::{interval, timeout};

pub use self::progress::Watch;
use crate::model::{Found, Query};
pub use crate::queries::{
    ALL_RESULTS_MAX, Progress, QUERIES_MAX, QUERY_LIFETIME, RESULTS_MAX, Refused, Results,
};
use crate::queries::{Bounds, Queries};
use crate::resolver::{Answers, Profile, Resolver};

/// Resolvers at once.
pub const RESOLVERS_MAX: usize = 64;

/// Queries whose start one who is told of starts may be behind.
const STARTS_BEHIND_MAX: usize = 1024;

/// How often queries are looked for whose life is over.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(10);

/// Resolvers, those asked first first.
type Resolvers = Vec<(Profile, Arc<dyn Resolver>)>;

/// The pipeline; clones are the same one.
#[derive(Clone)]
pub struct Pipeline {
    queries: Arc<Queries>,
    resolvers: Arc<Mutex<Resolvers>>,
    started: broadcast::Sender<Arc<Query>>,
}

impl Default for Pipeline {
    fn default() -> Pipeline {
        Pipeline::new()
    }
}

impl Pipeline {
    /// One without resolvers.
    pub fn new() -> Pipeline {
        Pipeline::bounded(Bounds::default())
    }

    fn bounded(bounds: Bounds) -> Pipeline {
        let queries = Arc::new(Queries::new(bounds));
        let started = broadcast::Sender::new(STARTS_BEHIND_MAX);
        Pipeline { queries, resolvers: Arc::default(), started }
    }

    /// Takes a resolver in. One of the same name makes room for it, as a script that starts again;
    /// beyond [`RESOLVERS_MAX`] it is not taken.
    pub fn add(&self, resolver: Arc<dyn Resolver>) {
        let profile = resolver.profile();
        let mut resolvers = self.resolvers.lock();
        resolvers.retain(|(other, _)| other.name != profile.name);
        if resolvers.len() < RESOLVERS_MAX {
            resolvers.push((profile, resolver));
            resolvers.sort_by_key(|(profile, _)| Reverse(profile.weight));
        } else {
            tracing::warn!(name = profile.name, "there are {RESOLVERS_MAX} resolvers: no more");
        }
    }

    /// Asks the resolver of this name nothing more.
    pub fn remove(&self, name: &str) {
        self.resolvers.lock().retain(|(profile, _)| profile.name != name);
    }

    /// What each resolver is, those asked first first.
    pub fn profiles(&self) -> Vec<Profile> {
        self.resolvers.lock().iter().map(|(profile, _)| profile.clone()).collect()
    }

    /// Asks, and answers the query's id; results come later. For an id that is known it does
    /// nothing: who asks the same twice hears the same.
    ///
    /// Must be called within a tokio runtime, whose task walks the tiers.
    pub fn resolve(&self, query: Query) -> Result<String, Refused> {
        let query = Arc::new(query.checked()?);
        let Some(progress) = self.queries.begin(&query)? else { return Ok(query.qid.clone()) };
        let tiers = tiers(&self.resolvers.lock(), &query);
        // Nobody need be told.
        let _ = self.started.send(query.clone());
        // The task must not keep the query's life up, nor the pipeline's.
        let queries = Arc::downgrade(&self.queries);
        let answers = move |preference| Answers { queries: queries.clone(), preference };
        tokio::spawn(ask(tiers, query.clone(), progress, answers));
        Ok(query.qid.clone())
    }

    /// Every query that begins from now on, ours and others'.
    pub fn started(&self) -> broadcast::Receiver<Arc<Query>> {
        self.started.subscribe()
    }

    /// Ends a query; says whether there was one.
    pub fn cancel(&self, qid: &str) -> bool {
        self.queries.end(qid)
    }

    /// What was found so far, or nothing for a query that is not known.
    pub fn results(&self, qid: &str) -> Option<Results> {
        self.queries.results(qid)
    }

    /// Ends queries whose life is over, until the pipeline is gone, so that what they hold and who
    /// watches them need not wait until somebody asks.
    pub fn expiry(&self) -> impl Future<Output = ()> + use<> {
        let queries = Arc::downgrade(&self.queries);
        async move {
            let mut turns = interval(EXPIRY_INTERVAL);
            loop {
                turns.tick().await;
                let Some(queries) = queries.upgrade() else { return };
                queries.expire();
            }
        }
    }

    /// Tells the results of a query, from its first one on.
    pub fn watch(&self, qid: &str) -> Option<Watch> {
        let (query, progress) = self.queries.watch(qid)?;
        Some(Watch { queries: self.queries.clone(), query, progress, seen: 0 })
    }

    /// All queries that are alive, with how far they are, the last one asked about first.
    pub fn queries(&self) -> Vec<(Arc<Query>, Progress)> {
        self.queries.all()
    }

    /// The result of this id. Its query lives on: somebody listens.
    pub fn find_sid(&self, sid: &str) -> Option<Found> {
        self.queries.find_sid(sid)
    }
}

/// Whom to ask about a query, those of equal weight together, the most first.
fn tiers(resolvers: &Resolvers, query: &Query) -> Vec<Resolvers> {
    let mut tiers: BTreeMap<Reverse<u8>, Resolvers> = BTreeMap::new();
    for (profile, resolver) in resolvers {
        if profile.weight > 0 && (query.is_local || !profile.is_local_only) {
            let tier = tiers.entry(Reverse(profile.weight)).or_default();
            tier.push((profile.clone(), resolver.clone()));
        }
    }
    tiers.into_values().collect()
}

/// Asks tier after tier, each for the shortest of its target times.
async fn ask(
    tiers: Vec<Resolvers>,
    query: Arc<Query>,
    mut progress: watch::Receiver<Progress>,
    answers: impl Fn(i64) -> Answers,
) {
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

#[cfg(test)]
mod tests;
