//! What the node asks for, done or begun.

use std::time::Duration;

use cluster::{Action, Deliver, EndReason, GraphPlace, LogFault, Once, Outcome, Ticket};
use hub::EventId;
use sys::clock;

use super::{NodeLoop, WaitingSender};
use crate::cluster::agreement;
use crate::cluster::log_applier::{Counted, LogPlace, Work};
use crate::cluster::replica_sync::{DIFFERS, Kept, Task, UNREADABLE};
use crate::cluster::status::Membership;
use crate::cluster::tasks::{self, Happened};
use crate::outcome::{Delivered, LogTrouble};

impl NodeLoop {
    /// Does what the node asks for.
    pub(super) fn act(&mut self) {
        while let Some(action) = self.node.next_action() {
            match action {
                Action::Follow { epoch, from } => {
                    self.wanted = Some((epoch, from));
                    self.open();
                }
                Action::Publish { epoch, id, record } => {
                    let log = self.following.as_ref().map(|following| &following.log);
                    match log.filter(|log| log.epoch() == epoch) {
                        Some(log) => {
                            let record = bytes::Bytes::from_owner(record);
                            tasks::publish(&mut self.tasks, log.clone(), id, record);
                        }
                        None => tasks::refuse(&mut self.tasks, epoch, id),
                    }
                }
                Action::Core { to, bytes } => self.messages.send(to, bytes),
                Action::ProposeEpoch { epoch, above, fault } => self.propose(epoch, above, fault),
                Action::EpochBegan(_) => {
                    tracing::warn!(
                        epoch = self.agreed.epoch().number,
                        "the cluster has another log: all streams are told of a gap"
                    );
                    self.status.gaps += 1;
                    self.admitting.forget();
                    self.work.clear();
                    self.work.push_back(Work::Epoch(self.agreed.hub_epoch()));
                }
                Action::Gap { after } => {
                    tracing::warn!("the cluster's log was trimmed before this node had read it");
                    self.status.gaps += 1;
                    self.admitting.forget();
                    self.work.push_back(Work::Gap(after));
                }
                Action::Deliver(deliver) => self.deliver(deliver),
                Action::Obey { sequence, order } => {
                    let place = self.place(sequence, 0);
                    self.work.push_back(Work::Order { place, order });
                }
                Action::Answer { ticket, outcome } => self.answer(ticket, outcome),
                Action::Joined { incarnation } => {
                    tracing::info!(incarnation, "this node is a member of the cluster");
                    self.messages.listen_as(incarnation);
                    self.admitting.learn(&mut self.tasks, &self.nats);
                    self.status.membership = Membership::Member;
                    self.times.clear();
                }
                // Of its own will.
                Action::Left if self.leaving => {}
                Action::Left => {
                    tracing::warn!("the others have declared this node gone: it joins again");
                    self.status.membership = Membership::Away;
                }
                Action::Unreadable { sequence } => {
                    if let Some(more) = self.unreadable.due(tokio::time::Instant::now()) {
                        tracing::error!(
                            sequence,
                            more,
                            "a record of the cluster's log cannot be read, as so many before it"
                        );
                    }
                }
                Action::NewerMessage => {
                    if let Some(more) = self.newer.due(tokio::time::Instant::now()) {
                        tracing::error!(
                            more,
                            "another node of the cluster is of a newer version, whose messages \
                             this one cannot read, as so many before: start that version here too"
                        );
                    }
                }
                Action::Rooms(step) => self.rooms.push(step),
                Action::End(reason) => self.end(reason),
                Action::ChangeApplied { version, hash } => {
                    if let Some(replica) = &self.replica {
                        replica.obey.send_modify(|obeyed| obeyed.note(version, hash));
                    }
                }
                Action::Apply(change) => self.keep(Task::Apply(change)),
                Action::ReadChanges => self.keep(Task::ReadChanges),
                Action::FetchChange { version } => self.keep(Task::FetchChange(version)),
                Action::CheckVersion { ask } => self.keep(Task::CheckVersion(ask)),
                Action::RebuildGraph => self.keep(Task::Rebuild(DIFFERS)),
            }
        }
    }

    /// Tells the node what the log applier has counted.
    pub(super) fn count(&mut self, counts: &mut Vec<Counted>) {
        let now = clock::monotonic_ms();
        for Counted { place, count } in counts.drain(..) {
            let LogPlace { epoch, sequence, index } = place;
            match count {
                Some(count) => self.node.posted(now, epoch, sequence, index, count),
                None => {
                    self.node.unposted(now, epoch, sequence, index);
                    self.status.gaps += 1;
                    self.keep(Task::Rebuild(UNREADABLE));
                }
            }
        }
    }

    /// Lets the graph do what the node asks of it. Without a store of record it stands still.
    ///
    /// Nobody waits for it: what finds no room is dropped, and asked for again.
    fn keep(&mut self, task: Task) {
        let Some(replica) = &self.replica else {
            return match task {
                Task::CheckVersion(ask) => self.kept(Kept::Latest { ask, version: 0 }),
                _ => self.kept(Kept::At(GraphPlace::default())),
            };
        };
        let _ = replica.tasks.try_send(task);
    }

    pub(super) fn kept(&mut self, kept: Kept) {
        let now = clock::monotonic_ms();
        match kept {
            Kept::At(place) => self.node.graph(now, place),
            Kept::Renewed(place) => self.node.graph_renewed(now, place),
            Kept::Change(change) => self.node.change(now, change),
            Kept::Latest { ask, version } => self.node.latest_version(now, ask, version),
        }
    }

