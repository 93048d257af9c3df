//! What a node knows of who is subscribed at all nodes, as the log has it, and which changes have
//! not been told yet: state, which posts and says nothing.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cluster::RoomChange;
use dispatch::subject_rooms::{Subject, SubjectInfo};
use hub::ConnectionId;
use mercure::Dialect;
use topics::{
    HeldSelector, ListedSubscription, SubscriberNumber, SubscriptionTable, ToldChange,
    subscriber_text,
};

use super::subject::HubSubject;
use super::subscription;
use super::waiting::ListChange;

/// Before a node publishes what another one has left: what that has published comes meanwhile.
const PAUSE: Duration = Duration::from_secs(1);

/// When an update that was given to the log counts as lost: the log takes none after ten seconds.
const GIVEN_MAX: Duration = Duration::from_secs(15);

/// For how long a node keeps a change that another one is to publish: that has given it up by then.
const KEPT_MAX: Duration = Duration::from_secs(60);

/// Updates that are kept before their changes were read. What is past them is told twice at worst.
const EARLY_MAX: usize = 4_096;

/// What a node says of itself that wants changes in the form of 1.0, too.
const WANTS_V1: &str = "1.0";

/// A change in one form, until the log has its update.
struct PendingChange {
    path: String,
    change: ListChange,
    /// Since when it is known, or was given to the log.
    since: Instant,
    is_given: bool,
}

/// What is known of all nodes, and of what this one has said.
#[derive(Default)]
pub(super) struct NodesState {
    /// Some node wants to know: this one says what it has.
    pub(super) is_heard: bool,
    /// What it has, and when it was read from the directory.
    pub(super) own: SubscriptionTable,
    pub(super) own_read_at: Option<Instant>,
    /// Somebody here wants it, and this node wants to know; and since when it does not.
    pub(super) is_wanted: bool,
    pub(super) is_v1_wanted: bool,
    pub(super) is_known: bool,
    pub(super) rests_since: Option<Instant>,
    pub(super) is_settled: bool,
    pub(super) wanting: BTreeSet<Box<str>>,
    wanting_v1: BTreeSet<Box<str>>,
    pub(super) overfull: BTreeSet<Box<str>>,
    payloads: HashMap<SubscriberNumber, Arc<str>>,
    pending: VecDeque<PendingChange>,
    /// Updates that came before their changes were read.
    early: Vec<(ToldChange, Instant)>,
    /// This node publishes, from then on.
    publishes_from: Option<Instant>,
    /// What it has said of changes that were lost, until it has read that.
    pub(super) losing: Option<Arc<str>>,
    /// A list was dropped that was settled: what has changed meanwhile is not known.
    has_missed: bool,
}

/// What a change does to the list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ListEffect {
    /// It is the same.
    None,
    /// It is another one, and the change is to be told.
    Changed,
    /// Changes up to now are told in the old form alone, and later ones in that of 1.0, too.
    NewForm,
    /// Some changes are told to nobody.
    Lost,
}

impl NodesState {
    /// This node has lost its place, or a part of the log: who listens here has missed something.
    pub(super) fn miss(&mut self) {
        self.has_missed |= self.is_settled;
    }

    /// What others have is not known any more. What this node has, it has still.
    pub(super) fn forget_others(&mut self) {
        let before = std::mem::take(self);
        let NodesState { is_heard, own, own_read_at, is_wanted, is_v1_wanted, .. } = before;
        let NodesState { is_known, rests_since, has_missed, .. } = before;
        let this = NodesState { is_heard, own, own_read_at, has_missed, ..NodesState::default() };
        *self = NodesState { is_wanted, is_v1_wanted, is_known, rests_since, ..this };
    }

