//! These are lists of ids of many owners in blocks that they share, so that a list is no allocation
//! of its own. They have what a connection is logged in under beside the id in its record.
//!
//! Of an id they keep the [`IdHash`], by which the directory tells the id itself. It may stand
//! there several times, since ids can share it. A block has room for 1, 2, 4, … of them, and lies
//! in a page of its size: one block, or as many as 512 have room for. So an id takes 4 bytes in a
//! full block, 8 in one that has just grown, and 16 at the most when others were taken out. A page
//! takes 80 bytes beside its 2 KiB. A new block is taken from the first page that has room, and a
//! page without a block in use is given back.
//!
//! Cost: to look for an id, a binary search; to put some in or take one out, that and one move of
//! the greater ones.

use std::collections::BTreeSet;

use hub::IdHash;

/// Ids of a page whose blocks are not larger.
const PAGE_IDS: usize = 512;

/// Bits of a list's name that tell its block; the others tell the block's size.
const BLOCK_BITS: u32 = 25;

/// Which list: the block that it has, if it has one. 4 bytes, for its owner to keep.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct List(u32);

impl List {
    fn new(size: usize, block: usize) -> List {
        debug_assert!(block < 1 << BLOCK_BITS && size < 31, "two lists would have one name");
        List((size as u32 + 1) << BLOCK_BITS | block as u32)
    }

    /// The binary logarithm of how many ids its block has room for, and which of those it is.
    fn parts(self) -> Option<(usize, usize)> {
        let size = (self.0 >> BLOCK_BITS).checked_sub(1)?;
        Some((size as usize, self.0 as usize & ((1 << BLOCK_BITS) - 1)))
    }
}

/// The blocks of all lists.
#[derive(Debug, Default)]
pub(crate) struct IdLists {
    /// By the binary logarithm of their size.
    sizes: Vec<Blocks>,
}

/// Blocks of one size.
#[derive(Debug, Default)]
struct Blocks {
    pages: Vec<IdsPage>,
    /// The pages with a block that nobody has.
    roomy: BTreeSet<u32>,
}

/// Some blocks, one after the other. Behind a list's ids its block is filled up with
/// [`IdHash::NONE`], which is greater than all others: the order tells how many there are.
#[derive(Debug, Default)]
struct IdsPage {
    /// None where no block is in use.
    ids: Box<[IdHash]>,
    /// A bit for each block, set where it is in use.
    used: [u64; PAGE_IDS / 64],
}

impl IdLists {
    /// What the list has, in order.
    pub(crate) fn of(&self, list: List) -> &[IdHash] {
        let Some((size, block)) = list.parts() else { return &[] };
        let block = self.sizes[size].block(size, block);
        &block[..ids_len(block)]
    }

    /// Puts `new` in, which is in order.
    pub(crate) fn put(&mut self, list: &mut List, new: &[IdHash]) {
        debug_assert!(new.is_sorted() && !new.contains(&IdHash::NONE));
        if new.is_empty() {
            return;
        }
        let len = self.of(*list).len();
        let needed = (len + new.len()).next_power_of_two().trailing_zeros() as usize;
        if list.parts().is_none_or(|(size, _)| size < needed) {
            self.move_to(list, needed);
        }
        let Some((size, block)) = list.parts() else { return };
        merge(self.sizes[size].block_mut(size, block), len, new);
    }

    /// Takes `id` out once. Whether it was there.
    pub(crate) fn take(&mut self, list: &mut List, id: IdHash) -> bool {
        let Some((size, block)) = list.parts() else { return false };
        let block = self.sizes[size].block_mut(size, block);
        let len = ids_len(block);
        let Ok(place) = block[..len].binary_search(&id) else { return false };
        block.copy_within(place + 1..len, place);
        block[len - 1] = IdHash::NONE;
        // What was needed for many is not kept for few.
        if len == 1 {
            self.clear(list);
        } else if len - 1 <= (1 << size) / 4 {
            self.move_to(list, size - 1);
        }
        true
    }

    /// Takes the greatest out.
    pub(crate) fn pop(&mut self, list: &mut List) -> Option<IdHash> {
        let greatest = *self.of(*list).last()?;
        self.take(list, greatest);
        Some(greatest)
    }

