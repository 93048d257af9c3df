//! Simulation: shards under fake sockets and a fake clock, by seed.

mod random;

pub(crate) use random::Random;
