//! How a client that was away hears what it missed, once and in its order.
//!
//! Its stream is logged in first, so what is sent from then on is handed to it, and is *held*: what
//! comes is put by. Its worker asks here ([`Resumes`]) for what was sent before. On the control
//! plane a [`Resuming`] reads whom the client's ids follow from the graph, and what was sent about
//! them from the history, slice by slice. It answers by mail: with the oldest of it, as much as may
//! wait for one client. When that is written the worker asks again. With the last of it, it puts
//! what was missed before what came meanwhile, merged by number, and the stream goes on as any
//! other.
//!
//! Why nothing falls between the two, and nothing comes twice:
//! - a send whose audience was looked up before the log-in has not got the client in it. If it is
//!   not posted yet, the history says so and it is waited for ([`hub::Since::Pending`]);
//! - a send that begins later finds the client;
//! - an event that is in both has the same number twice, and one goes;
//! - the answer is posted when no other send is between its number and its last mail. So what comes
//!   after it in the mailbox has greater numbers than all that is in it.
//!
//! A node of a cluster may be asked by a client that has heard more elsewhere than the node has
//! posted. It is held as any other, what comes that it has heard is dropped, and its question waits
//! ([`crate::ahead`]) until the node has come to its place.
//!
//! Where events are kept on disk, the memory answers first. Of a kept subject of which it may have
//! forgotten some the rest is read from the [archive](hub::Archive), by whoever may wait for a disk
//! ([`ResumeStep::Read`]). What the memory has begins no later than what is read there ends, and an
//! event that is in both goes once. Whether something is missing the archive says then.
//!
//! Cost: nothing for a connection that does not resume. A resume is a look into the graph for each
//! of its ids, and one into the history for each subject that they follow. It takes one sort and
//! one mail, and the same for each further window.

mod archived;
mod asked;
mod kept;
mod keys;
mod scanned;

use std::sync::Arc;

use hub::{Above, Followers, FollowersError, Id, Lack, Since, Slice, Snapshot};

use self::archived::LastOf;
pub use self::archived::{ArchiveAnswer, ArchiveQuestion};
pub use self::asked::{Resume, Resumes};
use self::kept::Reader;
use self::scanned::Scan;
use crate::catch_up::CatchUp;
use crate::limits::{HELD_EVENT_BYTES, SINCE_EVENTS_MAX, WINDOW_EVENTS_MAX};
use crate::mailbox::Mail;
use crate::past::Wanted;
use crate::router::Router;
use crate::{Event, History};

/// What is read of the history at a time.
const SLICE: Slice = Slice { per_subject: WINDOW_EVENTS_MAX, events: SINCE_EVENTS_MAX };

