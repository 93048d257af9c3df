//! What is on its way: records to followers, messages to the log and to nodes, epochs.

use std::sync::Arc;

use super::log::Log;
use super::plan;
use super::plan::Witness;
use super::world::{Event, World};
use crate::message::Message;
use crate::{Epoch, MessageId, Node, Published};

/// A proposal is given up after this.
const PROPOSE_MS: u64 = 10_000;

impl World {
    pub(super) fn follow_again(&mut self, host: usize) {
        let one = &self.hosts[host];
        let Some(node) = &one.node else { return };
        if one.follower.is_none() {
            return;
        }
        let (process, epoch, from) = (one.process, one.epoch, node.read_up_to());
        let from = Some(from.max(1));
        self.after(5, Event::Follow { host, process, epoch, from, opens: false });
    }

    pub(super) fn follow(&mut self, host: usize, epoch: u64, from: Option<u64>, opens: bool) {
        // A follower of an epoch that has ended since.
        if epoch != self.hosts[host].epoch {
            return;
        }
        if self.is_cut(host) {
            let process = self.hosts[host].process;
            return self.after(100, Event::Follow { host, process, epoch, from, opens });
        }
        // Who has it open goes on reading one that is sealed; who opens it is told.
        let log = &self.logs[&epoch];
        if log.absent || log.sealed && opens {
            return self.drive(host, |node, now| node.stream_gone(now, epoch));
        }
        // What a history needs, and what the replica may not have.
        let log = &self.logs[&epoch];
        let replica = self.hosts[host].follow_at;
        let from = from.unwrap_or_else(|| log.since(self.now - 3_000).min(replica));
        let first = from.max(log.first());
        let head = log.last();
        // A follower of before brings nothing more.
        self.hosts[host].follower_run += 1;
        self.hosts[host].follower = Some(first);
        let run = self.hosts[host].follower_run;
        self.drive(host, |node, now| node.following(now, epoch, first, head));
        self.after(1, Event::Read { host, run });
    }

    pub(super) fn read(&mut self, host: usize, run: u64) {
        let one = &self.hosts[host];
        let Some(node) = one.node.as_ref().filter(|_| one.follower_run == run) else { return };
        let Some(next) = one.follower else { return };
        if one.paused_until_ms > self.now {
            return self.at(one.paused_until_ms, Event::Read { host, run });
        }
        if self.is_cut(host) {
            return;
        }
        let (epoch, wants) = (one.epoch, node.wants_records());
        let log = &self.logs[&epoch];
        // What is trimmed is passed over, as a consumer does.
        let next = next.max(log.first());
        let Some(record) = log.read(host, next).filter(|_| wants) else {
            self.hosts[host].follower = Some(next);
            let wait = self.random.u64(1..4);
            return self.after(wait, Event::Read { host, run });
        };
        if log.fork.as_ref().is_some_and(|(who, at, _)| (*who, *at) == (host, next)) {
            let process = self.hosts[host].process;
            // Who begins there takes the sum of others for what was before.
            if node.status().members > 0 {
                let (sequence, record) = (next, Arc::clone(&record));
                let kept = false;
                self.witnesses.push(Witness { epoch, host, process, sequence, record, kept });
            }
        }
        self.hosts[host].follower = Some(next + 1);
        let wait = if self.random.u32(0..4) == 0 { 1 } else { 0 };
        self.after(wait, Event::Read { host, run });
        self.drive(host, |node, now| node.record(now, epoch, next, &record));
    }

    pub(super) fn arrive(
        &mut self,
        from: (usize, u64),
        epoch: u64,
        id: MessageId,
        record: Arc<[u8]>,
    ) {
        let (host, process) = from;
        let now = self.now;
        let refused = self.percent(3);
        let Some(log) = self.logs.get_mut(&epoch) else { return };
        let gone = log.sealed || log.absent;
        let outcome = if refused || gone {
            Published::Refused
        } else {
            Published::At(log.append(now, &id.0, record))
        };
        if self.percent(self.plan.publish_loss) {
            return self.figures.note(plan::ACK_LOST);
        }
        if self.is_cut(host) {
            return;
        }
        let wait = self.random.u64(0..5);
        self.after(wait, Event::Ack { host, process, epoch, id, outcome, gone });
    }

