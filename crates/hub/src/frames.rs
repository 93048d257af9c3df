//! The encoded forms of one event, each made at most once, on first need, by whoever needs it.
//!
//! Most events are heard over one transport or by nobody, and one that is remembered waits for
//! somebody who may never ask. So there is no place for each form in the event, but a list that
//! begins empty; where there is one form, it is found in one step.

use std::sync::OnceLock;

/// A list that grows at its end.
#[derive(Debug)]
pub(crate) struct Frames<F>(OnceLock<Box<Made<F>>>);

#[derive(Debug)]
struct Made<F> {
    slot: usize,
    frame: F,
    next: Frames<F>,
}

impl<F> Default for Frames<F> {
    fn default() -> Frames<F> {
        Frames(OnceLock::new())
    }
}

impl<F> Frames<F> {
    /// The bytes that a form takes here, beside what it owns itself.
    pub(crate) const FRAME_BYTES: usize = size_of::<Made<F>>();

    /// The form in `slot`, made by `encode` on first need.
    ///
    /// Who comes to the end of the list first puts its form there; the others wait for that, and
    /// go on behind it if it is not what they are looking for. So no form is made twice.
    pub(crate) fn get_or_make(&self, slot: usize, encode: impl FnOnce() -> F) -> &F {
        let mut encode = Some(encode);
        let mut place = self;
        loop {
            let made = place.0.get_or_init(|| {
                let encode = encode.take().expect("who has made a form has found it");
                Box::new(Made { slot, frame: encode(), next: Frames::default() })
            });
            if made.slot == slot {
                return &made.frame;
            }
            place = &made.next;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn threads_that_want_different_forms_at_one_time_make_each_once() {
        for _ in 0..100 {
            let (frames, made) = (Frames::default(), [const { AtomicUsize::new(0) }; 3]);
            thread::scope(|scope| {
                for first in 0..6 {
                    let (frames, made) = (&frames, &made);
                    scope.spawn(move || {
                        for slot in (first..first + 3).map(|slot| slot % 3) {
                            let encode = || made[slot].fetch_add(1, Ordering::Relaxed) + slot;
                            assert_eq!(*frames.get_or_make(slot, encode), slot);
                        }
                    });
                }
            });
            assert!(made.iter().all(|made| made.load(Ordering::Relaxed) == 1));
        }
    }
}
