//! A tree of pages, walked in the order of its keys.

use std::cmp::Ordering;

use super::file::{PageFile, SeenAs};
use super::findings::{Enough, Findings};
use super::page::{Kind, Node, StoredPage, Value, check_overflow, overflow};
use super::{u16_at, u32_at, u64_at};

/// `P_INVALID`: the root of an empty tree.
const NO_PAGE: u64 = u64::MAX;

/// `CURSOR_STACK`: LMDB goes no deeper.
const DEPTH_MAX: u16 = 32;

/// An `MDB_db`: where a tree starts, and what is in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct Tree {
    pub(super) pad: u32,
    pub(super) flags: u16,
    depth: u16,
    counts: Counts,
    root: u64,
}

/// Pages and entries of a tree.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Counts {
    branches: u64,
    leaves: u64,
    overflow: u64,
    entries: u64,
}

impl Tree {
    pub(super) const BYTES: usize = 48;

    pub(super) fn parse(bytes: &[u8]) -> Tree {
        let counts = Counts {
            branches: u64_at(bytes, 8),
            leaves: u64_at(bytes, 16),
            overflow: u64_at(bytes, 24),
            entries: u64_at(bytes, 32),
        };
        let [flags, depth] = [u16_at(bytes, 4), u16_at(bytes, 6)];
        Tree { pad: u32_at(bytes, 0), flags, depth, counts, root: u64_at(bytes, 40) }
    }

    /// A table that an entry of the main tree describes: plain keys, plain values.
    pub(in super::super) fn of_table(bytes: &[u8]) -> Option<Tree> {
        let tree = (bytes.len() == Tree::BYTES).then(|| Tree::parse(bytes))?;
        (tree.pad == 0 && tree.flags == 0).then_some(tree)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.root == NO_PAGE && self.depth == 0 && self.counts == Counts::default()
    }
}

/// How the keys of a tree are ordered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Order {
    /// As bytes, shorter ones first.
    Bytes,
    /// As numbers of 8 bytes, little-endian.
    Numbers,
}

impl Order {
    fn compare(self, a: &[u8], b: &[u8]) -> Ordering {
        match (self, <&[u8; 8]>::try_from(a), <&[u8; 8]>::try_from(b)) {
            (Order::Numbers, Ok(a), Ok(b)) => u64::from_le_bytes(*a).cmp(&u64::from_le_bytes(*b)),
            _ => a.cmp(b),
        }
    }
}

/// Hears each entry; an `Err` says what is wrong with it.
type Visit<'v> = dyn FnMut(&[u8], Value<'_>) -> Result<(), String> + 'v;

/// A tree to be checked.
#[derive(Clone, Copy)]
pub(in super::super) struct TreeWalk<'n> {
    pub(in super::super) tree: Tree,
    /// What to call it.
    pub(in super::super) name: &'n str,
    pub(in super::super) flags: u16,
}

impl TreeWalk<'_> {
    /// Walks the tree and hands its entries to `visit`, in their order. What is below a damaged
    /// page is left out.
    pub(in super::super) fn check(
        &self,
        file: &mut PageFile,
        order: Order,
        findings: &mut Findings,
        visit: &mut Visit<'_>,
    ) -> Result<(), Enough> {
        let depth = self.tree.depth;
        let rooted = self.tree.is_empty() || (1..=DEPTH_MAX).contains(&depth);
        if self.tree.flags != self.flags || !rooted {
            return findings.note(format!("{}: its root is damaged", self.name));
        }
        let before = findings.count;
        let mut walker =
            Walker { walk: self, file, order, findings, visit, counts: Counts::default() };
        if !self.tree.is_empty() {
            walker.page(self.tree.root, 1, &Bounds::default())?;
        }
        let counts = walker.counts;
        if findings.count == before && counts != self.tree.counts {
            findings.note(format!(
                "{}: it should have {:?} and has {counts:?}",
                self.name, self.tree.counts
            ))?;
        }
        Ok(())
    }
}

/// What the page above says about the keys of a page: from the first on, below the second.
#[derive(Clone, Default)]
struct Bounds {
    low: Option<Vec<u8>>,
    high: Option<Vec<u8>>,
}

struct Walker<'w, 'v> {
    walk: &'w TreeWalk<'w>,
    file: &'w mut PageFile,
    order: Order,
    findings: &'w mut Findings,
    visit: &'w mut Visit<'v>,
    counts: Counts,
}

