//! A page that is partly in memory, and below that in an archive.

use std::sync::Arc;

use crate::archive::{Archive, ArchiveError};
use crate::event::Event;
use crate::page::{Page, PageOf};

/// What the memory has of a page.
#[derive(Debug)]
pub struct PagePart<F> {
    pub(super) page: Page<F>,
    /// No event above this number was forgotten.
    pub(super) lost: u64,
    pub(super) of: PageOf,
}

impl<F> PagePart<F> {
    /// Whether no archive can add anything to it.
    pub fn is_whole(&self) -> bool {
        let PageOf { after, before, newest_first, .. } = self.of;
        self.lost <= after
            || before <= after.saturating_add(1)
            || newest_first && self.page.has_more
    }

    /// The page as far as it is remembered.
    pub fn into_page(self) -> Page<F> {
        self.page
    }

    /// The page as the memory and `archive` have it together, which keeps the events about `id`.
    /// It may take as long as [`Archive::page`].
    ///
    /// # Errors
    ///
    /// The archive could not be read.
    pub fn join(self, archive: &dyn Archive<F>, id: &str) -> Result<Page<F>, ArchiveError> {
        if self.is_whole() {
            return Ok(self.page);
        }
        let PagePart { page: Page { mut events, has_more, .. }, lost, of } = self;
        // From here on down they are read, each once.
        events.retain(|event| event.number() > lost);
        let below = PageOf { before: of.before.min(lost.saturating_add(1)), ..of };
        if !of.newest_first {
            let page = archive.page(id, below)?;
            let covered = page.covered;
            return Ok(match page.has_more {
                true => page,
                false => {
                    filled(page.events, events, of, Page { has_more, covered, events: vec![] })
                }
            });
        }
        let bytes: usize = events.iter().map(|event| event.json().len()).sum();
        let left = PageOf {
            // One that has no room says that there are more.
            events_max: of.events_max.saturating_sub(events.len()).max(1),
            bytes_max: of.bytes_max.saturating_sub(bytes),
            ..below
        };
        let Page { events: older, has_more, covered } = archive.page(id, left)?;
        Ok(filled(events, older, of, Page { has_more, covered, events: vec![] }))
    }
}

/// The page of `first` and as many of `then` as have room behind them; `rest` says the remainder.
fn filled<F>(
    first: Vec<Arc<Event<F>>>,
    then: Vec<Arc<Event<F>>>,
    of: PageOf,
    rest: Page<F>,
) -> Page<F> {
    let mut events = first;
    let mut bytes: usize = events.iter().map(|event| event.json().len()).sum();
    for event in then {
        bytes += event.json().len();
        if events.len() >= of.events_max || bytes > of.bytes_max && !events.is_empty() {
            return Page { events, has_more: true, ..rest };
        }
        events.push(event);
    }
    Page { events, ..rest }
}
