//! What workers ask for, on its way to who answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hub::{Id, Tag};
use smallvec::SmallVec;
use sync::replies::Replies;

use crate::limits::{RESUMES_WAITING_MAX, SMALL_RESUME_IDS_MAX};
use crate::past::Past;
use crate::questions::{Asker, Question, QuestionBounds, Questions};

/// What a worker asks for.
#[derive(Debug)]
pub struct Resume {
    pub(crate) asker: Asker,
    /// The ids that it is logged in under.
    pub(crate) ids: SmallVec<[Id; 2]>,
    /// What is sent about those whom they follow is not asked for.
    pub(crate) are_alone: bool,
    /// The number of the last event that it has heard.
    pub(crate) after: u64,
    /// The place that it has named, where only the archive may know which number that is.
    pub(crate) named: Option<Arc<str>>,
    /// The tag of that event's epoch, where this node is not there yet.
    pub(crate) future_in: Option<Tag>,
    /// It was told, while it caught up, that some up to this number may be missing.
    pub(crate) gap_up_to: u64,
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
    pub(crate) future: Questions<Resume>,
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
            future: Questions::for_task(bounds, replies),
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
    pub(crate) fn post_future(&self, resume: Resume) -> bool {
        self.future.push(resume)
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
