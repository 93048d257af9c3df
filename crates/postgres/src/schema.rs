//! The tables and functions, made and migrated by whichever node comes first.

use tokio_postgres::Client;

use crate::config::PostgresConfig;
use crate::error::{Doing, PostgresError, SchemaFault};

/// Each once, in this order, for ever: what was published is not changed, but followed by another.
const MIGRATIONS: [&str; 4] = [
    include_str!("sql/1.sql"),
    include_str!("sql/2.sql"),
    include_str!("sql/3.sql"),
    include_str!("sql/4.sql"),
];

/// Those that programs of before can live with. They are recorded where those do not look, so that
/// their nodes go on while others are upgraded: the third below zero, as programs of the second
/// know no such number, later ones in the row of the one before, in a column of their own.
const COMPATIBLE: [i32; 2] = [3, 4];

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

/// Leaves the schema as this program knows it, or says why not.
pub(crate) async fn migrate(
    config: &PostgresConfig,
    client: &mut Client,
) -> Result<(), PostgresError> {
    let schema = config.schema()?;
    let fails = |error: tokio_postgres::Error| PostgresError::of(&error, Doing::Nothing);
    match found(config, client).await? {
        Some(found) if found == KNOWN => return Ok(()),
        Some(found) if found > KNOWN => {
            return Err(SchemaFault::Newer { found, known: KNOWN }.into());
        }
        found if !config.migrate => {
            let found = found.unwrap_or(0);
            return Err(SchemaFault::Older { found, known: KNOWN }.into());
        }
        _ => {}
    }
    check_server(client).await?;
    let transaction = client.transaction().await.map_err(fails)?;
    // Nodes that start at the same time make it one after the other; the second has nothing to do.
    let lock = "set local lock_timeout = 0; set local statement_timeout = 0;
        select pg_advisory_xact_lock(hashtextextended('encke migrates ' || ";
    transaction.batch_execute(&format!("{lock}'{schema}', 0));")).await.map_err(fails)?;
    let found = found_in(config, &transaction).await?.unwrap_or(0);
    if found > KNOWN {
        return Err(SchemaFault::Newer { found, known: KNOWN }.into());
    }
    if found == 0 {
        let first = format!(
            "do $$ begin
                 if to_regnamespace('{schema}') is null then create schema {schema}; end if;
             end $$;
             create table {schema}.migrations (
                 version integer primary key, at timestamptz not null default now());"
        );
        transaction.batch_execute(&first).await.map_err(fails)?;
    }
    let todo = MIGRATIONS.iter().zip(1..).filter(|(_, version)| *version > found);
    for (sql, version) in todo {
        transaction.batch_execute(&config.sql(sql)).await.map_err(fails)?;
        let done = match version {
            3 => format!("insert into {schema}.migrations (version) values (-3)"),
            // The column is made behind the migration, which may wait for others' transactions:
            // nodes of before read this table to start, and could not meanwhile.
            _ if COMPATIBLE.contains(&version) => format!(
                "alter table {schema}.migrations add column if not exists also integer;
                 update {schema}.migrations set also = {version} where abs(version) =
                     (select max(abs(version)) from {schema}.migrations)"
            ),
            _ => format!("insert into {schema}.migrations (version) values ({version})"),
        };
        transaction.batch_execute(&done).await.map_err(fails)?;
        tracing::info!("the graph's tables in PostgreSQL are at version {version}");
    }
    transaction.commit().await.map_err(fails)
}

/// The version of the tables; `None` where there are none.
async fn found(config: &PostgresConfig, client: &mut Client) -> Result<Option<i32>, PostgresError> {
    let fails = |error: tokio_postgres::Error| PostgresError::of(&error, Doing::Nothing);
    let transaction = client.transaction().await.map_err(fails)?;
    found_in(config, &transaction).await
}

async fn found_in(
    config: &PostgresConfig,
    transaction: &tokio_postgres::Transaction<'_>,
) -> Result<Option<i32>, PostgresError> {
    let fails = |error: tokio_postgres::Error| PostgresError::of(&error, Doing::Nothing);
    let schema = config.schema()?;
    // Not `to_regclass`: it may remember that there was none before another node made it.
    let exists = "select exists (select from pg_class c join pg_namespace n on n.oid = relnamespace
        where nspname = $1 and relname = 'migrations')";
    let row = transaction.query_one(exists, &[&schema]).await.map_err(fails)?;
    if !row.get::<_, bool>(0) {
        return Ok(None);
    }
    // By its text, since tables of before have no such column.
    let newest = format!(
        "select max(greatest(abs(version), (to_jsonb(m) ->> 'also')::integer))
         from {schema}.migrations m"
    );
    let row = transaction.query_one(&newest, &[]).await.map_err(fails)?;
    Ok(row.get(0))
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
