//! What one daemon does among friends: it asks, answers, and takes answers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::FriendsConfig;
use super::encke::{Encke, Heard};
use super::message::{self, FriendMessage, ServerUrl};
use crate::foreign::{self, Asked, QUERIES_MAX, Rate, Rates, Recent, Told};
use crate::pipeline::Pipeline;

/// Queries of one friend: a record that is looked up song by song, and then one a second.
const QUESTIONS: Rate = Rate { burst: 30.0, per_second: 1.0 };

/// Answers of all friends together, who cannot be told apart before they are read.
const ANSWERS: Rate = Rate { burst: 500.0, per_second: 100.0 };

/// Queries that are posted, and queries of friends that are answered, at one time.
const POSTING_MAX: usize = 64;

/// How long a friend's query is answered: its own pipeline waits a second for us, and who watches a
/// page a little longer.
const ANSWER_TIME: Duration = Duration::from_secs(15);

/// What a daemon is to deal with.
pub(super) struct Inputs {
    /// Queries of ours.
    pub(super) asked: mpsc::Receiver<Asked>,
    /// What the stream tells.
    pub(super) heard: mpsc::Receiver<Heard>,
}

/// One daemon among friends.
pub(super) struct FriendsNode {
    config: FriendsConfig,
    pipeline: Pipeline,
    encke: Arc<Encke>,
    /// What answers to us are about.
    inbox: String,
    /// Queries of friends that were heard.
    seen: Recent<()>,
    /// Queries of ours.
    asked: Recent<Asked>,
    questions: Rates<String>,
    answers: Rates<()>,
    posting: Arc<Semaphore>,
}

impl FriendsNode {
    pub(super) fn new(
        config: FriendsConfig,
        pipeline: Pipeline,
        encke: Arc<Encke>,
        inbox: String,
    ) -> FriendsNode {
        FriendsNode {
            config,
            pipeline,
            encke,
            inbox,
            seen: Recent::new(QUERIES_MAX),
            asked: Recent::new(QUERIES_MAX),
            questions: Rates::new(QUESTIONS),
            answers: Rates::new(ANSWERS),
            posting: Arc::new(Semaphore::new(POSTING_MAX)),
        }
    }

    /// Until `stop`.
    pub(super) async fn run(mut self, mut inputs: Inputs, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                Some(asked) = inputs.asked.recv() => self.ask(asked),
                Some(heard) = inputs.heard.recv() => match heard {
                    Heard::Event { about, data, .. } => self.hear(&about, data),
                    Heard::Next { .. } => {}
                    Heard::Gap { .. } => tracing::debug!("queries of friends may be missed"),
                },
            }
        }
    }

    /// Asks whoever follows us.
    fn ask(&mut self, asked: Asked) {
        let Ok(permit) = self.posting.clone().try_acquire_owned() else {
            return tracing::warn!("friends are not asked: {POSTING_MAX} events are on their way");
        };
        let query = asked.query().clone();
        let data = message::query(&query, &self.inbox);
        if !self.asked.note(&query.qid, asked) {
            return;
        }
        let (encke, about) = (self.encke.clone(), self.config.name.clone());
        tokio::spawn(async move {
            encke.post(&about, data).await;
            drop(permit);
        });
    }

    fn hear(&mut self, about: &str, data: Value) {
        match serde_json::from_value(data) {
            Ok(FriendMessage::Results { qid, base, results }) if about == self.inbox => {
                self.hear_results(&qid, &base, results);
            }
            // Ours, which we hear as everybody hears what is said about them.
            Ok(FriendMessage::Query { .. }) if about == self.config.name => {}
            Ok(FriendMessage::Query { reply, query }) => self.hear_query(about, reply, query),
            Ok(FriendMessage::Results { .. }) | Err(_) => {
                tracing::debug!(about, "an event that is not for this daemon");
            }
        }
    }

    /// A friend asks.
    fn hear_query(&mut self, about: &str, reply: String, asked: Map<String, Value>) {
        let Some(base) = self.config.base.clone() else { return };
        if !message::is_inbox(&reply, about) {
            return tracing::debug!(about, "a query whose answers would go to somebody else");
        }
        let query = match foreign::query(asked) {
            Ok(query) => query,
            Err(error) => return tracing::debug!(about, "a query is refused: {error}"),
        };
        // Ids are a friend's own: none takes another's by its id.
        let is_new = self.seen.note(&format!("{about} {}", query.qid), ());
        if !is_new || !self.questions.allow(about.to_owned(), Instant::now()) {
            return;
        }
        let Ok(permit) = self.posting.clone().try_acquire_owned() else {
            return tracing::debug!(about, "{POSTING_MAX} events are on their way");
        };
        let Some(mut told) = Told::of(&self.pipeline, foreign::as_ours(&query)) else { return };
        let (encke, name) = (self.encke.clone(), self.config.name.clone());
        let answering = async move {
            while let Some(songs) = told.next().await {
                for songs in songs.chunks(message::SONGS_MAX) {
                    let data = message::results(&query.qid, &base, &name, songs);
                    encke.post(&reply, data).await;
                }
            }
        };
        tokio::spawn(async move {
            // Past its time it is over, and that is all.
            let _ = timeout(ANSWER_TIME, answering).await;
            drop(permit);
        });
    }

    /// Somebody answers us.
    fn hear_results(&mut self, qid: &str, base: &str, results: Vec<Map<String, Value>>) {
        if !self.answers.allow((), Instant::now()) {
            return;
        }
        let Some(asked) = self.asked.of(qid) else {
            return tracing::debug!("an answer to no query of ours");
        };
        let base = match ServerUrl::plain(base) {
            // Where Encke itself is on this machine, friends may be, as in a trial.
            Ok(base) if !base.is_own_machine() || self.config.streams.is_own_machine() => base,
            Ok(_) => return tracing::debug!("a friend plays at an address of this machine"),
            Err(_) => return tracing::debug!("a friend plays at what is no address"),
        };
        for result in results.into_iter().take(message::SONGS_MAX) {
            if let Err(error) = asked.take(result, &base.to_string()) {
                tracing::debug!("a result of a friend is refused: {error}");
            }
        }
    }
}
