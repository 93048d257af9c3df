//! Many callers at once.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::thread;

use super::*;

fn integer(number: u64) -> Id {
    Id::integer(number).unwrap()
}

/// A hub gains followers by the hundred, always the next numbers. Readers see a prefix of that,
/// with all that was acknowledged, in both directions, while the file grows a hundredfold.
/// Of a commit under way one look may see more than the next ([`crate::catch_up::newest`]).
#[test]
fn readers_see_whole_snapshots_while_the_store_grows() {
    let dir = tempfile::tempdir().unwrap();
    let graph = open(dir.path());
    let acknowledged = AtomicU64::new(0);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !done.load(Ordering::Acquire) {
                    let last = acknowledged.load(Ordering::Acquire);
                    let hub = graph.page_followers(integer(0), None, usize::MAX).unwrap().ids;
                    assert!(hub.len() as u64 >= last && hub.len().is_multiple_of(100));
                    assert!(hub.iter().zip(1..).all(|(&id, n)| id == integer(n)));
                    let following = graph.page_following(integer(last), None, 3).unwrap().ids;
                    let expected: &[Id] = if last > 0 { &[integer(0)] } else { &[] };
                    assert_eq!(following, expected, "followers were acknowledged up to {last}");
                }
            });
        }
        let small = graph.disk_bytes().unwrap();
        for round in 0..200 {
            let mut request: Vec<Pair> =
                (1..=100).map(|n| pair(&format!("{}", round * 100 + n), "0")).collect();
            request
                .extend((0..900).map(|n| pair(&format!("{}", 1_000_000 + round * 900 + n), "x")));
            assert_eq!(graph.add_blocking(request), Ok(1000));
            acknowledged.store(round * 100 + 100, Ordering::Release);
        }
        done.store(true, Ordering::Release);
        assert!(graph.disk_bytes().unwrap() > 100 * small);
    });
}

#[test]
fn callers_at_once_get_their_own_counts() {
    let dir = tempfile::tempdir().unwrap();
    let graph = open(dir.path());
    let new: u64 = thread::scope(|scope| {
        let callers: Vec<_> = (0..16)
            .map(|_| {
                // All of them want the same pairs; each is new to exactly one.
                let request = |n| vec![pair(&format!("{n}"), "rj"), pair("bob", &format!("{n}"))];
                let graph = &graph;
                scope.spawn(move || {
                    (0..50).map(|n| graph.add_blocking(request(n)).unwrap()).sum::<u64>()
                })
            })
            .collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).sum()
    });
    assert_eq!((new, graph.subscriptions()), (100, 100));
}

#[test]
fn tasks_wait_without_a_thread_each() {
    let dir = tempfile::tempdir().unwrap();
    let graph = open(dir.path());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (added, removed) = runtime.block_on(async {
        let tasks: Vec<_> = (0..3000)
            .map(|n| {
                let graph = graph.clone();
                tokio::spawn(async move { graph.add(vec![pair(&format!("{n}"), "rj")]).await })
            })
            .collect();
        let mut added = 0;
        for task in tasks {
            added += task.await.unwrap().unwrap();
        }
        (added, graph.remove(vec![pair("7", "rj"), pair("7", "rj")]).await.unwrap())
    });
    assert_eq!((added, removed, graph.subscriptions()), (3000, 1, 2999));
}

#[test]
fn requests_that_were_accepted_are_finished_when_the_store_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let graph = open(dir.path());
    for n in 0..500 {
        // Polled once, so that it is in the queue, and then given up.
        let request = pin!(graph.add(vec![pair(&format!("{n}"), "rj")]));
        let _ = request.poll(&mut Context::from_waker(Waker::noop()));
    }
    drop(graph);
    assert_eq!(open(dir.path()).subscriptions(), 500);
}

#[test]
fn read_inside_a_read_is_an_error_and_no_deadlock() {
    let dir = tempfile::tempdir().unwrap();
    let graph = open(dir.path());
    graph.add_blocking(vec![pair("1", "2")]).unwrap();
    let mut inner = None;
    graph
        .slice(integer(2), None, &mut |id| inner = Some(graph.slice(id, None, &mut |_| {})))
        .unwrap();
    assert!(inner.unwrap().unwrap_err().to_string().contains("a read inside a read"));
    assert!(graph.slice(integer(2), None, &mut |_| {}).is_ok());
}
