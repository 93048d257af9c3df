//! How a client that was away hears what it missed, once and in its order.
//!
//! Its stream is logged in first, so what is sent from then on is handed to it, and is *held*: what
//! comes is put by. Its worker asks here ([`Resumes`]) for what was sent before. On the control
//! plane a [`Resuming`] reads whom the client's ids follow from the graph and what was sent about
//! them from the history, slice by slice, and answers by mail: with the oldest of it, as much as
//! may wait for one client. When that is written the worker asks again. With the last of it, it
//! puts what was missed before what came meanwhile, merged by number, and the stream goes on as any
//! other.
//!
//! Why nothing falls between the two, and nothing comes twice:
//! - a send whose audience was looked up before the log-in has not got the client in it; if it is
//!   not posted yet, the history says so and it is waited for ([`hub::Since::Pending`]);
//! - a send that begins later finds the client;
//! - an event that is in both has the same number twice, and one goes;
//! - the answer is posted when no other send is between its number and its last mail: so what comes
//!   after it in the mailbox has greater numbers than all that is in it.
//!
//! A node of a cluster may be asked by a client that has heard more elsewhere than the node has
//! posted. It is held as any other, what comes that it has heard is dropped, and its question waits
//! ([`crate::ahead`]) until the node has come to its place.
//!
//! Cost: nothing for a connection that does not resume. A resume is a look into the graph for each
//! of its ids, one into the history for each subject that they follow, one sort, and one mail; the
//! same for each further window.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hub::{Above, Followers, FollowersError, Id, Since, Slice, Snapshot};
use smallvec::SmallVec;
use sync::replies::Replies;

use crate::catch_up::CatchUp;
use crate::limits::{
    HELD_EVENT_BYTES, RESUMES_WAITING_MAX, SINCE_EVENTS_MAX, SMALL_RESUME_IDS_MAX,
    WINDOW_EVENTS_MAX,
};
use crate::mailbox::Mail;
use crate::past::{Past, Wanted};
use crate::questions::{Asker, Question, QuestionBounds, Questions};
use crate::router::Router;
use crate::{Event, History};

/// What a worker asks for.
#[derive(Debug)]
pub struct Resume {
    pub(crate) asker: Asker,
    /// The ids that it is logged in under.
    pub(crate) ids: SmallVec<[Id; 2]>,
    /// The number of the last event that it has heard.
    pub(crate) after: u64,
    /// What it wants of the time before it, if it has named no place.
    pub(crate) past: Option<Box<Past>>,
    /// Bytes of a window: as much as may wait for it.
    pub(crate) bytes_max: usize,
    /// Whether this is its first window.
    pub(crate) is_first: bool,
    /// The node has not come to where it was, so it goes on elsewhere: it is told of a gap.
    pub(crate) is_lost: bool,
}

impl Question for Resume {}

impl Resume {
    /// Whether it takes long: its client has many ids.
    fn is_large(&self) -> bool {
        self.ids.len() > SMALL_RESUME_IDS_MAX
    }
}

/// The questions of all workers, on their way to the control plane.
#[derive(Debug)]
pub struct Resumes {
    small: Questions<Resume>,
    /// Of clients with many ids: who has one does not wait behind them.
    large: Questions<Resume>,
    /// Of clients whose place is ahead of this node.
    pub(crate) ahead: Questions<Resume>,
    /// Relaxed, both: they are only reported.
    resumed: AtomicU64,
    gaps: AtomicU64,
}

impl Resumes {
    pub(crate) fn new(replies: Arc<Replies>) -> Resumes {
        // Their bound is in number: that on ids bounds their bytes.
        let bounds = QuestionBounds { questions: RESUMES_WAITING_MAX, bytes: usize::MAX };
        Resumes {
            small: Questions::for_task(bounds, Arc::clone(&replies)),
            large: Questions::for_task(bounds, Arc::clone(&replies)),
            ahead: Questions::for_task(bounds, replies),
            resumed: AtomicU64::new(0),
            gaps: AtomicU64::new(0),
        }
    }

    /// Asks. `false` when too many wait; then the client is to be told of a gap.
    pub(crate) fn post(&self, resume: Resume) -> bool {
        self.questions_of(&resume).push(resume)
    }

