//! What people and faults do, step by step.

use std::sync::Arc;

use super::plan;
use super::plan::Witness;
use super::world::{Event, World};
use crate::record::{Body, Head, LeaveReason, Record};

impl World {
    /// One step of work.
    pub(super) fn work(&mut self) {
        self.step += 1;
        self.check_revocations();
        if self.is_faulty() {
            self.break_something();
        }
        let old_ms = self.now - self.plan.log_age_ms;
        self.logs.values_mut().for_each(|log| log.trim(old_ms));
        let sends = if self.one_in(self.plan.sends) { self.random.usize(0..4) } else { 0 };
        for _ in 0..sends {
            let host = self.random.usize(0..self.hosts.len());
            let takes = self.hosts[host].paused_until_ms <= self.now && self.hosts[host].open;
            if takes {
                match (self.one_in(self.plan.logouts), self.one_in(self.plan.revocations)) {
                    (true, _) => {
                        self.figures.note(plan::LOGOUT);
                        self.order(host, false);
                    }
                    (_, true) => self.order(host, true),
                    _ => self.send(host),
                }
            }
        }
        if self.one_in(self.plan.changes) {
            self.change();
        }
        if self.one_in(self.plan.rooms) {
            self.work_in_room();
        }
        for client in 0..self.clients.len() {
            let at = self.clients[client].at;
            let lost = at.is_none_or(|(host, process)| self.hosts[host].process != process);
            if lost && self.random.u32(0..20) == 0 || self.random.u32(0..150) == 0 {
                self.connect(client);
            }
        }
        let wait = self.random.u64(1..=2 * self.plan.pace_ms);
        if self.now < 1_000_000 + self.plan.work_ms {
            self.after(wait, Event::Work);
        }
    }

    /// Somebody asks a node for a change of the graph.
    fn change(&mut self) {
        let host = self.random.usize(0..self.hosts.len());
        let takes = self.hosts[host].paused_until_ms <= self.now && self.hosts[host].open;
        if !takes || self.store.away_until_ms > self.now {
            return;
        }
        let ids = self.plan.clients.div_ceil(2);
        let mut pair = || (self.random.usize(0..ids), self.random.usize(0..ids));
        let (added, removed) = (pair(), pair());
        let text = |pair: (usize, usize)| (pair.0.to_string(), pair.1.to_string());
        self.pairs.entry(added).or_default().added = true;
        let mut taken = Vec::new();
        if self.random.u32(0..4) == 0 && removed != added {
            self.pairs.entry(removed).or_default().removed = true;
            taken.push(text(removed));
        }
        let mut added_all = vec![text(added)];
        if self.one_in(self.plan.long_changes) {
            self.figures.note(plan::LONG_CHANGE);
            // Pairs of nobody who is here, before and behind it.
            let others = (0..self.random.usize(4..16)).map(|n| text((1_000 + n, added.1)));
            added_all.extend(others);
            self.random.shuffle(&mut added_all);
        }
        let change = self.store.commit(added_all, taken);
        self.figures.changes += 1;
        self.figures.note(plan::CHANGE);
        self.asked.push(added);
        let one = &mut self.hosts[host];
        one.waiting.push((change.version, self.asked.len() - 1));
        let process = one.process;
        // The process may crash in between.
        let wait = self.random.u64(0..20);
        self.after(wait, Event::Change { host, process, change });
    }

