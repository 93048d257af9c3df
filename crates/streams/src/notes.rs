//! Notes of streams whose last append may not be told yet: on disk before the append is.
//!
//! The file `untold` beside the streams has places of one length. A note stands in one of them
//! while an append of its stream is written and [told](crate::Teller), and on as long as it could
//! not be. It says up to where all is told. So what is found there at a start is all that a process
//! before may have left to be told, and no file of a stream has to be looked at for it. Nothing is
//! appended to a stream before what was appended last is told, so that is all that a note may miss.
//!
//! A note stays for the next append of its stream, which then needs none: a stream that is appended
//! to again and again has its note synced once. One that is not is cleared some seconds later.
//!
//! Cost: 512 KiB of disk; for an append that is told one short write, and for the first one of a
//! stream a second, with a sync where what is told outlives the process. Notes that are made at one
//! time share it.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::mem;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use parking_lot::{Mutex, RwLock};
use sys::plain_file;
use xxhash_rust::xxh3::xxh3_64;

#[cfg(test)]
use self::synced::Synced;
use crate::group_sync::GroupSync;
use crate::refusal::Refusal;
use crate::teller::Outcome;

/// The file's name, which versions share: what one left there, the next one tells.
pub(crate) const FILE: &str = "untold";

/// Notes at one time: appends that are under way, and those that could not be told.
pub(crate) const NOTES_MAX: usize = 1_024;

/// Of one place: no more than a disk writes at once.
pub(crate) const PLACE_BYTES: usize = 512;

/// Checksum, the stream's number, where the append begins, and how long the path is.
const HEAD_BYTES: usize = 8 + 8 + 8 + 2;

/// The longest path of which a note can be made.
pub(crate) const NOTE_PATH_BYTES_MAX: usize = PLACE_BYTES - HEAD_BYTES;

/// All notes.
#[derive(Debug)]
pub(crate) struct Notes {
    file: File,
    noted: Mutex<Noted>,
    /// Held by whoever writes a place, and alone by whoever writes all of them once more.
    writing: RwLock<()>,
    group: GroupSync,
    #[cfg(test)]
    pub(crate) synced: Mutex<Synced>,
}

#[derive(Debug)]
struct Noted {
    by_path: HashMap<Box<str>, Note>,
    /// The place that was given back last is taken first: the file's other blocks stay as they are.
    free: Vec<usize>,
    /// How often notes that nobody used were [retired](Notes::retire).
    round: u64,
}

/// What a note is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Nothing: all is told.
    Told,
    /// An append that somebody is at.
    UnderWay,
    /// An append that is to be told when that is possible.
    Due,
}

/// Of a stream whose last append may not be told yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Note {
    place: usize,
    /// The number of its stream.
    pub(crate) id: u64,
    /// Where the append begins, if it is there at all. If the note is old there may be others,
    /// which were told, before the last one.
    pub(crate) position: u64,
    /// Whether a process before this one has made the note, which may have told the append.
    pub(crate) is_old: bool,
    /// The number under which it was told, if that may be forgotten.
    pub(crate) unsure: Option<u64>,
    stage: Stage,
    /// Whether a note of this stream is in its place whatever happens.
    is_synced: bool,
    /// The round in which it was used last.
    round: u64,
}

impl Notes {
    /// Opens those below `dir`.
    ///
    /// # Errors
    /// The file cannot be made or read.
    pub(crate) fn open(dir: &Path) -> io::Result<Notes> {
        let mut options = File::options();
        let file = plain_file::open(
            &dir.join(FILE),
            options.read(true).write(true).create(true).truncate(false),
        )?;
        let bytes = NOTES_MAX * PLACE_BYTES;
        // A note is made where a full disk refuses all else, and its sync has nothing to move.
        plain_file::allocate(&file, bytes as u64)?;
        file.sync_all()?;
        File::open(dir)?.sync_all()?;
        let mut all = vec![0; bytes];
        file.read_exact_at(&mut all, 0)?;
        let mut noted = Noted { by_path: HashMap::new(), free: Vec::new(), round: 0 };
        let mut stale = Vec::new();
        for (place, written) in all.chunks(PLACE_BYTES).enumerate().rev() {
            let Some((path, id, position)) = read(written) else {
                // Empty, or torn: then its append was not begun.
                noted.free.push(place);
                continue;
            };
            let mut note =
                Note { is_old: true, stage: Stage::Due, ..Note::new(place, id, position) };
            let last = noted.by_path.entry(path.into()).or_insert(note);
            if last.place != place {
                // The disk took no zeros when it was cleared, and more was appended behind it.
                if (last.id, last.position) < (id, position) {
                    mem::swap(last, &mut note);
                }
                stale.push(note.place);
            }
        }
        let notes = Notes {
            file,
            noted: Mutex::new(noted),
            writing: RwLock::default(),
            group: GroupSync::default(),
            #[cfg(test)]
            synced: Mutex::new(Synced { bytes: all.clone(), ..Synced::default() }),
        };
        stale.into_iter().for_each(|place| notes.clear(place));
        Ok(notes)
    }

