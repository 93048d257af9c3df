//! Short appends of all streams, which one thread takes in groups.
//!
//! Whatever waits is one group, with one sync of the disk. While a group is on its way there the
//! next one gathers, so no timer is needed, and nobody waits longer for few than for many. A thread
//! of its own does this: the control plane has no part in it, and a worker's
//! [lane](super::at_once) may hand something on, which must neither wait nor wake a task.
//!
//! Two appends to one stream never stand in one group, since each has its stream's
//! [turn](super::places). What is long, or at a stream that is not in memory, would hold up all
//! others: that has a thread of the [row](super::row).
//!
//! Cost of an append in a group of some: a place in a list, and a part of one wake-up and one sync.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::{io, mem, thread};

use axum::response::Response;
use dispatch::barrier::Barrier;
use engine::LaneBell;
use streams::{Append, Appended, Refusal, Store};
use tokio::sync::oneshot;

use super::answers::{appended_answer, refused};
use super::asked::AskedAppend;
use super::places::PathTurn;

/// Appends that wait, and bytes of what they hold. Past it others take the row. As much may be in
/// the group that is under way.
const WAITING_MAX: usize = 8 << 10;
const WAITING_BYTES_MAX: usize = 16 << 20;

/// Bytes of an append beside its body and its fields, about.
const APPEND_BYTES: usize = 256;

/// An append that was looked at, in its stream's turn.
pub(super) struct ReadyAppend {
    pub(super) asked: AskedAppend,
    /// What is stored, where that is not the body.
    pub(super) json: Option<Vec<u8>>,
    pub(super) turn: PathTurn,
    pub(super) told: Told,
}

/// Who is told what became of an append.
pub(super) enum Told {
    /// A request of the control plane.
    Task(oneshot::Sender<TaskOutcome>),
    /// A worker's lane.
    Lane(Arc<OnceLock<LaneOutcome>>, LaneBell),
}

/// What became of an append.
pub(super) enum TaskOutcome {
    Done(Result<Appended, Refusal>),
    /// Nothing was done: this process may change nothing now.
    NotNow(PathTurn, AskedAppend),
}

/// What became of an append of a lane.
#[derive(Debug)]
pub(super) enum LaneOutcome {
    Done(Result<Appended, Refusal>),
    /// Likewise.
    NotNow,
}

/// The appends that wait for their thread.
#[derive(Default)]
pub(super) struct Appender {
    queue: Mutex<AppendQueue>,
    /// There is something for the thread, or nothing any more.
    wanted: Condvar,
}

#[derive(Default)]
struct AppendQueue {
    waiting: Vec<ReadyAppend>,
    bytes: usize,
    /// Whether there is a thread.
    is_open: bool,
    /// Whether that waits.
    is_idle: bool,
}

impl ReadyAppend {
    fn append(&self) -> (&str, Append<'_>) {
        let data = self.json.as_deref().unwrap_or(&self.asked.body);
        (self.turn.path(), self.asked.fields.append(data))
    }

    fn bytes(&self) -> usize {
        let json = self.json.as_ref().map_or(0, Vec::len);
        let fields = &self.asked.fields;
        let texts = [fields.sequence.as_ref(), fields.content_type.as_ref()];
        let texts = texts.into_iter().flatten().chain(fields.producer.as_ref().map(|(id, ..)| id));
        APPEND_BYTES + self.asked.body.len() + json + texts.map(String::len).sum::<usize>()
    }

    /// Tells what became of it. `bells` has those that are still to be rung.
    fn tell(self, outcome: Option<Result<Appended, Refusal>>, bells: &mut Vec<LaneBell>) {
        let ReadyAppend { turn, told, .. } = self;
        // Nobody knows how far it came.
        let grief = || Err(Refusal::Unsure(io::Error::other("the append came to grief")));
        let outcome = outcome.unwrap_or_else(grief);
        // First: who is told may change it again at once.
        drop(turn);
        match told {
            // Who asked may have gone.
            Told::Task(told) => drop(told.send(TaskOutcome::Done(outcome))),
            Told::Lane(place, bell) => set(&place, LaneOutcome::Done(outcome), bell, bells),
        }
    }

    /// Gives it back.
    fn give_back(self, bells: &mut Vec<LaneBell>) {
        let ReadyAppend { asked, turn, told, .. } = self;
        match told {
            Told::Task(told) => drop(told.send(TaskOutcome::NotNow(turn, asked))),
            Told::Lane(place, bell) => {
                drop(turn);
                set(&place, LaneOutcome::NotNow, bell, bells);
            }
        }
    }
}

fn set(
    place: &OnceLock<LaneOutcome>,
    outcome: LaneOutcome,
    bell: LaneBell,
    bells: &mut Vec<LaneBell>,
) {
    // It is told once.
    let _ = place.set(outcome);
    if !bells.iter().any(|other| other.is_same(&bell)) {
        bells.push(bell);
    }
}

