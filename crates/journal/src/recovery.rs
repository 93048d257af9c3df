//! The start: every segment is read once, a torn tail is cut, damage is told.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::OpenError;
use crate::disk::{Disk, DiskFile};
use crate::record::decode;
use crate::table::{Place, Segment, Table};

pub(crate) const HEADER: u64 = 16;
const MAGIC: &[u8; 8] = b"ENCKELOG";
const VERSION: u32 = 1;

/// What was in the directory.
#[derive(Debug, Default)]
pub struct Found {
    /// The smallest number that is kept.
    pub first: Option<u64>,
    /// The greatest number that is kept.
    pub last: Option<u64>,
    /// The torn tail that was cut.
    pub cut: Option<Cut>,
    /// Segments of which a part cannot be read.
    pub damaged: Vec<Damage>,
}

/// A torn tail that was cut.
#[derive(Debug, PartialEq, Eq)]
pub struct Cut {
    /// The segment's file.
    pub file: PathBuf,
    /// The bytes cut from its end.
    pub bytes: u64,
    /// The last number before them, or 0.
    pub after: u64,
}

/// A segment of which a part is lost.
#[derive(Debug, PartialEq, Eq)]
pub struct Damage {
    /// The segment's file.
    pub file: PathBuf,
    /// Records above this number are lost …
    pub after: u64,
    /// … and below this one.
    pub before: u64,
}

pub(crate) fn header() -> [u8; HEADER as usize] {
    let mut bytes = [0; HEADER as usize];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    let sum = crc32fast::hash(&bytes[..12]);
    bytes[12..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

pub(crate) fn name(sequence: u32, first: u64) -> String {
    format!("{sequence:010}-{first:020}.log")
}

fn parse(path: &Path) -> Option<(u32, u64)> {
    let (sequence, first) = path.file_name()?.to_str()?.strip_suffix(".log")?.split_once('-')?;
    Some((sequence.parse().ok()?, first.parse().ok()?))
}

/// Whether the bytes begin with a whole header; a newer format is an error.
fn has_header(path: &Path, bytes: &[u8]) -> Result<bool, OpenError> {
    let Some(head) = bytes.get(..HEADER as usize) else { return Ok(false) };
    let sum = crc32fast::hash(&head[..12]).to_le_bytes();
    if head[..8] != *MAGIC || head[12..] != sum {
        return Ok(false);
    }
    match head[8..12] == VERSION.to_le_bytes() {
        true => Ok(true),
        false => Err(OpenError::Format { file: path.to_owned() }),
    }
}

pub(crate) fn recover(dir: &Path, disk: &dyn Disk) -> Result<(Table, Found), OpenError> {
    let mut files: Vec<(u32, u64, PathBuf)> = disk
        .list(dir)?
        .into_iter()
        .filter_map(|path| parse(&path).map(|(sequence, first)| (sequence, first, path)))
        .collect();
    files.sort();
    let mut table = Table::default();
    let mut found = Found::default();
    if let Some((_, first, _)) = files.first() {
        table.floor = first.saturating_sub(1);
    }
    for (at, (sequence, _, path)) in files.iter().enumerate() {
        let next = files.get(at + 1).map(|(_, first, _)| *first);
        let file = disk.open(path)?;
        let mut bytes = vec![0; file.len()? as usize];
        file.read_at(&mut bytes, 0)?;
        let whole = has_header(path, &bytes)?;
        let segment = Segment {
            file: Arc::clone(&file),
            path: path.clone(),
            last: found.last.unwrap_or(0),
            bytes: bytes.len() as u64,
            expires_ms: 0,
        };
        table.segments.insert(*sequence, segment);
        let end = match whole {
            true => scan(&mut table, &mut found, (*sequence, next), &bytes),
            false => 0,
        };
        if end < bytes.len() as u64 {
            let after = found.last.unwrap_or(0);
            match next {
                Some(before) => found.damaged.push(Damage { file: path.clone(), after, before }),
                None => found.cut = Some(cut(path, &*file, (end, bytes.len() as u64), after)?),
            }
        }
        if next.is_none() {
            // Of a process that was killed the kernel may hold what is not on disk yet.
            file.sync()?;
        }
        if let Some(segment) = table.segments.get_mut(sequence) {
            segment.bytes = if next.is_some() { bytes.len() as u64 } else { end };
        }
    }
    for damage in &found.damaged {
        table.floor = table.floor.max(damage.before.saturating_sub(1));
    }
    Ok((table, found))
}

/// Puts the records of a segment into the table; where the whole ones end.
fn scan(
    table: &mut Table,
    found: &mut Found,
    (segment, next): (u32, Option<u64>),
    bytes: &[u8],
) -> u64 {
    let mut at = HEADER as usize;
    while let Some((record, length)) = decode(&bytes[at..]) {
        // What a failed sync left here is written again in the next segment.
        if next.is_some_and(|next| record.number >= next) {
            return bytes.len() as u64;
        }
        if found.last.is_some_and(|last| record.number <= last) {
            break;
        }
        let number = record.number;
        let place = Place { number, segment, offset: at as u64, bytes: length as u32 };
        table.insert(&record, place);
        found.first.get_or_insert(number);
        found.last = Some(number);
        at += length;
    }
    at as u64
}

fn cut(
    path: &Path,
    file: &dyn DiskFile,
    (end, length): (u64, u64),
    after: u64,
) -> Result<Cut, OpenError> {
    file.cut(end)?;
    file.sync()?;
    Ok(Cut { file: path.to_owned(), bytes: length - end, after })
}
