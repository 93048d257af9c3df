//! What brings a replica from its place to the graph's.

use std::sync::Arc;

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::error::{Doing, PostgresError, Rebuild};
use crate::limits::{PAGE_BYTES_MAX, PAGE_VERSIONS_MAX};
use crate::pair::{from_lines, sum};
use crate::place::Place;
use crate::session::{Session, place, value};
use crate::shared::Change;
use crate::store::PostgresStore;

/// Head and changes as of one moment; a row without a change where there is none.
const PAGE: &str = "
    select uuid_send(v.lineage), v.version, v.hash, c.version, c.hash, c.added, c.removed
    from encke.version v left join (
        select *, sum(octet_length(added) + octet_length(removed)) over (order by version)
            - octet_length(added) - octet_length(removed) as before
        from (select * from encke.changes where version > $1 order by version limit $2) n
    ) c on c.before < $3
    order by c.version";

/// Some of the changes after a place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page {
    /// They follow on one another without gaps. None where the replica is at the head.
    pub changes: Vec<Change>,
    /// Where the graph was when this was read. There is more where the last change leads elsewhere.
    pub head: Place,
}

impl PostgresStore {
    /// The next changes after `from`, each verified by its hash: [`PostgresError::Rebuild`] says
    /// that they do not lead on from there.
    pub async fn changes_after(&self, from: Place) -> Result<Page, PostgresError> {
        let mut reader = self.shared.reader.lock().await;
        // Taken out, so that a caller who is dropped meanwhile leaves no session in use.
        let session = match reader.take().filter(|session| !session.client.is_closed()) {
            Some(session) => session,
            None => Session::open(&self.shared.config).await?,
        };
        let sql = self.shared.config.sql(PAGE);
        let after = i64::try_from(from.version).unwrap_or(i64::MAX);
        let values: [&(dyn ToSql + Sync); 3] = [&after, &PAGE_VERSIONS_MAX, &PAGE_BYTES_MAX];
        let request = session.client.query(&sql, &values);
        let page = match session.within(Doing::Nothing, request).await {
            Ok(rows) => read(from, &rows),
            Err(error) => Err(error),
        };
        if !page.as_ref().is_err_and(PostgresError::ends_session) {
            *reader = Some(session);
        }
        page
    }
}

impl PostgresStore {
    /// Hands the change that led to `place` to whoever reads [`PostgresStore::commits`], as if this
    /// node had committed it. Whether it is still there: old ones are deleted.
    pub async fn commit_again(&self, place: Place) -> Result<bool, PostgresError> {
        let mut reader = self.shared.reader.lock().await;
        let session = match reader.take().filter(|session| !session.client.is_closed()) {
            Some(session) => session,
            None => Session::open(&self.shared.config).await?,
        };
        let sql = self
            .shared
            .config
            .sql("select hash, added, removed from encke.changes where version = $1 and hash = $2");
        let version = i64::try_from(place.version).unwrap_or(i64::MAX);
        let hash = place.hash as i64;
        let values: [&(dyn ToSql + Sync); 2] = [&version, &hash];
        let rows = session.within(Doing::Nothing, session.client.query(&sql, &values)).await?;
        *reader = Some(session);
        let Some(row) = rows.first() else { return Ok(false) };
        let (added, removed) = (from_lines(value(row, 1)?)?, from_lines(value(row, 2)?)?);
        // Nobody may listen.
        let _ = self.shared.commits.send(Arc::new(Change { place, added, removed }));
        Ok(true)
    }
}

fn read(from: Place, rows: &[Row]) -> Result<Page, PostgresError> {
    let missing = || PostgresError::Damaged("the row of the version is missing".into());
    let head = place(rows.first().ok_or_else(missing)?)?;
    if head.lineage != from.lineage {
        return Err(Rebuild::LineageChanged.into());
    }
    if head.version < from.version {
        return Err(Rebuild::Behind { ours: from.version, theirs: head.version }.into());
    }
    if head.version == from.version && head.hash != from.hash {
        return Err(Rebuild::Diverged { at: from.version }.into());
    }
    let mut changes: Vec<Change> = Vec::with_capacity(rows.len());
    for row in rows {
        let Some(version) = value::<Option<i64>>(row, 3)? else { break };
        let before = changes.last().map_or(from, |change| change.place);
        changes.push(next(before, version as u64, row, changes.is_empty())?);
    }
    if changes.is_empty() && head.version > from.version {
        return Err(Rebuild::Pruned { ours: from.version }.into());
    }
    Ok(Page { changes, head })
}

/// The change in `row`, if it follows on `before`.
fn next(before: Place, version: u64, row: &Row, first: bool) -> Result<Change, PostgresError> {
    if version != before.version + 1 {
        let gap = format!("the change after version {} is {version}", before.version);
        let pruned = Rebuild::Pruned { ours: before.version }.into();
        return Err(if first { pruned } else { PostgresError::Damaged(gap) });
    }
    let hash = value::<i64>(row, 4)? as u64;
    let (added, removed) = (from_lines(value(row, 5)?)?, from_lines(value(row, 6)?)?);
    let expected = before.hash.wrapping_add(sum(&added)).wrapping_sub(sum(&removed));
    if expected != hash {
        let differs = format!("version {version} does not lead to its hash");
        let diverged = Rebuild::Diverged { at: before.version }.into();
        return Err(if first { diverged } else { PostgresError::Damaged(differs) });
    }
    Ok(Change { place: Place { version, hash, ..before }, added, removed })
}
