//! Who is subscribed at the hub of the Mercure protocol: the list, and a private update at each
//! begin and end of a subscription.
//!
//! One task takes what workers note ([`Subscriptions`]) twenty times a second, posts the updates,
//! and keeps the list by them. Whoever asks for the list has that done first. So the list and the
//! updates behind its last id fit: nothing is missing between them. Of who comes while the list is
//! read for the first time an update may follow, though the list has it.
//!
//! When somebody begins to want it, the list is read from the directory. Where notes were lost it
//! is read anew, and the updates are those of what differs. Changes past their
//! [bound](ChangeBudget) are lost, as those are that cannot be posted. Then those who listen to
//! paths have their streams ended, and come back behind a gap.
//!
//! In a cluster the list is that of [all nodes](over_nodes).
//!
//! Cost: a load and a free lock twenty times a second as long as nobody may hear of it. Then some
//! 100 bytes a subscription and its texts, and what an update costs for each that begins or ends.

mod answers;
mod directory;
mod handed_over;
mod nodes_state;
mod over_nodes;
mod subject;
mod waiting;

use std::sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use dispatch::posting::{Sender, finish};
use dispatch::subject_rooms::SubjectRooms;
use hub::{IdText, LeftOut};
use mercure::{Dialect, EARLIEST, Subscription, SubscriptionPath, Update};
use serde_json::value::RawValue;
use tokio::sync::Mutex;
use tokio::task::{spawn_blocking, yield_now};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use topics::{
    LastUpdate, ListedSubscription, SubscriptionTable, Subscriptions, Topics, subscriber_text,
};

pub(crate) use self::answers::{Answer, AnswerBody, ListPart, ListRequest, NoAnswer};
use self::answers::{AnswerPlaces, answer_places};
use self::directory::visit_subscribed;
pub(crate) use self::handed_over::ListRest;
use self::nodes_state::NodesState;
use self::over_nodes::OverNodes;
use self::waiting::{ListChange, Waiting};
use crate::subscription_changes::{ChangeBudget, ChangeCounts, path_keys};
use crate::updates;

/// How often it is looked what workers have noted.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How often a directory is read again that has more subscriptions than are listed: it takes some
/// time, and whoever may read the list may ask all the time.
const READ_AGAIN: Duration = Duration::from_secs(10);

/// The event name of the hub's own updates in 1.0.
const OWN_KIND: &str = "mercure";

/// Updates that are posted before other tasks have their turn.
const POSTED_AT_ONCE: usize = 64;

/// The list.
pub(crate) struct SubscriptionList {
    sender: Sender,
    topics: Arc<Topics>,
    kept: Arc<Mutex<ListState>>,
    budget: StdMutex<ChangeBudget>,
    /// Locked for a moment, also by whoever has the lock of what is kept.
    waiting: StdMutex<Waiting>,
    places: AnswerPlaces,
    /// Of a node of a cluster.
    nodes: Option<Arc<OverNodes>>,
}

#[derive(Default)]
struct ListState {
    /// Since which time that it is wanted the table is kept, of [`Subscriptions::periods`]; 0 while
    /// it is not.
    period: u64,
    table: SubscriptionTable,
    /// When it was read from the directory.
    read_at: Option<Instant>,
    /// A number above all changes that nobody was told of. Over nodes that of the last change that
    /// is in the table.
    mark: u64,
    nodes: NodesState,
}

/// A turn among other tasks: a subscriber has up to some hundred selectors, so it is updates that
/// count.
#[derive(Default)]
struct Turn {
    posted: usize,
}

impl Turn {
    /// One update is posted, or left out. Lets others have their turn once it were enough.
    async fn posted(&mut self) {
        self.posted += 1;
        if self.posted.is_multiple_of(POSTED_AT_ONCE) {
            yield_now().await;
        }
    }
}

impl SubscriptionList {
    /// The list of the hub that `sender` posts updates of, which is kept until `stop`; `None` where
    /// there is no hub.
    pub(crate) fn begin(
        sender: &Sender,
        stop: &CancellationToken,
    ) -> Option<Arc<SubscriptionList>> {
        let topics = Arc::clone(sender.router.topics()?);
        let budget = ChangeBudget::of(&sender.router, &topics, sys::clock::monotonic_ms());
        let (sender, kept, budget) = (sender.clone(), Arc::default(), StdMutex::new(budget));
        let places = answer_places();
        let waiting = StdMutex::default();
        let (nodes, steps) =
            sender.cluster.as_ref().map(|cluster| OverNodes::new(cluster.node())).unzip();
        let nodes: Option<Arc<OverNodes>> = nodes.map(Arc::new);
        let of = (nodes.clone().zip(steps), stop.clone());
        let list = SubscriptionList { sender, topics, kept, budget, waiting, places, nodes };
        let list = Arc::new(list);
        match of {
            (Some((nodes, steps)), stop) => {
                tokio::spawn(Arc::clone(&list).run_over_nodes(nodes, steps, stop));
            }
            (None, stop) => drop(tokio::spawn(Arc::clone(&list).run(stop))),
        }
        Some(list)
    }

