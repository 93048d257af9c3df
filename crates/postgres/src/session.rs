//! One connection, set up as all of ours are, with its time-outs.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_postgres::config::Host;
use tokio_postgres::types::FromSql;
use tokio_postgres::{Client, Row, Socket, Statement};

use crate::config::{PostgresConfig, TlsMode};
use crate::error::{Doing, PostgresError};
use crate::limits::{BACKOFF_MAX, BACKOFF_MIN};
use crate::place::{Lineage, Place};
use crate::tls::Connector;
use crate::{hosts, password, schema};

/// The server is given this much more than the time-out that it was told, to say so itself.
const GRACE: Duration = Duration::from_secs(1);

/// With the path of the database a function in `public`, which others may be allowed to make, could
/// stand in for one of PostgreSQL's, with the rights of ours.
pub(crate) const SAFE_PATH: &str = "set search_path = pg_catalog, pg_temp";

/// Holds for all that a session does, beside [`SAFE_PATH`]. The server may have been set up to
/// answer before a commit is on its disk, or may be by a reload, which a session follows where it
/// has said nothing itself. PostgreSQL 17 can bound a transaction, and reading all pairs is one
/// that takes minutes.
const SETTINGS: &str = "
    set default_transaction_isolation = 'read committed';
    set default_transaction_read_only = off;
    set client_min_messages = warning;
    do $$ begin
        if current_setting('synchronous_commit') in ('off', 'local', 'on') then
            set synchronous_commit = on;
        elsif current_setting('synchronous_commit') = 'remote_apply' then
            set synchronous_commit = remote_apply;
        end if;
        if current_setting('transaction_timeout', true) is not null then
            set transaction_timeout = 0;
        end if;
    end $$;";

/// An open connection. It ends with this.
pub(crate) struct Session {
    pub(crate) client: Client,
    place: Statement,
    patience: Duration,
    _alive: Alive,
}

/// The task that [drives](drive) a connection hears when this is dropped.
type Alive = oneshot::Sender<Infallible>;

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("closed", &self.client.is_closed()).finish()
    }
}

impl Session {
    /// Connects and sees to it that the schema is ours.
    pub(crate) async fn open(config: &PostgresConfig) -> Result<Session, PostgresError> {
        let (mut client, alive) = Session::connect(config).await?;
        let patience = config.statement_timeout + GRACE;
        let late = |_| Err(PostgresError::late(patience, Doing::Nothing));
        let looked = timeout(patience, schema::is_ready(config, &mut client)).await;
        if !looked.unwrap_or_else(late)? {
            schema::migrate(config, &mut client).await?;
        }
        config.had_tables.store(true, Ordering::Relaxed);
        let sql = config.sql("select uuid_send(lineage), version, hash from encke.version");
        let prepared = within(patience, Doing::Nothing, client.prepare(&sql)).await?;
        Ok(Session { client, place: prepared, patience, _alive: alive })
    }

    /// To the first address that will do.
    async fn connect(config: &PostgresConfig) -> Result<(Client, Alive), PostgresError> {
        let mut refused = Vec::new();
        for host in hosts::each(config)? {
            let mut of_host = Vec::new();
            for address in hosts::addresses(host).await {
                match Session::connect_to(&address).await {
                    Ok(connected) => return Ok(connected),
                    Err(error) => of_host.push(error),
                }
            }
            refused.push(of_host);
        }
        Err(hosts::reason(refused))
    }

