//! The keys of a worker's connections, by the number of their socket.
//!
//! A worker's descriptors are in a table of its own, which the kernel fills from the bottom. So
//! their numbers are as dense as slots, and the connection's record need not know that it has keys.
//! They lie in pages that are in no core dump and in no child.
//!
//! Cost: 105 bytes for each number up to the end of its chunk, since 39 keys go into a page.
//! Nothing for chunks in which nobody has spoken TLS yet.

use sys::secrets;
use tls::Keys;

const PAGE_BYTES: usize = 4096;

/// Keys in one page.
const PER_PAGE: usize = PAGE_BYTES / size_of::<Keys>();

/// Pages that are taken at once: 64 KiB, for 624 connections.
const PAGES: usize = 16;

#[repr(align(4096))]
struct Page([Keys; PER_PAGE]);

const _: () = assert!(size_of::<Page>() == PAGE_BYTES);

struct Chunk(Box<[Page]>);

impl Chunk {
    fn new() -> Chunk {
        let page = || Page(std::array::from_fn(|_| Keys::default()));
        let chunk = Chunk(std::iter::repeat_with(page).take(PAGES).collect());
        // On a kernel that does not know it, keys are kept as all other memory is.
        let _ = secrets::keep(&chunk.0);
        chunk
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        let _ = secrets::release(&self.0);
    }
}

/// A place for the keys of each socket.
#[derive(Default)]
pub(super) struct Places(Vec<Option<Chunk>>);

impl Places {
    /// The keys of the socket with that number, or where they will be: `None` where there never
    /// were any near it.
    pub(super) fn at(&mut self, number: u32) -> Option<&mut Keys> {
        let (chunk, page, place) = parts(number);
        let chunk = self.0.get_mut(chunk)?.as_mut()?;
        Some(&mut chunk.0[page].0[place])
    }

    /// The keys at a place, to look at.
    pub(super) fn look_at(&self, number: u32) -> Option<&Keys> {
        let (chunk, page, place) = parts(number);
        Some(&self.0.get(chunk)?.as_ref()?.0[page].0[place])
    }

    /// Where its keys will be.
    pub(super) fn make(&mut self, number: u32) -> &mut Keys {
        let (chunk, page, place) = parts(number);
        if chunk >= self.0.len() {
            self.0.resize_with(chunk + 1, || None);
        }
        let chunk = self.0[chunk].get_or_insert_with(Chunk::new);
        &mut chunk.0[page].0[place]
    }
}

/// For the simulator, which sees that no keys are left of those who went.
#[cfg(test)]
impl Places {
    pub(super) fn are_empty(&self) -> bool {
        let pages = self.0.iter().flatten().flat_map(|chunk| &chunk.0);
        pages.flat_map(|page| &page.0).all(|keys| !keys.are_set() && keys.note == 0)
    }
}

/// Chunk, page of it, and place in that.
fn parts(number: u32) -> (usize, usize, usize) {
    let (page, place) = (number as usize / PER_PAGE, number as usize % PER_PAGE);
    (page / PAGES, page % PAGES, place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_a_place_of_its_own_and_only_chunks_that_are_used_are_there() {
        let mut places = Places::default();
        assert!(places.at(5).is_none() && places.look_at(100_000).is_none());
        for number in [0, 38, 39, 623, 624, 100_000] {
            places.make(number).note = (number % 251) as u8 + 1;
        }
        for number in [0, 38, 39, 623, 624, 100_000] {
            assert_eq!(places.at(number).unwrap().note, (number % 251) as u8 + 1);
        }
        assert_eq!(places.0.iter().flatten().count(), 3);
        assert!(!places.at(1).unwrap().are_set() && places.look_at(1).unwrap().note == 0);
    }
}
