//! The streams of a server, and the work on them that waits for a disk.

mod changing;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::http::HeaderValue;
use dispatch::barrier::{Barrier, NoPermit};
use dispatch::idempotency::IdempotencyKeys;
use dispatch::posting::Sender;
use hub::IdPatterns;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use streams::{LONG_READS_MAX, Limits, Piece, Refusal, Start, Store, Teller};
use tokio::runtime::Handle;
use tokio::sync::{OnceCell, Semaphore};
use tokio::task::{JoinError, JoinHandle, spawn_blocking};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::appends::Appender;
use super::due::send_each;
use super::events::StreamEvents;
use super::memory::StreamsMemory;
use super::places::PathTurns;
use super::row::{ChangeRow, DISK_THREADS_MAX};

/// Of those that change none, how many may be at streams that are not in memory yet, whose whole
/// files they read. They leave the others to streams that are.
const LOADS_MAX: usize = DISK_THREADS_MAX / 2;

/// Of each half of the log that all appends share: more than a second of what disks of 17 MB/s
/// take (docs/decisions/0065-appends-share-a-log-before-their-files.md).
const LOG_BYTES: u64 = 32 << 20;

/// Time between two looks for streams whose lifetime is over, each into one of 256 directories.
const SWEEP_EVERY: Duration = Duration::from_secs(5);

/// Of an id in a field what does not stand as it is.
const ID_ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b':').remove(b'-').remove(b'.').remove(b'_');

/// What streams are kept by.
#[derive(Clone, Debug)]
pub struct StreamsConfig {
    /// Bytes of all streams together.
    pub bytes_max: u64,
    /// Paths of streams whose appends are events about the id of the same name, if there are some.
    pub events: Option<Arc<IdPatterns>>,
}

/// The streams of a server.
pub(crate) struct Streams {
    dir: PathBuf,
    bytes_max: u64,
    /// Who hears what is appended, if somebody is to hear it.
    events: Option<Arc<StreamEvents>>,
    /// Opened when it is first needed: by a successor not before everything is its own.
    store: OnceCell<Arc<Store>>,
    /// For who changes a stream, which takes a sync of the disk, and tells nobody.
    row: Arc<ChangeRow>,
    /// For short appends to streams in memory, which tell nobody.
    pub(super) appender: Arc<Appender>,
    /// Appends that a worker's lane has handed on. Relaxed: it is only reported.
    pub(super) appends_at_once: AtomicU64,
    /// For who changes none, and does not wait behind appends.
    reads: Arc<Semaphore>,
    /// For those of them who read a long append: whoever waits for others who do has no thread.
    long_reads: Arc<Semaphore>,
    /// Who changes which stream.
    pub(super) turns: Arc<PathTurns>,
    /// Who reads which stream that is not in memory yet.
    loads: Arc<PathTurns>,
    /// For the first one at each of those.
    loading: Arc<Semaphore>,
    /// What requests to the API hold, and those to the public port: these take no room of the
    /// others, however slowly they read and send.
    pub(super) api_memory: StreamsMemory,
    pub(super) public_memory: StreamsMemory,
    pub(super) barrier: Arc<Barrier>,
    pub(super) stop: CancellationToken,
}

/// Why something was not done.
pub(super) enum Undone {
    /// The stream does not let it be done.
    Refused(Refusal),
    /// Streams cannot be opened.
    Unusable(String),
    /// Not by this process.
    NoPermit(NoPermit),
}

impl Streams {
    /// Streams that are kept below `data`. Those of their appends that are to be events go by
    /// `sender` to connections for which so many bytes may wait.
    pub(crate) fn new(
        data: &Path,
        config: StreamsConfig,
        (sender, keys): (&Sender, &Arc<IdempotencyKeys>),
        backlog_bytes_max: usize,
        stop: &CancellationToken,
    ) -> Arc<Streams> {
        let events = |patterns| StreamEvents::new(patterns, (sender, keys), backlog_bytes_max);
        Arc::new(Streams {
            dir: data.join("streams"),
            bytes_max: config.bytes_max,
            events: config.events.map(events),
            store: OnceCell::new(),
            row: Arc::default(),
            appender: Arc::default(),
            appends_at_once: AtomicU64::new(0),
            reads: Arc::new(Semaphore::new(DISK_THREADS_MAX)),
            long_reads: Arc::new(Semaphore::new(LONG_READS_MAX)),
            turns: Arc::default(),
            loads: Arc::default(),
            loading: Arc::new(Semaphore::new(LOADS_MAX)),
            api_memory: StreamsMemory::default(),
            public_memory: StreamsMemory::default(),
            barrier: Arc::clone(&sender.barrier),
            stop: stop.clone(),
        })
    }

