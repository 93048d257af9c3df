//! A table of the application as the graph: `encke.install` and its reverse (see sql/2.sql).

use std::fmt;

use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};

use crate::error::{Doing, PostgresError};
use crate::place::Place;
use crate::schema;
use crate::session::{SAFE_PATH, Session, place, value};
use crate::store::PostgresStore;

/// The table that is the graph.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Source {
    /// Its name. [`PostgresStore::status`] tells it with its schema.
    pub table: String,
    /// The column of those who follow.
    pub subscriber: String,
    /// The column of those who are followed.
    pub subscribee: String,
}

/// In what a table and the graph that it is differ.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Differences {
    /// How many pairs only one of both has.
    pub total: u64,
    /// Some of them: subscriber, subscribee, and whether it is the table that has it.
    pub some: Vec<(String, String, bool)>,
}

/// What there is to say about the graph in the database.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Status {
    /// The version of the tables that this program works with.
    pub schema_version: i32,
    /// Where the graph is.
    pub place: Place,
    /// About how many pairs, as the database estimates.
    pub pairs: u64,
    /// Bytes of all tables with their indices.
    pub bytes: u64,
    /// The changes that are kept.
    pub changes: u64,
    /// The table that is the graph, if one is.
    pub source: Option<Source>,
    /// What the table that was the graph has become, in words, if it cannot be that any more. Until
    /// one is named again, or none, changes are refused.
    pub source_lost: Option<String>,
    /// Whether that table has not all of its triggers, or some are off: the graph does not hear of
    /// what changes in it.
    pub triggers_off: bool,
}

/// What the server says of a text that no table can be called.
const NO_NAME: [SqlState; 3] =
    [SqlState::INVALID_NAME, SqlState::SYNTAX_ERROR, SqlState::FEATURE_NOT_SUPPORTED];

/// The triggers that fire in the sessions of an application.
const TRIGGERS_ON: &str = "(select count(*) from pg_trigger t where t.tgrelid = s.relation
    and t.tgfoid = 'encke.source_touched'::regproc and t.tgenabled in ('O', 'A'))";

/// One for each of `insert`, `update`, `delete` and `truncate`.
const TRIGGERS: i64 = 4;

impl PostgresStore {
    /// Makes `table` the graph: imports its rows, and follows its changes from then on, in the
    /// transactions that make them. Its writers wait meanwhile. Again, it compares everything once
    /// more.
    ///
    /// The columns are smallint, integer, bigint, uuid, text or varchar; an index begins with both.
    /// The user must own the table. As long as it is installed [`PostgresStore::change`] is
    /// refused.
    pub async fn install(&self, source: &Source) -> Result<Place, PostgresError> {
        let session = self.patient().await?;
        let Source { table, subscriber, subscribee } = source;
        // A name without a schema means what it means to this user elsewhere.
        session.run("reset search_path", Doing::Nothing).await?;
        let named = "select pg_catalog.to_regclass($1)::pg_catalog.oid";
        let named = session.client.query_typed(named, &[(table, Type::TEXT)]).await;
        let named = match named {
            Ok(rows) => rows.first().and_then(|row| row.get::<_, Option<u32>>(0)),
            // No name that SQL could have, or one of another database.
            Err(error) if error.code().is_some_and(|code| NO_NAME.contains(code)) => None,
            Err(error) => return Err(PostgresError::of(&error, Doing::Nothing)),
        };
        let Some(named) = named else {
            return Err(PostgresError::Refused(format!(
                "there is no table {table}; name it with its schema, as in public.follows, and as \
                 SQL has it, as in 'public.\"Follows\"'"
            )));
        };
        session.run(SAFE_PATH, Doing::Nothing).await?;
        let sql = self.sql(&format!("select encke.install({named}::oid::regclass, $1, $2)"));
        query(&session, &sql, &[subscriber, subscribee], Doing::Commit).await?;
        session.place().await
    }

