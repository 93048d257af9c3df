//! A disk in memory that loses, tears and reorders what was not synced, and fails calls at will.
//!
//! Names are kept in order, as the journals of ext4 and XFS do. After a power cut a beginning of
//! what was done to them since the last sync is there. Bytes are not: each write since the last
//! sync may be there, be lost, or be there in part. After a failed sync, later syncs leave out what
//! it should have written, as Linux does.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::disk::{Disk, DiskFile};

/// What is torn at most: less than a real disk's, so that small records are torn, too.
const SECTOR: usize = 16;

/// Random numbers from a seed (splitmix64).
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It is killed: the kernel still has what it was given.
    Kill,
    /// The power fails: what was not synced is there, lost or torn.
    Power,
}

#[derive(Clone)]
enum Change {
    /// `doomed`: a sync of it has failed, and no other will write it.
    Write {
        offset: usize,
        bytes: Vec<u8>,
        doomed: bool,
    },
    Cut(usize),
}

#[derive(Clone, Default)]
struct Content {
    now: Vec<u8>,
    synced: Vec<u8>,
    changes: Vec<Change>,
}

#[derive(Clone)]
enum Naming {
    Create(PathBuf, usize),
    Remove(PathBuf),
}

#[derive(Clone, Default)]
struct State {
    files: Vec<Content>,
    names: BTreeMap<PathBuf, usize>,
    names_synced: BTreeMap<PathBuf, usize>,
    namings: Vec<Naming>,
    calls: u64,
    failing: Range<u64>,
    failed: u64,
}

/// The disk; its clones are the same disk.
#[derive(Clone, Default)]
pub(crate) struct SimDisk(Arc<Mutex<State>>);

struct SimFile(Arc<Mutex<State>>, usize);

fn apply(to: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Cut(length) => to.resize(*length, 0),
        Change::Write { offset, bytes, .. } => {
            let end = offset + bytes.len();
            if to.len() < end {
                to.resize(end, 0);
            }
            to[*offset..end].copy_from_slice(bytes);
        }
    }
}

fn rename(names: &mut BTreeMap<PathBuf, usize>, naming: &Naming) {
    match naming {
        Naming::Create(path, id) => names.insert(path.clone(), *id),
        Naming::Remove(path) => names.remove(path),
    };
}

impl Content {
    fn change(&mut self, change: Change) {
        apply(&mut self.now, &change);
        self.changes.push(change);
    }

    fn sync(&mut self) {
        let mut doomed_left: Vec<Change> = Vec::new();
        for change in self.changes.drain(..) {
            match &change {
                Change::Write { doomed: true, .. } => {
                    doomed_left.push(change);
                    continue;
                }
                Change::Cut(length) => doomed_left
                    .retain(|left| matches!(left, Change::Write { offset, .. } if offset < length)),
                Change::Write { .. } => {}
            }
            apply(&mut self.synced, &change);
        }
        self.changes = doomed_left;
    }

    fn doom(&mut self) {
        for change in &mut self.changes {
            if let Change::Write { doomed, .. } = change {
                *doomed = true;
            }
        }
    }

    /// What a power cut leaves of it.
    fn after_power_cut(&self, rng: &mut Rng) -> Content {
        let mut bytes = self.synced.clone();
        for change in &self.changes {
            match (rng.below(3), change) {
                (0, _) => {}
                (1, Change::Write { offset, bytes: written, .. }) => {
                    tear(&mut bytes, *offset, written, rng);
                }
                _ => apply(&mut bytes, change),
            }
        }
        Content { now: bytes.clone(), synced: bytes, changes: Vec::new() }
    }
}

/// Each sector of the write is there or not.
fn tear(to: &mut Vec<u8>, offset: usize, written: &[u8], rng: &mut Rng) {
    let mut at = 0;
    while at < written.len() {
        let end = written.len().min(at + SECTOR - (offset + at) % SECTOR);
        if rng.below(2) == 0 {
            let bytes = written[at..end].to_vec();
            apply(to, &Change::Write { offset: offset + at, bytes, doomed: false });
        }
        at = end;
    }
}

