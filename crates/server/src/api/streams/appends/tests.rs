//! The queue of short appends, and its thread.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use streams::{Create, Lifetime, Limits, Start};
use testing::DEADLINE;
use tokio::time::timeout;

use super::*;
use crate::api::streams::asked::WriteFields;
use crate::api::streams::places::PathTurns;

fn store(dir: &Path, paths: &[&str]) -> Arc<Store> {
    let limits = Limits { bytes_max: 1 << 30, log_bytes: 1 << 20 };
    let store = Store::open(dir, limits, sys::clock::unix_ms).unwrap();
    for path in paths {
        let lifetime = Lifetime::Unbounded;
        let create = Create { content_type: "text/plain", lifetime, closed: false, data: b"" };
        store.create(path, &create, None).unwrap();
    }
    Arc::new(store)
}

/// An append of `body` to the stream at `path`, in its turn.
fn ready(
    turns: &Arc<PathTurns>,
    path: &str,
    body: Bytes,
) -> (ReadyAppend, oneshot::Receiver<TaskOutcome>) {
    let content_type = Some("text/plain".to_owned());
    let fields = WriteFields { closes: false, producer: None, sequence: None, content_type };
    let (tell, told) = oneshot::channel();
    let turn = turns.take_if_free(path).expect("nobody has it");
    let asked = AskedAppend { fields, body, behind: None };
    (ReadyAppend { asked, json: None, turn, told: Told::Task(tell) }, told)
}

/// An appender that is open, as its thread has it.
fn opened(store: &Arc<Store>, barrier: &Arc<Barrier>) -> Arc<Appender> {
    let appender = Arc::<Appender>::default();
    appender.open(store, barrier, |_| {}).unwrap();
    appender
}

async fn outcome(told: oneshot::Receiver<TaskOutcome>) -> TaskOutcome {
    timeout(DEADLINE, told).await.unwrap().unwrap()
}

fn text(store: &Store, path: &str) -> Vec<u8> {
    store.read(path, Start::Beginning, 1 << 10).unwrap().data
}

#[tokio::test]
async fn append_is_given_back_with_its_turn_while_the_barrier_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let (store, turns) = (store(dir.path(), &["run"]), Arc::<PathTurns>::default());
    let barrier = Barrier::new();
    let appender = opened(&store, &barrier);
    barrier.close();
    let (append, told) = ready(&turns, "run", "a".into());
    assert!(appender.push(append).is_none());
    let TaskOutcome::NotNow(turn, asked) = outcome(told).await else { panic!("it is closed") };
    assert!(barrier.emptied(Duration::ZERO).await, "no permit is out");
    assert!(turns.take_if_free("run").is_none(), "it is still its turn");
    barrier.open();
    let (tell, told) = oneshot::channel();
    let append = ReadyAppend { asked, json: None, turn, told: Told::Task(tell) };
    assert!(appender.push(append).is_none());
    assert!(matches!(outcome(told).await, TaskOutcome::Done(Ok(_))));
    assert!(turns.take_if_free("run").is_some(), "its turn is over before it is told");
    assert_eq!(text(&store, "run"), b"a");
    appender.close();
}

#[tokio::test]
async fn appends_that_come_together_are_one_group_with_an_outcome_for_each() {
    let dir = tempfile::tempdir().unwrap();
    let (store, turns) = (store(dir.path(), &["a", "b"]), Arc::<PathTurns>::default());
    let (barrier, appender) = (Barrier::new(), Arc::<Appender>::default());
    appender.queue().is_open = true;
    let told = ["a", "none", "b"].map(|path| {
        let (append, told) = ready(&turns, path, path.to_owned().into());
        assert!(appender.push(append).is_none());
        told
    });
    let group = appender.next().unwrap();
    assert_eq!((group.len(), appender.queue().bytes), (3, 0));
    append_group(group, &store, &barrier);
    let [first, second, third] = told;
    assert!(matches!(outcome(first).await, TaskOutcome::Done(Ok(_))));
    let refused = outcome(second).await;
    assert!(matches!(refused, TaskOutcome::Done(Err(Refusal::Unknown))));
    assert!(matches!(outcome(third).await, TaskOutcome::Done(Ok(_))));
    assert_eq!([text(&store, "a"), text(&store, "b")], [b"a", b"b"]);
}

