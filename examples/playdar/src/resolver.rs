//! Whoever may know where a song can be heard.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::mpsc::Sender;

use crate::model::{Found, Query};
use crate::queries::Queries;

/// What the pipeline knows of a resolver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Profile {
    /// Its name, by which it is shown and removed.
    pub name: String,
    /// When it is asked: those with the most first, 1 to 100; with 0 it is not asked.
    pub weight: u8,
    /// How long the pipeline waits for it before it asks those of less weight.
    pub target_time: Duration,
    /// Whether it is left out where a query came from another machine.
    pub is_local_only: bool,
    /// Which of two equal scores goes first; usually the weight.
    pub preference: u8,
}

/// Something that finds songs.
pub trait Resolver: Send + Sync + 'static {
    /// What it is, asked once, when it is added.
    fn profile(&self) -> Profile;

    /// Begins to look, and never blocks: what takes time is spawned, and what is found, now or
    /// later, is handed to `answers`.
    fn ask(&self, query: &Arc<Query>, answers: &Answers);
}

/// A resolver that works elsewhere, through a queue of what it is asked.
pub(crate) struct Queue<T> {
    pub(crate) profile: Profile,
    pub(crate) sender: Sender<T>,
}

impl<T: From<(Arc<Query>, Answers)> + Send + 'static> Resolver for Queue<T> {
    fn profile(&self) -> Profile {
        self.profile.clone()
    }

    fn ask(&self, query: &Arc<Query>, answers: &Answers) {
        if self.sender.try_send(T::from((query.clone(), answers.clone()))).is_err() {
            let (name, waiting) = (&self.profile.name, self.sender.max_capacity());
            tracing::warn!(name, "a resolver is not asked: {waiting} queries wait for it");
        }
    }
}

/// Where a resolver hands in what it found.
#[derive(Clone)]
pub struct Answers {
    pub(crate) queries: Weak<Queries>,
    /// For results that state none.
    pub(crate) preference: i64,
}

impl Answers {
    /// Results of a query. Those of one that has ended, or beyond its bound, are dropped.
    pub fn add(&self, qid: &str, found: Vec<Found>) {
        if let Some(queries) = self.queries.upgrade() {
            queries.add(qid, found, self.preference, false);
        }
    }

    /// Queries of other machines, whose results are dropped too where there is only room for them
    /// instead of a query of ours.
    pub(crate) fn add_foreign(&self, qid: &str, found: Vec<Found>) {
        if let Some(queries) = self.queries.upgrade() {
            queries.add(qid, found, self.preference, true);
        }
    }
}
