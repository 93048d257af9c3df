//! What the log brings, handed to the workers in its order.
//!
//! Audiences of up to a window of events are gathered side by side. Each event is posted when it is
//! the next one. A mailbox that is full holds up all that come after: there is one order. Counts
//! are told as the workers know them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use auth::token_service::TokenService;
use auth::tokens::RevocationLine;
use cluster::Order;
use cluster::limits::WINDOW;
use engine::{GapStep, Outgoing, Receipt, Remembered, Router, Sending, Step};
use graph::Graph;
use hub::{Epoch, EventId, IdText, Tag};
use tokio::sync::mpsc;
use tokio::task::{spawn_blocking, yield_now};
use tokio::time::sleep;

use super::kept_log::KeptLog;
use super::{log_event, revocations};
use crate::idempotency::IdempotencyKeys;

/// How long to wait before a full mailbox is tried again.
const PAUSE: Duration = Duration::from_millis(1);

/// Steps that are taken before others have their turn, of some 3 µs each.
const STEPS: usize = 32;

/// Where something stands in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LogPlace {
    pub(super) epoch: u64,
    pub(super) sequence: u64,
    pub(super) index: u16,
}

/// What the node loop hands over, in the log's order.
#[derive(Debug)]
pub(super) enum Work {
    /// An event; so old, where it was posted before this node was a member.
    Event { place: LogPlace, id: EventId, event: cluster::Event, age_ms: Option<u64> },
    /// All nodes do this.
    Order { place: LogPlace, order: Order },
    /// All before this number is unknown here: only before there are clients.
    Forget(u64),
    /// What is kept on disk goes on behind this number of the epoch: only before there are clients.
    Keep(Tag, u64),
    /// All streams are told of a gap, and go on behind this number.
    Gap(u64),
    /// Another epoch begins, and all streams are told of a gap.
    Epoch(Epoch),
}

/// How many connections heard what stands at a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Counted {
    pub(super) place: LogPlace,
    /// Nothing where its audience could not be read.
    pub(super) count: Option<u32>,
}

/// What is at the head of the window, or behind it.
#[expect(clippy::large_enum_variant, reason = "almost all are sends, a window of them at most")]
enum Item<'r> {
    /// With the number of the event, where it is one.
    Sending(LogPlace, Option<u64>, Sending<'r>),
    LostRecords(LostRecords),
    Revoked(Revoked),
    /// An event of before this node was a member, and so old.
    Past(LogPlace, Option<Box<Outgoing>>, EventId, u64),
    Keep(Tag, u64),
}

/// What the log on disk is to be told before anything else is posted.
#[derive(Clone, Copy)]
enum ToKept {
    Begin(Tag, u64),
    Lost(Tag, u64),
}

/// Streams that are to end: once all mailboxes have room.
struct Revoked {
    place: LogPlace,
    line: RevocationLine<'static>,
}

#[derive(Clone, Copy)]
enum LostRecords {
    Gap(u64),
    Epoch(Epoch),
}

/// What it takes to post.
pub(super) struct Posting {
    pub(super) router: Arc<Router>,
    pub(super) graph: Graph,
    /// The tokens of this node's streams, where they have some.
    pub(super) tokens: Option<TokenService>,
    pub(super) keys: Arc<IdempotencyKeys>,
    /// What this node keeps on disk, where it does.
    pub(super) kept: Option<Arc<dyn KeptLog>>,
}

/// Posts for as long as the node loop lives.
pub(super) async fn run(
    Posting { router, graph, tokens, keys, kept }: Posting,
    mut work: mpsc::Receiver<Work>,
    counted: mpsc::Sender<Counted>,
) {
    let mut log_applier = LogApplier {
        router: &router,
        tokens,
        keys,
        window: VecDeque::new(),
        counting: VecDeque::new(),
        done: Vec::new(),
        tag: router.event_ids().epoch().tag,
        keeps: kept.is_some(),
        to_kept: None,
    };
    loop {
        while log_applier.window.len() < WINDOW
            && let Ok(next) = work.try_recv()
        {
            log_applier.take(next);
        }
        let state = log_applier.steps(&graph);
        if let (Some(word), Some(kept)) = (log_applier.to_kept.take(), &kept) {
            let kept = Arc::clone(kept);
            // Nothing is kept behind it before it is on disk.
            let told = spawn_blocking(move || match word {
                ToKept::Begin(tag, before) => kept.go_on_behind(tag, before),
                ToKept::Lost(tag, up_to) => kept.lost(tag, up_to),
            });
            if told.await.is_err() {
                return;
            }
        }
        log_applier.count();
        for done in log_applier.done.drain(..) {
            if counted.send(done).await.is_err() {
                return;
            }
        }
        match state {
            ApplierState::Busy => yield_now().await,
            ApplierState::Full => sleep(PAUSE).await,
            ApplierState::Idle => tokio::select! {
                biased;
                () = first(&mut log_applier.counting) => {}
                next = work.recv() => match next {
                    Some(next) => log_applier.take(next),
                    None => return,
                },
            },
        }
    }
}