    /// A message goes to the log: it may vanish, come late, and come twice.
    pub(super) fn publish(&mut self, host: usize, epoch: u64, id: &MessageId, record: &Arc<[u8]>) {
        let process = self.hosts[host].process;
        let copies = if self.percent(self.plan.late) { 2 } else { 1 };
        for copy in 0..copies {
            let late = copy > 0 || self.percent(self.plan.late);
            let wait = self.random.u64(if late { 0..5_000 } else { 0..4 });
            // What a client keeps while it is cut off comes late, or never.
            let lost = self.is_cut(host) && self.random.bool();
            if lost || self.percent(self.plan.publish_loss) {
                self.figures.note(plan::PUBLISH_LOST);
                continue;
            }
            if late {
                self.figures.note(if copy > 0 { plan::TWICE } else { plan::LATE });
            }
            let back = if self.is_cut(host) { self.hosts[host].cut_until_ms - self.now } else { 0 };
            let (id, record) = (id.clone(), Arc::clone(record));
            self.after(wait + back, Event::Arrive { host, process, epoch, id, record });
        }
    }

    /// A message outside of the log.
    pub(super) fn core(&mut self, from: usize, to: usize, bytes: &[u8]) {
        if self.is_cut(from) || self.hosts[to].node.is_none() {
            return;
        }
        if self.percent(self.plan.core_loss) {
            return self.figures.note(plan::CORE_LOST);
        }
        let late = self.percent(self.plan.late);
        let wait = self.random.u64(if late { 0..3_000 } else { 0..3 });
        let (process, bytes) = (self.hosts[to].process, bytes.to_vec());
        self.after(wait, Event::Core { host: to, process, bytes });
    }

    /// A message outside of the log comes. One of another epoch says nothing to its node.
    pub(super) fn hear_core(&mut self, host: usize, bytes: &[u8]) {
        if self.is_cut(host) {
            return;
        }
        let is_of = |message: Message| message.epoch == self.hosts[host].epoch;
        let is_foreign = !Message::decode(bytes).is_ok_and(is_of);
        self.figures.foreign += u64::from(is_foreign);
        self.drive(host, |node, now| {
            let state = |node: &Node| (node.status(), node.above(), node.next_deadline());
            let before = state(node);
            node.core_message(now, bytes);
            assert!(!is_foreign || state(node) == before, "by a message of another epoch");
        });
    }

    /// How long a server takes for what it is asked: at times so long that others do something.
    pub(super) fn server_ms(&mut self) -> u64 {
        let late = self.percent(20);
        self.random.u64(if late { 0..2_000 } else { 0..3 })
    }

    /// The first step of a proposal: nothing is put into the log any more.
    pub(super) fn seal(&mut self, host: usize, epoch: u64, above: u64) {
        if self.is_cut(host) {
            return;
        }
        if let Some(log) = self.logs.get_mut(&(epoch - 1)) {
            log.sealed = true;
        }
        if self.is_faulty() && self.one_in(8) {
            self.figures.note(plan::HALF_PROPOSED);
            return self.crash(host);
        }
        let (process, wait) = (self.hosts[host].process, self.server_ms());
        let until_ms = self.now + PROPOSE_MS;
        self.after(wait, Event::Agree { host, process, epoch, above, until_ms });
    }

    /// The second step, which is tried again for a while.
    pub(super) fn agree(&mut self, host: usize, epoch: u64, above: u64, until_ms: u64) {
        if epoch != self.epoch.number + 1 {
            return;
        }
        if self.is_cut(host) {
            if self.now < until_ms {
                let process = self.hosts[host].process;
                self.after(300, Event::Agree { host, process, epoch, above, until_ms });
            }
            return;
        }
        // A clock that is far behind, so that only what was seen keeps numbers growing.
        let unix_ms = if self.random.bool() { 0 } else { self.epoch.base >> 20 };
        let base = crate::epoch_base(unix_ms, above);
        self.epoch = Epoch { number: epoch, base };
        self.logs.insert(epoch, Log::default());
        self.bases.insert(epoch, base);
        self.agreed_ms.insert(epoch, self.now);
        self.figures.epochs += 1;
        for host in 0..self.hosts.len() {
            let (process, wait) = (self.hosts[host].process, self.server_ms());
            self.after(wait.min(1_000), Event::Epoch { host, process });
        }
    }
}
