//! An archive in memory, for tests and simulators: the plain lists that one on disk must answer as.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::archive::{Archive, ArchiveError};
use crate::connection_id::ConnectionId;
use crate::event::Event;
use crate::page::{Page, PageOf};

/// The events of each subject that it keeps, of which it may lose the oldest ones, or all reads.
pub struct MemoryArchive {
    keeps: fn(&str) -> bool,
    /// Events of one subject.
    events_max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    subjects: BTreeMap<String, Kept>,
    is_failing: bool,
    is_closed: bool,
    pages: u64,
}

#[derive(Default)]
struct Kept {
    /// The number of the last event that it has lost.
    lost: u64,
    /// Numbers, lines, and who is left out.
    lines: Vec<(u64, String, Option<ConnectionId>)>,
}

impl MemoryArchive {
    /// An empty one of subjects for which `keeps` is true, of each so many events at most.
    pub fn new(keeps: fn(&str) -> bool, events_max: usize) -> MemoryArchive {
        MemoryArchive { keeps, events_max, state: Mutex::default() }
    }

    /// Keeps what is sent, unless it has it. Numbers come in ascending order.
    pub fn append<F>(&self, event: &Event<F>) {
        let mut state = self.lock();
        let texts = std::iter::once(event.about()).chain(event.also());
        for text in texts.filter(|text| (self.keeps)(text)) {
            let kept = state.subjects.entry(text.into_owned()).or_default();
            if kept.lines.last().is_some_and(|(last, ..)| *last >= event.number()) {
                continue;
            }
            kept.lines.push((event.number(), event.json().to_owned(), event.except()));
            if kept.lines.len() > self.events_max {
                kept.lost = kept.lines.remove(0).0;
            }
        }
    }

    /// From now on each read fails, or none does.
    pub fn set_failing(&self, is_failing: bool) {
        self.lock().is_failing = is_failing;
    }

    /// From now on another process has it, or it is back.
    pub fn set_closed(&self, is_closed: bool) {
        self.lock().is_closed = is_closed;
    }

    /// How many pages were read.
    pub fn pages(&self) -> u64 {
        self.lock().pages
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F: Send + Sync> Archive<F> for MemoryArchive {
    fn keeps(&self, id: &str) -> bool {
        (self.keeps)(id)
    }

    fn page(&self, id: &str, of: PageOf) -> Result<Page<F>, ArchiveError> {
        let PageOf { after, before, newest_first, events_max, bytes_max } = of;
        let mut state = self.lock();
        if state.is_failing || state.is_closed {
            return Err(ArchiveError("the test says so".to_owned()));
        }
        state.pages += 1;
        let nothing = Kept::default();
        let kept = state.subjects.get(id).unwrap_or(&nothing);
        let between = |(number, ..): &&(u64, _, _)| *number > after && *number < before;
        let mut found: Vec<_> = kept.lines.iter().filter(between).collect();
        if newest_first {
            found.reverse();
        }
        let (mut events, mut bytes, mut has_more) = (Vec::new(), 0, false);
        for (_, line, except) in found {
            bytes += line.len();
            has_more = events.len() >= events_max || bytes > bytes_max && !events.is_empty();
            if has_more {
                break;
            }
            let event = Event::of_line(line.clone()).expect("it was the line of an event");
            events.push(Arc::new(match *except {
                Some(except) => event.leaving_out(except),
                None => event,
            }));
        }
        Ok(Page { events, has_more, covered: after >= kept.lost })
    }
    fn is_open(&self) -> bool {
        !self.lock().is_closed
    }
}
