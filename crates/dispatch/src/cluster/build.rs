//! A replica out of all that PostgreSQL has, built beside the one that answers.

use std::fmt::Write;

use anyhow::{Context, Result};
use graph::replica::{
    Built, Change, LogPlace, NumberedId, Origin, PairBatch, Rebuild, ReplicaState,
};
use postgres::{Bootstrap, Lineage, Node, Order, Page, Place, PostgresError, PostgresStore};
use tokio::runtime::Builder;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

/// Batches of pairs on their way into a replica that is built: some 200 KB each.
const BATCHES_WAITING: usize = 16;

/// Builds it, and brings it to where PostgreSQL is by then.
///
/// Reading 15 million pairs is seconds of computing: a thread of its own does it, so that the
/// control plane's has time for what streams wait for.
pub(super) async fn build(store: PostgresStore, rebuild: Rebuild) -> Result<Built> {
    let reading = store.clone();
    let built = spawn_blocking(move || {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(read_all(reading, rebuild))
    });
    catch_up(&store, built.await.context("the replica could not be built")??).await
}

async fn read_all(store: PostgresStore, rebuild: Rebuild) -> Result<Built> {
    let mut bootstrap = store.bootstrap().await?;
    let place = bootstrap.place();
    let origin = Origin {
        lineage: u128::from_be_bytes(place.lineage.0),
        version: place.version,
        at: LogPlace::default(),
        set_hash: Some(place.hash),
    };
    let (first, by_subscribee) = mpsc::channel(BATCHES_WAITING);
    let (second, by_subscriber) = mpsc::channel(BATCHES_WAITING);
    let building = spawn_blocking(move || {
        rebuild.run(&origin, batches(by_subscribee), batches(by_subscriber))
    });
    // Who builds says what went wrong.
    read_out(&mut bootstrap, Order::BySubscribee, first).await;
    read_out(&mut bootstrap, Order::BySubscriber, second).await;
    building.await.context("the replica could not be built")?.map_err(Into::into)
}

/// Applies what was changed since.
pub(super) async fn catch_up(store: &PostgresStore, mut built: Built) -> Result<Built> {
    loop {
        let page = store.changes_after(place_in_store(built.state())).await?;
        if page.changes.is_empty() {
            return Ok(built);
        }
        let is_all = is_all(&page);
        let applying = spawn_blocking(move || {
            let done = built.apply(&changes(&page));
            (built, done)
        });
        let (applied, done) = applying.await.context("the replica could not be built")?;
        done?;
        built = applied;
        if is_all {
            return Ok(built);
        }
    }
}

/// Whether there is nothing behind this page.
pub(super) fn is_all(page: &Page) -> bool {
    page.changes.last().is_none_or(|last| last.place.version == page.head.version)
}

/// What a page has, for a replica.
pub(super) fn changes(page: &Page) -> Vec<Change<'_>> {
    let changes = page.changes.iter().map(|change| Change {
        version: change.place.version,
        removed: &change.removed,
        added: &change.added,
        set_hash: Some(change.place.hash),
        at: None,
    });
    changes.collect()
}

/// Where a replica is, as the store of record has it.
pub(super) fn place_in_store(state: ReplicaState) -> Place {
    let ReplicaState { lineage, version, set_hash, .. } = state;
    Place { lineage: Lineage(lineage.to_be_bytes()), version, hash: set_hash }
}

type Pieces = mpsc::Receiver<Result<PairBatch, PostgresError>>;

/// For a thread that may block.
fn batches(mut pieces: Pieces) -> impl Iterator<Item = Result<PairBatch, PostgresError>> {
    std::iter::from_fn(move || pieces.blocking_recv())
}

/// Reads all pairs in one order, until whoever takes them takes no more.
async fn read_out(
    bootstrap: &mut Bootstrap,
    order: Order,
    into: mpsc::Sender<Result<PairBatch, PostgresError>>,
) {
    let mut rows = match bootstrap.pairs(order).await {
        Ok(rows) => rows,
        Err(error) => return drop(into.send(Err(error)).await),
    };
    loop {
        let piece = match rows.next().await {
            Ok(None) => return,
            Ok(Some(batch)) => {
                let (mut pairs, mut texts) = (PairBatch::default(), [String::new(), String::new()]);
                for (subscriber, subscribee) in batch.pairs() {
                    let [first, second] = &mut texts;
                    pairs.push_numbered(id(subscriber, first), id(subscribee, second));
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

/// An id of PostgreSQL for the replica. `digits` is for an integer's.
fn id<'t>(node: Node<'t>, digits: &'t mut String) -> NumberedId<'t> {
    match node {
        Node::Name { text, number } => NumberedId { text, number: Some(number) },
        Node::Integer(number) => {
            digits.clear();
            // A string takes all.
            let _ = write!(digits, "{number}");
            NumberedId { text: digits, number: None }
        }
    }
}