impl Walker<'_, '_> {
    fn note(&mut self, page: u64, what: &str) -> Result<(), Enough> {
        self.findings.note(format!("{}, page {page}: {what}", self.walk.name))
    }

    /// Checks page `number` on `level` (the root's is 1) and all below it.
    fn page(&mut self, number: u64, level: u16, bounds: &Bounds) -> Result<(), Enough> {
        let mut buffer = vec![0; self.file.page_bytes];
        if let Err(wrong) = self.read(number, &mut buffer) {
            return self.note(number, &wrong);
        }
        let kind = if level < self.walk.tree.depth { Kind::Branch } else { Kind::Leaf };
        let page = match StoredPage::parse(&buffer, number, kind) {
            Ok(page) => page,
            Err(wrong) => return self.note(number, &wrong),
        };
        match kind {
            Kind::Branch => self.branch(&page, number, level, bounds),
            Kind::Leaf => self.leaf(&page, number, bounds),
        }
    }

    fn read(&mut self, number: u64, buffer: &mut [u8]) -> Result<(), String> {
        if number >= self.file.pages {
            return Err(format!("the file ends after {} pages", self.file.pages));
        }
        if self.file.see(number) == SeenAs::Before {
            return Err("it is in use twice".into());
        }
        self.file.read(number, buffer).map_err(|error| format!("it cannot be read: {error}"))
    }

    fn branch(
        &mut self,
        page: &StoredPage<'_>,
        number: u64,
        level: u16,
        bounds: &Bounds,
    ) -> Result<(), Enough> {
        self.counts.branches += 1;
        let child = |at| match page.node(at) {
            Node::Child { key, page } => (key, page),
            _ => unreachable!("a branch has nothing but children"),
        };
        // The first key of a branch stands for whatever is lower than the second one.
        for at in 1..page.nodes {
            let key = child(at).0;
            let low = if at > 1 { Some(child(at - 1).0) } else { bounds.low.as_deref() };
            let rises = low.is_none_or(|low| self.order.compare(low, key).is_lt());
            let high = bounds.high.as_deref();
            if !rises || high.is_some_and(|high| self.order.compare(key, high).is_ge()) {
                return self.note(number, "its keys are out of order");
            }
        }
        for at in 0..page.nodes {
            let (key, below) = child(at);
            let low = if at == 0 { bounds.low.clone() } else { Some(key.to_vec()) };
            let next = (at + 1 < page.nodes).then(|| child(at + 1).0.to_vec());
            self.page(below, level + 1, &Bounds { low, high: next.or(bounds.high.clone()) })?;
        }
        Ok(())
    }

    fn leaf(&mut self, page: &StoredPage<'_>, number: u64, bounds: &Bounds) -> Result<(), Enough> {
        self.counts.leaves += 1;
        let low = bounds.low.as_deref();
        let mut before: Option<&[u8]> = None;
        for at in 0..page.nodes {
            let (key, entry) = match page.node(at) {
                Node::Entry { key, value } => (key, Ok(value)),
                Node::Big { key, first, bytes } => (key, Err((first, bytes))),
                Node::Child { .. } => unreachable!("a leaf has no children"),
            };
            let rises = match before {
                Some(before) => self.order.compare(before, key).is_lt(),
                None => low.is_none_or(|low| self.order.compare(low, key).is_le()),
            };
            let high = bounds.high.as_deref();
            if !rises || high.is_some_and(|high| self.order.compare(key, high).is_ge()) {
                return self.note(number, "its keys are out of order");
            }
            before = Some(key);
            self.counts.entries += 1;
            let seen = match entry {
                Ok(value) => (self.visit)(key, value),
                Err((first, bytes)) => self.large(key, first, bytes),
            };
            if let Err(wrong) = seen {
                self.note(number, &wrong)?;
            }
        }
        Ok(())
    }

    /// An entry that lies on pages of its own.
    fn large(&mut self, key: &[u8], first: u64, bytes: usize) -> Result<(), String> {
        let (pages, start) = overflow(bytes, self.file.page_bytes);
        if first.checked_add(pages).is_none_or(|end| end > self.file.pages) {
            return Err("a large entry lies past the end of the file".into());
        }
        self.counts.overflow += pages;
        let mut value = vec![0; pages as usize * self.file.page_bytes];
        self.read(first, &mut value)?;
        check_overflow(&value, first, pages)?;
        if (first + 1..first + pages).any(|page| self.file.see(page) == SeenAs::Before) {
            return Err("pages of a large entry are in use twice".into());
        }
        (self.visit)(key, Value::Bytes(&value[start..start + bytes]))
    }
}
