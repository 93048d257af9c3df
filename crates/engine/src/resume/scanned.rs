//! What patterns of a client of topics are looked for in the archive: among all updates that are
//! kept, since no table knows which topics there were.
//!
//! All patterns of a client are looked for at one time. A look goes as far as
//! [`SCAN_LOOKS_MAX`] says; where that is not all, the client's window ends there, be it empty, and
//! others have their turn before its next one.

use std::sync::Arc;

use hub::{Above, ArchiveError, KeptListener, KeptUpdatesOf, KeptUpdatesPage};

use crate::EventArchive;
use crate::limits::{SCAN_LOOKS_MAX, WINDOW_EVENTS_MAX};

/// The patterns of a client, and how far it was looked for them.
#[derive(Default)]
pub(super) struct Scan {
    /// Those of them that listen to what may be kept; none where it has none.
    listeners: Option<Arc<[Arc<dyn KeptListener>]>>,
    /// It is known which there are.
    pub(super) is_begun: bool,
    /// All up to this number were looked through.
    done: u64,
    /// All up to this number are to be: the memory may lack some of them.
    wanted: u64,
}

/// What is to be looked for.
pub(super) struct ScannedEvents {
    listeners: Arc<[Arc<dyn KeptListener>]>,
    above: Above,
    up_to: u64,
    is_claimed: bool,
    bytes_max: usize,
}

/// What was found. Whether it is covered says whether nothing is missing of what is claimed.
pub(super) struct Scanned {
    pub(super) page: KeptUpdatesPage<proto::Frame>,
    /// Up to which number it was to be looked.
    pub(super) wanted: u64,
    /// Why something could not be read, if that is so.
    pub(super) failed: Option<ArchiveError>,
}

impl Scan {
    /// There are these, from above the number `after` on.
    pub(super) fn begin(&mut self, listeners: Vec<Arc<dyn KeptListener>>, after: u64) {
        self.listeners = (!listeners.is_empty()).then(|| listeners.into());
        self.done = after;
    }

    /// Nothing is looked for any more.
    pub(super) fn over() -> Scan {
        Scan { is_begun: true, ..Scan::default() }
    }

    /// Whether there are some.
    pub(super) fn has_patterns(&self) -> bool {
        self.listeners.is_some()
    }

    /// Some up to this number may be found there alone.
    pub(super) fn want(&mut self, up_to: u64) {
        self.wanted = self.wanted.max(up_to);
    }

    /// Whether all up to this number was looked through.
    pub(super) fn has_done(&self, up_to: u64) -> bool {
        self.done >= up_to
    }

    /// Whether there is something to look through, where no number above `up_to` has room.
    pub(super) fn is_due(&self, up_to: u64) -> bool {
        self.listeners.is_some() && self.done < self.wanted.min(up_to)
    }

    /// All up to this number is looked through, or cannot be.
    pub(super) fn tell(&mut self, done: u64) {
        self.done = self.done.max(done);
    }

    /// What is to be asked of `above` next. `is_claimed` says whether the client is told before it
    /// hears the first of it whether some may be missing.
    pub(super) fn question(
        &self,
        above: Above,
        up_to: u64,
        is_claimed: bool,
        bytes_max: usize,
    ) -> Option<ScannedEvents> {
        let listeners = Arc::clone(self.listeners.as_ref()?);
        let number = self.done.max(above.number);
        let above = Above { number, claimed: above.claimed.max(number) };
        let up_to = self.wanted.min(up_to);
        Some(ScannedEvents { listeners, above, up_to, is_claimed, bytes_max })
    }
}

impl ScannedEvents {
    /// What is found; `None` while another process has the archive.
    pub(super) fn read(self, archive: &EventArchive) -> Option<Scanned> {
        let wanted = self.up_to;
        match self.page(archive, self.above.number, self.is_claimed) {
            Ok(mut page) => {
                let covered = self.is_covered(archive, &page);
                page.covered = matches!(covered, Ok(true));
                Some(Scanned { page, wanted, failed: covered.err() })
            }
            Err(_) if !archive.is_open() => None,
            Err(error) => {
                let page = KeptUpdatesPage { events: Vec::new(), up_to: wanted, covered: false };
                Some(Scanned { page, wanted, failed: Some(error) })
            }
        }
    }

    fn page(
        &self,
        archive: &EventArchive,
        after: u64,
        is_claimed: bool,
    ) -> Result<KeptUpdatesPage<proto::Frame>, ArchiveError> {
        let of = KeptUpdatesOf {
            after,
            up_to: self.up_to,
            is_claimed,
            events_max: WINDOW_EVENTS_MAX,
            bytes_max: self.bytes_max,
            looks_max: SCAN_LOOKS_MAX,
        };
        archive.heard(&self.listeners, of)
    }

    /// Whether nothing is missing of what is claimed, where `page` says so of all that is read.
    fn is_covered(
        &self,
        archive: &EventArchive,
        page: &KeptUpdatesPage<proto::Frame>,
    ) -> Result<bool, ArchiveError> {
        let Above { number, claimed } = self.above;
        if page.covered || self.up_to <= claimed {
            return Ok(true);
        }
        Ok(number < claimed && self.page(archive, claimed, self.is_claimed)?.covered)
    }
}