    /// Asks for one that has waited elsewhere, and was counted there.
    pub(crate) fn post_anyway(&self, resume: Resume) {
        self.questions_of(&resume).push_anyway(resume);
    }

    /// Asks once this node has come to the client's place. `false` when too many wait for that.
    pub(crate) fn post_ahead(&self, resume: Resume) -> bool {
        self.ahead.push(resume)
    }

    fn questions_of(&self, resume: &Resume) -> &Questions<Resume> {
        if resume.is_large() { &self.large } else { &self.small }
    }

    /// A client has asked to go on where it was, and was told of a gap or not.
    pub(crate) fn count(&self, gap: bool) {
        self.resumed.fetch_add(1, Ordering::Relaxed);
        self.gaps.fetch_add(u64::from(gap), Ordering::Relaxed);
    }

    /// A client that goes on was told of a gap later.
    pub(crate) fn count_gap(&self) {
        self.gaps.fetch_add(1, Ordering::Relaxed);
    }

    /// The questions of clients with few ids.
    pub fn small(&self) -> &Questions<Resume> {
        &self.small
    }

    /// Those of clients with many.
    pub fn large(&self) -> &Questions<Resume> {
        &self.large
    }

    /// The next question, if there is one.
    #[cfg(test)]
    pub(crate) fn take(&self) -> Option<Resume> {
        self.small.take().or_else(|| self.large.take())
    }

    /// How many clients have come back with an id since the start.
    pub fn resumed(&self) -> u64 {
        self.resumed.load(Ordering::Relaxed)
    }

    /// How many of them had to be told of a gap.
    pub fn gaps(&self) -> u64 {
        self.gaps.load(Ordering::Relaxed)
    }

    /// Counts on from what another process has counted.
    pub fn count_on(&self, resumed: u64, gaps: u64) {
        self.resumed.fetch_add(resumed, Ordering::Relaxed);
        self.gaps.fetch_add(gaps, Ordering::Relaxed);
    }
}

/// What is read of the history at a time.
const SLICE: Slice = Slice { per_subject: WINDOW_EVENTS_MAX, events: SINCE_EVENTS_MAX };

/// What a step of a resume came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResumeStep {
    /// A slice is read, others may have their turn before the next.
    More,
    /// A send must be posted first, or a mailbox is full: try again a little later.
    Wait,
    /// The worker has its answer, or its client is gone.
    Done,
}

/// One client's resume under way. Dropped unfinished, it leaves the client held.
pub struct Resuming<'r> {
    router: &'r Router,
    history: &'r History,
    resume: Resume,
    snapshot: Snapshot,
    /// Which of the ids is being read, and the last one read of those that it follows.
    reading: usize,
    last: Option<Id>,
    /// Whether that id itself is read, where it is read apart.
    is_own_read: bool,
    /// Of each id that is read apart the number above which its last events stand.
    floors: Vec<(Id, u64)>,
    /// The subjects of the slice that is read and not looked up yet.
    subjects: Vec<Id>,
    /// Which events about them.
    above: Above,
    events: Vec<Arc<Event>>,
    covered: bool,
    /// The number up to which no event is left out for want of room.
    up_to: u64,
    /// Made, and not posted yet.
    answer: Option<Mail>,
}