struct LogApplier<'r> {
    router: &'r Router,
    tokens: Option<TokenService>,
    keys: Arc<IdempotencyKeys>,
    window: VecDeque<Item<'r>>,
    counting: VecDeque<(LogPlace, Receipt)>,
    done: Vec<Counted>,
    /// Of the epoch whose events are posted.
    tag: Tag,
    keeps: bool,
    to_kept: Option<ToKept>,
}

/// What is left to do.
enum ApplierState {
    Busy,
    Full,
    Idle,
}

impl<'r> LogApplier<'r> {
    fn take(&mut self, work: Work) {
        match work {
            Work::Event { place, id, event, age_ms } => self.event(place, id, event, age_ms),
            Work::Order { place, order } => match self.obey(place, order) {
                Some(item) => self.window.push_back(item),
                None => self.done.push(Counted { place, count: Some(0) }),
            },
            Work::Forget(number) => self.router.forget_up_to(number),
            Work::Keep(tag, before) => self.window.push_back(Item::Keep(tag, before)),
            Work::Gap(number) => self.window.push_back(Item::LostRecords(LostRecords::Gap(number))),
            Work::Epoch(epoch) => {
                // Nobody waits for what is of the epoch before.
                self.window.clear();
                self.counting.clear();
                self.window.push_back(Item::LostRecords(LostRecords::Epoch(epoch)));
            }
        }
    }

