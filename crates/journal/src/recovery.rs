//! The start: the last segment is read, of each other one the small tables; a torn tail is cut.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::OpenError;
use crate::disk::{Disk, DiskFile, ReadAround, read_around};
use crate::format::{HEADER, Header, index_path, new_salt, parse_name};
use crate::index::{Index, Summary};
use crate::scan::{Bounds, last_mark};
use crate::table::{OpenSegment, Sealed, Table};

/// What was in the directory.
#[derive(Debug, Default)]
pub struct Found {
    /// The smallest number that is kept.
    pub first: Option<u64>,
    /// The greatest number that is kept.
    pub last: Option<u64>,
    /// The torn tail that was cut.
    pub cut: Option<Cut>,
    /// Where records are lost.
    pub damaged: Vec<Damage>,
    /// The segment that was written last cannot be read: up to which number records are lost nobody
    /// knows.
    pub is_end_lost: bool,
}

/// A torn tail that was cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The segment's file.
    pub file: PathBuf,
    /// The bytes cut from its end.
    pub bytes: u64,
    /// The last number before them, or 0.
    pub after: u64,
}

/// A part of the log that is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The segment with the damage, or behind which a segment is gone.
    pub file: PathBuf,
    /// Records above this number are lost …
    pub after: u64,
    /// … and below this one.
    pub before: u64,
}

/// A segment's file and what its name and its header say.
pub(crate) struct Named {
    pub(crate) sequence: u32,
    pub(crate) first: u64,
    pub(crate) path: PathBuf,
}

/// The segments among the paths, oldest first.
pub(crate) fn named(paths: Vec<PathBuf>) -> Vec<Named> {
    let named = paths.into_iter().filter_map(|path| {
        let (sequence, first) = parse_name(&path)?;
        Some(Named { sequence, first, path })
    });
    let mut named: Vec<Named> = named.collect();
    named.sort_by_key(|named| named.sequence);
    named
}

struct Segment {
    named: Named,
    file: Arc<dyn DiskFile>,
    bytes: u64,
    header: Option<Header>,
    /// Why there is none, if its disk cannot read it.
    unread: Option<io::Error>,
}

/// What the writer goes on from.
pub(crate) struct Recovered {
    pub(crate) table: Table,
    pub(crate) found: Found,
    pub(crate) salt: u32,
    pub(crate) sequence: u32,
}

pub(crate) fn recover(dir: &Path, disk: &dyn Disk) -> Result<Recovered, OpenError> {
    let paths = disk.list(dir)?;
    remove_stray_indices(&paths, disk);
    let (mut segments, mut found) = open_all(named(paths), disk)?;
    if let Some(error) = segments.last_mut().and_then(|last| last.unread.take()) {
        // Numbers and the writer go on from it, and the disk may read it at the next try.
        return Err(error.into());
    }
    let mut table = Table::default();
    let mut salt = new_salt();
    let sequence = segments.last().map_or(0, |segment| segment.named.sequence);
    if let Some(oldest) = segments.first() {
        // A name may be anything, and is believed as far as the next segment lets it.
        let first = oldest.named.first.saturating_sub(1);
        let next = segments.get(1).and_then(|next| next.header);
        let unreadable = next.map_or(0, |next| next.previous.min(first));
        table.floor = oldest.header.map_or(unreadable, |header| header.previous);
        table.last = table.floor;
    }
    for (at, segment) in segments.iter().enumerate() {
        missing_before(segment, &mut table, &mut found);
        let Some(header) = segment.header else {
            unreadable(segment, segments.get(at + 1), &mut table, &mut found);
            continue;
        };
        match segments.get(at + 1) {
            Some(next) => {
                let sealed = sealed(segment, header, next, disk)?;
                let summary = &sealed.index().summary;
                take_over(summary, &segment.named.path, &mut table, &mut found);
                table.push(sealed);
            }
            None => {
                last(segment, header, disk, &mut table, &mut found)?;
                salt = header.salt;
            }
        }
    }
    found.first = table.first();
    let records = table.records() > 0;
    found.last = found.last.filter(|_| records);
    Ok(Recovered { table, found, salt, sequence })
}