    fn break_something(&mut self) {
        let rates = self.plan;
        let host = self.random.usize(0..self.hosts.len());
        let time = self.random.u64(1..rates.pause_ms);
        let now = self.now;
        if self.one_in(rates.crash) && self.hosts[host].node.is_some() {
            self.figures.note(plan::CRASH);
            self.crash(host);
        }
        if self.one_in(rates.leave) && self.hosts[host].paused_until_ms <= now {
            self.figures.note(plan::LEAVE);
            self.drive(host, |node, now| node.leave(now));
        }
        if self.one_in(rates.pause) && self.hosts[host].paused_until_ms <= now {
            self.hosts[host].paused_until_ms = now + time;
            self.hosts[host].was_paused = true;
            self.figures.note(plan::PAUSE);
        }
        if self.one_in(rates.cut) {
            self.cut(host, now + time);
        }
        if self.one_in(rates.cut_all) {
            self.figures.note(plan::CUT_ALL);
            (0..self.hosts.len()).for_each(|host| self.cut(host, now + time));
        }
        if self.one_in(rates.store_away) {
            self.store.away_until_ms = now + time;
            self.figures.note(plan::STORE_AWAY);
        }
        if self.store.away_until_ms <= now && self.hosts[host].node.is_some() && self.one_in(8) {
            let (process, version) = (self.hosts[host].process, self.store.graph.place.version);
            let wait = self.random.u64(0..300);
            self.after(wait, Event::Polled { host, process, version });
        }
        if self.one_in(rates.forget) {
            self.forget();
        }
        if self.one_in(rates.fork) {
            self.fork(host);
        }
        if self.one_in(rates.gone) {
            self.stream_gone();
        }
        // Its connection is lost and is there again at once.
        if self.one_in(200) {
            self.follow_again(host);
        }
    }

    fn cut(&mut self, host: usize, until_ms: u64) {
        self.figures.note(plan::CUT);
        let one = &mut self.hosts[host];
        one.cut_until_ms = one.cut_until_ms.max(until_ms);
        let at_ms = one.cut_until_ms + 1;
        self.at(at_ms, Event::Uncut { host });
    }

    /// The log loses its tail.
    fn forget(&mut self) {
        let records = self.random.usize(1..6);
        let epoch = self.epoch.number;
        let Some(log) = self.logs.get_mut(&epoch) else { return };
        let lost = log.forget(records);
        self.figures.note(plan::FORGET);
        self.witness(epoch, &lost);
        // Some followers notice that the log begins anew, others go on as if nothing was.
        for host in 0..self.hosts.len() {
            if self.random.bool() {
                self.follow_again(host);
            }
        }
    }

    /// Who lives and has read what is lost.
    fn witness(&mut self, epoch: u64, lost: &[(u64, Arc<[u8]>)]) {
        for (host, one) in self.hosts.iter().enumerate() {
            let Some(node) = one.node.as_ref().filter(|_| one.epoch == epoch) else { continue };
            let read = lost.iter().filter(|(sequence, _)| *sequence <= node.status().read);
            self.witnesses.extend(read.map(|(sequence, record)| Witness {
                epoch,
                host,
                process: one.process,
                sequence: *sequence,
                record: Arc::clone(record),
            }));
        }
    }

    /// One node will read another record than the others.
    fn fork(&mut self, host: usize) {
        let Some(log) = self.logs.get_mut(&self.epoch.number) else { return };
        if log.fork.is_some() {
            return;
        }
        let head = Head { incarnation: 0, batch: 0, after: 0, chain: 0 };
        let body = Body::Leave { incarnation: u64::MAX, reason: LeaveReason::Silent };
        let other: Arc<[u8]> = Record { head, body }.encode().into();
        log.fork = Some((host, log.last() + 1, other));
        log.damaged = true;
        self.figures.note(plan::FORK);
    }

    /// The stream is no more; whoever is connected finds out, sooner or later.
    fn stream_gone(&mut self) {
        let epoch = self.epoch.number;
        let Some(log) = self.logs.get_mut(&epoch) else { return };
        log.damaged = true;
        let lost = log.delete();
        self.figures.note(plan::GONE);
        self.witness(epoch, &lost);
        for host in 0..self.hosts.len() {
            let process = self.hosts[host].process;
            let wait = self.random.u64(0..4_000);
            self.after(wait, Event::Look { host, process });
        }
    }
}
