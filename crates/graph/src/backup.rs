//! Backup and restore of a store that is its own record, and its pairs as text.
//!
//! A backup is the store's file as of one commit, written by LMDB while changes go on: the pairs,
//! the names and their key, the checksums of all of it. So it says itself whether it is whole and
//! sound, and of which transaction. A copy that was cut short is found before it is anybody's
//! graph.
//!
//! A snapshot stays open until all is written: whoever takes it slowly makes the store's file grow
//! by what is changed meanwhile. Cost: the time of the disk or the pipe. For the text some 0.2 µs a
//! pair, more where ids are names.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use heed::{CompactionOption, RoTxn};
use hub::Id;
use thiserror::Error;

use super::Graph;
use super::block::unpack;
use super::error::{OpenError, OpenReason, ReadError};
use super::lock::DirectoryLock;
use super::map::data_file;
use super::map::sync_directory;
use super::marker::{self, Marker};
use super::open::Store;
use super::pages::Findings;
use super::pins;
use super::replica_mark::Mark;
use super::verify::{Content, Verify};

/// Pairs between two looks at whether they can still be read.
const LOOK_EVERY: u64 = 1 << 16;

/// What a sound backup holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Backup {
    /// The number of the commit that it is of.
    pub transaction: u64,
    /// Stored pairs.
    pub subscriptions: u64,
    /// One number that stands for all of it: what `data.state` beside such a store says.
    pub digest: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

/// Why no backup was written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BackupError {
    /// The store is a node's copy.
    #[error(
        "the graph here is a node's copy of its cluster's: back up the PostgreSQL that it is of, \
         each node makes its copy from there"
    )]
    IsReplica,
    /// The store, or whoever takes the bytes.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Why the pairs were not written.
#[derive(Debug, Error)]
pub enum ExportError {
    /// The store.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Whoever takes the text.
    #[error("cannot write the pairs: {0}")]
    Write(io::Error),
}

/// Why a backup cannot be relied upon, or was not restored. The directory is as it was.
#[derive(Debug, Error)]
pub enum RestoreError {
    /// The backup cannot be read.
    #[error("cannot read {}: {error}; check its path, owner and mode", file.display())]
    Read {
        /// The backup.
        file: PathBuf,
        /// As the system says.
        error: io::Error,
    },
    /// It is not what was written, or no backup.
    #[error(
        "{} is no sound backup of a friends graph ({why}); give a file of `encke graph backup`",
        file.display()
    )]
    Unsound {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// There is something to lose.
    #[error(
        "nothing was restored: {} holds {subscriptions} subscriptions; name an empty directory, or \
         move data.mdb and data.state away from there", dir.display()
    )]
    NotEmpty {
        /// The data directory.
        dir: PathBuf,
        /// How many it holds.
        subscriptions: u64,
    },
    /// The directory cannot take it.
    #[error("nothing was restored: {0}")]
    Open(#[from] OpenError),
}

impl Graph {
    /// Whether the store is its own record, and no copy that a node of a cluster keeps.
    pub fn is_own_record(&self) -> bool {
        self.0.queue.is_some()
    }

    /// Writes the store as of one commit, later than the begin of the call, into `file`. That may
    /// be a pipe, but must block.
    pub fn backup_to(&self, file: &mut File) -> Result<(), BackupError> {
        let store = self.0.store.load_full();
        if !self.is_own_record() {
            return Err(BackupError::IsReplica);
        }
        Ok(store.copy_to(file)?)
    }

    /// Writes all pairs as of one commit into `out`, one `subscriber subscribee` a line, as
    /// [`Graph::load`] reads them; returns how many. `progress` hears how many of how many.
    pub fn export(
        &self,
        out: &mut dyn Write,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<u64, ExportError> {
        let store = self.0.store.load_full();
        let mut export = Export { store: &store, out, progress, pairs: 0, failed: None };
        let walked = store.read(|_, txn| export.walk(txn));
        match export.failed.take() {
            Some(error) => Err(error),
            None => Ok(walked.map(|()| export.pairs)?),
        }
    }
}

impl Store {
    /// Writes a snapshot of the file into `file`.
    pub(super) fn copy_to(&self, file: &mut File) -> Result<(), ReadError> {
        self.readable()?;
        // Not compacted: LMDB would number the copy's transaction anew, which the state names.
        let copied = self.env.copy_to_file(file, CompactionOption::Disabled);
        copied.map_err(|error| self.read_error(error))?;
        Ok(self.readable()?)
    }
}

/// A walk that ends early by an error that is not the store's.
struct Export<'e> {
    store: &'e Store,
    out: &'e mut dyn Write,
    progress: &'e mut dyn FnMut(u64, u64),
    pairs: u64,
    failed: Option<ExportError>,
}

