//! What the log does to a node.

use super::Node;
use super::parts::PartsRead;
use crate::action::{Action, EndReason, Known, LogFault};
use crate::chain::Chain;
use crate::change::{Change, Part};
use crate::message::View;
use crate::pipeline::{Item, Pipeline};
use crate::publisher::Settled;
use crate::record::{Body, Head, Join, LeaveReason, Record};
use crate::roster::{Joined, RecordCounts, Roster};
use crate::wire::Malformed;

impl Node {
    /// The follower begins, at first or again: the first record that it brings is `first`, and
    /// `head` was the last one in the log then, as its leader says (0 where there is none).
    pub fn following(&mut self, now_ms: u64, epoch: u64, first: u64, head: u64) {
        if epoch != self.epoch.number || self.broken.is_some() || self.ended {
            return;
        }
        if !self.followed {
            self.left_ms = now_ms;
            self.begin(first.max(1) - 1, head);
            self.compare_head(now_ms, head);
        } else if head < self.read {
            self.fault(now_ms, LogFault::HeadBehind);
        } else if first > self.read + 1 {
            self.trimmed(now_ms, first - 1);
        }
        self.head = self.head.max(head);
        self.top = self.top.max(head);
        self.stalled_ms = None;
        self.joining.restart(now_ms);
        self.step(now_ms);
    }

    /// The first record to come is the one behind `before`, and `head` is the last one.
    fn begin(&mut self, before: u64, head: u64) {
        debug_assert!(!self.followed && self.read == 0 && self.incarnation.is_none());
        self.followed = true;
        self.is_view_new = true;
        self.read = before;
        self.chain = Chain::new(before);
        self.roster = Roster::new(before);
        self.before = None;
        self.pipeline = Pipeline::new(before);
        self.parts_read = PartsRead::new(before);
        if before > 0 {
            self.pipeline.push(before, 0, Item::Gap);
        }
        if !self.has_all(before, head) {
            self.known = Known::Nothing;
            self.pipeline.push(before, 0, Item::Latest);
        }
    }

    /// All up to `before` is gone, and not all of it was read.
    fn trimmed(&mut self, now_ms: u64, before: u64) {
        debug_assert!(self.followed && before > self.read);
        self.is_view_new = true;
        self.read = before;
        self.chain = Chain::new(before);
        self.roster = Roster::new(before);
        self.before = None;
        self.parts_read = PartsRead::new(before);
        self.liveness.view(&[]);
        self.proofs.clear();
        self.left_ms = now_ms;
        // What is known of these may be among what is gone. Who is silent is found out again, and
        // who is there is asked.
        self.leaves.clear();
        self.joining.again(now_ms);
        let mut told = Vec::new();
        self.sums.end(self.epoch, &mut told);
        self.publisher.abandon(&mut told);
        self.tell(told);
        if self.incarnation.take().is_some() {
            self.pipeline.push(before, 0, Item::Left);
        }
        self.pipeline.push(before, 0, Item::Gap);
        // Changes may have been among what is gone.
        self.pipeline.push(before, 0, Item::Latest);
    }

    /// A record of the log, in the order of sequences. One that was read before is compared and
    /// otherwise ignored, so a follower that begins anew begins with [`Node::read_up_to`].
    pub fn record(&mut self, now_ms: u64, epoch: u64, sequence: u64, bytes: &[u8]) {
        let deaf = self.ended || self.broken.is_some() || !self.followed;
        if deaf || epoch != self.epoch.number {
            return;
        }
        self.top = self.top.max(sequence);
        if sequence <= self.read {
            if self.chain.is(sequence, bytes) == Some(false) {
                self.fault(now_ms, LogFault::OtherRecord);
            }
            return;
        }
        if sequence > self.read + 1 {
            self.trimmed(now_ms, sequence - 1);
        }
        debug_assert_eq!(sequence, self.read + 1, "no record is left out of the sum");
        self.chain.push(bytes);
        self.read = sequence;
        debug_assert!(self.chain.at(sequence).is_some());
        self.stalled_ms = None;
        self.compare_mark(now_ms);
        match Record::decode(bytes) {
            Ok(record) => self.take(now_ms, record, bytes),
            Err(Malformed::Newer) => self.take_newer(bytes),
            // The same for all nodes, so they stay the same.
            Err(_) => {
                self.actions.push_back(Action::Unreadable { sequence });
                self.pipeline.push(sequence, bytes.len(), Item::Nothing);
            }
        }
        self.check_ours(now_ms);
        self.check_claims(now_ms);
        self.meet_view(now_ms);
        self.step(now_ms);
    }

