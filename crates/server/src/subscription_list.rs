//! Who is subscribed at the hub of the Mercure protocol: the list, and a private update at each
//! begin and end of a subscription.
//!
//! One task takes what workers note ([`Subscriptions`]) twenty times a second, posts the updates,
//! and keeps the list by them; whoever asks for the list has that done first. So the list and the
//! updates behind its last id fit: nothing is missing between them. Of who comes while the list is
//! read for the first time an update may follow, though the list has it.
//!
//! When somebody begins to want it, the list is read from the directory. Where notes were lost it
//! is read anew, and the updates are those of what differs. Changes past their
//! [bound](ChangeBudget) are lost, as those are that cannot be posted: then those who listen to
//! paths have their streams ended, and come back behind a gap.
//!
//! Cost: a load and a free lock twenty times a second as long as nobody may hear of it. Then some
//! 100 bytes a subscription and its texts, and what an update costs for each that begins or ends.

mod answers;

use std::sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use dispatch::posting::{Sender, finish};
use hub::{ConnRef, ConnectionId, Id, IdText, LeftOut};
use mercure::{Dialect, EARLIEST, MatchType, Subscription, SubscriptionPath, Update};
use serde_json::value::RawValue;
use tokio::sync::Mutex;
use tokio::task::{spawn_blocking, yield_now};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use topics::{
    HeldSelector, LastUpdate, ListedSubscription, SubscriberNote, SubscriberNumber,
    SubscriptionTable, Subscriptions, Topics, subscribed, subscriber_text,
};

pub(crate) use self::answers::{Answer, AnswerBody, ListPart, ListRequest, NoAnswer};
use self::answers::{AnswerPlaces, answer_places};
use crate::subscription_changes::{ChangeBudget, ChangeCounts, has_path, path_keys};
use crate::updates;

/// How often it is looked what workers have noted.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Connections of a topic that are read at one time, under a lock.
const WALKED_AT_ONCE: usize = 1_024;

/// How often a directory is read again that has more subscriptions than are listed: it takes some
/// time, and whoever may read the list may ask all the time.
const READ_AGAIN: Duration = Duration::from_secs(10);

/// Updates that are posted before other tasks have their turn.
const POSTED_AT_ONCE: usize = 64;

/// The list.
pub(crate) struct SubscriptionList {
    sender: Sender,
    topics: Arc<Topics>,
    kept: Arc<Mutex<ListState>>,
    budget: StdMutex<ChangeBudget>,
    places: AnswerPlaces,
}

#[derive(Default)]
struct ListState {
    /// Since which time that it is wanted the table is kept, of [`Subscriptions::periods`]; 0 while
    /// it is not.
    period: u64,
    table: SubscriptionTable,
    /// When it was read from the directory.
    read_at: Option<Instant>,
    /// A number above all changes that nobody was told of.
    mark: u64,
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
        let list = Arc::new(SubscriptionList { sender, topics, kept, budget, places });
        tokio::spawn(Arc::clone(&list).run(stop.clone()));
        Some(list)
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
        }
        let (notes, has_lost) = self.subscriptions().take();
        let mut turn = Turn::default();
        for note in notes {
            self.tell(&mut kept.table, note, &mut turn).await;
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

    /// Posts what a note says, and changes the table by it.
    async fn tell(&self, table: &mut SubscriptionTable, note: SubscriberNote, turn: &mut Turn) {
        let SubscriberNote { conn, came, selectors, payload } = note;
        let who = self.subscriptions().number(conn);
        let Some(selectors) = selectors else {
            for listed in table.of_subscriber(who) {
                table.remove(&listed.selector, who);
                self.post(&listed, None).await;
                turn.posted().await;
            }
            return;
        };
        for held in selectors.into_iter().filter(|held| has_path(&held.text)) {
            let is_listed = match came {
                Some(_) => table.insert(&held, who, payload.clone()),
                None => table.remove(&held.text, who),
            };
            if !is_listed && table.is_whole() {
                // It is left out, as one that no token grants: then its end is not told, either.
                turn.posted().await;
                continue;
            }
            let (selector, payload) = (held.text.into(), payload.clone());
            self.post(&ListedSubscription { selector, subscriber: who, payload }, came).await;
            turn.posted().await;
        }
    }

    /// Notes were lost: reads anew who is there, and posts what differs.
    async fn make_up(&self, kept: &mut ListState) {
        let before = std::mem::take(&mut kept.table);
        self.read_into(kept).await;
        if !before.is_whole() || !kept.table.is_whole() {
            self.budget().lose();
            return;
        }
        for ended in before.without(&kept.table) {
            self.post(&ended, None).await;
        }
        for begun in kept.table.without(&before) {
            // Whose own it is, is not known any more.
            self.post_as(&begun, true, None).await;
        }
    }

    /// Posts the update of a subscription that begins, of a connection that `came`, or ends.
    async fn post(&self, listed: &ListedSubscription, came: Option<ConnectionId>) {
        self.post_as(listed, came.is_some(), came).await;
    }

    async fn post_as(
        &self,
        listed: &ListedSubscription,
        is_active: bool,
        except: Option<ConnectionId>,
    ) {
        let name = subscriber_text(listed.subscriber);
        let subscription = subscription(listed, &name, is_active);
        let (path, data) = (subscription.path.to_string(), subscription.json());
        if !self.budget().admits(&path, &data, sys::clock::monotonic_ms()) {
            return;
        }
        let update = Update {
            topics: vec![path],
            data,
            is_private: true,
            id: None,
            kind: None,
            retry: None,
        };
        // After an upgrade the streams are at another process.
        let Ok(permit) = self.sender.barrier.enter().await else { return };
        // A connection does not hear of itself.
        let except = LeftOut::from(except);
        let posted = updates::post(&self.sender, &permit, &update, except, |_| Ok(())).await;
        match posted {
            Ok(_) => self.budget().told(),
            Err(_) => self.budget().lose(),
        }
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
            let mut keys: Vec<(Id, HeldSelector)> = Vec::new();
            router.names().visit_keys(|id, text| {
                let held = subscribed(text).filter(|held| has_path(&held.text));
                keys.extend(held.map(|held| (id, held)));
            });
            let (mut table, subscriptions) = (SubscriptionTable::default(), topics.subscriptions());
            'keys: for (id, held) in keys {
                let mut after: Option<ConnRef> = None;
                loop {
                    let mut conns = Vec::new();
                    after = router.walk(id, after, WALKED_AT_ONCE, |conn| conns.push(conn));
                    for conn in conns {
                        let who: SubscriberNumber = subscriptions.number(conn);
                        table.insert(&held, who, subscriptions.payload(conn));
                    }
                    if !table.is_whole() {
                        break 'keys;
                    }
                    if after.is_none() {
                        break;
                    }
                }
            }
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

/// The document of a subscription of `subscriber`.
pub(crate) fn subscription<'l>(
    listed: &'l ListedSubscription,
    subscriber: &'l str,
    is_active: bool,
) -> Subscription<'l> {
    let path = SubscriptionPath::of(Dialect::Old, MatchType::Exact, &listed.selector);
    let payload = listed.payload.as_deref();
    let payload = payload.and_then(|payload| serde_json::from_str::<&RawValue>(payload).ok());
    Subscription { path: path.with(subscriber), is_active, payload }
}
