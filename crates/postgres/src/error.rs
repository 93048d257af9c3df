//! What can go wrong, told apart by what the caller does then.

use std::error::Error as _;
use std::time::Duration;

use thiserror::Error;
use tokio_postgres::error::{DbError, Severity, SqlState};

/// An answer that is none. No text has a password.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum PostgresError {
    /// The database is away, or its answer was not to be had in time. Nothing was changed: try
    /// again later (503).
    #[error("the graph's database is away: {0}")]
    Away(String),
    /// The commit's answer was lost: the change was made in whole or not at all. Asking for the
    /// same again is safe, and when that is answered all is as asked; the counts tell what the
    /// second time had still to do.
    #[error(
        "it is not known whether the graph was changed, for the database's answer was lost: {0}. \
         Send the same change again: that does no harm"
    )]
    Unknown(String),
    /// What was asked for cannot be; the text says why and what to do (400, 409).
    #[error("{0}")]
    Refused(String),
    /// The configuration, the server or the user's rights are not what is needed; the text says
    /// what to do. It does not help to try again.
    #[error("the graph's database cannot be used: {0}")]
    Unusable(String),
    /// The tables are of another version of Encke.
    #[error(transparent)]
    Schema(#[from] SchemaFault),
    /// A replica at that place cannot be brought up to date by changes.
    #[error(transparent)]
    Rebuild(#[from] Rebuild),
    /// What is stored contradicts itself.
    #[error("the graph in the database is damaged: {0}. Restore it from a backup, or load it anew")]
    Damaged(String),
}

/// The tables are of another version of Encke, or gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum SchemaFault {
    /// Made by a newer one.
    #[error(
        "the graph's tables are of a newer Encke (schema {found}, this one knows {known}): \
         upgrade this node"
    )]
    Newer {
        /// In the database.
        found: i32,
        /// The newest of this program.
        known: i32,
    },
    /// There are none, or older ones, and this user may not migrate.
    #[error(
        "the graph's tables are of an older Encke (schema {found}, this one needs {known}) and \
         this user may not change them: run `encke postgres migrate` as the schema's owner"
    )]
    Older {
        /// In the database; 0 where there are none.
        found: i32,
        /// What this program needs.
        known: i32,
    },
    /// There were some, and there are none any more.
    #[error(
        "the graph's tables are gone: restore the database, or make empty ones with \
         `encke postgres migrate`"
    )]
    Gone,
}

/// Why changes do not lead from the replica's place to the graph's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum Rebuild {
    /// Everything was replaced.
    #[error("the graph is another one: everything in it was replaced")]
    LineageChanged,
    /// The database was restored from a backup, or failed over and lost its end.
    #[error("the database is at version {theirs}, behind version {ours} that it was at")]
    Behind {
        /// The replica's version.
        ours: u64,
        /// The database's.
        theirs: u64,
    },
    /// As before, and it has gone on since.
    #[error("version {at} of the database is another one than it was")]
    Diverged {
        /// The replica's version.
        at: u64,
    },
    /// The replica was away for too long.
    #[error("the changes after version {ours} are no longer kept")]
    Pruned {
        /// The replica's version.
        ours: u64,
    },
}

/// Whether what failed may have been committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Doing {
    /// It only reads, or its transaction is still open.
    Nothing,
    /// A commit that may have been made.
    Commit,
}

impl PostgresError {
    /// What an error of the connection or of the server means.
    pub(crate) fn of(error: &tokio_postgres::Error, doing: Doing) -> PostgresError {
        let Some(db) = error.as_db_error() else {
            return PostgresError::lost(chain(error), doing);
        };
        let text = text(db);
        if doing == Doing::Commit && is_in_doubt(db) {
            return PostgresError::Unknown(text);
        }
        match db.code() {
            // Raised by our functions, whose message says all.
            code if code.code().starts_with("EK") => PostgresError::Refused(strip(&text)),
            &SqlState::LOCK_NOT_AVAILABLE => PostgresError::Away(format!(
                "another transaction holds the row of the graph's version ({text}); \
                 pg_stat_activity shows whose it is, or pg_prepared_xacts if it is prepared"
            )),
            &SqlState::INVALID_PASSWORD | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
                PostgresError::Unusable(format!("{text}; check user, password and pg_hba.conf"))
            }
            // The server's own hint is better: an owner is granted nothing that helps.
            &SqlState::INSUFFICIENT_PRIVILEGE if db.hint().is_some() => {
                PostgresError::Unusable(text)
            }
            &SqlState::INSUFFICIENT_PRIVILEGE => PostgresError::Unusable(format!(
                "{text}; grant it to this user, or use the user that owns the schema"
            )),
            &SqlState::INVALID_CATALOG_NAME => {
                PostgresError::Unusable(format!("{text}; create it: createdb --encoding=UTF8"))
            }
            &SqlState::UNDEFINED_TABLE
            | &SqlState::UNDEFINED_FUNCTION
            | &SqlState::UNDEFINED_COLUMN
            | &SqlState::INVALID_SCHEMA_NAME => PostgresError::Unusable(format!(
                "{text}; the graph's tables were changed or dropped: restore the database, or make \
                 empty ones with `encke postgres migrate`"
            )),
            // What a session has prepared is another one's, or nobody's.
            &SqlState::DUPLICATE_PSTATEMENT | &SqlState::INVALID_SQL_STATEMENT_NAME => {
                PostgresError::Away(format!(
                    "{text}; a pooler must give each client a connection of its own"
                ))
            }
            code if is_not_understood(code) => PostgresError::Unusable(text),
            // Deadlocks, time-outs, a full disk, too many connections: it was rolled back.
            _ => PostgresError::Away(text),
        }
    }

    /// The answer to a request did not come in time.
    pub(crate) fn late(after: Duration, doing: Doing) -> PostgresError {
        PostgresError::lost(format!("no answer within {} ms", after.as_millis()), doing)
    }

    fn lost(why: String, doing: Doing) -> PostgresError {
        match doing {
            Doing::Nothing => PostgresError::Away(why),
            Doing::Commit => PostgresError::Unknown(why),
        }
    }

    /// Whether another session is worth trying: the one that said this may be broken.
    pub(crate) fn ends_session(&self) -> bool {
        !matches!(self, PostgresError::Refused(_) | PostgresError::Rebuild(_))
    }
}

/// Whether this ends the connection, or its server's behind a pooler: it does not say whether a
/// commit that was under way was made.
fn is_in_doubt(db: &DbError) -> bool {
    let code = db.code().code();
    // A pooler says no other severity than in words.
    let is_fatal = matches!(db.severity(), "FATAL" | "PANIC")
        || matches!(db.parsed_severity(), Some(Severity::Fatal | Severity::Panic));
    is_fatal || code.starts_with("08") || code.starts_with("57P") || code == "40003"
}

/// Whether the server answers, and what it was asked is wrong: a feature that it has not, a value,
/// a role, the statement itself (classes of appendix A of PostgreSQL's manual).
fn is_not_understood(code: &SqlState) -> bool {
    ["0A", "22", "2B", "42"].iter().any(|class| code.code().starts_with(class))
}

fn text(db: &DbError) -> String {
    let hint = db.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
    format!("{}{hint} [{}]", db.message(), db.code().code())
}

/// Our own messages without the prefix for logs and the code.
fn strip(text: &str) -> String {
    let text = text.strip_prefix("encke: ").unwrap_or(text);
    text.rsplit_once(" [EK").map_or(text, |(text, _)| text).to_owned()
}

/// An error and what is behind it.
fn chain(error: &tokio_postgres::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = error.source();
    }
    text
}
