//! The graph of a node: a replica of what PostgreSQL has, kept up to date by the log.
//!
//! The node loop hands over what the node asks for, and is told where the replica is. Changes of
//! the log are applied at once. What PostgreSQL must be asked for may take long or fail. It is
//! asked beside that, and where nothing comes of it nothing is said, and the node asks again. A
//! replica that must be made anew is built beside the one that answers, and changes go on meanwhile
//! where they can. A graph that is known to be another than the cluster's takes no change that its
//! hash contradicts. Then the node waits, and nothing later in the log goes out before it has the
//! right one.

mod building;
mod checking;
mod questions;

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use cluster::{GraphPlace, Known, LogMark};
use graph::Graph;
use graph::replica::{
    ApplyError, Change, LogPlace, Replica, ReplicaOptions, ReplicaState, Standing,
};
use nats::{LogError, NatsClient};
use postgres::{Place, PostgresConfig, PostgresError, PostgresStore, SchemaFault, Seen};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet, spawn_blocking};
use tokio::time::{Instant, interval, sleep};

pub use self::checking::Checks;
pub(super) use self::checking::GraphStatus;
use self::questions::{Answer, Question};
use super::build::{changes, is_all, place_in_store};

/// How often the place in the log is kept with the replica.
const KEEP_PLACE_EVERY: Duration = Duration::from_secs(1);

/// How long to wait before the log is looked for again at a start.
const PAUSE: Duration = Duration::from_millis(250);

/// How often a log may not be there before it is one that was deleted.
const ABSENT_LOOKS: u32 = 8;

/// Why a replica is built anew.
pub(super) const DIFFERS: &str = "its pairs are not those of another node";
pub(super) const UNREADABLE: &str = "an audience could not be read";

/// What the node asks of its graph.
#[derive(Debug)]
pub(super) enum Task {
    Apply(cluster::Change),
    ReadChanges,
    FetchChange(u64),
    CheckVersion(u64),
    /// Anew, for that reason.
    Rebuild(&'static str),
}

/// What the node is told of it.
#[derive(Debug)]
pub(super) enum Kept {
    /// The replica is here.
    At(GraphPlace),
    /// It was made anew, and is here.
    Renewed(GraphPlace),
    /// This change was committed, by this node or another.
    Change(cluster::Change),
    /// PostgreSQL is at this version: the answer to a question, or 0 where it was polled.
    Latest { ask: u64, version: u64 },
}

/// Keeps the replica up to date with the store of record.
pub struct ReplicaSync {
    /// `None` only while another one is put into its place.
    replica: Option<Replica>,
    store: PostgresStore,
    asked: HashSet<Question>,
    /// The node's question for the version that is on its way, and one that came meanwhile: what
    /// is under way may be older than a change that another node has answered for since.
    ask: u64,
    ask_next: Option<u64>,
    answers: JoinSet<Answer>,
    /// Why the replica is built anew, while it is.
    says: watch::Sender<Option<String>>,
    checks: watch::Sender<Checks>,
    /// Under which name, and how often, all pairs are compared.
    checking: Option<(String, Duration)>,
    check_under_way: Option<(AbortHandle, Instant)>,
}

impl ReplicaSync {
    /// Opens the replica in `dir`, and reaches PostgreSQL if that is there.
    pub async fn open(dir: PathBuf, mut config: PostgresConfig) -> Result<ReplicaSync> {
        let opening = spawn_blocking(move || Replica::open(&dir, &ReplicaOptions::default()));
        let replica = opening.await.context("the graph could not be opened")??;
        // Whoever has a graph had its tables: where they are gone they are being restored.
        config.create = replica.graph().replica_state().unwrap_or_default().lineage == 0;
        let store = match PostgresStore::connect(config.clone()).await {
            Ok(store) => store,
            Err(error @ (PostgresError::Away(_) | PostgresError::Schema(SchemaFault::Gone))) => {
                tracing::warn!("{error}: it is tried again");
                PostgresStore::start(config)
            }
            Err(error) => return Err(error.into()),
        };
        Ok(ReplicaSync {
            replica: Some(replica),
            store,
            asked: HashSet::new(),
            ask: 0,
            ask_next: None,
            answers: JoinSet::new(),
            says: watch::Sender::new(None),
            checks: watch::Sender::default(),
            checking: None,
            check_under_way: None,
        })
    }

    /// For all who read.
    pub fn graph(&self) -> Graph {
        self.replica().graph().clone()
    }

