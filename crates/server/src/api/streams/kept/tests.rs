//! Who waits for whom at the disk.

use std::iter;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{SyncSender as Ending, sync_channel};

use axum::http::Request;
use axum::response::Response;
use bytes::Bytes;
use futures_util::FutureExt as _;
use http_body_util::BodyExt as _;
use httpd::permits::ConnectionPermits;
use streams::{Create, Lifetime};
use testing::DEADLINE;
use tokio::time::Instant;

use super::*;
use crate::api::streams::fields::ReadQuery;
use crate::api::streams::memory::{Holder, Holders};
use crate::api::streams::{Call, MayAppend, live};

fn streams(data: &Path) -> Arc<Streams> {
    Arc::new(Streams {
        dir: data.join("streams"),
        bytes_max: 1 << 20,
        events: None,
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
        barrier: Barrier::new(),
        stop: CancellationToken::new(),
    })
}

/// What waits wherever it is called, and what ends that once it is dropped.
fn waiting() -> (impl Fn() + Clone + Send + 'static, Ending<()>) {
    let (end, ended) = sync_channel::<()>(0);
    let ended = Arc::new(Mutex::new(ended));
    let wait = move || {
        // The other end is gone.
        let _ = ended.lock().map(|ended| ended.recv());
    };
    (wait, end)
}

/// Begins appends, none of which ends before what is given back.
fn appends_that_wait(streams: &Arc<Streams>, paths: impl Iterator<Item = String>) -> Ending<()> {
    let (wait, end) = waiting();
    for path in paths {
        let (streams, wait) = (Arc::clone(streams), wait.clone());
        tokio::spawn(async move {
            let append = move |_: &Store, _: Option<&dyn Teller>| {
                wait();
                Ok(())
            };
            streams.change(&path, append).await.ok()
        });
    }
    end
}

/// Begins so many reads of the stream at `path`, none of which ends before what is given back.
fn reads_that_wait(streams: &Arc<Streams>, path: &'static str, count: usize) -> Ending<()> {
    reads_of_each_that_wait(streams, iter::repeat_n(path.into(), count))
}

