//! The file of one stream: made whole or not at all, and appended to by whole records.
//!
//! One record at a time is on its way to the disk, so only the last one of a file can be torn. It
//! was never acknowledged, and is cut off. A record that is wrong anywhere else is damage. So only
//! the last one may be read and not be on disk, too: whoever finds it writes it once more.
//!
//! The time of change of a file is the last use of its stream, for `Stream-TTL`. A live read dates
//! it when it begins.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sys::plain_file;

use crate::disk::{self, Doubt};
use crate::lifetime::Lifetime;
use crate::lineage::Lineage;
use crate::links::NEW;
use crate::long_reads::{LONG_BYTES, LongRead, LongReads};
#[cfg(test)]
pub(crate) use crate::names::file_of;
pub(crate) use crate::names::{DIRECTORIES, FileName, directory, file_name, file_named, named};
use crate::record::{self, BODY_BYTES_MAX, FIRST, Found, HEAD_BYTES, MAGIC, Record};
use crate::refusal::Refusal;
use crate::state::State;

/// What a disk writes as a whole, or a multiple of it.
const SECTOR_BYTES: u64 = 512;

/// How much is read at once.
const READ_BYTES: usize = 64 * 1024;

/// What does not change of a stream.
#[derive(Debug)]
pub(crate) struct Meta {
    /// Its own number, which no other stream of its path has.
    pub(crate) id: u64,
    pub(crate) content_type: Arc<str>,
    pub(crate) lifetime: Lifetime,
    /// What it has of other streams, if it is a fork.
    pub(crate) lineage: Option<Lineage>,
}

/// What a file says.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) meta: Meta,
    pub(crate) state: State,
    /// Where its last record ends.
    pub(crate) tail: u64,
    /// When it may have been used last.
    pub(crate) touched_ms: u64,
}

/// Makes `file` with its first record; where it ends.
pub(crate) fn create(file: &Path, record: &Record<'_>, doubt: &Doubt) -> Result<u64, Refusal> {
    let mut bytes = MAGIC.to_vec();
    record.write(&mut bytes);
    let unfinished = file.with_extension(NEW);
    let named = (|| {
        let mut made = plain_file::create(&unfinished, 0o644)?;
        made.write_all(&bytes)?;
        disk::sync_new(&made)?;
        fs::rename(&unfinished, file)
    })();
    if let Err(error) = named {
        // What is left of it is removed at the next start, too.
        let _ = fs::remove_file(&unfinished);
        return Err(error.into());
    }
    if let Err(error) = doubt.raise_by(doubt.sync_directory_of(file)) {
        let is_gone = fs::remove_file(file).and_then(|()| doubt.sync_directory_of(file)).is_ok();
        return Err(if is_gone { error.into() } else { Refusal::Unsure(error) });
    }
    Ok(bytes.len() as u64)
}

/// Writes a record into `file` at its `tail`, and leaves it to others to have it on disk.
pub(crate) fn write(file: &File, tail: u64, bytes: &[u8], doubt: &Doubt) -> Result<(), Refusal> {
    if let Err(error) = disk::write_at(file, bytes, tail) {
        doubt.raise();
        // A part of it never is there at the next start.
        let _ = disk::cut(file, tail);
        return Err(error.into());
    }
    Ok(())
}

/// Syncs a record that was written into `file` at its `tail`.
pub(crate) fn sync(file: &File, tail: u64, doubt: &Doubt) -> Result<(), Refusal> {
    doubt.raise_by(disk::sync(file)).map_err(|error| match cut_off(file, tail, doubt) {
        Ok(()) => error.into(),
        Err(_) => Refusal::Unsure(error),
    })
}

/// Cuts off what was not acknowledged, and is not to be there at the next start. Of all of a record
/// nobody knows unless this succeeds: it is a repeat then for a producer that sends it again.
pub(crate) fn cut_off(file: &File, tail: u64, doubt: &Doubt) -> io::Result<()> {
    doubt.raise_by(disk::cut(file, tail).and_then(|()| disk::sync(file)))
}

/// Opens `file` to be read.
pub(crate) fn open(file: &Path) -> io::Result<File> {
    plain_file::open(file, File::options().read(true))
}

/// Notes that the stream in `file` was used at `now_ms`.
pub(crate) fn touch(file: &Path, now_ms: u64) -> io::Result<()> {
    let time = UNIX_EPOCH + Duration::from_millis(now_ms);
    plain_file::open(file, File::options().write(true))?.set_modified(time)
}

