//! `keys.json`: reading it, and changing it so that nothing is lost, whatever ends a command.
//!
//! A command takes a lock, reads the file, writes an audit line, and puts a new file in the place
//! of the old one ([`crate::checked_file`]). All of it is on disk before the command says that it
//! is done.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde_json::json;
use thiserror::Error;

use super::record::{AboutPattern, ID_BYTES, KeyRecord, Scope, hex, id_in};
use super::{ABOUT_MAX, FILE_BYTES_MAX, KEYS_MAX};
use crate::checked_file::{CheckedFile, CheckedFileError, open_private};

/// How long after a change every server has looked at the file, or looks before it uses a key: more
/// than the millisecond within which it does not.
const SETTLED: Duration = Duration::from_millis(2);

/// How long a revoked key keeps its place, in seconds: one that a node of a cluster had forgotten
/// before the others have heard of its end would come back from them, and be good.
const TOLD: u64 = 86_400;

const NAME: &str = "keys.json";
const LOCK_NAME: &str = "keys.lock";
const AUDIT_NAME: &str = "keys-audit.ndjson";

/// Which form the file has.
const FORMAT: &str = "encke-keys-1";

/// Why keys cannot be read or changed.
#[derive(Debug, Error)]
pub enum KeyFileError {
    /// A file cannot be read or written.
    #[error("{}: {error}; check its owner and mode, and that the disk has room", path.display())]
    Io {
        /// Which one.
        path: PathBuf,
        /// What went wrong.
        error: io::Error,
    },
    /// The file is not as it was written.
    #[error(
        "{} is damaged ({what}): bring it back from a backup; without one, remove it and make new \
         keys",
        path.display()
    )]
    Damaged {
        /// Which one.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// The file was there and is there no more.
    #[error(
        "{} is gone: bring it back, or start the server anew if there are to be no keys",
        path.display()
    )]
    Gone {
        /// Which one.
        path: PathBuf,
    },
    /// There is no such key.
    #[error("there is no such key: `encke key list` shows their ids")]
    Unknown,
    /// A key that could not do anything, or not what is meant.
    #[error("{0}")]
    Wish(&'static str),
    /// No random numbers.
    #[error("the system gives no random numbers: {0}")]
    Random(getrandom::Error),
}

/// What a new key is to be.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// What it may be used for.
    pub scopes: Vec<Scope>,
    /// About what it may send; empty is about everything.
    pub about: Vec<AboutPattern>,
    /// When it ends, in seconds since 1970.
    pub expires: Option<u64>,
}

impl From<CheckedFileError> for KeyFileError {
    fn from(error: CheckedFileError) -> KeyFileError {
        match error {
            CheckedFileError::Io { path, error } => KeyFileError::Io { path, error },
            CheckedFileError::Damaged { path, what } => KeyFileError::Damaged { path, what },
        }
    }
}

/// The keys of a data directory.
#[derive(Clone, Debug)]
pub struct KeyFile {
    file: CheckedFile,
}

impl KeyFile {
    /// Those of `dir`, which need not exist.
    pub fn in_dir(dir: &Path) -> KeyFile {
        let (dir, bytes_max) = (dir.to_owned(), FILE_BYTES_MAX);
        KeyFile { file: CheckedFile { dir, name: NAME, format: FORMAT, bytes_max } }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.file.path()
    }

    fn dir(&self) -> &Path {
        &self.file.dir
    }

    /// All keys, also those that are good for nothing any more; `None` where none was ever made.
    pub fn read(&self) -> Result<Option<Vec<KeyRecord>>, KeyFileError> {
        let keys: Option<Vec<KeyRecord>> = self.file.read()?;
        keys.map(|keys| self.some(keys)).transpose()
    }

    pub(super) fn read_from(&self, file: &File) -> Result<Vec<KeyRecord>, KeyFileError> {
        self.some(self.file.read_from(file)?)
    }

    /// A file is made with its first key.
    fn some(&self, keys: Vec<KeyRecord>) -> Result<Vec<KeyRecord>, KeyFileError> {
        match keys.is_empty() {
            true => Err(self.file.damaged("it holds no key").into()),
            false => Ok(keys),
        }
    }

