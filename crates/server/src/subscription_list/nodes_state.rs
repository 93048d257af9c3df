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

/// A change, until the log has its update.
struct UntoldChange {
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
    pub(super) is_known: bool,
    pub(super) rests_since: Option<Instant>,
    pub(super) is_settled: bool,
    pub(super) wanting: BTreeSet<Box<str>>,
    pub(super) overfull: BTreeSet<Box<str>>,
    payloads: HashMap<SubscriberNumber, Arc<str>>,
    untold: VecDeque<UntoldChange>,
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
        let NodesState { is_heard, own, own_read_at, is_wanted, is_known, .. } = before;
        let has_missed = before.has_missed;
        let this = NodesState { is_heard, own, own_read_at, has_missed, ..NodesState::default() };
        *self = NodesState { is_wanted, is_known, rests_since: before.rests_since, ..this };
    }

    /// What this node says of itself, beside its subscriptions.
    pub(super) fn of_itself(&self, node: &str) -> Vec<(HubSubject, SubjectInfo)> {
        let wants = self.is_wanted.then(|| (HubSubject::Wants(node.into()), None));
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
                if let Some(told) = self.apply(table, (who, held), change) {
                    self.expect(told);
                    return ListEffect::Changed;
                }
            }
            HubSubject::Payload(who) => match change {
                RoomChange::Joined(info) | RoomChange::Renewed(info) => {
                    info.into_iter().for_each(|info| drop(self.payloads.insert(who, info)));
                }
                RoomChange::Left => drop(self.payloads.remove(&who)),
            },
            HubSubject::Wants(node) => drop(set(&mut self.wanting, node)),
            HubSubject::Overfull(node) => drop(set(&mut self.overfull, node)),
            HubSubject::Lost(_) if is_there && self.is_settled => {
                self.untold.clear();
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
        Some(ListChange { listed, is_active: matches!(change, RoomChange::Joined(_)), except })
    }

    /// A change whose update the log is to bring.
    fn expect(&mut self, change: ListChange) {
        let name = subscriber_text(change.listed.subscriber);
        let path = subscription(&change.listed, Dialect::Old, &name, true).path.to_string();
        let is_it = |(told, _): &(ToldChange, Instant)| {
            told.is_active == change.is_active && told.path == path
        };
        if let Some(at) = self.early.iter().position(is_it) {
            self.early.swap_remove(at);
            return;
        }
        let (since, is_given) = (Instant::now(), false);
        self.untold.push_back(UntoldChange { path, change, since, is_given });
    }

    /// The log has brought the update of a change.
    pub(super) fn told(&mut self, told: ToldChange) {
        let is_it = |untold: &UntoldChange| {
            untold.change.is_active == told.is_active && untold.path == told.path
        };
        match self.untold.iter().position(is_it) {
            Some(at) => drop(self.untold.remove(at)),
            None if self.early.len() < EARLY_MAX => self.early.push((told, Instant::now())),
            None => {}
        }
    }

    /// Whether this node is the one that publishes was said.
    pub(super) fn set_publishes(&mut self, publishes: bool) {
        let pause = if self.untold.is_empty() { Duration::ZERO } else { PAUSE };
        let from = self.publishes_from.unwrap_or_else(|| Instant::now() + pause);
        self.publishes_from = publishes.then_some(from);
    }

    /// Gives out what this node is to publish now, in its order.
    pub(super) fn give(&mut self) -> Vec<ListChange> {
        let now = Instant::now();
        let is_new = |at: Instant, most: Duration| now.duration_since(at) < most;
        self.early.retain(|(_, at)| is_new(*at, GIVEN_MAX));
        if self.publishes_from.is_none_or(|from| from > now) {
            self.untold.retain(|untold| is_new(untold.since, KEPT_MAX));
            return Vec::new();
        }
        let left = self.untold.iter_mut().filter(|untold| !untold.is_given);
        left.map(|untold| {
            (untold.is_given, untold.since) = (true, now);
            untold.change.clone()
        })
        .collect()
    }

    /// Takes those out that the log has not brought in time, and answers how many they are.
    pub(super) fn take_late(&mut self) -> usize {
        let before = self.untold.len();
        self.untold.retain(|untold| !untold.is_given || untold.since.elapsed() < GIVEN_MAX);
        before - self.untold.len()
    }
}

#[cfg(test)]
mod tests {
    use topics::HeldKind;

    use super::*;

    fn held(text: &str) -> HeldSelector {
        HeldSelector { kind: HeldKind::Plain, text: text.into(), is_granted: true }
    }

    /// The subject of a subscription, as the log has it.
    fn subject(who: SubscriberNumber, text: &str) -> (Subject, SubjectInfo) {
        (HubSubject::Subscription(who, held(text)).text().unwrap().into(), None)
    }

