//! Opening a replica: whose the directory is, and whether what lies there can be relied upon.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hub::Names;

use super::sync::Syncing;
use super::{Replica, ReplicaOptions};
use crate::Graph;
use crate::error::{OpenError, OpenReason};
use crate::lock::DirectoryLock;
use crate::map::data_file;
use crate::open::{Store, look};
use crate::replica_mark::{Mark, Marked};
use crate::sum::State;

/// How directories are called in which a replica is built.
const BUILDING: &str = "building-";

/// What lies in a directory.
enum Found {
    Store(State),
    /// Nothing that can be gone on from, and why.
    Rebuild(String),
}

impl Replica {
    /// Opens the replica in `dir`, and makes the directory when it is not there yet.
    ///
    /// What cannot be gone on from is no error: [`Replica::standing`] says so, look-ups fail until
    /// [`Replica::rebuild`], and the old file stays until then. An error means that the directory
    /// is no replica's, or cannot be used at all.
    ///
    /// Cost: a walk through the file, as for any store (0.2 s for 15 million pairs in the page
    /// cache, both directions).
    pub fn open(dir: &Path, options: &ReplicaOptions) -> Result<Replica, OpenError> {
        let fail = |reason| OpenError { dir: dir.to_owned(), reason };
        fs::create_dir_all(dir).map_err(|error| fail(OpenReason::Directory(error)))?;
        let lock = Arc::new(DirectoryLock::take(dir).map_err(fail)?);
        open_locked(dir, options, lock).map_err(fail)
    }
}

fn open_locked(
    dir: &Path,
    options: &ReplicaOptions,
    lock: Arc<DirectoryLock>,
) -> Result<Replica, OpenReason> {
    clear(dir)?;
    let store = match find(dir, options)? {
        Found::Store(state) => {
            Mark::open().write(dir).map_err(OpenReason::Directory)?;
            Store::open_replica(dir, &options.graph, state, Arc::clone(&lock))?
        }
        Found::Rebuild(why) => {
            let building = Building::make(dir).map_err(OpenReason::Directory)?;
            let mut store = building.store(dir, options, None, Arc::clone(&lock))?;
            store.awaits = Some(why);
            store
        }
    };
    let graph = Graph::new(Arc::new(store), None, None);
    let syncing = Syncing::start(&graph).map_err(OpenReason::Thread)?;
    let (dir, options) = (dir.to_owned(), options.clone());
    Ok(Replica { graph, dir, options, lock, syncing: Some(syncing) })
}

fn find(dir: &Path, options: &ReplicaOptions) -> Result<Found, OpenReason> {
    let rebuild = |why: &str| Ok(Found::Rebuild(why.into()));
    let mark = match Marked::read(dir)? {
        Marked::Nothing if options.replace_own_record => return rebuild("its graph is replaced"),
        Marked::Nothing => {
            return match look(dir)? {
                None => rebuild("it is new"),
                Some(State { replica: None, .. }) => Err(OpenReason::IsOwnRecord),
                Some(_) => rebuild("data.replica is missing"),
            };
        }
        Marked::Unreadable => return rebuild("data.replica is damaged"),
        Marked::Known(mark) => mark,
    };
    if let Some(why) = mark.distrust() {
        return rebuild(why);
    }
    match look(dir) {
        Ok(None) => rebuild("it is new"),
        Ok(Some(State { replica: None, .. })) => Err(OpenReason::IsOwnRecord),
        Ok(Some(state)) if mark.closed.is_some_and(|closed| closed != state.transaction) => {
            rebuild("data.mdb is not the file that was closed")
        }
        Ok(Some(state)) => Ok(Found::Store(state)),
        Err(OpenReason::Damaged(what)) => rebuild(&format!("data.mdb is damaged: {what}")),
        Err(OpenReason::Gone { .. }) => rebuild("data.mdb is missing"),
        Err(OpenReason::Older { .. }) => rebuild("data.mdb is older than data.state says"),
        Err(OpenReason::OtherFormat { found, .. }) => rebuild(&format!("it has format {found}")),
        Err(other) => Err(other),
    }
}

/// Removes what builds left behind that were not finished.
fn clear(dir: &Path) -> Result<(), OpenReason> {
    for entry in fs::read_dir(dir).map_err(OpenReason::Directory)?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(BUILDING) {
            // What cannot be removed takes up room, and does no harm.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}

/// A directory below the replica's, in which the next one is built. Removed with what is in it.
pub(super) struct Building(pub(super) PathBuf);

impl Building {
    pub(super) fn make(dir: &Path) -> io::Result<Building> {
        // An open store is known by its path, even when its file has been moved away: each build of
        // this process has a directory of its own.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let path = dir.join(format!("{BUILDING}{}", NEXT.fetch_add(1, Ordering::Relaxed)));
            match fs::create_dir(&path) {
                // Left behind, and not to be removed.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                made => return made.map(|()| Building(path)),
            }
        }
    }

    /// An empty store in it.
    pub(super) fn store(
        &self,
        dir: &Path,
        options: &ReplicaOptions,
        names: Option<Arc<Names>>,
        lock: Arc<DirectoryLock>,
    ) -> Result<Store, OpenReason> {
        Store::build_replica(&self.0, dir, &options.graph, names, lock)
    }

    pub(super) fn data_file(&self) -> PathBuf {
        data_file(&self.0)
    }
}

impl Drop for Building {
    fn drop(&mut self) {
        // A store that is open goes on without a name.
        let _ = fs::remove_dir_all(&self.0);
    }
}
