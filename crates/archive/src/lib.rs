//! Events that stay: of the subjects that a rule keeps, each event is written to the log on disk
//! ([`journal`]) as it is posted, and read again by subject.
//!
//! It does not decide when an event is posted, and remembers nothing in memory beside what the log
//! does: what was sent of late is read from [`hub::History`].
//!
//! Cost of a send: each rule is looked at for each subject. One that is kept is copied once, and
//! waits for nothing. A page is read from the disk, on the thread of whoever asks.
//!
//! Updates of topics are kept as events of ids are, each topic by the rule for its name, if the
//! server has a hub. Those of the hub itself are not: they tell of connections, which end with the
//! process.
//!
//! The log is one process's. Before another one opens it this one [lets go](DiskArchive::let_go)
//! of it, and may [take it back](DiskArchive::take_back).

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed test should panic"))]

mod heard;
mod kept_names;
mod offline;
mod reading;
mod record;
mod rules;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::io;
use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hub::{
    Archive, ArchiveError, Draft, Event, EventStore, KeepRoom, KeptUpdatesOf, KeptUpdatesPage,
};
use hub::{KeptBounds, KeptListener, NoRoomToKeep, Page, PageOf, WhenDurable, kept_under};
use journal::{
    Config, Damage, Disk, Found, Journal, NoRoom, OpenError, Opened, Record, Room, Stats, Sync,
};
use parking_lot::{Mutex, RwLock};
use smallvec::SmallVec;
use sys::clock::unix_ms as now_ms;

pub use journal::Report;

use crate::heard::Hearing;
use crate::kept_names::Since;
pub use crate::offline::{Kept, check, export};
use crate::reading::{Floors, Subject, merged};
pub use crate::rules::{BadKeepRule, KeepRule, KeepRules};

/// The events that stay, on disk.
pub struct DiskArchive {
    rules: KeepRules,
    config: Config,
    disk: Arc<dyn Disk>,
    /// Held by who opens or closes it, which waits for the disk. Taken before `journal`, never
    /// while that is held; nobody who sends or reads takes it.
    changing: Mutex<()>,
    /// `None` while another process has it, and while it is opened or closed. Nobody waits for the
    /// disk with it.
    journal: RwLock<Option<Journal>>,
    floors: Floors,
    /// What the hub's own topics begin with, if topics are kept.
    hub_path: Option<&'static str>,
    /// From which number on all was kept; from the first one while unsaid.
    since: RwLock<Option<Since>>,
    /// The last number that was in the log when it was opened: what comes again is there.
    was_kept: AtomicU64,
    /// Nothing is kept until it is written down what is missing.
    paused: AtomicBool,
    /// Up to which number some that were to be kept are missing.
    lost: AtomicU64,
}

/// A record without keys and a body, whose number and time take as many bytes as any can.
const EMPTY: Record<'_> = Record {
    number: u64::MAX,
    at_ms: u64::MAX,
    expires_ms: u64::MAX,
    keys: &[],
    kind: 0,
    body: &[],
};

/// Bytes that a record's age takes at most, beside the one of a record that never expires.
const AGE_BYTES: usize = 9;

/// Room for one event.
struct EventRoom<'a> {
    archive: &'a DiskArchive,
    room: Room,
}

impl DiskArchive {
    /// Opens the log, and says what was in it.
    ///
    /// # Errors
    ///
    /// The log cannot be read, another process has it, or a newer version wrote it.
    pub fn open(
        rules: KeepRules,
        config: Config,
        disk: Arc<dyn Disk>,
    ) -> Result<(DiskArchive, Found), OpenError> {
        let archive = DiskArchive::closed(rules, config, disk);
        let found = archive.take_back()?.unwrap_or_default();
        Ok((archive, found))
    }

    /// The archive of a log that is another process's now, until it is
    /// [taken](DiskArchive::take_back).
    pub fn closed(rules: KeepRules, config: Config, disk: Arc<dyn Disk>) -> DiskArchive {
        DiskArchive {
            rules,
            config,
            disk,
            changing: Mutex::new(()),
            journal: RwLock::new(None),
            floors: Floors::default(),
            hub_path: None,
            since: RwLock::new(None),
            was_kept: AtomicU64::new(0),
            paused: AtomicBool::new(false),
            lost: AtomicU64::new(0),
        }
    }

    /// This archive, which keeps updates of topics, too, but for those that begin with `hub_path`:
    /// they are the hub's own.
    #[must_use]
    pub fn with_topics(self, hub_path: Option<&'static str>) -> DiskArchive {
        DiskArchive { hub_path, ..self }
    }

