//! One node: it reads the log, begins sends ahead, and posts them in order.

use std::collections::VecDeque;
use std::sync::Arc;

use hub::{ConnRef, Epoch, EventId, Names};

use super::Plan;
use super::world::Log;
use crate::Outgoing;
use crate::ahead::FutureCursors;
use crate::config::EngineConfig;
use crate::limits::MAILS_MAX;
use crate::mailbox::Reservation;
use crate::resume::{ResumeStep, Resuming};
use crate::router::{GapStep, Remembered, Router, Sending, Step};
use crate::sim::random::Random;
use crate::sim::scene::Graph;
use crate::sim::server::{SHARDS, Server, silent_config};

/// Sends that are gathered ahead.
const WINDOW: usize = 8;

/// Events of the log that a node reads again when it is started.
const READ_AGAIN: usize = 400;

/// A node, and what it has under way. Its router lives as long as the test.
pub(super) struct Node {
    pub(super) server: Server,
    pub(super) graph: Graph,
    router: &'static Router,
    mailboxes: &'static [Arc<crate::mailbox::Mailbox>],
    /// Which of the log's epochs it is in.
    pub(super) epoch: usize,
    /// So many events of the log it has posted or lost.
    pub(super) applied: usize,
    window: VecDeque<Sending<'static>>,
    pub(super) resumings: VecDeque<(ConnRef, Resuming<'static>)>,
    future_cursors: FutureCursors,
    full: Vec<Reservation<'static>>,
    /// It posts nothing.
    pub(super) stalled: bool,
    /// How many gaps it has told all clients, and up to where the last one is.
    pub(super) gaps: usize,
    pub(super) lost: u64,
    pub(super) renewed: u64,
    pub(super) met_full: u64,
}

impl Node {
    pub(super) fn start(graph: &Graph, plan: &Plan, epoch: Epoch, seed: u64) -> Node {
        let names = Arc::new(Names::new([9; 16]));
        let graph = graph.restored(names.clone());
        let Plan { history, backlog_bytes_max, .. } = *plan;
        let config = EngineConfig { history, backlog_bytes_max, cluster: true, ..silent_config() };
        let secured_by = plan.tls.then_some(seed);
        let (router, mut server) = Server::start(names, config, epoch, secured_by);
        server.set_work_per_turn(plan.work_per_turn);
        server.set_read_bytes(64);
        // Since the last time that this machine was started; nothing is older.
        server.clock.pass(1_000_000);
        let mailboxes: Vec<_> = server.mailboxes.iter().cloned().collect();
        Node {
            server,
            graph,
            router: Box::leak(Box::new(router)),
            mailboxes: Vec::leak(mailboxes),
            epoch: 0,
            applied: 0,
            window: VecDeque::new(),
            resumings: VecDeque::new(),
            future_cursors: FutureCursors::default(),
            full: Vec::new(),
            stalled: false,
            gaps: 0,
            lost: 0,
            renewed: 0,
            met_full: 0,
        }
    }

    /// Starts in the log's latest epoch, with the last of what another node has read of it.
    pub(super) fn read_again(&mut self, log: &Log, applied: usize) {
        self.epoch = log.epochs.len() - 1;
        let (start, Epoch { base, tag, .. }) = log.epochs[self.epoch];
        let from = applied.saturating_sub(READ_AGAIN).max(start);
        let before = if from > start { log.events[from - 1].1 } else { base };
        self.router.forget_up_to(before);
        for (index, (about, number)) in log.events[from..applied].iter().enumerate() {
            let (id, age_ms) = (EventId::new(*number, tag), (applied - from - index) as u64);
            let remembered = self.router.remember(Outgoing::new(about, "1").unwrap(), id, age_ms);
            assert!(matches!(remembered, Remembered::Yes));
        }
        self.applied = applied;
    }

    /// Which events of the log have begun and are not posted.
    pub(super) fn under_way(&self) -> impl Iterator<Item = usize> + use<> {
        self.applied..self.applied + self.window.len()
    }

    /// Begins a send, gathers for one of those that have begun, or posts the first one.
    pub(super) fn go_on(&mut self, log: &Log, random: &mut Random) {
        let end = log.epochs.get(self.epoch + 1).map_or(log.events.len(), |(start, _)| *start);
        let next = self.applied + self.window.len();
        match random.below(4) {
            0 if next < end && self.window.len() < WINDOW => {
                let (about, number) = &log.events[next];
                let id = EventId::new(*number, log.epochs[self.epoch].1.tag);
                let outgoing = Outgoing::new(about, "1").unwrap();
                self.window.push_back(self.router.send_numbered(outgoing, id));
            }
            1 | 2 if !self.window.is_empty() => {
                let one = random.below(self.window.len());
                self.window[one].gather(&self.graph).unwrap();
            }
            _ => self.post(),
        }
    }

