//! The history's part of the control plane: tells clients that come back what they have missed,
//! and forgets what is too old.
//!
//! Resumes take their steps one after the other, in a ring, with room for sends between two steps.
//! So a client that follows a hundred thousand subjects takes its hundred steps while others come
//! and go, and one that waits for a large send holds up nobody.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use engine::{Resume, ResumeStep, Resumes, Resuming, Router};
use graph::Graph;
use sys::clock;
use tokio::task::yield_now;
use tokio::time::sleep;

/// Resumes under way at one time; further ones wait in their queue.
const UNDER_WAY_MAX: usize = 1024;

/// How long to wait when all of them wait for a send or a mailbox.
const PAUSE: Duration = Duration::from_millis(1);

/// How often the aged is forgotten, beside what each send forgets.
const FORGET_EVERY: Duration = Duration::from_secs(1);

/// Answers for as long as the runtime lives.
pub(super) async fn answer(router: Arc<Router>, resumes: Arc<Resumes>, graph: Graph) {
    let mut ring: VecDeque<Resuming<'_>> = VecDeque::new();
    let mut waiting = 0;
    loop {
        let begin = |resume: Resume| Resuming::begin(&router, resume);
        if ring.is_empty() {
            let resume = poll_fn(|context| resumes.poll_take(context)).await;
            ring.extend(begin(resume));
        } else if ring.len() < UNDER_WAY_MAX {
            ring.extend(resumes.take().and_then(begin));
        }
        let Some(mut resuming) = ring.pop_front() else { continue };
        match resuming.step(&graph) {
            ResumeStep::Done => waiting = 0,
            ResumeStep::More => {
                ring.push_back(resuming);
                waiting = 0;
            }
            ResumeStep::Wait => {
                ring.push_back(resuming);
                waiting += 1;
            }
        }
        if waiting > 0 && waiting >= ring.len() {
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