    /// Removes those below `dir`: what is appended from now on is not told.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub(crate) fn remove_all(dir: &Path) -> io::Result<()> {
        match std::fs::remove_file(dir.join(FILE)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// The note of the stream at `path`, if something may not be told.
    pub(crate) fn of(&self, path: &str) -> Option<Note> {
        let note = self.noted.lock().by_path.get(path).copied();
        note.filter(|note| note.stage != Stage::Told)
    }

    /// Notes that something is about to be appended at `position` of stream `id` at `path`, up to
    /// where all is told. With `is_synced` the note is on disk then, come what may.
    ///
    /// # Errors
    /// There are too many, or the disk fails.
    pub(crate) fn make(
        &self,
        path: &str,
        (id, position): (u64, u64),
        is_synced: bool,
    ) -> Result<(), Refusal> {
        let place = {
            let mut noted = self.noted.lock();
            let round = noted.round;
            match noted.by_path.get_mut(path) {
                Some(note) if note.id == id && (note.is_synced || !is_synced) => {
                    debug_assert_eq!(note.stage, Stage::Told, "one append at a time is not told");
                    (note.position, note.stage, note.round) = (position, Stage::UnderWay, round);
                    return Ok(());
                }
                _ => noted.take_place(path).ok_or(Refusal::Pending)?,
            }
        };
        let sync = |()| if is_synced { self.sync() } else { Ok(()) };
        let written = self.write(place, &written(path, id, position)).and_then(sync);
        if let Err(error) = written {
            self.clear(place);
            return Err(error.into());
        }
        let mut noted = self.noted.lock();
        let note = Note { is_synced, round: noted.round, ..Note::new(place, id, position) };
        noted.by_path.insert(path.into(), note);
        Ok(())
    }

    /// Notes what became of telling the append of `path`, which ends at `end`.
    pub(crate) fn settle(&self, path: &str, outcome: Outcome, end: u64) {
        match outcome {
            Outcome::Told => self.settle_told(path, end),
            Outcome::Not => self.put_off(path),
            Outcome::Unsure(number) => {
                if let Some(note) = self.noted.lock().by_path.get_mut(path) {
                    (note.unsure, note.stage) = (Some(number), Stage::Due);
                }
            }
        }
    }

    fn settle_told(&self, path: &str, end: u64) {
        let Some(note) = self.noted.lock().by_path.get(path).copied() else { return };
        let Note { place, id, is_old, .. } = note;
        if is_old {
            // Whether it is on disk is not known.
            self.noted.lock().by_path.remove(path);
            self.clear(place);
            return;
        }
        // Before another stream may have its place. If it fails, the note says less than is told,
        // and the next process asks whether the last append was.
        let _ = self.write(place, &written(path, id, end));
        let mut noted = self.noted.lock();
        let round = noted.round;
        if let Some(note) = noted.by_path.get_mut(path) {
            *note = Note { position: end, unsure: None, stage: Stage::Told, round, ..*note };
        }
    }

    /// The append of `path` is to be told when that is possible.
    pub(crate) fn put_off(&self, path: &str) {
        if let Some(note) = self.noted.lock().by_path.get_mut(path) {
            note.stage = Stage::Due;
        }
    }

    /// The paths of those that are to be told.
    pub(crate) fn due(&self) -> Vec<Box<str>> {
        let noted = self.noted.lock();
        let due = noted.by_path.iter().filter(|(_, note)| note.stage == Stage::Due);
        due.map(|(path, _)| path.clone()).collect()
    }

    /// Clears the notes of streams to which nothing was appended since the last call but one. They
    /// are cleared on disk when this is done: long after the append nobody could say whether it was
    /// told.
    pub(crate) fn retire(&self) {
        let mut retired = Vec::new();
        {
            let mut noted = self.noted.lock();
            noted.round += 1;
            let round = noted.round;
            noted.by_path.retain(|_, note| {
                let is_used = note.stage != Stage::Told || note.round + 1 >= round;
                if !is_used {
                    retired.push(note.place);
                }
                is_used
            });
        }
        if retired.is_empty() {
            return;
        }
        retired.into_iter().for_each(|place| self.clear(place));
        // Where it fails they are asked about at the next start, as those that were used last.
        let _ = self.sync();
    }

    fn sync(&self) -> io::Result<()> {
        self.group.sync(|is_doubtful| self.sync_all(is_doubtful))
    }

    /// Syncs the file, and writes all of it once more if a sync before has failed.
    fn sync_all(&self, is_doubtful: bool) -> io::Result<()> {
        if is_doubtful {
            let _alone = self.writing.write();
            let mut all = vec![0; NOTES_MAX * PLACE_BYTES];
            self.file.read_exact_at(&mut all, 0)?;
            self.file.write_all_at(&all, 0)?;
            #[cfg(test)]
            self.synced.lock().written.extend(0..NOTES_MAX);
        }
        #[cfg(test)]
        self.wait_and_fail()?;
        self.file.sync_data()?;
        #[cfg(test)]
        self.synced.lock().take(&self.file);
        Ok(())
    }

    /// Writes into a place.
    fn write(&self, place: usize, bytes: &[u8]) -> io::Result<()> {
        let _beside_others = self.writing.read();
        self.file.write_all_at(bytes, at(place))?;
        #[cfg(test)]
        self.synced.lock().written.insert(place);
        Ok(())
    }

    fn clear(&self, place: usize) {
        // A place that says what is not so any more is given to nobody: at the next start it is
        // found that its append was told, or that its stream has a later note.
        if self.write(place, &[0; HEAD_BYTES]).is_ok() {
            self.noted.lock().free.push(place);
        }
    }
}

impl Noted {
    /// A place for a note of the stream at `path`: its own, a free one, or that of the stream that
    /// was appended to longest ago.
    fn take_place(&mut self, path: &str) -> Option<usize> {
        if let Some(own) = self.by_path.remove(path) {
            return Some(own.place);
        }
        if let Some(free) = self.free.pop() {
            return Some(free);
        }
        let told = self.by_path.iter().filter(|(_, note)| note.stage == Stage::Told);
        let oldest = told.min_by_key(|(_, note)| note.round)?.0.clone();
        self.by_path.remove(&oldest).map(|note| note.place)
    }
}

impl Note {
    /// Of an append that is under way.
    fn new(place: usize, id: u64, position: u64) -> Note {
        let (is_old, is_synced, unsure) = (false, false, None);
        Note { place, id, position, is_old, unsure, stage: Stage::UnderWay, is_synced, round: 0 }
    }
}

fn at(place: usize) -> u64 {
    (place * PLACE_BYTES) as u64
}

/// A note as it is written.
fn written(path: &str, id: u64, position: u64) -> Vec<u8> {
    assert!(path.len() <= NOTE_PATH_BYTES_MAX, "longer paths are told nobody");
    let len = path.len() as u16;
    let mut body = Vec::with_capacity(HEAD_BYTES + path.len());
    body.extend([0; 8]);
    body.extend(id.to_le_bytes());
    body.extend(position.to_le_bytes());
    body.extend(len.to_le_bytes());
    body.extend(path.as_bytes());
    let sum = xxh3_64(&body[8..]);
    body[..8].copy_from_slice(&sum.to_le_bytes());
    body
}

/// The note that stands in a place: path, the stream's number, where the append begins.
fn read(place: &[u8]) -> Option<(&str, u64, u64)> {
    let number = |at: usize| {
        let bytes = place.get(at..at + 8)?.try_into().ok()?;
        Some(u64::from_le_bytes(bytes))
    };
    let (sum, id, position) = (number(0)?, number(8)?, number(16)?);
    let len = usize::from(u16::from_le_bytes(place.get(24..HEAD_BYTES)?.try_into().ok()?));
    let body = place.get(8..HEAD_BYTES + len)?;
    if len == 0 || xxh3_64(body) != sum {
        return None;
    }
    let path = std::str::from_utf8(&body[HEAD_BYTES - 8..]).ok()?;
    Some((path, id, position))
}

#[cfg(test)]
mod synced;
#[cfg(test)]
mod tests;
