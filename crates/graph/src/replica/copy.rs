//! A copy of a replica for a peer: the whole store, names and their key too.
//!
//! It is taken by LMDB, of one snapshot, while changes go on. The peer looks it through before it
//! believes it. A running process cannot go over to a copy, since people have other ids in it. It
//! is for a node that starts.

use std::fs::{self, File};
use std::path::Path;

use super::ReplicaState;
use crate::Graph;
use crate::error::{OpenError, OpenReason, ReadError, Unusable};
use crate::lock::DirectoryLock;
use crate::map::data_file;
use crate::map::sync_directory;
use crate::pages::Findings;
use crate::replica_mark::{Mark, Marked};
use crate::verify::{Content, Verify};

impl Graph {
    /// Writes a replica as it is now into `file`, which may be a pipe, but must block. Its version
    /// is one between those at the begin and at the end of the call.
    ///
    /// A reader's snapshot stays open until all is written: whoever reads the pipe slowly makes the
    /// file grow. Cost: the disk's or the pipe's time for [`Graph::disk_bytes`].
    pub fn copy_to(&self, file: &mut File) -> Result<(), ReadError> {
        let store = self.0.store.load_full();
        store.readable()?;
        if store.replica_state().is_none() {
            return Err(Unusable::MustRebuild("it is no replica".into()).into());
        }
        store.copy_to(file)
    }
}

/// Makes the copy in `file`, as [`Graph::copy_to`] wrote it, the replica of the directory `dir`,
/// which nobody has open. The file is looked through first, synced, and moved there, so it must lie
/// on the same file system; a replica that is there already is replaced.
pub fn install(file: &Path, dir: &Path) -> Result<ReplicaState, OpenError> {
    let fail = |reason| OpenError { dir: dir.to_owned(), reason };
    fs::create_dir_all(dir).map_err(|error| fail(OpenReason::Directory(error)))?;
    let lock = DirectoryLock::take(dir).map_err(fail)?;
    let state = install_locked(file, dir).map_err(fail);
    drop(lock);
    state
}

fn install_locked(file: &Path, dir: &Path) -> Result<ReplicaState, OpenReason> {
    if data_file(dir).exists() && Marked::read(dir)? == Marked::Nothing {
        return Err(OpenReason::IsOwnRecord);
    }
    let mut findings = Findings::first_only();
    let progress = &mut |_, _| {};
    let found = Verify { findings: &mut findings, pairs: false, progress }.file(file)?;
    let (state, marker) = match found {
        Some(Content::Store(state, marker)) => (state, marker),
        Some(Content::New) => return Err(OpenReason::Damaged("the copy is empty".into())),
        None => return Err(OpenReason::Damaged(findings.first.concat())),
    };
    let replica = state.replica.ok_or(OpenReason::IsOwnRecord)?;
    File::open(file).and_then(|file| file.sync_all()).map_err(OpenReason::Directory)?;
    // A mark that says nothing in between: whatever is there then must be rebuilt.
    let unknown = Mark { boot: None, closed: None };
    let install = || {
        unknown.write(dir)?;
        fs::rename(file, data_file(dir))?;
        marker.write(dir)?;
        sync_directory(dir)?;
        Mark::closed(state.transaction).write(dir)
    };
    install().map_err(OpenReason::Directory)?;
    Ok(replica)
}