    /// Takes the triggers away again; false where there were none. The graph stays as it is.
    pub async fn uninstall(&self) -> Result<bool, PostgresError> {
        let session = self.patient().await?;
        let sql = self.sql("select encke.uninstall()");
        Ok(query(&session, &sql, &[], Doing::Commit).await?.get(0))
    }

    /// What there is to say about the graph in the database.
    pub async fn status(&self) -> Result<Status, PostgresError> {
        let session = Session::open(&self.shared.config).await?;
        let sql = self.sql(&format!(
            "select uuid_send(v.lineage), v.version, v.hash,
                (select greatest(reltuples, 0)::bigint from pg_class
                    where oid = 'encke.subscriptions'::regclass),
                (select sum(pg_total_relation_size(c.oid))::bigint from pg_class c
                    where c.relkind = 'r' and c.relnamespace =
                        (select relnamespace from pg_class where oid = 'encke.version'::regclass)),
                (select count(*) from encke.changes),
                s.relation::text, s.a, s.b, encke.source_lost(), {TRIGGERS_ON}
            from encke.version v left join encke.source_columns() s on true",
        ));
        let row = query(&session, &sql, &[], Doing::Nothing).await?;
        let text = |column| row.get::<_, Option<String>>(column);
        let source = text(6).zip(text(7)).zip(text(8));
        let triggers_on: i64 = row.get(10);
        Ok(Status {
            schema_version: schema::KNOWN,
            place: place(&row)?,
            triggers_off: source.is_some() && triggers_on < TRIGGERS,
            pairs: row.get::<_, i64>(3) as u64,
            bytes: row.get::<_, i64>(4) as u64,
            changes: row.get::<_, i64>(5) as u64,
            source: source.map(|((table, subscriber), subscribee)| Source {
                table,
                subscriber,
                subscribee,
            }),
            source_lost: text(9),
        })
    }

    /// In what the table that is the graph differs from it, `most` pairs by name: triggers that
    /// were off, columns of another type and tables that inherit are seen by no trigger. None where
    /// no table is the graph. It reads both whole.
    pub async fn source_differences(&self, most: u32) -> Result<Differences, PostgresError> {
        let session = self.patient().await?;
        let sql = self.sql(&format!("select * from encke.source_differences({most})"));
        let rows = session.client.query(&sql, &[]).await;
        let rows = rows.map_err(|error| PostgresError::of(&error, Doing::Nothing))?;
        let total = rows.first().map_or(Ok(0), |row| value::<i64>(row, 3))? as u64;
        let pair = |row| Ok((value(row, 0)?, value(row, 1)?, value(row, 2)?));
        let some = rows.iter().map(pair).collect::<Result<_, PostgresError>>()?;
        Ok(Differences { total, some })
    }

    /// A session that waits as long as it takes.
    pub(crate) async fn patient(&self) -> Result<Session, PostgresError> {
        let session = Session::open(&self.shared.config).await?;
        let settings = "set statement_timeout = 0; set lock_timeout = 0; set work_mem = '64MB';
            set maintenance_work_mem = '256MB'";
        session.run(settings, Doing::Nothing).await?;
        Ok(session)
    }

    pub(crate) fn sql(&self, sql: &str) -> String {
        self.shared.config.sql(sql)
    }
}

async fn query(
    session: &Session,
    sql: &str,
    values: &[&String],
    doing: Doing,
) -> Result<Row, PostgresError> {
    let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| *value as _).collect();
    let row = session.client.query_one(sql, &values).await;
    row.map_err(|error| PostgresError::of(&error, doing))
}

/// `800 pairs differ, such as 8 9 (in the table alone)`.
impl fmt::Display for Differences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.total {
            1 => write!(f, "1 pair differs")?,
            total => write!(f, "{total} pairs differ")?,
        }
        for (nth, (subscriber, subscribee, in_table)) in self.some.iter().enumerate() {
            let (joins, side) = (if nth == 0 { ", such as" } else { "," }, *in_table);
            let side = if side { "table" } else { "graph" };
            write!(f, "{joins} {subscriber} {subscribee} (in the {side} alone)")?;
        }
        Ok(())
    }
}
