//! The encoded forms of one event, each made on first need, by whoever needs it.
//!
//! Most events are heard over one transport or by nobody, and one that is remembered waits for
//! somebody who may never ask. So there is no place for each form in the event, but a list that
//! begins empty. Where there is one form, it is found in one step.
//!
//! Nobody waits for another's encoder: a worker never waits, and the other thread may have lost its
//! core in the middle of it. Two that need the same form at the same moment both make it. The first
//! one to be done puts it into the list, and the other takes that and drops its own. So a form is
//! made once but for such moments, and everybody is handed the same bytes for ever.

use once_cell::race::OnceBox;

/// A list that grows at its end.
#[derive(Debug)]
pub(crate) struct Frames<F>(OnceBox<Made<F>>);

#[derive(Debug)]
struct Made<F> {
    slot: usize,
    frame: F,
    next: Frames<F>,
}

impl<F> Default for Frames<F> {
    fn default() -> Frames<F> {
        Frames(OnceBox::new())
    }
}

impl<F> Frames<F> {
    /// The bytes that a form takes here, beside what it owns itself.
    pub(crate) const FRAME_BYTES: usize = size_of::<Made<F>>();

    /// The form in `slot`, if it is there.
    pub(crate) fn get(&self, slot: usize) -> Option<&F> {
        let mut place = self;
        while let Some(made) = place.0.get() {
            if made.slot == slot {
                return Some(&made.frame);
            }
            place = &made.next;
        }
        None
    }

    /// The form in `slot`, made by `encode` when it is not there.
    pub(crate) fn get_or_make(&self, slot: usize, encode: impl FnOnce() -> F) -> &F {
        let mut place = self;
        while let Some(made) = place.0.get() {
            if made.slot == slot {
                return &made.frame;
            }
            place = &made.next;
        }
        place.append(Made { slot, frame: encode(), next: Frames::default() })
    }

    /// Puts what is made at the end of the list, unless somebody was faster with the same form.
    fn append(&self, made: Made<F>) -> &F {
        let (mut place, slot) = (self, made.slot);
        let mut mine = Some(Box::new(made));
        loop {
            // Its error gives the box back: another form was put here first, or the same one.
            if let Some(made) = mine.take() {
                mine = place.0.set(made).err();
            }
            let there = place.0.get().expect("something has just been put here, or was before");
            if there.slot == slot {
                return &there.frame;
            }
            place = &there.next;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::mpsc::sync_channel;
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// Far beyond what a busy machine needs.
    const DEADLINE: Duration = Duration::from_secs(30);

    #[test]
    fn nobody_waits_for_another_who_encodes() {
        for slot_of_other in [0, 1] {
            let frames = Frames::default();
            let (begun, has_begun) = sync_channel(1);
            let (done, is_done) = sync_channel(1);
            thread::scope(|scope| {
                let frames = &frames;
                let slow = scope.spawn(move || {
                    frames.get_or_make(0, || {
                        begun.send(()).unwrap();
                        is_done.recv_timeout(DEADLINE).expect("the other one is done meanwhile");
                        "slow"
                    })
                });
                has_begun.recv().unwrap();
                assert_eq!(*frames.get_or_make(slot_of_other, || "fast"), "fast");
                done.send(()).unwrap();
                let expected = if slot_of_other == 0 { "fast" } else { "slow" };
                assert_eq!(*slow.join().unwrap(), expected, "the first one wins");
            });
        }
    }

    #[test]
    fn threads_that_want_forms_at_one_time_are_handed_the_same_ones() {
        const THREADS: usize = 4;
        const FORMS: usize = 3;
        for round in 0..500 {
            let (frames, together) = (Frames::default(), Barrier::new(THREADS));
            let all: Vec<Vec<&(usize, usize)>> = thread::scope(|scope| {
                let threads: Vec<_> = (0..THREADS)
                    .map(|thread| {
                        let (frames, together) = (&frames, &together);
                        scope.spawn(move || {
                            together.wait();
                            let first = (thread + round) % FORMS;
                            let slots = (first..first + FORMS).map(|slot| slot % FORMS);
                            let mut got: Vec<_> = slots
                                .map(|slot| frames.get_or_make(slot, || (slot, thread)))
                                .collect();
                            got.rotate_right(first);
                            got
                        })
                    })
                    .collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            for forms in &all {
                for slot in 0..FORMS {
                    assert_eq!(forms[slot].0, slot);
                    assert!(std::ptr::eq(forms[slot], all[0][slot]), "one that all were handed");
                    assert!(std::ptr::eq(forms[slot], frames.get_or_make(slot, || unreachable!())));
                }
            }
        }
    }
}