    /// To the only host of `config`.
    async fn connect_to(config: &PostgresConfig) -> Result<(Client, Alive), PostgresError> {
        let mut postgres = config.postgres.clone();
        if let Some(password) = password::read(config).await? {
            postgres.password(password.as_bytes());
        }
        // A socket in a folder is not encrypted, whatever is asked for, as libpq has it.
        let is_local = matches!(postgres.get_hosts(), [Host::Unix(_)]);
        let tls = if is_local { TlsMode::Disable } else { config.tls };
        postgres.ssl_mode(tls.wire()).connect_timeout(config.connect_timeout);
        let connector = Connector::new(config)?;
        let connecting = async {
            let connected = postgres.connect(connector).await;
            let (client, connection) =
                connected.map_err(|e| PostgresError::of(&e, Doing::Nothing))?;
            let (alive, dropped) = oneshot::channel();
            tokio::spawn(drive(connection, dropped));
            let milliseconds = config.statement_timeout.as_millis();
            let settings = format!(
                "{SAFE_PATH}; {SETTINGS} set statement_timeout = {milliseconds};
                 set lock_timeout = {};",
                milliseconds / 2
            );
            let set = client.batch_execute(&settings).await;
            set.map_err(|error| PostgresError::of(&error, Doing::Nothing))?;
            Ok((client, alive))
        };
        // The library's own time-out is for the socket alone.
        let patience = config.connect_timeout + GRACE;
        timeout(patience, connecting)
            .await
            .unwrap_or_else(|_| Err(PostgresError::late(patience, Doing::Nothing)))
    }

    /// Waits for `request` as long as a request may take.
    pub(crate) async fn within<T>(
        &self,
        doing: Doing,
        request: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, PostgresError> {
        within(self.patience, doing, request).await
    }

    /// Where the graph is.
    pub(crate) async fn place(&self) -> Result<Place, PostgresError> {
        let rows = self.within(Doing::Nothing, self.client.query(&self.place, &[])).await?;
        let row = rows.first().ok_or_else(|| {
            PostgresError::Damaged("the row of the version is missing".to_owned())
        })?;
        place(row)
    }

    /// Runs statements without parameters for as long as they take.
    pub(crate) async fn run(&self, sql: &str, doing: Doing) -> Result<(), PostgresError> {
        self.client.batch_execute(sql).await.map_err(|error| PostgresError::of(&error, doing))
    }
}

/// The first three columns: lineage as bytes, version, hash.
pub(crate) fn place(row: &Row) -> Result<Place, PostgresError> {
    let damaged = |what: &str| PostgresError::Damaged(format!("the version's {what} is not one"));
    let lineage: &[u8] = row.try_get(0).map_err(|_| damaged("lineage"))?;
    let version: i64 = row.try_get(1).map_err(|_| damaged("number"))?;
    let hash: i64 = row.try_get(2).map_err(|_| damaged("hash"))?;
    Ok(Place {
        lineage: Lineage(lineage.try_into().map_err(|_| damaged("lineage"))?),
        version: u64::try_from(version).map_err(|_| damaged("number"))?,
        hash: hash as u64,
    })
}

pub(crate) async fn within<T>(
    patience: Duration,
    doing: Doing,
    request: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, PostgresError> {
    match timeout(patience, request).await {
        Ok(answer) => answer.map_err(|error| PostgresError::of(&error, doing)),
        Err(_) => Err(PostgresError::late(patience, doing)),
    }
}

/// Reads and writes until the session is dropped or the connection fails, which its requests hear.
/// What nobody waits for any more has little time for its answer, which may never come.
async fn drive<T>(
    connection: tokio_postgres::Connection<Socket, T>,
    dropped: oneshot::Receiver<Infallible>,
) where
    T: tokio_postgres::tls::TlsStream + Unpin + Send,
{
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        _ = dropped => timeout(GRACE, connection).await.ok(),
    };
    match ended {
        Some(Ok(())) => {}
        Some(Err(error)) => {
            let error = PostgresError::of(&error, Doing::Nothing);
            tracing::debug!("a connection to PostgreSQL ended: {error}");
        }
        None => tracing::debug!("a connection to PostgreSQL is given up without an answer"),
    }
}

/// The value in a column of an answer. It has another type, or is null, if somebody has changed the
/// schema's functions or tables.
pub(crate) fn value<'r, T: FromSql<'r>>(row: &'r Row, column: usize) -> Result<T, PostgresError> {
    let damaged = |error: tokio_postgres::Error| {
        PostgresError::Damaged(format!("an answer is not what it was: {error}"))
    };
    row.try_get(column).map_err(damaged)
}

/// How long to wait before each next try to connect.
pub(crate) fn backoff() -> ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(BACKOFF_MIN)
        .with_max_delay(BACKOFF_MAX)
        .with_factor(2.0)
        .without_max_times()
        .with_jitter()
        .build()
}
