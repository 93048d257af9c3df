//! How far an answer is that one gives in another's place: the word between these two.
//!
//! Whoever gives the answer says there that it is given, or how much of it; whoever was asked says
//! that it waits to be told. Each change acquires and releases: so who finds the other's bit sees
//! what was done before it, and of two that set theirs at least one finds the other's. That one
//! acts: who gives rings, or the other goes on.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering};

/// The answer is on its way to the client.
const WRITTEN: u32 = 1;
/// It is not all: who has asked must go on.
const FAILED: u32 = 2;
/// Who has asked waits to be told.
const WANTED: u32 = 4;
/// Where the number of bytes stands.
const SENT_SHIFT: u32 = 3;

const _: () = {
    assert!(WRITTEN | FAILED | WANTED == (1 << SENT_SHIFT) - 1, "each bit says one thing");
};

/// How far an answer is that another lane gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Relayed {
    /// It will be given, or refused. Who has asked is rung then.
    Waits,
    /// It is given.
    Written,
    /// It is not, behind its first bytes, and will not be.
    Failed {
        /// So many of them are.
        sent: usize,
    },
}

/// The word itself, of an answer that nobody has begun at first.
#[derive(Debug, Default)]
pub struct RelayState {
    /// [`WRITTEN`] or [`FAILED`], and [`WANTED`], and how many bytes were sent before it failed.
    bits: AtomicU32,
}

impl RelayState {
    /// The answer is given, or there was no room behind its first bytes: an error with their
    /// number. Whether the one who has asked is to be rung.
    pub fn settle(&self, written: Result<(), usize>) -> bool {
        let bits = match written {
            Ok(()) => WRITTEN,
            Err(sent) => FAILED | (sent as u32) << SENT_SHIFT,
        };
        debug_assert_eq!(bits >> SENT_SHIFT, written.err().unwrap_or(0) as u32);
        let before = self.bits.fetch_or(bits, Ordering::AcqRel);
        debug_assert_eq!(before & !WANTED, 0, "what became of it is said once");
        let is_wanted = before & WANTED != 0;
        is_wanted || written.is_err()
    }

    /// How far it is, for the one who has asked; when that is `wanted`, it is rung at the end.
    pub fn how_far(&self, wanted: bool) -> Relayed {
        let bits = match wanted {
            true => self.bits.fetch_or(WANTED, Ordering::AcqRel),
            false => self.bits.load(Ordering::Acquire),
        };
        match bits & !WANTED {
            0 => Relayed::Waits,
            WRITTEN => Relayed::Written,
            failed => Relayed::Failed { sent: (failed >> SENT_SHIFT) as usize },
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicBool;

    /// Whenever the answer is given, and whenever that is asked for: nobody waits for a ring that
    /// does not come, and who is told of the end sees what was done before it.
    #[test]
    fn who_waits_for_the_end_is_rung() {
        for written in [Ok(()), Err(100)] {
            loom::model(move || {
                let (state, done) =
                    (Arc::new(RelayState::default()), Arc::new(AtomicBool::new(false)));
                let worker = {
                    let (state, done) = (state.clone(), done.clone());
                    loom::thread::spawn(move || {
                        done.store(true, Ordering::Relaxed);
                        state.settle(written)
                    })
                };
                let waits = |wanted: bool| {
                    let waits = state.how_far(wanted) == Relayed::Waits;
                    assert!(waits || done.load(Ordering::Relaxed), "the end came before its work");
                    waits
                };
                waits(false);
                let waits = waits(true);
                let is_rung = worker.join().unwrap();
                assert!(is_rung || !waits, "nobody rings");
                let expected = match written {
                    Ok(()) => Relayed::Written,
                    Err(sent) => Relayed::Failed { sent },
                };
                assert_eq!(state.how_far(false), expected);
            });
        }
    }
}
