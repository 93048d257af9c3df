//! How a process begins: its name, what it knows, and the replica that it finds.

use super::plan;
use super::world::{Event, PART_BYTES, World};
use crate::{Config, Known, Node};

impl World {
    /// The name of a process that begins: its host's, or another one that nobody has, or one that
    /// somebody has who lives.
    fn name(&mut self, host: usize) -> usize {
        let takes = self.is_faulty() && self.one_in(self.plan.take_name);
        let living = self.hosts.iter().filter(|one| one.node.is_some()).map(|one| one.name);
        let living: Vec<usize> = living.collect();
        let taken = if takes { self.random.choice(&living).copied() } else { None };
        if taken.is_some() {
            self.figures.note(plan::TAKE_NAME);
        }
        let mut free = (host..host + self.hosts.len()).map(|name| name % self.hosts.len());
        taken.or_else(|| free.find(|name| !living.contains(name))).expect("one is free")
    }

    /// A process begins.
    pub(super) fn start(&mut self, host: usize) {
        if self.hosts[host].node.is_some() {
            return;
        }
        if self.is_cut(host) {
            return self.after(500, Event::Start { host });
        }
        let log = &self.logs[&self.epoch.number];
        let (epoch, sequence) = (self.epoch.number, log.last());
        let away = self.store.away_until_ms > self.now;
        let name = self.name(host);
        let one = &mut self.hosts[host];
        let known = if !away {
            self.store.catch_up(&mut one.graph);
            one.follow_at = sequence + 1;
            Known::Read { epoch, sequence }
        } else if one.graph_at.epoch == epoch {
            one.follow_at = one.graph_at.sequence;
            self.figures.since += 1;
            Known::Since(one.graph_at)
        } else {
            Known::Nothing
        };
        // Grows from start to start, and never 0.
        self.order += 1;
        one.nonce = self.now << 20 | self.order & 0xf_ffff;
        one.epoch = self.epoch.number;
        one.last_posted = self.epoch.base;
        one.name = name;
        let name = format!("n{name}");
        let proves = self.plan.revocations > 0;
        let config = Config { name, address: String::new(), nonce: one.nonce, proves };
        let mut node = Node::new(self.now, config, self.epoch, one.graph.place, known);
        if one.graph_at.epoch == epoch {
            node.was_at(one.graph_at);
            one.follow_at = one.follow_at.min(one.graph_at.sequence);
        }
        node.cut_small(PART_BYTES);
        one.node = Some(node);
        self.drive(host, |_, _| {});
    }
}
