//! What is to happen, and what has happened.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Outcome;

pub(super) const CRASH: &str = "crash";
pub(super) const PAUSE: &str = "pause";
pub(super) const CUT: &str = "cut";
pub(super) const CUT_ALL: &str = "cut of all";
pub(super) const FORGET: &str = "lost tail";
pub(super) const FORK: &str = "fork";
pub(super) const PUT_BACK: &str = "older log, and nodes that were killed";
pub(super) const GONE: &str = "deleted log";
pub(super) const HALF_PROPOSED: &str = "crash between the end of a log and the next epoch";
pub(super) const STORE_AWAY: &str = "store that is away";
pub(super) const UNANSWERED: &str = "question to a store that is away";
pub(super) const LEAVE: &str = "leave";
pub(super) const TAKE_NAME: &str = "name of one that lives";
pub(super) const CORE_LOST: &str = "lost message";
pub(super) const PUBLISH_LOST: &str = "lost publish";
pub(super) const ACK_LOST: &str = "lost acknowledgement";
pub(super) const LATE: &str = "late publish";
pub(super) const TWICE: &str = "doubled publish";
pub(super) const CHANGE: &str = "change";
pub(super) const LONG_CHANGE: &str = "change in parts";
pub(super) const LOGOUT: &str = "logout";

/// What may happen, once in so many steps of work (0: never).
#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub(super) hosts: usize,
    pub(super) clients: usize,
    /// Time in which faults happen, and until when work goes on.
    pub(super) faults_ms: u64,
    pub(super) work_ms: u64,
    pub(super) crash: u32,
    pub(super) pause: u32,
    /// The longest pause and cut.
    pub(super) pause_ms: u64,
    pub(super) cut: u32,
    pub(super) cut_all: u32,
    pub(super) forget: u32,
    pub(super) fork: u32,
    pub(super) gone: u32,
    /// The log is put back to an older state, and some or all nodes are killed at that moment.
    pub(super) put_back: u32,
    pub(super) store_away: u32,
    pub(super) changes: u32,
    pub(super) logouts: u32,
    /// And with it whether nodes prove what they have read.
    pub(super) revocations: u32,
    /// A node is asked to leave.
    pub(super) leave: u32,
    /// A process takes the name of another one that lives, once in so many starts.
    pub(super) take_name: u32,
    /// A change takes several records, once in so many changes.
    pub(super) long_changes: u32,
    /// Of a hundred messages outside of the log so many vanish, and of publishes and their acks.
    pub(super) core_loss: u32,
    pub(super) publish_loss: u32,
    /// Of a hundred messages so many come late, or come twice.
    pub(super) late: u32,
    /// Records are kept for so long.
    pub(super) log_age_ms: u64,
    /// Milliseconds between steps of work.
    pub(super) pace_ms: u64,
    /// Somebody sends in one of so many steps.
    pub(super) sends: u32,
    /// Somebody comes, goes, watches or stops to watch in a room, once in so many steps.
    pub(super) rooms: u32,
}

/// What was sent, and what became of it.
#[derive(Debug)]
pub(super) struct Send {
    /// Host and process, and how manyeth of it.
    pub(super) sender: (usize, u64),
    /// The step in which it was sent.
    pub(super) step: u64,
    pub(super) at_ms: u64,
    pub(super) outcome: Option<Outcome>,
}

/// A pair that somebody was ever asked to add or to take away.
#[derive(Default, Debug)]
pub(super) struct PairState {
    pub(super) added: bool,
    pub(super) acked_step: Option<u64>,
    pub(super) removed: bool,
}

/// What a process has read in the log of an epoch, and what was lost since, or was never there.
pub(super) struct Witness {
    pub(super) epoch: u64,
    pub(super) host: usize,
    pub(super) process: u64,
    pub(super) sequence: u64,
    pub(super) record: Arc<[u8]>,
    /// It is what the host keeps for its next process, so that its end changes nothing.
    pub(super) kept: bool,
}

