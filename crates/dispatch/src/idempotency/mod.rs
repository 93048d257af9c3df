//! A send that is repeated with its idempotency key is posted once, and answered what it was
//! answered the first time (draft-ietf-httpapi-idempotency-key-header).
//!
//! Whoever comes first with a key [claims](Claim) it. A claim may be dropped because its send was
//! refused, or because its client went away before the event was posted. It leaves nothing behind,
//! so that the send may be tried again. Once the event has its number the key is remembered for
//! five minutes, whether its client still waits or not. The count is awaited by a task of its own.
//! A repeat that comes meanwhile waits for the same count. What is remembered are keyed hashes, in
//! memory alone: after a restart every key is new, and an [upgrade](written) hands them on.
//!
//! In a cluster the hashes go through the log with the event. Each node knows the keys of all
//! events that it has read. Of several events with one key, sent at several nodes at one time, the
//! first one in the log is posted, everywhere.
//!
//! A key is that of its sender, of the API key that a request shows. Nobody gets in another's way
//! with it, or hears another's answers. One under which something else is sent is refused. When
//! there is no place for another key, new ones are refused until the oldest is forgotten. Were the
//! oldest forgotten before its time, its repeat would be posted again, and nobody would know.
//!
//! A key costs two hashes, a look-up under a lock of the control plane, a channel and mostly a
//! task. It takes 64 to 85 bytes for five minutes, and some 400 more while its event is under way.
//! A send without one comes to none of this.

mod key;
mod remembered;
mod shares;
mod table;
mod written;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cluster::Once;
use httpd::problem::ApiProblem;
use tokio::sync::watch;
use tokio::time::sleep;

use self::key::Hasher;
pub use self::key::{IdempotencyKey, member};
pub use self::table::Refusal;
use self::table::{Found, Table};
pub use self::written::{KeysPart, KeysRead};
use crate::outcome::{Delivered, LogTrouble};

/// How long a key is remembered, from when its event was posted.
pub const REMEMBERED: Duration = Duration::from_secs(300);

/// Keys at one time: for five minutes 3,495 new ones a second. Each takes an entry of 64 bytes and
/// a slot of 9 in a table that is at least 7/16 full: 64 MiB and 18 MiB when all are there.
const KEYS_MAX: usize = 1 << 20;

/// How often those are looked for whose time is over.
const FORGET_EVERY: Duration = Duration::from_secs(1);

/// How many of them are forgotten before others have their turn: some 50 ns each.
const FORGET_MAX: usize = 4096;

/// An event's id as it is written.
type EventId = [u8; 16];

/// How far the first send with a key is. Its channel is closed when it ends without an answer.
#[derive(Clone, Copy, Debug)]
pub enum Progress {
    /// Its event is not posted yet, and may never be.
    Claimed,
    /// It is, with this id, and the workers deliver it.
    Posted(EventId),
    /// It is delivered.
    Answered(Delivered),
    /// It is delivered with this id, and should be on disk, and is not known to be.
    NotDurable(EventId),
    /// The cluster did not take it, and the key is free again.
    Refused(LogTrouble),
    /// Nobody knows whether the cluster took it, so that it must not be sent again.
    Unknown,
    /// Another node has sent something else with its key, which the cluster's log had first, so
    /// that it is posted nowhere.
    OtherBody,
}

/// Whose a key is. Names of different holders differ.
#[derive(Clone, Copy, Debug)]
pub enum KeyHolder<'a> {
    /// Who calls the API.
    Application(&'a str),
    /// A client of streams. All clients together leave places to applications.
    Client {
        /// Whose its keys are.
        name: &'a str,
        /// For whom they are counted, of which each has a share of the places; where nobody knows
        /// who it is, for nobody.
        counted: Option<&'a str>,
    },
}

impl<'a> KeyHolder<'a> {
    fn name(self) -> &'a str {
        match self {
            KeyHolder::Application(name) | KeyHolder::Client { name, .. } => name,
        }
    }
}

/// What is to be done about a send with a key.
#[derive(Debug)]
pub enum Claimed {
    /// Post it.
    First(Claim),
    /// Wait until it is posted by another, or post it after all if it is not.
    UnderWay(watch::Receiver<Progress>),
    /// Answer this.
    Answered(Delivered),
}

/// The keys of the last five minutes.
#[derive(Debug)]
pub struct IdempotencyKeys {
    hasher: Hasher,
    started: Instant,
    table: Mutex<Table>,
    /// Sends that were answered without being posted. Relaxed, as [`IdempotencyKeys::refused`]: it
    /// is only reported.
    repeats: AtomicU64,
    /// Sends that were refused for want of a place.
    refused: AtomicU64,
}

