//! Here is what a node knows of the webhooks of one app, and which node is to report it. It is pure
//! state, and is told what the log and the other nodes say, and the time.

use super::queue::HookMark;
use super::reports::{Change, Reports};
use crate::cluster::{HooksEnded, HooksKept, KeptChange};

/// How long a node waits that is to report: what was taken last may be on its way.
pub(super) const PAUSE_MS: u64 = 500;

/// How often the others are asked, and how many times in a row nobody may know before all is told.
const ASK_MS: u64 = 500;
const UNANSWERED_MAX: u32 = 3;

/// How often there may be no whole answer before all is told: one that is always too long must not
/// hold up all.
const UNFINISHED_MAX: u32 = 20;

/// An app.
pub(super) struct AppReports {
    pub(super) reports: Reports<Vec<HookMark>>,
    /// The node that is to report, and whether it is this one.
    pub(super) first: Option<u64>,
    pub(super) is_me: bool,
    /// The one that was to report before: what it has said may come behind its end.
    before: Option<u64>,
    /// The others are to be told what that one has said last, as far as this node knows.
    repeats: bool,
    /// It does not begin before.
    pub(super) begin_ms: u64,
    ask_ms: u64,
    pub(super) is_asking: bool,
    /// How often nobody has known what it asks for, in a row, and how often not all was heard.
    unanswered: u32,
    unfinished: u32,
    /// It has reported, and what of that waits was not forgotten.
    pub(super) has_queues: bool,
}

impl AppReports {
    pub(super) fn new() -> AppReports {
        AppReports {
            reports: Reports::new(),
            first: None,
            is_me: false,
            before: None,
            repeats: false,
            begin_ms: 0,
            ask_ms: 0,
            is_asking: false,
            unanswered: 0,
            unfinished: 0,
            has_queues: false,
        }
    }

    pub(super) fn lose(&mut self) {
        self.reports.lost();
        (self.first, self.before, self.is_me) = (None, None, false);
        self.repeats = false;
        (self.unanswered, self.unfinished) = (0, 0);
    }

    /// From now on `node` is to report, which may be this one. That may be said again.
    pub(super) fn take_first(&mut self, node: Option<u64>, is_me: bool, now_ms: u64) {
        if node.is_some() && (self.first, self.is_me) == (node, is_me) {
            return;
        }
        if is_me && !self.is_me {
            self.begin_ms = now_ms + PAUSE_MS;
        }
        if !is_me {
            self.reports.passed_over();
        }
        self.repeats = self.first.is_some() && self.first != node && !self.is_me;
        self.before = std::mem::replace(&mut self.first, node);
        self.is_me = is_me;
    }

    /// What the node that was to report before has said of what was taken, as far as this node
    /// knows, if the others are to be told: they may not have heard of it.
    pub(super) fn repeated(&mut self) -> Option<(u64, u64)> {
        if !std::mem::take(&mut self.repeats) {
            return None;
        }
        self.before.zip(self.reports.taken_as_known())
    }

    /// The node that has reported tells nothing more.
    pub(super) fn take_ended(&mut self, ended: HooksEnded, now_ms: u64) {
        // If another one goes on with it, that one may have told something since.
        if self.first == Some(ended.by) || self.is_me && self.before == Some(ended.by) {
            let pending = ended.pending.into_iter().map(|kept| change_of(kept, now_ms));
            self.reports.handed_over(ended.at, pending.collect());
        }
    }

    /// The others have said this, of up to the record `at`.
    pub(super) fn take_answer(&mut self, at: u64, kept: HooksKept, now_ms: u64) {
        (self.is_asking, self.ask_ms) = (false, now_ms + ASK_MS);
        match kept {
            HooksKept::Changes(changes) => {
                (self.unanswered, self.unfinished) = (0, 0);
                let changes = changes.into_iter().map(|kept| change_of(kept, now_ms));
                self.reports.sync(at, changes.collect());
            }
            HooksKept::Unfinished => {
                (self.unanswered, self.unfinished) = (0, self.unfinished + 1);
            }
            HooksKept::Unknown => self.unanswered += 1,
        }
    }

    /// Whether what `node` says as the one that reports is to be believed.
    pub(super) fn is_told_by(&self, node: u64) -> bool {
        self.first == Some(node) || self.before == Some(node)
    }

    /// Whether this node, which is to report, may begin.
    pub(super) fn is_ready(&self, now_ms: u64, has_others: bool) -> bool {
        let knows = self.reports.is_synced();
        let nobody_knows = self.unanswered >= UNANSWERED_MAX || self.unfinished >= UNFINISHED_MAX;
        let is_alone = !has_others || nobody_knows;
        self.reports.has_list() && now_ms >= self.begin_ms && (knows || is_alone)
    }