/// What happened, over all seeds.
#[derive(Default, Debug)]
pub(super) struct Figures {
    pub(super) sends: u64,
    pub(super) exact: u64,
    pub(super) at_least: u64,
    pub(super) not_sent: u64,
    pub(super) maybe: u64,
    /// Questions for counts that did not come by themselves, and to the store for changes that did
    /// not.
    pub(super) needs: u64,
    pub(super) reads: u64,
    /// Messages of another epoch than the one of their node.
    pub(super) foreign: u64,
    pub(super) heard: u64,
    pub(super) gaps: u64,
    pub(super) resumes: u64,
    pub(super) epochs: u64,
    pub(super) faults: BTreeMap<String, u64>,
    pub(super) left: u64,
    pub(super) ends: BTreeMap<String, u64>,
    pub(super) trimmed: u64,
    pub(super) voids: u64,
    pub(super) changes: u64,
    pub(super) fetched: u64,
    /// Processes that began without the store of record, with what they had.
    pub(super) since: u64,
    pub(super) revoked_at_once: u64,
    pub(super) revoked_late: u64,
    /// How often a node was seen that had no proof.
    pub(super) unproved: u64,
    /// Lists that were told whole, and changes of them.
    pub(super) lists: u64,
    pub(super) room_changes: u64,
    /// Each kind of fault, and what else the plan has.
    pub(super) happened: BTreeMap<&'static str, u64>,
}

impl Figures {
    pub(super) fn add(&mut self, one: &Figures) {
        self.sends += one.sends;
        self.exact += one.exact;
        self.at_least += one.at_least;
        self.not_sent += one.not_sent;
        self.maybe += one.maybe;
        self.needs += one.needs;
        self.reads += one.reads;
        self.foreign += one.foreign;
        self.heard += one.heard;
        self.gaps += one.gaps;
        self.resumes += one.resumes;
        self.epochs += one.epochs;
        self.left += one.left;
        self.trimmed += one.trimmed;
        self.voids += one.voids;
        self.changes += one.changes;
        self.fetched += one.fetched;
        self.since += one.since;
        self.revoked_at_once += one.revoked_at_once;
        self.revoked_late += one.revoked_late;
        self.unproved += one.unproved;
        self.lists += one.lists;
        self.room_changes += one.room_changes;
        for (reason, count) in &one.ends {
            *self.ends.entry(reason.clone()).or_default() += count;
        }
        for (fault, count) in &one.faults {
            *self.faults.entry(fault.clone()).or_default() += count;
        }
        for (what, count) in &one.happened {
            *self.happened.entry(what).or_default() += count;
        }
    }

    pub(super) fn note(&mut self, what: &'static str) {
        *self.happened.entry(what).or_default() += 1;
    }

    /// All that the plan has must have happened, or the seeds have tried less than they say.
    pub(super) fn assert_happened(&self, plan: &Plan) {
        let all = [
            (plan.crash, CRASH),
            (plan.pause, PAUSE),
            (plan.cut, CUT),
            (plan.cut_all, CUT_ALL),
            (plan.forget, FORGET),
            (plan.fork, FORK),
            (plan.put_back, PUT_BACK),
            (plan.gone, GONE),
            (plan.gone, HALF_PROPOSED),
            (plan.store_away, STORE_AWAY),
            (plan.store_away, UNANSWERED),
            (plan.leave, LEAVE),
            (plan.take_name, TAKE_NAME),
            (plan.core_loss, CORE_LOST),
            (plan.publish_loss, PUBLISH_LOST),
            (plan.publish_loss, ACK_LOST),
            (plan.late, LATE),
            (plan.late, TWICE),
        ];
        let expected = all.iter().filter(|(rate, _)| *rate > 0 && plan.faults_ms > 0);
        for (_, what) in expected {
            assert!(self.happened.contains_key(what), "no {what}: {self:?}");
        }
        let works = [
            (plan.changes, CHANGE),
            (plan.changes * plan.long_changes, LONG_CHANGE),
            (plan.logouts, LOGOUT),
        ];
        for (_, what) in works.iter().filter(|(rate, _)| *rate > 0) {
            assert!(self.happened.contains_key(what), "no {what}: {self:?}");
        }
    }
}