    /// Opens them at the start of a server that has not taken over from another one, so that what
    /// is wrong with them is told.
    pub(crate) async fn open(&self) -> anyhow::Result<()> {
        if let Some(events) = &self.events {
            // Relaxed: the store is opened behind it.
            events.is_fresh.store(true, Ordering::Relaxed);
        }
        let opened = self.store().await.map(drop);
        opened.map_err(|why| {
            let (dir, cure) = (self.dir.display(), "look at its disk, owner and mode");
            anyhow::anyhow!("cannot open streams in {dir}: {why}; {cure}")
        })
    }

    async fn store(&self) -> Result<Arc<Store>, String> {
        let open = async || {
            let limits = Limits { bytes_max: self.bytes_max, log_bytes: LOG_BYTES };
            let dir = self.dir.clone();
            let tells = self.events.is_some();
            let (appender, barrier) = (Arc::clone(&self.appender), Arc::clone(&self.barrier));
            let (row, runtime) = (Arc::clone(&self.row), Handle::current());
            let settle = move |store: &Arc<Store>| {
                let (store, _entered) = (Arc::clone(store), runtime.enter());
                row.push(move || store.settle_log());
            };
            let open = move || {
                let store = Store::open(&dir, limits, sys::clock::unix_ms)?.telling(tells)?;
                let store = Arc::new(store);
                appender.open(&store, &barrier, settle).map(|()| store)
            };
            match spawn_blocking(open).await {
                Ok(Ok(store)) => Ok(store),
                Ok(Err(error)) => Err(error.to_string()),
                Err(error) => Err(error.to_string()),
            }
        };
        self.store.get_or_try_init(open).await.map(Arc::clone)
    }

    /// Has the log of the streams empty, while they are appended to: a successor has nothing to
    /// look for in it then.
    pub(crate) async fn empty_log(self: &Arc<Streams>) {
        if self.store.get().is_some() {
            let empty = |store: &Store| {
                store.empty_log();
                Ok(())
            };
            // Otherwise that has to look.
            let _ = self.work(empty).await;
        }
    }

    /// Does `work`, which waits for a disk and changes no stream.
    pub(super) async fn work<T: Send + 'static>(
        self: &Arc<Streams>,
        work: impl FnOnce(&Store) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Undone> {
        self.read_by((), work).await
    }

    /// Does `work`, which reads the stream at `path`. As long as that is not in memory its readers
    /// take turns: the first one reads the whole file, for which all others would only wait.
    pub(super) async fn read<T: Send + 'static>(
        self: &Arc<Streams>,
        path: &str,
        work: impl FnOnce(&Store) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Undone> {
        let is_known = || self.store.get().is_some_and(|store| store.is_known(path));
        if is_known() {
            return self.read_by((), work).await;
        }
        let turn = self.loads.take(path, usize::MAX).await;
        if is_known() {
            drop(turn);
            return self.read_by((), work).await;
        }
        let place = Arc::clone(&self.loading).acquire_owned().await.ok();
        self.read_by((turn, place), work).await
    }

    /// Reads on from `start` in the stream at `path`, some `bytes_max` bytes.
    pub(super) async fn piece(
        self: &Arc<Streams>,
        path: &Arc<str>,
        start: Start,
        bytes_max: usize,
    ) -> Result<Piece, Undone> {
        let of = Arc::clone(path);
        let read = move |store: &Store| store.read_short(&of, start, bytes_max);
        match self.read(path, read).await {
            Err(Undone::Refused(Refusal::Long)) => self.long_piece(path, start, bytes_max).await,
            read => read,
        }
    }

    /// As [`Streams::piece`], where it is known that a long append is to be read for it. The store
    /// lets no more read those at one time. Who would wait there waits here, before it has a place,
    /// so that others have theirs.
    pub(super) async fn long_piece(
        self: &Arc<Streams>,
        path: &Arc<str>,
        start: Start,
        bytes_max: usize,
    ) -> Result<Piece, Undone> {
        let turn = Arc::clone(&self.long_reads).acquire_owned().await.ok();
        let of = Arc::clone(path);
        self.read_by(turn, move |store| store.read(&of, start, bytes_max)).await
    }

    /// Does `work`, which changes no stream, when it has a place; with a turn, if it needs one. Who
    /// goes away before has it not done, and leaves nothing that waits.
    async fn read_by<T: Send + 'static>(
        self: &Arc<Streams>,
        turn: impl Send + 'static,
        work: impl FnOnce(&Store) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Undone> {
        let place = Arc::clone(&self.reads).acquire_owned().await.ok();
        let streams = Arc::clone(self);
        let begun = tokio::spawn(async move {
            // Until it is done, whoever goes away.
            let _taken = (turn, place);
            let permit = streams.barrier.enter().await.map_err(Undone::NoPermit)?;
            let store = streams.store().await.map_err(Undone::Unusable)?;
            let worked = spawn_blocking(move || work(&store)).await;
            drop(permit);
            done(worked)
        });
        ended(begun).await
    }