    /// Makes a key; returns it with its text, which nobody can tell afterwards. It is on disk then.
    pub fn make(&self, wish: &NewKey, now: u64) -> Result<(KeyRecord, String), KeyFileError> {
        check(wish, now)?;
        fs::create_dir_all(self.dir()).map_err(io_error(self.dir().to_owned()))?;
        self.change(|keys| {
            make_room(keys, KEYS_MAX - 1, now)?;
            let mut secret = [0; 32];
            getrandom::fill(&mut secret).map_err(KeyFileError::Random)?;
            let id = loop {
                let mut id = [0; ID_BYTES];
                getrandom::fill(&mut id).map_err(KeyFileError::Random)?;
                let id = hex(&id);
                if !keys.iter().any(|key| key.id == id) {
                    break id;
                }
            };
            let NewKey { mut scopes, about, expires } = wish.clone();
            scopes.sort_by_key(|scope| scope.as_str());
            scopes.dedup();
            let (key, text) = KeyRecord::make(id, secret, scopes, about, now, expires);
            debug_assert!(key.is_sound() && key.is_usable(now), "the wish was looked at");
            keys.push(key.clone());
            self.audit(now, "made", &key)?;
            Ok((key, text))
        })
    }

    /// Revokes the key that `text` names by its id, or is. That is on disk then. A key that was
    /// revoked before stays as it is.
    pub fn revoke(&self, text: &str, now: u64) -> Result<KeyRecord, KeyFileError> {
        if self.read()?.is_none() {
            return Err(KeyFileError::Unknown);
        }
        self.change(|keys| {
            let id = id_in(text);
            let key = keys.iter_mut().find(|key| key.id == id).ok_or(KeyFileError::Unknown)?;
            if key.revoked.is_none() {
                key.revoked = Some(now);
                self.audit(now, "revoked", key)?;
            }
            Ok(key.clone())
        })
    }

    /// Puts `others`, the keys of a cluster, beside those that are here; returns all of them, and
    /// how many are new or revoked by it. A key that is revoked anywhere is revoked, also where
    /// there is no room for those that are new.
    pub fn join(
        &self,
        others: &[KeyRecord],
        now: u64,
    ) -> Result<(Vec<KeyRecord>, usize), KeyFileError> {
        let revoked = self.join_known(others, now)?;
        let mut keys = self.read()?.unwrap_or_default();
        if joined(&mut keys, others).is_empty() {
            return Ok((keys, revoked));
        }
        fs::create_dir_all(self.dir()).map_err(io_error(self.dir().to_owned()))?;
        self.change(|keys| {
            let changes = joined(keys, others);
            // The same ones go at all nodes.
            keys.sort_by(|one, other| (one.created, &one.id).cmp(&(other.created, &other.id)));
            make_room(keys, KEYS_MAX, now)?;
            // Last: what there is no room for would be written every time.
            for (change, key) in &changes {
                self.audit(now, change, key)?;
            }
            Ok((keys.clone(), revoked + changes.len()))
        })
    }

    /// Revokes what is here and revoked in `others`, which needs no room; tells how many that are.
    fn join_known(&self, others: &[KeyRecord], now: u64) -> Result<usize, KeyFileError> {
        let mut keys = self.read()?.unwrap_or_default();
        let is_known = |other: &&KeyRecord| keys.iter().any(|key| key.id == other.id);
        let known: Vec<KeyRecord> = others.iter().filter(is_known).cloned().collect();
        if joined(&mut keys, &known).is_empty() {
            return Ok(0);
        }
        self.change(|keys| {
            let changes = joined(keys, &known);
            for (change, key) in &changes {
                self.audit(now, change, key)?;
            }
            Ok(changes.len())
        })
    }

