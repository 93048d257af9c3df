//! The memory of what was sent: the last events of each subject, for those who come back.
//!
//! Bounded three ways, by events of a subject, by age and by bytes (of all, and of a subject where
//! a rule for the disk counts them), and shared with the frames in flight: it holds pointers to the
//! same events. Only senders and those who look up what a client has missed come here, on the
//! control plane; no worker ever does. One lock, held for one event or for a slice of subjects.
//!
//! It never says that nothing was missed when something was. What is evicted leaves its number
//! behind, with its subject's oldest event ([`Kept`]) or in a bounded list of the subjects that
//! have none any more ([`Evicted`]). A look-up from a number on is *covered* when nothing after it
//! can have been evicted. For a subject that fell off that list a gap is told that may be none; the
//! other way round cannot be.
//!
//! What was sent where this memory was not, in a cluster while a node was away, has a number up to
//! which nothing can be relied on ([`History::forget_up_to`]).
//!
//! It also knows the sends that have begun and are not posted ([`Begun`]). Their audience may have
//! been looked up before a client came, and their event is not here yet. A look-up of what that
//! client has missed must wait for them, or the event would fall between the two.
//!
//! A subject's name is acquired while the subject has events, so that an event for a name that is
//! offline for a moment waits for it.
//!
//! Cost: a record is two look-ups in tables and a few stores (`cargo bench --bench limit --
//! --sends`). An event that is kept costs its line, 180 bytes at most around it, and for some
//! seconds a frame.

mod begun;
mod evicted;
mod forgetting;
mod handed_over;
mod kept;
mod lacks;
mod page;
mod part;
mod rules;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use begun::Begun;
use begun::{Asked, Open, Wait};
use evicted::Evicted;
use forgetting::cool;
pub use handed_over::{EvictedRange, EvictedRule, Remembered};
use kept::Kept;
pub use lacks::Lack;
pub use part::PagePart;
use rules::RulePairs;
pub use rules::{BadRule, HistoryRule, HistoryRules};

use crate::archive::KeptBounds;
use crate::event::Event;
use crate::id::{Id, IdText};
use crate::names::Names;

/// How much is remembered. Nothing at all when any of them is 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HistoryLimits {
    /// Events of one subject.
    pub events_max: usize,
    /// Milliseconds after which an event is forgotten.
    pub age_ms_max: u64,
    /// Bytes of all events together, as [`HistoryStats::bytes`] counts them.
    pub bytes_max: usize,
}

impl HistoryLimits {
    /// Remembers nothing.
    pub const OFF: HistoryLimits = HistoryLimits { events_max: 0, age_ms_max: 0, bytes_max: 0 };

    /// Whether anything is remembered.
    pub fn is_on(&self) -> bool {
        self.events_max > 0 && self.age_ms_max > 0 && self.bytes_max > 0
    }
}

impl Default for HistoryLimits {
    /// Three minutes, so that a network that says nothing for 90 s is no gap: its client comes back
    /// within 160 s (a test of `encke serve` does the sum). One event a second about a subject is
    /// 180 of them. An event of 100 bytes counts for about 335 in all, so 64 MiB are 200,000 of
    /// them, 1,100 a second for three minutes: more than what a million users send so that each
    /// hears one a minute, and 16 each of them (1,042).
    fn default() -> HistoryLimits {
        HistoryLimits { events_max: 200, age_ms_max: 180_000, bytes_max: 64 << 20 }
    }
}

/// Events forgotten by one [`History::expire`] by each of so many rules: about 0.2 ms. Where there
/// are more pairs of them, it is fewer by each.
const EXPIRED_MAX: usize = 1024;
const EXPIRED_RULES: usize = 33;

/// Aged events forgotten with each one that comes: more than one, so that they become fewer.
const EXPIRED_PER_RECORD: usize = 2;

/// Events that are looked at for that with each one that comes.
const COOLED_PER_RECORD: usize = 2;

/// The last events of each subject. `F` is as in [`Event`].
pub struct History<F> {
    names: Arc<Names>,
    bytes_max: usize,
    rules: RulePairs,
    state: Mutex<State<F>>,
}

struct State<F> {
    kept: Kept<F>,
    evicted: Evicted,
    /// Of no subject anything is known up to this number, but by chance.
    floor: u64,
    /// Sends that are not posted yet.
    begun: Vec<Open>,
    tickets: u64,
    /// Where the last dump has ended.
    dumped: u32,
}

/// The moment at which somebody began to look up what was missed: sends that began before it are
/// waited for, later ones find the client by themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Snapshot(u64);

