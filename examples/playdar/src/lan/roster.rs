//! Who else is on the LAN.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::model::FIELD_BYTES_MAX;

/// Daemons that are known at one time.
const PEERS_MAX: usize = 256;

/// Who was not heard for so long is gone, perhaps without a word: three of our pings.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(180);

/// Another daemon, as `/lan/roster` tells it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Peer {
    /// What it calls itself.
    pub name: String,
    /// Where it is.
    pub address: SocketAddr,
    /// How many seconds ago it was last heard.
    pub age: u64,
}

/// All that are known.
#[derive(Debug, Default)]
pub(super) struct Roster {
    peers: HashMap<SocketAddr, (String, Instant)>,
}

impl Roster {
    /// Somebody says its name.
    pub(super) fn heard(&mut self, address: SocketAddr, name: &str, now: Instant) {
        let is_plain = !name.is_empty() && !name.chars().any(char::is_control);
        if !is_plain || name.len() > FIELD_BYTES_MAX {
            return;
        }
        self.forget_silent(now);
        if self.peers.contains_key(&address) || self.peers.len() < PEERS_MAX {
            self.peers.insert(address, (name.to_owned(), now));
        }
    }

    /// Somebody goes. Only itself may say so.
    pub(super) fn left(&mut self, address: SocketAddr) {
        self.peers.remove(&address);
    }

    /// Everybody, by name.
    pub(super) fn peers(&mut self, now: Instant) -> Vec<Peer> {
        self.forget_silent(now);
        let peers = self.peers.iter().map(|(address, (name, heard))| Peer {
            name: name.clone(),
            address: *address,
            age: now.saturating_duration_since(*heard).as_secs(),
        });
        let mut peers: Vec<Peer> = peers.collect();
        peers.sort_by(|a, b| (&a.name, a.address).cmp(&(&b.name, b.address)));
        peers
    }

    fn forget_silent(&mut self, now: Instant) {
        self.peers.retain(|_, (_, heard)| now.saturating_duration_since(*heard) < SILENCE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8, port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, last], port))
    }

    #[test]
    fn peer_is_known_until_it_leaves_or_is_silent() {
        let (mut roster, now) = (Roster::default(), Instant::now());
        roster.heard(address(1, 1), "bob", now);
        roster.heard(address(2, 1), "alice", now);
        roster.left(address(1, 2));
        let later = now + Duration::from_secs(170);
        roster.heard(address(1, 1), "bob", later);
        let peers = roster.peers(later);
        let told: Vec<_> = peers.iter().map(|peer| (peer.name.as_str(), peer.age)).collect();
        assert_eq!(told, [("alice", 170), ("bob", 0)]);
        assert_eq!(roster.peers(now + SILENCE_MAX).len(), 1);
        roster.left(address(1, 1));
        assert_eq!(roster.peers(later), []);
    }

    #[test]
    fn made_up_peers_and_names_have_a_bound() {
        let (mut roster, now) = (Roster::default(), Instant::now());
        for port in 1..=1000 {
            roster.heard(address(1, port), "x", now);
        }
        assert_eq!(roster.peers(now).len(), PEERS_MAX);
        let long = "x".repeat(FIELD_BYTES_MAX + 1);
        for (last, name) in [(7, ""), (8, "a\nb"), (9, long.as_str())] {
            let mut roster = Roster::default();
            roster.heard(address(last, 1), name, now);
            assert_eq!(roster.peers(now), []);
        }
    }
}
