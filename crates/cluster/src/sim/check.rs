//! What must be true at the end, worked out in the plainest way from the logs themselves.

use std::collections::{BTreeMap, BTreeSet};

use super::client::Segment;
use super::plan::{Figures, Witness};
use super::world::World;
use crate::Outcome;
use crate::limits::INDEX_BITS;
use crate::record::{Body, Record};

/// An event that counts, in the log of an epoch.
#[derive(Debug)]
struct Counts {
    number: u64,
    subject: usize,
    send: usize,
    /// The nonces of the members at its place.
    members: BTreeSet<u64>,
}

/// What a log says to who reads it from its beginning.
fn read(base: u64, records: &[std::sync::Arc<[u8]>], voids: &mut u64) -> Vec<Counts> {
    // Incarnation to name, nonce, last batch.
    let mut members: BTreeMap<u64, (String, u64, u64)> = BTreeMap::new();
    let mut events = Vec::new();
    for (sequence, record) in (1..).zip(records) {
        let Record { head, body } = Record::decode(record).unwrap();
        match body {
            Body::Join(join) => {
                if join.founding.is_some() {
                    members.clear();
                }
                let newer = |member: &(String, u64, u64)| {
                    member.0 == join.name && member.1 > head.incarnation
                };
                if !members.values().any(newer) {
                    members.retain(|_, member| member.0 != join.name);
                    members.insert(sequence, (join.name, head.incarnation, 0));
                }
            }
            Body::Leave { incarnation, .. } => drop(members.remove(&incarnation)),
            Body::Graph(_) => {}
            Body::Order(_) | Body::Events(_) | Body::Rooms(_) => {
                let member = members.get_mut(&head.incarnation);
                let Some(member) = member.filter(|member| member.2 < head.batch) else {
                    *voids += 1;
                    continue;
                };
                member.2 = head.batch;
                let Body::Events(list) = body else { continue };
                let nonces: BTreeSet<u64> = members.values().map(|member| member.1).collect();
                for (index, event) in (0..).zip(list) {
                    events.push(Counts {
                        number: base + (sequence << INDEX_BITS | index),
                        subject: event.subject.parse().unwrap(),
                        send: event.line.parse().unwrap(),
                        members: nonces.clone(),
                    });
                }
            }
        }
    }
    events
}

impl World {
    /// Checks everything, and says what has happened.
    pub(super) fn check(mut self) -> Figures {
        self.check_hosts();
        let mut events = BTreeMap::new();
        for (&epoch, log) in &self.logs {
            let read = read(self.bases[&epoch], &log.all, &mut self.figures.voids);
            events.insert(epoch, read);
        }
        self.check_sends(&events);
        self.check_counts(&events);
        for client in &self.clients {
            for segment in &client.segments {
                self.figures.heard += segment.heard.len() as u64;
                self.check_segment(client.id, segment, &events[&segment.epoch]);
            }
        }
        self.check_damage();
        self.check_rooms();
        self.figures
    }

    /// All hosts are members, have read all, wait for nothing, and know the same.
    fn check_hosts(&self) {
        let last = self.logs[&self.epoch.number].last();
        let mut sums = BTreeSet::new();
        for (index, one) in self.hosts.iter().enumerate() {
            let node = one.node.as_ref().expect("all are there again");
            let status = node.status();
            assert!(one.open && status.incarnation.is_some(), "host {index}: {status:?}");
            assert_eq!(one.epoch, self.epoch.number, "host {index}: {status:?}");
            if self.plan.revocations > 0 {
                // Some always prove what they have read.
                let near = |at: u64| at + 2 * self.hosts.len() as u64 > last;
                assert!(near(status.read) && near(status.applied), "host {index}: {status:?}");
                assert!(status.outstanding < 2 && one.tickets.is_empty(), "host {index}");
                continue;
            }
            assert_eq!((status.read, status.applied), (last, last), "host {index}");
            assert_eq!(status.members, self.hosts.len(), "host {index}");
            let waits = status.queued + status.outstanding + status.counting;
            assert_eq!((waits, status.broken, one.tickets.len()), (0, false, 0), "host {index}");
            assert!(one.greatest < self.epoch.base, "numbers grow from epoch to epoch");
            sums.insert(node.chain_at(last));
            assert_eq!(one.graph.place, self.store.graph.place, "host {index}");
            assert!(one.graph.pairs == self.store.graph.pairs, "host {index}");
            assert!(one.waiting.is_empty(), "host {index} has a change that nobody answered");
        }
        assert!(sums.len() == 1 || self.plan.revocations > 0, "all have the same sum over the log");
    }

    /// A send is in the log once or not at all, and as its sender was told; each sender's are in
    /// the order in which they were sent.
    fn check_sends(&self, events: &BTreeMap<u64, Vec<Counts>>) {
        let mut places: BTreeMap<usize, Vec<(u64, u64)>> = BTreeMap::new();
        let mut last: BTreeMap<(usize, u64), usize> = BTreeMap::new();
        for (&epoch, events) in events {
            for event in events.iter().filter(|event| !self.is_unread(epoch, event)) {
                places.entry(event.send).or_default().push((epoch, event.number));
                let sender = self.sends[event.send].sender;
                let before = last.insert(sender, event.send);
                assert!(before.is_none_or(|before| before < event.send), "{sender:?} in order");
            }
        }
        // Whoever was told of an epoch has heard its gap, and hears nothing of the log before.
        for (&epoch, events) in events {
            let Some(&agreed_ms) = self.agreed_ms.get(&(epoch + 1)) else { continue };
            for event in events {
                let sent_ms = self.sends[event.send].at_ms;
                assert!(
                    sent_ms <= agreed_ms,
                    "{event:?} is in a log that had ended at {agreed_ms}"
                );
            }
        }
        let damaged = self.logs.values().any(|log| log.damaged);
        for (index, send) in self.sends.iter().enumerate() {
            let places = places.get(&index).map_or(&[][..], Vec::as_slice);
            assert!(places.len() <= 1, "send {index} is at {places:?}");
            match send.outcome {
                Some(Outcome::Sent { number, .. }) => {
                    let there = places.first().is_some_and(|&(_, place)| place == number);
                    assert!(there || damaged, "send {index} is not at {number}: {places:?}");
                }
                Some(Outcome::NotSent) => assert_eq!(places, [], "send {index} was not sent"),
                Some(Outcome::MayBeSent) | None => {}
            }
        }
    }

