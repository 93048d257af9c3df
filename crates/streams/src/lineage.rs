//! What a fork has of other streams.

use crate::offset::Offset;

/// Ancestors of one fork: so many files are opened to read it from its beginning.
pub(crate) const ANCESTORS_MAX: usize = 32;

/// Where a fork began.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Lineage {
    /// Up to where it has the content of its source, as it was resolved when it was made.
    pub(crate) at: Offset,
    /// How much of the append behind that place it has as its own.
    pub(crate) sub_offset: u64,
    /// The oldest first; the last is its source.
    pub(crate) ancestors: Box<[Ancestor]>,
}

/// A stream whose content a fork has up to a place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Ancestor {
    pub(crate) path: Box<str>,
    pub(crate) id: u64,
    /// The place in its file behind the last record that the fork has.
    pub(crate) end: u64,
}

impl Lineage {
    /// Bytes that it takes in memory, about.
    pub(crate) fn bytes(&self) -> usize {
        self.ancestors.iter().map(|ancestor| size_of::<Ancestor>() + ancestor.path.len()).sum()
    }

    /// The stream that was forked.
    pub(crate) fn source(&self) -> Option<&Ancestor> {
        self.ancestors.last()
    }
}
