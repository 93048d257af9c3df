//! A log looked at from outside, also while a server has it open: nothing is locked or changed.

use std::path::Path;

use hub::Event;
use journal::{OpenError, RecordRead, Report};

use crate::{now_ms, record};

/// An event of a log that is read from its first to its last.
#[derive(Debug)]
pub struct Kept {
    /// The event.
    pub event: Event<()>,
    /// When it was sent, in milliseconds since 1970.
    pub at_ms: u64,
    /// Whether its time is over: it is not answered any more.
    pub has_expired: bool,
}

/// Reads all of the log in `dir`, and tells what it has and what is lost.
///
/// # Errors
///
/// It cannot be read, or a newer version wrote it.
pub fn check(dir: &Path) -> Result<Report, OpenError> {
    journal::check(dir)
}

/// Gives all events of the log in `dir` in their order, and then tells what [`check`] does.
///
/// # Errors
///
/// As [`check`].
pub fn export(dir: &Path, visit: &mut dyn FnMut(Kept)) -> Result<Report, OpenError> {
    let now_ms = now_ms();
    journal::export(dir, &mut |read: RecordRead| {
        let (at_ms, has_expired) = (read.at_ms, read.expires_ms <= now_ms);
        // What is no event was not written by an archive.
        if let Some(event) = record::read(&read) {
            visit(Kept { event, at_ms, has_expired });
        }
    })
}