impl Export<'_> {
    fn walk(&mut self, txn: &RoTxn<'_>) -> heed::Result<()> {
        let total = self.store.subscriptions.load(std::sync::atomic::Ordering::Relaxed);
        let (mut subscriber, mut line) = (None, String::new());
        let mut start = 0;
        for entry in self.store.tables.following.blocks(txn)? {
            let (subject, block) = entry?;
            if subscriber.replace(subject) != Some(subject) {
                line.clear();
                self.push(txn, subject, &mut line)?;
                line.push(' ');
                start = line.len();
            }
            for &id in block.ids {
                line.truncate(start);
                self.push(txn, unpack(id), &mut line)?;
                line.push('\n');
                if let Err(error) = self.out.write_all(line.as_bytes()) {
                    self.failed = Some(ExportError::Write(error));
                    return Ok(());
                }
                self.pairs += 1;
                if self.pairs.is_multiple_of(LOOK_EVERY) {
                    (self.progress)(self.pairs, total);
                    if let Err(error) = self.store.readable() {
                        self.failed = Some(ReadError::from(error).into());
                        return Ok(());
                    }
                }
            }
        }
        if let Err(error) = self.out.flush() {
            self.failed = Some(ExportError::Write(error));
        }
        Ok(())
    }

    /// The text of `id` as of the snapshot: the names of today may be others.
    fn push(&self, txn: &RoTxn<'_>, id: Id, line: &mut String) -> heed::Result<()> {
        if let Some(number) = id.as_integer() {
            line.push_str(&number.to_string());
            return Ok(());
        }
        let name = self.store.tables.names.get(txn, &pins::key(id))?;
        line.push_str(name.ok_or(heed::MdbError::Corrupted)?);
        Ok(())
    }
}

/// Looks through a whole backup. `progress` hears how many pairs, in either direction, it has seen,
/// and of how many.
pub fn check_backup(
    file: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Backup, RestoreError> {
    Ok(look_through(file, file, progress)?.0)
}

/// Makes the backup in `file` the store of `dir`, which is made where it is not there, and must
/// hold no subscription. All of it, or nothing: it is copied beside and looked through first.
pub fn restore(
    file: &Path,
    dir: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Backup, RestoreError> {
    let fail = |reason| OpenError { dir: dir.to_owned(), reason };
    let mut backup =
        File::open(file).map_err(|error| RestoreError::Read { file: file.to_owned(), error })?;
    fs::create_dir_all(dir).map_err(|error| fail(OpenReason::Directory(error)))?;
    let _lock = DirectoryLock::take(dir).map_err(fail)?;
    let subscriptions = held(dir).map_err(fail)?;
    if subscriptions > 0 {
        return Err(RestoreError::NotEmpty { dir: dir.to_owned(), subscriptions });
    }
    let partial = dir.join("data.mdb.partial");
    let restored = copy(&mut backup, &partial)
        .map_err(|error| fail(OpenReason::Directory(error)).into())
        .and_then(|()| look_through(&partial, file, progress))
        .and_then(|(backup, marker)| {
            install(&partial, dir, marker).map_err(|error| fail(OpenReason::Directory(error)))?;
            Ok(backup)
        });
    if restored.is_err() {
        // What is wrong is told already.
        let _ = fs::remove_file(&partial);
    }
    restored
}

/// How many subscriptions there are in `dir`. A file that is missing where one was holds none: who
/// restores a backup there does what he was told to do.
fn held(dir: &Path) -> Result<u64, OpenReason> {
    if Mark::is_in(dir) {
        return Err(OpenReason::IsReplica);
    }
    let path = data_file(dir);
    match path.metadata() {
        Ok(metadata) if metadata.len() > 0 => {}
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(OpenReason::Directory(error));
        }
        _ => return Ok(0),
    }
    let mut findings = Findings::first_only();
    let progress = &mut |_, _| {};
    let found = Verify { findings: &mut findings, pairs: false, progress }.file(&path)?;
    match found {
        Some(Content::Store(state, _)) if state.replica.is_some() => Err(OpenReason::IsReplica),
        Some(Content::Store(state, _)) => Ok(state.subscriptions),
        Some(Content::New) => Ok(0),
        None => Err(OpenReason::Damaged(findings.first.concat())),
    }
}

/// Looks through the file at `path`, which is called `name`.
fn look_through(
    path: &Path,
    name: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(Backup, Marker), RestoreError> {
    let unsound = |why: String| RestoreError::Unsound { file: name.to_owned(), why };
    let mut findings = Findings::first_only();
    let found = Verify { findings: &mut findings, pairs: true, progress }.file(path);
    let (state, marker) = match found {
        Ok(Some(Content::Store(state, marker))) => (state, marker),
        Ok(Some(Content::New)) => return Err(unsound("nothing was ever written into it".into())),
        Ok(None) => return Err(unsound(findings.first.concat())),
        Err(OpenReason::Foreign) => return Err(unsound("another program wrote it".into())),
        Err(OpenReason::Directory(error)) => {
            return Err(RestoreError::Read { file: name.to_owned(), error });
        }
        Err(other) => return Err(unsound(other.to_string())),
    };
    if state.replica.is_some() {
        return Err(unsound("it is a copy that a node of a cluster keeps".into()));
    }
    let bytes = path.metadata().map(|metadata| metadata.len());
    let bytes = bytes.map_err(|error| RestoreError::Read { file: name.to_owned(), error })?;
    let Marker { transaction, subscriptions, digest } = marker;
    Ok((Backup { transaction, subscriptions, digest, bytes }, marker))
}

/// Copies into a file of its own, which only its owner may read, as LMDB makes them: the key of the
/// names is in it. What stood there, perhaps a link that somebody else has put, is not followed.
fn copy(from: &mut File, to: &Path) -> io::Result<()> {
    match fs::remove_file(to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(to)?;
    io::copy(from, &mut file)?;
    file.sync_all()
}

/// Puts the file in its place. In between there is no `data.state`, which admits either file.
fn install(partial: &Path, dir: &Path, marker: Marker) -> io::Result<()> {
    match fs::remove_file(dir.join(marker::NAME)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::rename(partial, data_file(dir))?;
    // It is restored. A disk without room for this has none, which only says less.
    let _ = marker.write(dir);
    sync_directory(dir)
}
