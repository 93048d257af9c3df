//! Events that stay: of the subjects that a rule keeps, each event is written to the log on disk
//! ([`journal`]) as it is posted, and read again by subject.
//!
//! It does not decide when an event is posted, and remembers nothing in memory beside what the log
//! does: what was sent of late is read from [`hub::History`].
//!
//! Cost of a send: each rule is looked at for each subject; one that is kept is copied once, and
//! waits for nothing. A page is read from the disk, on the thread of whoever asks.
//!
//! The log is one process's. Before another one opens it this one [lets go](DiskArchive::let_go)
//! of it, and may [take it back](DiskArchive::take_back).

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed test should panic"))]

mod offline;
mod reading;
mod record;
mod rules;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::io;
use std::iter;
use std::sync::{Arc, OnceLock};

use hub::{Archive, ArchiveError, Draft, Event, KeepRoom, Keeper, NoRoomToKeep};
use hub::{Page, PageOf, WhenDurable};
use journal::{Config, Disk, Found, Journal, NoRoom, OpenError, Opened, Record, Room, Stats, Sync};
use parking_lot::RwLock;
use smallvec::SmallVec;
use sys::clock::unix_ms as now_ms;

pub use journal::Report;

pub use crate::offline::{Kept, check, export};
use crate::reading::{Floors, Subject};
pub use crate::rules::{BadKeepRule, KeepRule, KeepRules};

/// The events that stay, on disk.
pub struct DiskArchive {
    rules: KeepRules,
    config: Config,
    disk: Arc<dyn Disk>,
    /// `None` while another process has it.
    journal: RwLock<Option<Journal>>,
    floors: Floors,
    /// From which number on each rule has kept its subjects; from the first one while unsaid.
    since: OnceLock<Box<[u64]>>,
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
        let (journal, floors, since) = (RwLock::new(None), Floors::default(), OnceLock::new());
        DiskArchive { rules, config, disk, journal, floors, since }
    }

    /// The rules in their order have kept what their patterns fit since these numbers: of events up
    /// to there nothing is claimed. Said once, before anything is read.
    pub fn set_since(&self, since: Vec<u64>) {
        let was_said = self.since.set(since.into()).is_err();
        debug_assert!(!was_said, "it is said once");
    }

    /// The rules.
    pub fn rules(&self) -> &KeepRules {
        &self.rules
    }

    /// From which number on all events about `id` were kept: as long as any rule has kept it.
    fn since(&self, id: &str) -> u64 {
        let Some(since) = self.since.get() else { return 0 };
        let those = self.rules.iter().zip(since).filter(|(rule, _)| rule.fits(id));
        those.map(|(_, since)| *since).min().unwrap_or(u64::MAX)
    }

    /// Forgets what has expired, as far as whole files have.
    ///
    /// # Errors
    ///
    /// A file cannot be removed.
    pub fn drop_expired(&self) -> io::Result<()> {
        self.journal().map_or(Ok(()), |journal| journal.drop_expired(now_ms()))
    }

    /// Figures of the log; `None` while another process has it.
    pub fn stats(&self) -> Option<Stats> {
        self.journal().map(|journal| journal.stats())
    }

    /// Writes and syncs all that was appended, and gives the log up. From now on nothing is kept
    /// here, and sends of what is to be kept are refused.
    ///
    /// # Errors
    ///
    /// The last of it could not be written.
    pub fn let_go(&self) -> io::Result<()> {
        match self.journal.write().take() {
            Some(journal) => journal.close(),
            None => Ok(()),
        }
    }

    /// Opens the log after [`DiskArchive::let_go`], and says what was in it; `None` when it is
    /// open.
    ///
    /// # Errors
    ///
    /// As [`DiskArchive::open`].
    pub fn take_back(&self) -> Result<Option<Found>, OpenError> {
        let mut journal = self.journal.write();
        if journal.is_some() {
            return Ok(None);
        }
        let Opened { journal: open, found } =
            Journal::open(self.config.clone(), Arc::clone(&self.disk))?;
        *journal = Some(open);
        Ok(Some(found))
    }

    fn journal(&self) -> Option<Journal> {
        self.journal.read().clone()
    }
}

impl<F: Send + std::marker::Sync> Archive<F> for DiskArchive {
    fn keeps(&self, id: &str) -> bool {
        self.rules.find(id).is_some()
    }

    fn is_open(&self) -> bool {
        self.journal.read().is_some()
    }

    fn page(&self, id: &str, of: PageOf) -> Result<Page<F>, ArchiveError> {
        let Some(rule) = self.rules.find(id) else {
            return Ok(Page { events: Vec::new(), has_more: false, covered: false });
        };
        let gone = || ArchiveError("another process has the log".to_owned());
        let journal = self.journal().ok_or_else(gone)?;
        let subject = Subject { journal: &journal, id, rule, now_ms: now_ms() };
        let mut page = subject.page(of, &self.floors)?;
        page.covered &= of.after >= self.since(id);
        Ok(page)
    }
}

impl<F: Send + std::marker::Sync> Keeper<F> for DiskArchive {
    fn reserve(&self, draft: &Draft) -> Result<Option<Box<dyn KeepRoom<F> + '_>>, NoRoomToKeep> {
        let (mut keys, mut count) = (0, 0_usize);
        for id in iter::once(draft.about()).chain(draft.also()) {
            if self.rules.find(&id).is_some() {
                (keys, count) = (keys + id.len(), count + 1);
            }
        }
        if count == 0 {
            return Ok(None);
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
            Some(journal) => journal.wait_durable(number, |result| done(result.is_ok())),
            None => done(false),
        }
    }
}

impl<F> KeepRoom<F> for EventRoom<'_> {
    fn append(self: Box<Self>, event: &Event<F>, now_ms: u64) {
        let EventRoom { archive, room } = *self;
        let (mut kept, mut age_ms) = (SmallVec::<[Cow<'_, str>; 1]>::new(), 0);
        for id in iter::once(event.about()).chain(event.also()) {
            if let Some(rule) = archive.rules.find(&id) {
                age_ms = age_ms.max(rule.age_ms_max);
                kept.push(id);
            }
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