impl From<Refusal> for ApiProblem {
    fn from(refusal: Refusal) -> ApiProblem {
        match refusal {
            Refusal::OtherBody => ApiProblem::other_body(),
            Refusal::Full { retry_after } => ApiProblem::keys_full(retry_after),
            Refusal::Share { keys, retry_after } => ApiProblem::key_share(keys, retry_after),
        }
    }
}

/// The right, and the duty, to post the event of a key.
#[derive(Debug)]
pub struct Claim {
    keys: Arc<IdempotencyKeys>,
    key: u128,
    body: u128,
    /// `None` once the event is posted.
    progress: Option<watch::Sender<Progress>>,
}

/// An event that is posted under a key and not counted yet.
#[derive(Debug)]
pub struct Uncounted {
    keys: Arc<IdempotencyKeys>,
    place: u64,
    id: EventId,
    progress: watch::Sender<Progress>,
}

impl IdempotencyKeys {
    /// An empty table with a hash of its own; fails where the system has no random numbers.
    pub fn new() -> Result<Arc<IdempotencyKeys>, getrandom::Error> {
        Ok(IdempotencyKeys::with_bounds(Hasher::random()?, KEYS_MAX, REMEMBERED))
    }

    /// Keys of a node: all nodes hash with one secret.
    pub fn of_cluster(secret: [u8; 16]) -> Arc<IdempotencyKeys> {
        IdempotencyKeys::with_bounds(Hasher::with(secret), KEYS_MAX, REMEMBERED)
    }

    fn with_bounds(hasher: Hasher, keys_max: usize, remembered: Duration) -> Arc<IdempotencyKeys> {
        Arc::new(IdempotencyKeys {
            hasher,
            started: Instant::now(),
            table: Mutex::new(Table::new(keys_max, remembered.as_millis() as u64)),
            repeats: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        })
    }

    /// Claims `key` of `holder` for an event, or tells what became of the one that was sent with it
    /// before.
    pub fn claim(
        self: &Arc<IdempotencyKeys>,
        holder: KeyHolder<'_>,
        key: &IdempotencyKey<'_>,
        about: &str,
        data: &str,
    ) -> Result<Claimed, Refusal> {
        let (key, body) = (self.hasher.key(holder.name(), key), self.hasher.body(about, data));
        match self.table().claim(holder, key, body, self.now_ms()) {
            Ok(Found::New(progress)) => {
                let keys = Arc::clone(self);
                Ok(Claimed::First(Claim { keys, key, body, progress: Some(progress) }))
            }
            Ok(Found::UnderWay(progress)) => Ok(Claimed::UnderWay(progress)),
            Ok(Found::Answered(answer)) => Ok(Claimed::Answered(answer)),
            Err(refusal) => {
                if matches!(refusal, Refusal::Full { .. } | Refusal::Share { .. }) {
                    self.refused.fetch_add(1, Ordering::Relaxed);
                }
                Err(refusal)
            }
        }
    }

    /// The cluster's log has brought the event `id`, which is posted once. Whether it is the first
    /// one that is known by that.
    pub fn brought(&self, once: Once, id: EventId) -> bool {
        self.table().brought(once.key, once.body, id, self.now_ms())
    }

    /// The event `id`, which the log has [brought](IdempotencyKeys::brought), is not posted here
    /// after all, since that log is given up: the next one that is known by `once` is the first.
    pub fn forget_brought(&self, once: Once, id: EventId) {
        self.table().forget_brought(once.key, id, self.now_ms());
    }

    /// By what all nodes know an event that this one sends by itself, in the name of `sender`, as
    /// often as it takes: without a claim.
    pub fn once_of(&self, sender: &str, text: &str, about: &str) -> Once {
        Once { key: self.hasher.own(sender, text), body: self.hasher.body(about, text) }
    }

    /// Whether the cluster's log has brought such an event in the last five minutes.
    pub fn has_brought(&self, once: Once) -> bool {
        self.table().has(once.key, self.now_ms())
    }

    /// The first event that the cluster's log has brought of those that are known by `once`, and
    /// whether it says the same; `None` where it has brought none in the last five minutes.
    pub fn first_of(&self, once: Once) -> Option<([u8; 16], bool)> {
        let (id, body) = self.table().brought_of(once.key, self.now_ms())?;
        Some((id, body == once.body))
    }

