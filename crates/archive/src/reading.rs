//! Pages of what is kept of one subject, by the bounds of its rule.
//!
//! What has expired or is too old by the rule is passed over as it is met, a few hundred at most.
//! Where it ends is then found by halves. How many there may be of a subject, or how many bytes of
//! them, the log counts from its last one without reading them. Where that ends is remembered until
//! there is another.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use hub::{ArchiveError, Event, Page, PageOf};
use journal::{Bound, Journal, Most, RecordRead, Slice};
use parking_lot::Mutex;

use crate::record;
use crate::rules::KeepRule;

/// Records that are read at a time.
const RECORDS_AT_ONCE: usize = 256;

/// Subjects whose bounds are remembered: some 100 bytes each.
const FLOORS_MAX: usize = 1024;

/// Where the bounds of subjects end, by the subject's last number.
#[derive(Default)]
pub(crate) struct Floors(Mutex<HashMap<Box<str>, (u64, u64)>>);

/// A subject in its log.
pub(crate) struct Subject<'a> {
    pub(crate) journal: &'a Journal,
    pub(crate) id: &'a str,
    pub(crate) rule: &'a KeepRule,
    pub(crate) now_ms: u64,
}

/// What was read, and how much was left out.
struct Pages<F> {
    events: Vec<Arc<Event<F>>>,
    bytes: usize,
    has_more: bool,
    /// Nothing above it was lost or has become too old.
    floor: u64,
}

pub(crate) fn failed(error: io::Error) -> ArchiveError {
    ArchiveError(error.to_string())
}

pub(crate) fn no_event(number: u64) -> ArchiveError {
    ArchiveError(format!("the record {number} is no event"))
}

/// The number of the first record of `key` that can be read, expired or not.
pub(crate) fn first_of(journal: &Journal, key: &str) -> Result<Option<u64>, ArchiveError> {
    let (one, mut records) = (Most { records: 1, bytes: 1, now_ms: 0 }, Vec::new());
    journal.after(key.as_bytes(), 0, one, &mut records).map_err(failed)?;
    Ok(records.first().map(|record| record.number))
}

/// One page of those of several keys, oldest first.
pub(crate) fn merged<F>(mut pages: Vec<Page<F>>, of: PageOf) -> Page<F> {
    debug_assert!(!of.newest_first || pages.len() == 1, "nobody asks for those of topics");
    if pages.len() == 1
        && let Some(page) = pages.pop()
    {
        return page;
    }
    let has_more = pages.iter().any(|page| page.has_more);
    let covered = pages.iter().all(|page| page.covered);
    // Behind the end of one that has more nobody knows what comes first.
    let ends = pages.iter().filter(|page| page.has_more);
    let end = ends.filter_map(|page| Some(page.events.last()?.number())).min();
    let mut events: Vec<_> = pages.into_iter().flat_map(|page| page.events).collect();
    events.retain(|event| end.is_none_or(|end| event.number() <= end));
    events.sort_unstable_by_key(|event| event.number());
    events.dedup_by_key(|event| event.number());
    Page { events, has_more, covered }
}