impl LaneOutcome {
    /// The answer to an append to the stream `path`, whose writer is told whether it is new if that
    /// `tells`; `None` where the control plane is to do it.
    pub(super) fn answer(&self, path: &str, tells: bool) -> Option<Response> {
        match self {
            LaneOutcome::Done(Ok(appended)) => Some(appended_answer(appended, tells)),
            LaneOutcome::Done(Err(refusal)) => Some(refused(refusal, path)),
            LaneOutcome::NotNow => None,
        }
    }
}

impl Appender {
    /// Begins the thread, which appends to `store` while `barrier` is open. `settle` has the log
    /// of a store emptied by another thread.
    ///
    /// # Errors
    /// There is no thread.
    pub(super) fn open(
        self: &Arc<Appender>,
        store: &Arc<Store>,
        barrier: &Arc<Barrier>,
        settle: impl Fn(&Arc<Store>) + Send + 'static,
    ) -> io::Result<()> {
        let (appender, store) = (Arc::clone(self), Arc::clone(store));
        let barrier = Arc::clone(barrier);
        let work = move || {
            while let Some(group) = appender.next() {
                append_group(group, &store, &barrier);
                if store.log_is_full() {
                    // Where it comes to grief the next group tries it again.
                    let _ = catch_unwind(AssertUnwindSafe(|| settle(&store)));
                }
            }
        };
        // The thread is not to look before it is open, or it would end.
        let mut queue = self.queue();
        thread::Builder::new().name("appends".into()).spawn(work)?;
        queue.is_open = true;
        Ok(())
    }

    /// Hands on an append, which is given back where too many wait or nothing is open yet.
    pub(super) fn push(&self, append: ReadyAppend) -> Option<ReadyAppend> {
        let mut left = Some(append);
        let bytes = left.as_ref().map_or(0, ReadyAppend::bytes);
        self.push_new(bytes, || left.take());
        left
    }

    /// Hands on an append that is made only where there is room for its bytes, about: a lane may
    /// not let go of what it has begun. Whether there is one.
    pub(super) fn push_new(&self, bytes: usize, new: impl FnOnce() -> Option<ReadyAppend>) -> bool {
        let mut queue = self.queue();
        let has_room =
            queue.waiting.len() < WAITING_MAX && queue.bytes + bytes <= WAITING_BYTES_MAX;
        let Some(append) = new_if(queue.is_open && has_room, new) else { return false };
        queue.bytes += append.bytes();
        queue.waiting.push(append);
        let is_idle = mem::take(&mut queue.is_idle);
        drop(queue);
        if is_idle {
            self.wanted.notify_one();
        }
        true
    }

    /// There will be no more, and the thread ends when it is done.
    pub(super) fn close(&self) {
        self.queue().is_open = false;
        self.wanted.notify_one();
    }

    /// All that waits, once something does; `None` at the end.
    fn next(&self) -> Option<Vec<ReadyAppend>> {
        let mut queue = self.queue();
        loop {
            if !queue.waiting.is_empty() {
                queue.bytes = 0;
                let room = Vec::with_capacity(queue.waiting.len());
                return Some(mem::replace(&mut queue.waiting, room));
            }
            if !queue.is_open {
                return None;
            }
            queue.is_idle = true;
            queue = self.wanted.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.is_idle = false;
        }
    }

    fn queue(&self) -> MutexGuard<'_, AppendQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn new_if<T>(is_wanted: bool, new: impl FnOnce() -> Option<T>) -> Option<T> {
    if is_wanted { new() } else { None }
}

/// Makes appends to different streams, and tells what became of each. A worker is woken once.
fn append_group(group: Vec<ReadyAppend>, store: &Store, barrier: &Barrier) {
    let mut bells = Vec::new();
    let Some(permit) = barrier.try_enter() else {
        group.into_iter().for_each(|append| append.give_back(&mut bells));
        return bells.iter().for_each(LaneBell::ring);
    };
    let mut outcomes = Vec::new();
    outcomes.resize_with(group.len(), || None);
    let append = || {
        let appends: Vec<_> = group.iter().map(ReadyAppend::append).collect();
        store.append_group(&appends, &mut |number, outcome| outcomes[number] = Some(outcome));
    };
    // If it comes to grief all who wait are told, and the thread goes on.
    let _ = catch_unwind(AssertUnwindSafe(append));
    drop(permit);
    for (append, outcome) in group.into_iter().zip(outcomes) {
        append.tell(outcome, &mut bells);
    }
    bells.iter().for_each(LaneBell::ring);
}

#[cfg(test)]
mod tests;
