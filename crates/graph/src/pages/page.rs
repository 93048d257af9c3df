//! One page of a tree: a header, offsets that grow upwards, nodes that grow downwards.

use super::{u16_at, u32_at, u64_at};

/// The page's header; one offset.
const HEADER_BYTES: usize = 16;
const OFFSET_BYTES: usize = 2;

/// The header of a node: two halves of a length, flags, length of the key.
const NODE_BYTES: usize = 8;

/// `P_BRANCH`, `P_LEAF`, `P_OVERFLOW`.
const BRANCH: u16 = 0x01;
const LEAF: u16 = 0x02;
const OVERFLOW: u16 = 0x04;

/// `F_BIGDATA`, `F_SUBDATA`.
const BIG: u16 = 0x01;
const TABLE: u16 = 0x02;

/// Which kind of page is expected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Branch,
    Leaf,
}

/// What stands behind a key.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum Value<'a> {
    /// An entry.
    Bytes(&'a [u8]),
    /// The root of a table, an `MDB_db`.
    Table(&'a [u8]),
}

/// A node as it lies in its page.
pub(super) enum Node<'a> {
    Child {
        key: &'a [u8],
        page: u64,
    },
    Entry {
        key: &'a [u8],
        value: Value<'a>,
    },
    /// An entry on pages of its own.
    Big {
        key: &'a [u8],
        first: u64,
        bytes: usize,
    },
}

/// A page whose header and nodes are sound.
pub(super) struct StoredPage<'a> {
    bytes: &'a [u8],
    kind: Kind,
    pub(super) nodes: usize,
}

impl<'a> StoredPage<'a> {
    /// Checks that page `number` is of `kind`, and that its nodes fill it from its end without a
    /// gap or an overlap.
    pub(super) fn parse(
        bytes: &'a [u8],
        number: u64,
        kind: Kind,
    ) -> Result<StoredPage<'a>, String> {
        if u64_at(bytes, 0) != number {
            return Err(format!("it says that it is page {}", u64_at(bytes, 0)));
        }
        let expected = if kind == Kind::Leaf { LEAF } else { BRANCH };
        let (flags, pad) = (u16_at(bytes, 10), u16_at(bytes, 8));
        if (flags, pad) != (expected, 0) {
            return Err("it is of another kind".into());
        }
        let [lower, upper] = [u16_at(bytes, 12) as usize, u16_at(bytes, 14) as usize];
        let bounds = HEADER_BYTES < lower && lower <= upper && upper <= bytes.len();
        if !bounds || !lower.is_multiple_of(OFFSET_BYTES) {
            return Err("its bounds are wrong".into());
        }
        let nodes = (lower - HEADER_BYTES) / OFFSET_BYTES;
        let page = StoredPage { bytes, kind, nodes };
        let end = page.tile(upper).ok_or("its nodes do not lie side by side")?;
        if end == upper { Ok(page) } else { Err("its nodes do not fill it".into()) }
    }

    /// How far down the nodes reach from the page's end, each beginning where another one ends.
    fn tile(&self, upper: usize) -> Option<usize> {
        let mut end = self.bytes.len();
        let mut unsorted = Vec::new();
        for at in 0..self.nodes {
            let (offset, size) = self.extent(at, upper)?;
            // Nodes that were appended lie in the order of their keys, others anywhere.
            if unsorted.is_empty() && offset + size == end {
                end = offset;
            } else {
                unsorted.push((offset, size));
            }
        }
        unsorted.sort_unstable_by(|a, b| b.cmp(a));
        for (offset, size) in unsorted {
            if offset + size != end {
                return None;
            }
            end = offset;
        }
        Some(end)
    }

    fn offset(&self, at: usize) -> usize {
        u16_at(self.bytes, HEADER_BYTES + at * OFFSET_BYTES) as usize
    }

    /// Where node `at` lies and how long it is, when it lies within the page.
    fn extent(&self, at: usize, upper: usize) -> Option<(usize, usize)> {
        let offset = self.offset(at);
        if offset < upper || !offset.is_multiple_of(2) || offset + NODE_BYTES > self.bytes.len() {
            return None;
        }
        let node = &self.bytes[offset..];
        let (flags, key) = (u16_at(node, 4), u16_at(node, 6) as usize);
        let value = match (self.kind, flags) {
            (Kind::Branch, _) => 0,
            (Kind::Leaf, 0 | TABLE) => u32_at(node, 0) as usize,
            (Kind::Leaf, BIG) => size_of::<u64>(),
            (Kind::Leaf, _) => return None,
        };
        let size = (NODE_BYTES + key + value).next_multiple_of(2);
        (size <= node.len()).then_some((offset, size))
    }

    /// Node `at` of the sound page.
    pub(super) fn node(&self, at: usize) -> Node<'a> {
        let node = &self.bytes[self.offset(at)..];
        let (low, flags) = (u32_at(node, 0), u16_at(node, 4));
        let (key, value) = node[NODE_BYTES..].split_at(u16_at(node, 6) as usize);
        match (self.kind, flags) {
            (Kind::Branch, high) => {
                Node::Child { key, page: u64::from(high) << 32 | u64::from(low) }
            }
            (Kind::Leaf, BIG) => Node::Big { key, first: u64_at(value, 0), bytes: low as usize },
            (Kind::Leaf, TABLE) => Node::Entry { key, value: Value::Table(&value[..low as usize]) },
            (Kind::Leaf, _) => Node::Entry { key, value: Value::Bytes(&value[..low as usize]) },
        }
    }
}

/// Checks the header of a large entry's first page, which has `pages` of them.
pub(super) fn check_overflow(bytes: &[u8], number: u64, pages: u64) -> Result<(), String> {
    let sound = u64_at(bytes, 0) == number
        && (u16_at(bytes, 8), u16_at(bytes, 10)) == (0, OVERFLOW)
        && u64::from(u32_at(bytes, 12)) == pages;
    if sound { Ok(()) } else { Err("it is not the start of a large entry".into()) }
}

/// Pages that an entry of `bytes` takes, and where it starts in the first one (`OVPAGES`).
pub(super) fn overflow(bytes: usize, page_bytes: usize) -> (u64, usize) {
    ((HEADER_BYTES + bytes).div_ceil(page_bytes) as u64, HEADER_BYTES)
}