    /// Whether updates of topics are kept.
    pub fn keeps_topics(&self) -> bool {
        self.hub_path.is_some()
    }

    /// The rules in their order have kept what their patterns fit since these numbers, and topics
    /// since the number `topics`: of events up to there nothing is claimed. Said before anything is
    /// read, and again when some are missing.
    pub fn set_since(&self, rules: Vec<u64>, topics: u64) {
        debug_assert_eq!(rules.len(), self.rules.iter().count(), "a number for each rule");
        *self.since.write() = Some(Since { rules: rules.into(), topics });
    }

    /// Refuses to keep anything, or keeps again: between the two nothing is claimed.
    pub fn pause(&self, pause: bool) {
        self.paused.store(pause, Ordering::Release);
    }

    /// Not all that was to be kept up to the number is in the log.
    pub fn lose(&self, up_to: u64) {
        self.lost.fetch_max(up_to, Ordering::AcqRel);
    }

    /// Whether all that was kept up to the number, and was posted, is on disk.
    pub fn is_on_disk(&self, number: u64) -> bool {
        let Some(journal) = self.journal() else { return false };
        let stats = journal.stats();
        let is_idle = !stats.failing && stats.queued == 0;
        journal.durable() >= number || is_idle && journal.durable() >= journal.written()
    }

    /// The last number that was in the log when it was opened; 0 where there was none.
    pub fn last_found(&self) -> u64 {
        self.was_kept.load(Ordering::Acquire)
    }

    /// The rules.
    pub fn rules(&self) -> &KeepRules {
        &self.rules
    }

    /// Forgets what has expired, as far as whole files have.
    ///
    /// # Errors
    ///
    /// A file cannot be removed.
    pub fn drop_expired(&self) -> io::Result<()> {
        self.journal().map_or(Ok(()), |journal| journal.drop_expired(now_ms()))
    }

    /// Damage of the log that reads have met since the last call, of each file once.
    pub fn take_damage_met(&self) -> Vec<Damage> {
        self.journal().map(|journal| journal.take_damage_met()).unwrap_or_default()
    }

    /// Figures of the log; `None` while another process has it.
    pub fn stats(&self) -> Option<Stats> {
        self.journal().map(|journal| journal.stats())
    }

    /// Writes and syncs all that was appended, and gives the log up. From now on nothing is kept
    /// here, and sends of what is to be kept are refused. Waits for the disk, and for others who
    /// let it go or take it back; whoever sends or reads waits for none of them.
    ///
    /// # Errors
    ///
    /// The last of it could not be written.
    pub fn let_go(&self) -> io::Result<()> {
        let _alone = self.changing.lock();
        let journal = self.journal.write().take();
        journal.map_or(Ok(()), Journal::close)
    }

    /// Opens the log after [`DiskArchive::let_go`], and says what was in it; `None` when it is
    /// open. Waits as that does.
    ///
    /// # Errors
    ///
    /// As [`DiskArchive::open`].
    pub fn take_back(&self) -> Result<Option<Found>, OpenError> {
        let _alone = self.changing.lock();
        if self.journal.read().is_some() {
            return Ok(None);
        }
        let Opened { journal, found } = Journal::open(self.config.clone(), Arc::clone(&self.disk))?;
        // Known before anything is appended: what comes again is there.
        self.was_kept.store(found.last.unwrap_or(0), Ordering::Release);
        *self.journal.write() = Some(journal);
        Ok(Some(found))
    }

    fn journal(&self) -> Option<Journal> {
        self.journal.read().clone()
    }

    fn open_journal(&self) -> Result<Journal, ArchiveError> {
        self.journal().ok_or_else(|| ArchiveError("another process has the log".to_owned()))
    }
}

impl<F: Send + std::marker::Sync> Archive<F> for DiskArchive {
    fn keeps(&self, id: &str) -> bool {
        self.rule_of(id).is_some()
    }

    fn is_open(&self) -> bool {
        self.journal.read().is_some()
    }

    fn page(&self, id: &str, of: PageOf) -> Result<Page<F>, ArchiveError> {
        let Some(rule) = self.rule_of(id) else {
            return Ok(Page { events: Vec::new(), has_more: false, covered: false });
        };
        let journal = self.open_journal()?;
        let now_ms = now_ms();
        let page_of =
            |id: &str| Subject { journal: &journal, id, rule, now_ms }.page(of, &self.floors);
        let keys = kept_under(id);
        let pages: Result<Vec<Page<F>>, _> = keys.iter().map(|key| page_of(key)).collect();
        let mut page = merged(pages?, of);
        page.covered &= of.after >= self.since(id);
        Ok(page)
    }

