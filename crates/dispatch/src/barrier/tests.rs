//! Who is in, who waits and who is sent on, whatever comes first.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use testing::DEADLINE;
use tokio::task::{JoinSet, yield_now};

use super::*;

const MOST: Duration = Duration::from_secs(2);

fn successor() -> Successor {
    Successor::new(Path::new("/nowhere"))
}

#[tokio::test(start_paused = true)]
async fn closed_barrier_waits_for_those_who_are_in_and_lets_nobody_else_in() {
    let barrier = Barrier::new();
    let (one, two) = (barrier.enter().await.unwrap(), barrier.enter().await.unwrap());
    barrier.close();
    let waiting = tokio::spawn({
        let barrier = Arc::clone(&barrier);
        async move { barrier.enter().await.map(drop) }
    });
    let begin = Instant::now();
    assert!(!barrier.emptied(MOST).await, "two are in");
    assert_eq!(begin.elapsed(), MOST);
    let leaving = async {
        drop(one);
        tokio::time::advance(MOST / 2).await;
        drop(two);
    };
    let (emptied, ()) = tokio::join!(barrier.emptied(MOST), leaving);
    assert!(emptied);
    assert!(!waiting.is_finished());
    barrier.open();
    waiting.await.unwrap().unwrap();
    assert!(!barrier.is_closed());
    drop(barrier.enter().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn who_waits_goes_to_the_successor_and_so_does_who_comes_later() {
    let barrier = Barrier::new();
    barrier.close();
    let moving = async {
        tokio::time::advance(MOST).await;
        assert!(barrier.successor().is_none());
        barrier.move_on(successor());
    };
    let (enters, permits, (), ()) =
        tokio::join!(barrier.enter(), barrier.through(), barrier.moved(), moving);
    assert!(matches!(enters, Err(NoPermit::Moved(_))));
    assert!(matches!(permits, Err(NoPermit::Moved(_))));
    // There is no way back.
    barrier.open();
    barrier.close();
    assert!(matches!(barrier.enter().await, Err(NoPermit::Moved(_))));
    assert!(barrier.successor().is_some());
    assert!(barrier.emptied(MOST).await, "who is refused is not counted");
}

#[tokio::test(start_paused = true)]
async fn barrier_that_is_never_opened_is_not_waited_for_for_ever() {
    let barrier = Barrier::new();
    barrier.close();
    let begin = Instant::now();
    assert!(matches!(barrier.enter().await, Err(NoPermit::TooLong)));
    assert_eq!(begin.elapsed(), WAIT_MAX);
    barrier.open();
    barrier.through().await.unwrap();
}

/// Senders on four threads while the barrier is closed and opened: what each of them posts is
/// posted before a close or after an opening, and all of it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn post_is_before_the_close_or_after_the_opening_and_none_is_lost() {
    const SENDERS: usize = 16;
    const CLOSES: usize = 300;
    let (barrier, posted) = (Barrier::new(), Arc::new(AtomicU64::new(0)));
    let (still, over) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    let mut senders = JoinSet::new();
    for _ in 0..SENDERS {
        let (barrier, posted) = (Arc::clone(&barrier), Arc::clone(&posted));
        let (still, over) = (Arc::clone(&still), Arc::clone(&over));
        senders.spawn(async move {
            let mut own = 0_u64;
            while !over.load(Ordering::Relaxed) {
                let permit = barrier.enter().await.unwrap();
                assert!(!still.load(Ordering::Relaxed), "post {own} while all stood still");
                if own.is_multiple_of(64) {
                    yield_now().await;
                }
                posted.fetch_add(1, Ordering::Relaxed);
                own += 1;
                drop(permit);
                yield_now().await;
            }
            own
        });
    }
    let mut between = 0;
    for _ in 0..CLOSES {
        barrier.close();
        assert!(barrier.emptied(DEADLINE).await);
        still.store(true, Ordering::Relaxed);
        let before = posted.load(Ordering::Relaxed);
        yield_now().await;
        assert_eq!(posted.load(Ordering::Relaxed), before);
        still.store(false, Ordering::Relaxed);
        barrier.open();
        while posted.load(Ordering::Relaxed) == before {
            yield_now().await;
        }
        between += 1;
    }
    over.store(true, Ordering::Relaxed);
    let all: u64 = senders.join_all().await.into_iter().sum();
    assert_eq!((posted.load(Ordering::Relaxed), between), (all, CLOSES));
    assert_eq!(barrier.permits.load(Ordering::Relaxed), 0);
}