    /// Tries to post the first one.
    fn post(&mut self) {
        let Some(first) = self.window.front_mut() else { return };
        if !first.gather(&self.graph).unwrap() {
            return;
        }
        match first.post() {
            Step::More => self.renewed += 1,
            Step::MailboxFull => self.met_full += 1,
            Step::Posted(_) => {
                self.window.pop_front();
                self.applied += 1;
            }
            Step::Stale | Step::NotKept => panic!("a number of the log does not grow"),
        }
    }

    /// Notices that an epoch has begun, when it can.
    pub(super) fn notice(&mut self, log: &Log) {
        let Some(&(start, epoch)) = log.epochs.get(self.epoch + 1) else { return };
        match self.router.begin_epoch(epoch) {
            GapStep::Wait => return,
            GapStep::Told => self.told(epoch.base),
            GapStep::Behind => panic!("an epoch begins above all numbers"),
        }
        if let Some(first) = self.window.front_mut()
            && first.gather(&self.graph).unwrap()
        {
            let step = first.post();
            assert!(!matches!(step, Step::Posted(_)), "of an epoch that is over: {step:?}");
        }
        self.window.clear();
        (self.epoch, self.applied) = (self.epoch + 1, start);
    }

    /// Loses the next events of its epoch, or none and thinks so, when it can.
    pub(super) fn lose(&mut self, log: &Log, random: &mut Random) {
        let end = log.epochs.get(self.epoch + 1).map_or(log.events.len(), |(start, _)| *start);
        let to = self.applied + random.below(end - self.applied + 1);
        let (step, up_to) = match to > self.applied {
            true => (self.router.lose_up_to(log.events[to - 1].1), log.events[to - 1].1),
            false => (self.router.gap_to_all(), self.server.event_ids.last()),
        };
        if step == GapStep::Told {
            self.told(up_to);
            self.window.clear();
            self.applied = to;
        }
        assert!(step != GapStep::Behind);
    }

    fn told(&mut self, up_to: u64) {
        self.gaps += 1;
        self.lost = up_to;
    }

    /// Others take all the room in a mailbox, or give theirs back.
    pub(super) fn fill(&mut self, random: &mut Random) {
        if !self.full.is_empty() {
            self.full.swap_remove(random.below(self.full.len()));
        } else if random.one_in(4) {
            let mailbox = &self.mailboxes[random.below(SHARDS)];
            self.full.extend(mailbox.reserve(MAILS_MAX - mailbox.len(), 0));
        }
    }

    pub(super) fn empty(&mut self) {
        self.full.clear();
    }

    /// The control plane answers somebody who came back; answers whom.
    pub(super) fn step_resume(&mut self) -> Option<ConnRef> {
        let now_ms = self.server.clock.now_ms();
        self.future_cursors.go_on(self.router, &self.server.resumes, now_ms);
        if let Some(resume) = self.server.resumes.take() {
            let conn = resume.asker.conn;
            self.resumings.push_back((conn, Resuming::begin(self.router, resume).unwrap()));
        }
        let (conn, mut resuming) = self.resumings.pop_front()?;
        if resuming.step(&self.graph) == ResumeStep::Done {
            return Some(conn);
        }
        self.resumings.push_back((conn, resuming));
        None
    }

    /// One turn of a shard. Whether it did something, or has more to do.
    pub(super) fn turn(&mut self, shard: usize, random: &mut Random) -> bool {
        self.server.begin_turn(shard);
        let mut took = false;
        for _ in 0..random.below(4) {
            if !self.server.take_mail(shard) {
                break;
            }
            took = true;
        }
        let left = self.server.shards[shard].flush();
        took || left || self.server.shards[shard].is_busy()
    }

    /// All users have gone, and nothing is left of them.
    pub(super) fn end(&mut self) {
        assert!(self.window.is_empty() && self.server.resumes.take().is_none());
        // Who has gone while it waited is forgotten in time.
        self.server.clock.pass(10_000);
        while self.future_cursors.go_on(
            self.router,
            &self.server.resumes,
            self.server.clock.now_ms(),
        ) {}
        while !self.resumings.is_empty() || self.server.resumes.small().waiting() > 0 {
            self.step_resume();
        }
        self.server.end();
        self.server.check_nothing_is_left();
        for mailbox in self.server.mailboxes.iter() {
            assert_eq!(mailbox.taken(), (0, 0), "room that nobody gave back");
        }
        while self.router.history().unwrap().expire(u64::MAX) {}
        assert_eq!(self.router.names().len(), self.graph.stored_names(), "no name is left");
    }
}