    /// Whether the very host that has published it has read something else in its place: in a log
    /// that differs, or what was lost before a late copy came there. Where nobody acknowledges it
    /// either, it cannot know, and publishes it again. Whoever has read it there knows better, and
    /// ends the log if it lives ([`World::check_damage`]).
    fn is_unread(&self, epoch: u64, event: &Counts) -> bool {
        let log = &self.logs[&epoch];
        let sequence = (event.number - self.bases[&epoch]) >> INDEX_BITS;
        let (sender, _) = self.sends[event.send].sender;
        let forked =
            log.fork.as_ref().is_some_and(|(host, at, _)| (*host, *at) == (sender, sequence));
        let there = &log.all[sequence as usize - 1];
        let mut seen = self
            .witnesses
            .iter()
            .filter(|one| (one.epoch, one.host, one.sequence) == (epoch, sender, sequence));
        forked || seen.any(|one| one.record != *there)
    }

    /// What senders were told is how many have heard it.
    fn check_counts(&self, events: &BTreeMap<u64, Vec<Counts>>) {
        for (epoch, events) in events.iter().filter(|(epoch, _)| !self.logs[epoch].damaged) {
            for event in events {
                let Some(Outcome::Sent { delivered, at_least, .. }) =
                    self.sends[event.send].outcome
                else {
                    continue;
                };
                let posted = self.posted.get(&(*epoch, event.number));
                let posted = posted.map_or(&[][..], Vec::as_slice);
                let of_members = posted.iter().filter(|(nonce, _)| event.members.contains(nonce));
                let heard: u64 = of_members.clone().map(|&(_, count)| u64::from(count)).sum();
                let send = event.send;
                if at_least {
                    assert!(delivered <= heard, "send {send}: at least {delivered} of {heard}");
                } else {
                    assert_eq!(delivered, heard, "send {send}");
                    assert_eq!(of_members.count(), event.members.len(), "send {send}");
                }
            }
        }
    }

    /// A client has heard all that it must, up to the last that it heard, or up to the end.
    fn check_segment(&self, id: usize, segment: &Segment, events: &[Counts]) {
        let damaged = self.logs[&segment.epoch].damaged;
        let mut heard = segment.heard.iter().copied().peekable();
        let at_end = !segment.ended && segment.epoch == self.epoch.number;
        let end = if at_end { u64::MAX } else { segment.place() };
        for event in events.iter().filter(|event| segment.start < event.number) {
            if event.number > end {
                break;
            }
            let pair = self.pairs.get(&(id, event.subject));
            let send = &self.sends[event.send];
            let what = format!(
                "client {id}, {pair:?}, {event:?} of {send:?}, from {} to {end}",
                segment.start
            );
            if heard.next_if_eq(&(event.number, event.send)).is_some() {
                assert!(self.may_hear(id, event), "{what}: heard what is not for it");
            } else {
                assert!(damaged || !self.must_hear(id, event), "{what}: missed");
            }
        }
        assert!(damaged || heard.next().is_none(), "client {id} heard what is not in the log");
    }

    fn must_hear(&self, id: usize, event: &Counts) -> bool {
        let pair = self.pairs.get(&(id, event.subject));
        let acked = pair.filter(|pair| !pair.removed).and_then(|pair| pair.acked_step);
        id == event.subject || acked.is_some_and(|acked| acked < self.sends[event.send].step)
    }

    fn may_hear(&self, id: usize, event: &Counts) -> bool {
        let pair = self.pairs.get(&(id, event.subject));
        id == event.subject || pair.is_some_and(|pair| pair.added)
    }

    /// Whoever has read what is not in the log, and lives or has kept its place, has ended that
    /// log. A record that was lost may have come again, to the same place. Or a late copy of
    /// another one has come there,
    /// which counts for nobody: who has read what was there before goes on as all others do, and
    /// whoever reads the copy has another sum. And where all who began with a sum from before have
    /// ended since, nobody can know that one of them has read it otherwise.
    fn check_damage(&self) {
        for Witness { epoch, host, process, sequence, record, kept } in &self.witnesses {
            let lives = *kept || self.hosts[*host].process == *process;
            let log = &self.logs[epoch];
            let there = log.all.get(*sequence as usize - 1);
            let forked =
                log.fork.as_ref().is_some_and(|(who, at, _)| (who, at) == (host, sequence));
            let others = self.hosts.iter().enumerate().filter(|(other, _)| other != host);
            let mut known = others.filter_map(|(_, one)| one.node.as_ref()?.status().incarnation);
            let nobody_knows = forked && !known.any(|joined| joined < *sequence);
            let copies = log.all.iter().filter(|one| Some(*one) == there).count();
            let same = there == Some(record) || !forked && copies > 1;
            let text = |record: &[u8]| Record::decode(record).map(|record| format!("{record:?}"));
            let there = there.map(|there| text(there));
            let what = format!(
                "host {host} has read {:?} at {sequence} in the log of {epoch}, not {there:?}",
                text(record)
            );
            assert!(!lives || same || nobody_knows || self.epoch.number > *epoch, "{what}");
        }
    }
}