fn remove_stray_indices(paths: &[PathBuf], disk: &dyn Disk) {
    let stray = paths.iter().filter(|path| {
        path.extension().is_some_and(|extension| extension == "idx")
            && !paths.contains(&path.with_extension("log"))
    });
    // Best effort: the next start tries again.
    stray.for_each(|path| drop(disk.remove(path)));
}

/// Opens the segments. One whose making was cut off has no record and goes.
fn open_all(named: Vec<Named>, disk: &dyn Disk) -> Result<(Vec<Segment>, Found), OpenError> {
    let mut segments: Vec<Segment> = Vec::new();
    let mut found = Found::default();
    for named in named {
        let file = disk.open(&named.path)?;
        let bytes = file.len()?;
        let head = read_around(&*file, bytes.min(HEADER))?;
        let header = Header::read(&named.path, &head.bytes)?;
        let unread = head.unread.map(|(_, error)| error);
        if header.is_none() && unread.is_none() && bytes <= HEADER {
            disk.remove(&named.path)?;
            if bytes > 0 {
                let after = named.first.saturating_sub(1);
                found.cut = Some(Cut { file: named.path, bytes, after });
            }
            continue;
        }
        segments.push(Segment { named, file, bytes, header, unread });
    }
    Ok((segments, found))
}

/// Whether numbers before the segment are in none that is there.
fn missing_before(segment: &Segment, table: &mut Table, found: &mut Found) {
    let Some(header) = segment.header.filter(|header| header.previous > table.last) else { return };
    lose(table, found, &segment.named.path, (table.last, header.previous.saturating_add(1)));
    table.last = header.previous;
}

fn lose(table: &mut Table, found: &mut Found, path: &Path, (after, before): (u64, u64)) {
    table.floor = table.floor.max(before - 1);
    found.damaged.push(Damage { file: path.to_owned(), after, before });
}

/// Both copies of the header are damaged, or the disk cannot read them. Nothing in it is read, and
/// its file goes with the next one's age. No number is taken from its name: the next ones may be
/// smaller.
fn unreadable(segment: &Segment, next: Option<&Segment>, table: &mut Table, found: &mut Found) {
    let named = &segment.named;
    let last = next.and_then(|next| next.header).map_or(table.last, |header| header.previous);
    let last = last.max(table.last);
    match next {
        Some(_) => lose(table, found, &named.path, (table.last, last.saturating_add(1))),
        None => {
            found.is_end_lost = true;
            let (file, after) = (named.path.clone(), table.last);
            found.damaged.push(Damage { file, after, before: u64::MAX });
        }
    }
    let (end, first) = (segment.bytes, last);
    // Without a record that is one of which nothing is known.
    let summary = Summary { end, first, last, expires_ms: u64::MAX, ..Summary::default() };
    let bytes = Index::encode(&summary, std::iter::empty(), Vec::new());
    let index = Index::in_memory(bytes).expect("what was just encoded is whole");
    let id = (named.sequence, named.path.clone());
    table.push(Sealed::new(id, Arc::clone(&segment.file), 0, index));
    table.last = last;
}

fn sealed(
    segment: &Segment,
    header: Header,
    next: &Segment,
    disk: &dyn Disk,
) -> Result<Sealed, OpenError> {
    let path = &segment.named.path;
    let previous = next.header.map(|header| header.previous);
    let loaded =
        disk.open(&index_path(path)).ok().and_then(|file| Index::load(file).ok().flatten());
    let fits = |index: &Index| {
        let summary = &index.summary;
        summary.end <= segment.bytes && previous.is_none_or(|previous| previous == summary.last)
    };
    match loaded.filter(fits) {
        Some(index) => {
            let id = (segment.named.sequence, path.clone());
            Ok(Sealed::new(id, Arc::clone(&segment.file), header.salt, index))
        }
        None => {
            let ReadAround { bytes, unread } = read_around(&*segment.file, segment.bytes)?;
            let mut open = scanned(segment, &bytes, header, Some(next));
            if unread.is_none() {
                return Ok(open.seal(disk));
            }
            if open.summary.records == 0 {
                // As of one without a header: nobody knows how long it is to stay.
                open.summary.expires_ms = u64::MAX;
            }
            Ok(open.seal_for_now())
        }
    }
}