/// Reads all of `file`; nothing where there is none. A torn record at its end is cut off. If the
/// file is in `doubt`, its end is on disk when this is done.
pub(crate) fn load(
    file: &Path,
    doubt: &Doubt,
    long_reads: &LongReads,
) -> Result<Option<Loaded>, Refusal> {
    let opened = match plain_file::open(file, File::options().read(true).write(true)) {
        Ok(opened) => opened,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let touched_ms = modified_ms(&opened)?;
    let meta = meta(&opened, long_reads)?;
    let mut state = State::new(&meta.content_type);
    let Ends { last, tail, len } = apply_all(&opened, &mut state, long_reads)?;
    if tail < len {
        tracing::warn!(
            "{}: {} bytes behind byte {tail} were not written to their end, or are damaged, and \
             are cut off",
            file.display(),
            len - tail
        );
    }
    if tail < len || doubt.is_in(touched_ms) {
        let cut = || if tail < len { disk::cut(&opened, tail) } else { Ok(()) };
        doubt.raise_by(cut().and_then(|()| store_again(&opened, (last, tail))))?;
        doubt.raise_by(doubt.sync_directory_of(file))?;
        if let Lifetime::Ttl(_) = meta.lifetime {
            touch(file, touched_ms)?;
        }
    }
    let touched_ms = meta.lifetime.used_ms(touched_ms);
    Ok(Some(Loaded { meta, state, tail, touched_ms }))
}

/// What the first record of a file says.
fn meta(opened: &File, long_reads: &LongReads) -> Result<Meta, Refusal> {
    match Reader::open(opened, long_reads)?.next()? {
        Some(Record::Create { id, create, lineage, .. }) => Ok(Meta {
            id,
            content_type: create.content_type.into(),
            lifetime: create.lifetime,
            lineage,
        }),
        // It is made whole, or not at all.
        Some(Record::Append(_)) | None => Err(Refusal::Damaged(FIRST)),
    }
}

/// Where the last record of a file begins and ends, and the file.
struct Ends {
    last: u64,
    tail: u64,
    len: u64,
}

fn apply_all(opened: &File, state: &mut State, long_reads: &LongReads) -> Result<Ends, Refusal> {
    let mut reader = Reader::open(opened, long_reads)?;
    let mut last = FIRST;
    loop {
        let begun = reader.position;
        let Some(record) = reader.next()? else {
            return Ok(Ends { last, tail: reader.position, len: reader.len });
        };
        state.apply(&record);
        last = begun;
    }
}

/// Has the last record of a file on disk as it is read. Of a process that was killed the kernel may
/// hold what is not there yet. After a sync that failed it holds what no other sync would bring
/// there: it counts as written.
fn store_again(file: &File, (last, tail): (u64, u64)) -> io::Result<()> {
    let mut position = last;
    let mut buffer = [0; READ_BYTES];
    while position < tail {
        let piece = &mut buffer[..READ_BYTES.min((tail - position) as usize)];
        file.read_exact_at(piece, position)?;
        disk::write_at(file, piece, position)?;
        position += piece.len() as u64;
    }
    disk::sync(file)
}

/// The number of the stream in an open file.
pub(crate) fn id(opened: &File, long_reads: &LongReads) -> Result<u64, Refusal> {
    meta(opened, long_reads).map(|meta| meta.id)
}

/// The number and the path of the stream in `file`, by its first record alone.
pub(crate) fn name(file: &Path, long_reads: &LongReads) -> Result<(u64, Box<str>), Refusal> {
    let opened = open(file)?;
    let mut reader = Reader::open(&opened, long_reads)?;
    match reader.next()? {
        Some(Record::Create { id, path, .. }) => Ok((id, path.into())),
        Some(Record::Append(_)) | None => Err(Refusal::Damaged(FIRST)),
    }
}

/// The path of the stream in `file`, if its lifetime is over at `now_ms`, by its first record.
pub(crate) fn path_if_over(
    file: &Path,
    now_ms: u64,
    long_reads: &LongReads,
) -> Result<Option<Box<str>>, Refusal> {
    let opened = open(file)?;
    let touched_ms = modified_ms(&opened)?;
    let mut reader = Reader::open(&opened, long_reads)?;
    Ok(match reader.next()? {
        Some(Record::Create { path, create, .. }) => {
            let end = create.lifetime.end_ms(create.lifetime.used_ms(touched_ms));
            end.is_some_and(|end| end <= now_ms).then(|| path.into())
        }
        Some(Record::Append(_)) | None => None,
    })
}

fn modified_ms(file: &File) -> io::Result<u64> {
    changed_ms(&file.metadata()?)
}

/// When a file was last changed, in milliseconds since 1970.
pub(crate) fn changed_ms(metadata: &fs::Metadata) -> io::Result<u64> {
    let since = metadata.modified()?.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Ok(since.as_millis() as u64)
}

/// Reads a file from record to record. As long as it has room for a long one it has a permit.
pub(crate) struct Reader<'f> {
    file: &'f File,
    /// Where the next record begins.
    pub(crate) position: u64,
    /// Where what is read ends.
    len: u64,
    buffer: Vec<u8>,
    /// How much of the buffer was read before.
    used: usize,
    /// Where it waits for its permit. Long records are refused without that.
    long_reads: Option<&'f LongReads>,
    /// Behind the buffer, which is freed first.
    permit: Option<LongRead<'f>>,
}