    /// The store of record, PostgreSQL.
    pub fn store(&self) -> PostgresStore {
        self.store.clone()
    }

    /// Where the replica is.
    pub(super) fn place(&self) -> GraphPlace {
        let ReplicaState { version, set_hash, .. } = self.state();
        GraphPlace { version, hash: set_hash }
    }

    /// Brings the replica to where PostgreSQL is, if that is there; otherwise all that is known of
    /// it is up to where it has the log of this epoch. Where that was given up meanwhile nothing
    /// is, and the next one has to be found, which is not done here.
    pub(super) async fn begin(&mut self, nats: &NatsClient, epoch: u64) -> Known {
        let mut looks = 0;
        let sequence = loop {
            let extent = async { nats.find_log(epoch).await?.extent().await };
            let error = match extent.await {
                Ok(extent) => break extent.last,
                Err(error) => error,
            };
            tracing::warn!(%error, "the cluster's log is not to be had");
            // Servers that have just started may not know all of their streams yet.
            looks += u32::from(matches!(error, LogError::Absent(_)));
            if matches!(error, LogError::Sealed(_)) || looks > ABSENT_LOOKS {
                return Known::Nothing;
            }
            sleep(PAUSE).await;
        };
        self.ask_changes();
        while let Some(answer) = self.answers.join_next().await {
            let kept = match answer {
                Ok(answer) => self.answered(answer).await,
                Err(_) => Vec::new(),
            };
            if kept.iter().any(|kept| matches!(kept, Kept::At(_) | Kept::Renewed(_))) {
                return Known::Read { epoch, sequence };
            }
        }
        match self.replica().standing() {
            Standing::MustRebuild { .. } => Known::Nothing,
            Standing::Follows(ReplicaState {
                at: LogPlace { epoch, sequence, record }, ..
            }) => {
                tracing::warn!(epoch, sequence, "the graph goes on from its place in the log");
                Known::Since(LogMark { epoch, sequence, hash: record })
            }
        }
    }

    fn replica(&self) -> &Replica {
        self.replica.as_ref().expect("it is away only while it is replaced, which is waited for")
    }

    fn state(&self) -> ReplicaState {
        self.replica().graph().replica_state().unwrap_or_default()
    }

    fn must_rebuild(&self) -> Option<String> {
        match self.replica().standing() {
            Standing::MustRebuild { why } => Some(why),
            Standing::Follows(_) => None,
        }
    }

    /// Does what is asked for, for as long as the node loop lives. `marks` has the place up to
    /// which the replica has what the log says.
    pub(super) async fn run(
        mut self,
        mut tasks: mpsc::Receiver<Task>,
        told: mpsc::Sender<Kept>,
        marks: watch::Receiver<Option<LogMark>>,
    ) {
        let (mut commits, mut versions) = (self.store.commits(), self.store.versions());
        let mut keeps = interval(KEEP_PLACE_EVERY);
        let mut next_check = Box::pin(sleep(self.until_check()));
        loop {
            let kept = tokio::select! {
                biased;
                task = tasks.recv() => match task {
                    Some(task) => self.take(task),
                    None => return self.keep_place(&marks),
                },
                Some(change) = commits.next() => vec![Kept::Change(to_log(&change))],
                Some(seen) = versions.next() => match seen {
                    Seen::At(place) if self.leads_on(place) => {
                        vec![Kept::Latest { ask: 0, version: place.version }]
                    }
                    // What was polled may be older than what the log has brought, or the database
                    // was put back: it is asked which.
                    Seen::At(_) => {
                        self.ask_changes();
                        Vec::new()
                    }
                    Seen::Starting | Seen::Away(_) => Vec::new(),
                },
                Some(answer) = self.answers.join_next() => match answer {
                    Ok(answer) => self.answered(answer).await,
                    Err(error) if error.is_cancelled() => Vec::new(),
                    Err(error) => {
                        tracing::error!(%error, "a question to PostgreSQL failed");
                        Vec::new()
                    }
                },
                () = &mut next_check => {
                    self.check();
                    next_check.set(sleep(self.until_check()));
                    Vec::new()
                }
                _ = keeps.tick() => {
                    self.keep_place(&marks);
                    Vec::new()
                }
            };
            for kept in kept {
                if told.send(kept).await.is_err() {
                    return self.keep_place(&marks);
                }
            }
        }
    }

