//! The tables and functions, made and migrated by whichever node comes first.

use std::sync::atomic::Ordering;

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use crate::config::PostgresConfig;
use crate::error::{Doing, PostgresError, SchemaFault};

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

/// Leaves the schema as this program knows it. It waits for those who use the tables, within a
/// bound: whoever comes later waits behind it.
pub(crate) async fn migrate(
    config: &PostgresConfig,
    client: &mut Client,
) -> Result<(), PostgresError> {
    let schema = config.schema()?;
    let (wait, wait_ms) = (config.migration_wait, config.migration_wait.as_millis());
    let fails = |error: tokio_postgres::Error| match error.code() {
        Some(&SqlState::LOCK_NOT_AVAILABLE) => PostgresError::Away(format!(
            "its tables were not migrated, for within {wait:?} another transaction that uses \
             them, or another migration, did not end; pg_stat_activity shows whose it is"
        )),
        _ => PostgresError::of(&error, Doing::Nothing),
    };
    check_server(client).await?;
    let transaction = client.transaction().await.map_err(fails)?;
    // Nodes that start at the same time make it one after the other; the second has nothing to do.
    let lock = format!(
        "set local lock_timeout = {wait_ms}; set local statement_timeout = 0;
         select pg_advisory_xact_lock(hashtextextended('encke migrates ' || '{schema}', 0));"
    );
    transaction.batch_execute(&lock).await.map_err(fails)?;
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
        transaction.batch_execute(&first).await.map_err(fails)?;
    }
    let todo = MIGRATIONS.iter().zip(1..).filter(|(_, version)| *version > found.newest);
    for (sql, version) in todo {
        transaction.batch_execute(&config.sql(sql)).await.map_err(fails)?;
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
        transaction.batch_execute(&done).await.map_err(fails)?;
        tracing::info!("the graph's tables in PostgreSQL are at version {version}");
    }
    transaction.commit().await.map_err(fails)
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