    /// Takes all ids out.
    pub(crate) fn clear(&mut self, list: &mut List) {
        if let Some((size, block)) = std::mem::take(list).parts() {
            self.sizes[size].give_back(size, block);
        }
    }

    /// Moves the list into a block of another size, in which there is room for it.
    fn move_to(&mut self, list: &mut List, size: usize) {
        if size >= self.sizes.len() {
            self.sizes.resize_with(size + 1, Blocks::default);
        }
        let block = self.sizes[size].take(size);
        if let Some((old_size, old_block)) = list.parts() {
            debug_assert_ne!(size, old_size, "it would be moved for nothing");
            let sizes = self.sizes.get_disjoint_mut([old_size, size]);
            let [from, to] = sizes.expect("two sizes that there are");
            let old = from.block(old_size, old_block);
            let len = ids_len(old);
            to.block_mut(size, block)[..len].copy_from_slice(&old[..len]);
            from.give_back(old_size, old_block);
        }
        *list = List::new(size, block);
    }
}

impl Blocks {
    fn block(&self, size: usize, block: usize) -> &[IdHash] {
        let (page, place) = place_of(size, block);
        &self.pages[page].ids[place << size..(place + 1) << size]
    }

    fn block_mut(&mut self, size: usize, block: usize) -> &mut [IdHash] {
        let (page, place) = place_of(size, block);
        &mut self.pages[page].ids[place << size..(place + 1) << size]
    }

    /// A block that nobody had. It is empty.
    fn take(&mut self, size: usize) -> usize {
        let number = self.roomy.first().map_or(self.pages.len(), |&page| page as usize);
        if number == self.pages.len() {
            self.pages.push(IdsPage::default());
            self.roomy.insert(number as u32);
        }
        let (page, blocks) = (&mut self.pages[number], blocks_of_page(size));
        if page.ids.is_empty() {
            page.ids = vec![IdHash::NONE; blocks << size].into();
        }
        let place = page.first_free();
        debug_assert!(place < blocks, "a page with room has a free block");
        page.used[place / 64] |= 1 << (place % 64);
        if page.first_free() >= blocks {
            self.roomy.remove(&(number as u32));
        }
        number * blocks + place
    }

    fn give_back(&mut self, size: usize, block: usize) {
        self.block_mut(size, block).fill(IdHash::NONE);
        let (number, place) = place_of(size, block);
        let page = &mut self.pages[number];
        debug_assert!(page.used[place / 64] & 1 << (place % 64) != 0, "it was given back before");
        page.used[place / 64] &= !(1 << (place % 64));
        if page.is_unused() {
            page.ids = Box::default();
        }
        self.roomy.insert(number as u32);
        while self.pages.pop_if(|last| last.is_unused()).is_some() {
            self.roomy.remove(&(self.pages.len() as u32));
        }
    }
}

impl IdsPage {
    /// The first block that is not in use; past the page's blocks there is none.
    fn first_free(&self) -> usize {
        let full = self.used.iter().take_while(|bits| **bits == u64::MAX).count();
        let bits = self.used.get(full).map_or(0, |bits| bits.trailing_ones() as usize);
        full * 64 + bits
    }

    fn is_unused(&self) -> bool {
        self.used.iter().all(|bits| *bits == 0)
    }
}

fn blocks_of_page(size: usize) -> usize {
    (PAGE_IDS >> size).max(1)
}

/// The page of a block of that size, and which of the page's blocks it is.
fn place_of(size: usize, block: usize) -> (usize, usize) {
    let blocks = blocks_of_page(size);
    (block / blocks, block % blocks)
}

fn ids_len(block: &[IdHash]) -> usize {
    block.partition_point(|id| *id != IdHash::NONE)
}

/// Puts `new` among the first `len` ids of a block that has room for both, from the greatest on:
/// each that was there moves once.
fn merge(block: &mut [IdHash], len: usize, new: &[IdHash]) {
    debug_assert!(len + new.len() <= block.len());
    let mut unmoved = len;
    for (before, &id) in new.iter().enumerate().rev() {
        let place = block[..unmoved].partition_point(|old| *old < id);
        block.copy_within(place..unmoved, place + before + 1);
        block[place + before] = id;
        unmoved = place;
    }
}

#[cfg(test)]
mod tests;
