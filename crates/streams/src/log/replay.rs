//! What the log has, brought into the files, and the files brought to the disk.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use sys::plain_file;

use super::FILES;
use super::segment::{self, Entry, Generation, Segment, entries};
use crate::disk;
use crate::file::{self, FileName, Reader};
use crate::links;
use crate::long_reads::LongReads;
use crate::refusal::Refusal;

/// Threads that sync files at one time at most: a file system joins what they ask for. One in
/// tests, whose disk fails by thread.
const SYNC_THREADS: usize = if cfg!(test) { 1 } else { 16 };

/// Files for which there is one more than two of them where nobody waits: appends want the disk
/// meanwhile, and the other half of the log has room for seconds.
const FILES_PER_THREAD: usize = 512;

/// How much of a file is compared and written at once.
const RUN_BYTES: usize = 256 << 10;

/// Both halves, the older one first, and where each ends.
pub(super) type HalfEnds = [(usize, u64); 2];

/// Whether somebody waits for files to be synced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Haste {
    AtOnce,
    Leisurely,
}

/// Brings what a process before this one has left in the log below `dir` into the files, has them
/// on disk, and empties the log. The number of its last generation.
///
/// # Errors
/// The disk fails.
pub(crate) fn settle(dir: &Path) -> io::Result<u64> {
    let read = |name: &str| match plain_file::read(&dir.join(name)) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    };
    let halves = [read(FILES[0])?, read(FILES[1])?];
    let generations = [0, 1].map(|half| segment::read(&halves[half], 0).generation);
    let mut segments = [0, 1].map(|half| segment::read(&halves[half], generations[1 - half]));
    for (segment, name) in segments.iter().zip(FILES) {
        if let Some(at) = segment.damaged_at {
            tracing::error!(
                "{} is damaged at byte {at}: durable streams may lack appends of the last seconds \
                 before the end of the machine",
                dir.join(name).display()
            );
        }
    }
    segments.sort_by_key(|segment| segment.generation);
    let names = apply(dir, &segments)?;
    sync_files(dir, &names, Haste::AtOnce)?;
    let last = segments[1].generation;
    // Or it has none, and a start makes none.
    if halves.iter().any(|half| !half.is_empty()) {
        let open = |name| plain_file::open(&dir.join(name), writable().create(true));
        empty(&[open(FILES[0])?, open(FILES[1])?], last)?;
    }
    Ok(last + 2)
}

/// How a half is opened.
pub(super) fn writable() -> fs::OpenOptions {
    let mut options = File::options();
    options.read(true).write(true).truncate(false);
    options
}

/// Has both halves begin anew, without an entry; the generation of the second one.
pub(super) fn empty(halves: &[File; 2], last: u64) -> io::Result<Generation> {
    let new = [Generation::new(last + 1), Generation::new(last + 2)];
    for (half, generation) in halves.iter().zip(new) {
        disk::write_at(half, &generation.begin(), 0)?;
        disk::sync(half)?;
    }
    Ok(new[1])
}