    fn keeps_all(&self, listener: &dyn KeptListener) -> bool {
        self.covers_all(listener.literal())
    }

    fn heard(
        &self,
        listeners: &[Arc<dyn KeptListener>],
        of: KeptUpdatesOf,
    ) -> Result<KeptUpdatesPage<F>, ArchiveError> {
        let journal = self.open_journal()?;
        Hearing { archive: self, journal: &journal, listeners, now_ms: now_ms() }.page(of)
    }

    fn bounds(&self) -> Vec<KeptBounds> {
        self.rules.iter().map(KeepRule::bounds).collect()
    }

    fn rule_place(&self, id: &str) -> Option<usize> {
        self.rules.place(self.name_of(id)?)
    }

    fn number_of(&self, own_id: &str) -> Result<Option<u64>, ArchiveError> {
        reading::first_of(&self.open_journal()?, &record::own_key(own_id))
    }
}

impl<F: Send + std::marker::Sync> EventStore<F> for DiskArchive {
    fn reserve(&self, draft: &Draft) -> Result<Option<Box<dyn KeepRoom<F> + '_>>, NoRoomToKeep> {
        let (mut keys, mut count, mut is_update) = (0, 0_usize, false);
        for id in iter::once(draft.about()).chain(draft.also()) {
            if self.rule_of(&id).is_some() {
                (keys, count) = (keys + id.len(), count + 1);
                is_update |= id.starts_with(hub::KEY_MARK);
            }
        }
        if count == 0 {
            return Ok(None);
        }
        if self.paused.load(Ordering::Acquire) {
            return Err(NoRoomToKeep::Disk);
        }
        if is_update {
            let own = draft.own_id().map(record::own_key);
            keys += record::UPDATES.len() + own.as_ref().map_or(0, String::len);
            count += 1 + usize::from(own.is_some());
        }
        // As many bytes at most as the record will have: only the lengths count here.
        let bytes =
            EMPTY.bytes() + AGE_BYTES + keys + 2 * count + record::body_max(draft.json().len());
        let journal = self.journal.read();
        let room = journal.as_ref().ok_or(NoRoomToKeep::Disk)?.reserve(bytes);
        let room = room.map_err(|why| match why {
            NoRoom::Queue => NoRoomToKeep::Queue,
            NoRoom::Disk => NoRoomToKeep::Disk,
        })?;
        Ok(Some(Box::new(EventRoom { archive: self, room })))
    }

    fn is_always_durable(&self) -> bool {
        self.config.sync == Sync::Always
    }

    fn when_durable(&self, number: u64, done: WhenDurable) {
        match &*self.journal.read() {
            Some(journal) if number > self.lost.load(Ordering::Acquire) => {
                journal.wait_durable(number, |result| done(result.is_ok()));
            }
            Some(_) | None => done(false),
        }
    }
}

impl<F> KeepRoom<F> for EventRoom<'_> {
    fn append(self: Box<Self>, event: &Event<F>, now_ms: u64) {
        let EventRoom { archive, room } = *self;
        if event.number() <= archive.last_found() {
            // A node of a cluster reads the end of the cluster's log again.
            return;
        }
        let (mut kept, mut age_ms) = (SmallVec::<[Cow<'_, str>; 1]>::new(), 0);
        for id in iter::once(event.about()).chain(event.also()) {
            if let Some(rule) = archive.rule_of(&id) {
                age_ms = age_ms.max(rule.age_ms_max);
                kept.push(id);
            }
        }
        if kept.iter().any(|id| id.starts_with(hub::KEY_MARK)) {
            kept.extend(event.own_id().map(|own| Cow::Owned(record::own_key(own))));
            kept.push(Cow::Borrowed(record::UPDATES));
        }
        let keys: SmallVec<[&[u8]; 1]> = kept.iter().map(|id| id.as_bytes()).collect();
        let (kind, body) = record::write(event);
        let record = Record {
            number: event.number(),
            at_ms: now_ms,
            expires_ms: now_ms.saturating_add(age_ms),
            keys: &keys,
            kind,
            body: body.as_bytes(),
        };
        // A log that was let go of since has lost the room as well: nothing is posted then, because
        // whoever lets go of it has closed the way of all sends before.
        if let Some(journal) = &*archive.journal.read() {
            journal.append(room, record);
        }
    }
}
