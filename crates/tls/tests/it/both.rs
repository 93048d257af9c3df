//! A connection with ours at one end and rustls at the other.

use tls::{Suite, Version};

use crate::parties::{Full, Ours, Trust, both_suites};

/// Which end is ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    Server,
    Client,
}

/// A connection whose handshake is done.
pub(crate) fn connected(role: Role, version: Version, suite: Suite) -> (Ours, Full) {
    let trust = Trust::new();
    let (mut ours, mut full) = match role {
        Role::Server => {
            (Ours::server(&trust, both_suites()), Full::client(trust.full_client(version, suite)))
        }
        Role::Client => {
            (Ours::client(&trust, both_suites()), Full::server(trust.full_server(version, suite)))
        }
    };
    handshake(&mut ours, &mut full, usize::MAX);
    (ours, full)
}

/// The handshake, with pieces of so many bytes for ours.
pub(crate) fn handshake(ours: &mut Ours, full: &mut Full, piece: usize) {
    let (mut to_full, _) = ours.step(&[]);
    for _ in 0..4 {
        assert!(full.hear(&to_full).unwrap().is_empty());
        to_full.clear();
        let to_ours = full.out();
        for piece in to_ours.chunks(piece.min(to_ours.len()).max(1)) {
            let (out, done) = ours.step(piece);
            done.unwrap();
            to_full.extend(out);
        }
        if to_full.is_empty() && ours.agreed.is_some() && !full.0.is_handshaking() {
            return;
        }
    }
    panic!("no end of the handshake: {:?}", ours.agreed);
}
