//! What the actions of a node do here, and what becomes of a replica.

use super::world::{Event, World};
use crate::{Action, CoreSubject, Epoch, GraphPlace};

impl World {
    pub(super) fn moved(&mut self, host: usize) {
        let one = &mut self.hosts[host];
        let place: GraphPlace = one.graph.place;
        self.drive(host, |node, now| node.graph(now, place));
    }

    /// Who gives up a log says the greatest number that was given in it, as far as its host knows.
    fn check_above(&self, host: usize, above: u64) {
        let one = &self.hosts[host];
        let epoch = Epoch { number: one.epoch, base: self.bases[&one.epoch] };
        let known = one.last_posted.max(epoch.behind(one.was_at)).max(one.greatest);
        assert!(above >= known, "host {host} has given {known}, and says {above}");
    }

    /// Who asked for a change is answered.
    fn acknowledge(&mut self, host: usize, applied: u64) {
        let one = &mut self.hosts[host];
        assert!(one.graph.place.version >= applied);
        for (version, asked) in std::mem::take(&mut one.waiting) {
            if version == applied {
                let pair = self.asked[asked];
                self.pairs.entry(pair).or_default().acked_step.get_or_insert(self.step);
            } else {
                one.waiting.push((version, asked));
            }
        }
    }

    /// What an action does here.
    pub(super) fn act(&mut self, host: usize, action: Action) {
        let process = self.hosts[host].process;
        let wait = self.random.u64(0..3);
        match action {
            Action::Follow { epoch, from } => {
                self.after(wait, Event::Follow { host, process, epoch, from, opens: true });
            }
            Action::Publish { epoch, id, record } => self.publish(host, epoch, &id, &record),
            Action::Core { to, bytes } => {
                self.figures.needs += u64::from(matches!(to, CoreSubject::Need(_)));
                self.send_core(host, to, &bytes);
            }
            Action::ProposeEpoch { epoch, above, fault } => {
                *self.figures.faults.entry(format!("{fault:?}")).or_default() += 1;
                self.check_above(host, above);
                let wait = self.server_ms();
                self.after(wait, Event::Seal { host, process, epoch, above });
                // Its own watch tells it of an epoch that it has missed.
                self.after(100, Event::Epoch { host, process });
            }
            Action::Apply(change) => self.after(wait, Event::Apply { host, process, change }),
            Action::ReadChanges => {
                self.figures.reads += 1;
                self.after(wait, Event::ReadChanges { host, process });
            }
            Action::FetchChange { version } => {
                self.after(wait, Event::Fetch { host, process, version });
            }
            Action::CheckVersion { ask } => {
                // What is asked while the store is away has no answer.
                let wait = self.server_ms();
                self.after(wait, Event::CheckVersion { host, process, ask });
            }
            Action::ChangeApplied { version, .. } => self.acknowledge(host, version),
            Action::RebuildGraph => panic!("sets of equal versions are equal here"),
            Action::NewerMessage => panic!("all nodes of this world are of one version"),
            Action::Unreadable { sequence } => {
                panic!("all records of this world are read: {sequence}")
            }
            Action::Rooms(step) => self.queue_room_step(host, step),
            served => self.serve(host, served),
        }
    }
}
