//! The graph of a node: a replica of what PostgreSQL has, kept up to date by the log.
//!
//! The driver hands over what the node asks for; one task does it, one thing after the other, and
//! says where the replica is. What PostgreSQL must be asked for may take long or fail: then nothing
//! is said, and the node asks again.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use cluster::GraphPlace;
use graph::Graph;
use graph::replica::{
    ApplyError, Change, LogPlace, Origin, PairBatch, Replica, ReplicaOptions, ReplicaState,
    Standing,
};
use ledger::{Bootstrap, Ledger, LedgerError, Lineage, Order, Place, Seen};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Batches of pairs on their way into a replica that is built: some 200 KB each.
const BATCHES_WAITING: usize = 16;

/// How long to wait before PostgreSQL is asked again at a start.
const PAUSE: Duration = Duration::from_secs(1);

/// How long PostgreSQL may say nothing while all pairs are read: its connection may be dead.
const SILENCE: Duration = Duration::from_secs(60);

/// What the node asks of its graph.
#[derive(Debug)]
pub(super) enum Task {
    Apply(cluster::Change),
    ReadChanges,
    FetchChange(u64),
    CheckVersion,
    Rebuild,
}

/// What the node is told of it.
#[derive(Debug)]
pub(super) enum Kept {
    /// The replica is here.
    At(GraphPlace),
    /// This change was committed, by this node or another.
    Change(cluster::Change),
    /// PostgreSQL is at this version.
    Latest(u64),
}

/// The replica and the store of record.
pub(crate) struct Keeper {
    /// `None` only while it is built anew.
    replica: Option<Replica>,
    ledger: Ledger,
}

impl Keeper {
    /// Opens the replica in `dir`. One that cannot be gone on from is built out of PostgreSQL,
    /// which is waited for.
    pub(crate) async fn open(
        dir: std::path::PathBuf,
        config: ledger::LedgerConfig,
        stop: &CancellationToken,
    ) -> Result<Keeper> {
        let opening = spawn_blocking(move || Replica::open(&dir, &ReplicaOptions::default()));
        let replica = opening.await.context("the graph could not be opened")??;
        let standing = replica.standing();
        let ledger = match Ledger::connect(config.clone()).await {
            Ok(ledger) => ledger,
            Err(error @ LedgerError::Away(_)) => {
                tracing::warn!("{error}: it is tried again");
                Ledger::start(config)
            }
            Err(error) => return Err(error.into()),
        };
        let mut keeper = Keeper { replica: Some(replica), ledger };
        let mut must_rebuild = match standing {
            Standing::MustRebuild { why } => {
                tracing::info!("the replica of the graph is built anew: {why}");
                true
            }
            Standing::Follows(_) => false,
        };
        // A node that begins with an old graph would send to the wrong people.
        loop {
            let done =
                if must_rebuild { keeper.rebuild().await } else { keeper.read_changes().await };
            let Err(error) = done else { return Ok(keeper) };
            tracing::warn!("this node waits for the graph: {error:#}");
            must_rebuild = matches!(keeper.replica().standing(), Standing::MustRebuild { .. });
            tokio::select! {
                () = sleep(PAUSE) => {}
                () = stop.cancelled() => return Ok(keeper),
            }
        }
    }

    /// For all who read.
    pub(crate) fn graph(&self) -> Graph {
        self.replica().graph().clone()
    }

    /// PostgreSQL.
    pub(crate) fn ledger(&self) -> Ledger {
        self.ledger.clone()
    }

    /// Where the replica is.
    pub(super) fn place(&self) -> GraphPlace {
        let ReplicaState { version, set_hash, .. } = self.state();
        GraphPlace { version, hash: set_hash }
    }

    fn replica(&self) -> &Replica {
        self.replica.as_ref().expect("it is away only while it is built, which is waited for")
    }

    fn state(&self) -> ReplicaState {
        self.replica().graph().replica_state().unwrap_or_default()
    }

    /// Does what is asked for, for as long as the driver lives.
    pub(super) async fn run(mut self, mut tasks: mpsc::Receiver<Task>, told: mpsc::Sender<Kept>) {
        let (mut commits, mut versions) = (self.ledger.commits(), self.ledger.versions());
        loop {
            let kept = tokio::select! {
                biased;
                task = tasks.recv() => match task {
                    Some(task) => self.done(task).await,
                    None => return,
                },
                Some(change) = commits.next() => Some(Kept::Change(to_log(&change))),
                Some(seen) = versions.next() => match seen {
                    Seen::At(place) if self.leads_on(place) => Some(Kept::Latest(place.version)),
                    // What was polled may be older than what the log has brought, or the database
                    // was put back: it is asked which.
                    Seen::At(_) => self.done(Task::ReadChanges).await,
                    Seen::Starting | Seen::Away(_) => None,
                },
            };
            if let Some(kept) = kept
                && told.send(kept).await.is_err()
            {
                return;
            }
        }
    }