    fn propose(&mut self, epoch: u64, above: u64, fault: LogFault) {
        let words = agreement::words(fault);
        tracing::warn!(epoch, "the cluster's log cannot be gone on from: {words}");
        self.propose_after(Duration::ZERO, epoch, above, words);
    }

    /// Proposes the next epoch after `pause`, because ours was put back.
    pub(super) fn propose_anew(&mut self, pause: Duration) {
        let (epoch, above) = (self.agreed.epoch().number + 1, self.node.above());
        tracing::warn!(epoch, "{}", agreement::PUT_BACK);
        self.propose_after(pause, epoch, above, agreement::PUT_BACK);
    }

    fn propose_after(&mut self, pause: Duration, epoch: u64, above: u64, words: &'static str) {
        let (nats, revision) = (self.nats.clone(), self.agreed.revision);
        let above = above.max(self.router.event_ids().last());
        self.tasks.spawn(async move {
            tokio::time::sleep(pause).await;
            // Nobody may put anything into a log that the others have left.
            if let Err(error) = nats.seal(epoch - 1).await {
                tracing::warn!("the log of the epoch before could not be sealed: {error}");
                return Happened::Proposed;
            }
            if let Err(error) = agreement::propose(&nats, revision, epoch, above, words).await {
                tracing::warn!("no other log could be proposed: {error:#}");
            }
            Happened::Proposed
        });
    }

    fn place(&self, sequence: u64, index: u16) -> LogPlace {
        LogPlace { epoch: self.agreed.epoch().number, sequence, index }
    }

    fn deliver(&mut self, deliver: Deliver) {
        let Deliver { sequence, index, number, event } = deliver;
        self.traced.read(number);
        let place = self.place(sequence, index);
        let id = EventId::new(number, self.agreed.tag());
        let age_ms = (self.status.membership == Membership::Joining).then(|| self.age_ms(sequence));
        self.work.push_back(Work::Event { place, id, event, age_ms });
    }

    /// How long ago the log took the record `sequence`.
    fn age_ms(&mut self, sequence: u64) -> u64 {
        while self.times.front().is_some_and(|(of, _)| *of < sequence) {
            self.times.pop_front();
        }
        let time_ns = self.times.front().map_or(0, |(_, time_ns)| *time_ns);
        clock::unix_ms().saturating_sub(time_ns / 1_000_000)
    }

    fn answer(&mut self, ticket: Ticket, outcome: Outcome) {
        self.traced.end(ticket, outcome);
        let Some(WaitingSender { reply, durable, once }) = self.replies.remove(&ticket) else {
            return;
        };
        let outcomes = &mut self.status.outcomes;
        let answer = match outcome {
            Outcome::Sent { number, delivered, at_least } => {
                let counter = if at_least { &mut outcomes.at_least } else { &mut outcomes.counted };
                *counter += 1;
                // Numbers of an epoch are above all of those before it.
                let is_earlier = number < self.agreed.epoch().base;
                let tag = if is_earlier { self.tag_before } else { self.agreed.tag() };
                let id = EventId::new(number, tag).to_string();
                let id = id.as_bytes().try_into().expect("ids have 16 letters and digits");
                let count = u32::try_from(delivered).unwrap_or(u32::MAX);
                let delivered = Ok(Delivered { id, count, at_least });
                if durable && once.is_some_and(|once| self.keys.first_of(once).is_none()) {
                    // Told before it was read here: which event of its key is written down, if
                    // there are several, is not known yet.
                    let _ = reply.send(Err(LogTrouble::NotDurable));
                    return;
                }
                if durable && let Some(number) = self.number_on_disk(number, once) {
                    // Clients have heard it: where it cannot be written nobody knows what stays.
                    let done = move |is_durable: bool| {
                        let _ = reply.send(if is_durable {
                            delivered
                        } else {
                            Err(LogTrouble::NotDurable)
                        });
                    };
                    return self.router.when_durable(number, Box::new(done));
                }
                delivered
            }
            Outcome::NotSent => {
                outcomes.not_sent += 1;
                Err(LogTrouble::Away)
            }
            Outcome::MayBeSent => {
                outcomes.unknown += 1;
                Err(LogTrouble::Silent)
            }
        };
        // Who has gone away does not need it.
        let _ = reply.send(answer);
    }

    /// The number that is to be on disk where the log has the event `number`, which is known by
    /// `once`.
    ///
    /// Of events that are known by one key the first is posted and written down. The disk would
    /// never say of another one that it is there. `None` where the first one says something else:
    /// this one is refused.
    fn number_on_disk(&self, number: u64, once: Option<Once>) -> Option<u64> {
        let Some((first, says_the_same)) = once.and_then(|once| self.keys.first_of(once)) else {
            return Some(number);
        };
        says_the_same.then(|| EventId::parse(&first).map_or(number, EventId::number))
    }

    fn end(&mut self, reason: EndReason) {
        self.ended = true;
        match reason {
            EndReason::Drained => return,
            EndReason::NameTaken => tracing::error!(
                "another node has joined the cluster under this node's name (--node): this one ends"
            ),
            EndReason::Newer { sequence, format } => tracing::error!(
                sequence,
                "a newer version of Encke has written a record of format {format} into the \
                 cluster's log, and this one reads none past {}: it ends, so that nothing is \
                 passed over; start the newer version here",
                cluster::FORMAT_MAX
            ),
        }
        self.stop.cancel();
    }
}
