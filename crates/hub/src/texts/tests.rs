//! What is read, beside a map of the standard library, how much room is left free, and how much one
//! call moves.

use std::collections::BTreeMap;

use super::*;

/// Texts by the numbers under which somebody knows them.
#[derive(Default)]
struct Known {
    texts: Texts,
    places: BTreeMap<u32, (u32, String)>,
    /// Bytes of what was moved by one call, at most.
    moved_most: usize,
}

impl Known {
    fn put(&mut self, number: u32, text: String) {
        self.free(number);
        self.places.insert(number, (self.texts.push(&text), text));
    }

    fn free(&mut self, number: u32) {
        let Some((place, _)) = self.places.remove(&number) else { return };
        self.texts.free(place);
        if self.texts.is_loose() {
            let before: Vec<u32> = self.places.values().map(|(place, _)| *place).collect();
            self.texts.close_gaps(self.places.values_mut().map(|(place, _)| place));
            let moved = self.places.values().zip(before).filter(|(now, before)| now.0 != *before);
            let moved = moved.map(|((_, text), _)| written_bytes(text)).sum();
            self.moved_most = self.moved_most.max(moved);
        }
    }

    fn bytes(&self) -> usize {
        self.places.values().map(|(_, text)| written_bytes(text)).sum()
    }

    fn check(&self) {
        for (place, text) in self.places.values() {
            assert_eq!(self.texts.at(*place), text);
        }
        // By a third for gaps, by a sixteenth for growth, and what the last page has free.
        let (taken, bytes) = (self.texts.allocations().sum::<usize>(), self.bytes());
        assert!(taken <= bytes * 3 / 2 + KEY_BYTES_MAX, "{taken} for {bytes}");
    }
}

#[test]
fn texts_are_read_as_they_were_written_whatever_else_comes_and_goes() {
    let mut random = fastrand::Rng::with_seed(testing::seed());
    for (numbers, longest) in [(20, 4), (3_000, 30), (300, 1_100), (80, KEY_BYTES_MAX / 3)] {
        let mut known = Known::default();
        for step in 0..20_000_usize {
            let number = random.u32(..numbers);
            // It fills, and empties, and so on.
            match random.usize(..10) < if step / 4_000 % 2 == 0 { 7 } else { 3 } {
                true => {
                    let filler = ["x", "ä", "日"][random.usize(..3)];
                    known.put(number, filler.repeat(random.usize(..longest)));
                }
                false => known.free(number),
            }
            if step % 1_000 == 0 {
                known.check();
            }
        }
        known.check();
        (0..numbers).for_each(|number| known.free(number));
        assert_eq!(known.texts.allocations().count(), 0, "all comes back");
    }
}

/// A crowd of which each has a kilobyte comes, changes one by one, and goes.
#[test]
fn one_call_moves_a_page_at_most_however_many_texts_there_are() {
    let mut known = Known::default();
    let text = |number: u32| format!("{number:01000}");
    for number in 0..10_000 {
        known.put(number, text(number));
    }
    for number in (0..10_000).step_by(3).chain(0..5_000) {
        known.put(number, text(number + 1));
    }
    known.check();
    for number in (0..10_000).rev().step_by(2).chain(0..10_000) {
        known.free(number);
    }
    assert!((1..=PAGE_BYTES).contains(&known.moved_most), "{} bytes", known.moved_most);
    assert_eq!(known.texts.allocations().count(), 0);
}
