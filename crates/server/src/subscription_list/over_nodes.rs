//! The list over the nodes of a cluster. Nodes tell each other in the log who is subscribed where,
//! as they tell who is in a [room](cluster::Rooms); what is in this one they call [`HubSubject`]s.
//!
//! As long as somebody at any node may hear of it, all nodes that are the hub want to know it. So
//! all have one list, read in one order. The one that asked first publishes the updates, through
//! the log as all updates. The others keep each change until the log has its update: if that node
//! goes, the next one publishes what is left. So each change is told once.
//!
//! A change stands in the log before its update does. So the place of the last change that is in
//! the list has all further updates behind it.
//!
//! Cost: of a begin and of an end a note in the log, and of a payload two. Each node has the list
//! twice, some 300 bytes a subscription and its text. Nothing while nobody may hear of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cluster::{Epoch, RoomChange};
use dispatch::subject_rooms::{Subject, SubjectAction, SubjectInfo, SubjectRooms, SubjectStep};
use hub::Space;
use mercure::Dialect;
use tokio::sync::{mpsc, watch};
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use topics::{HeldSelector, ListedSubscription, SubscriberNote, SubscriptionTable};

use super::directory::visit_subscribed;
use super::nodes_state::{ListEffect, NodesState};
use super::subject::HubSubject;
use super::{LOOK_EVERY, ListState, READ_AGAIN, SubscriptionList, Turn, forget};
use crate::subscription_changes::has_path;

/// The only room: a server is one hub.
const HUB: &str = "";

/// Before a node wants to know again what it did not want to know any more, and nobody at it wants:
/// each time all nodes say all that they have.
const REST: Duration = Duration::from_secs(60);

/// What this node has to do with the others.
pub(super) struct OverNodes {
    rooms: Arc<SubjectRooms>,
    node: Box<str>,
    /// In which forms the list is known.
    known: watch::Sender<&'static [Dialect]>,
}

impl OverNodes {
    /// What a node called `node` begins with, and what the log will say.
    pub(super) fn new(node: &str) -> (OverNodes, mpsc::Receiver<SubjectStep>) {
        let (rooms, steps) = SubjectRooms::new(Space::Subscribers, true);
        let (rooms, known) = (Arc::new(rooms), watch::Sender::default());
        (OverNodes { rooms, node: node.into(), known }, steps)
    }

    /// Where the log says what is in the hub's room.
    pub(super) fn rooms(&self) -> &Arc<SubjectRooms> {
        &self.rooms
    }

    /// Waits until the list of all nodes is known, and its changes are told, in this form.
    pub(super) async fn known(&self, form: Dialect) {
        // It fails only while the runtime ends.
        let _ = self.known.subscribe().wait_for(|known| known.contains(&form)).await;
    }

    fn put(&self, subject: &HubSubject, info: SubjectInfo) {
        let subject = subject.text().map(Subject::from);
        subject.iter().for_each(|subject| self.rooms.put(HUB, subject, info.clone()));
    }

    fn take(&self, subject: &HubSubject) {
        let subject = subject.text().map(Subject::from);
        subject.iter().for_each(|subject| self.rooms.take(HUB, subject));
    }

    /// A subscriber of this node has come, with this connection, or has gone.
    fn say(&self, own: &mut SubscriptionTable, note: SubscriberNote) {
        let SubscriberNote { who, came, selectors, payload } = note;
        let Some(selectors) = selectors else {
            for ListedSubscription { kind, selector, .. } in own.of_subscriber(who) {
                own.remove(kind, &selector, who);
                for is_granted in [true, false] {
                    let text = (&*selector).into();
                    let held = HeldSelector { kind, text, is_granted };
                    self.take(&HubSubject::Subscription(who, held));
                }
            }
            return self.take(&HubSubject::Payload(who));
        };
        if let (Some(_), Some(payload)) = (came, &payload) {
            self.put(&HubSubject::Payload(who), Some(Arc::clone(payload)));
        }
        for held in selectors.into_iter().filter(has_path) {
            if came.is_none() {
                own.remove(held.kind, &held.text, who);
                self.take(&HubSubject::Subscription(who, held));
            } else if own.insert(&held, who, payload.clone()) {
                let info = came.map(|came| came.bits().to_string().into());
                self.put(&HubSubject::Subscription(who, held), info);
            }
        }
        if came.is_none() {
            self.take(&HubSubject::Payload(who));
        }
        if !own.is_whole() {
            self.put(&HubSubject::Overfull(self.node.clone()), None);
        }
    }
}

