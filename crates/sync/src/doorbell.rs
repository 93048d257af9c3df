//! Whether a sender must wake a worker: once when it sleeps, not at all when it is awake.
//!
//! The classic race is a mail posted between the worker's last look into its mailbox and its sleep.
//! Both sides write first and look second, with a full fence between (Dekker's handshake). The
//! worker says that it sleeps and then looks for mail, the sender posts mail and then looks whether
//! the worker sleeps. At least one of them sees the other.

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// The flag between one worker and its senders.
#[derive(Debug, Default)]
pub struct Doorbell {
    asleep: AtomicBool,
}

impl Doorbell {
    /// The sender, after it has posted: whether it is the one who must wake the worker.
    pub fn must_ring(&self) -> bool {
        // Orders the post before the look; pairs with the fence in `mark_asleep`.
        fence(Ordering::SeqCst);
        // The cheap look first: while the worker is awake its line stays shared among senders.
        self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed)
    }

    /// The worker, before its last look for mail. It sleeps only if that look finds none.
    pub fn mark_asleep(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        // Orders the flag before the look; pairs with the fence in `must_ring`.
        fence(Ordering::SeqCst);
    }

    /// The worker, when it is up again for whatever reason.
    pub fn mark_awake(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicUsize;

    /// Every interleaving of two senders and a worker that goes to sleep: no mail may lie in the
    /// box while the worker sleeps and nobody has rung. The box is a bare count, since a box with a
    /// lock would order more than the real one does.
    #[test]
    fn mail_is_never_left_with_a_sleeping_worker() {
        loom::model(|| {
            let doorbell = Arc::new(Doorbell::default());
            let posted = Arc::new(AtomicUsize::new(0));
            let rung = Arc::new(AtomicBool::new(false));
            let senders: Vec<_> = (0..2)
                .map(|_| {
                    let (doorbell, posted, rung) = (doorbell.clone(), posted.clone(), rung.clone());
                    loom::thread::spawn(move || {
                        posted.fetch_add(1, Ordering::Release);
                        if doorbell.must_ring() {
                            rung.store(true, Ordering::Relaxed);
                        }
                    })
                })
                .collect();
            doorbell.mark_asleep();
            let seen = posted.load(Ordering::Acquire);
            senders.into_iter().for_each(|sender| sender.join().unwrap());
            let sleeps_over_mail = seen == 0 && posted.load(Ordering::Acquire) > 0;
            assert!(!sleeps_over_mail || rung.load(Ordering::Relaxed));
        });
    }
}
