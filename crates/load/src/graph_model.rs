//! A friends graph to test with: Barabási–Albert preferential attachment.
//!
//! Users come one after another, and each makes friends with `edges_per_user` different users who
//! are already there. A user is chosen with a probability proportional to their friends plus one:
//! linear preference with initial attractiveness 1 (Dorogovtsev, Mendes, Samukhin 2000, eq. 2),
//! as igraph's `Barabasi(n, m)` does by default. So few become famous, and the degrees have
//! a power-law tail with an exponent near 3. The first users befriend everybody before them.
//!
//! The graph is simple and connected, and has exactly `N m - m (m + 1) / 2` friendships. The same
//! numbers and seed give the same bytes on every machine.
//!
//! Cost: 8 bytes of memory a friendship; a million users with 15 each take about a second.

use std::io::{self, Write};

use proto::decimal::push_decimal;
use thiserror::Error;

use crate::random::Random;

/// Which graph to make.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BarabasiAlbert {
    /// How many users: they are numbered from 0.
    pub users: u32,
    /// How many friends each newcomer makes, at least 1.
    pub edges_per_user: u32,
    /// Chooses one of the graphs of this size.
    pub seed: u64,
}

/// Why no graph was made, or not all of it.
#[derive(Debug, Error)]
pub enum GenerateError {
    /// Nobody would know anybody.
    #[error("a graph needs at least 1 edge per user")]
    NoEdges,
    /// The output took no more bytes.
    #[error("the graph could not be written: {0}")]
    Write(#[from] io::Error),
}

/// Users between two calls of `progress`.
const PROGRESS_STEP: u32 = 1 << 14;

/// Bytes gathered before each write.
const BUFFER_BYTES: usize = 1 << 16;

impl BarabasiAlbert {
    /// How many lines [`BarabasiAlbert::generate`] writes.
    pub fn edges(&self) -> u64 {
        edges_before(u64::from(self.users), u64::from(self.edges_per_user))
    }

    /// Writes the graph to `out`, one `a b` a line, as igraph's `write_edgelist` does: the older
    /// user first, lines ascending by the older and then by the newer one.
    ///
    /// `progress` hears now and then how many of how many steps are done.
    pub fn generate(
        &self,
        out: &mut dyn Write,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(), GenerateError> {
        if self.edges_per_user == 0 {
            return Err(GenerateError::NoEdges);
        }
        let steps = 2 * u64::from(self.users);
        let mut attachment = Attachment::new(self);
        for newcomer in 0..self.users {
            attachment.join(newcomer);
            if newcomer.is_multiple_of(PROGRESS_STEP) {
                progress(u64::from(newcomer), steps);
            }
        }
        debug_assert_eq!(attachment.older.len() as u64, self.edges());
        let ends = attachment.ends_by_older(self.users);
        drop(attachment);
        write_lines(&ends, out, &mut |user| progress(u64::from(self.users) + user, steps))?;
        progress(steps, steps);
        Ok(())
    }
}

/// Friendships among the first `users`: the first `m + 1` all know each other.
fn edges_before(users: u64, m: u64) -> u64 {
    if users <= m { users * users.saturating_sub(1) / 2 } else { users * m - m * (m + 1) / 2 }
}

/// The growing graph, as far as choosing needs it.
struct Attachment {
    m: u32,
    /// The older end of each friendship, in the order of the newer ends: those need no storing.
    older: Vec<u32>,
    random: Random,
}

impl Attachment {
    fn new(model: &BarabasiAlbert) -> Attachment {
        let older = Vec::with_capacity(model.edges() as usize);
        Attachment { m: model.edges_per_user, older, random: Random::new(model.seed) }
    }

    /// Chooses the friends of the next newcomer.
    fn join(&mut self, newcomer: u32) {
        let first = self.older.len();
        if newcomer <= self.m {
            self.older.extend(0..newcomer);
            return;
        }
        let known = first as u64;
        while self.older.len() - first < self.m as usize {
            let user = self.choose(newcomer, known);
            if !self.older[first..].contains(&user) {
                self.older.push(user);
            }
        }
    }

    /// One of the users below `newcomer`, by friends plus one, as of the first `edges` edges. A
    /// uniform choice among all ends of all friendships is one by friends; one more ticket each is
    /// the plus one.
    fn choose(&mut self, newcomer: u32, edges: u64) -> u32 {
        let ends = 2 * edges;
        let ticket = self.random.below_u64(ends + u64::from(newcomer));
        if ticket >= ends {
            return (ticket - ends) as u32;
        }
        let edge = ticket / 2;
        debug_assert!(edge < edges);
        if ticket.is_multiple_of(2) { self.older[edge as usize] } else { self.newer(edge) }
    }

    /// All friendships in the order to write them: a counting sort, so newer ends stay ascending.
    fn ends_by_older(&self, users: u32) -> Ends {
        let mut starts = vec![0; users as usize + 1];
        for &older in &self.older {
            starts[older as usize + 1] += 1;
        }
        for user in 1..starts.len() {
            starts[user] += starts[user - 1];
        }
        let mut places = starts.clone();
        let mut newer = vec![0; self.older.len()];
        for (edge, &older) in self.older.iter().enumerate() {
            let place = &mut places[older as usize];
            newer[*place] = self.newer(edge as u64);
            *place += 1;
        }
        debug_assert_eq!(starts.last().copied(), Some(newer.len()));
        Ends { starts, newer }
    }

    /// The newer end of friendship `edge`, from its number alone.
    fn newer(&self, edge: u64) -> u32 {
        let m = u64::from(self.m);
        let core = edges_before(m + 1, m);
        if edge >= core {
            return (m + 1 + (edge - core) / m) as u32;
        }
        // Row n of the triangle starts at edge n (n - 1) / 2.
        let row = ((1.0 + (1.0 + 8.0 * edge as f64).sqrt()) / 2.0) as u64;
        (if row * (row - 1) / 2 > edge { row - 1 } else { row }) as u32
    }
}

/// The newer ends of all friendships, grouped by their older ends.
struct Ends {
    /// Where each user's group starts, and where the last one ends.
    starts: Vec<usize>,
    newer: Vec<u32>,
}

fn write_lines(ends: &Ends, out: &mut dyn Write, progress: &mut dyn FnMut(u64)) -> io::Result<()> {
    let mut lines = Vec::with_capacity(2 * BUFFER_BYTES);
    let mut start = Vec::new();
    for (older, group) in ends.starts.windows(2).enumerate() {
        start.clear();
        push_decimal(&mut start, older as u64);
        start.push(b' ');
        for &newer in &ends.newer[group[0]..group[1]] {
            lines.extend_from_slice(&start);
            push_decimal(&mut lines, newer.into());
            lines.push(b'\n');
        }
        if lines.len() >= BUFFER_BYTES {
            out.write_all(&lines)?;
            lines.clear();
        }
        if (older as u32).is_multiple_of(PROGRESS_STEP) {
            progress(older as u64);
        }
    }
    out.write_all(&lines)?;
    out.flush()
}

#[cfg(test)]
mod tests;