/// Begins reads of streams, none of which ends before what is given back.
fn reads_of_each_that_wait(
    streams: &Arc<Streams>,
    paths: impl Iterator<Item = String>,
) -> Ending<()> {
    let (wait, end) = waiting();
    for path in paths {
        let (streams, wait) = (Arc::clone(streams), wait.clone());
        tokio::spawn(async move {
            let read = move |_: &Store| {
                wait();
                Ok(())
            };
            streams.read(&path, read).await.ok()
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
    create_of(store, path, b"there")
}

fn create_of(store: &Store, path: &str, data: &[u8]) -> Result<(), Refusal> {
    let (content_type, lifetime) = ("text/plain", Lifetime::Unbounded);
    let create = Create { content_type, lifetime, closed: false, data };
    store.create(path, &create, None).map(drop)
}

/// The answer to a live reader of the stream at `path`.
async fn events(streams: &Arc<Streams>, path: &str, holders: &Holders) -> Response {
    let asked = Request::get(format!("/v1/stream/{path}?offset=-1&live=sse")).body(()).unwrap();
    let (head, ()) = asked.into_parts();
    let wanted = ReadQuery::parse(&head.uri, &head.headers).ok().unwrap();
    let call = Call {
        streams: Arc::clone(streams),
        is_private: true,
        is_public: true,
        body_bytes_max: 0,
        idle_limit: ConnectionPermits::new().idle_limit(),
        holders: Arc::clone(holders),
        may_append: Arc::new(|_| MayAppend::Now),
        path: path.into(),
        head,
    };
    live::get(call, wanted).await.ok().unwrap()
}

/// What is read of the stream at `path`, however much is under way.
async fn text(streams: &Arc<Streams>, path: &'static str) -> Vec<u8> {
    let read = streams.read(path, move |store| store.read(path, Start::Beginning, 9));
    timeout(DEADLINE, read).await.unwrap().ok().unwrap().data
}

#[tokio::test(flavor = "multi_thread")]
async fn reader_waits_behind_no_append() {
    let data = tempfile::tempdir().unwrap();
    let streams = streams(data.path());
    assert!(streams.change("run", |store, _| create(store, "run")).await.is_ok());
    let paths = (0..DISK_THREADS_MAX).map(|number| format!("run/{number}"));
    let end = appends_that_wait(&streams, paths);
    wait_for(|| streams.row.threads() == DISK_THREADS_MAX).await;
    let read = text(&streams, "run").await;
    drop(end);
    assert_eq!(read, b"there");
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_of_one_stream_that_is_not_known_take_one_thread_of_all() {
    let data = tempfile::tempdir().unwrap();
    let streams = streams(data.path());
    // Nobody has opened the store, either.
    let end = reads_that_wait(&streams, "one", DISK_THREADS_MAX);
    wait_for(|| streams.loads.requests("one") == DISK_THREADS_MAX).await;
    wait_for(|| streams.reads.available_permits() < DISK_THREADS_MAX).await;
    assert!(streams.change("other", |store, _| create(store, "other")).await.is_ok());
    let read = text(&streams, "other").await;
    assert_eq!(streams.reads.available_permits(), DISK_THREADS_MAX - 1);
    drop(end);
    assert_eq!(read, b"there");
    wait_for(|| streams.loads.requests("one") == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_of_many_streams_that_are_not_known_leave_threads_to_those_that_are() {
    let data = tempfile::tempdir().unwrap();
    let streams = streams(data.path());
    assert!(streams.change("run", |store, _| create(store, "run")).await.is_ok());
    let paths = (0..2 * DISK_THREADS_MAX).map(|number| format!("cold/{number}"));
    let end = reads_of_each_that_wait(&streams, paths);
    let loads =
        || streams.loads.requests("cold/0") == 1 && streams.loading.available_permits() == 0;
    wait_for(loads).await;
    assert_eq!(text(&streams, "run").await, b"there");
    assert!(streams.reads.available_permits() >= DISK_THREADS_MAX - LOADS_MAX);
    drop(end);
    wait_for(|| streams.loading.available_permits() == LOADS_MAX).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_of_a_known_stream_wait_for_none_of_each_other() {
    let data = tempfile::tempdir().unwrap();
    let streams = streams(data.path());
    assert!(streams.change("run", |store, _| create(store, "run")).await.is_ok());
    let end = reads_that_wait(&streams, "run", DISK_THREADS_MAX - 1);
    wait_for(|| streams.reads.available_permits() == 1).await;
    let read = text(&streams, "run").await;
    drop(end);
    assert_eq!(read, b"there");
}

/// As many as would take all threads twice.
#[tokio::test(flavor = "multi_thread")]
async fn readers_of_long_appends_who_wait_for_each_other_take_no_thread() {
    const LONG: usize = 2 << 20;
    const READERS: usize = 2 * DISK_THREADS_MAX;
    let data = tempfile::tempdir().unwrap();
    let streams = streams(data.path());
    let long = |store: &Store, _: Option<&dyn Teller>| create_of(store, "long", &vec![b'x'; LONG]);
    assert!(streams.change("other", |store, _| create(store, "other")).await.is_ok());
    assert!(streams.change("long", long).await.is_ok());
    let all = Arc::clone(&streams.long_reads).acquire_many_owned(LONG_READS_MAX as u32);
    let all = all.await.unwrap();
    let readers: Vec<_> = (0..READERS)
        .map(|_| {
            let (streams, path) = (Arc::clone(&streams), Arc::<str>::from("long"));
            tokio::spawn(async move {
                let piece = streams.piece(&path, Start::Beginning, 1).await;
                piece.ok().map(|piece| piece.data.len())
            })
        })
        .collect();
    // Beside its own there is one reference of what was taken, and one of each who waits.
    wait_for(|| Arc::strong_count(&streams.long_reads) == 2 + READERS).await;
    wait_for(|| streams.reads.available_permits() == DISK_THREADS_MAX).await;
    assert_eq!(text(&streams, "other").await, b"there");
    drop(all);
    for reader in readers {
        assert_eq!(timeout(DEADLINE, reader).await.unwrap().unwrap(), Some(LONG));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reader_who_goes_away_while_it_waits_has_nothing_done() {
    let data = tempfile::tempdir().unwrap();
    let streams = streams(data.path());
    assert!(streams.change("run", |store, _| create(store, "run")).await.is_ok());
    let end = reads_that_wait(&streams, "run", DISK_THREADS_MAX);
    wait_for(|| streams.reads.available_permits() == 0).await;
    let done = Arc::new(AtomicUsize::new(0));
    for _ in 0..100 {
        let done = Arc::clone(&done);
        let count = move |_: &Store| {
            done.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        assert!(streams.work(count).now_or_never().is_none(), "it has no place");
    }
    drop(end);
    // In the order in which they came.
    let last = timeout(DEADLINE, streams.work(|_| Ok(()))).await;
    assert!(last.unwrap().is_ok());
    assert_eq!(done.load(Ordering::Relaxed), 0);
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

/// HTTP/2 asks for no body as long as its client takes none.
#[tokio::test(flavor = "multi_thread")]
async fn events_that_nobody_has_taken_yet_have_room_before_they_are_made() {
    const LONG: usize = 8 << 20;
    let data = tempfile::tempdir().unwrap();
    let streams = streams(data.path());
    let closed = |store: &Store, _: Option<&dyn Teller>| {
        let (content_type, lifetime, data) = ("text/plain", Lifetime::Unbounded, vec![b'x'; LONG]);
        let create = Create { content_type, lifetime, closed: true, data: &data };
        store.create("long", &create, None).map(drop)
    };
    assert!(streams.change("long", closed).await.is_ok());
    let holders: Holders = [Holder::Subject("bob".into())].into();
    let mut answers = Vec::new();
    // One holds 32 MiB, so there is room for four.
    for _ in 0..5 {
        answers.push(events(&streams, "long", &holders).await);
    }
    // The last one is taken first.
    for (number, answer) in answers.into_iter().enumerate().rev() {
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body.len() > LONG, number < 4, "{number}: {} bytes", body.len());
    }
}

/// Proxies cut what is silent, after 60 s as a rule: as late as such a stream of events ends.
#[tokio::test(start_paused = true)]
async fn reader_who_is_sent_nothing_is_sent_comments_until_its_end() {
    let data = tempfile::tempdir().unwrap();
    let streams = streams(data.path());
    assert!(streams.change("run", |store, _| create_of(store, "run", b"")).await.is_ok());
    let begun = Instant::now();
    let mut body = events(&streams, "run", &[].into()).await.into_body();
    let mut heard = Vec::new();
    while let Some(frame) = body.frame().await {
        let text = frame.unwrap().into_data().unwrap();
        heard.push((text, begun.elapsed().as_secs()));
    }
    assert!(heard.remove(0).0.starts_with(b"event: control"));
    assert_eq!(heard, [(Bytes::from(":\n\n"), 20), (Bytes::from(":\n\n"), 40)]);
    assert_eq!(begun.elapsed().as_secs(), 60);
}

#[tokio::test(flavor = "multi_thread")]
async fn change_waits_at_the_barrier_and_is_done_behind_it() {
    let data = tempfile::tempdir().unwrap();
    let streams = streams(data.path());
    streams.barrier.close();
    let (of, path) = (Arc::clone(&streams), "run");
    let change =
        tokio::spawn(async move { of.change(path, move |store, _| create(store, path)).await });
    wait_for(|| streams.turns.requests(path) == 1 && streams.row.threads() == 0).await;
    assert!(streams.store.get().is_none(), "another process may have the files");
    streams.barrier.open();
    assert!(timeout(DEADLINE, change).await.unwrap().unwrap().is_ok());
    assert_eq!(text(&streams, path).await, b"there");
}

#[tokio::test(flavor = "multi_thread")]
async fn change_is_done_though_who_asked_for_it_has_gone() {
    let data = tempfile::tempdir().unwrap();
    let streams = streams(data.path());
    assert!(streams.change("other", |store, _| create(store, "other")).await.is_ok());
    let end = appends_that_wait(&streams, (0..DISK_THREADS_MAX).map(|number| number.to_string()));
    wait_for(|| streams.row.threads() == DISK_THREADS_MAX).await;
    let change = streams.change("run", |store, _| create(store, "run"));
    assert!(change.now_or_never().is_none(), "no thread is left");
    drop(end);
    wait_for(|| streams.turns.requests("run") == 0).await;
    assert_eq!(text(&streams, "run").await, b"there");
}
