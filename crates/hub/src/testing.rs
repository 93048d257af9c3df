//! An archive in memory, for tests and simulators: the plain lists that one on disk must answer as.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::archive::{Archive, ArchiveError, KeptListener, kept_under};
use crate::connection_id::LeftOut;
use crate::event::{Draft, Event};
use crate::event_store::{EventStore, KeepRoom, NoRoomToKeep, WhenDurable};
use crate::page::{KeptUpdatesOf, KeptUpdatesPage, Page, PageOf};

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
    lines: Vec<Line>,
}

/// A number, a line, and who is left out.
type Line = (u64, String, LeftOut);

/// The events of the lines that have room, and whether there are more.
fn events_of<F>(lines: &[Line], events_max: usize, bytes_max: usize) -> (Vec<Arc<Event<F>>>, bool) {
    let (mut events, mut bytes) = (Vec::new(), 0);
    for (_, line, except) in lines {
        bytes += line.len();
        if events.len() >= events_max || bytes > bytes_max && !events.is_empty() {
            return (events, true);
        }
        let event = Event::of_line(line.clone()).expect("it was the line of an event");
        events.push(Arc::new(event.leaving_out(*except)));
    }
    (events, false)
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

    /// The state, of which a page is read.
    fn read(&self) -> Result<MutexGuard<'_, State>, ArchiveError> {
        let mut state = self.lock();
        if state.is_failing || state.is_closed {
            return Err(ArchiveError("the test says so".to_owned()));
        }
        state.pages += 1;
        Ok(state)
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
        let state = self.read()?;
        let keys = kept_under(id);
        let kept: Vec<&Kept> = keys.iter().filter_map(|key| state.subjects.get(&**key)).collect();
        let between = |(number, ..): &&(u64, _, _)| *number > after && *number < before;
        let mut found: Vec<_> =
            kept.iter().flat_map(|kept| &kept.lines).filter(between).cloned().collect();
        found.sort_by_key(|(number, ..)| *number);
        found.dedup_by_key(|(number, ..)| *number);
        if newest_first {
            found.reverse();
        }
        let (events, has_more) = events_of(&found, events_max, bytes_max);
        let covered = kept.iter().all(|kept| after >= kept.lost);
        Ok(Page { events, has_more, covered })
    }

    fn keeps_all(&self, listener: &dyn KeptListener) -> bool {
        (self.keeps)(&format!("#t:{}", listener.literal()))
    }

    fn heard(
        &self,
        listeners: &[Arc<dyn KeptListener>],
        of: KeptUpdatesOf,
    ) -> Result<KeptUpdatesPage<F>, ArchiveError> {
        let KeptUpdatesOf { after, up_to, events_max, bytes_max, looks_max, .. } = of;
        let state = self.read()?;
        let mut covered = true;
        let mut lines: BTreeMap<u64, (bool, Line)> = BTreeMap::new();
        let of_keys = state.subjects.iter().filter(|(key, _)| key.starts_with('#'));
        for (key, kept) in of_keys {
            let those = || listeners.iter().filter(|one| one.listens(key));
            covered &= after >= kept.lost || those().next().is_none();
            let between = |(number, ..): &&Line| *number > after && *number <= up_to;
            for line in kept.lines.iter().filter(between) {
                let event: Event<F> = Event::of_line(line.1.clone()).expect("it is an event");
                let subjects: Vec<_> = std::iter::once(event.about()).chain(event.also()).collect();
                let texts = || subjects.iter().map(|text| Cow::Borrowed(&**text));
                let is_heard = those().any(|one| one.hears(&mut texts()));
                lines.entry(line.0).or_insert((false, line.clone())).0 |= is_heard;
            }
        }
        // A look is a line here, heard or not.
        let last = lines.keys().nth(looks_max).map_or(up_to, |next| next - 1);
        let heard = lines.into_values().filter(|(is_heard, line)| *is_heard && line.0 <= last);
        let heard: Vec<Line> = heard.map(|(_, line)| line).collect();
        let (events, has_more) = events_of(&heard, events_max, bytes_max);
        let last = if has_more { events.last().map_or(last, |last| last.number()) } else { last };
        Ok(KeptUpdatesPage { events, up_to: last, covered })
    }

    fn number_of(&self, own_id: &str) -> Result<Option<u64>, ArchiveError> {
        let state = self.read()?;
        let lines = state.subjects.values().flat_map(|kept| &kept.lines);
        let of_id = lines.filter(|(_, line, _)| {
            let event: Option<Event<F>> = Event::of_line(line.clone());
            event.is_some_and(|event| event.own_id() == Some(own_id))
        });
        Ok(of_id.map(|(number, ..)| *number).min())
    }

    fn is_open(&self) -> bool {
        !self.lock().is_closed
    }
}

/// It is on disk at once, and never full.
impl<F: Send + Sync> EventStore<F> for MemoryArchive {
    fn reserve(&self, draft: &Draft) -> Result<Option<Box<dyn KeepRoom<F> + '_>>, NoRoomToKeep> {
        let is_kept = draft.subjects(|ids| ids.iter().any(|id| (self.keeps)(&id.to_string())));
        Ok(is_kept.then(|| Box::new(Always(self)) as Box<dyn KeepRoom<F>>))
    }

    fn is_always_durable(&self) -> bool {
        false
    }

    fn when_durable(&self, _: u64, done: WhenDurable) {
        done(true);
    }
}

struct Always<'a>(&'a MemoryArchive);

impl<F> KeepRoom<F> for Always<'_> {
    fn append(self: Box<Self>, event: &Event<F>, _: u64) {
        self.0.append(event);
    }
}