    /// Where a node tells the others who is subscribed.
    pub(crate) fn rooms(&self) -> Option<Arc<SubjectRooms>> {
        self.nodes.as_ref().map(|nodes| Arc::clone(nodes.rooms()))
    }

    /// Posts updates as long as somebody may hear them, until `stop`.
    async fn run(self: Arc<SubscriptionList>, stop: CancellationToken) {
        while stop.run_until_cancelled(sleep(LOOK_EVERY)).await.is_some() {
            let quiet_ms = self.topics.limits().topic_ms;
            if self.subscriptions().look(sys::clock::monotonic_ms(), quiet_ms) {
                self.catch_up(&mut *self.kept.lock().await).await;
                continue;
            }
            let mut kept = self.kept.lock().await;
            // Whoever has asked meanwhile has it read anew.
            if kept.period > 0 && !self.subscriptions().is_wanted() {
                forget(std::mem::take(&mut *kept).table);
                *self.waiting() = Waiting::default();
            }
        }
    }

    /// How many changes there were since the start.
    pub(crate) fn changes(&self) -> ChangeCounts {
        self.budget().counts()
    }

    /// A panic under the lock would leave it whole.
    fn budget(&self) -> MutexGuard<'_, ChangeBudget> {
        self.budget.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It is whole whatever happens under the lock.
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn subscriptions(&self) -> &Subscriptions {
        self.topics.subscriptions()
    }

    fn newest(&self) -> u64 {
        self.sender.router.event_ids().last()
    }

    /// The id behind which all changes of the list come.
    fn last_id(&self, mark: u64) -> String {
        let floor = self.subscriptions().since().max(mark);
        match self.topics.last_update() {
            Some(LastUpdate { number, id: Some(id) }) if number >= floor => id.into(),
            Some(LastUpdate { number, id: None }) if number >= floor => self.own_id(number),
            _ if floor == 0 => EARLIEST.to_owned(),
            _ => self.own_id(floor),
        }
    }

    fn own_id(&self, number: u64) -> String {
        format!("#{}", self.sender.router.event_ids().id(number))
    }

    /// Brings the list to where all is that workers have noted.
    async fn catch_up(&self, kept: &mut ListState) {
        let period = self.subscriptions().periods();
        if kept.period != period {
            // Perhaps nobody wanted it meanwhile, though it was not forgotten yet: then notes are
            // missing.
            if period > 1 {
                // Lists of before had the id of the last update, too.
                kept.mark = self.new_mark().await;
            }
            self.read_into(kept).await;
            kept.period = period;
            self.waiting().set_list(period, kept.mark);
        }
        let has_lost = self.waiting().fill(self.subscriptions());
        if !self.tell(&mut kept.table).await {
            return;
        }
        if has_lost {
            self.make_up(kept).await;
        }
        self.tell_losses().await;
    }

    /// If changes were lost: the list has a new tag, and whoever was there before is told of a gap.
    async fn tell_losses(&self) {
        if self.budget().take_unmarked() {
            self.subscriptions().raise_since(self.new_mark().await);
        }
        self.end_those_who_missed().await;
    }

    /// Ends the streams of those who listen, if something was lost for them.
    async fn end_those_who_missed(&self) {
        let listeners = self.subscriptions().listeners();
        // Behind the mark: of those who come meanwhile each is found here, or sees it.
        if self.budget().take_end(listeners, sys::clock::monotonic_ms()) {
            let lost = self.changes().lost;
            tracing::warn!(
                "changes of subscriptions were not told, {lost} since the start: streams that \
                 listen to them are ended, so that their clients come back and read the list"
            );
            self.end_listeners().await;
        }
    }

    /// Ends the streams of those who listen to paths of subscriptions.
    async fn end_listeners(&self) {
        let router = Arc::clone(&self.sender.router);
        // It fails only while the runtime ends.
        for key in spawn_blocking(move || path_keys(&router)).await.unwrap_or_default() {
            let Ok(id) = IdText::of_key(&key) else { continue };
            // After an upgrade the streams are at another process.
            let Ok(_permit) = self.sender.barrier.enter().await else { return };
            if finish(&mut self.sender.router.logout(id), &self.sender.graph).await.is_err() {
                // They are ended the next time.
                self.budget().owe_end();
            }
        }
    }

