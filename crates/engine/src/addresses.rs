//! What one client's address may have and do, and whose word on addresses is taken.
//!
//! One for all workers, in memory that no crowd makes grow ([`hub::CountSketch`],
//! [`hub::RateSketch`]). Nobody waits for anybody.
//!
//! This machine's own clients and trusted peers are exempt: a proxy would else be one address for
//! all behind it. A trusted peer says for whom it asks, by a PROXY header or a field, and then that
//! address counts.

use std::borrow::Cow;
use std::net::IpAddr;

use hub::{AddressKey, AddressKeys, Bound, CountSketch, RateSketch};
use proto::{Networks, Problem, ProblemKind};

use crate::config::AddressLimits;
use crate::limits;

/// What is known of all addresses.
pub(crate) struct Addresses {
    limits: AddressLimits,
    trusted: Networks,
    keys: AddressKeys,
    connections: CountSketch,
    connects: RateSketch,
    request_bytes: RateSketch,
}

/// Who has connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Peer {
    /// Nothing is counted for it.
    Exempt,
    /// Nothing is counted for it, and it is believed for whom it asks.
    Trusted,
    /// A foreign client.
    Counted(AddressKey),
}

impl Addresses {
    /// Those that are known under keys that nobody knows, or under another process' keys.
    pub(crate) fn new(
        limits: AddressLimits,
        trusted: Networks,
        keys: Option<[u64; 2]>,
    ) -> Addresses {
        let connects = limits.connects_per_second.into();
        let bytes = limits.request_bytes_per_second.into();
        Addresses {
            limits,
            trusted,
            keys: keys.map_or_else(AddressKeys::random, AddressKeys::of_parts),
            connections: CountSketch::default(),
            connects: RateSketch::new(connects, limits::CONNECTS_AT_ONCE_SECONDS),
            request_bytes: RateSketch::new(bytes, limits::REQUEST_BYTES_AT_ONCE_SECONDS),
        }
    }

    /// Under what they are known.
    pub(crate) fn keys(&self) -> [u64; 2] {
        self.keys.parts()
    }

    /// Who it is that has connected from `address`.
    pub(crate) fn peer(&self, address: IpAddr) -> Peer {
        match self.key(address) {
            Some(key) => Peer::Counted(key),
            None if self.trusts(address) => Peer::Trusted,
            None => Peer::Exempt,
        }
    }

    /// Whether one at `address` is believed for whom it asks.
    pub(crate) fn trusts(&self, address: IpAddr) -> bool {
        self.trusted.contain(address)
    }

    /// Whose word is taken.
    pub(crate) fn trusted(&self) -> &Networks {
        &self.trusted
    }

    /// What a client at `address` is counted under; `None` where nothing is counted for it.
    pub(crate) fn key(&self, address: IpAddr) -> Option<AddressKey> {
        let exempt = self.limits.are_off()
            || address.to_canonical().is_loopback()
            || self.trusted.contain(address);
        (!exempt).then(|| self.keys.key(address))
    }

    /// Counts one more connection of `key`, which begins now. Whoever has counted one must
    /// [give it back](Addresses::disconnect).
    pub(crate) fn connect(&self, key: AddressKey, now_ns: u64) -> Result<(), Bound> {
        let most = match self.limits.connections {
            0 => u32::MAX,
            most => most,
        };
        // Looked at first: who has too many pays for no connect.
        if self.connections.count(key) >= most {
            return Err(Bound::ConnectionsPerAddress);
        }
        if self.limits.connects_per_second > 0 && !self.connects.take(key, 1, now_ns) {
            return Err(Bound::ConnectsPerAddress);
        }
        match self.connections.add(key, most) {
            true => Ok(()),
            false => Err(Bound::ConnectionsPerAddress),
        }
    }

    /// Counts one more connection of `key` that was let in by another process.
    pub(crate) fn take_over(&self, key: AddressKey) {
        self.connections.add(key, u32::MAX);
    }

    /// Counts one connection of `key` less.
    pub(crate) fn disconnect(&self, key: AddressKey) {
        self.connections.remove(key);
    }

    /// Counts bytes of a request, or of a message.
    pub(crate) fn hear(&self, key: AddressKey, bytes: usize, now_ns: u64) -> Result<(), Bound> {
        let is_off = self.limits.request_bytes_per_second == 0;
        match is_off || self.request_bytes.take(key, bytes as u64, now_ns) {
            true => Ok(()),
            false => Err(Bound::RequestBytesPerAddress),
        }
    }

    /// What a client is told that has met `bound`.
    pub(crate) fn problem(&self, bound: Bound) -> Problem {
        let AddressLimits { connections, connects_per_second, request_bytes_per_second } =
            self.limits;
        match bound {
            Bound::ConnectionsPerAddress => too_many_connections(
                format!(
                    "One address may have {connections} connections here at one time, and yours \
                     has as many. End some, or try again later. Where many share an address, the \
                     server's --max-connections-per-address is to be raised, or their proxy named \
                     with --trust."
                ),
                limits::RETRY_AFTER_SECONDS,
            ),
            Bound::ConnectsPerAddress => Problem::too_many(
                format!(
                    "One address may connect {connects_per_second} times a second here \
                     (--max-connects-per-address), and yours does so more often. Try again in a \
                     second."
                ),
                1,
            ),
            Bound::RequestBytesPerAddress => Problem::too_many(
                format!(
                    "One address may send {request_bytes_per_second} bytes of requests and \
                     messages a second here (--max-request-bytes-per-address), and yours sends \
                     more. Try again in a second."
                ),
                1,
            ),
            Bound::ConnectionsPerId => id_problem(),
        }
    }

    /// Whether no connection is counted.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }
}

/// What a client is told whose id has as many connections as it may.
pub(crate) fn id_problem() -> Problem {
    too_many_connections(
        "An id has as many connections as one may have here (--max-connections-per-id). End some \
         of them, or try again later; nothing of this request was done.",
        limits::RETRY_AFTER_SECONDS,
    )
}

/// 429: an address or an id has as many connections as it may.
fn too_many_connections(detail: impl Into<Cow<'static, str>>, retry_after: u32) -> Problem {
    let problem = Problem::of(ProblemKind::TooManyConnections, detail);
    Problem { retry_after: Some(retry_after), ..problem }
}
