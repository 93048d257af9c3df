//! What goes wrong, when and for how long: drawn by a seed, and told in words.

use std::fmt::{self, Display};
use std::time::Duration;

/// How many nodes there are.
pub(super) const NODES: usize = 3;

/// Something that goes wrong for a while, and is mended then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// SIGKILL; started again on the same store.
    NodeKilled(usize),
    /// SIGSTOP; SIGCONT.
    NodeStopped(usize),
    /// SIGTERM: it leaves in order; started again.
    NodeEnded(usize),
    /// Between a node and NATS.
    NatsNet(usize, Net),
    /// Between a node and PostgreSQL.
    PostgresNet(usize, Net),
    /// One of its servers: SIGKILL; started again on the same store.
    NatsKilled(usize),
    /// One of its servers: SIGSTOP; SIGCONT.
    NatsStopped(usize),
    /// The store is saved at the beginning and put back at the end.
    NatsOlder,
    /// The stores of these of its servers (a bit each) are saved at the beginning. At the end those
    /// servers are killed together, and have what was saved.
    NatsOlderOf(u8),
    /// These of its servers (a bit each) are killed together at the end, and have nothing any more.
    NatsWiped(u8),
    /// Its disk is full; then it has room again, and NATS is started anew.
    NatsFull,
    /// All its processes are killed; started again.
    PostgresKilled,
}

/// What happens to bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Net {
    /// Connections end, and none begins.
    Refuse,
    /// They come this many ms late.
    Delay(u64),
    /// They come when it is over.
    Hold,
    /// They vanish, and so do connections when it is over.
    Swallow,
    /// Only what the server says does.
    SwallowAnswers,
}

impl Fault {
    /// What can have one fault at a time.
    fn target(self) -> (u8, usize) {
        match self {
            Fault::NodeKilled(node) | Fault::NodeStopped(node) | Fault::NodeEnded(node) => {
                (0, node)
            }
            Fault::NatsNet(node, _) => (1, node),
            Fault::PostgresNet(node, _) => (2, node),
            // Of three servers two must be there.
            Fault::NatsKilled(_) | Fault::NatsStopped(_) => (3, 0),
            Fault::NatsOlder | Fault::NatsOlderOf(_) | Fault::NatsWiped(_) => (3, 0),
            Fault::NatsFull => (3, 0),
            Fault::PostgresKilled => (4, 0),
        }
    }

    /// Whether what NATS had acknowledged may be lost, which everybody is told then.
    pub(super) fn loses_log(self) -> bool {
        matches!(self, Fault::NatsOlder | Fault::NatsOlderOf(_) | Fault::NatsWiped(_))
    }

    /// Whether that node may be no member meanwhile.
    pub(super) fn concerns(self, node: usize) -> bool {
        match self {
            Fault::NodeKilled(ill) | Fault::NodeStopped(ill) | Fault::NodeEnded(ill) => ill == node,
            Fault::NatsNet(ill, _) => ill == node,
            Fault::PostgresNet(..) | Fault::PostgresKilled => false,
            Fault::NatsKilled(_) | Fault::NatsStopped(_) => true,
            Fault::NatsOlder | Fault::NatsOlderOf(_) | Fault::NatsWiped(_) => true,
            Fault::NatsFull => true,
        }
    }
}

/// A fault in its time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) from: Duration,
    pub(super) until: Duration,
    pub(super) fault: Fault,
}

/// All that goes wrong in a run.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    /// In the order of their beginning.
    pub(super) steps: Vec<Step>,
    pub(super) nats: Nats,
}

/// What keeps the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Nats {
    One,
    /// One on a small disk of its own, which can be filled.
    SmallDisk,
    /// Three that are a cluster.
    Three,
}

impl Plan {
    /// The plan of a seed for a run of that length.
    pub(super) fn of(seed: u64, length: Duration) -> Plan {
        let mut random = fastrand::Rng::with_seed(seed);
        // Each run has its kinds of trouble: where all come at once, none is seen.
        let nats = match random.u8(..10) {
            0..2 => Nats::SmallDisk,
            2..5 => Nats::Three,
            _ => Nats::One,
        };
        let kinds: Vec<u8> = (0..10).filter(|_| random.bool()).collect();
        let mut steps: Vec<Step> = Vec::new();
        let end = length.as_millis() as u64;
        let mut at = random.u64(500..1_500);
        while at + 300 < end {
            let lasts =
                if random.u8(..3) == 0 { random.u64(3_000..6_000) } else { random.u64(100..2_500) };
            let (from, until) = (at, (at + lasts).min(end));
            let kind = *random.choice(&kinds).unwrap_or(&0);
            let fault = fault(&mut random, kind, nats);
            let (from, until) = (Duration::from_millis(from), Duration::from_millis(until));
            let busy = |step: &Step| step.fault.target() == fault.target() && step.until >= from;
            if !steps.iter().any(busy) {
                steps.push(Step { from, until, fault });
            }
            at += random.u64(200..2_500);
        }
        Plan { seed, steps, nats }
    }