    /// A number that no event has.
    async fn new_mark(&self) -> u64 {
        loop {
            if let Some(id) = self.sender.router.mark() {
                return id.number();
            }
            yield_now().await;
        }
    }

    /// Puts what was noted into the table, and posts it, one after the other. Whether it was: after
    /// an upgrade all of it is another process's.
    async fn tell(&self, table: &mut SubscriptionTable) -> bool {
        let mut turn = Turn::default();
        loop {
            while let Some(change) = self.next_change() {
                if !self.post(&change).await {
                    return false;
                }
                turn.posted().await;
            }
            if !self.waiting().apply_next(table) {
                return true;
            }
            turn.posted().await;
        }
    }

    fn next_change(&self) -> Option<ListChange> {
        self.waiting().changes.front().cloned()
    }

    /// Notes were lost: reads anew who is there, and posts what differs.
    async fn make_up(&self, kept: &mut ListState) {
        let before = std::mem::take(&mut kept.table);
        self.read_into(kept).await;
        if !before.is_whole() || !kept.table.is_whole() {
            self.budget().lose();
        } else {
            self.waiting().make_up(&before, &kept.table);
        }
        self.waiting().is_making_up = false;
        self.tell(&mut kept.table).await;
    }

    /// Posts the updates of the next change. Not if all is another process's by now.
    async fn post(&self, change: &ListChange) -> bool {
        let Ok(permit) = self.sender.barrier.enter().await else { return false };
        let updates = self.updates_of(change);
        if !updates.is_empty() && self.budget().admits(&updates, sys::clock::monotonic_ms()) {
            // A connection does not hear of itself.
            let except = LeftOut::from(change.except);
            let mut is_told = true;
            for update in &updates {
                let posted = updates::post(&self.sender, &permit, update, except, |_| Ok(())).await;
                is_told &= posted.is_ok();
            }
            match is_told {
                true => self.budget().told(),
                false => self.budget().lose(),
            }
        }
        // As long as nobody writes down what waits.
        self.waiting().changes.pop_front();
        drop(permit);
        true
    }

    /// What a change is told as, in each dialect in which somebody may hear it.
    fn updates_of(&self, change: &ListChange) -> Vec<Update> {
        let ListChange { listed, is_active, only, .. } = change;
        let name = subscriber_text(listed.subscriber);
        let is_v1 = self.subscriptions().is_v1_wanted();
        let dialects = listed.kind.dialects().iter();
        let heard = dialects.filter(|dialect| match only {
            Some(only) => only == *dialect,
            None => is_v1 || **dialect == Dialect::Old,
        });
        let update = |dialect: &Dialect| {
            let subscription = subscription(listed, *dialect, &name, *is_active);
            Update {
                topics: vec![subscription.path.to_string()],
                data: subscription.json(),
                is_private: true,
                id: None,
                kind: (*dialect == Dialect::V1).then(|| OWN_KIND.to_owned()),
                retry: None,
            }
        };
        heard.map(update).collect()
    }

    async fn read_into(&self, kept: &mut ListState) {
        let table = self.read().await;
        forget(std::mem::replace(&mut kept.table, table));
        kept.read_at = Some(Instant::now());
    }

    /// Reads who is there.
    async fn read(&self) -> SubscriptionTable {
        let (topics, router) = (Arc::clone(&self.topics), Arc::clone(&self.sender.router));
        let read = move || {
            let mut table = SubscriptionTable::default();
            visit_subscribed(&router, topics.subscriptions(), |held, who, payload| {
                table.insert(held, who, payload);
                table.is_whole()
            });
            table
        };
        // It fails only while the runtime ends.
        spawn_blocking(read).await.unwrap_or_default()
    }
}

/// Drops a table, which takes some time if it is large, beside other tasks.
fn forget(table: SubscriptionTable) {
    if !table.is_empty() {
        drop(spawn_blocking(move || drop(table)));
    }
}

/// The document of a subscription of `subscriber` in a dialect in which it has a path.
pub(crate) fn subscription<'l>(
    listed: &'l ListedSubscription,
    dialect: Dialect,
    subscriber: &'l str,
    is_active: bool,
) -> Subscription<'l> {
    let path = SubscriptionPath::of(dialect, listed.kind.match_type(), &listed.selector);
    let payload = listed.payload.as_deref();
    let payload = payload.and_then(|payload| serde_json::from_str::<&RawValue>(payload).ok());
    Subscription { path: path.with(subscriber), is_active, payload }
}
