//! A store that is only read, where nothing can be written: on a mounted snapshot, say.
//!
//! LMDB has no lock file there, so it cannot know of a process that changes the store by another
//! mount. The directory's own lock tells of one.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use heed::EnvFlags;

use super::error::{OpenError, OpenReason};
use super::lock::DirectoryLock;
use super::map::map;
use super::open::{Store, look};
use super::replica_mark::Mark;
use super::{Graph, GraphOptions};

impl Graph {
    /// Opens the store in `dir` to read it, also on a file system that cannot be written. There a
    /// change fails.
    ///
    /// # Errors
    /// As [`Graph::open`].
    pub fn open_to_read(dir: &Path, options: &GraphOptions) -> Result<Graph, OpenError> {
        match Graph::open(dir, options) {
            Err(OpenError { reason: OpenReason::Directory(error), .. })
                if error.kind() == io::ErrorKind::ReadOnlyFilesystem =>
            {
                let opened = Store::open_read_only(dir, options);
                Graph::start(opened.map_err(|reason| OpenError { dir: dir.to_owned(), reason })?)
            }
            opened => opened,
        }
    }
}

impl Store {
    pub(super) fn open_read_only(dir: &Path, options: &GraphOptions) -> Result<Store, OpenReason> {
        let lock = Arc::new(DirectoryLock::share(dir)?);
        let state = look(dir)?.ok_or(OpenReason::Gone { subscriptions: None })?;
        if state.replica.is_some() || Mark::is_in(dir) {
            return Err(OpenReason::IsReplica);
        }
        let env = map(dir, options.map_bytes, EnvFlags::READ_ONLY | EnvFlags::NO_LOCK)?;
        let store = Store::new(dir, dir, env, state, None, lock)?;
        store.installed.store(true, Ordering::Relaxed);
        Ok(store)
    }
}