    fn came(
        of: &mut NodesState,
        table: &mut SubscriptionTable,
        (who, text): (SubscriberNumber, &str),
    ) -> ListEffect {
        let subject = HubSubject::Subscription(who, held(text));
        of.change(table, subject, RoomChange::Joined(None))
    }

    fn given(of: &mut NodesState) -> Vec<(String, bool)> {
        let text = |change: ListChange| (change.listed.selector.to_string(), change.is_active);
        of.give().into_iter().map(text).collect()
    }

    #[test]
    fn change_is_kept_until_its_update_has_come_and_given_to_who_publishes() {
        let (mut of, mut table) = (NodesState::default(), SubscriptionTable::default());
        assert!(!of.settle(&mut table, vec![subject(1, "before")]));
        assert_eq!(came(&mut of, &mut table, (2, "a")), ListEffect::Changed);
        assert_eq!(came(&mut of, &mut table, (2, "b")), ListEffect::Changed);
        assert_eq!(given(&mut of), []);
        // The log has brought what another one has published.
        let path = of.untold[0].path.clone();
        of.told(ToldChange { path, is_active: true });
        of.publishes_from = Some(Instant::now());
        assert_eq!(given(&mut of), [("b".to_owned(), true)]);
        assert_eq!(given(&mut of), [], "once");
        // An update that is here before its change.
        let path = of.untold[0].path.clone();
        of.told(ToldChange { path: path.clone(), is_active: false });
        let gone = HubSubject::Subscription(2, held("b"));
        assert_eq!(of.change(&mut table, gone, RoomChange::Left), ListEffect::Changed);
        assert!(of.untold.iter().all(|untold| untold.change.is_active) && of.early.is_empty());
    }

    #[test]
    fn updates_of_changes_that_nobody_has_said_take_so_much_room_at_most() {
        let mut of = NodesState::default();
        for number in 0..2 * EARLY_MAX {
            of.told(ToldChange { path: number.to_string(), is_active: true });
        }
        assert_eq!((of.early.len(), of.untold.len()), (EARLY_MAX, 0));
    }

    #[test]
    fn loss_is_said_until_it_was_read() {
        let (mut of, mut table) = (NodesState::default(), SubscriptionTable::default());
        of.settle(&mut table, Vec::new());
        assert_eq!(of.of_itself("n1"), []);
        let lost = HubSubject::Lost("n1".into());
        of.losing = Some("7".into());
        assert_eq!(of.of_itself("n1"), [(lost.clone(), Some("7".into()))]);
        came(&mut of, &mut table, (1, "a"));
        let read = of.change(&mut table, lost, RoomChange::Renewed(Some("7".into())));
        assert_eq!((read, of.of_itself("n1").len(), of.untold.len()), (ListEffect::Lost, 0, 0));
    }

    #[test]
    fn list_that_is_settled_again_has_missed_something_and_the_first_one_not() {
        let (mut of, mut table) = (NodesState::default(), SubscriptionTable::default());
        of.miss();
        of.forget_others();
        assert!(!of.settle(&mut table, Vec::new()));
        of.miss();
        of.forget_others();
        assert!(of.settle(&mut table, Vec::new()));
        // Nobody wanted it meanwhile.
        of.forget_others();
        assert!(!of.settle(&mut table, Vec::new()));
    }

    #[test]
    fn changes_past_the_bound_of_the_list_are_told() {
        let (mut of, mut table) = (NodesState::default(), SubscriptionTable::default());
        of.settle(&mut table, Vec::new());
        let long: Arc<str> = "x".repeat(1 << 20).into();
        for who in 0..70 {
            of.payloads.insert(who, Arc::clone(&long));
            assert_eq!(came(&mut of, &mut table, (who, "a")), ListEffect::Changed);
        }
        assert!(!table.is_whole() && of.untold.len() == 70);
        let gone = HubSubject::Subscription(69, held("a"));
        assert_eq!(of.change(&mut table, gone, RoomChange::Left), ListEffect::Changed);
    }

    #[test]
    fn payload_that_is_found_later_is_in_the_list() {
        let (mut of, mut table) = (NodesState::default(), SubscriptionTable::default());
        of.settle(&mut table, vec![subject(1, "a")]);
        of.change(&mut table, HubSubject::Payload(1), RoomChange::Joined(Some("{}".into())));
        let renewed = RoomChange::Renewed(Some("5".into()));
        let effect = of.change(&mut table, HubSubject::Subscription(1, held("a")), renewed);
        assert_eq!((effect, of.untold.len()), (ListEffect::Changed, 0));
        assert_eq!(table.of_subscriber(1)[0].payload.as_deref(), Some("{}"));
    }
}
