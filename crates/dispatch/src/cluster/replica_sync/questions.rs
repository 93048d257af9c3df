//! What PostgreSQL is asked, and what comes of it.

use anyhow::Result;
use graph::replica::Built;
use postgres::{Page, PostgresError};

use super::super::compare::Compared;

/// What PostgreSQL is asked for, each once at a time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Question {
    Version,
    Change(u64),
    Changes,
    All,
    Check,
}

/// What came of a question.
pub(super) enum Answer {
    Page(Question, Result<Page, PostgresError>),
    Built(Result<Built>),
    Compared(Result<Compared>),
}
