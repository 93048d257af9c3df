//! What listeners of patterns hear of the updates that are kept: one is looked at after the other,
//! in the order of their numbers.
//!
//! Each listener is tried on each kept topic of an update, so what an update takes is known before.
//! A page ends where that comes to as much as was asked for, whatever was found: so who listens to
//! what nobody publishes goes through a long log in many short steps.
//!
//! An update is heard as long as the rule of one of its topics keeps it that a listener listens to.
//! Of one that is there still and is heard no more, its rule being over, it is said that some are
//! missing.

use std::iter;
use std::sync::Arc;

use hub::{ArchiveError, Event, KeptListener, KeptUpdatesOf, KeptUpdatesPage};
use journal::{Journal, Most, RecordRead};

use crate::DiskArchive;
use crate::reading::{Subject, failed};
use crate::record;

/// Records that are read at a time.
const RECORDS_AT_ONCE: usize = 256;

/// As how many bytes that are looked at it counts to read a record, some 10 ns each.
const RECORD_LOOKS: usize = 256;

/// So many bytes of a record count as one: they are read, checked and copied.
const BODY_BYTES_A_LOOK: usize = 8;

/// As how many it counts to look where the count or the bytes of a rule end.
const FLOOR_LOOKS: usize = 4096;

/// Those who listen, and what there is.
pub(crate) struct Hearing<'h> {
    pub(crate) archive: &'h DiskArchive,
    pub(crate) journal: &'h Journal,
    pub(crate) listeners: &'h [Arc<dyn KeptListener>],
    pub(crate) now_ms: u64,
}

/// What was found so far.
struct Found<F> {
    page: KeptUpdatesPage<F>,
    bytes: usize,
    looks: usize,
}

/// What becomes of a record.
#[derive(PartialEq, Eq)]
enum Relevance {
    /// Nobody hears it.
    No,
    /// Somebody has heard it, and would not any more.
    Gone,
    Yes,
}

impl Hearing<'_> {
    /// The page that is asked for.
    pub(crate) fn page<F>(&self, of: KeptUpdatesOf) -> Result<KeptUpdatesPage<F>, ArchiveError> {
        let since = self.listeners.iter().map(|one| self.archive.since_all(one.literal()));
        let covered = of.after >= since.max().unwrap_or(0);
        let page = KeptUpdatesPage { events: Vec::new(), up_to: of.after, covered };
        let mut found = Found { page, bytes: 0, looks: 0 };
        let each: usize = self.listeners.iter().map(|one| one.looks()).sum();
        let (mut records, mut is_first) = (Vec::new(), true);
        // The log itself passes over nothing.
        let most = Most { records: RECORDS_AT_ONCE, bytes: of.bytes_max, now_ms: 0 };
        loop {
            records.clear();
            let above = found.page.up_to;
            let slice = self.journal.after(record::UPDATES.as_bytes(), above, most, &mut records);
            let slice = slice.map_err(failed)?;
            found.page.covered &= of.after >= slice.from;
            for record in &records {
                if record.number > of.up_to {
                    found.page.up_to = of.up_to;
                    return Ok(found.page);
                }
                if std::mem::take(&mut is_first) && of.is_claimed {
                    found.page.covered &= !self.may_have_gone(record);
                }
                let keys: usize = record.keys.iter().map(Vec::len).sum();
                found.looks += RECORD_LOOKS + record.body.len() / BODY_BYTES_A_LOOK + each * keys;
                if found.looks > of.looks_max && found.page.up_to > of.after {
                    return Ok(found.page);
                }
                if !self.look(record, of, &mut found)? {
                    return Ok(found.page);
                }
                found.page.up_to = record.number;
            }
            if !slice.more {
                found.page.up_to = of.up_to;
                return Ok(found.page);
            }
            found.page.up_to = found.page.up_to.max(slice.next);
        }
    }

    /// Looks at a record. `false` where the page has no room for it.
    fn look<F>(
        &self,
        record: &RecordRead,
        of: KeptUpdatesOf,
        found: &mut Found<F>,
    ) -> Result<bool, ArchiveError> {
        let mut event: Option<Event<F>> = None;
        let mut heard = Relevance::No;
        for key in &record.keys {
            let Ok(key) = str::from_utf8(key) else { continue };
            let Some(rule) = self.archive.rule_of(key) else { continue };
            let those = || self.listeners.iter().filter(|one| one.listens(key));
            if those().next().is_none() {
                continue;
            }
            if event.is_none() {
                event = record::read(record);
            }
            // What this version cannot read is missing for those who would hear it, and no more.
            let Some(event) = &event else {
                heard = Relevance::Gone;
                break;
            };
            let subjects = || iter::once(event.about()).chain(event.also());
            if !those().any(|one| one.hears(&mut subjects())) {
                continue;
            }
            if rule.events_max.is_some() || rule.bytes_max.is_some() {
                found.looks += FLOOR_LOOKS;
            }
            let subject = Subject { journal: self.journal, id: key, rule, now_ms: self.now_ms };
            match subject.is_over(record, &self.archive.floors)? {
                true => heard = Relevance::Gone,
                false => {
                    heard = Relevance::Yes;
                    break;
                }
            }
        }
        match (heard, event) {
            (Relevance::Yes, Some(event)) => {
                found.bytes += event.json().len();
                let is_full = found.page.events.len() >= of.events_max
                    || found.bytes > of.bytes_max && !found.page.events.is_empty();
                if is_full {
                    return Ok(false);
                }
                found.page.events.push(Arc::new(event));
            }
            (Relevance::Gone, _) => found.page.covered = false,
            _ => {}
        }
        Ok(true)
    }

    /// Whether one that was sent after `first`, or that itself, may be over by the age of its rule.
    fn may_have_gone(&self, first: &RecordRead) -> bool {
        let rules = self.archive.rules();
        let ages = self.listeners.iter().map(|one| rules.age_ms_of_some(one.literal()));
        ages.min().is_some_and(|age_ms| first.at_ms.saturating_add(age_ms) <= self.now_ms)
    }
}