    /// In which forms the list is known, and its changes are told.
    pub(super) fn known(&self) -> &'static [Dialect] {
        match (self.is_settled, self.wanting_v1.is_empty()) {
            (false, _) => &[],
            (true, true) => &[Dialect::Old],
            (true, false) => &[Dialect::Old, Dialect::V1],
        }
    }

    /// What stands beside the word that this node wants to know.
    pub(super) fn wants_info(&self) -> SubjectInfo {
        self.is_v1_wanted.then(|| WANTS_V1.into())
    }

    /// What this node says of itself, beside its subscriptions.
    pub(super) fn of_itself(&self, node: &str) -> Vec<(HubSubject, SubjectInfo)> {
        let wants = self.is_wanted.then(|| (HubSubject::Wants(node.into()), self.wants_info()));
        let overfull = (!self.own.is_whole()).then(|| (HubSubject::Overfull(node.into()), None));
        let lost = self.losing.clone().map(|info| (HubSubject::Lost(node.into()), Some(info)));
        wants.into_iter().chain(overfull).chain(lost).collect()
    }

    /// The list is settled, and nobody has heard of what changed before that. Whether there was a
    /// list before, whose listeners have missed something.
    pub(super) fn settle(
        &mut self,
        table: &mut SubscriptionTable,
        subjects: Vec<(Subject, SubjectInfo)>,
    ) -> bool {
        // The payload of a subscriber stands behind its subscriptions.
        for (subject, info) in subjects.into_iter().rev() {
            match HubSubject::parse(&subject) {
                Some(HubSubject::Subscription(who, held)) => {
                    table.insert(&held, who, self.payloads.get(&who).cloned());
                }
                Some(subject) => drop(self.change(table, subject, RoomChange::Joined(info))),
                None => {}
            }
        }
        self.is_settled = true;
        std::mem::take(&mut self.has_missed)
    }

    /// Something has changed. What becomes of the list by that.
    pub(super) fn change(
        &mut self,
        table: &mut SubscriptionTable,
        subject: HubSubject,
        change: RoomChange,
    ) -> ListEffect {
        let is_there = !matches!(change, RoomChange::Left);
        let set = |all: &mut BTreeSet<Box<str>>, node: Box<str>| match is_there {
            true => all.insert(node),
            false => all.remove(&node),
        };
        match subject {
            HubSubject::Subscription(who, held) => {
                if let RoomChange::Renewed(_) = change {
                    // Its payload was found later.
                    let payload = self.payloads.get(&who).cloned();
                    let is_other = payload.is_some() && table.insert(&held, who, payload);
                    return if is_other { ListEffect::Changed } else { ListEffect::None };
                }
                if let Some(change) = self.apply(table, (who, held), change) {
                    self.expect_all(&change);
                    return ListEffect::Changed;
                }
            }
            HubSubject::Payload(who) => match change {
                RoomChange::Joined(info) | RoomChange::Renewed(info) => {
                    info.into_iter().for_each(|info| drop(self.payloads.insert(who, info)));
                }
                RoomChange::Left => drop(self.payloads.remove(&who)),
            },
            HubSubject::Wants(node) => {
                set(&mut self.wanting, node.clone());
                let had_v1 = !self.wanting_v1.is_empty();
                match change {
                    RoomChange::Joined(info) | RoomChange::Renewed(info)
                        if info.as_deref() == Some(WANTS_V1) =>
                    {
                        self.wanting_v1.insert(node)
                    }
                    _ => self.wanting_v1.remove(&node),
                };
                if self.is_settled && !had_v1 && !self.wanting_v1.is_empty() {
                    return ListEffect::NewForm;
                }
            }
            HubSubject::Overfull(node) => drop(set(&mut self.overfull, node)),
            HubSubject::Lost(_) if is_there && self.is_settled => {
                self.pending.clear();
                self.early.clear();
                self.losing = None;
                return ListEffect::Lost;
            }
            HubSubject::Lost(_) => {}
        }
        ListEffect::None
    }

    /// What a change is told as, if the list has it.
    fn apply(
        &mut self,
        table: &mut SubscriptionTable,
        (who, held): (SubscriberNumber, HeldSelector),
        change: RoomChange,
    ) -> Option<ListChange> {
        let payload = self.payloads.get(&who).cloned();
        let (is_listed, except) = match &change {
            RoomChange::Joined(info) => {
                let bits = info.as_deref().and_then(|bits| bits.parse().ok());
                let is_listed = table.insert(&held, who, payload.clone());
                (is_listed, bits.and_then(ConnectionId::of_bits))
            }
            RoomChange::Renewed(_) => (false, None),
            RoomChange::Left => (table.remove(held.kind, &held.text, who), None),
        };
        if !is_listed && table.is_whole() {
            // It is left out, as one that no token grants.
            return None;
        }
        let (kind, selector) = (held.kind, held.text.into());
        let listed = ListedSubscription { kind, selector, subscriber: who, payload };
        let change = ListChange::new(listed, matches!(change, RoomChange::Joined(_)));
        Some(ListChange { except, ..change })
    }

    /// A change whose updates the log is to bring, one in each form.
    fn expect_all(&mut self, change: &ListChange) {
        let is_v1 = !self.wanting_v1.is_empty();
        let forms = change.listed.kind.dialects().iter();
        for form in forms.filter(|form| is_v1 || **form == Dialect::Old) {
            self.expect(ListChange { only: Some(*form), ..change.clone() }, *form);
        }
    }

    fn expect(&mut self, change: ListChange, form: Dialect) {
        let name = subscriber_text(change.listed.subscriber);
        let path = subscription(&change.listed, form, &name, true).path.to_string();
        let is_it = |(told, _): &(ToldChange, Instant)| {
            told.is_active == change.is_active && told.path == path
        };
        if let Some(at) = self.early.iter().position(is_it) {
            self.early.swap_remove(at);
            return;
        }
        let (since, is_given) = (Instant::now(), false);
        self.pending.push_back(PendingChange { path, change, since, is_given });
    }

    /// The log has brought the update of a change.
    pub(super) fn told(&mut self, told: ToldChange) {
        let is_it = |pending: &PendingChange| {
            pending.change.is_active == told.is_active && pending.path == told.path
        };
        match self.pending.iter().position(is_it) {
            Some(at) => drop(self.pending.remove(at)),
            None if self.early.len() < EARLY_MAX => self.early.push((told, Instant::now())),
            None => {}
        }
    }

    /// Whether this node is the one that publishes was said.
    pub(super) fn set_publishes(&mut self, publishes: bool) {
        let pause = if self.pending.is_empty() { Duration::ZERO } else { PAUSE };
        let from = self.publishes_from.unwrap_or_else(|| Instant::now() + pause);
        self.publishes_from = publishes.then_some(from);
    }

    /// Gives out what this node is to publish now, in its order.
    pub(super) fn give(&mut self) -> Vec<ListChange> {
        let now = Instant::now();
        let is_new = |at: Instant, most: Duration| now.duration_since(at) < most;
        self.early.retain(|(_, at)| is_new(*at, GIVEN_MAX));
        if self.publishes_from.is_none_or(|from| from > now) {
            self.pending.retain(|pending| is_new(pending.since, KEPT_MAX));
            return Vec::new();
        }
        let left = self.pending.iter_mut().filter(|pending| !pending.is_given);
        left.map(|pending| {
            (pending.is_given, pending.since) = (true, now);
            pending.change.clone()
        })
        .collect()
    }

    /// Takes those out that the log has not brought in time, and answers how many they are.
    pub(super) fn take_late(&mut self) -> usize {
        let before = self.pending.len();
        self.pending.retain(|pending| !pending.is_given || pending.since.elapsed() < GIVEN_MAX);
        before - self.pending.len()
    }
}

#[cfg(test)]
mod tests;