    /// A plan in which that alone goes wrong, once and for half a second.
    #[cfg(test)]
    pub(super) fn of_one(fault: Fault) -> Plan {
        let [from, until] = [500, 1_000].map(Duration::from_millis);
        Plan { seed: 1, steps: vec![Step { from, until, fault }], nats: Nats::One }
    }

    /// A plan in which stores of NATS are put back or wiped while nodes are killed, stopped or cut
    /// off, and only that.
    pub(super) fn of_stores(seed: u64, length: Duration) -> Plan {
        let mut random = fastrand::Rng::with_seed(seed);
        let nats = if random.bool() { Nats::Three } else { Nats::One };
        let servers = if nats == Nats::Three { random.u8(1..8) } else { 1 };
        let store = match random.u8(..4) {
            0 => Fault::NatsWiped(servers),
            _ => Fault::NatsOlderOf(servers),
        };
        let end = length.as_millis() as u64;
        let at = Duration::from_millis;
        let put_back = random.u64(end / 3..end * 2 / 3);
        let saved = random.u64(500..put_back.saturating_sub(200).max(501));
        let mut steps = vec![Step { from: at(saved), until: at(put_back), fault: store }];
        for node in 0..NODES {
            let fault = match random.u8(..4) {
                0 => continue,
                1 => Fault::NodeStopped(node),
                2 => Fault::NatsNet(node, net(&mut random)),
                _ => Fault::NodeKilled(node),
            };
            // Some read the tail that is lost and others do not.
            let from = put_back.saturating_sub(random.u64(1..900));
            let until = (put_back + random.u64(100..3_000)).min(end);
            steps.push(Step { from: at(from), until: at(until), fault });
        }
        steps.sort_by_key(|step| step.from);
        Plan { seed, steps, nats }
    }
}

impl Plan {
    /// The kinds of faults, in a word each.
    pub(super) fn kinds(&self) -> String {
        let word = |step: &Step| format!("{:?}", step.fault);
        let words = self.steps.iter().map(word).map(|word| word.replace(['(', ')', ','], " "));
        let mut words: Vec<String> =
            words.map(|word| word.split(' ').next().unwrap_or_default().to_owned()).collect();
        words.sort();
        words.dedup();
        format!("NATS: {:?}; {}", self.nats, words.join(" "))
    }
}

fn fault(random: &mut fastrand::Rng, kind: u8, nats: Nats) -> Fault {
    let node = random.usize(..NODES);
    match kind {
        0 => Fault::NodeKilled(node),
        1 => Fault::NodeEnded(node),
        2 => Fault::NodeStopped(node),
        3 | 4 => Fault::NatsNet(node, net(random)),
        5 => Fault::PostgresNet(node, net(random)),
        6 => Fault::PostgresKilled,
        7 | 8 if nats == Nats::SmallDisk => Fault::NatsFull,
        7 if nats == Nats::One => Fault::NatsOlder,
        _ => {
            let server = if nats == Nats::Three { random.usize(..3) } else { 0 };
            if random.bool() { Fault::NatsStopped(server) } else { Fault::NatsKilled(server) }
        }
    }
}

fn net(random: &mut fastrand::Rng) -> Net {
    match random.u8(..5) {
        0 => Net::Refuse,
        1 => Net::Delay(random.u64(5..400)),
        2 => Net::Hold,
        3 => Net::Swallow,
        _ => Net::SwallowAnswers,
    }
}

impl Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "plan of seed {}, NATS: {:?}", self.seed, self.nats)?;
        for Step { from, until, fault } in &self.steps {
            let (from, until) = (from.as_secs_f64(), until.as_secs_f64());
            writeln!(f, "  {from:6.2} s to {until:6.2} s  {fault:?}")?;
        }
        Ok(())
    }
}
