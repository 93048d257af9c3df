//! LMDB's file, read by our own hand: every page, bound and count, before LMDB is let near it.
//!
//! LMDB has no checksums and follows the offsets that stand in its pages without a look: in a
//! damaged page they lead to wrong answers or out of the map. So the whole of a file is checked at
//! open. Both heads are, and that the trees in use are sound: each page is the one that it says,
//! and all nodes lie side by side within it. Keys ascend within what the page above allows, all
//! leaves are on one level, and every count is right. Every page is either in use, once, or on the
//! list of free ones. What is in the entries is the business of [`super::verify`].
//!
//! The layout is that of LMDB's `mdb.c`, data version 1, on machines of 64 bits, little-endian:
//! `MDB_page`, `MDB_meta`, `MDB_db`, `MDB_node`.
//!
//! Reads with pread(2): a file that is cut short meanwhile is an error and no signal. Cost: 1 to
//! 2 µs a page of 4,096 bytes that is in the page cache.

mod file;
mod findings;
mod free;
mod head;
mod page;
mod tree;

pub(super) use file::PageFile;
pub(super) use findings::{Enough, Findings};
pub(super) use head::Head;
pub(super) use page::Value;
pub(super) use tree::{Order, Tree, TreeWalk};

/// A little-endian number at `at`; the caller knows that it is there.
fn number<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..].first_chunk().copied().expect("the bytes are long enough")
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(number(bytes, at))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(number(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(number(bytes, at))
}
