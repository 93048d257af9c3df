//! The history's part of the control plane: tells clients that come back what they have missed,
//! and forgets what is too old.
//!
//! Resumes take their steps one after the other, in a ring, with room for sends every few steps.
//! So a client that follows a hundred thousand subjects takes its hundred steps while others come
//! and go, and one that waits for a large send holds up nobody. Those of clients with many ids have
//! a ring of their own and a part of the control plane's time: who has few does not wait for them,
//! and neither does a send, however many ask.
//!
//! What the memory has forgotten of subjects that are kept on disk is read by other threads; in the
//! ring the others go on meanwhile ([`reads`]).

mod reads;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use engine::{FutureCursors, Questions, Resume, ResumeStep, Resumes, Resuming, Router};
use graph::Graph;
use hub::Followers;
use sys::clock;
use tokio::task::yield_now;
use tokio::time::sleep;
use topics::TopicFollowers;

use self::reads::{Reads, Under};

/// Resumes under way at one time in either ring; further ones wait in their queue.
const UNDER_WAY_MAX: usize = 1024;

/// How long steps are taken one after the other before sends have their turn. A step is a few
/// microseconds, of a client that follows thousands some forty; to give way takes one or two.
const SLICE_NS: u64 = 50_000;

/// How long those of clients with many ids go on, less what others take, before they rest for
/// [`PAUSE`]: two or three of the most ids that a head has, and about a third of a core.
const LARGE_NS: u64 = 500_000;

/// How long to rest, and to wait when all of them wait for a send or a mailbox.
const PAUSE: Duration = Duration::from_millis(1);

/// How often the aged is forgotten, beside what each send forgets.
const FORGET_EVERY: Duration = Duration::from_secs(1);

/// Whose resumes to answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Size {
    /// Those of clients with few ids.
    Small,
    /// Those of clients with many.
    Large,
}

/// Answers for as long as the runtime lives.
pub(super) async fn answer(router: Arc<Router>, resumes: Arc<Resumes>, size: Size, graph: Graph) {
    let topics = router.topics().map(|topics| TopicFollowers::new(topics, &graph));
    let followers: &dyn Followers = match &topics {
        Some(of_both) => of_both,
        None => &graph,
    };
    let questions = match size {
        Size::Small => resumes.small(),
        Size::Large => resumes.large(),
    };
    let mut ring: VecDeque<Under<'_>> = VecDeque::new();
    let mut reads = Reads::new();
    let begin = |resume| Resuming::begin(&router, resume).map(Under::from);
    let (mut waiting, mut worked_ns) = (0, 0);
    loop {
        if ring.is_empty() {
            match poll_fn(|context| poll_any(questions, &mut reads, context)).await {
                Next::Asked(resume) => ring.extend(begin(resume)),
                Next::Answered(under) => ring.push_back(*under),
            }
        }
        let began_ns = clock::monotonic_ns();
        let mut taken_ns = 0;
        while taken_ns < SLICE_NS && (waiting == 0 || waiting < ring.len()) {
            if ring.len() + reads.len() < UNDER_WAY_MAX {
                ring.extend(questions.take().and_then(begin));
            }
            ring.extend(reads.next());
            let Some(mut under) = ring.pop_front() else { break };
            let step = under.resuming.step(followers);
            waiting = if step == ResumeStep::Wait { waiting + 1 } else { 0 };
            match step {
                ResumeStep::More | ResumeStep::Wait => ring.push_back(under),
                ResumeStep::Read => ring.extend(reads.begin(under)),
                ResumeStep::Done => {}
            }
            taken_ns = clock::monotonic_ns() - began_ns;
        }
        worked_ns += taken_ns;
        let rests = size == Size::Large && worked_ns >= LARGE_NS;
        if rests || waiting > 0 && waiting >= ring.len() {
            sleep(PAUSE).await;
            (waiting, worked_ns) = (0, 0);
        } else {
            yield_now().await;
        }
    }
}

/// What comes into a ring.
enum Next<'r> {
    Asked(Resume),
    /// One that has an answer of the archive.
    Answered(Box<Under<'r>>),
}

/// Waits for what comes next into a ring that is empty.
fn poll_any<'r>(
    questions: &Questions<Resume>,
    reads: &mut Reads<'r>,
    context: &mut Context<'_>,
) -> Poll<Next<'r>> {
    if let Poll::Ready(Some(under)) = reads.poll_next(context) {
        return Poll::Ready(Next::Answered(Box::new(under)));
    }
    if reads.len() >= UNDER_WAY_MAX {
        return Poll::Pending;
    }
    questions.poll_take(context).map(Next::Asked)
}

/// How often to look which clients' places a node of a cluster has come to.
const FUTURE_PAUSE: Duration = Duration::from_millis(2);

/// Lets clients ask whose place was ahead of this node of a cluster, for as long as the runtime
/// lives. While there are none it sleeps.
pub(super) async fn wait_for_places(router: Arc<Router>, resumes: Arc<Resumes>) {
    let mut future_cursors = FutureCursors::default();
    loop {
        poll_fn(|context| future_cursors.poll_any(&resumes, context)).await;
        if future_cursors.go_on(&router, &resumes, clock::monotonic_ms()) {
            yield_now().await;
        } else {
            sleep(FUTURE_PAUSE).await;
        }
    }
}

/// Forgets what is too old, for as long as the runtime lives.
pub(super) async fn forget(router: Arc<Router>) {
    if router.history().is_none() && !router.caches_events() {
        return;
    }
    loop {
        sleep(FORGET_EVERY).await;
        while router.history().is_some_and(|history| history.expire(clock::monotonic_ms())) {
            yield_now().await;
        }
        while router.forget_cached() {
            yield_now().await;
        }
        router.topics().into_iter().for_each(|topics| topics.forget(clock::monotonic_ms()));
    }
}
