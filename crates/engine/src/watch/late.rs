//! What workers are still to be told of rooms, since their mailboxes were full.
//!
//! Nobody waits for such a worker. Of a room it is told nothing more, until its mailbox has room
//! again. Then those who watch there get the whole list, which takes the place of all that they
//! were not told. What connections have asked for is answered then, too.
//!
//! Cost: nothing while mailboxes have room. Else a place for each room that is watched there, and
//! one for each question, which has a bound: one that waits here is not done.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use hub::Id;

use super::Watch;

/// All workers that are late.
#[derive(Debug, Default)]
pub struct Late {
    workers: BTreeMap<usize, LateWorker>,
}

#[derive(Debug, Default)]
struct LateWorker {
    rooms: BTreeSet<Id>,
    watches: VecDeque<Watch>,
}

/// Something that is made up for at one worker.
#[derive(Debug)]
pub enum LateTask {
    /// Tell those who watch this room there the whole list.
    Tell(Id),
    /// Answer this question.
    Answer(Watch),
}

impl Late {
    /// Whether no worker is late.
    pub fn is_empty(&self) -> bool {
        self.workers.is_empty()
    }

    /// The workers that are late.
    pub fn workers(&self) -> Vec<usize> {
        self.workers.keys().copied().collect()
    }

    /// Keeps a question until the mailbox of its worker has room.
    pub fn keep(&mut self, watch: Watch) {
        self.workers.entry(watch.worker()).or_default().watches.push_back(watch);
    }

    /// Takes the next thing that `worker` is to be told.
    pub fn take(&mut self, worker: usize) -> Option<LateTask> {
        let late = self.workers.get_mut(&worker)?;
        let room = late.rooms.pop_first().map(LateTask::Tell);
        let task = room.or_else(|| late.watches.pop_front().map(LateTask::Answer));
        if late.rooms.is_empty() && late.watches.is_empty() {
            self.workers.remove(&worker);
        }
        task
    }

    /// `worker` was not told what has changed in `room`.
    pub(super) fn miss(&mut self, worker: usize, room: Id) {
        self.workers.entry(worker).or_default().rooms.insert(room);
    }

    /// Whether `worker` will get the whole list of `room`, and nothing before.
    pub(super) fn has(&self, worker: usize, room: Id) -> bool {
        self.workers.get(&worker).is_some_and(|late| late.rooms.contains(&room))
    }
}