impl<'r> Resuming<'r> {
    /// Begins to answer what a worker has asked; `None` when nothing is remembered.
    pub fn begin(router: &'r Router, resume: Resume) -> Option<Resuming<'r>> {
        let history = router.history()?;
        Some(Resuming {
            router,
            history,
            snapshot: history.now(),
            reading: 0,
            last: None,
            is_own_read: false,
            floors: Vec::new(),
            subjects: Vec::new(),
            above: Above::from(resume.after),
            events: Vec::new(),
            covered: !resume.is_lost,
            up_to: u64::MAX,
            answer: None,
            resume,
        })
    }

    /// Does the next piece of work. Call it until it answers [`ResumeStep::Done`], not after.
    pub fn step(&mut self, followers: &dyn Followers) -> ResumeStep {
        // Thousands that ask and hang up take nobody's time.
        if !self.resume.asker.is_waiting() {
            return ResumeStep::Done;
        }
        if self.subjects.is_empty() && self.read_slice(followers).is_err() {
            // What cannot be read may have been missed.
            self.covered = false;
            self.reading = self.resume.ids.len();
        }
        if self.subjects.is_empty() {
            return self.answer();
        }
        let (above, snapshot) = (self.above, self.snapshot);
        match self.history.since(&self.subjects, above, snapshot, SLICE, &mut self.events) {
            Since::Pending => ResumeStep::Wait,
            Since::Read { covered, subjects, up_to } => {
                self.covered &= covered;
                self.up_to = self.up_to.min(up_to);
                self.subjects.drain(..subjects);
                if self.events.len() > WINDOW_EVENTS_MAX {
                    self.put_in_order();
                }
                ResumeStep::More
            }
        }
    }

    /// Reads the next ids that the client hears: those of its own, and whom each follows.
    fn read_slice(&mut self, followers: &dyn Followers) -> Result<(), FollowersError> {
        while let Some(&id) = self.resume.ids.get(self.reading) {
            if self.last.is_none() && self.read_own(id) {
                return Ok(());
            }
            let subjects = &mut self.subjects;
            let next = followers
                .slice_of_following(id, self.last, &mut |subject| subjects.push(subject))?;
            self.last = next;
            if next.is_none() {
                self.reading += 1;
                self.is_own_read = false;
            }
            if !self.subjects.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Reads `id` itself. Whether that is a slice of its own: its events begin elsewhere than those
    /// of whom it follows.
    fn read_own(&mut self, id: Id) -> bool {
        let after = self.resume.after;
        let past = self.resume.past.as_deref();
        self.above = past.map_or(Above::from(after), |past| past.of_all(after));
        let Some(past) = past.filter(|past| past.is_of_each()) else {
            self.subjects.push(id);
            return false;
        };
        if self.is_own_read {
            return false;
        }
        let floor = match past.wanted {
            Wanted::Last(most) => Some(self.history.before_last(id, most as usize, past.begun)),
            _ => None,
        };
        self.floors.extend(floor.map(|floor| (id, floor)));
        self.above = past.of_own(id, floor, after);
        self.subjects.push(id);
        self.is_own_read = true;
        true
    }

    fn answer(&mut self) -> ResumeStep {
        let mail = self.answer.take().unwrap_or_else(|| self.catch_up());
        match self.router.post_catch_up(self.resume.asker.conn.worker(), mail) {
            Ok(()) => ResumeStep::Done,
            Err(mail) => {
                self.answer = Some(mail);
                ResumeStep::Wait
            }
        }
    }

    /// Sorts the events, takes doubles out (two ids may follow one subject), and of too many the
    /// newest: they are for a later window.
    fn put_in_order(&mut self) {
        self.events.sort_unstable_by_key(|event| event.number());
        // One about several of the subjects was found under each.
        self.events.dedup_by_key(|event| event.number());
        if let Some(first_left_out) = self.events.get(WINDOW_EVENTS_MAX) {
            self.up_to = self.up_to.min(first_left_out.number() - 1);
        }
        let kept = self.events.partition_point(|event| event.number() <= self.up_to);
        self.events.truncate(kept);
    }

    /// Leaves as many events as may wait for the client, and one at least.
    fn cut_to_bytes(&mut self) {
        let mut bytes = 0;
        let fits = |event: &&Arc<Event>| {
            let is_first = bytes == 0;
            bytes += event.json().len() + HELD_EVENT_BYTES;
            is_first || bytes <= self.resume.bytes_max
        };
        let kept = self.events.iter().take_while(fits).count();
        if let Some(first_left_out) = self.events.get(kept) {
            self.up_to = first_left_out.number() - 1;
            self.events.truncate(kept);
        }
    }

    fn catch_up(&mut self) -> Mail {
        self.put_in_order();
        self.cut_to_bytes();
        Mail::CatchUp(Box::new(CatchUp {
            target: self.resume.asker.conn,
            events: std::mem::take(&mut self.events),
            gap: !self.covered,
            up_to: self.up_to,
            whole: self.up_to == u64::MAX,
            is_first: self.resume.is_first,
            floors: (!self.floors.is_empty()).then(|| std::mem::take(&mut self.floors).into()),
        }))
    }
}
