//! The continuum: points on a circle of 2^32 hashes, each of which belongs to a server.
//!
//! As in libketama: a server gets so many MD5 digests, of `address-0`, `address-1` and so on, and
//! each digest is four points, its bytes as little-endian numbers of 32 bits. A key's hash is the
//! first such number of its own digest. The first point at or after it wins, and after the last
//! point comes the first one again.
//!
//! Points are spread evenly, as digests are. So the high bits of a hash tell nearly where it is
//! among them. For each value of these bits a table has the first point from there on. The binary
//! search is left with some ten points, which stand in one or two cache lines. Without it the
//! search of 16,000 points waits for memory fourteen times in a row, after the MD5 before it.

use thiserror::Error;

use crate::md5::digest;
use crate::server::Server;

/// Servers of one continuum: their index has two bytes. Such a continuum has 10.5 million points of
/// eight bytes.
pub const SERVERS_MAX: usize = 1 << 16;

/// Digests of each server when all have the same memory; libketama's constant.
const DIGESTS_PER_SERVER: f64 = 40.0;

/// Points, at least, for each value of the table, on average: a cache line has eight. With fewer
/// the table takes more of the cache than it saves (`cargo bench -p ketama`).
const POINTS_PER_START: usize = 8;

const _: () = {
    assert!(SERVERS_MAX == 1 << u16::BITS, "a point names its server in 16 bits");
    assert!(SERVERS_MAX * 4 * (DIGESTS_PER_SERVER as usize + 1) <= u32::MAX as usize);
};

/// A point of the continuum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Point<'a> {
    /// Its place on the continuum.
    pub hash: u32,
    /// The server that the keys up to this place go to.
    pub server: &'a Server,
}

/// Why servers make no continuum.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ContinuumError {
    /// A key would have nowhere to go.
    #[error("there is no server: name one at least, as `10.0.1.1:11211 600`")]
    NoServer,
    /// Over [`SERVERS_MAX`].
    #[error("a continuum has at most {SERVERS_MAX} servers, here are {0}: divide them")]
    TooManyServers(usize),
    /// The sum is what shares are computed from.
    #[error("all memory together is 2^64 or more: count it in a larger unit")]
    TooMuchMemory,
}

/// Which server has which keys.
#[derive(Clone, Debug)]
pub struct Continuum {
    servers: Box<[Server]>,
    /// Where the points are, in order, and whose: indices into `servers`. Never empty.
    points: Box<[(u32, u16)]>,
    /// For each value of a hash's high bits the index of the first point that has them or more, and
    /// one index more, so that each value has an end.
    starts: Box<[u32]>,
    /// How far to shift a hash so that those bits are left.
    shift: u32,
}

impl Continuum {
    /// The continuum of `servers`. Their order matters only where points of two of them fall on
    /// the same hash: the earlier one has it.
    pub fn new(servers: &[Server]) -> Result<Continuum, ContinuumError> {
        if servers.is_empty() {
            return Err(ContinuumError::NoServer);
        }
        if servers.len() > SERVERS_MAX {
            return Err(ContinuumError::TooManyServers(servers.len()));
        }
        let total = servers.iter().try_fold(0u64, |sum, server| sum.checked_add(server.memory()));
        let total = total.ok_or(ContinuumError::TooMuchMemory)?;
        let mut points: Vec<(u32, u16)> = Vec::with_capacity(160 * servers.len());
        for (owner, server) in (0..=u16::MAX).zip(servers) {
            for number in 0..digests(server.memory(), total, servers.len()) {
                let digest = digest(format!("{}-{number}", server.address()).as_bytes());
                points.extend(digest.map(|hash| (hash, owner)));
            }
        }
        points.sort_unstable();
        // There are 156 points at least, since one server has its part of the memory or more.
        assert!(points.len() >= 2 * POINTS_PER_START, "hardly a server has points");
        let bits = (points.len() / POINTS_PER_START).ilog2();
        let shift = u32::BITS - bits;
        let start =
            |bits: u64| points.partition_point(|&(hash, _)| u64::from(hash >> shift) < bits);
        Ok(Continuum {
            starts: (0..=1 << bits).map(|bits| start(bits) as u32).collect(),
            shift,
            servers: servers.into(),
            points: points.into(),
        })
    }

    /// The server that has `key`. The key is all of its bytes, of which there may be none.
    pub fn server(&self, key: &[u8]) -> &Server {
        self.point_at(hash(key)).server
    }

    /// The point that `hash` lands on: the first one at or after it.
    pub fn point_at(&self, hash: u32) -> Point<'_> {
        let bits = (hash >> self.shift) as usize;
        let (start, end) = (self.starts[bits] as usize, self.starts[bits + 1] as usize);
        debug_assert!(start <= end, "the points stand in the order of their hashes");
        let index = start + self.points[start..end].partition_point(|&(point, _)| point < hash);
        // Past the last point comes the first.
        self.point(*self.points.get(index).unwrap_or(&self.points[0]))
    }

    /// All points, in order.
    pub fn points(&self) -> impl ExactSizeIterator<Item = Point<'_>> {
        self.points.iter().map(|&point| self.point(point))
    }

    /// The servers, in the order in which they were given.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Servers that have no point and so no key, because their share of the memory is less than
    /// one digest.
    pub fn servers_without_points(&self) -> impl Iterator<Item = &Server> {
        let mut has_points = vec![false; self.servers.len()];
        self.points.iter().for_each(|&(_, owner)| has_points[usize::from(owner)] = true);
        self.servers.iter().zip(has_points).filter(|(_, has)| !has).map(|(server, _)| server)
    }

    fn point(&self, (hash, owner): (u32, u16)) -> Point<'_> {
        Point { hash, server: &self.servers[usize::from(owner)] }
    }
}

/// A key's place on the circle: the first point of its digest.
pub fn hash(key: &[u8]) -> u32 {
    digest(key)[0]
}

/// How many digests a server gets with `memory` out of `total`, among `servers` of them.
///
/// libketama computes `floorf(pct * 40.0 * (float) numservers)` with a `float pct`: the share is
/// rounded to single precision, the product is exact enough in double and rounded to single where
/// it is handed to `floorf`. So 61 servers with the same memory get 39 digests each, not 40.
fn digests(memory: u64, total: u64, servers: usize) -> u32 {
    let share = memory as f32 / total as f32;
    let digests = f64::from(share) * DIGESTS_PER_SERVER * servers as f64;
    (digests as f32).floor() as u32
}

#[cfg(test)]
mod tests;