    /// Who hears what is appended to the stream at `path`, if somebody is to hear it.
    fn events_of(&self, path: &str) -> Option<&Arc<StreamEvents>> {
        self.events.as_ref().filter(|events| events.tells(path))
    }

    /// Whether appends to the stream at `path` are events.
    pub(super) fn has_events(&self, path: &str) -> bool {
        self.events_of(path).is_some()
    }

    /// The store, if it is open.
    pub(super) fn open_store(&self) -> Option<&Arc<Store>> {
        self.store.get()
    }

    /// How many appends a worker's lane has handed on.
    pub(in crate::api) fn appends_at_once(&self) -> u64 {
        self.appends_at_once.load(Ordering::Relaxed)
    }

    /// How many appends were events.
    pub(in crate::api) fn events_sent(&self) -> u64 {
        self.events.as_ref().map_or(0, |events| events.sent())
    }

    /// The id about which appends to the stream at `path` are events, as it stands in a URL.
    pub(super) fn id_of(&self, path: &str) -> Option<HeaderValue> {
        self.events_of(path)?;
        // It is visible ASCII then.
        HeaderValue::try_from(utf8_percent_encode(path, ID_ESCAPED).to_string()).ok()
    }

    /// Sends what was appended and could not be sent then, be it by a process before this one.
    async fn send_due(self: &Arc<Streams>) {
        let Some(events) = &self.events else { return };
        // Where it is another process', or unusable, others say so.
        let due = |store: &Store| {
            store.retire_notes();
            Ok(store.due())
        };
        let Ok(mut due) = self.work(due).await else { return };
        // Or those that cannot be sent could be the first ones in each pass.
        fastrand::shuffle(&mut due);
        let left = send_each(due, |path| self.is_sent(path, events)).await;
        if left > 0 {
            tracing::warn!(
                "appends to {left} durable streams are not sent as events yet: workers, the \
                 cluster's log, or the disk of the log (--keep), are too busy, full or away"
            );
        }
    }

    /// Sends what is due of the stream at `path`; `false` where that is not possible now.
    async fn is_sent(self: &Arc<Streams>, path: Box<str>, events: &Arc<StreamEvents>) -> bool {
        // Whoever changes a stream sends what is due first.
        if self.stop.is_cancelled() || self.turns.requests(&path) > 0 {
            return true;
        }
        let of = path.clone();
        let tell = move |store: &Store, teller: Option<&dyn Teller>| {
            teller.map_or(Ok(()), |teller| store.tell_due(&of, teller))
        };
        match self.change_and_tell(&path, Arc::clone(events), tell).await {
            Err(Undone::Refused(Refusal::Pending)) => return false,
            Err(Undone::Refused(error)) => {
                tracing::error!(
                    "an append to the durable stream {path:?} is not sent yet: {error}"
                );
            }
            Ok(()) | Err(Undone::Unusable(_) | Undone::NoPermit(_)) => {}
        }
        true
    }

    /// Removes streams whose lifetime is over, and sends what could not be sent, as long as this
    /// process has them.
    pub(crate) async fn sweep(self: Arc<Streams>) {
        for number in 0.. {
            self.send_due().await;
            let ended = async {
                tokio::select! {
                    () = self.stop.cancelled() => {}
                    () = self.barrier.moved() => {}
                }
            };
            if timeout(SWEEP_EVERY, ended).await.is_ok() {
                return;
            }
            let sweep = move |store: &Store| {
                store.rest();
                Ok(store.sweep(number)?)
            };
            let swept = self.work(sweep).await;
            if let Err(Undone::Refused(error)) = swept {
                tracing::warn!("streams whose lifetime is over cannot be looked for: {error}");
            }
        }
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.appender.close();
    }
}

/// What became of work on a thread.
fn done<T>(worked: Result<Result<T, Refusal>, JoinError>) -> Result<T, Undone> {
    match worked {
        Ok(done) => done.map_err(Undone::Refused),
        Err(error) => Err(Undone::Unusable(error.to_string())),
    }
}

/// What became of a task, once it has ended.
async fn ended<T>(task: JoinHandle<Result<T, Undone>>) -> Result<T, Undone> {
    task.await.unwrap_or_else(|error| Err(Undone::Unusable(error.to_string())))
}

#[cfg(test)]
mod tests;