impl Subject<'_> {
    /// The page that is asked for.
    pub(crate) fn page<F>(&self, of: PageOf, floors: &Floors) -> Result<Page<F>, ArchiveError> {
        let by_rule = self.floor(floors)?;
        let of_those = PageOf { after: of.after.max(by_rule), ..of };
        let read = match of.newest_first {
            true => self.newest_first(of_those)?,
            false => self.oldest_first(of_those)?,
        };
        let Pages { events, has_more, floor, .. } = read;
        Ok(Page { events, has_more, covered: of.after >= floor.max(by_rule) })
    }

    fn oldest_first<F>(&self, of: PageOf) -> Result<Pages<F>, ArchiveError> {
        let mut pages = Pages { events: Vec::new(), bytes: 0, has_more: false, floor: 0 };
        let (mut above, mut records) = (of.after, Vec::new());
        loop {
            records.clear();
            let slice = self.after(above, self.most(of, &pages), &mut records)?;
            pages.floor = pages.floor.max(slice.from);
            for record in &records {
                if record.number >= of.before {
                    return Ok(pages);
                }
                if self.is_old(record) {
                    pages.floor = record.number;
                } else if !pages.take(record, of)? {
                    return Ok(pages);
                }
            }
            // Those that have expired are passed over by the log itself.
            above = slice.next;
            if !slice.more {
                return Ok(pages);
            }
            if pages.events.is_empty() {
                above = self.gone_up_to(above)?;
                pages.floor = pages.floor.max(above);
            }
        }
    }

    /// The number up to which all have expired or are too old, as far as their times ascend, where
    /// all up to `above` are. Some fifty looks for one record.
    fn gone_up_to(&self, above: u64) -> Result<u64, ArchiveError> {
        let last = self.journal.last_of(self.id.as_bytes()).unwrap_or(above);
        let (mut gone, mut end, mut records) = (above, last, Vec::new());
        // The log itself passes over nothing here.
        let one = Most { records: 1, bytes: 1, now_ms: 0 };
        while end.saturating_sub(gone) > 1 {
            let middle = gone + (end - gone) / 2;
            records.clear();
            self.after(middle, one, &mut records)?;
            match records.first().filter(|first| self.is_gone(first)) {
                Some(first) => gone = first.number,
                None => end = middle,
            }
        }
        Ok(gone)
    }

    fn newest_first<F>(&self, of: PageOf) -> Result<Pages<F>, ArchiveError> {
        let mut pages = Pages { events: Vec::new(), bytes: 0, has_more: false, floor: 0 };
        // Whether the oldest that are asked for are there still, however far this page goes.
        let (mut below, mut records) = (of.before, Vec::new());
        let one = Most { records: 1, bytes: 1, now_ms: self.now_ms };
        pages.floor = self.after(of.after, one, &mut records)?.from;
        if let Some(oldest) = records.first().filter(|oldest| self.is_old(oldest)) {
            pages.floor = pages.floor.max(oldest.number);
        }
        loop {
            records.clear();
            let slice = self.before(below, self.most(of, &pages), &mut records)?;
            for record in &records {
                if record.number <= of.after {
                    return Ok(pages);
                }
                if self.is_old(record) {
                    pages.floor = pages.floor.max(record.number);
                    return Ok(pages);
                }
                if !pages.take(record, of)? {
                    return Ok(pages);
                }
            }
            below = slice.next;
            if !slice.more {
                return Ok(pages);
            }
            if records.is_empty() {
                // Behind so many that have expired nobody looks for one that has not.
                pages.floor = pages.floor.max(below);
                return Ok(pages);
            }
        }
    }

    /// The number up to which the rule's count and bytes leave nothing.
    fn floor(&self, floors: &Floors) -> Result<u64, ArchiveError> {
        let KeepRule { events_max, bytes_max, .. } = *self.rule;
        if events_max.is_none() && bytes_max.is_none() {
            return Ok(0);
        }
        let Some(last) = self.journal.last_of(self.id.as_bytes()) else { return Ok(0) };
        if let Some(&(of, floor)) = floors.0.lock().get(self.id)
            && of == last
        {
            return Ok(floor);
        }
        let bound = Bound {
            records: events_max.unwrap_or(u64::MAX),
            bytes: bytes_max.unwrap_or(u64::MAX),
            bytes_each: record::LINE_BYTES_MORE,
        };
        let floor = self.journal.over(self.id.as_bytes(), bound).map_err(failed)?;
        let mut floors = floors.0.lock();
        if floors.len() >= FLOORS_MAX {
            floors.clear();
        }
        floors.insert(self.id.into(), (last, floor));
        Ok(floor)
    }

    /// Whether a record is over by the rule, though it is there still.
    pub(crate) fn is_over(
        &self,
        record: &RecordRead,
        floors: &Floors,
    ) -> Result<bool, ArchiveError> {
        Ok(self.is_old(record) || record.number <= self.floor(floors)?)
    }

    fn is_gone(&self, record: &RecordRead) -> bool {
        record.expires_ms <= self.now_ms || self.is_old(record)
    }

    fn is_old(&self, record: &RecordRead) -> bool {
        record.at_ms.saturating_add(self.rule.age_ms_max) <= self.now_ms
    }

    /// What is still to be read for a page: one more than fits says that there are more.
    fn most<F>(&self, of: PageOf, pages: &Pages<F>) -> Most {
        let records = (of.events_max.saturating_sub(pages.events.len()) + 1).min(RECORDS_AT_ONCE);
        let bytes = of.bytes_max.saturating_sub(pages.bytes).saturating_add(1);
        Most { records, bytes, now_ms: self.now_ms }
    }

    fn after(
        &self,
        above: u64,
        most: Most,
        out: &mut Vec<RecordRead>,
    ) -> Result<Slice, ArchiveError> {
        self.journal.after(self.id.as_bytes(), above, most, out).map_err(failed)
    }

    fn before(
        &self,
        below: u64,
        most: Most,
        out: &mut Vec<RecordRead>,
    ) -> Result<Slice, ArchiveError> {
        self.journal.before(self.id.as_bytes(), below, most, out).map_err(failed)
    }
}

impl<F> Pages<F> {
    /// Puts the event of `read` on the page; `false` when that is full.
    fn take(&mut self, read: &RecordRead, of: PageOf) -> Result<bool, ArchiveError> {
        let event: Event<F> = record::read(read).ok_or_else(|| no_event(read.number))?;
        self.bytes += event.json().len();
        let is_full = self.events.len() >= of.events_max
            || self.bytes > of.bytes_max && !self.events.is_empty();
        if is_full {
            self.has_more = true;
            return Ok(false);
        }
        self.events.push(Arc::new(event));
        Ok(true)
    }
}
