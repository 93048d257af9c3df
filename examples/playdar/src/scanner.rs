//! Folders of music, read into the library in the background.
//!
//! A thread walks the folders, reads what is new or changed by size and time of change, and takes
//! out what is gone. Then it waits for the kernel's word that something changed (notify), lets the
//! changes come to rest, and walks again. A look at a file that is known costs a `stat`.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

use anyhow::{Context, Result};
use notify::{RecursiveMode, Watcher};
use walkdir::{DirEntry, WalkDir};

use crate::library::{Store, mimetype, read};

/// Folders within folders; music lies three or four deep.
const DEPTH_MAX: usize = 32;

/// Files of a library. Those beyond are not read, and none is taken out for being beyond.
const FILES_MAX: usize = 1_000_000;

/// Files that are taken in at once: what a crash may cost to read again.
const BATCH: usize = 200;

/// How long nothing must change before the folders are walked again.
const REST: Duration = Duration::from_millis(500);

/// How long that is waited for: a folder may be written to without a rest.
const REST_WAIT_MAX: Duration = Duration::from_secs(30);

/// Between two lines of progress.
const LINE_EVERY: Duration = Duration::from_secs(2);

/// What a walk came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Scanned {
    /// Files of music there are.
    pub files: usize,
    /// Those that were read since they are new or changed.
    pub read: usize,
    /// Those of them that have no artist or no title.
    pub silent: usize,
    /// Files that are gone.
    pub gone: usize,
}

/// Starts the thread. After each walk `scanned` is called; the thread ends with the returned
/// value.
pub fn start(
    folders: Vec<PathBuf>,
    data: &Path,
    scanned: impl Fn(Scanned) + Send + 'static,
) -> Result<Scanner> {
    let mut store = Store::open(data)?;
    // One word is enough, however many changes there are.
    let (changed, changes) = sync_channel(1);
    let watcher = watch(&folders, changed);
    let scan = move || {
        loop {
            match walk(&mut store, &folders) {
                Ok(outcome) => scanned(outcome),
                Err(error) => tracing::error!(%error, "the library cannot be written"),
            }
            if !at_rest(&changes, REST_WAIT_MAX) {
                return;
            }
        }
    };
    thread::Builder::new().name("scanner".into()).spawn(scan).context("cannot start a thread")?;
    Ok(Scanner { _watcher: watcher })
}

/// The scanner at work; dropped, it ends after the walk that it is in.
pub struct Scanner {
    _watcher: Box<dyn Watcher + Send>,
}

fn watch(folders: &[PathBuf], changed: SyncSender<()>) -> Box<dyn Watcher + Send> {
    let hear = move |event: notify::Result<notify::Event>| {
        // Reading a file is no change of it, or each walk would bring the next one.
        if !event.is_ok_and(|event| event.kind.is_access()) {
            // Where there is a word already, this one says nothing new.
            let _ = changed.try_send(());
        }
    };
    let watcher = notify::recommended_watcher(hear);
    let mut watcher = match watcher {
        Ok(watcher) => watcher,
        Err(error) => {
            tracing::warn!(%error, "changes of folders are not seen: start again after a change");
            return Box::new(notify::NullWatcher);
        }
    };
    for folder in folders {
        if let Err(error) = watcher.watch(folder, RecursiveMode::Recursive) {
            tracing::warn!(folder = %folder.display(), %error, "its changes are not seen");
        }
    }
    Box::new(watcher)
}