    fn take(&mut self, now_ms: u64, record: Record, bytes: &[u8]) {
        let Record { head, body } = record;
        self.top = self.top.max(head.after);
        if head.after >= self.read {
            return self.fault(now_ms, LogFault::TailLost);
        }
        match &body {
            Body::Join(Join { founding: Some(since), .. }) => {
                self.compare_since(now_ms, *since, &head);
            }
            _ if head.after > 0 => self.compare(now_ms, head.after, head.chain),
            _ => {}
        }
        let (sequence, len) = (self.read, bytes.len());
        let item = match body {
            Body::Events(events) => match self.counts(now_ms, &head) {
                (RecordCounts::Yes, origin, me) => {
                    Item::Events { origin, me, events: events.into() }
                }
                (RecordCounts::No, ..) => Item::Nothing,
                (RecordCounts::Unknown, ..) => Item::Gap,
            },
            Body::Order(order) => match self.counts(now_ms, &head) {
                (RecordCounts::No, ..) => Item::Nothing,
                // Who is logged out twice comes back, and what is revoked twice is revoked.
                (RecordCounts::Yes | RecordCounts::Unknown, origin, me) => {
                    Item::Order { origin, me, order }
                }
            },
            Body::Rooms(notes) => self.take_rooms(now_ms, &head, notes),
            Body::Graph(part) => return self.take_part(now_ms, sequence, len, part),
            Body::Join(join) => return self.take_join(now_ms, &head, &join, bytes),
            Body::Leave { incarnation, reason } => {
                let in_order = reason == LeaveReason::Drained;
                let drained = in_order && self.incarnation == Some(incarnation);
                if self.roster.leave(sequence, incarnation) {
                    self.left_ms = now_ms;
                    self.view_changed(now_ms, &[incarnation], in_order);
                }
                self.left |= drained;
                if drained { Item::Drained } else { Item::Nothing }
            }
        };
        self.pipeline.push(sequence, len, item);
    }

    /// Whether the record just read counts, whose it is, and what we are. Ours is settled.
    pub(super) fn counts(&mut self, now_ms: u64, head: &Head) -> (RecordCounts, u64, Option<u64>) {
        let &Head { incarnation, batch, after, .. } = head;
        self.liveness.sign_of(incarnation);
        let counts = self.roster.counts(incarnation, batch, after);
        let settled = match counts {
            RecordCounts::Yes => self.publisher.settle(incarnation, batch),
            RecordCounts::No | RecordCounts::Unknown => None,
        };
        if let Some(Settled { made_ms, tickets }) = settled {
            debug_assert_eq!(
                self.incarnation,
                Some(incarnation),
                "ours counts while we are a member"
            );
            self.proofs.read(self.read, made_ms);
            let members = self.roster.members().iter().map(|member| member.incarnation).collect();
            let (place, mut told) = ((self.epoch, self.read), Vec::new());
            self.sums.begin(now_ms, place, members, tickets, &mut told);
            self.tell(told);
        }
        (counts, incarnation, self.incarnation)
    }

    fn take_part(&mut self, now_ms: u64, sequence: u64, len: usize, part: Part) {
        let version = part.change.version;
        self.parts_read.push(sequence, version, part.part);
        if let Some((_, attempt)) = self.changes.get_mut(&(version, part.part)) {
            attempt.published(now_ms, crate::Published::At(sequence));
        }
        let was_astray = self.replica.is_astray();
        let complete = self.replica.read(now_ms, self.rank(), part);
        if self.replica.is_astray() && !was_astray {
            self.pipeline.forget_changes();
            self.actions.push_back(Action::RebuildGraph);
        }
        // Others may have the versions between from the store of record, and have acknowledged
        // this one: what comes later in the log must be heard by it.
        if self.replica.waits_for_others(version) {
            self.pipeline.push(sequence, len, Item::Graph(version));
        } else if complete.is_empty() {
            self.pipeline.push(sequence, len, Item::Nothing);
        }
        self.pass_on(sequence, complete);
        self.acknowledge();
    }

    /// Changes go to the replica.
    pub(super) fn pass_on(&mut self, sequence: u64, complete: Vec<Change>) {
        complete.into_iter().for_each(|change| {
            let bytes = change.bytes();
            self.pipeline.push_change(sequence, bytes, change);
        });
    }