fn take_over(summary: &Summary, path: &Path, table: &mut Table, found: &mut Found) {
    summary.lost.iter().for_each(|lost| lose(table, found, path, *lost));
    table.last = summary.last;
    if summary.records > 0 {
        found.last = Some(summary.last);
    }
}

fn scanned(segment: &Segment, bytes: &[u8], header: Header, next: Option<&Segment>) -> OpenSegment {
    let named = &segment.named;
    let id = (named.sequence, named.path.clone());
    let summary = Summary { first: named.first, ..Summary::default() };
    let mut open = OpenSegment::new(id, Arc::clone(&segment.file), header.salt, summary);
    let until = next.and_then(|next| next.header).map(|header| header.previous);
    let next = next.map(|next| next.named.first);
    let bounds = Bounds { salt: header.salt, previous: header.previous, next, until };
    open.fill(bytes, bounds);
    open
}

/// Has on disk what is read of the segment that was written last. Of a process that was killed the
/// kernel may hold what is not there yet. After a sync that failed it holds what no other sync
/// would bring there, so that is written once more. Whether the disk had room for that: a full one
/// is no reason not to start.
fn store_again(segment: &Segment, bytes: &[u8], header: Header) -> io::Result<bool> {
    // A mark is written when all before it is on disk.
    let from = last_mark(bytes, 0, header.salt).unwrap_or(0);
    let written = segment.file.write_at(&bytes[from..], from as u64);
    unless_full(written.and_then(|()| segment.file.sync()))
}

/// Whether it was done; a disk that has no room for it is no error.
fn unless_full(done: io::Result<()>) -> io::Result<bool> {
    match done {
        Ok(()) => Ok(true),
        Err(error) => match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Ok(false),
            _ => Err(error),
        },
    }
}

/// The segment that was written last: the writer goes on in it.
fn last(
    segment: &Segment,
    header: Header,
    disk: &dyn Disk,
    table: &mut Table,
    found: &mut Found,
) -> Result<(), OpenError> {
    let path = &segment.named.path;
    // It grows again, so an index that is there is out of date soon.
    let _ = disk.remove(&index_path(path));
    let ReadAround { mut bytes, unread } = read_around(&*segment.file, segment.bytes)?;
    if let Some((end, error)) = unread {
        // Before the last mark it is damage. Behind it would count as a torn tail, and be cut off.
        let marked = last_mark(&bytes, 0, header.salt).map_or(0, |mark| mark as u64);
        if end > marked {
            return Err(error.into());
        }
    }
    let open = scanned(segment, &bytes, header, None);
    let (end, after) = (open.summary.end, open.summary.last);
    if end < segment.bytes {
        segment.file.cut(end)?;
        found.cut = Some(Cut { file: path.clone(), bytes: segment.bytes - end, after });
    }
    bytes.resize(end as usize, 0);
    // One of its copies may be damaged, or not be there.
    bytes[..HEADER as usize].copy_from_slice(&header.bytes());
    let is_stored = store_again(segment, &bytes, header)?;
    if let Some(dir) = path.parent() {
        unless_full(disk.sync_dir(dir))?;
    }
    take_over(&open.summary, path, table, found);
    if is_stored {
        table.open = Some(open);
    } else {
        // What is written from now on is behind no hole of it.
        table.push(open.seal(disk));
    }
    Ok(())
}
