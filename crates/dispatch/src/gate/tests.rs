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
async fn closed_gate_waits_for_those_who_are_in_and_lets_nobody_else_in() {
    let gate = Gate::new();
    let (one, two) = (gate.enter().await.unwrap(), gate.enter().await.unwrap());
    gate.close();
    let waiting = tokio::spawn({
        let gate = Arc::clone(&gate);
        async move { gate.enter().await.map(drop) }
    });
    let begin = Instant::now();
    assert!(!gate.emptied(MOST).await, "two are in");
    assert_eq!(begin.elapsed(), MOST);
    let leaving = async {
        drop(one);
        tokio::time::advance(MOST / 2).await;
        drop(two);
    };
    let (emptied, ()) = tokio::join!(gate.emptied(MOST), leaving);
    assert!(emptied);
    assert!(!waiting.is_finished());
    gate.open();
    waiting.await.unwrap().unwrap();
    assert!(!gate.is_closed());
    drop(gate.enter().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn who_waits_goes_to_the_successor_and_so_does_who_comes_later() {
    let gate = Gate::new();
    gate.close();
    let moving = async {
        tokio::time::advance(MOST).await;
        assert!(gate.successor().is_none());
        gate.move_on(successor());
    };
    let (enters, passes, (), ()) = tokio::join!(gate.enter(), gate.through(), gate.moved(), moving);
    assert!(matches!(enters, Err(Barred::Moved(_))));
    assert!(matches!(passes, Err(Barred::Moved(_))));
    // There is no way back.
    gate.open();
    gate.close();
    assert!(matches!(gate.enter().await, Err(Barred::Moved(_))));
    assert!(gate.successor().is_some());
    assert!(gate.emptied(MOST).await, "who is refused is not counted");
}

#[tokio::test(start_paused = true)]
async fn gate_that_is_never_opened_is_not_waited_for_for_ever() {
    let gate = Gate::new();
    gate.close();
    let begin = Instant::now();
    assert!(matches!(gate.enter().await, Err(Barred::TooLong)));
    assert_eq!(begin.elapsed(), WAIT_MAX);
    gate.open();
    gate.through().await.unwrap();
}

/// Senders on four threads while the gate is closed and opened: what each of them posts is posted
/// before a close or after an opening, and all of it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn post_is_before_the_close_or_after_the_opening_and_none_is_lost() {
    const SENDERS: usize = 16;
    const CLOSES: usize = 300;
    let (gate, posted) = (Gate::new(), Arc::new(AtomicU64::new(0)));
    let (still, over) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    let mut senders = JoinSet::new();
    for _ in 0..SENDERS {
        let (gate, posted) = (Arc::clone(&gate), Arc::clone(&posted));
        let (still, over) = (Arc::clone(&still), Arc::clone(&over));
        senders.spawn(async move {
            let mut own = 0_u64;
            while !over.load(Ordering::Relaxed) {
                let pass = gate.enter().await.unwrap();
                assert!(!still.load(Ordering::Relaxed), "post {own} while all stood still");
                if own.is_multiple_of(64) {
                    yield_now().await;
                }
                posted.fetch_add(1, Ordering::Relaxed);
                own += 1;
                drop(pass);
                yield_now().await;
            }
            own
        });
    }
    let mut between = 0;
    for _ in 0..CLOSES {
        gate.close();
        assert!(gate.emptied(DEADLINE).await);
        still.store(true, Ordering::Relaxed);
        let before = posted.load(Ordering::Relaxed);
        yield_now().await;
        assert_eq!(posted.load(Ordering::Relaxed), before);
        still.store(false, Ordering::Relaxed);
        gate.open();
        while posted.load(Ordering::Relaxed) == before {
            yield_now().await;
        }
        between += 1;
    }
    over.store(true, Ordering::Relaxed);
    let all: u64 = senders.join_all().await.into_iter().sum();
    assert_eq!((posted.load(Ordering::Relaxed), between), (all, CLOSES));
    assert_eq!(gate.passes.load(Ordering::Relaxed), 0);
}
