//! The poll: where the graph is, whoever changed it; and old changes are deleted.

use std::mem::discriminant;
use std::sync::{Arc, Weak};

use tokio::time::{Instant, sleep};
use tokio_postgres::types::ToSql;

use crate::error::{Doing, PostgresError};
use crate::limits::{CHANGES_KEPT, POLL, PRUNE_EVERY, PRUNE_ROWS};
use crate::session::{Session, backoff};
use crate::shared::{Seen, Shared};

/// Polls until the last `PostgresStore` is dropped, on `session` at first.
pub(crate) async fn run(shared: Weak<Shared>, mut session: Option<Session>) {
    let mut tries = backoff();
    let mut pruned: Option<Instant> = None;
    loop {
        let Some(shared) = shared.upgrade() else { return };
        let pause = match poll(&shared, &mut session).await {
            Ok(()) => {
                tries = backoff();
                if pruned.is_none_or(|at| at.elapsed() >= PRUNE_EVERY) {
                    pruned = Some(Instant::now());
                    prune(&shared, &session).await;
                }
                POLL
            }
            Err(error) => {
                session = None;
                // Once, and again where it is for another reason: it may want another cure.
                let is_known = matches!(&*shared.seen.borrow(), Seen::Away(before)
                    if discriminant(before) == discriminant(&error));
                if !is_known {
                    tracing::warn!("{error}");
                }
                shared.see(Seen::Away(error));
                tries.next().unwrap_or(POLL)
            }
        };
        drop(shared);
        sleep(pause).await;
    }
}

async fn poll(shared: &Shared, session: &mut Option<Session>) -> Result<(), PostgresError> {
    let open = match session.take() {
        Some(open) => open,
        None => Session::open(&shared.config).await?,
    };
    let mut seen = shared.seen.subscribe();
    seen.mark_unchanged();
    let place = session.insert(open).place().await?;
    // What a commit told meanwhile is newer than this may be.
    if !seen.has_changed().unwrap_or(false) {
        shared.see(Seen::At(place));
    }
    Ok(())
}

/// Deletes changes that no replica should still ask for. All nodes do; it does not matter.
async fn prune(shared: &Arc<Shared>, session: &Option<Session>) {
    let Some(session) = session else { return };
    let sql = shared.config.sql(
        "delete from encke.changes where at < now() - make_interval(secs => $1)
         and version in (select version from encke.changes order by version limit $2)",
    );
    let kept = CHANGES_KEPT.as_secs_f64();
    loop {
        let values: [&(dyn ToSql + Sync); 2] = [&kept, &PRUNE_ROWS];
        let request = session.client.execute(&sql, &values);
        match session.within(Doing::Nothing, request).await {
            Ok(deleted) if deleted as i64 == PRUNE_ROWS => {}
            Ok(_) => return,
            // The next hour does it, or another node.
            Err(error) => return tracing::debug!("old changes were not deleted: {error}"),
        }
    }
}
