//! What a resume reads from the archive. A question that is made where nobody may wait for a disk,
//! and answered where one may.
//!
//! Cost: one page for each of its subjects. An answer has no more events and bytes than
//! [`SINCE_EVENTS_MAX`] and a window of its client, and one page over that.

use std::iter;
use std::sync::Arc;

use hub::{Above, ArchiveError, Id, KeptListener, Lack, Page, PageOf};

use super::scanned::{Scanned, ScannedEvents};

use crate::limits::{SINCE_EVENTS_MAX, WINDOW_EVENTS_MAX};
use crate::{Event, EventArchive};

/// A kept subject of which the memory lacks some events.
pub(super) struct Lacking {
    pub(super) subject: Id,
    pub(super) text: String,
    /// Those that it lacks are not above this number.
    pub(super) up_to: u64,
    /// Who hears not all of them.
    pub(super) listener: Option<Arc<dyn KeptListener>>,
}

impl Lacking {
    fn lack(&self) -> Lack {
        Lack { subject: self.subject, up_to: self.up_to }
    }

    fn is_heard(&self, event: &Event) -> bool {
        let mut subjects = iter::once(event.about()).chain(event.also());
        self.listener.as_ref().is_none_or(|listener| listener.hears(&mut subjects))
    }
}

/// An id whose last events are looked for.
pub(super) struct LastOf {
    pub(super) id: Id,
    pub(super) text: String,
    /// How many.
    pub(super) most: usize,
    /// None of them is above this number.
    pub(super) up_to: u64,
}

/// What a resume asks the archive.
pub struct ArchiveQuestion {
    archive: Arc<EventArchive>,
    asked: Asked,
}

enum Asked {
    Missed(MissedEvents),
    Last(LastOf),
    Scanned(ScannedEvents),
    /// Which number an update has, by the id of its publisher.
    Place(Box<str>),
}

struct MissedEvents {
    lacking: Vec<Lacking>,
    above: Above,
    /// No event above this number has room.
    up_to: u64,
    bytes_max: usize,
}

/// What the archive has answered.
pub struct ArchiveAnswer {
    pub(super) events: Vec<Arc<Event>>,
    pub(super) covered: bool,
    /// What is not covered is not above this number.
    pub(super) gap_up_to: u64,
    /// No event up to this number is left out for want of room.
    pub(super) up_to: u64,
    /// An id, and the number above which its last events stand.
    pub(super) floor: Option<(Id, u64)>,
    /// What was not read yet.
    pub(super) rest: Vec<Lack>,
    /// What was not read yet of an id whose last events are looked for.
    pub(super) last_of: Option<LastOf>,
    /// All up to this number was looked through for patterns.
    pub(super) scanned: Option<u64>,
    /// The number of the place that was asked for; `None` within, where nobody knows it.
    pub(super) place: Option<Option<u64>>,
    failed: Option<ArchiveError>,
    is_closed: bool,
}

impl ArchiveQuestion {
    pub(super) fn of_missed(
        archive: Arc<EventArchive>,
        lacking: Vec<Lacking>,
        above: Above,
        up_to: u64,
        bytes_max: usize,
    ) -> ArchiveQuestion {
        let asked = Asked::Missed(MissedEvents { lacking, above, up_to, bytes_max });
        ArchiveQuestion { archive, asked }
    }

    pub(super) fn of_last(archive: Arc<EventArchive>, last_of: LastOf) -> ArchiveQuestion {
        ArchiveQuestion { archive, asked: Asked::Last(last_of) }
    }

    pub(super) fn of_scanned(archive: Arc<EventArchive>, asked: ScannedEvents) -> ArchiveQuestion {
        ArchiveQuestion { archive, asked: Asked::Scanned(asked) }
    }

    pub(super) fn of_place(archive: Arc<EventArchive>, own_id: Box<str>) -> ArchiveQuestion {
        ArchiveQuestion { archive, asked: Asked::Place(own_id) }
    }

    /// Whether it goes through all that are kept, and not to what it looks for.
    pub fn is_scan(&self) -> bool {
        matches!(self.asked, Asked::Scanned(_))
    }

    /// Reads the answer. It waits for the disk.
    pub fn read(self) -> ArchiveAnswer {
        let closed = || ArchiveAnswer { is_closed: true, ..ArchiveAnswer::empty() };
        match self.asked {
            Asked::Missed(missed) => missed.read(&*self.archive),
            Asked::Last(last_of) => last_of.read(&*self.archive),
            // It is asked again.
            Asked::Scanned(asked) => asked.read(&*self.archive).map_or_else(closed, Into::into),
            Asked::Place(own_id) => match self.archive.number_of(&own_id) {
                Ok(number) => ArchiveAnswer { place: Some(number), ..ArchiveAnswer::empty() },
                Err(_) if !self.archive.is_open() => closed(),
                Err(error) => {
                    let mut answer = ArchiveAnswer { place: Some(None), ..ArchiveAnswer::empty() };
                    answer.fail(error);
                    answer
                }
            },
        }
    }
}

impl ArchiveAnswer {
    fn empty() -> ArchiveAnswer {
        ArchiveAnswer {
            events: Vec::new(),
            covered: true,
            gap_up_to: 0,
            up_to: u64::MAX,
            floor: None,
            rest: Vec::new(),
            last_of: None,
            scanned: None,
            place: None,
            failed: None,
            is_closed: false,
        }
    }

