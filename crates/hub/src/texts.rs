//! Texts one behind the other, which are no allocations of their own.
//!
//! What is freed leaves a gap. Once gaps are a quarter of all, whoever knows the texts
//! [closes](Texts::close_gaps) them. Growth is by a sixteenth. So a text takes up half as much
//! again at its worst.

use crate::key::KEY_BYTES_MAX;

/// Each text behind its length, which is a character.
#[derive(Default)]
pub(crate) struct Texts {
    all: String,
    /// Bytes of what was freed.
    gaps: usize,
}

impl Texts {
    /// What `text` takes up at most.
    pub(crate) fn bytes_of(text: &str) -> usize {
        let bytes = text.len() + length_of(text).len_utf8();
        bytes + bytes / 2
    }

    /// Where `text` stands from now on.
    pub(crate) fn push(&mut self, text: &str) -> u32 {
        let (length, place) = (length_of(text), self.all.len());
        let bytes = length.len_utf8() + text.len();
        if self.all.capacity() - place < bytes {
            self.all.reserve_exact(bytes.max(place / 16));
        }
        self.all.push(length);
        self.all.push_str(text);
        u32::try_from(place).expect("no stripe has 4 GiB of texts")
    }

    /// The text that stands at `place`.
    pub(crate) fn at(&self, place: u32) -> &str {
        let text = &self.all[place as usize..];
        let mut characters = text.chars();
        let len = characters.next().map_or(0, |length| length as usize);
        &characters.as_str()[..len]
    }

    /// The text that stands at `place` is not read again.
    pub(crate) fn free(&mut self, place: u32) {
        let text = self.at(place);
        self.gaps += length_of(text).len_utf8() + text.len();
        debug_assert!(self.gaps <= self.all.len(), "it was freed twice");
    }

    /// Whether much of it is gaps.
    pub(crate) fn is_loose(&self) -> bool {
        self.gaps * 4 > self.all.len()
    }

    /// Moves all texts together; `places` are those of all that are read again.
    pub(crate) fn close_gaps<'p>(&mut self, places: impl Iterator<Item = &'p mut u32>) {
        let mut closed = Texts::default();
        closed.all.reserve_exact(self.all.len() - self.gaps);
        for place in places {
            *place = closed.push(self.at(*place));
        }
        debug_assert_eq!(closed.all.len(), self.all.len() - self.gaps, "a text would be lost");
        *self = closed;
    }

    #[cfg(test)]
    pub(crate) fn allocation(&self) -> Option<usize> {
        Some(self.all.capacity()).filter(|&bytes| bytes > 0)
    }
}

fn length_of(text: &str) -> char {
    assert!(text.len() <= KEY_BYTES_MAX, "no id, no key and no info is so long");
    const { assert!(KEY_BYTES_MAX < 0xd800, "each length is a character") };
    char::from_u32(text.len() as u32).unwrap_or_default()
}
