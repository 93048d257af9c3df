//! The tables and functions, made and migrated by whichever node comes first.

use std::iter::successors;
use std::sync::atomic::Ordering;

use tokio::time::{Instant, sleep};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use crate::config::PostgresConfig;
use crate::error::{Doing, PostgresError, SchemaFault};
use crate::limits::{PAUSE_MAX, PAUSE_MIN};

/// Each once, in this order, for ever: what was published is not changed, but followed by another.
const MIGRATIONS: [&str; 6] = [
    include_str!("sql/1.sql"),
    include_str!("sql/2.sql"),
    include_str!("sql/3.sql"),
    include_str!("sql/4.sql"),
    include_str!("sql/5.sql"),
    include_str!("sql/6.sql"),
];

/// Those that programs of before can live with. They are recorded where those do not look, so that
/// their nodes go on while others are upgraded: the third below zero, as programs of the second
/// know no such number, the fourth in the row of the one before, in a column of its own. From the
/// fifth on they are in the column `later`: programs of the fifth and later go on with what stands
/// there alone.
const COMPATIBLE: [i32; 4] = [3, 4, 5, 6];

/// The schema that this program works with.
pub(crate) const KNOWN: i32 = MIGRATIONS.len() as i32;

/// The oldest server that is tested.
const SERVER_MIN: i32 = 150_000;

const _: () = {
    let mut at = 0;
    while at < COMPATIBLE.len() {
        assert!(1 <= COMPATIBLE[at] && COMPATIBLE[at] <= KNOWN, "there is no such migration");
        at += 1;
    }
};

/// Whether the schema is as this program knows it, or else may be [migrated](migrate).
pub(crate) async fn is_ready(
    config: &PostgresConfig,
    client: &mut Client,
) -> Result<bool, PostgresError> {
    let found = found(config, client).await?;
    if found.is_enough()? {
        return Ok(true);
    }
    if found.newest == 0 && (!config.create || config.had_tables.load(Ordering::Relaxed)) {
        return Err(SchemaFault::Gone.into());
    }
    if !config.migrate {
        return Err(SchemaFault::Older { found: found.newest, known: KNOWN }.into());
    }
    Ok(false)
}

/// Why a try to migrate has not done it.
enum TryFault {
    /// A table is used by another transaction.
    Locked,
    Other(PostgresError),
}

impl From<PostgresError> for TryFault {
    fn from(error: PostgresError) -> TryFault {
        TryFault::Other(error)
    }
}

impl From<tokio_postgres::Error> for TryFault {
    fn from(error: tokio_postgres::Error) -> TryFault {
        match error.code() {
            Some(&SqlState::LOCK_NOT_AVAILABLE) => TryFault::Locked,
            _ => TryFault::Other(PostgresError::of(&error, Doing::Nothing)),
        }
    }
}

/// Leaves the schema as this program knows it. It waits for those who use the tables, within a
/// bound. A transaction that comes later waits behind it, so it does that for a short time, lets
/// them pass, and tries again.
pub(crate) async fn migrate(
    config: &PostgresConfig,
    client: &mut Client,
) -> Result<(), PostgresError> {
    check_server(client).await?;
    let gave_up = || {
        let wait = config.migration_wait;
        PostgresError::Away(format!(
            "its tables were not migrated, for within {wait:?} another transaction that uses \
             them, or another migration, did not end; pg_stat_activity shows whose it is"
        ))
    };
    let fault = |fault| match fault {
        TryFault::Locked => gave_up(),
        TryFault::Other(error) => error,
    };
    // If this fails, its session ends, and its turn with that.
    take_turn(config, client).await.map_err(fault)?;
    let end = Instant::now() + config.migration_wait;
    let mut pauses = successors(Some(PAUSE_MIN), |pause| Some((*pause * 2).min(PAUSE_MAX)));
    loop {
        match try_once(config, client).await {
            Ok(()) => return end_turn(config, client).await.map_err(fault),
            Err(TryFault::Other(error)) => return Err(error),
            Err(TryFault::Locked) => {
                let pause = pauses.next().unwrap_or(PAUSE_MAX);
                if Instant::now() + pause >= end {
                    return Err(gave_up());
                }
                sleep(pause).await;
            }
        }
    }
}

/// Nodes that start at the same time migrate one after the other; the second has nothing to do. The
/// turn lasts over all tries: a pause is one for the application, and not for another node's try.
async fn take_turn(config: &PostgresConfig, client: &mut Client) -> Result<(), TryFault> {
    let wait_ms = config.migration_wait.as_millis();
    let key = turn_key(config)?;
    let transaction = client.transaction().await?;
    let lock = format!(
        "set local lock_timeout = {wait_ms}; set local statement_timeout = 0;
         select pg_advisory_lock({key});"
    );
    transaction.batch_execute(&lock).await?;
    Ok(transaction.commit().await?)
}

async fn end_turn(config: &PostgresConfig, client: &Client) -> Result<(), TryFault> {
    let unlock = format!("select pg_advisory_unlock({})", turn_key(config)?);
    Ok(client.batch_execute(&unlock).await?)
}

