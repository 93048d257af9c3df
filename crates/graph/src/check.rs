//! What is wrong with a store that nobody uses.

use std::io::ErrorKind;
use std::path::Path;

use super::error::{OpenError, OpenReason};
use super::lock::DirectoryLock;
use super::map::{data_file, refuse_links};
use super::marker::Recorded;
use super::pages::Findings;
use super::verify::{Content, Verify};

/// Findings that are told in words; all are counted.
const NAMED_MAX: usize = 20;

/// What a check found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Check {
    /// Sentences about what is damaged, the first ones; empty when all is well.
    pub findings: Vec<String>,
    /// How many there are.
    pub findings_total: u64,
    /// Stored pairs, when all is well.
    pub subscriptions: Option<u64>,
    /// Bytes of the store's file.
    pub disk_bytes: u64,
}

/// Looks at all of the store in `dir`, and changes nothing in it. `progress` hears now and then how
/// many of the subscriptions it has seen, in either direction, and of how many.
///
/// An error means that there is nothing to look at: no store, one of another program or version,
/// one in use.
pub fn check(dir: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<Check, OpenError> {
    let fail = |reason| OpenError { dir: dir.to_owned(), reason };
    let _lock = lock(dir).map_err(fail)?;
    look(dir, progress).map_err(fail)
}

fn look(dir: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<Check, OpenReason> {
    refuse_links(dir)?;
    let recorded = Recorded::read(dir)?;
    let path = data_file(dir);
    let disk_bytes = match path.metadata() {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == ErrorKind::NotFound && recorded != Recorded::Nothing => 0,
        Err(error) => return Err(OpenReason::Directory(error)),
    };
    let (mut findings, mut content) = (Findings::all(NAMED_MAX), Some(Content::New));
    if disk_bytes > 0 {
        content = Verify { findings: &mut findings, pairs: true, progress }.file(&path)?;
    }
    let found = match content {
        Some(Content::Store(_, marker)) => Some(marker),
        _ => None,
    };
    if content.is_some()
        && let Err(reason) = recorded.admits(found)
    {
        // One that lists all there is does not stop.
        let _ = findings.note(reason.to_string());
    }
    let subscriptions = found.map_or(0, |marker| marker.subscriptions);
    Ok(Check {
        subscriptions: (findings.count == 0).then_some(subscriptions),
        findings: findings.first,
        findings_total: findings.count,
        disk_bytes,
    })
}

/// Where nothing may be written, nobody else writes either.
fn lock(dir: &Path) -> Result<Option<DirectoryLock>, OpenReason> {
    match DirectoryLock::take(dir) {
        Err(OpenReason::Directory(error))
            if matches!(
                error.kind(),
                ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied
            ) =>
        {
            Ok(None)
        }
        taken => taken.map(Some),
    }
}
