//! The history's part of the control plane: tells clients that come back what they have missed,
//! and forgets what is too old.
//!
//! Resumes take their steps one after the other, in a ring, with room for sends between two steps.
//! So a client that follows a hundred thousand subjects takes its hundred steps while others come
//! and go, and one that waits for a large send holds up nobody. Those of clients with many ids are a
//! small part of the ring and wait for each other: who has one id waits for a hundred steps at most,
//! however many of the others there are.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use engine::{ResumeStep, Resumes, Resuming, Router};
use graph::Graph;
use sys::clock;
use tokio::task::yield_now;
use tokio::time::sleep;

/// Resumes under way at one time, of clients with few ids and of those with many; further ones wait
/// in their queues.
const SMALL_UNDER_WAY_MAX: usize = 1024;
const LARGE_UNDER_WAY_MAX: usize = 64;

/// How long to wait when all of them wait for a send or a mailbox.
const PAUSE: Duration = Duration::from_millis(1);

/// How often the aged is forgotten, beside what each send forgets.
const FORGET_EVERY: Duration = Duration::from_secs(1);

/// Resumes under way, in the order in which they take their steps.
#[derive(Default)]
struct Ring<'r> {
    resumings: VecDeque<Resuming<'r>>,
    /// How many of them are large.
    large: usize,
}

impl<'r> Ring<'r> {
    fn push(&mut self, resuming: Resuming<'r>) {
        self.large += usize::from(resuming.is_large());
        self.resumings.push_back(resuming);
    }

    fn pop(&mut self) -> Option<Resuming<'r>> {
        let resuming = self.resumings.pop_front()?;
        self.large -= usize::from(resuming.is_large());
        Some(resuming)
    }

    /// Takes in one more of each size, if there is room for it.
    fn fill(&mut self, router: &'r Router, resumes: &Resumes) {
        let small = self.resumings.len() - self.large;
        let small = (small < SMALL_UNDER_WAY_MAX).then(|| resumes.take_small()).flatten();
        let large = (self.large < LARGE_UNDER_WAY_MAX).then(|| resumes.take_large()).flatten();
        let asked = small.into_iter().chain(large);
        asked.filter_map(|resume| Resuming::begin(router, resume)).for_each(|r| self.push(r));
    }
}

/// Answers for as long as the runtime lives.
pub(super) async fn answer(router: Arc<Router>, resumes: Arc<Resumes>, graph: Graph) {
    let mut ring = Ring::default();
    let mut waiting = 0;
    loop {
        if ring.resumings.is_empty() {
            let resume = poll_fn(|context| resumes.poll_take(context)).await;
            Resuming::begin(&router, resume).into_iter().for_each(|r| ring.push(r));
        } else {
            ring.fill(&router, &resumes);
        }
        let Some(mut resuming) = ring.pop() else { continue };
        match resuming.step(&graph) {
            ResumeStep::Done => waiting = 0,
            ResumeStep::More => {
                ring.push(resuming);
                waiting = 0;
            }
            ResumeStep::Wait => {
                ring.push(resuming);
                waiting += 1;
            }
        }
        if waiting > 0 && waiting >= ring.resumings.len() {
            sleep(PAUSE).await;
            waiting = 0;
        } else {
            yield_now().await;
        }
    }
}

/// Forgets what is too old, for as long as the runtime lives.
pub(super) async fn forget(router: Arc<Router>) {
    let Some(history) = router.history() else { return };
    loop {
        sleep(FORGET_EVERY).await;
        while history.expire(clock::monotonic_ms()) {
            yield_now().await;
        }
    }
}
