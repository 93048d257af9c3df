//! The same with an archive, into which what the memory forgets has gone, and over restarts.

use std::sync::Arc;

use hub::testing::MemoryArchive;
use hub::{ConnRef, Followers, HistoryLimits};

use super::world::{Control, Resumers};
use super::{Keeps, PLAN, Plan, run};
use crate::resume::{ArchiveAnswer, ArchiveQuestion, ResumeStep, Resuming};
use crate::sim::random::Random;
use crate::sim::scene::id_text;

/// The resume of one client, and what it has asked the archive.
pub(super) struct Under<'r> {
    pub(super) conn: ConnRef,
    resuming: Resuming<'r>,
    question: Option<ArchiveQuestion>,
    answer: Option<ArchiveAnswer>,
}

impl<'r> Under<'r> {
    pub(super) fn new(conn: ConnRef, resuming: Resuming<'r>) -> Under<'r> {
        Under { conn, resuming, question: None, answer: None }
    }

    /// The next thing that happens to it. The disk takes its time, before it reads and after it.
    pub(super) fn step(&mut self, graph: &dyn Followers, random: &mut Random) -> ResumeStep {
        if let Some(answer) = self.answer.take_if(|_| random.one_in(2)) {
            self.resuming.tell(answer);
        } else if let Some(question) = self.question.take_if(|_| random.one_in(2)) {
            self.answer = Some(question.read());
        }
        if self.question.is_some() || self.answer.is_some() {
            return ResumeStep::Read;
        }
        let step = self.resuming.step(graph);
        if step == ResumeStep::Read {
            self.question = Some(self.resuming.question().expect("a step said so"));
        }
        step
    }
}

impl Control {
    /// From now on it reads from `archive`; of what is not kept it knows nothing up to the `base`
    /// of its life.
    pub(super) fn keep(&mut self, archive: &Option<Arc<MemoryArchive>>, base: Option<u64>) {
        let Some(archive) = archive else { return };
        self.router.set_archive(archive.clone());
        base.into_iter().for_each(|base| self.router.forget_up_to(base));
    }
}

impl Resumers {
    /// The disk begins to fail, or ends to.
    pub(super) fn fail(&mut self) {
        if let (Some(keeps), Some(archive)) = (self.plan.keeps, &self.archive)
            && self.random.one_in(keeps.fails_one_in)
        {
            archive.set_failing(self.random.one_in(2));
        }
        // It is another process's for a moment, which makes no gap.
        if let Some(archive) = &self.archive {
            archive.set_closed(self.random.one_in(4));
        }
    }

    /// Whether nothing about the subject may ever be missing.
    pub(super) fn is_kept_for_sure(&self, about: &str) -> bool {
        self.plan.none_foreign
            && self.plan.keeps.is_some_and(|keeps| {
                keeps.events_max == usize::MAX
                    && keeps.fails_one_in == usize::MAX
                    && (keeps.subject)(about)
            })
    }
}

const ALL: Keeps = Keeps { subject: |_| true, events_max: usize::MAX, fails_one_in: usize::MAX };

/// Of every second id.
const SOME: Keeps =
    Keeps { subject: |id| (0..super::IDS).step_by(2).any(|number| id_text(number) == id), ..ALL };

/// So few are remembered that most is read from the archive.
const FEW: HistoryLimits = HistoryLimits { events_max: 2, ..PLAN.history };

#[test]
fn client_hears_what_was_kept_though_the_memory_has_forgotten_it() {
    let plan = Plan { history: FEW, keeps: Some(ALL), ..PLAN };
    for came in run("what_was_kept", 20, plan) {
        came.expect(came.resumed > 500 && came.pages > 1_000);
        assert_eq!((came.gaps, came.slow), (came.foreign, 0), "nobody else is told of a gap");
    }
}

#[test]
fn client_hears_what_was_kept_in_windows_once_and_in_order() {
    let plan = Plan {
        history: HistoryLimits { age_ms_max: 300, ..PLAN.history },
        keeps: Some(ALL),
        backlog_bytes_max: 1_200,
        socket_room: 300,
        work_per_turn: 600,
        logout_one_in: 20,
        ..PLAN
    };
    for came in run("kept_in_windows", 20, plan) {
        came.expect(came.resumed > 1_000 && came.slow > 50 && came.pages > 1_000);
    }
}

/// The places of one life are known in the next ones.
#[test]
fn client_of_a_server_that_was_ended_hears_what_was_kept() {
    let plan = Plan { lives: 3, work_per_turn: 600, keeps: Some(ALL), ..PLAN };
    for came in run("ended_and_kept", 15, Plan { none_foreign: true, ..plan }) {
        came.expect(came.resumed > 500 && came.pages > 500);
        assert_eq!(came.gaps, 0);
    }
}

/// In one stream are subjects that are kept and others: of the others a restart is a gap, and what
/// is kept is heard in spite of it.
#[test]
fn client_hears_what_is_kept_merged_with_what_is_not() {
    for history in [PLAN.history, FEW, HistoryLimits { age_ms_max: 100, ..PLAN.history }] {
        let plan = Plan { lives: 3, keeps: Some(SOME), none_foreign: true, history, ..PLAN };
        for came in run("kept_and_not_kept", 10, plan) {
            came.expect(came.resumed > 500 && came.gaps > 50 && came.pages > 500);
        }
    }
}

/// Windows that begin before the gap are behind its notice.
#[test]
fn client_that_catches_up_in_windows_hears_what_is_kept_merged_with_what_is_not() {
    let plan = Plan {
        lives: 3,
        keeps: Some(SOME),
        none_foreign: true,
        backlog_bytes_max: 1_200,
        socket_room: 300,
        work_per_turn: 600,
        ..PLAN
    };
    for came in run("kept_and_not_in_windows", 15, plan) {
        came.expect(came.resumed > 500 && came.slow > 20 && came.gaps > 50 && came.pages > 500);
    }
}

#[test]
fn client_that_missed_more_than_is_kept_is_told_of_a_gap() {
    let keeps = Some(Keeps { events_max: 5, ..ALL });
    for came in run("more_than_is_kept", 15, Plan { history: FEW, keeps, ..PLAN }) {
        came.expect(came.resumed > 500 && came.gaps > 100);
    }
}

#[test]
fn client_is_told_of_a_gap_where_the_archive_cannot_be_read() {
    let keeps = Some(Keeps { fails_one_in: 10, ..ALL });
    for came in run("cannot_be_read", 15, Plan { history: FEW, keeps, ..PLAN }) {
        came.expect(came.resumed > 500 && came.gaps > came.foreign && came.pages > 500);
    }
}

/// All that is kept, or the last events of each id, of which the memory has but two.
#[test]
fn stream_that_begins_in_the_past_hears_what_was_kept() {
    for lives in [1, 3] {
        let plan = Plan { past_one_in: 1, lives, history: FEW, keeps: Some(ALL), ..PLAN };
        for came in run("past_that_was_kept", 12, Plan { none_foreign: true, ..plan }) {
            came.expect(came.pasts > 100 && came.pages > 500);
            assert_eq!(came.gaps, 0);
        }
    }
}