/// What a step of a resume came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResumeStep {
    /// A slice is read, others may have their turn before the next.
    More,
    /// A send must be posted first, or a mailbox is full: try again a little later.
    Wait,
    /// The archive is to be [asked](Resuming::question), and its answer to be
    /// [told](Resuming::tell), before the next step.
    Read,
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
    /// Whose followed ids, or which id itself, was read last.
    reader: Id,
    /// What of that, or of that id, is read from the archive.
    listens: Reader,
    /// What the client's patterns are looked for in the archive.
    scan: Scan,
    /// Whether that id itself is read, where it is read apart.
    is_own_read: bool,
    /// Of each id that is read apart the number above which its last events stand.
    floors: Vec<(Id, u64)>,
    /// The subjects of the slice that is read and not looked up yet.
    subjects: Vec<Id>,
    /// Kept subjects of which the memory lacks some, to be read from the archive.
    lacks: Vec<Lack>,
    /// The archive is to say above which number the last events of an id stand.
    last_of: Option<LastOf>,
    /// Which events about them.
    above: Above,
    events: Vec<Arc<Event>>,
    covered: bool,
    /// What is not covered is not above this number, where that is known.
    gap_up_to: u64,
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
            reader: Id::NONE,
            listens: Reader::Id,
            scan: Scan::default(),
            is_own_read: false,
            floors: Vec::new(),
            subjects: Vec::new(),
            lacks: Vec::new(),
            last_of: None,
            above: Above::from(resume.after),
            events: Vec::new(),
            covered: !resume.is_lost,
            gap_up_to: 0,
            up_to: u64::MAX,
            answer: None,
            resume,
        })
    }

    /// Whether its client still waits for it.
    pub fn is_waiting(&self) -> bool {
        self.resume.asker.is_waiting()
    }

    /// It waits for its turn, and keeps no more room than what it has read takes.
    pub fn shrink(&mut self) {
        self.events.shrink_to_fit();
        self.subjects.shrink_to_fit();
    }

    /// Does the next piece of work. Call it until it answers [`ResumeStep::Done`], not after.
    pub fn step(&mut self, followers: &dyn Followers) -> ResumeStep {
        // Thousands that ask and hang up take nobody's time.
        if !self.is_waiting() {
            return ResumeStep::Done;
        }
        self.begin_scan(followers);
        if self.must_read() {
            return ResumeStep::Read;
        }
        if self.subjects.is_empty() && self.read_slice(followers).is_err() {
            // What cannot be read may have been missed.
            self.give_up();
        }
        if self.must_read() {
            return ResumeStep::Read;
        }
        if self.subjects.is_empty() {
            let is_read = self.reading >= self.resume.ids.len();
            return if is_read { self.answer() } else { ResumeStep::More };
        }
        let (above, snapshot, found) = (self.above, self.snapshot, self.events.len());
        match self.history.since(&self.subjects, above, snapshot, SLICE, &mut self.events) {
            Since::Pending => ResumeStep::Wait,
            Since::Read { covered, subjects, up_to } => {
                self.covered &= self.covers(covered, subjects);
                self.up_to = self.up_to.min(up_to);
                self.subjects.drain(..subjects);
                self.keep_heard(followers, found);
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
            if self.last.is_none() {
                (self.reader, self.listens) = (id, self.reader_of(followers, id));
                if self.is_found() {
                    self.reading += 1;
                    continue;
                }
                if self.read_own(id) {
                    return Ok(());
                }
            }
            let subjects = &mut self.subjects;
            // A key follows others only at the hub: a stored graph has none.
            let follows_nobody = id.is_key() && self.router.topics().is_none();
            let next = match self.resume.are_alone || follows_nobody {
                true => None,
                false => followers
                    .slice_of_following(id, self.last, &mut |subject| subjects.push(subject))?,
            };
            if id.is_key() && (self.last.is_none() || next.is_none()) {
                // At its end again: its tables may have forgotten some meanwhile.
                self.note_unknown(followers.unknown_up_to(id));
            }
            self.last = next;
            if next.is_none() {
                self.reading += 1;
                self.is_own_read = false;
            }
            if !self.subjects.is_empty() || next.is_some() {
                break;
            }
        }
        Ok(())
    }

    /// Reads `id` itself. Whether that is a slice of its own: its events begin elsewhere than those
    /// of whom it follows.
    fn read_own(&mut self, id: Id) -> bool {
        self.above = self.above_of_all();
        let after = self.resume.after;
        let past = self.resume.past.as_deref();
        let Some(past) = past.filter(|past| past.is_of_each()) else {
            self.subjects.push(id);
            return false;
        };
        if self.is_own_read {
            return false;
        }
        let floor = match past.wanted {
            Wanted::Last(most) => match self.floor_of(id, most, past.begun) {
                Ok(floor) => Some(floor),
                Err(last_of) => {
                    self.last_of = Some(last_of);
                    return true;
                }
            },
            _ => None,
        };
        let known = self.floors.last().is_some_and(|&(last, _)| last == id);
        self.floors.extend(floor.filter(|_| !known).map(|floor| (id, floor)));
        self.above = self.told(past.of_own(id, floor, after));
        self.subjects.push(id);
        self.is_own_read = true;
        true
    }

    /// What is to be found of `above`, without a claim where the client knows of a gap: windows
    /// that all begin before it would else be told of it one after the other.
    fn told(&self, above: Above) -> Above {
        Above { claimed: above.claimed.max(self.resume.gap_up_to), ..above }
    }

    /// The number above which the last `most` events of `id` stand that are not above `begun`, or
    /// what the archive must be asked for it.
    fn floor_of(&self, id: Id, most: u32, begun: u64) -> Result<u64, LastOf> {
        if let Some(&(_, floor)) = self.floors.last().filter(|(last, _)| *last == id) {
            return Ok(floor);
        }
        if let Some(floor) = self.history.before_last(id, most as usize, begun) {
            return Ok(floor);
        }
        match self.kept_text(id) {
            Some(text) => Err(LastOf { id, text, most: most as usize, up_to: begun }),
            None => Ok(0),
        }
    }

    /// Reads no more, and answers with what it has: its client is told of a gap.
    pub fn give_up(&mut self) {
        self.covered = false;
        self.subjects.clear();
        self.lacks.clear();
        self.last_of = None;
        self.resume.named = None;
        self.scan = Scan::over();
        self.reading = self.resume.ids.len();
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
            client: self.resume.asker.client.clone(),
            heard: if self.resume.is_lost { 0 } else { self.resume.after },
            events: std::mem::take(&mut self.events),
            gap: !self.covered,
            gap_up_to: self.gap_up_to,
            up_to: self.up_to,
            whole: self.up_to == u64::MAX,
            is_first: self.resume.is_first,
            floors: (!self.floors.is_empty()).then(|| std::mem::take(&mut self.floors).into()),
        }))
    }
}