/// The store takes no body of 64 MiB, and says so by a panic.
#[tokio::test]
async fn group_that_comes_to_grief_is_told_so_and_the_thread_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (store, turns) = (store(dir.path(), &["a", "b"]), Arc::<PathTurns>::default());
    let (barrier, appender) = (Barrier::new(), Arc::<Appender>::default());
    let (long, long_told) = ready(&turns, "a", vec![0; 1 << 26].into());
    append_group(vec![long], &store, &barrier);
    let grief = outcome(long_told).await;
    assert!(matches!(grief, TaskOutcome::Done(Err(Refusal::Unsure(_)))));
    assert!(turns.take_if_free("a").is_some());
    appender.open(&store, &barrier, |_| {}).unwrap();
    let (next, told) = ready(&turns, "b", "b".into());
    assert!(appender.push(next).is_none());
    assert!(matches!(outcome(told).await, TaskOutcome::Done(Ok(_))));
    appender.close();
}

#[tokio::test]
async fn what_waits_has_a_bound_in_bytes_and_in_number_and_comes_back_past_it() {
    let turns = Arc::<PathTurns>::default();
    let closed = Appender::default();
    let (append, _told) = ready(&turns, "closed", Bytes::new());
    assert!(closed.push(append).is_some(), "there is no thread");
    for body in [0, 32 << 10] {
        let appender = Appender::default();
        appender.queue().is_open = true;
        let mut taken = 0;
        loop {
            let path = format!("{body}/{taken}");
            let (append, _told) = ready(&turns, &path, vec![0; body].into());
            let Some(left) = appender.push(append) else {
                taken += 1;
                continue;
            };
            assert_eq!(left.turn.path(), path);
            break;
        }
        let expected = WAITING_MAX.min(WAITING_BYTES_MAX / (body + APPEND_BYTES + 10));
        assert_eq!(taken, expected);
        let bytes = body + APPEND_BYTES + 10;
        assert!(!appender.push_new(bytes, || panic!("it takes a turn in vain")));
        assert_eq!(appender.next().unwrap().len(), taken);
        let (append, _told) = ready(&turns, "next", Bytes::new());
        assert!(appender.push(append).is_none(), "there is room again");
    }
}

#[tokio::test]
async fn thread_that_begins_before_its_opener_goes_on_does_not_end() {
    let dir = tempfile::tempdir().unwrap();
    let (store, turns) = (store(dir.path(), &[]), Arc::<PathTurns>::default());
    let barrier = Barrier::new();
    for _ in 0..2_000 {
        let appender = opened(&store, &barrier);
        let (append, told) = ready(&turns, "none", Bytes::new());
        assert!(appender.push(append).is_none());
        let refused = outcome(told).await;
        assert!(matches!(refused, TaskOutcome::Done(Err(Refusal::Unknown))));
        appender.close();
    }
}

#[tokio::test]
async fn thread_goes_on_where_the_log_is_not_emptied() {
    let dir = tempfile::tempdir().unwrap();
    let (store, turns) = (store(dir.path(), &["run"]), Arc::<PathTurns>::default());
    let (barrier, appender) = (Barrier::new(), Arc::<Appender>::default());
    let is_asked = Arc::<AtomicBool>::default();
    let asked = Arc::clone(&is_asked);
    let settle = move |_: &Arc<Store>| {
        asked.store(true, Ordering::Relaxed);
        panic!("on purpose");
    };
    appender.open(&store, &barrier, settle).unwrap();
    for _ in 0..100 {
        let (append, told) = ready(&turns, "run", vec![b'a'; 32 << 10].into());
        assert!(appender.push(append).is_none());
        assert!(matches!(outcome(told).await, TaskOutcome::Done(Ok(_))));
    }
    assert!(is_asked.load(Ordering::Relaxed), "the log was never full");
    appender.close();
}