/// Brings what segments have, the older one first, into the files below `dir`. Those of streams
/// that were deleted since are passed over. The names of all that are there.
///
/// What a file has already is written once more: the kernel may take for written what a sync has
/// failed to write, also one of a process that has ended since.
pub(super) fn apply(dir: &Path, segments: &[Segment<'_>]) -> io::Result<Names> {
    let mut by_name = BTreeMap::<FileName, Vec<Entry<'_>>>::new();
    for group in segments.iter().flat_map(|segment| &segment.groups) {
        for entry in entries(group) {
            by_name.entry(entry.name).or_default().push(entry);
        }
    }
    let long_reads = LongReads::new();
    for (name, entries) in &by_name {
        if let Some(file) = open(dir, name, true)? {
            let applied = apply_to(&file, entries, &long_reads);
            applied.map_err(|error| named(dir, name, error))?;
        }
    }
    Ok(by_name.into_keys().collect())
}

pub(super) type Names = Vec<FileName>;

fn apply_to(file: &File, entries: &[Entry<'_>], long_reads: &LongReads) -> io::Result<()> {
    let id = match file::id(file, long_reads) {
        Ok(id) => id,
        Err(Refusal::Disk(error)) => return Err(error),
        // It is told to who asks for the stream.
        Err(_) => return Ok(()),
    };
    let metadata = file.metadata()?;
    let (mut len, mut used_ms) = (metadata.len(), file::changed_ms(&metadata)?);
    let mut is_written = false;
    let own = Vec::from_iter(entries.iter().filter(|entry| entry.id == id));
    let (mut rest, mut run_bytes) = (&own[..], RUN_BYTES);
    while let Some(entry) = rest.first() {
        // As a rule the file has all of it: a process before this one has ended, not the machine.
        let (same, count) = same(file, rest, (len, run_bytes))?;
        if count > 0 {
            disk::write_at(file, &same, entry.position)?;
        } else if is_of_file(file, entry, len, long_reads)? {
            disk::write_at(file, entry.bytes, entry.position)?;
            len = len.max(entry.position + entry.bytes.len() as u64);
            // It has lost something, so what follows is looked at one by one.
            run_bytes = 0;
        } else {
            // What the log has behind it is none of the file's, either.
            break;
        }
        is_written = true;
        let (written, left) = rest.split_at(count.max(1));
        used_ms = written.iter().map(|entry| entry.at_ms).fold(used_ms, u64::max);
        rest = left;
    }
    if is_written {
        // The time of change is the last use.
        file.set_modified(UNIX_EPOCH + Duration::from_millis(used_ms))?;
    }
    Ok(())
}

/// The bytes that a file has as the first of these entries do, one behind the other, some
/// `run_bytes` of them, and how many entries that are.
fn same(
    file: &File,
    entries: &[&Entry<'_>],
    (len, run_bytes): (u64, usize),
) -> io::Result<(Vec<u8>, usize)> {
    let mut bytes = Vec::new();
    let mut count = 0;
    for entry in entries {
        let end = entries[0].position + bytes.len() as u64;
        if entry.position != end || bytes.len() >= run_bytes {
            break;
        }
        if end + entry.bytes.len() as u64 > len {
            break;
        }
        bytes.extend_from_slice(entry.bytes);
        count += 1;
    }
    let mut found = vec![0; bytes.len()];
    file.read_exact_at(&mut found, entries[0].position)?;
    let is_same = found == bytes;
    Ok(if is_same { (bytes, count) } else { (Vec::new(), 0) })
}

/// Whether an entry is what its file has lost of it.
fn is_of_file(
    file: &File,
    entry: &Entry<'_>,
    len: u64,
    long_reads: &LongReads,
) -> io::Result<bool> {
    if entry.position > len {
        let (dir, rest) = (entry.name[0], entry.name[1]);
        let missing = entry.position - len;
        tracing::error!(
            "the durable stream whose file is {dir:02x}/{rest:02x}… lacks {missing} bytes before \
             what the log has of it: put a backup of the file in its place"
        );
        return Ok(false);
    }
    Ok(!is_other(file, entry, len, long_reads)?)
}

/// Whether another whole record is in the place of an entry: then a version that knows no log has
/// appended that since.
fn is_other(file: &File, entry: &Entry<'_>, len: u64, long_reads: &LongReads) -> io::Result<bool> {
    let mut found = vec![0; entry.bytes.len()];
    if entry.position + found.len() as u64 <= len {
        file.read_exact_at(&mut found, entry.position)?;
        if found == entry.bytes {
            return Ok(false);
        }
    }
    match Reader::between(file, (entry.position, len), Some(long_reads)).next() {
        Ok(record) => Ok(record.is_some()),
        Err(Refusal::Disk(error)) => Err(error),
        Err(_) => Ok(false),
    }
}

fn named(dir: &Path, name: &FileName, error: io::Error) -> io::Error {
    file::named(&file::file_named(dir, name), error)
}

/// The file of this name, also of a stream that was deleted and is needed by forks.
fn open(dir: &Path, name: &FileName, writes: bool) -> io::Result<Option<File>> {
    let file = file::file_named(dir, name);
    let gone = links::gone(&file);
    for path in [file, gone] {
        match plain_file::open(&path, File::options().read(true).write(writes)) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(file::named(&path, error)),
            Ok(opened) => return Ok(Some(opened)),
        }
    }
    Ok(None)
}

/// Syncs the files of these names, as far as they are there.
pub(super) fn sync_files(dir: &Path, names: &[FileName], haste: Haste) -> io::Result<()> {
    let next = AtomicUsize::new(0);
    let work = || {
        // Relaxed: each number is taken by one thread, and nothing else depends on it.
        while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Some(file) = open(dir, name, false)? {
                disk::sync(&file).map_err(|error| named(dir, name, error))?;
            }
        }
        Ok(())
    };
    let wanted = match haste {
        Haste::AtOnce => SYNC_THREADS,
        Haste::Leisurely => 2 + names.len() / FILES_PER_THREAD,
    };
    let threads = wanted.min(SYNC_THREADS).min(names.len());
    if threads <= 1 {
        return work();
    }
    thread::scope(|scope| {
        let working: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let panicked = || io::Error::other("a thread that syncs files came to grief");
        working.into_iter().try_for_each(|one| one.join().unwrap_or_else(|_| Err(panicked())))
    })
}