impl<'f> Reader<'f> {
    /// From the first record on, to the end of the file.
    fn open(file: &'f File, long_reads: &'f LongReads) -> Result<Reader<'f>, Refusal> {
        let mut magic = [0; MAGIC.len()];
        match file.read_exact_at(&mut magic, 0) {
            Ok(()) if &magic == MAGIC => {}
            // Also one that a full disk has cut short when it was copied.
            Err(error) if error.kind() != ErrorKind::UnexpectedEof => return Err(error.into()),
            _ => return Err(Refusal::Damaged(0)),
        }
        let len = file.metadata()?.len();
        Ok(Reader::between(file, (FIRST, len), Some(long_reads)))
    }

    /// Between two places. Long records are read with a permit of `long_reads`, if at all.
    pub(crate) fn between(
        file: &'f File,
        (position, len): (u64, u64),
        long_reads: Option<&'f LongReads>,
    ) -> Reader<'f> {
        Reader { file, position, len, buffer: Vec::new(), used: 0, long_reads, permit: None }
    }

    /// The next record; nothing at the end, and before a torn one. It waits for a permit if the
    /// record is long, or refuses it as [`Refusal::Long`].
    pub(crate) fn next(&mut self) -> Result<Option<Record<'_>>, Refusal> {
        let left = self.len.saturating_sub(self.position);
        if left == 0 {
            return Ok(None);
        }
        loop {
            let missing = match record::first(&self.buffer[self.used..]) {
                // Asked again below, since the borrow checker does not let it go on from here.
                Found::Whole(..) => break,
                Found::Needs(bytes) if bytes as u64 > left => return Ok(None),
                Found::Needs(bytes) => bytes,
                Found::Bad(bytes) if bytes as u64 == left => return Ok(None),
                Found::Bad(_) if self.rest_is_zero()? => return Ok(None),
                Found::Bad(HEAD_BYTES) if self.begin_is_lost()? => return Ok(None),
                Found::Bad(_) => return Err(Refusal::Damaged(self.position)),
            };
            self.fill(missing, left)?;
        }
        match record::first(&self.buffer[self.used..]) {
            Found::Whole(record, len) => {
                self.used += len;
                self.position += len as u64;
                Ok(Some(record))
            }
            Found::Needs(_) | Found::Bad(_) => Err(Refusal::Damaged(self.position)),
        }
    }

    /// Reads until the buffer has `bytes` from the position on, and more where there are.
    fn fill(&mut self, bytes: usize, left: u64) -> Result<(), Refusal> {
        self.buffer.drain(..self.used);
        self.used = 0;
        let have = self.buffer.len();
        let wanted = bytes.max(READ_BYTES).min(usize::try_from(left).unwrap_or(usize::MAX));
        debug_assert!(wanted > have, "it is asked for what is missing");
        self.hold_permit(wanted > LONG_BYTES)?;
        self.buffer.resize(wanted, 0);
        self.file.read_exact_at(&mut self.buffer[have..], self.position + have as u64)?;
        Ok(())
    }

    /// Has a permit for a long record, or gives it back, with the room that such a one has had: who
    /// goes through a whole file holds up others for no longer than it takes a long record.
    fn hold_permit(&mut self, is_long: bool) -> Result<(), Refusal> {
        match (is_long, self.permit.is_some()) {
            (true, false) => {
                let long_reads = self.long_reads.ok_or(Refusal::Long)?;
                self.permit = Some(long_reads.begin());
            }
            (false, true) => {
                self.buffer.shrink_to(READ_BYTES);
                self.permit = None;
            }
            (true, true) | (false, false) => {}
        }
        Ok(())
    }

    /// Whether there are only zeros behind the head of a record from here on, as a file system
    /// leaves them that has lost power. The head itself may be torn.
    fn rest_is_zero(&self) -> io::Result<bool> {
        let mut position = self.position + HEAD_BYTES as u64;
        let mut buffer = [0; 4096];
        while position < self.len {
            let most = buffer.len().min((self.len - position) as usize);
            self.file.read_exact_at(&mut buffer[..most], position)?;
            if buffer[..most].iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
            position += most as u64;
        }
        Ok(true)
    }

    /// Whether the sector in which the record begins was never written with it, though later ones
    /// were, as a loss of power leaves a last append. It is zero from the record's place to its
    /// end, and no more follows than the rest of one record. A sector that is damaged is so from
    /// its first byte on, so a record that begins there tells nothing.
    fn begin_is_lost(&self) -> io::Result<bool> {
        let left = self.len - self.position;
        let in_sector = self.position % SECTOR_BYTES;
        let behind = (SECTOR_BYTES - in_sector).min(left);
        let is_last = left <= (HEAD_BYTES + BODY_BYTES_MAX) as u64;
        // Fewer zeros than a head has may be a part of one.
        if in_sector == 0 || behind < HEAD_BYTES as u64 || !is_last {
            return Ok(false);
        }
        let mut sector = [0; SECTOR_BYTES as usize];
        let zeros = &mut sector[..behind as usize];
        self.file.read_exact_at(zeros, self.position)?;
        Ok(zeros.iter().all(|byte| *byte == 0))
    }
}
