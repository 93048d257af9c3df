//! What the log brings, handed to the workers in its order.
//!
//! Audiences of up to a window of events are gathered side by side. Each event is posted when it is
//! the next one. A mailbox that is full holds up all that come after: there is one order. Counts
//! are told as the workers know them.

mod item;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use auth::token_service::TokenService;
use cluster::Order;
use cluster::limits::WINDOW;
use engine::{GapStep, Receipt, Remembered, Router, Step};
use graph::Graph;
use hub::{Epoch, EventId, IdText, Tag};
use tokio::sync::mpsc;
use tokio::task::{spawn_blocking, yield_now};
use tokio::time::sleep;

use self::item::{Item, LoggedSend, LostRecords, PastEvent, Revoked, ToKept};
use super::kept_log::KeptLog;
use super::log_update::LogUpdate;
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
                item::begin_epoch(&mut self.window, &self.keys, epoch);
                // Nobody waits for what is of the epoch before.
                self.counting.clear();
            }
        }
    }

    /// Begins to do what all nodes do. `None` if that does not concern this one.
    fn obey(&self, place: LogPlace, order: Order) -> Option<Item<'r>> {
        match order {
            Order::Logout(id) => {
                // A user of an app is a key.
                let id = IdText::of_key(&id).ok()?;
                let sending = self.router.logout(id);
                let (number, update, once) = (None, None, None);
                Some(Item::Sending(LoggedSend { place, number, sending, update, once }))
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
        let once = event.once.map(|once| {
            let written: Result<[u8; 16], _> = id.to_string().as_bytes().try_into();
            (once, written.expect("ids have 16 letters and digits"))
        });
        if let Some((once, id)) = once
            && !self.keys.brought(once, id)
        {
            return self.done.push(Counted { place, count: Some(0) });
        }
        // What no node of this version would send is passed over, as what has no audience.
        let is_update = event.is_update;
        let Some(mut outgoing) = log_event::of_log(event) else {
            tracing::warn!(sequence = place.sequence, "an event of the cluster's log is malformed");
            return self.done.push(Counted { place, count: Some(0) });
        };
        let update = self.router.topics().filter(|_| is_update).and_then(|topics| {
            LogUpdate::begin(topics, &outgoing.draft, age_ms.unwrap_or(0)).map(Box::new)
        });
        if is_update && update.is_none() {
            // This node is no hub. The number counts here, too.
            outgoing = outgoing.for_subjects_alone();
        }
        if let Some(age_ms) = age_ms {
            let outgoing = Some(Box::new(outgoing));
            let past = PastEvent { place, outgoing, update, id, age_ms };
            return self.window.push_back(Item::Past(past));
        }
        let sending = self.router.send_numbered(outgoing, id);
        let sent = LoggedSend { place, number: Some(id.number()), sending, update, once };
        self.window.push_back(Item::Sending(sent));
    }

    /// Takes steps until there is nothing to do, or others should have their turn.
    fn steps(&mut self, graph: &Graph) -> ApplierState {
        let mut steps = 0;
        while let Some(item) = self.window.front_mut() {
            if steps >= STEPS || self.to_kept.is_some() {
                return ApplierState::Busy;
            }
            steps += 1;
            let Item::Sending(sent) = item else {
                match self.step_other() {
                    Some(state) => return state,
                    None => continue,
                }
            };
            let (place, number) = (sent.place, sent.number);
            match sent.step(graph) {
                Ok(Step::More) => {}
                Ok(Step::MailboxFull) => {
                    self.gather_behind(graph);
                    return ApplierState::Full;
                }
                Ok(Step::Posted(receipt)) => {
                    let is_missing = sent.sending.is_not_kept();
                    sent.posted();
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
            Item::Sending(_) => unreachable!("a send is stepped by itself"),
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
            Item::Past(past) => {
                let (place, number) = (past.place, past.id.number());
                let event = *past.outgoing.take().expect("it is there until it is remembered");
                match self.router.remember(event, past.id, past.age_ms) {
                    Remembered::Stale => {}
                    Remembered::Yes => past.remembered(),
                    Remembered::NotKept => {
                        past.remembered();
                        self.to_kept = Some(ToKept::Lost(self.tag, number));
                    }
                    Remembered::Wait(event) => {
                        past.outgoing = Some(event);
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
            if let Item::Sending(sent) = item
                && sent.gather(graph).is_err()
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

/// Waits until the first of them is known; for ever when there is none.
async fn first(counting: &mut VecDeque<(LogPlace, Receipt)>) {
    match counting.front_mut() {
        Some((_, receipt)) => drop(receipt.await),
        None => std::future::pending().await,
    }
}
