//! The keys as a server at work knows them: those of the file as it is now.
//!
//! Before its use the file is looked at by `stat`, about a microsecond, unless it was in the same
//! millisecond, and read when it is another one. A command that changes it is done a little later
//! than that (`SETTLED` in `file.rs`). So a key is refused from the moment at which `encke key
//! revoke` is done. A watcher (inotify) would tell at some time, and never on some file systems.
//! Inode, times and length together tell one file from the next, since each change makes a new one.
//!
//! What cannot be read lets nobody in. So does a file that was there and is gone: that keys are to
//! be needed no more is said by a new start.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sys::clock;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::file::{KeyFile, KeyFileError};
use super::record::{KeyRecord, parts};
use crate::file_stamp::FileStamp;

/// How often changes are looked for that no request has met, to log them.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The keys of a running server.
#[derive(Debug)]
pub struct KeyRing {
    file: KeyFile,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The stamp of the file which was read.
    stamp: Option<FileStamp>,
    known: Known,
    /// In which millisecond of the monotonic clock it was looked at.
    looked_ms: u64,
}

type Keys = HashMap<String, Arc<KeyRecord>>;

/// What is known of the keys.
#[derive(Clone, Debug)]
pub enum Known {
    /// None was ever made: nobody needs one.
    None,
    /// These.
    Keys(Arc<Keys>),
    /// The file cannot be used: nobody is let in.
    Unusable,
}

/// What is wrong with a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// No key has this secret.
    Unknown,
    /// Its time is over.
    Expired,
    /// It was revoked.
    Revoked,
}

impl KeyRing {
    /// The keys of the data directory `dir`.
    ///
    /// # Errors
    /// There is a file and it cannot be used: better heard at the start than by every client.
    pub fn open(dir: &Path) -> Result<KeyRing, KeyFileError> {
        let file = KeyFile::in_dir(dir);
        file.read()?;
        let state = Mutex::new(State { stamp: None, known: Known::None, looked_ms: 0 });
        let ring = KeyRing { file, state };
        ring.known();
        Ok(ring)
    }

    /// What is known at this moment.
    pub fn known(&self) -> Known {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock, and before the look: what is asked later is not told of an older one.
        let now_ms = clock::monotonic_ms();
        if std::mem::replace(&mut state.looked_ms, now_ms) == now_ms {
            return state.known.clone();
        }
        let path = self.file.path();
        let looked = match std::fs::metadata(&path) {
            Ok(metadata) if state.stamp == Some(FileStamp::from(&metadata)) => {
                return state.known.clone();
            }
            Ok(_) => self.read(),
            Err(error) => Err(of_look(error, path)),
        };
        match looked {
            Ok((stamp, Ok(keys))) => state.learn(Some(stamp), keys),
            Ok((stamp, Err(error))) => state.fail(Some(stamp), &error),
            // Nothing was ever made.
            Err(KeyFileError::Gone { .. }) if matches!(state.known, Known::None) => {}
            Err(error) => state.fail(None, &error),
        }
        state.known.clone()
    }

    /// The file, and its stamp when it was opened.
    fn read(&self) -> Result<(FileStamp, Result<Vec<KeyRecord>, KeyFileError>), KeyFileError> {
        let path = self.file.path();
        let open = || -> io::Result<(File, FileStamp)> {
            let file = File::open(&path)?;
            let stamp = FileStamp::from(&file.metadata()?);
            Ok((file, stamp))
        };
        let (file, stamp) = open().map_err(|error| of_look(error, path.clone()))?;
        Ok((stamp, self.file.read_from(&file)))
    }
}

fn of_look(error: io::Error, path: PathBuf) -> KeyFileError {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => KeyFileError::Gone { path },
        _ => KeyFileError::Io { path, error },
    }
}

impl State {
    fn learn(&mut self, stamp: Option<FileStamp>, keys: Vec<KeyRecord>) {
        let keys: Keys = keys.into_iter().map(|key| (key.id.clone(), Arc::new(key))).collect();
        let before = match &self.known {
            Known::Keys(before) => Arc::clone(before),
            Known::None | Known::Unusable => Arc::default(),
        };
        tell(&before, &keys);
        (self.stamp, self.known) = (stamp, Known::Keys(Arc::new(keys)));
    }

