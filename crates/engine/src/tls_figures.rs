//! What is counted of TLS, by worker: handshakes by what they came to, and connections that broke
//! its rules.

use tls::{Agreed, Alert, Failure, Fault, Suite, Version};

use crate::count::SingleWriterCount;

/// Versions, suites, resumed or not.
const KINDS: usize = 8;

/// Alerts by who sent them.
const ALERTS: usize = Alert::NAMED.len();

/// One worker's counters.
#[derive(Debug, Default)]
pub(crate) struct TlsCounters {
    agreed: [SingleWriterCount; KINDS],
    named: SingleWriterCount,
    /// Handshakes that we refused, and that the client did.
    refused: [SingleWriterCount; ALERTS],
    received: [SingleWriterCount; ALERTS],
    other: [SingleWriterCount; OTHERS.len()],
    /// Clients within their handshake that went for others.
    pub(crate) displaced: SingleWriterCount,
    /// Connections that ended by a record, by the alert that we sent.
    faults: [SingleWriterCount; ALERTS],
    /// Handshakes under way now.
    pub(crate) under_way: SingleWriterCount,
}

/// Why a handshake ended without an alert.
const OTHERS: [(Failure, &str); 4] = [
    (Failure::Ended, "ended"),
    (Failure::TooLong, "too_long"),
    (Failure::NotTls, "not_tls"),
    (Failure::Keys, "keys"),
];

/// One worker's figures at one moment, or those of all.
#[derive(Clone, Copy, Debug)]
pub struct TlsSnapshot {
    agreed: [u64; KINDS],
    /// Handshakes in which the client has named the server.
    pub named: u64,
    refused: [u64; ALERTS],
    received: [u64; ALERTS],
    other: [u64; OTHERS.len()],
    displaced: u64,
    faults: [u64; ALERTS],
    /// Handshakes under way.
    pub under_way: u64,
}

impl Default for TlsSnapshot {
    fn default() -> TlsSnapshot {
        TlsCounters::default().snapshot()
    }
}

impl TlsCounters {
    pub(crate) fn agreed(&self, agreed: Agreed) {
        self.agreed[index(agreed.version, agreed.suite, agreed.resumed)].add(1);
        self.named.add(u64::from(agreed.named));
    }

    pub(crate) fn failed(&self, failure: Failure) {
        match failure {
            Failure::Refused(alert) => self.refused[alert.index()].add(1),
            Failure::Received(alert) => self.received[alert.index()].add(1),
            other => {
                let place = OTHERS.iter().position(|(failure, _)| *failure == other);
                self.other[place.unwrap_or(OTHERS.len() - 1)].add(1);
            }
        }
    }

    /// A connection has ended by a record. Alerts of the peer's own are its business.
    pub(crate) fn faulted(&self, fault: Fault) {
        if let Some(alert) = fault.alert() {
            self.faults[alert.index()].add(1);
        }
    }

    pub(crate) fn snapshot(&self) -> TlsSnapshot {
        let read =
            |counts: &[SingleWriterCount; ALERTS]| std::array::from_fn(|at| counts[at].read());
        TlsSnapshot {
            agreed: std::array::from_fn(|at| self.agreed[at].read()),
            named: self.named.read(),
            refused: read(&self.refused),
            received: read(&self.received),
            other: std::array::from_fn(|at| self.other[at].read()),
            displaced: self.displaced.read(),
            faults: read(&self.faults),
            under_way: self.under_way.read(),
        }
    }
}

fn index(version: Version, suite: Suite, resumed: bool) -> usize {
    4 * usize::from(version == Version::Tls12)
        + 2 * usize::from(suite == Suite::ChaCha20Poly1305)
        + usize::from(resumed)
}

impl TlsSnapshot {
    /// Handshakes that ended well, by version, suite, and whether the client was back.
    pub fn handshakes(&self) -> impl Iterator<Item = (Version, Suite, bool, u64)> + '_ {
        [Version::Tls13, Version::Tls12]
            .into_iter()
            .flat_map(|version| [Suite::Aes128Gcm, Suite::ChaCha20Poly1305].map(|s| (version, s)))
            .flat_map(|(version, suite)| [false, true].map(|back| (version, suite, back)))
            .map(|(version, suite, back)| {
                (version, suite, back, self.agreed[index(version, suite, back)])
            })
    }

    /// Handshakes that did not, by who said so (`server`, `client`, or nobody) and by what: those
    /// that there were.
    pub fn failures(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> + '_ {
        let by = |who, counts: &[u64; ALERTS]| {
            let counts = *counts;
            (0..ALERTS).map(move |at| (who, Alert::NAMED[at].1, counts[at]))
        };
        let others =
            OTHERS.iter().zip(self.other).map(|((_, name), count)| ("nobody", *name, count));
        let displaced = [("nobody", "displaced", self.displaced)];
        let all = by("server", &self.refused).chain(by("client", &self.received)).chain(others);
        let all = all.chain(displaced);
        all.filter(|(_, _, count)| *count > 0)
    }

    /// Connections that broke the rules behind their handshake, by the alert that they were sent:
    /// those that there were.
    pub fn faults(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let named = self.faults.iter().zip(Alert::NAMED);
        named.map(|(count, (_, name))| (name, *count)).filter(|(_, count)| *count > 0)
    }

    pub(crate) fn add(&mut self, other: &TlsSnapshot) {
        let add = |sums: &mut [u64], values: &[u64]| {
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        };
        add(&mut self.agreed, &other.agreed);
        add(&mut self.refused, &other.refused);
        add(&mut self.received, &other.received);
        add(&mut self.other, &other.other);
        add(&mut self.faults, &other.faults);
        self.named += other.named;
        self.displaced += other.displaced;
        self.under_way += other.under_way;
    }
}
