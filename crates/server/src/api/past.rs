//! What the API of one process has counted and knows of people, for the one that goes on with it.

use std::sync::atomic::Ordering;

use serde::{Deserialize, Serialize};
use topics::TopicsRest;

use super::access::WrittenSession;
use super::readings::duration::WrittenDurations;
use super::state::Api;
use crate::mercure_hub::PublishOutcome;
use crate::subscription_list::ListRest;

/// It, as it is written down. The idempotency keys go by themselves: there may be many.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ApiPast {
    /// Events that were accepted.
    events: u64,
    /// How long sends took.
    durations: WrittenDurations,
    /// Clients that came back with a place, and those of them that were told of a gap.
    resumed: u64,
    resume_gaps: u64,
    /// Sends that were answered again, and those for whose key there was no place.
    repeats: u64,
    keys_refused: u64,
    /// Calls that were not let in, by reason.
    refusals: Vec<(String, u64)>,
    /// Handshakes of TLS, by outcome.
    handshakes: Vec<(String, u64)>,
    /// Who has logged in to the dashboard.
    sessions: Vec<WrittenSession>,
}

/// What is known of the hub once nothing is published any more.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct HubRest {
    topics: TopicsRest,
    list: ListRest,
    /// What became of updates, by name.
    publishes: Vec<(String, u64)>,
}

impl Api {
    /// What goes on in another process.
    pub(crate) fn past(&self) -> ApiPast {
        let owned = |(name, count): (&str, u64)| (name.to_owned(), count);
        ApiPast {
            events: self.events(),
            durations: self.durations.write(),
            resumed: self.resumes.resumed(),
            resume_gaps: self.resumes.gaps(),
            repeats: self.idempotency.repeats(),
            keys_refused: self.idempotency.refused(),
            refusals: self.access.refused().map(owned).collect(),
            handshakes: self.handshakes.counts().map(owned).collect(),
            sessions: self.access.sessions(),
        }
    }

    /// What the hub knows beside its topics, if there is one, once nothing is published any more.
    pub(crate) fn hub_rest(&self) -> Option<HubRest> {
        let (topics, list) = (self.router.topics()?, self.subscription_list.as_ref()?);
        let publishes = self.hub.as_ref().map(|hub| hub.publishes()).unwrap_or_default();
        let names = PublishOutcome::ALL.map(|outcome| outcome.as_str().to_owned());
        Some(HubRest {
            topics: topics.rest(),
            list: list.rest(),
            publishes: names.into_iter().zip(publishes).collect(),
        })
    }

    /// Goes on from there, before clients are served. Of a server that has told nothing of a hub no
    /// topic is known: `last` is the last number of its events.
    pub(crate) async fn take_over_hub(&self, rest: Option<HubRest>, last: u64) {
        let (Some(topics), Some(list)) = (self.router.topics(), &self.subscription_list) else {
            return;
        };
        let Some(HubRest { topics: known, list: of_list, publishes }) = rest else {
            return topics.begun_at(last);
        };
        list.take_over(known, of_list).await;
        self.hub.iter().for_each(|hub| hub.count_on(&publishes));
    }

    /// Goes on from there. What is not known here is left out.
    pub(crate) fn take_over(&self, past: ApiPast) {
        self.events.fetch_add(past.events, Ordering::Relaxed);
        self.durations.take_over(&past.durations);
        self.resumes.count_on(past.resumed, past.resume_gaps);
        self.idempotency.count_on(past.repeats, past.keys_refused);
        self.access.take_over(&past.refusals, past.sessions);
        self.handshakes.count_on(&past.handshakes);
    }
}
