//! What time does to a node: everything that is due, after each input.

use super::Node;
use crate::action::{Action, CoreSubject, EndReason};
use crate::change::Part;
use crate::limits::{BARRIER_MS, FOLLOW_AGAIN_MS, STORE_AGAIN_MS};
use crate::message::MessageBody;
use crate::pipeline::UNKNOWN;
use crate::publisher::Attempt;
use crate::record::{Body, FORMAT, FORMAT_MAX, Head, Join, LeaveReason, Record};
use crate::replica::Ask;

/// A node joins when so few records are between what it has read and what it has posted.
const WELL_RECORDS: u64 = 1_024;

impl Node {
    /// Does what is due.
    pub(super) fn step(&mut self, now_ms: u64) {
        if self.ended {
            return;
        }
        self.now_ms = now_ms;
        if let Some((fault, _)) = self.broken.filter(|&(_, again_ms)| again_ms <= now_ms) {
            self.propose(now_ms, fault);
        }
        self.say_view();
        self.pump(now_ms);
        self.mind_follower(now_ms);
        let (mut told, mut out) = (Vec::new(), Vec::new());
        let works = self.followed && self.broken.is_none() && !self.ended;
        if works {
            if self.incarnation.is_some() {
                let proves = self.config.proves && !self.leaving;
                self.publisher.fill(now_ms, self.head(), proves);
            }
            self.live(now_ms);
            self.leave_or_join(now_ms);
            let idle = self.pipeline.is_idle();
            let said = self.counts.say(now_ms, idle);
            self.say_counts(said);
            out.extend(self.leaves.values_mut().filter_map(|attempt| attempt.due(now_ms)));
            let changes = self.changes.values_mut();
            out.extend(changes.filter_map(|(_, attempt)| attempt.due(now_ms)));
            out.extend(self.joining.attempt.as_mut().and_then(|attempt| attempt.due(now_ms)));
        }
        let mut batches = Vec::new();
        self.publisher.tick(now_ms, &mut told, &mut batches);
        let needs = self.sums.tick(self.epoch, now_ms, &mut told);
        self.tell(told);
        if works {
            out.append(&mut batches);
            for (member, sequences) in needs {
                let from = self.incarnation.unwrap_or(0);
                self.say(CoreSubject::Need(member), MessageBody::Need { from, sequences });
            }
        }
        let epoch = self.epoch.number;
        let publish = |(id, record)| Action::Publish { epoch, id, record };
        self.actions.extend(out.into_iter().map(publish));
        self.ask_store(now_ms);
        self.check();
    }

    /// What holds after each step, whatever was told and read.
    fn check(&self) {
        let members = self.roster.members();
        let is_member = |one: u64| members.binary_search_by_key(&one, |it| it.incarnation).is_ok();
        let me = self.incarnation;
        debug_assert!(
            me.is_none_or(|me| self.roster.is_known() && is_member(me)),
            "who is a member is in the view, and knows it"
        );
        debug_assert!(me.is_none() || self.served);
        debug_assert!(
            me.is_some() || self.publisher.outstanding() == 0,
            "what was published by what we are no more does not count"
        );
        debug_assert!(self.pipeline.applied() <= self.read);
        debug_assert!(self.left_at.is_none() || self.left && self.ended);
        debug_assert!(self.fresh_ask <= self.asks, "an answer would be waited for in vain");
        debug_assert!(
            self.leaves.keys().all(|&gone| is_member(gone)),
            "a leave is published of members alone"
        );
        let asked = self.publisher.queued() + self.publisher.outstanding() + self.sums.len();
        debug_assert!(!self.ended || asked == 0, "a sender would have no answer");
    }

    /// A follower that has passed over what was trimmed says so with the next record only, and
    /// there may be none for as long as nobody reads that far.
    fn mind_follower(&mut self, now_ms: u64) {
        let works = self.followed && self.broken.is_none() && !self.ended;
        if !works || self.top <= self.read || !self.wants_records() {
            self.stalled_ms = None;
            return;
        }
        if *self.stalled_ms.get_or_insert(now_ms + FOLLOW_AGAIN_MS) <= now_ms {
            self.stalled_ms = Some(now_ms + FOLLOW_AGAIN_MS);
            let (epoch, from) = (self.epoch.number, Some(self.read.max(1)));
            self.actions.push_back(Action::Follow { epoch, from });
        }
    }

    /// Says that it lives, and who does not.
    fn live(&mut self, now_ms: u64) {
        if self.liveness.beat_is_due(now_ms, self.read) {
            self.say_beat();
        }
        let Some(me) = self.incarnation.filter(|_| self.roster.is_known()) else { return };
        for (incarnation, reason) in self.liveness.gone(now_ms, me) {
            if !self.leaves.contains_key(&incarnation) {
                self.publish_leave(now_ms, incarnation, reason);
            }
        }
    }

    fn leave_or_join(&mut self, now_ms: u64) {
        match self.incarnation {
            Some(me) if self.leaving => {
                let events = self.publisher.queued() + self.publisher.outstanding();
                let changes = self.changes.values().any(|(_, attempt)| !attempt.is_at(self.read));
                let taken = events + self.sums.len() > 0 || changes;
                if !taken && !self.leaves.contains_key(&me) {
                    self.publish_leave(now_ms, me, LeaveReason::Drained);
                }
            }
            // What was read before its leave is posted first.
            None if self.left => {}
            None if self.leaving => self.end(EndReason::Drained),
            Some(_) => {}
            None => self.join(now_ms),
        }
    }

