//! Who waits for whom at the disk.

use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::{SyncSender as Ending, sync_channel};

use streams::{Create, Lifetime, Start};
use testing::DEADLINE;

use super::*;

fn streams(data: &Path) -> Arc<Streams> {
    Arc::new(Streams {
        dir: data.join("streams"),
        bytes_max: 1 << 20,
        events: None,
        store: OnceCell::new(),
        changes: Semaphore::new(DISK_THREADS_MAX),
        reads: Semaphore::new(DISK_THREADS_MAX),
        turns: PathTurns::default(),
        api_memory: StreamsMemory::default(),
        public_memory: StreamsMemory::default(),
        barrier: Barrier::new(),
        stop: CancellationToken::new(),
    })
}

/// Begins appends, none of which ends before what is given back.
fn appends_that_wait(streams: &Arc<Streams>, paths: impl Iterator<Item = String>) -> Ending<()> {
    let (end, ended) = sync_channel::<()>(0);
    let ended = Arc::new(Mutex::new(ended));
    for path in paths {
        let (streams, ended) = (Arc::clone(streams), Arc::clone(&ended));
        tokio::spawn(async move {
            let append = move |_: &Store, _: Option<&dyn Teller>| {
                // The other end is gone.
                let _ = ended.lock().map(|ended| ended.recv());
                Ok(())
            };
            streams.change(&path, append).await.ok()
        });
    }
    end
}

async fn wait_for(is_so: impl Fn() -> bool) {
    let waits = async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    };
    timeout(DEADLINE, waits).await.unwrap();
}

fn create(store: &Store, path: &str) -> Result<(), Refusal> {
    let (content_type, lifetime) = ("text/plain", Lifetime::Unbounded);
    let create = Create { content_type, lifetime, closed: false, data: b"there" };
    store.create(path, &create, None).map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn reader_waits_behind_no_append() {
    let data = tempfile::tempdir().unwrap();
    let streams = streams(data.path());
    assert!(streams.change("run", |store, _| create(store, "run")).await.is_ok());
    let paths = (0..DISK_THREADS_MAX).map(|number| format!("run/{number}"));
    let end = appends_that_wait(&streams, paths);
    wait_for(|| streams.changes.available_permits() == 0).await;
    let read = streams.work(|store| store.read("run", Start::Beginning, 9));
    let read = timeout(DEADLINE, read).await;
    drop(end);
    assert_eq!(read.unwrap().ok().unwrap().data, b"there");
}

#[tokio::test(flavor = "multi_thread")]
async fn appends_to_one_stream_take_one_thread_of_all() {
    let data = tempfile::tempdir().unwrap();
    let streams = streams(data.path());
    let paths = (0..DISK_THREADS_MAX).map(|_| "one".to_owned());
    let end = appends_that_wait(&streams, paths);
    wait_for(|| streams.turns.requests("one") == DISK_THREADS_MAX).await;
    let other = streams.change("other", |store, _| create(store, "other"));
    let other = timeout(DEADLINE, other).await;
    drop(end);
    assert!(other.unwrap().is_ok());
}
