//! Texts one behind the other, which are no allocations of their own.
//!
//! They stand in pages, and each page in chunks. What is freed leaves a gap. Once gaps are a
//! quarter of a page, the owner of the texts [closes](Texts::close_gaps) them: what is left of the
//! page moves to the one that is being written. So a call moves the texts of one page, however many
//! there are. Growth is by a sixteenth of a chunk. So a text takes up half as much again at its
//! worst.

mod page;
#[cfg(test)]
mod tests;

use self::page::{TextPage, written_bytes};
use crate::key::KEY_BYTES_MAX;

/// A place is the number of a page and, in so many bits, where in it.
const PLACE_BITS: u32 = 16;

/// Bytes of a page, at most.
const PAGE_BYTES: usize = 1 << PLACE_BITS;

const _: () = assert!(KEY_BYTES_MAX * 8 < PAGE_BYTES, "a page ends where a text has no room");

#[derive(Default)]
pub(crate) struct Texts {
    /// The page that is being written, and its number.
    open: TextPage,
    open_number: usize,
    /// The others by their numbers. An empty one has the number of the open page, or a free one.
    full: Vec<TextPage>,
    /// The page whose gaps are to be closed.
    loose: Option<usize>,
}

impl Texts {
    /// What `text` takes up at most.
    pub(crate) fn bytes_of(text: &str) -> usize {
        let bytes = written_bytes(text);
        bytes + bytes / 2
    }

    /// Where `text` stands from now on.
    pub(crate) fn push(&mut self, text: &str) -> u32 {
        if self.open.len() + written_bytes(text) > PAGE_BYTES {
            self.begin_page();
        }
        place_of(self.open_number, self.open.push(text))
    }

    /// The text that stands at `place`.
    pub(crate) fn at(&self, place: u32) -> &str {
        let (number, at) = number_and_at(place);
        let page = if number == self.open_number { &self.open } else { &self.full[number] };
        page.at(at)
    }

    /// The text that stands at `place` is not read again. Where that makes the texts
    /// [loose](Texts::is_loose), their gaps are closed before another one is freed.
    pub(crate) fn free(&mut self, place: u32) {
        let (number, at) = number_and_at(place);
        if self.page_mut(number).free(at) {
            debug_assert!(self.loose.is_none_or(|loose| loose == number), "gaps stay open");
            self.loose = Some(number);
        }
    }

    /// Whether much of a page is gaps.
    pub(crate) fn is_loose(&self) -> bool {
        self.loose.is_some()
    }

    /// Moves what is left of the loose page; `places` are those of all texts that are read again.
    pub(crate) fn close_gaps<'p>(&mut self, places: impl Iterator<Item = &'p mut u32>) {
        let Some(loose) = self.loose.take() else { return };
        let page = std::mem::take(self.page_mut(loose));
        let mut left = page.left();
        self.open.reserve(left);
        // A place that was changed may have the number of that page again, and does not come again.
        for place in places {
            if left == 0 {
                break;
            }
            let (number, at) = number_and_at(*place);
            if number == loose {
                let text = page.at(at);
                left -= written_bytes(text);
                *place = self.push(text);
            }
        }
        debug_assert_eq!(left, 0, "a text would be lost");
        while self.full.pop_if(|last| last.is_empty()).is_some() {}
        if self.full.is_empty() {
            self.full = Vec::new();
        }
    }

    fn page_mut(&mut self, number: usize) -> &mut TextPage {
        if number == self.open_number { &mut self.open } else { &mut self.full[number] }
    }

    /// The open page is full, and another one begins under a number that is free.
    fn begin_page(&mut self) {
        let mut page = std::mem::take(&mut self.open);
        page.shrink();
        if self.full.len() <= self.open_number {
            self.full.resize_with(self.open_number + 1, TextPage::default);
        }
        self.full[self.open_number] = page;
        let free = self.full.iter().position(TextPage::is_empty);
        self.open_number = free.unwrap_or(self.full.len());
    }

    /// The bytes of its allocations.
    #[cfg(test)]
    pub(crate) fn allocations(&self) -> impl Iterator<Item = usize> {
        let pages = self.full.iter().chain([&self.open]).flat_map(TextPage::allocations);
        pages.chain([self.full.capacity() * size_of::<TextPage>()]).filter(|&bytes| bytes > 0)
    }
}

fn place_of(number: usize, at: usize) -> u32 {
    let number = u32::try_from(number).ok().filter(|number| number.leading_zeros() >= PLACE_BITS);
    number.expect("no stripe has 3 GiB of texts") << PLACE_BITS | at as u32
}

fn number_and_at(place: u32) -> (usize, usize) {
    ((place >> PLACE_BITS) as usize, place as usize % PAGE_BYTES)
}