/// What a look-up came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Since {
    /// A send about one of the subjects began before and is not posted yet: ask again.
    Pending,
    /// The events were read. If not `covered`, others may have been forgotten.
    Read {
        /// Whether these are all that there were, up to `up_to`.
        covered: bool,
        /// How many of the subjects were looked at: there may be more events about the others.
        subjects: usize,
        /// The number up to which no event about these is left out for want of room.
        up_to: u64,
    },
}

/// Which events a look-up is to find.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Above {
    /// Those above this number, as far as they are remembered.
    pub number: u64,
    /// All of those above this one: if some may have been forgotten the answer says so.
    pub claimed: u64,
}

impl From<u64> for Above {
    /// All above that number.
    fn from(number: u64) -> Above {
        Above { number, claimed: number }
    }
}

/// How much a look-up reads at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slice {
    /// Events of one subject; of more the oldest ones.
    pub per_subject: usize,
    /// Events in all, past which no further subject is looked at.
    pub events: usize,
}

impl Slice {
    /// All that there are.
    pub const ALL: Slice = Slice { per_subject: usize::MAX / 2, events: usize::MAX };
}

/// How much is remembered now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HistoryStats {
    /// How many events are remembered.
    pub events: usize,
    /// Bytes that they are counted for: of each event its line and what is kept around it, and the
    /// frame of one transport while it may be on its way. Frames of further transports, and those
    /// made again for clients that come back, come on top.
    pub bytes: usize,
    /// Subjects that have any.
    pub subjects: usize,
}

impl<F> History<F> {
    /// An empty memory. The names of subjects are acquired in `names`.
    pub fn new(names: Arc<Names>, limits: HistoryLimits) -> History<F> {
        History::with_rules(names, limits, HistoryRules::default())
    }

    /// An empty memory, which has `rules` for some subjects, and `limits` for all others.
    pub fn with_rules(names: Arc<Names>, limits: HistoryLimits, rules: HistoryRules) -> History<F> {
        let bytes_max = limits.bytes_max;
        let rules = RulePairs::new(limits, rules);
        let state = Mutex::new(State::new(rules.bounds().len()));
        History { names, bytes_max, rules, state }
    }

    /// This memory, which is empty, and remembers no more of what is kept on disk than the rules
    /// for that keep. Which of them counts for an id says `rule_of`, if one does.
    #[must_use]
    pub fn with_kept(
        self,
        kept: Vec<KeptBounds>,
        rule_of: impl Fn(&str) -> Option<usize> + Send + Sync + 'static,
    ) -> History<F> {
        let rules = self.rules.with_kept(kept, Box::new(rule_of));
        let state = Mutex::new(State::new(rules.bounds().len()));
        History { rules, state, ..self }
    }