    /// Who waits for a change may be answered when the log and the replica have it: every send
    /// from then on comes behind it.
    pub(super) fn acknowledge(&mut self) {
        while let Some((&(version, _), (part, _))) = self.changes.first_key_value() {
            let hash = part.change.hash;
            let mut parts = self.changes.range((version, 0)..=(version, u16::MAX));
            if version > self.replica.version() || !parts.all(|(_, (_, at))| at.is_at(self.read)) {
                return;
            }
            self.changes.retain(|&(other, _), _| other != version);
            self.actions.push_back(Action::ChangeApplied { version, hash });
        }
    }

    fn take_join(&mut self, now_ms: u64, head: &Head, join: &Join, bytes: &[u8]) {
        let (sequence, nonce) = (self.read, head.incarnation);
        let (same_name, same_nonce) = (join.name == self.config.name, nonce == self.config.nonce);
        let before: Vec<u64> = self.incarnations();
        let joined = self.roster.join(sequence, nonce, join);
        if join.founding.is_some() {
            self.chain.begin_with(bytes);
        }
        let after = self.incarnations();
        let lost: Vec<u64> = before.into_iter().filter(|one| !after.contains(one)).collect();
        if join.founding.is_some() || !lost.is_empty() {
            self.left_ms = now_ms;
        }
        if join.founding.is_some() && !lost.is_empty() {
            self.returning_ms = Some(now_ms);
        }
        self.view_changed(now_ms, &lost, false);
        let item = match joined {
            // Who knows the view knows whether it is one. Here it is none, and the next join takes
            // its place: a member that does not know the view cannot say whether its own count.
            Joined::Member if same_name && same_nonce && !self.roster.is_known() => {
                self.joining.again(now_ms);
                Item::Nothing
            }
            Joined::Member if same_name && same_nonce => {
                self.incarnation = Some(sequence);
                self.served = true;
                self.joining.joined();
                // What was in flight was published by what we are no more.
                self.publisher.requeue(self.read);
                Item::Joined(sequence)
            }
            Joined::Refused if same_name && same_nonce => {
                self.joining.refused(now_ms);
                self.mind_name();
                Item::Nothing
            }
            Joined::Member if same_name && nonce > self.config.nonce => {
                self.end(EndReason::NameTaken);
                Item::Nothing
            }
            _ => Item::Nothing,
        };
        self.pipeline.push(sequence, bytes.len(), item);
    }

    pub(super) fn incarnations(&self) -> Vec<u64> {
        self.roster.members().iter().map(|member| member.incarnation).collect()
    }

    /// The view is another one, and `lost` are no members any more. Perhaps they leave `in_order`:
    /// they post what stands before their leave, and say to how many, before they end.
    fn view_changed(&mut self, now_ms: u64, lost: &[u64], in_order: bool) {
        self.is_view_new = true;
        let mut told = Vec::new();
        for &incarnation in lost {
            if !in_order {
                self.sums.leave(self.epoch, incarnation, &mut told);
            }
            self.leaves.remove(&incarnation);
            if self.incarnation == Some(incarnation) {
                self.incarnation = None;
                // Nothing of it counts from here on, however late it comes.
                self.publisher.requeue(self.read);
                self.pipeline.push(self.read, 0, Item::Left);
            }
        }
        // Whoever crashed may have committed a change and not published it, and may have done so
        // when it was no member any more: so who joins is a reason, too.
        self.check_version(now_ms);
        self.tell(told);
        self.liveness.view(self.roster.members());
    }

    /// Takes the view that another node has told, once we have read as far as it had.
    pub(super) fn meet_view(&mut self, now_ms: u64) {
        let Some(view) = self.joining.view_at(self.read) else { return };
        if self.roster.is_known() || !self.followed || self.broken.is_some() {
            return;
        }
        let View { chain, members, .. } = view;
        self.compare(now_ms, self.read, chain);
        if self.broken.is_some() {
            return;
        }
        self.chain.anchor(chain);
        debug_assert!(self.incarnation.is_none(), "a member knows the view");
        self.roster.learn(members);
        self.is_view_new = true;
        self.liveness.view(self.roster.members());
        self.mind_name();
        self.mind_newer();
    }

    /// Whoever was a member, and finds a newer process in its place, has not read that one's join.
    /// A process that begins tries again: its clock may have gone back, and the other be dead.
    fn mind_name(&mut self) {
        if (self.served || self.joining.is_hopeless())
            && self.roster.has_newer(&self.config.name, self.config.nonce)
        {
            self.end(EndReason::NameTaken);
        }
    }
}
