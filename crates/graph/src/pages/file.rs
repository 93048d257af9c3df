//! The file as numbered pages, and which of them have been seen.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// A file of pages, and those that were found in use or free so far.
pub(in super::super) struct PageFile {
    file: File,
    pub(super) page_bytes: usize,
    /// Whole pages that the file has.
    pub(super) pages: u64,
    /// One bit for each page of the file.
    seen: Vec<u64>,
    /// Free pages past the end of the file: LMDB does not write those that it gave back at once.
    seen_past_end: HashSet<u64>,
}

/// Why a page cannot be counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SeenAs {
    Once,
    Before,
}

impl PageFile {
    pub(super) fn new(file: File, file_bytes: u64, page_bytes: usize) -> PageFile {
        let pages = file_bytes / page_bytes as u64;
        let seen = vec![0; pages.div_ceil(64) as usize];
        PageFile { file, page_bytes, pages, seen, seen_past_end: HashSet::new() }
    }

    /// Reads page `number`, which lies within the file, into `buffer`.
    pub(super) fn read(&self, number: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, number * self.page_bytes as u64)
    }

    /// Takes note of page `number`.
    pub(super) fn see(&mut self, number: u64) -> SeenAs {
        let before = if number >= self.pages {
            !self.seen_past_end.insert(number)
        } else {
            let (word, bit) = (&mut self.seen[(number / 64) as usize], 1 << (number % 64));
            std::mem::replace(word, *word | bit) & bit != 0
        };
        if before { SeenAs::Before } else { SeenAs::Once }
    }

    /// How many different pages have been seen.
    pub(super) fn seen(&self) -> u64 {
        let within: u64 = self.seen.iter().map(|word| u64::from(word.count_ones())).sum();
        within + self.seen_past_end.len() as u64
    }
}
