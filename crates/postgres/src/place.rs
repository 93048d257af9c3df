//! Where the graph is: which graph, which version of it, and what that is made of.

use std::fmt;

/// One history of the graph. Another one begins where everything is replaced: a load into an empty
/// graph, the import of a table. A replica of another lineage starts anew.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lineage(pub [u8; 16]);

impl fmt::Display for Lineage {
    /// As PostgreSQL writes a UUID.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, byte) in self.0.iter().enumerate() {
            if matches!(n, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Lineage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lineage({self})")
    }
}

/// A point of a lineage. Versions have no gaps; `hash` is the set hash H of all pairs at it (see
/// [`hub::pair_hash`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Which graph.
    pub lineage: Lineage,
    /// How many changes it has had.
    pub version: u64,
    /// The sum over all pairs of their hashes, modulo 2^64.
    pub hash: u64,
}
