//! Notes of appends that may not be told yet: on disk before the append is.
//!
//! The file `untold` beside the streams has places of one length. A note stands in one of them
//! while its append is written and [told](crate::Teller), and on as long as it could not be. So
//! what is found there at a start is all that a process before may have left pending, and no file
//! of a stream has to be looked at for it. A stream has one note at most, since nothing is appended
//! to it before what was appended last is told.
//!
//! Cost: 512 KiB of disk; for an append that is told two short writes, and a sync where what is
//! told outlives the process.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::mem;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use parking_lot::Mutex;
use sys::plain_file;
use xxhash_rust::xxh3::xxh3_64;

use crate::refusal::Refusal;
use crate::teller::Outcome;

/// The file's name.
const FILE: &str = "untold";

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
}

#[derive(Debug)]
struct Noted {
    by_path: HashMap<Box<str>, Note>,
    /// The place that was given back last is taken first: the file's other blocks stay as they are.
    free: Vec<usize>,
}

/// Of an append that may not be told yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Note {
    place: usize,
    /// The number of its stream.
    pub(crate) id: u64,
    /// Where it begins, if it is there at all.
    pub(crate) position: u64,
    /// Whether a process before this one has made the note, which may have told it.
    pub(crate) is_old: bool,
    /// The number under which it was told, if that may be forgotten.
    pub(crate) unsure: Option<u64>,
    /// Whether nobody is at it: it is to be told when that is possible.
    is_due: bool,
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
        let mut noted = Noted { by_path: HashMap::new(), free: Vec::new() };
        let mut stale = Vec::new();
        for (place, written) in all.chunks(PLACE_BYTES).enumerate().rev() {
            let Some((path, id, position)) = read(written) else {
                // Empty, or torn: then its append was not begun.
                noted.free.push(place);
                continue;
            };
            let mut note = Note { place, id, position, is_old: true, unsure: None, is_due: true };
            let last = noted.by_path.entry(path.into()).or_insert(note);
            if last.place != place {
                // The disk took no zeros where it was told, and more was appended behind it.
                if (last.id, last.position) < (id, position) {
                    mem::swap(last, &mut note);
                }
                stale.push(note.place);
            }
        }
        let notes = Notes { file, noted: Mutex::new(noted) };
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

    /// The note of the stream at `path`, if there is one.
    pub(crate) fn of(&self, path: &str) -> Option<Note> {
        self.noted.lock().by_path.get(path).copied()
    }

    /// Notes what is about to be appended at `position` of stream `id` at `path`. With `is_synced`
    /// the note is on disk then, come what may.
    ///
    /// # Errors
    /// There are too many, or the disk fails.
    pub(crate) fn make(
        &self,
        path: &str,
        (id, position): (u64, u64),
        is_synced: bool,
    ) -> Result<(), Refusal> {
        let place = self.noted.lock().free.pop().ok_or(Refusal::Pending)?;
        let written = written(path, id, position);
        let sync = |()| if is_synced { self.file.sync_data() } else { Ok(()) };
        if let Err(error) = self.file.write_all_at(&written, at(place)).and_then(sync) {
            self.clear(place);
            return Err(error.into());
        }
        let note = Note { place, id, position, is_old: false, unsure: None, is_due: false };
        let before = self.noted.lock().by_path.insert(path.into(), note);
        debug_assert!(before.is_none(), "a stream has one append at a time that is not told");
        Ok(())
    }

    /// The append of `path` was told, or there is none.
    pub(crate) fn remove(&self, path: &str) {
        let Some(note) = self.noted.lock().by_path.remove(path) else { return };
        self.clear(note.place);
    }

    /// Notes what became of telling the append of `path`.
    pub(crate) fn settle(&self, path: &str, outcome: Outcome) {
        match outcome {
            Outcome::Told => self.remove(path),
            Outcome::Not => self.put_off(path),
            Outcome::Unsure(number) => {
                if let Some(note) = self.noted.lock().by_path.get_mut(path) {
                    (note.unsure, note.is_due) = (Some(number), true);
                }
            }
        }
    }

    /// The append of `path` is to be told when that is possible.
    pub(crate) fn put_off(&self, path: &str) {
        if let Some(note) = self.noted.lock().by_path.get_mut(path) {
            note.is_due = true;
        }
    }

    /// The paths of those that are to be told.
    pub(crate) fn due(&self) -> Vec<Box<str>> {
        let noted = self.noted.lock();
        let due = noted.by_path.iter().filter(|(_, note)| note.is_due);
        due.map(|(path, _)| path.clone()).collect()
    }

    fn clear(&self, place: usize) {
        // A place that says what is not so any more is given to nobody: at the next start it is
        // found that its append was told, or that its stream has a later note.
        if self.file.write_all_at(&[0; HEAD_BYTES], at(place)).is_ok() {
            self.noted.lock().free.push(place);
        }
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
mod tests {
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn notes_are_found_again_and_their_places_are_used_again() {
        let dir = TempDir::new().unwrap();
        let notes = Notes::open(dir.path()).unwrap();
        let long = "p".repeat(NOTE_PATH_BYTES_MAX);
        notes.make("run:1", (1, 8), true).unwrap();
        notes.make(&long, (2, 9), false).unwrap();
        assert_eq!(notes.due(), [""; 0].map(Box::from), "somebody is at both");
        notes.put_off("run:1");
        assert_eq!(notes.due(), ["run:1"].map(Box::from));
        notes.remove("run:1");
        assert_eq!((notes.of("run:1"), notes.of("none")), (None, None));
        for number in 1..NOTES_MAX as u64 {
            notes.make(&format!("run:{number}"), (number, 8), false).unwrap();
        }
        assert!(matches!(notes.make("more", (3, 8), false), Err(Refusal::Pending)));
        let again = Notes::open(dir.path()).unwrap();
        let note = again.of(&long).unwrap();
        assert_eq!((note.id, note.position, note.is_old), (2, 9, true));
        assert_eq!(again.due().len(), NOTES_MAX);
        Notes::remove_all(dir.path()).unwrap();
        Notes::remove_all(dir.path()).unwrap();
        assert_eq!(Notes::open(dir.path()).unwrap().due().len(), 0);
    }

    #[test]
    fn torn_note_is_none() {
        let whole = written("run:1", 7, 8);
        let mut place = whole.clone();
        place.resize(PLACE_BYTES, 0);
        assert_eq!(read(&place), Some(("run:1", 7, 8)));
        for cut in 0..whole.len() {
            let mut torn = whole[..cut].to_vec();
            torn.resize(PLACE_BYTES, 0);
            assert_eq!(read(&torn), None, "cut at {cut}");
        }
        assert_eq!(read(&[0xff; PLACE_BYTES]), None);
    }
}