    /// Takes note of how far the log has been followed.
    fn keep_place(&mut self, marks: &watch::Receiver<Option<LogMark>>) {
        let mark = *marks.borrow();
        if let (Some(replica), Some(LogMark { epoch, sequence, hash })) = (&mut self.replica, mark)
        {
            replica.at(LogPlace { epoch, sequence, record: hash });
        }
    }

    fn take(&mut self, task: Task) -> Vec<Kept> {
        match task {
            Task::Apply(change) => return self.apply(&change),
            Task::ReadChanges => self.ask_changes(),
            Task::FetchChange(version) => self.ask(Question::Change(version)),
            Task::CheckVersion(ask) => self.ask_version(ask),
            Task::Rebuild(why) => self.rebuild(why),
        }
        Vec::new()
    }

    fn apply(&mut self, change: &cluster::Change) -> Vec<Kept> {
        let change = Change {
            version: change.version,
            removed: &change.removed,
            added: &change.added,
            set_hash: (change.hash != 0).then_some(change.hash),
            at: None,
        };
        self.apply_all(&[change])
    }

    fn apply_all(&mut self, changes: &[Change<'_>]) -> Vec<Kept> {
        match self.replica.as_mut().expect("it is there").apply(changes) {
            Ok(_) => vec![Kept::At(self.place())],
            Err(error @ ApplyError::HashDiffers { .. }) => {
                self.rebuild(&error.to_string());
                Vec::new()
            }
            Err(error) => {
                tracing::warn!("the graph is not up to date: {error}");
                Vec::new()
            }
        }
    }

    /// Goes on to where PostgreSQL is.
    fn ask_changes(&mut self) {
        match self.must_rebuild() {
            Some(why) => self.rebuild(&why),
            None => self.ask(Question::Changes),
        }
    }

    /// Asks where PostgreSQL is now; the last one of those that come meanwhile is asked next.
    fn ask_version(&mut self, ask: u64) {
        if self.asked.contains(&Question::Version) {
            self.ask_next = Some(ask);
        } else {
            self.ask = ask;
            self.ask(Question::Version);
        }
    }

    fn ask(&mut self, question: Question) {
        if self.asked.insert(question) {
            let (store, place) = (self.store.clone(), place_in_store(self.state()));
            self.answers
                .spawn(async move { Answer::Page(question, store.changes_after(place).await) });
        }
    }

    async fn answered(&mut self, answer: Answer) -> Vec<Kept> {
        let (question, page) = match answer {
            Answer::Page(question, page) => (question, page),
            Answer::Compared(compared) => {
                self.compared(compared);
                return Vec::new();
            }
            Answer::Built(built) => {
                self.asked.remove(&Question::All);
                let done = match built {
                    Ok(built) => self.replace(built).await,
                    Err(error) => Err(error),
                };
                self.says.send_replace(None);
                return done.unwrap_or_else(|error| {
                    tracing::warn!("the replica of the graph was not built: {error:#}");
                    Vec::new()
                });
            }
        };
        let was_asked = self.asked.remove(&question);
        debug_assert!(was_asked, "{question:?} is answered twice");
        let ask = self.ask;
        if question == Question::Version
            && let Some(next) = self.ask_next.take()
        {
            self.ask_version(next);
        }
        let page = match page {
            Ok(page) => page,
            Err(PostgresError::Rebuild(why)) => {
                self.rebuild(&why.to_string());
                return Vec::new();
            }
            Err(error) => {
                tracing::warn!("the graph is not up to date: {error}");
                return Vec::new();
            }
        };
        match question {
            Question::Version => vec![Kept::Latest { ask, version: page.head.version }],
            Question::Change(version) => {
                let change = page.changes.iter().find(|change| change.place.version == version);
                change.map(|change| Kept::Change(to_log(change))).into_iter().collect()
            }
            Question::Changes => {
                let kept = self.apply_all(&changes(&page));
                if kept.is_empty() || is_all(&page) {
                    return kept;
                }
                self.ask(Question::Changes);
                Vec::new()
            }
            Question::All | Question::Check => Vec::new(),
        }
    }

    /// Whether changes may lead from here to `place`.
    fn leads_on(&self, place: Place) -> bool {
        let here = place_in_store(self.state());
        place.lineage == here.lineage && (place.version > here.version || place == here)
    }
}

fn to_log(change: &postgres::Change) -> cluster::Change {
    let Place { version, hash, .. } = change.place;
    let (added, removed) = (change.added.clone(), change.removed.clone());
    cluster::Change { version, hash, added, removed }
}
