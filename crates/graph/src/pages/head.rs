//! The two heads of the file, which commits write in turns; the one of the later transaction holds.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::file::{PageFile, SeenAs};
use super::findings::{Enough, Findings};
use super::free;
use super::tree::{Tree, TreeWalk};
use super::{u16_at, u32_at, u64_at};

/// `MDB_MAGIC`, `MDB_DATA_VERSION`.
const MAGIC: u32 = 0xBEEF_C0DE;
const VERSION: u32 = 1;

/// `P_META`.
const META_FLAG: u16 = 0x08;

/// `MDB_INTEGERKEY`: the keys of the list of free pages are transactions.
const INTEGER_KEYS: u16 = 0x08;

/// Of the page's header and of `MDB_meta`.
const HEADER_BYTES: usize = 16;
const HEAD_BYTES: usize = HEADER_BYTES + 136;

/// The smallest and largest page LMDB makes.
const PAGE_BYTES: [usize; 2] = [512, 65_536];

/// The heads of the file together.
const HEADS: u64 = 2;

/// One of the two heads.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Head {
    page_bytes: usize,
    free: Tree,
    /// The tree of tables.
    pub(in super::super) main: Tree,
    last_page: u64,
    pub(in super::super) transaction: u64,
}

impl Head {
    /// The head that holds, and the file behind it.
    pub(in super::super) fn read(file: File) -> io::Result<Result<(Head, PageFile), String>> {
        let file_bytes = file.metadata()?.len();
        let mut bytes = [0; HEAD_BYTES];
        if file_bytes < HEADS * PAGE_BYTES[0] as u64 {
            return Ok(Err(format!("it has only {file_bytes} bytes")));
        }
        file.read_exact_at(&mut bytes, 0)?;
        let first = match Head::parse(&bytes, 0) {
            Ok(head) => head,
            Err(wrong) => return Ok(Err(format!("page 0, its head: {wrong}"))),
        };
        if file_bytes < HEADS * first.page_bytes as u64 {
            return Ok(Err(format!("it has only {file_bytes} bytes")));
        }
        file.read_exact_at(&mut bytes, first.page_bytes as u64)?;
        let second = match Head::parse(&bytes, 1) {
            Ok(head) if head.page_bytes == first.page_bytes => head,
            Ok(_) => return Ok(Err("its two heads differ in their size of a page".into())),
            Err(wrong) => return Ok(Err(format!("page 1, its second head: {wrong}"))),
        };
        let holds = if first.transaction > second.transaction { first } else { second };
        let other = first.transaction.min(second.transaction);
        // Commits alternate, and each number is the next one. In a new file both are 0.
        if holds.transaction != 0 && holds.transaction != other + 1 {
            let [a, b] = [first.transaction, second.transaction];
            return Ok(Err(format!("its two heads are of transactions {a} and {b}")));
        }
        Ok(Ok((holds, PageFile::new(file, file_bytes, first.page_bytes))))
    }

    fn parse(bytes: &[u8; HEAD_BYTES], number: u64) -> Result<Head, &'static str> {
        let [pad, flags] = [u16_at(bytes, 8), u16_at(bytes, 10)];
        let (header, meta) = bytes.split_at(HEADER_BYTES);
        if u64_at(header, 0) != number || pad != 0 || flags != META_FLAG {
            return Err("it does not start as a head does");
        }
        if [u32_at(meta, 0), u32_at(meta, 4)] != [MAGIC, VERSION] {
            return Err("it is none of LMDB");
        }
        let [address, map_bytes] = [u64_at(meta, 8), u64_at(meta, 16)];
        let (free, main) = (Tree::parse(&meta[24..72]), Tree::parse(&meta[72..120]));
        let [last_page, transaction] = [u64_at(meta, 120), u64_at(meta, 128)];
        let page_bytes = free.pad as usize;
        if !page_bytes.is_power_of_two() || !(PAGE_BYTES[0]..=PAGE_BYTES[1]).contains(&page_bytes) {
            return Err("its size of a page is none");
        }
        let flags = [free.flags, main.flags] == [INTEGER_KEYS, 0];
        let parity = transaction == 0 || transaction % HEADS == number;
        if address != 0 || !flags || main.pad != 0 || !parity || last_page < HEADS - 1 {
            return Err("its numbers contradict one another");
        }
        let bytes = last_page.checked_add(1).and_then(|pages| pages.checked_mul(page_bytes as u64));
        if bytes.is_none() || map_bytes > 1 << 56 {
            return Err("it is too large");
        }
        Ok(Head { page_bytes, free, main, last_page, transaction })
    }

    /// Whether nothing was ever committed.
    pub(in super::super) fn is_empty(&self) -> bool {
        self.main.is_empty()
    }

    /// Checks the list of free pages, and that each page up to the last one has its place, now that
    /// the pages of all trees have been seen.
    pub(in super::super) fn check_free_pages(
        &self,
        file: &mut PageFile,
        findings: &mut Findings,
    ) -> Result<(), Enough> {
        let walk =
            TreeWalk { tree: self.free, name: "the list of free pages", flags: INTEGER_KEYS };
        let freed = free::check(walk, self.transaction, file, findings)?;
        for page in 0..HEADS {
            if file.see(page) == SeenAs::Before {
                findings.note(format!("page {page}, a head, is used for something else"))?;
            }
        }
        for page in freed {
            if page > self.last_page {
                findings
                    .note(format!("page {page} is free, but the last one is {}", self.last_page))?;
            } else if file.see(page) == SeenAs::Before {
                findings.note(format!("page {page} is in use and free, or free twice"))?;
            }
        }
        let (seen, pages) = (file.seen(), self.last_page + 1);
        // Below a damaged page nothing was seen.
        if findings.count == 0 && seen != pages {
            findings.note(format!("of {pages} pages only {seen} are in use or free"))?;
        }
        Ok(())
    }
}
