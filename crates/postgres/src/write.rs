//! Changes: one task, one transaction and one round trip for all that wait.
//!
//! A caller is answered only when its pairs are on disk. While one commit is under way, further
//! requests gather in the bounded queue and share the next one (group commit). So durable changes a
//! second grow with the number of callers. In the transaction stands what is left when the requests
//! are done one after the other. Each is answered as if it had been done so.

use std::collections::HashMap;
use std::sync::Arc;

use backon::ExponentialBackoff;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_postgres::Statement;
use tokio_postgres::types::ToSql;

use crate::error::{Doing, PostgresError};
use crate::limits::GROUP_PAIRS_MAX;
use crate::pair::{Pair, from_lines};
use crate::session::{Session, backoff, place, value};
use crate::shared::{Change, Changed, Request, Seen, Shared};

const COMMIT: &str = "select uuid_send(new_lineage), new_version, new_hash, did_add, did_remove
    from encke.commit($1, $2, $3, $4)";

/// The writer: ends when the last `PostgresStore` is dropped and the queue is empty.
pub(crate) async fn run(shared: Arc<Shared>, mut queue: mpsc::Receiver<Request>) {
    let mut writer = Writer::new();
    while let Some(first) = queue.recv().await {
        let mut pairs = first.pairs();
        let mut group = vec![first];
        while pairs < GROUP_PAIRS_MAX
            && let Ok(next) = queue.try_recv()
        {
            pairs += next.pairs();
            group.push(next);
        }
        // Who has gone meanwhile was told that nothing was changed.
        group.retain(|request| !request.reply.is_closed());
        if group.is_empty() {
            continue;
        }
        match writer.commit(&shared, &group).await {
            Ok(change) => answer(&shared, group, change),
            Err(error) => {
                for request in group {
                    // A caller that is gone does not need its answer.
                    let _ = request.reply.send(Err(error.clone()));
                }
            }
        }
    }
}

/// The writer's connection, and when to try for another one.
struct Writer {
    session: Option<(Session, Statement)>,
    backoff: ExponentialBackoff,
    /// Not before this, and what was wrong the last time.
    closed_until: Option<(Instant, PostgresError)>,
}

impl Writer {
    fn new() -> Writer {
        Writer { session: None, backoff: backoff(), closed_until: None }
    }

    /// The net change of the group, committed.
    async fn commit(
        &mut self,
        shared: &Shared,
        group: &[Request],
    ) -> Result<Change, PostgresError> {
        self.connect(shared).await?;
        let Some((session, statement)) = &self.session else {
            return Err(PostgresError::Away("there is no connection".into()));
        };
        let outcome = commit(session, statement, group).await;
        if outcome.as_ref().is_err_and(PostgresError::ends_session) {
            self.session = None;
        }
        outcome
    }

    async fn connect(&mut self, shared: &Shared) -> Result<(), PostgresError> {
        if self.session.as_ref().is_some_and(|(session, _)| !session.client.is_closed()) {
            return Ok(());
        }
        self.session = None;
        if let Some((until, error)) = &self.closed_until
            && Instant::now() < *until
        {
            return Err(error.clone());
        }
        match open(shared).await {
            Ok(session) => {
                self.session = Some(session);
                self.backoff = backoff();
                self.closed_until = None;
                Ok(())
            }
            Err(error) => {
                let pause = self.backoff.next().unwrap_or_default();
                self.closed_until = Some((Instant::now() + pause, error.clone()));
                Err(error)
            }
        }
    }
}

async fn open(shared: &Shared) -> Result<(Session, Statement), PostgresError> {
    let session = Session::open(&shared.config).await?;
    let sql = shared.config.sql(COMMIT);
    let statement = session.within(Doing::Nothing, session.client.prepare(&sql)).await?;
    Ok((session, statement))
}

async fn commit(
    session: &Session,
    statement: &Statement,
    group: &[Request],
) -> Result<Change, PostgresError> {
    let wanted = net(group);
    let side = |there: bool, first: bool| -> Vec<&str> {
        let pairs = wanted.iter().filter(|(_, wanted)| **wanted == there);
        pairs.map(|((a, b), _)| if first { a.as_str() } else { b.as_str() }).collect()
    };
    let (add_a, add_b) = (side(true, true), side(true, false));
    let (remove_a, remove_b) = (side(false, true), side(false, false));
    debug_assert_eq!(add_a.len(), add_b.len());
    debug_assert_eq!(add_a.len() + remove_a.len(), wanted.len(), "a pair is wanted in one way");
    let values: [&(dyn ToSql + Sync); 4] = [&add_a, &add_b, &remove_a, &remove_b];
    let request = session.client.query(statement, &values);
    let rows = session.within(Doing::Commit, request).await?;
    let row =
        rows.first().ok_or_else(|| PostgresError::Damaged("a commit has no answer".into()))?;
    Ok(Change {
        place: place(row)?,
        added: from_lines(value(row, 3)?)?,
        removed: from_lines(value(row, 4)?)?,
    })
}

/// Each pair of the group, and whether it is there at the end.
fn net(group: &[Request]) -> HashMap<&Pair, bool> {
    let mut wanted = HashMap::new();
    for request in group {
        wanted.extend(request.removed.iter().map(|pair| (pair, false)));
        wanted.extend(request.added.iter().map(|pair| (pair, true)));
    }
    wanted
}

/// Tells the transaction, and each caller what its own request did.
fn answer(shared: &Shared, group: Vec<Request>, change: Change) {
    let place = change.place;
    shared.see(Seen::At(place));
    let answers = replay(&group, &change);
    debug_assert_eq!(answers.len(), group.len(), "each request has its own answer");
    if !change.added.is_empty() || !change.removed.is_empty() {
        // Nobody may listen.
        let _ = shared.commits.send(Arc::new(change));
    }
    for (request, (added, removed)) in group.into_iter().zip(answers) {
        let _ = request.reply.send(Ok(Changed { place, added, removed }));
    }
}

/// The requests one after the other: what each adds and removes, given what all did together.
fn replay(group: &[Request], change: &Change) -> Vec<(Vec<Pair>, Vec<Pair>)> {
    let mut there = net(group);
    // Before the transaction a pair was there if that is wanted and was not done, or the reverse.
    for pair in &change.added {
        there.insert(pair, false);
    }
    for pair in &change.removed {
        there.insert(pair, true);
    }
    let mut set = |pairs: &'_ [Pair], to: bool| -> Vec<Pair> {
        let mut changes = |pair: &Pair| {
            let there = there.get_mut(pair).filter(|there| **there != to);
            there.map(|there| *there = to).is_some()
        };
        pairs.iter().filter(|pair| changes(pair)).cloned().collect()
    };
    let done = group.iter().map(|request| {
        let removed = set(&request.removed, false);
        (set(&request.added, true), removed)
    });
    done.collect()
}