    pub(super) fn is_to_ask(&self, now_ms: u64) -> bool {
        !self.is_asking && now_ms >= self.ask_ms && self.reports.asks_up_to().is_some()
    }
}

/// A change that another node has kept.
pub(super) fn change_of(kept: KeptChange, now_ms: u64) -> Change {
    Change {
        sequence: kept.sequence,
        at_ms: now_ms.saturating_sub(kept.age_ms),
        subject: kept.subject.into(),
        is_there: kept.is_there,
    }
}

/// A change that this node has kept, for another one.
pub(super) fn kept_of(change: &Change, now_ms: u64) -> KeptChange {
    KeptChange {
        sequence: change.sequence,
        age_ms: now_ms.saturating_sub(change.at_ms),
        subject: (&*change.subject).into(),
        is_there: change.is_there,
    }
}

#[cfg(test)]
mod tests {
    use super::super::reports::SubjectChanges;
    use super::*;

    #[test]
    fn what_was_handed_over_to_another_node_is_not_told_again_by_the_one_behind_it() {
        for is_late in [false, true] {
            let (mut app, mut told) = (AppReports::new(), SubjectChanges::new());
            app.reports.settled(vec!["a~".into()], 0, &mut told);
            app.take_first(Some(1), false, 0);
            app.reports.taken_up_to(0);
            app.reports.read(1);
            app.reports.changed("a~".into(), false, 1_000, &mut told);
            let gone = KeptChange { sequence: 1, age_ms: 0, subject: "a~".into(), is_there: false };
            let mut ended =
                Some(HooksEnded { epoch: 1, by: 1, app: "1".into(), at: 1, pending: vec![gone] });
            if !is_late {
                app.take_ended(ended.take().unwrap(), 1_000);
            }
            app.reports.read(2);
            app.take_first(Some(2), false, 2_000);
            ended.into_iter().for_each(|ended| app.take_ended(ended, 2_000));
            // Node 2 tells that it is gone, and is back.
            app.reports.read(3);
            app.reports.changed("a~".into(), true, 9_000, &mut told);
            app.reports.taken_up_to(3);
            app.reports.read(4);
            app.take_first(Some(3), true, 10_000);
            app.reports.begin(20_000, &mut told);
            assert_eq!(told, [], "the last one behind a message that is late: {is_late}");
        }
    }

    #[test]
    fn whoever_goes_on_takes_what_is_handed_over_before_or_behind_the_end_of_the_one_before() {
        for is_late in [false, true] {
            let (mut app, mut told) = (AppReports::new(), SubjectChanges::new());
            app.reports.settled(Vec::new(), 0, &mut told);
            app.take_first(Some(1), false, 0);
            app.reports.taken_up_to(0);
            app.reports.read(1);
            app.reports.changed("a~".into(), true, 1_000, &mut told);
            let mut ended =
                Some(HooksEnded { epoch: 1, by: 1, app: "1".into(), at: 1, pending: Vec::new() });
            if !is_late {
                app.take_ended(ended.take().unwrap(), 1_000);
            }
            for _ in 0..2 {
                app.take_first(Some(2), true, 2_000);
            }
            ended.into_iter().for_each(|ended| app.take_ended(ended, 2_000));
            app.reports.begin(3_000, &mut told);
            assert_eq!(told, [], "node 1 has told it; late: {is_late}");
        }
    }

    #[test]
    fn all_is_told_only_where_nobody_knows_in_a_row_or_no_answer_is_ever_whole() {
        let new = || {
            let mut app = AppReports::new();
            app.reports.settled(vec!["a~".into()], 0, &mut SubjectChanges::new());
            app.take_first(Some(1), true, 0);
            app
        };
        let mut app = new();
        for kept in [HooksKept::Unknown, HooksKept::Unfinished, HooksKept::Unknown] {
            app.take_answer(0, kept, 1_000);
            assert!(!app.is_ready(1_000, true));
        }
        app.take_answer(0, HooksKept::Unknown, 1_000);
        assert!(!app.is_ready(1_000, true), "somebody knew in between");
        app.take_answer(0, HooksKept::Unknown, 1_000);
        assert!(app.is_ready(1_000, true));
        let mut app = new();
        let mut answers = 0;
        while !app.is_ready(1_000, true) {
            app.take_answer(0, HooksKept::Unfinished, 1_000);
            answers += 1;
        }
        assert_eq!(answers, UNFINISHED_MAX);
        let mut app = new();
        app.take_answer(0, HooksKept::Changes(Vec::new()), 1_000);
        assert!(app.is_ready(1_000, true) && !app.is_to_ask(9_000));
    }
}