impl State {
    /// Counts a call that changes the disk; an error if it is one of those that fail.
    fn call(&mut self) -> io::Result<()> {
        let call = self.calls;
        self.calls += 1;
        match self.failing.contains(&call) {
            true => {
                self.failed += 1;
                Err(io::Error::from(io::ErrorKind::StorageFull))
            }
            false => Ok(()),
        }
    }
}

impl SimDisk {
    /// From now on the calls of these numbers fail; the next that changes the disk is number 0.
    pub(crate) fn fail(&self, calls: Range<u64>) {
        let mut state = self.0.lock();
        (state.calls, state.failing) = (0, calls);
    }

    /// How many calls have changed it, or were to.
    pub(crate) fn calls(&self) -> u64 {
        self.0.lock().calls
    }

    /// How many calls have failed.
    pub(crate) fn failed(&self) -> u64 {
        self.0.lock().failed
    }

    /// The disk as the next process finds it; this one goes on by itself.
    pub(crate) fn after(&self, end: End, rng: &mut Rng) -> SimDisk {
        let mut state = self.0.lock().clone();
        state.failing = 0..0;
        if end == End::Power {
            let there = rng.below(state.namings.len() as u64 + 1) as usize;
            let mut names = state.names_synced.clone();
            state.namings[..there].iter().for_each(|naming| rename(&mut names, naming));
            state.files = state.files.iter().map(|file| file.after_power_cut(rng)).collect();
            (state.names, state.names_synced) = (names.clone(), names);
            state.namings.clear();
        }
        SimDisk(Arc::new(Mutex::new(state)))
    }
}

impl DiskFile for SimFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.0.lock();
        let called = state.call();
        // A write that fails may have begun.
        let written = if called.is_err() { bytes.len() / 2 } else { bytes.len() };
        let bytes = bytes[..written].to_vec();
        state.files[self.1].change(Change::Write { offset: offset as usize, bytes, doomed: false });
        called
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        let state = self.0.lock();
        let start = offset as usize;
        match state.files[self.1].now.get(start..start + into.len()) {
            Some(bytes) => into.copy_from_slice(bytes),
            None => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.0.lock();
        let called = state.call();
        match called {
            Ok(()) => state.files[self.1].sync(),
            Err(_) => state.files[self.1].doom(),
        }
        called
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().files[self.1].now.len() as u64)
    }

    fn cut(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.0.lock();
        state.call()?;
        state.files[self.1].change(Change::Cut(bytes as usize));
        Ok(())
    }
}

impl Disk for SimDisk {
    fn lock(&self, _dir: &Path) -> io::Result<File> {
        tempfile::tempfile()
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let id = self.0.lock().names.get(path).copied();
        let id = id.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        Ok(Arc::new(SimFile(Arc::clone(&self.0), id)))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.0.lock();
        state.call()?;
        if state.names.contains_key(path) {
            return Err(io::Error::from(io::ErrorKind::AlreadyExists));
        }
        let id = state.files.len();
        state.files.push(Content::default());
        let naming = Naming::Create(path.to_owned(), id);
        rename(&mut state.names, &naming);
        state.namings.push(naming);
        Ok(Arc::new(SimFile(Arc::clone(&self.0), id)))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        state.call()?;
        if !state.names.contains_key(path) {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        }
        let naming = Naming::Remove(path.to_owned());
        rename(&mut state.names, &naming);
        state.namings.push(naming);
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        let state = self.0.lock();
        Ok(state.names.keys().filter(|path| path.parent() == Some(dir)).cloned().collect())
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        state.call()?;
        state.names_synced = state.names.clone();
        state.namings.clear();
        Ok(())
    }
}
