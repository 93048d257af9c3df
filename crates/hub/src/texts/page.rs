//! A page of texts: chunks of one size, of which each is an allocation of just its length.

use crate::bucket_table;
use crate::key::KEY_BYTES_MAX;

/// A text begins before that many bytes of its chunk. The last one of a chunk may reach beyond.
const CHUNK: usize = 512;

/// Each text behind its length, which is a character.
#[derive(Default)]
pub(super) struct TextPage {
    /// Chunks to which nothing is added.
    full: Vec<Box<str>>,
    last: String,
    /// Bytes of all texts, and of what was freed.
    len: u32,
    gaps: u32,
}

impl TextPage {
    /// Where `text` stands in the page from now on: before the bytes that the page has then.
    pub(super) fn push(&mut self, text: &str) -> usize {
        if self.last.len() >= CHUNK {
            bucket_table::push(&mut self.full, std::mem::take(&mut self.last).into_boxed_str());
        }
        let (bytes, begin) = (written_bytes(text), self.last.len());
        if self.last.capacity() - begin < bytes {
            // The last text of a chunk leaves nothing free.
            self.last.reserve_exact(bytes.max((begin / 16).min(CHUNK - begin)));
        }
        self.last.push(length_of(text));
        self.last.push_str(text);
        self.len += bytes as u32;
        self.full.len() * CHUNK + begin
    }

    /// The text that stands there.
    pub(super) fn at(&self, at: usize) -> &str {
        let (chunk, begin) = (at / CHUNK, at % CHUNK);
        let text = &self.full.get(chunk).map_or(&*self.last, |full| full)[begin..];
        let mut characters = text.chars();
        let len = characters.next().map_or(0, |length| length as usize);
        &characters.as_str()[..len]
    }

    /// The text that stands there is not read again. Whether much of the page is gaps now.
    pub(super) fn free(&mut self, at: usize) -> bool {
        self.gaps += written_bytes(self.at(at)) as u32;
        debug_assert!(self.gaps <= self.len, "it was freed twice");
        self.gaps * 4 > self.len
    }

    /// Texts of so many bytes are added next.
    pub(super) fn reserve(&mut self, bytes: usize) {
        let room = CHUNK.saturating_sub(self.last.len());
        self.last.reserve_exact(bytes.min(room));
    }

    /// No text is added any more.
    pub(super) fn shrink(&mut self) {
        self.last.shrink_to_fit();
        self.full.shrink_to_fit();
    }

    /// Bytes of all texts, those that were freed among them.
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    /// Bytes of those that were not freed.
    pub(super) fn left(&self) -> usize {
        (self.len - self.gaps) as usize
    }

    /// Whether there is no text.
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes of its allocations.
    #[cfg(test)]
    pub(super) fn allocations(&self) -> impl Iterator<Item = usize> {
        let full = self.full.iter().map(|chunk| chunk.len());
        full.chain([self.last.capacity(), self.full.capacity() * size_of::<Box<str>>()])
    }
}

/// The bytes of a text and its length.
pub(super) fn written_bytes(text: &str) -> usize {
    length_of(text).len_utf8() + text.len()
}

fn length_of(text: &str) -> char {
    assert!(text.len() <= KEY_BYTES_MAX, "no id, no key and no info is so long");
    const { assert!(KEY_BYTES_MAX < 0xd800, "each length is a character") };
    char::from_u32(text.len() as u32).unwrap_or_default()
}