/// The number of the lock that is a node's turn, which programs of before take as well.
fn turn_key(config: &PostgresConfig) -> Result<String, PostgresError> {
    Ok(format!("hashtextextended('encke migrates ' || '{}', 0)", config.schema()?))
}

/// Migrates in one transaction, unless a table is used for longer than it may wait.
async fn try_once(config: &PostgresConfig, client: &mut Client) -> Result<(), TryFault> {
    let schema = config.schema()?;
    let wait_ms = config.table_wait.min(config.migration_wait).as_millis();
    let transaction = client.transaction().await?;
    let settings = format!("set local lock_timeout = {wait_ms}; set local statement_timeout = 0;");
    transaction.batch_execute(&settings).await?;
    let found = found_in(config, &transaction).await?;
    if found.is_enough()? {
        return Ok(());
    }
    if found.newest == 0 {
        let first = format!(
            "do $$ begin
                 if to_regnamespace('{schema}') is null then create schema {schema}; end if;
             end $$;
             create table {schema}.migrations (
                 version integer primary key, at timestamptz not null default now());"
        );
        transaction.batch_execute(&first).await?;
    }
    let todo = MIGRATIONS.iter().zip(1..).filter(|(_, version)| *version > found.newest);
    for (sql, version) in todo {
        transaction.batch_execute(&config.sql(sql)).await?;
        let done = match version {
            3 => format!("insert into {schema}.migrations (version) values (-3)"),
            // The column is made behind the migration, which may wait for others' transactions:
            // nodes of before read this table to start, and could not meanwhile.
            _ if COMPATIBLE.contains(&version) => {
                let column = if version == 4 { "also" } else { "later" };
                format!(
                    "alter table {schema}.migrations add column if not exists {column} integer;
                     update {schema}.migrations set {column} = {version} where abs(version) =
                         (select max(abs(version)) from {schema}.migrations)"
                )
            }
            _ => format!("insert into {schema}.migrations (version) values ({version})"),
        };
        transaction.batch_execute(&done).await?;
    }
    transaction.commit().await?;
    for version in found.newest + 1..=KNOWN {
        tracing::info!("the graph's tables in PostgreSQL are at version {version}");
    }
    Ok(())
}

/// The version of the tables; 0 where there are none.
struct Found {
    newest: i32,
    /// What a program has to know to live with them.
    needed: i32,
}

impl Found {
    /// Whether nothing is to be done; an error where this program cannot live with them.
    fn is_enough(&self) -> Result<bool, PostgresError> {
        if self.needed > KNOWN {
            return Err(SchemaFault::Newer { found: self.newest, known: KNOWN }.into());
        }
        Ok(self.newest >= KNOWN)
    }
}

async fn found(config: &PostgresConfig, client: &mut Client) -> Result<Found, PostgresError> {
    let fails = |error: tokio_postgres::Error| PostgresError::of(&error, Doing::Nothing);
    let transaction = client.transaction().await.map_err(fails)?;
    found_in(config, &transaction).await
}

async fn found_in(
    config: &PostgresConfig,
    transaction: &tokio_postgres::Transaction<'_>,
) -> Result<Found, PostgresError> {
    let fails = |error: tokio_postgres::Error| PostgresError::of(&error, Doing::Nothing);
    let schema = config.schema()?;
    // Not `to_regclass`: it may remember that there was none before another node made it.
    let exists = "select exists (select from pg_class c join pg_namespace n on n.oid = relnamespace
        where nspname = $1 and relname = 'migrations')";
    let row = transaction.query_one(exists, &[&schema]).await.map_err(fails)?;
    if !row.get::<_, bool>(0) {
        return Ok(Found { newest: 0, needed: 0 });
    }
    // By their texts, since tables of before have no such columns.
    let versions = format!(
        "select coalesce(max(greatest(needed, (m ->> 'later')::integer)), 0),
             coalesce(max(needed), 0)
         from (select to_jsonb(m) as m, greatest(abs(version), (to_jsonb(m) ->> 'also')::integer)
             as needed from {schema}.migrations m) v"
    );
    let row = transaction.query_one(&versions, &[]).await.map_err(fails)?;
    Ok(Found { newest: row.get(0), needed: row.get(1) })
}

async fn check_server(client: &Client) -> Result<(), PostgresError> {
    let sql = "select current_setting('server_version_num')::integer,
        current_setting('server_version'), getdatabaseencoding()::text";
    let row = client.query_one(sql, &[]).await;
    let row = row.map_err(|error| PostgresError::of(&error, Doing::Nothing))?;
    let (number, version, encoding): (i32, &str, &str) = (row.get(0), row.get(1), row.get(2));
    if number < SERVER_MIN {
        return Err(PostgresError::Unusable(format!(
            "the server is PostgreSQL {version}; 15 is the oldest that will do"
        )));
    }
    if encoding != "UTF8" {
        return Err(PostgresError::Unusable(format!(
            "its encoding is {encoding}; create one with createdb --encoding=UTF8 \
             --template=template0"
        )));
    }
    Ok(())
}
