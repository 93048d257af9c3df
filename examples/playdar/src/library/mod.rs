//! The songs on this machine: a resolver over a database.
//!
//! One thread searches, so that a flood of queries costs one core at most and none of the
//! runtime's. It takes from a queue of [`QUEUE_MAX`], and what does not fit is not searched. The
//! scanner writes over a connection of its own, and neither waits for the other (SQLite's WAL).

mod store;
mod tags;

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use parking_lot::Mutex;

pub use self::store::{Song, Store};
pub use self::tags::{mimetype, read};
use crate::model::{Found, Query};
use crate::resolver::{Answers, Profile, Resolver};

/// Queries that wait to be searched: at 20 ms each, the last waits for five seconds.
const QUEUE_MAX: usize = 256;

/// The name in the table of resolvers.
const NAME: &str = "Local library";

/// The resolver.
pub struct Library {
    queue: SyncSender<(Arc<Query>, Answers)>,
    /// Answers what `/sid/` asks; searches have their own.
    store: Mutex<Store>,
}

impl Library {
    /// Opens the database in `dir` and starts the thread, which ends with the library. Results say
    /// that they come from `source`.
    pub fn open(dir: &Path, source: &str) -> Result<Library> {
        let (queue, queries) = sync_channel(QUEUE_MAX);
        let (searched, store) = (Store::open(dir)?, Store::open(dir)?);
        let source = source.to_owned();
        let thread = thread::Builder::new().name("library".into());
        thread
            .spawn(move || search(&queries, &searched, &source))
            .context("cannot start a thread")?;
        Ok(Library { queue, store: Mutex::new(store) })
    }

    /// Whether the file is a song of the library; no other file is ever played.
    pub fn holds(&self, path: &str) -> bool {
        self.store.lock().holds(path).unwrap_or(false)
    }

    /// How many songs there are.
    pub fn songs(&self) -> u64 {
        self.store.lock().songs().unwrap_or(0)
    }
}

impl Resolver for Library {
    fn profile(&self) -> Profile {
        Profile {
            name: NAME.to_owned(),
            weight: 100,
            target_time: Duration::from_millis(20),
            is_local_only: false,
            preference: 100,
        }
    }

    fn ask(&self, query: &Arc<Query>, answers: &Answers) {
        if self.queue.try_send((query.clone(), answers.clone())).is_err() {
            tracing::warn!("the library has {QUEUE_MAX} queries to search: one is left out");
        }
    }
}

fn search(queries: &Receiver<(Arc<Query>, Answers)>, store: &Store, source: &str) {
    for (query, answers) in queries {
        match store.search(&query) {
            Ok(songs) => {
                let found = songs.into_iter().map(|(song, score)| found(song, score, source));
                answers.add(&query.qid, found.collect());
            }
            Err(error) => tracing::error!(%error, "the library cannot be searched"),
        }
    }
}

fn found(song: Song, score: f64, source: &str) -> Found {
    let mut found = Found {
        artist: song.artist,
        track: song.track,
        album: song.album,
        mimetype: mimetype(Path::new(&song.path)).unwrap_or_default().to_owned(),
        score: Some(score),
        duration: Some(song.duration),
        bitrate: Some(song.bitrate),
        size: Some(song.size),
        source: source.to_owned(),
        url: Some(format!("file://{}", song.path)),
        ..Found::default()
    };
    if song.trackno > 0 {
        found.more.insert("trackno".to_owned(), song.trackno.into());
    }
    found
}