    /// Begins to do what all nodes do. `None` if that does not concern this one.
    fn obey(&self, place: LogPlace, order: Order) -> Option<Item<'r>> {
        match order {
            Order::Logout(id) => {
                // A user of an app is a key.
                let id = IdText::of_key(&id).ok()?;
                Some(Item::Sending(place, None, self.router.logout(id)))
            }
            Order::Revoke(text) => {
                let line = revocations::of_log(&text)?;
                // First, so that nobody comes in behind those who are put out.
                self.tokens.as_ref()?.learn(vec![line.clone()]);
                Some(Item::Revoked(Revoked { place, line }))
            }
        }
    }

    fn event(&mut self, place: LogPlace, id: EventId, event: cluster::Event, age_ms: Option<u64>) {
        if let Some(once) = event.once {
            let id = id.to_string().as_bytes().try_into().expect("ids have 16 letters and digits");
            if !self.keys.brought(once, id) {
                return self.done.push(Counted { place, count: Some(0) });
            }
        }
        // What no node of this version would send is passed over, as what has no audience.
        let Some(outgoing) = log_event::of_log(event) else {
            tracing::warn!(sequence = place.sequence, "an event of the cluster's log is malformed");
            return self.done.push(Counted { place, count: Some(0) });
        };
        if let Some(age_ms) = age_ms {
            let past = Item::Past(place, Some(Box::new(outgoing)), id, age_ms);
            return self.window.push_back(past);
        }
        let sending = self.router.send_numbered(outgoing, id);
        self.window.push_back(Item::Sending(place, Some(id.number()), sending));
    }

    /// Takes steps until there is nothing to do, or others should have their turn.
    fn steps(&mut self, graph: &Graph) -> ApplierState {
        let mut steps = 0;
        while let Some(item) = self.window.front_mut() {
            if steps >= STEPS || self.to_kept.is_some() {
                return ApplierState::Busy;
            }
            steps += 1;
            let Item::Sending(place, number, sending) = item else {
                match self.step_other() {
                    Some(state) => return state,
                    None => continue,
                }
            };
            let (place, number) = (*place, *number);
            match sending.step(graph) {
                Ok(Step::More) => {}
                Ok(Step::MailboxFull) => {
                    self.gather_behind(graph);
                    return ApplierState::Full;
                }
                Ok(Step::Posted(receipt)) => {
                    let is_missing = sending.is_not_kept();
                    self.window.pop_front();
                    if is_missing && let Some(number) = number {
                        self.to_kept = Some(ToKept::Lost(self.tag, number));
                    }
                    match receipt.ready() {
                        Some(count) => self.done.push(Counted { place, count: Some(count) }),
                        None => self.counting.push_back((place, receipt)),
                    }
                }
                Ok(Step::Stale | Step::NotKept) => {
                    self.window.pop_front();
                    self.done.push(Counted { place, count: Some(0) });
                }
                Err(error) => {
                    tracing::error!(%error, "an event of the cluster's log was not posted");
                    // Nobody knows who should have heard it.
                    match number {
                        Some(number) => *item = Item::LostRecords(LostRecords::Gap(number)),
                        None => drop(self.window.pop_front()),
                    }
                    self.done.push(Counted { place, count: None });
                }
            }
        }
        ApplierState::Idle
    }

    /// Does what is at the head of the window, which is no send. What is left to do, where it is
    /// there still.
    fn step_other(&mut self) -> Option<ApplierState> {
        let mut done = None;
        match self.window.front_mut()? {
            Item::Sending(..) => unreachable!("a send is stepped by itself"),
            Item::Revoked(Revoked { place, line }) => {
                if self.tokens.as_ref().is_some_and(|tokens| !tokens.end_streams(line)) {
                    return Some(ApplierState::Full);
                }
                done = Some(Counted { place: *place, count: Some(1) });
            }
            Item::LostRecords(lost) => {
                let lost = *lost;
                match lost.step(self.router) {
                    GapStep::Wait => return Some(ApplierState::Full),
                    GapStep::Told | GapStep::Behind => self.note_lost(lost),
                }
            }
            Item::Past(place, outgoing, id, age_ms) => {
                let (place, id) = (*place, *id);
                let event = *outgoing.take().expect("it is there until it is remembered");
                match self.router.remember(event, id, *age_ms) {
                    Remembered::Yes | Remembered::Stale => {}
                    Remembered::NotKept => {
                        self.to_kept = Some(ToKept::Lost(self.tag, id.number()));
                    }
                    Remembered::Wait(event) => {
                        *outgoing = Some(event);
                        return Some(ApplierState::Full);
                    }
                }
                done = Some(Counted { place, count: Some(0) });
            }
            Item::Keep(tag, before) => self.to_kept = Some(ToKept::Begin(*tag, *before)),
        }
        self.done.extend(done);
        self.window.pop_front();
        None
    }

    /// What is kept has a hole now, too.
    fn note_lost(&mut self, lost: LostRecords) {
        let up_to = match lost {
            LostRecords::Gap(number) => number,
            LostRecords::Epoch(Epoch { tag, base, .. }) => {
                self.tag = tag;
                base
            }
        };
        if self.keeps {
            self.to_kept = Some(ToKept::Lost(self.tag, up_to));
        }
    }

    /// While the first one waits for a mailbox, a slice of those behind it is looked up.
    fn gather_behind(&mut self, graph: &Graph) {
        for item in self.window.iter_mut().skip(1).take(STEPS) {
            if let Item::Sending(_, _, sending) = item
                && sending.gather(graph).is_err()
            {
                // It is tried again, and told, when it is its turn.
                return;
            }
        }
    }

    /// Tells the counts that are known, in the order of the log.
    fn count(&mut self) {
        while let Some((place, receipt)) = self.counting.front()
            && let Some(count) = receipt.ready()
        {
            self.done.push(Counted { place: *place, count: Some(count) });
            self.counting.pop_front();
        }
    }
}

impl LostRecords {
    fn step(self, router: &Router) -> GapStep {
        match self {
            LostRecords::Gap(number) => router.lose_up_to(number),
            LostRecords::Epoch(epoch) => router.begin_epoch(epoch),
        }
    }
}

/// Waits until the first of them is known; for ever when there is none.
async fn first(counting: &mut VecDeque<(LogPlace, Receipt)>) {
    match counting.front_mut() {
        Some((_, receipt)) => drop(receipt.await),
        None => std::future::pending().await,
    }
}
