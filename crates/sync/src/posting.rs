//! The right to number an event and post it, which one send has at a time.
//!
//! A send takes it once room is reserved for all its mail, and keeps it until the mail is posted,
//! which waits for nothing. So numbers are given in the order of posting: the mail in each mailbox,
//! and what each connection hears, grows in number. Nobody waits for it here: who does not get it
//! tries again.

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, Ordering};

/// The right, and whether somebody has it.
#[derive(Debug, Default)]
pub struct Posting {
    taken: AtomicBool,
}

/// Whoever has this has the right, until it is dropped.
#[derive(Debug)]
pub struct Turn<'p>(&'p Posting);

impl Posting {
    /// Takes the right; `None` while another has it.
    ///
    /// Ordering: acquires what the one before released, so the numbers and mails of both are in
    /// the same order for everybody.
    pub fn take(&self) -> Option<Turn<'_>> {
        // An exchange, since who does not get the right writes nothing: the line stays with its
        // owner.
        let taken = self.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        // Made only by whoever has the right: a turn that is dropped gives it back.
        taken.is_ok().then(|| Turn(self))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        debug_assert!(self.0.taken.load(Ordering::Relaxed), "two had the turn");
        self.0.taken.store(false, Ordering::Release);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU32;

    /// However two senders take turns: what they do in theirs is never done at the same time, and
    /// the later one sees what the earlier one did.
    #[test]
    fn one_sender_posts_at_a_time() {
        loom::model(|| {
            let (posting, posted) = (Arc::new(Posting::default()), Arc::new(AtomicU32::new(0)));
            let senders: Vec<_> = (0..2)
                .map(|_| {
                    let (posting, posted) = (posting.clone(), posted.clone());
                    loom::thread::spawn(move || {
                        let Some(turn) = posting.take() else { return 0 };
                        let before = posted.load(Ordering::Relaxed);
                        posted.store(before + 1, Ordering::Relaxed);
                        drop(turn);
                        1
                    })
                })
                .collect();
            let turns: u32 = senders.into_iter().map(|sender| sender.join().unwrap()).sum();
            let turn = posting.take();
            assert!(turn.is_some() && posting.take().is_none() && posting.take().is_none());
            assert_eq!(posted.load(Ordering::Relaxed), turns);
        });
    }
}
