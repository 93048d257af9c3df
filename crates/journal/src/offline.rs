//! A log looked at from outside, also while a server has it open: nothing is locked or changed.
//!
//! Root looks at the log of the server's user, who may have put anything there: nothing but plain
//! files is read, and no link is followed.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};

use crate::disk::{RealFile, read_around};
use crate::format::Header;
use crate::record::RecordRead;
use crate::recovery::{Cut, Damage, Named, named};
use crate::scan::{Bounds, Scan, scan};
use crate::{Disk, DiskFile, OpenError, RealDisk};

/// What a log has, read from its first byte to its last.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Whether a process had it open.
    pub in_use: bool,
    /// Segments.
    pub segments: usize,
    /// Bytes of the segments.
    pub bytes: u64,
    /// Records.
    pub records: u64,
    /// The smallest number.
    pub first: Option<u64>,
    /// The greatest number.
    pub last: Option<u64>,
    /// What the next start would cut; of a log in use, what is being written.
    pub torn: Option<Cut>,
    /// Where records are lost.
    pub damaged: Vec<Damage>,
}

/// Reads all of a log and tells what it has and what is lost.
pub fn check(dir: &Path) -> Result<Report, OpenError> {
    walk(dir, &mut |_| {})
}

/// Gives all records of a log, oldest first, expired ones too; then what [`check`] tells.
///
/// Of a log in use it gives what is written when it comes to the last segment.
pub fn export(dir: &Path, visit: &mut dyn FnMut(RecordRead)) -> Result<Report, OpenError> {
    walk(dir, visit)
}

fn walk(dir: &Path, visit: &mut dyn FnMut(RecordRead)) -> Result<Report, OpenError> {
    let segments = named(RealDisk.list(dir)?);
    let mut report = Report { in_use: in_use(dir)?, ..Report::default() };
    // The last number that is known of, lost or not; nothing before the first segment counts.
    let mut last = None;
    for (at, segment) in segments.iter().enumerate() {
        let bytes = match read(&segment.path, u64::MAX) {
            Ok(bytes) => bytes,
            // The server dropped it meanwhile, and all before it: what was read of those says
            // nothing of a hole.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                last = None;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        report.segments += 1;
        report.bytes += bytes.len() as u64;
        let lost = &mut report.damaged;
        let next = segments.get(at + 1);
        let until = next.map(previous_of).transpose()?.flatten();
        let Some(header) = Header::read(&segment.path, &bytes)? else {
            if bytes.len() as u64 > crate::format::HEADER {
                // A name may be anything, and is believed as far as the next segment lets it.
                let first = until.unwrap_or(0).min(segment.first.saturating_sub(1));
                let after = last.unwrap_or(first);
                let end = until.unwrap_or(after).max(after);
                // Nobody knows up to where the last one went.
                let before = next.map_or(u64::MAX, |_| end.saturating_add(1));
                lost.push(damage(segment, (after, before)));
                last = Some(end);
            }
            continue;
        };
        if let Some(after) = last.filter(|last| *last < header.previous) {
            lost.push(damage(segment, (after, header.previous + 1)));
        }
        let next = next.map(|next| next.first);
        let bounds = Bounds { salt: header.salt, previous: header.previous, next, until };
        let found = scan(&bytes, bounds, &mut |_, record| {
            report.records += 1;
            report.first.get_or_insert(record.number);
            report.last = Some(record.number);
            visit(record.to_read());
        });
        last = Some(found.last);
        report.torn = torn(&segment.path, &found, bytes.len() as u64).filter(|_| next.is_none());
        report.damaged.extend(found.lost.iter().map(|lost| damage(segment, *lost)));
    }
    Ok(report)
}

/// The last number before a segment, if it is there and says so.
fn previous_of(segment: &Named) -> Result<Option<u64>, OpenError> {
    match read(&segment.path, crate::format::HEADER) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        head => Ok(Header::read(&segment.path, &head?)?.map(|header| header.previous)),
    }
}

/// All that a segment has now, or its first bytes: one that is written to would have more at each
/// read. What its disk cannot read counts as damaged.
fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    Ok(read_around(&file, file.len()?.min(most))?.bytes)
}

fn open(path: &Path) -> io::Result<RealFile> {
    RealFile::open(path, &mut OpenOptions::new())
}

fn damage(segment: &Named, (after, before): (u64, u64)) -> Damage {
    Damage { file: segment.path.clone(), after, before }
}

fn torn(file: &Path, found: &Scan, length: u64) -> Option<Cut> {
    let bytes = length.checked_sub(found.end).filter(|bytes| *bytes > 0)?;
    Some(Cut { file: PathBuf::from(file), bytes, after: found.last })
}

/// Whether a process holds the log's lock.
fn in_use(dir: &Path) -> io::Result<bool> {
    let lock = match open(&dir.join("lock")) {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    // Shared, so that two who look see each other not as a server; given back at once.
    match lock.file.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(std::fs::TryLockError::WouldBlock) => Ok(true),
        Err(std::fs::TryLockError::Error(error)) => Err(error),
    }
}