impl SubscriptionList {
    /// Says and reads in the log who is subscribed, until `stop`.
    pub(super) async fn run_over_nodes(
        self: Arc<SubscriptionList>,
        nodes: Arc<OverNodes>,
        mut steps: mpsc::Receiver<SubjectStep>,
        stop: CancellationToken,
    ) {
        self.subscriptions().be_node();
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let step = tokio::select! {
                () = stop.cancelled() => return,
                Some(step) = steps.recv() => Some(step),
                _ = looks.tick() => None,
            };
            let mut kept = self.kept.lock().await;
            if let Some(step) = step {
                self.read_step(&nodes, &mut kept, step).await;
            }
            self.look_over_nodes(&nodes, &mut kept).await;
        }
    }

    /// The log says this.
    async fn read_step(&self, nodes: &OverNodes, kept: &mut ListState, step: SubjectStep) {
        let SubjectStep { epoch, sequence, actions, filled } = step;
        let base = self.sender.router.event_ids().epoch().base;
        let number = Epoch { number: epoch, base }.number_of(sequence, 0);
        for action in actions {
            match action {
                SubjectAction::Lost => {
                    kept.nodes.miss();
                    self.forget_list(nodes, kept);
                }
                SubjectAction::Heard { is_heard: true, .. } => {
                    kept.nodes.is_heard = true;
                    nodes.rooms.open(HUB);
                    self.subscriptions().want_elsewhere(true, || self.newest());
                    self.say_all(nodes, &mut kept.nodes).await;
                }
                SubjectAction::Heard { is_heard: false, .. } => {
                    kept.nodes.is_heard = false;
                    if !kept.nodes.is_known {
                        self.subscriptions().want_elsewhere(false, || self.newest());
                        nodes.rooms.close(HUB);
                        forget(std::mem::take(&mut kept.nodes.own));
                    }
                }
                SubjectAction::Settled { subjects, .. } => {
                    self.forget_list(nodes, kept);
                    let has_missed = kept.nodes.settle(&mut kept.table, subjects);
                    // It may be of a log that has begun anew, with lower numbers.
                    self.subscriptions().set_since(number);
                    kept.mark = number;
                    if has_missed {
                        self.budget().owe_end();
                    }
                    kept.read_at = Some(Instant::now());
                }
                SubjectAction::Changed { subject, change, .. } => {
                    if let Some(subject) = HubSubject::parse(&subject) {
                        self.change(kept, number, subject, change);
                    }
                }
                SubjectAction::First { asked_first, .. } => kept.nodes.set_publishes(asked_first),
            }
        }
        let known = kept.nodes.known();
        self.subscriptions().tell_v1(known.contains(&Dialect::V1));
        nodes.known.send_replace(known);
        drop(filled);
    }

    /// What all nodes have is not known here.
    fn forget_list(&self, nodes: &OverNodes, kept: &mut ListState) {
        kept.nodes.forget_others();
        self.waiting().changes.clear();
        nodes.known.send_replace(&[]);
        forget(std::mem::take(&mut kept.table));
    }

    /// What changed up to this number is told to nobody from now on.
    fn mark(&self, kept: &mut ListState, number: u64) {
        kept.mark = number;
        self.subscriptions().raise_since(number);
    }

    /// Something has changed in a settled list.
    fn change(&self, kept: &mut ListState, number: u64, subject: HubSubject, change: RoomChange) {
        match kept.nodes.change(&mut kept.table, subject, change) {
            ListEffect::None => {}
            ListEffect::Changed => kept.mark = number,
            ListEffect::NewForm => self.mark(kept, number),
            ListEffect::Lost => {
                self.waiting().changes.clear();
                self.mark(kept, number);
                self.budget().owe_end();
            }
        }
    }

    /// Says what workers have noted and whether somebody wants it, and publishes what is to be.
    async fn look_over_nodes(&self, nodes: &OverNodes, kept: &mut ListState) {
        let quiet_ms = self.topics.limits().topic_ms;
        self.subscriptions().look(sys::clock::monotonic_ms(), quiet_ms);
        self.say_wants(nodes, kept);
        if kept.nodes.is_heard {
            let (notes, has_lost) = self.subscriptions().take();
            notes.into_iter().for_each(|note| nodes.say(&mut kept.nodes.own, note));
            let is_old = kept.nodes.own_read_at.is_none_or(|at| at.elapsed() > READ_AGAIN);
            if has_lost || !kept.nodes.own.is_whole() && is_old {
                self.say_all(nodes, &mut kept.nodes).await;
            }
        }
        let told = self.subscriptions().take_told();
        if kept.nodes.is_settled {
            told.into_iter().for_each(|told| kept.nodes.told(told));
        }
        self.publish_pending(kept).await;
        if self.budget().take_unmarked() && kept.nodes.losing.is_none() && kept.nodes.is_settled {
            let info: Arc<str> = sys::clock::monotonic_ms().to_string().into();
            kept.nodes.losing = Some(Arc::clone(&info));
            nodes.put(&HubSubject::Lost(nodes.node.clone()), Some(info));
        }
        if kept.nodes.losing.is_none() {
            self.end_those_who_missed().await;
        }
    }

    /// Says whether somebody here wants to know who is subscribed, and wants to know it as long as
    /// somebody does anywhere.
    fn say_wants(&self, nodes: &OverNodes, kept: &mut ListState) {
        let is_wanted = self.subscriptions().is_wanted_here();
        let is_v1_wanted = self.subscriptions().is_v1_wanted();
        if (is_wanted, is_v1_wanted) != (kept.nodes.is_wanted, kept.nodes.is_v1_wanted) {
            (kept.nodes.is_wanted, kept.nodes.is_v1_wanted) = (is_wanted, is_v1_wanted);
            let wants = HubSubject::Wants(nodes.node.clone());
            match is_wanted {
                true => {
                    nodes.rooms.open(HUB);
                    nodes.put(&wants, kept.nodes.wants_info());
                }
                false => nodes.take(&wants),
            }
        }
        let of = &mut kept.nodes;
        let has_rested = of.rests_since.is_none_or(|since| since.elapsed() > REST);
        if !of.is_known && (is_wanted || of.is_heard && has_rested) {
            of.is_known = true;
            nodes.rooms.want(HUB);
        } else if of.is_known && of.is_settled && !is_wanted && of.wanting.is_empty() {
            (of.is_known, of.rests_since) = (false, Some(Instant::now()));
            nodes.rooms.unwant(HUB);
            self.forget_list(nodes, kept);
        }
    }

    /// Says all that this node has, as the directory has it.
    async fn say_all(&self, nodes: &OverNodes, of: &mut NodesState) {
        // What was noted before the directory has.
        drop(self.subscriptions().take());
        let (topics, router) = (Arc::clone(&self.topics), Arc::clone(&self.sender.router));
        let read = move || {
            let (mut own, mut subjects) = (SubscriptionTable::default(), Vec::new());
            visit_subscribed(&router, topics.subscriptions(), |held, who, payload| {
                if has_path(held) && own.insert(held, who, payload.clone()) {
                    subjects.push((HubSubject::Subscription(who, held.clone()), None));
                    let payload = payload.map(|payload| (HubSubject::Payload(who), Some(payload)));
                    subjects.extend(payload);
                }
                own.is_whole()
            });
            (own, subjects)
        };
        // It fails only while the runtime ends.
        let Ok((own, mut subjects)) = spawn_blocking(read).await else { return };
        forget(std::mem::replace(&mut of.own, own));
        subjects.extend(of.of_itself(&nodes.node));
        let subjects = subjects.into_iter();
        let all = subjects.filter_map(|(subject, info)| Some((subject.text()?.into(), info)));
        nodes.rooms.replace(HUB, all.collect());
        of.own_read_at = Some(Instant::now());
    }

    /// Publishes what is this node's turn to.
    async fn publish_pending(&self, kept: &mut ListState) {
        self.waiting().changes.extend(kept.nodes.give());
        let mut turn = Turn::default();
        while let Some(change) = self.next_change() {
            if !self.post(&change).await {
                return;
            }
            turn.posted().await;
        }
        for _ in 0..kept.nodes.take_late() {
            self.budget().lose();
        }
    }
}