    /// Changes the keys under the lock, which ends with the process that holds it.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut Vec<KeyRecord>) -> Result<T, KeyFileError>,
    ) -> Result<T, KeyFileError> {
        let lock = self.open(LOCK_NAME, OpenOptions::new().write(true).create(true))?;
        lock.lock().map_err(io_error(self.dir().join(LOCK_NAME)))?;
        let mut keys = self.read()?.unwrap_or_default();
        let changed = change(&mut keys)?;
        // Such a file would let nobody in, and be taken for damaged by whoever changes it next.
        assert!(!keys.is_empty(), "a change leaves a key, if only one that is revoked");
        self.file.replace(&keys)?;
        // Who is told that it is done finds it so at every server.
        thread::sleep(SETTLED);
        Ok(changed)
    }

    /// Writes a line about a change before it is made: there is no change without its line.
    fn audit(&self, now: u64, change: &str, key: &KeyRecord) -> Result<(), KeyFileError> {
        let KeyRecord { id, scopes, about, expires, .. } = key;
        let uid = fs::metadata("/proc/self").map(|process| process.uid()).ok();
        let line = json!({
            "time": now, "change": change, "id": id, "scopes": scopes, "about": about,
            "expires": expires, "uid": uid,
        });
        let mut file = self.open(AUDIT_NAME, OpenOptions::new().append(true).create(true))?;
        let written = file.write_all(format!("{line}\n").as_bytes());
        let written = written.and_then(|()| file.sync_all());
        written.map_err(io_error(self.dir().join(AUDIT_NAME)))
    }

    fn open(&self, name: &str, options: &mut OpenOptions) -> Result<File, KeyFileError> {
        open_private(self.dir(), name, options).map_err(io_error(self.dir().join(name)))
    }
}

fn io_error(path: PathBuf) -> impl FnOnce(io::Error) -> KeyFileError {
    |error| KeyFileError::Io { path, error }
}

/// Puts `others` beside `keys`; what that changes, in words for the audit.
fn joined(keys: &mut Vec<KeyRecord>, others: &[KeyRecord]) -> Vec<(&'static str, KeyRecord)> {
    let mut changes = Vec::new();
    for other in others {
        match keys.iter_mut().find(|key| key.id == other.id) {
            None => {
                keys.push(other.clone());
                changes.push(("came from another node", other.clone()));
            }
            // The first time counts, at all nodes: else each would write its own again and again.
            Some(key) => {
                let is_first = |theirs| key.revoked.is_none_or(|mine| theirs < mine);
                if other.revoked.is_some_and(is_first) {
                    key.revoked = other.revoked;
                    changes.push(("revoked at another node", key.clone()));
                }
            }
        }
    }
    changes
}

fn check(wish: &NewKey, now: u64) -> Result<(), KeyFileError> {
    let sends = wish.scopes.iter().any(|scope| matches!(scope, Scope::Send | Scope::Admin));
    let problem = if wish.scopes.is_empty() {
        "a key has at least one scope: --scope send,graph,read,admin"
    } else if !wish.about.is_empty() && !sends {
        "--about bounds what a key may send, and this one may send nothing: add --scope send"
    } else if wish.about.len() > ABOUT_MAX {
        "a key has at most 16 patterns: make two keys, or take a shorter beginning"
    } else if wish.expires.is_some_and(|expires| expires <= now) {
        "the key would be over before it is made: give --expires more time"
    } else {
        return Ok(());
    };
    Err(KeyFileError::Wish(problem))
}

/// Lets the oldest keys that are good for nothing go until `most` are left. First those whose time
/// is over, at every node of a cluster; then those of whose end every node has heard.
fn make_room(keys: &mut Vec<KeyRecord>, most: usize, now: u64) -> Result<(), KeyFileError> {
    let is_told = |key: &KeyRecord| key.revoked.is_some_and(|at| at.saturating_add(TOLD) <= now);
    while keys.len() > most {
        let expired = keys.iter().position(|key| key.has_expired(now));
        let useless = expired.or_else(|| keys.iter().position(is_told));
        let full = "there are 1000 keys, and no place for another: revoke some; a place is free \
                    when its key has expired, or was revoked a day ago";
        keys.remove(useless.ok_or(KeyFileError::Wish(full))?);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