    fn fail(&mut self, stamp: Option<FileStamp>, error: &KeyFileError) {
        if !matches!(self.known, Known::Unusable) || stamp != self.stamp {
            tracing::error!("the API lets nobody in: {error}");
        }
        (self.stamp, self.known) = (stamp, Known::Unusable);
    }
}

/// A line for each change, or for what is known at the start.
fn tell(before: &Keys, now: &Keys) {
    for key in now.values() {
        let old = before.get(&key.id);
        let change = match (key.revoked, old.map(|old| old.revoked)) {
            (None, None) => "a key is there",
            (Some(_), None | Some(None)) => "a key is revoked",
            _ => continue,
        };
        let words: Vec<_> = key.scopes.iter().map(|scope| scope.as_str()).collect();
        let about: Vec<_> = key.about.iter().map(ToString::to_string).collect();
        tracing::info!(
            id = key.id,
            scopes = words.join(","),
            about = about.join(","),
            expires = key.expires,
            "{change}"
        );
    }
    for id in before.keys().filter(|id| !now.contains_key(*id)) {
        tracing::info!(id, "a key is no longer there");
    }
}

/// The key in `keys` whose text is `text`, if it is good at `now` (seconds since 1970).
pub fn find(keys: &Keys, text: &str, now: u64) -> Result<Arc<KeyRecord>, Fault> {
    let (id, secret) = parts(text).ok_or(Fault::Unknown)?;
    // Ids are public, so how long it takes to find none tells nothing.
    let key = keys.get(id).filter(|key| key.is_made_of(&secret)).ok_or(Fault::Unknown)?;
    check(key, now)?;
    Ok(Arc::clone(key))
}

/// The key of that id, if it is good at `now`: for what has shown its secret before.
pub fn find_by_id(keys: &Keys, id: &str, now: u64) -> Result<Arc<KeyRecord>, Fault> {
    let key = keys.get(id).ok_or(Fault::Unknown)?;
    check(key, now)?;
    Ok(Arc::clone(key))
}

fn check(key: &KeyRecord, now: u64) -> Result<(), Fault> {
    match key.revoked {
        Some(_) => Err(Fault::Revoked),
        None if key.has_expired(now) => Err(Fault::Expired),
        None => Ok(()),
    }
}

/// Logs changes that no request meets, until `stop`.
pub async fn watch(ring: Arc<KeyRing>, stop: CancellationToken) {
    let mut ticks = interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => drop(ring.known()),
            () = stop.cancelled() => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use testing::wait_for;

    use super::*;
    use crate::keys::{NewKey, Scope};

    #[test]
    fn file_counts_as_it_is_at_each_look() {
        let dir = tempfile::tempdir().unwrap();
        let ring = KeyRing::open(dir.path()).unwrap();
        assert!(matches!(ring.known(), Known::None));
        let file = KeyFile::in_dir(dir.path());
        let wish = NewKey { scopes: vec![Scope::Read], about: vec![], expires: Some(500) };
        let ask = |text: &str, now| match ring.known() {
            Known::Keys(keys) => find(&keys, text, now).map(|key| key.id.clone()),
            other => panic!("{other:?}"),
        };
        for _ in 0..200 {
            let (key, text) = file.make(&wish, 100).unwrap();
            assert_eq!(ask(&text, 499), Ok(key.id.clone()));
            assert_eq!(ask(&text, 500), Err(Fault::Expired));
            assert_eq!(ask(&format!("{text}x"), 100), Err(Fault::Unknown));
            file.revoke(&key.id, 200).unwrap();
            assert_eq!(ask(&text, 300), Err(Fault::Revoked));
        }
        let good = std::fs::read(file.path()).unwrap();
        // What is written in place may be seen a moment later.
        let unusable = || wait_for("it is unusable", || matches!(ring.known(), Known::Unusable));
        for bad in [&b""[..], b"{}", &good[..good.len() / 2]] {
            std::fs::write(file.path(), bad).unwrap();
            unusable();
            assert!(KeyRing::open(dir.path()).is_err());
            std::fs::write(file.path(), &good).unwrap();
            wait_for("it is good again", || matches!(ring.known(), Known::Keys(_)));
        }
        // What is gone opens nothing.
        std::fs::remove_file(file.path()).unwrap();
        unusable();
        assert!(matches!(KeyRing::open(dir.path()).unwrap().known(), Known::None));
    }
}