    async fn done(&mut self, task: Task) -> Option<Kept> {
        let done = match task {
            Task::Apply(change) => self.apply(&change).await.map(|()| Kept::At(self.place())),
            Task::ReadChanges => self.read_changes().await.map(|()| Kept::At(self.place())),
            Task::FetchChange(version) => return self.fetch(version).await,
            Task::CheckVersion => match self.ledger.versions().now() {
                Seen::At(place) => Ok(Kept::Latest(place.version)),
                Seen::Starting | Seen::Away(_) => return None,
            },
            Task::Rebuild => self.rebuild().await.map(|()| Kept::At(self.place())),
        };
        done.inspect_err(|error| tracing::warn!("the graph is not up to date: {error:#}")).ok()
    }

    async fn apply(&mut self, change: &cluster::Change) -> Result<()> {
        let change = Change {
            version: change.version,
            removed: &change.removed,
            added: &change.added,
            set_hash: (change.hash != 0).then_some(change.hash),
            at: None,
        };
        let applied = self.replica.as_mut().expect("it is there").apply(&[change]);
        match applied {
            Ok(_) => Ok(()),
            Err(error @ ApplyError::HashDiffers { .. }) => {
                tracing::warn!("{error}: the replica is built anew");
                self.rebuild().await
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Goes on to where PostgreSQL is.
    async fn read_changes(&mut self) -> Result<()> {
        loop {
            let page = match self.ledger.changes_after(self.place_in_ledger()).await {
                Ok(page) => page,
                Err(LedgerError::Rebuild(why)) => {
                    tracing::warn!("{why}: the replica is built anew");
                    return self.rebuild().await;
                }
                Err(error) => return Err(error.into()),
            };
            let Some(last) = page.changes.last() else { return Ok(()) };
            let is_all = last.place.version == page.head.version;
            let changes = page.changes.iter().map(|change| Change {
                version: change.place.version,
                removed: &change.removed,
                added: &change.added,
                set_hash: Some(change.place.hash),
                at: None,
            });
            let changes: Vec<Change<'_>> = changes.collect();
            self.replica.as_mut().expect("it is there").apply(&changes)?;
            if is_all {
                return Ok(());
            }
        }
    }

    async fn fetch(&mut self, version: u64) -> Option<Kept> {
        // From the version before: of that one nothing is known here, so nothing is compared.
        let page = self.ledger.changes_after(self.place_in_ledger()).await.ok()?;
        let change = page.changes.iter().find(|change| change.place.version == version)?;
        Some(Kept::Change(to_log(change)))
    }

    /// Builds the replica out of all that PostgreSQL has. Look-ups are answered from the old one.
    async fn rebuild(&mut self) -> Result<()> {
        let mut bootstrap = within(self.ledger.bootstrap()).await?;
        let place = bootstrap.place();
        let origin = Origin {
            lineage: u128::from_be_bytes(place.lineage.0),
            version: place.version,
            at: LogPlace::default(),
            set_hash: Some(place.hash),
        };
        let (first, by_subscribee) = mpsc::channel(BATCHES_WAITING);
        let (second, by_subscriber) = mpsc::channel(BATCHES_WAITING);
        let mut replica = self.replica.take().expect("it is there");
        let building = spawn_blocking(move || {
            let built = replica.rebuild(&origin, batches(by_subscribee), batches(by_subscriber));
            (replica, built)
        });
        // Who builds says what went wrong.
        read_out(&mut bootstrap, Order::BySubscribee, first).await;
        read_out(&mut bootstrap, Order::BySubscriber, second).await;
        let (replica, built) = building.await.context("the replica could not be built")?;
        self.replica = Some(replica);
        let ReplicaState { version, .. } = built?;
        tracing::info!(version, "the replica of the graph is built");
        Ok(())
    }

    /// Whether changes may lead from here to `place`.
    fn leads_on(&self, place: Place) -> bool {
        let here = self.place_in_ledger();
        place.lineage == here.lineage && (place.version > here.version || place == here)
    }

    fn lineage(&self) -> Lineage {
        Lineage(self.state().lineage.to_be_bytes())
    }

    fn place_in_ledger(&self) -> Place {
        let ReplicaState { version, set_hash, .. } = self.state();
        Place { lineage: self.lineage(), version, hash: set_hash }
    }
}

type Pieces = mpsc::Receiver<Result<PairBatch, LedgerError>>;

/// For a thread that may block.
fn batches(mut pieces: Pieces) -> impl Iterator<Item = Result<PairBatch, LedgerError>> {
    std::iter::from_fn(move || pieces.blocking_recv())
}

/// What PostgreSQL answers, unless it says nothing for too long.
async fn within<T>(asked: impl Future<Output = Result<T, LedgerError>>) -> Result<T, LedgerError> {
    let silent = |_| LedgerError::Away(format!("it said nothing for {} s", SILENCE.as_secs()));
    timeout(SILENCE, asked).await.map_err(silent)?
}

/// Reads all pairs in one order, until whoever takes them takes no more.
async fn read_out(
    bootstrap: &mut Bootstrap,
    order: Order,
    into: mpsc::Sender<Result<PairBatch, LedgerError>>,
) {
    let mut rows = match within(bootstrap.pairs(order)).await {
        Ok(rows) => rows,
        Err(error) => return drop(into.send(Err(error)).await),
    };
    loop {
        let piece = match within(rows.next()).await {
            Ok(None) => return,
            Ok(Some(batch)) => {
                let (mut pairs, mut texts) = (PairBatch::default(), [String::new(), String::new()]);
                for (subscriber, subscribee) in batch.pairs() {
                    for (text, node) in texts.iter_mut().zip([subscriber, subscribee]) {
                        text.clear();
                        // A string takes all.
                        let _ = std::fmt::Write::write_fmt(text, format_args!("{node}"));
                    }
                    pairs.push(&texts[0], &texts[1]);
                }
                Ok(pairs)
            }
            Err(error) => Err(error),
        };
        let is_last = piece.is_err();
        if into.send(piece).await.is_err() || is_last {
            return;
        }
    }
}

fn to_log(change: &ledger::Change) -> cluster::Change {
    let Place { version, hash, .. } = change.place;
    let (added, removed) = (change.added.clone(), change.removed.clone());
    cluster::Change { version, hash, added, removed }
}

/// What a change of subscriptions came to.
pub(crate) fn pairs_of(pairs: Vec<graph::Pair>) -> Vec<ledger::Pair> {
    let text = |id: &graph::OwnedId| id.as_text().to_string();
    pairs.iter().map(|pair| (text(&pair.subscriber), text(&pair.subscribee))).collect()
}

/// Shared by those who change subscriptions: the store of record, and how far this node is.
#[derive(Debug)]
pub(crate) struct GraphChanges {
    pub(super) ledger: Ledger,
    /// The last version that all later sends obey, on whichever node.
    pub(super) obeyed: tokio::sync::watch::Receiver<u64>,
}

/// How long a change may take from PostgreSQL to this node's replica.
const OBEYED_TIMEOUT: Duration = Duration::from_secs(10);

impl GraphChanges {
    /// Adds or removes `pairs`; answers how many were new, or were there, once every later send
    /// obeys.
    pub(crate) async fn change(
        self: &Arc<Self>,
        add: bool,
        pairs: Vec<graph::Pair>,
    ) -> Result<u64, GraphTrouble> {
        let pairs = pairs_of(pairs);
        let (added, removed) = if add { (pairs, Vec::new()) } else { (Vec::new(), pairs) };
        let changed = self.ledger.change(added, removed).await?;
        let mut obeyed = self.obeyed.clone();
        let version = changed.place.version;
        let heard = obeyed.wait_for(|obeyed| *obeyed >= version);
        match timeout(OBEYED_TIMEOUT, heard).await {
            Ok(Ok(_)) => Ok((changed.added.len() + changed.removed.len()) as u64),
            _ => Err(GraphTrouble::NotHeard),
        }
    }
}

/// Why subscriptions were not changed, or not everywhere.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GraphTrouble {
    /// There is no store of record.
    #[error("the nodes of this cluster have no --postgres, so their graph stands still")]
    StandsStill,
    /// PostgreSQL.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// It is stored, and the log has not brought it in time.
    #[error("the change is stored, and not all nodes obey it yet; they will")]
    NotHeard,
}