/// Waits for a change and for the rest after it, for `wait_max` at most; false when nobody will
/// tell of changes any more.
fn at_rest(changes: &Receiver<()>, wait_max: Duration) -> bool {
    if changes.recv().is_err() {
        return false;
    }
    let changed = Instant::now();
    loop {
        match changes.recv_timeout(REST) {
            Ok(()) if changed.elapsed() >= wait_max => return true,
            Ok(()) => {}
            Err(RecvTimeoutError::Timeout) => return true,
            Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
}

/// A file as the folder shows it.
struct Seen {
    path: String,
    size: u64,
    mtime: i64,
}

/// One walk over all folders.
pub fn walk(store: &mut Store, folders: &[PathBuf]) -> Result<Scanned> {
    walk_bounded(store, folders, FILES_MAX)
}

fn walk_bounded(store: &mut Store, folders: &[PathBuf], files_max: usize) -> Result<Scanned> {
    let mut scanned = Scanned::default();
    let (mut there, mut batch) = (HashSet::new(), Vec::new());
    let mut line = Instant::now();
    let mut is_whole = true;
    for seen in folders.iter().flat_map(|folder| files(folder)).filter_map(|entry| seen(&entry)) {
        if there.contains(&seen.path) {
            continue;
        }
        if there.len() >= files_max {
            tracing::warn!("there are more than {files_max} files of music: no more are read");
            is_whole = false;
            break;
        }
        there.insert(seen.path.clone());
        scanned.files += 1;
        if !store.knows(&seen.path, seen.size, seen.mtime)? {
            batch.push(seen);
        }
        if batch.len() >= BATCH {
            take_in(store, &mut batch, &mut scanned)?;
        }
        if line.elapsed() >= LINE_EVERY {
            line = Instant::now();
            tracing::info!("library  {} files so far, {} read", scanned.files, scanned.read);
        }
    }
    take_in(store, &mut batch, &mut scanned)?;
    if is_whole {
        scanned.gone = remove_gone(store, &there)?;
    }
    let Scanned { files, read, silent, gone } = scanned;
    tracing::info!("library  {files} files, {read} read, {silent} without names, {gone} gone");
    Ok(scanned)
}

/// What cannot be read is left out: it may be another user's.
fn files(folder: &Path) -> impl Iterator<Item = DirEntry> + use<> {
    // The folder itself may be a link; those in it could lead in circles or out.
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    WalkDir::new(folder).max_depth(DEPTH_MAX).into_iter().filter_map(Result::ok)
}

fn seen(entry: &DirEntry) -> Option<Seen> {
    if !entry.file_type().is_file() || mimetype(entry.path()).is_none() {
        return None;
    }
    let facts = entry.metadata().ok()?;
    let since = facts.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    let (path, size) = (entry.path().to_str()?.to_owned(), facts.len());
    Some(Seen { path, size, mtime: since.as_millis().try_into().ok()? })
}

/// Reads the files of a batch, then writes what they say.
fn take_in(store: &mut Store, batch: &mut Vec<Seen>, scanned: &mut Scanned) -> Result<()> {
    if batch.is_empty() {
        return Ok(());
    }
    let songs: Vec<_> = batch.drain(..).map(|seen| (read(Path::new(&seen.path)), seen)).collect();
    scanned.read += songs.len();
    scanned.silent += songs.iter().filter(|(song, _)| song.is_none()).count();
    store.at_once(|store| {
        for (song, Seen { path, size, mtime }) in songs {
            match song {
                Some(mut song) => {
                    (song.size, song.mtime) = (size, mtime);
                    store.put(&song)?;
                }
                None => store.put_silent(&path, size, mtime)?,
            }
        }
        Ok(())
    })
}

fn remove_gone(store: &mut Store, there: &HashSet<String>) -> Result<usize> {
    let (mut gone, mut after) = (0, String::new());
    loop {
        let page = store.paths_after(&after, BATCH)?;
        let Some(last) = page.last() else { return Ok(gone) };
        after.clone_from(last);
        let missing: Vec<_> = page.into_iter().filter(|path| !there.contains(path)).collect();
        gone += missing.len();
        if !missing.is_empty() {
            store.at_once(|store| missing.iter().try_for_each(|path| store.remove(path)))?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_that_never_rests_is_walked_all_the_same() {
        let (changed, changes) = sync_channel(1);
        let writes = thread::spawn(move || while changed.send(()).is_ok() {});
        let (rested, rest) = sync_channel(1);
        let waits = thread::spawn(move || rested.send(at_rest(&changes, Duration::from_millis(9))));
        assert!(rest.recv_timeout(testing::DEADLINE).unwrap());
        waits.join().unwrap().unwrap();
        writes.join().unwrap();
    }

    #[test]
    fn bound_counts_music_alone_and_takes_nothing_out() {
        let (data, music) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for name in ["a.txt", "b.txt", "c.mp3", "d.mp3", "e.mp3"] {
            std::fs::write(music.path().join(name), name).unwrap();
        }
        let (mut store, folders) = (Store::open(data.path()).unwrap(), [music.path().to_owned()]);
        let mut walked = |files_max| {
            let scanned = walk_bounded(&mut store, &folders, files_max).unwrap();
            (scanned.files, scanned.gone)
        };
        assert_eq!(walked(3), (3, 0));
        assert_eq!(walked(1), (1, 0));
        std::fs::remove_file(music.path().join("c.mp3")).unwrap();
        assert_eq!(walked(2), (2, 1));
    }
}