    fn join(&mut self, now_ms: u64) {
        let known = self.roster.is_known();
        if !known && self.joining.asks(now_ms) {
            self.say(CoreSubject::Ask, MessageBody::Ask { nonce: self.config.nonce });
        }
        let well = self.read >= self.head
            && self.pipeline.applied() + WELL_RECORDS >= self.read
            && self.pipeline.waits_for_graph().is_none();
        let echo = self.liveness.has_echo_since(self.joining.asks_since_ms);
        let alone = !known && echo && self.joining.is_alone(now_ms);
        if !well || !self.joining.may(now_ms) || !known && !alone {
            return;
        }
        debug_assert!(self.incarnation.is_none() && !self.leaving && !self.left);
        self.joining.tries += 1;
        let (since, sum) = self.chain.span();
        let join = Join {
            name: self.config.name.clone(),
            address: self.config.address.clone(),
            formats: (FORMAT, FORMAT_MAX),
            founding: (!known).then_some(since),
        };
        let (nonce, tries) = (self.config.nonce, self.joining.tries);
        let head = Head { incarnation: nonce, batch: tries, ..self.head() };
        // All that it can say of a log whose beginning it does not know.
        let head = if known { head } else { Head { after: self.read, chain: sum, ..head } };
        let record = Record { head, body: Body::Join(join) }.encode();
        let id = format!("j{nonce}.{}.{tries}", self.epoch.number);
        self.joining.attempt = Some(Attempt::new(now_ms, id, record));
    }

    fn publish_leave(&mut self, now_ms: u64, incarnation: u64, reason: LeaveReason) {
        debug_assert!(self.roster.is_known(), "only who knows the view declares somebody gone");
        let body = Body::Leave { incarnation, reason };
        let record = Record { head: self.head(), body }.encode();
        let attempt = Attempt::new(now_ms, format!("l{incarnation}"), record);
        self.leaves.insert(incarnation, attempt);
    }

    pub(super) fn publish_part(&mut self, now_ms: u64, part: Part) {
        debug_assert!(part.part < part.parts, "nobody would read it");
        let key = (part.change.version, part.part);
        let body = Body::Graph(part.clone());
        let record = Record { head: self.head(), body }.encode();
        let attempt =
            Attempt::new(now_ms, format!("g{}.{:x}.{}", key.0, part.change.hash, key.1), record);
        // Of a store that was put back there may be another of this number.
        let before = self.changes.get(&key).map(|(before, _)| before.change.hash);
        if before.is_none_or(|before| ![before, 0].contains(&part.change.hash)) {
            self.changes.insert(key, (part, attempt));
        }
    }

    /// Asks for the version of the store of record.
    pub(super) fn check_version(&mut self, now_ms: u64) {
        self.asks += 1;
        self.check_ms = Some(now_ms + STORE_AGAIN_MS);
        self.actions.push_back(Action::CheckVersion { ask: self.asks });
    }

    /// What is missing of the graph.
    fn ask_store(&mut self, now_ms: u64) {
        if self.broken.is_some() || self.ended {
            return;
        }
        let waits = self.pipeline.waits_for_graph();
        let behind = waits.is_some();
        match self.barrier_ms {
            None if behind => self.barrier_ms = Some(now_ms + BARRIER_MS),
            // What should be applied or published was not.
            Some(barrier_ms) if behind && barrier_ms <= now_ms => {
                self.barrier_ms = Some(now_ms + STORE_AGAIN_MS);
                // Of a version that nobody has said it was asked.
                if waits != Some(UNKNOWN) {
                    self.actions.push_back(Action::ReadChanges);
                }
            }
            Some(_) if !behind => self.barrier_ms = None,
            _ => {}
        }
        if self.check_ms.is_some_and(|check_ms| check_ms <= now_ms) {
            self.check_version(now_ms);
        }
        match self.replica.tick(now_ms) {
            Some(Ask::Fetch(version)) => self.actions.push_back(Action::FetchChange { version }),
            Some(Ask::Read) => self.actions.push_back(Action::ReadChanges),
            None => {}
        }
    }

    /// How many members are before this one.
    pub(super) fn rank(&self) -> u64 {
        let me = self.incarnation.unwrap_or(u64::MAX);
        let before = self.roster.members().iter().filter(|member| member.incarnation < me);
        before.count() as u64
    }

    /// When something is due.
    pub(super) fn deadline(&self) -> u64 {
        if self.ended {
            return u64::MAX;
        }
        let mut times = vec![self.publisher.deadline(), self.sums.deadline()];
        match self.broken {
            Some((_, again_ms)) => times.push(Some(again_ms)),
            None if self.followed => {
                times.push(Some(self.liveness.deadline()));
                times.push(self.counts.deadline());
                times.extend(self.leaves.values().map(|attempt| Some(attempt.deadline())));
                let changes = self.changes.values();
                times.extend(changes.map(|(_, attempt)| Some(attempt.deadline())));
                if self.incarnation.is_none() && !self.left {
                    let known = self.roster.is_known();
                    times.push(self.joining.deadline(self.now_ms, known));
                }
                if self.config.proves && self.incarnation.is_some() && !self.leaving {
                    times.push(self.publisher.prove_deadline());
                }
                times.extend([self.replica.deadline(), self.barrier_ms, self.stalled_ms]);
            }
            None => times.extend([self.replica.deadline(), self.barrier_ms]),
        }
        if self.broken.is_none() {
            times.push(self.check_ms);
        }
        // Never at once: what is due now waits for something else to happen.
        let first = times.into_iter().flatten().min().unwrap_or(u64::MAX);
        first.max(self.now_ms + 1)
    }
}