    /// Counts a send that is answered without being posted.
    pub fn count_repeat(&self) {
        self.repeats.fetch_add(1, Ordering::Relaxed);
    }

    /// Sends that were answered without being posted.
    pub fn repeats(&self) -> u64 {
        self.repeats.load(Ordering::Relaxed)
    }

    /// Sends that were refused for want of a place.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Counts on from what another process has counted.
    pub fn count_on(&self, repeats: u64, refused: u64) {
        self.repeats.fetch_add(repeats, Ordering::Relaxed);
        self.refused.fetch_add(refused, Ordering::Relaxed);
    }

    /// Keys that are remembered or under way.
    pub fn count(&self) -> usize {
        self.table().len()
    }

    /// Memory that they take.
    pub fn bytes(&self) -> usize {
        self.table().bytes()
    }

    fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    /// A panic with the table locked ends the process, so it is never seen half changed.
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets keys whose time is over, for as long as the runtime lives.
pub async fn forget(keys: Arc<IdempotencyKeys>) {
    loop {
        sleep(FORGET_EVERY).await;
        while keys.table().forget(keys.now_ms(), FORGET_MAX) == FORGET_MAX {
            tokio::task::yield_now().await;
        }
    }
}

impl Claim {
    /// By what the other nodes know it.
    pub fn once(&self) -> Once {
        Once { key: self.key, body: self.body }
    }

    /// The event with this key that the cluster's log has brought first, and whether it says the
    /// same. If it is another than this one, this one is posted nowhere.
    fn first(&self) -> Option<(EventId, bool)> {
        let (id, body) = self.keys.table().first_of(self.key)?;
        Some((id, body == self.body))
    }

    /// The log has taken the event, and it is counted.
    pub fn answered(self, answer: Delivered) {
        let (first, says_the_same) = self.first().unwrap_or((answer.id, true));
        // How many have heard another node's event is known there.
        let is_ours = first == answer.id;
        debug_assert!(says_the_same || !is_ours, "the log has another body than was sent");
        if !is_ours {
            self.keys.count_repeat();
        }
        if says_the_same {
            let count = if is_ours { answer.count } else { 0 };
            self.posted(first).counted(count, answer.at_least || !is_ours);
        } else {
            self.refused(Progress::OtherBody);
        }
    }

    /// The event is posted, so the key is remembered from now on.
    pub fn posted(mut self, id: EventId) -> Uncounted {
        let progress = self.progress.take().expect("it is posted once");
        let place = self.keys.table().remember(self.key, self.keys.now_ms());
        progress.send_replace(Progress::Posted(id));
        Uncounted { keys: Arc::clone(&self.keys), place, id, progress }
    }

    /// Where to hear what becomes of it.
    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.as_ref().expect("it is not posted yet").subscribe()
    }

    /// The cluster did not take the event. Where that is not known, the key is remembered as if it
    /// had: what is sent again might be heard twice.
    pub fn failed(mut self, trouble: LogTrouble) {
        let may_be_sent = matches!(trouble, LogTrouble::Silent | LogTrouble::NotDurable);
        match self.first() {
            // It is posted, and whoever sends it asks for more than that.
            Some((id, true)) if trouble == LogTrouble::NotDurable => self.posted(id).not_durable(),
            Some((id, true)) => drop(self.posted(id).counted(0, true)),
            Some((_, false)) => self.refused(Progress::OtherBody),
            None if !may_be_sent => self.refused(Progress::Refused(trouble)),
            None => {
                let progress = self.progress.take().expect("it is not posted yet");
                self.keys.table().remember(self.key, self.keys.now_ms());
                progress.send_replace(Progress::Unknown);
            }
        }
    }

    /// Whoever waits hears `why`, and what is known of the key is what the log has brought.
    fn refused(self, why: Progress) {
        self.progress.iter().for_each(|progress| {
            progress.send_replace(why);
        });
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // First the key is free, then those who wait for it are told.
        if let Some(progress) = self.progress.take() {
            self.keys.table().give_up(self.key, self.keys.now_ms());
            drop(progress);
        }
    }
}

impl Uncounted {
    /// Who waits may listen here.
    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// It should be on disk, and is not known to be.
    pub fn not_durable(self) {
        self.progress.send_replace(Progress::NotDurable(self.id));
    }

    /// All workers have delivered.
    pub fn counted(self, count: u32, at_least: bool) -> Delivered {
        let answer = Delivered { id: self.id, count, at_least };
        self.keys.table().answered(self.place, answer);
        self.progress.send_replace(Progress::Answered(answer));
        answer
    }
}

#[cfg(test)]
mod tests;