    /// Why something could not be read, if that is so: its client is told of a gap.
    pub fn failed(&self) -> Option<&ArchiveError> {
        self.failed.as_ref()
    }

    /// Whether the archive was not [open](hub::Archive::is_open), so that something is to be asked
    /// again, a little later. It is if this process goes on; if another one does it will ask.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Notes why something is missing.
    fn fail(&mut self, error: ArchiveError) {
        self.covered = false;
        self.failed = Some(error);
    }
}

impl From<Scanned> for ArchiveAnswer {
    fn from(scanned: Scanned) -> ArchiveAnswer {
        let Scanned { page, wanted, failed } = scanned;
        let mut answer = ArchiveAnswer::empty();
        answer.up_to = if page.up_to < wanted { page.up_to } else { u64::MAX };
        answer.scanned = Some(page.up_to);
        answer.covered = page.covered;
        answer.gap_up_to = if page.covered { 0 } else { wanted };
        answer.failed = failed;
        answer.events = page.events;
        answer
    }
}

impl MissedEvents {
    fn read(self, archive: &EventArchive) -> ArchiveAnswer {
        let mut answer = ArchiveAnswer { up_to: self.up_to, ..ArchiveAnswer::empty() };
        let (mut bytes, claimed) = (0, self.above.claimed);
        for lacking in &self.lacking {
            let is_full = answer.events.len() >= SINCE_EVENTS_MAX || bytes >= self.bytes_max;
            if is_full || answer.is_closed {
                answer.rest.push(lacking.lack());
                continue;
            }
            let up_to = lacking.up_to.min(answer.up_to);
            let mut page = match archive.page(&lacking.text, self.page_up_to(up_to)) {
                Ok(page) => page,
                Err(error) if archive.is_open() => {
                    answer.fail(error);
                    continue;
                }
                Err(_) => {
                    answer.is_closed = true;
                    answer.rest.push(lacking.lack());
                    continue;
                }
            };
            if page.has_more {
                let last = page.events.last().map(|last| last.number());
                answer.up_to = last.map_or(answer.up_to, |last| answer.up_to.min(last));
                // It would be missed, as nothing says where it stands.
                page.covered &= last.is_some();
            }
            match self.is_covered(archive, lacking, &page) {
                Ok(true) => {}
                Ok(false) => {
                    answer.covered = false;
                    answer.gap_up_to = answer.gap_up_to.max(lacking.up_to);
                }
                Err(error) => answer.fail(error),
            }
            bytes += page.events.iter().map(|event| event.json().len()).sum::<usize>();
            answer.events.extend(page.events.into_iter().filter(|event| lacking.is_heard(event)));
        }
        debug_assert!(answer.events.iter().all(|event| event.number() > self.above.number));
        debug_assert!(claimed >= self.above.number, "what is not read cannot be claimed");
        answer
    }

    fn page_up_to(&self, up_to: u64) -> PageOf {
        PageOf {
            after: self.above.number,
            before: up_to.saturating_add(1),
            newest_first: false,
            events_max: WINDOW_EVENTS_MAX,
            bytes_max: self.bytes_max,
        }
    }

    /// Whether nothing is missing of what is claimed, where `page` says so of all that is read.
    fn is_covered(
        &self,
        archive: &EventArchive,
        lacking: &Lacking,
        page: &Page<proto::Frame>,
    ) -> Result<bool, ArchiveError> {
        let Above { number, claimed } = self.above;
        if page.covered || lacking.up_to <= claimed {
            return Ok(true);
        }
        if number == claimed {
            return Ok(false);
        }
        let above = PageOf { after: claimed, events_max: 1, ..self.page_up_to(u64::MAX) };
        Ok(archive.page(&lacking.text, above)?.covered)
    }
}

impl LastOf {
    fn read(self, archive: &EventArchive) -> ArchiveAnswer {
        let mut answer = ArchiveAnswer::empty();
        match self.floor(archive) {
            Ok(floor) => answer.floor = Some((self.id, floor)),
            Err(_) if !archive.is_open() => {
                (answer.is_closed, answer.last_of) = (true, Some(self));
            }
            Err(error) => {
                // All that can be read are no more of them.
                answer.floor = Some((self.id, 0));
                answer.fail(error);
            }
        }
        answer
    }

    /// The number above which they stand; 0 where there are no more of them.
    fn floor(&self, archive: &EventArchive) -> Result<u64, ArchiveError> {
        let (mut left, mut before) = (self.most, self.up_to.saturating_add(1));
        while left > 0 {
            let of = PageOf {
                after: 0,
                before,
                newest_first: true,
                events_max: left.min(WINDOW_EVENTS_MAX),
                bytes_max: FLOOR_BYTES_MAX,
            };
            let page = archive.page(&self.text, of)?;
            left -= page.events.len().min(left);
            match page.events.last() {
                Some(last) if page.has_more || left == 0 => before = last.number(),
                _ => return Ok(0),
            }
        }
        Ok(before - 1)
    }
}

/// Bytes of a page of last events that are only counted.
const FLOOR_BYTES_MAX: usize = 1 << 20;