    /// A send about `subjects`, each once, begins: before its audience is looked up.
    #[must_use]
    pub fn begin(&self, subjects: &[IdText<'_>]) -> Begun {
        let subjects = subjects.iter().map(|&about| self.names.acquire(about)).collect();
        let mut state = self.lock();
        state.tickets += 1;
        let begun = Begun { ticket: state.tickets, subjects };
        state.begun.push(Open { begun: begun.clone(), wait: Wait::No });
        begun
    }

    /// The send waits for room. Until it [goes on](History::go_on) nobody waits for it.
    pub fn wait(&self, begun: &Begun) {
        if let Some(open) = self.lock().open(begun) {
            open.wait = Wait::ForRoom;
        }
    }

    /// The send goes on after it has waited. `false` when its audience must be looked up anew: a
    /// client that has come meanwhile was told what it has missed, without this event.
    #[must_use]
    pub fn go_on(&self, begun: &mut Begun) -> bool {
        let mut state = self.lock();
        let ticket = state.tickets + 1;
        let Some(open) = state.open(begun) else { return true };
        let overtaken = std::mem::replace(&mut open.wait, Wait::No) == Wait::Overtaken;
        if overtaken {
            // As if it began now: who has looked before does not wait for it.
            (open.begun.ticket, begun.ticket) = (ticket, ticket);
            state.tickets = ticket;
        }
        !overtaken
    }

    /// The send ends without an event.
    pub fn abandon(&self, begun: Begun) {
        self.lock().end(&begun);
        begun.subjects.iter().for_each(|&subject| self.names.release(subject));
    }

    /// The send's event is about to be posted. Numbers must come in ascending order, and `now_ms`
    /// must not go back.
    pub fn record(&self, begun: Begun, event: Arc<Event<F>>, now_ms: u64) {
        self.record_aged(begun, event, 0, now_ms);
    }

    /// Records an event that was sent so many milliseconds ago, elsewhere: it is forgotten
    /// when others of its age are. It counts as no older than what was recorded before it.
    pub fn record_aged(&self, begun: Begun, event: Arc<Event<F>>, age_ms: u64, now_ms: u64) {
        let mut state = self.lock();
        state.end(&begun);
        let mut event = Some((event, now_ms.saturating_sub(age_ms)));
        let subjects = begun.subjects.len();
        for subject in begun.subjects {
            let rule = self.rule_of(&state, subject);
            let events = match event.take() {
                Some((event, at_ms)) => state.kept.push(subject, rule, event, at_ms),
                None => state.kept.push_further(subject, rule),
            };
            if events > 1 {
                // The subject has its name already.
                self.names.release(subject);
            }
            if events > self.rules.events_max(rule) {
                self.forget(&mut state, subject);
            }
            self.bound_bytes(&mut state, subject, rule);
        }
        let is_full = state.kept.bytes() > self.bytes_max;
        cool(&mut state, now_ms, is_full, COOLED_PER_RECORD);
        self.forget_beyond(&mut state);
        self.forget_aged(&mut state, now_ms, EXPIRED_PER_RECORD.max(subjects + 1));
    }

    /// Forgets what is too old, events and frames, a slice of it. `true` when there is more.
    pub fn expire(&self, now_ms: u64) -> bool {
        let mut state = self.lock();
        let rules = self.rules.bounds().len().max(EXPIRED_RULES);
        let most = (EXPIRED_MAX * EXPIRED_RULES / rules).max(EXPIRED_PER_RECORD);
        let is_more = self.forget_aged(&mut state, now_ms, most);
        cool(&mut state, now_ms, false, EXPIRED_MAX) | is_more
    }

    /// Events up to `number` may have been missed here, and what is remembered of them is not told
    /// any more: who asks from a place before that hears that others may have been forgotten, and
    /// what came later. What is remembered ages as before.
    pub fn forget_up_to(&self, number: u64) {
        let mut state = self.lock();
        state.floor = state.floor.max(number);
    }

    /// The moment before which sends have begun that [`History::since`] is to wait for.
    pub fn now(&self) -> Snapshot {
        Snapshot(self.lock().tickets)
    }

    /// Puts a slice of the events about `subjects` whose numbers are `above` that into `events`, in
    /// no particular order, unless a send about one of them that began before `moment` is not
    /// posted yet.
    pub fn since(
        &self,
        subjects: &[Id],
        above: impl Into<Above>,
        moment: Snapshot,
        slice: Slice,
        events: &mut Vec<Arc<Event<F>>>,
    ) -> Since {
        let mut state = self.lock();
        let asked = Asked::new(subjects, !state.begun.is_empty());
        let before = |open: &&mut Open| {
            open.begun.ticket <= moment.0 && open.begun.subjects.iter().any(|&id| asked.has(id))
        };
        for open in state.begun.iter_mut().filter(before) {
            if open.wait == Wait::No {
                return Since::Pending;
            }
            open.wait = Wait::Overtaken;
        }
        let Above { number: after, claimed } = above.into();
        debug_assert!(claimed >= after, "what is not read cannot be claimed");
        let (mut covered, mut up_to, mut read) = (claimed >= state.floor, u64::MAX, 0);
        // What is remembered of before comes not, or a client whose windows all begin there would
        // be told of the same gap with each.
        let after = after.max(state.floor);
        for &subject in subjects {
            if events.len() >= slice.events {
                break;
            }
            let (lost, left_out) = state.kept.since(subject, after, slice.per_subject, events);
            covered &= lost.max(self.lost_last(&state, subject, claimed)) <= claimed;
            up_to = up_to.min(left_out.unwrap_or(u64::MAX));
            read += 1;
        }
        Since::Read { covered, subjects: read, up_to }
    }

    /// Whether a send about `subject` has begun, and its event is not recorded.
    pub fn is_sending(&self, subject: Id) -> bool {
        self.lock().begun.iter().any(|open| open.begun.subjects.contains(&subject))
    }

    /// The bytes that are remembered, at most.
    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// How much is remembered now.
    pub fn stats(&self) -> HistoryStats {
        let kept = &self.lock().kept;
        HistoryStats { events: kept.len(), bytes: kept.bytes(), subjects: kept.subjects() }
    }

    /// A panic under the lock would leave it whole but for a count.
    fn lock(&self) -> MutexGuard<'_, State<F>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F> State<F> {
    /// An empty one, of so many pairs of rules.
    fn new(rules: usize) -> State<F> {
        State {
            kept: Kept::new(rules),
            evicted: Evicted::new(rules),
            floor: 0,
            begun: Vec::new(),
            tickets: 0,
            dumped: 0,
        }
    }

    fn end(&mut self, begun: &Begun) {
        if let Some(at) = self.begun.iter().position(|open| open.begun.ticket == begun.ticket) {
            self.begun.swap_remove(at);
        }
    }

    fn open(&mut self, begun: &Begun) -> Option<&mut Open> {
        self.begun.iter_mut().find(|open| open.begun.ticket == begun.ticket)
    }
}
