//! The control plane's ear: wakes the tasks that wait for the workers' receipts.
//!
//! Workers only ring a bell (see [`engine::Replies`] for why); this task hears it on a thread of
//! the runtime, where waking is safe.

use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;

use engine::Replies;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

struct Bell(Arc<Replies>);

impl AsRawFd for Bell {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

/// Listens for as long as the runtime lives.
pub(super) async fn listen(replies: Arc<Replies>) -> std::io::Result<()> {
    #[expect(
        deprecated,
        reason = "its successor is unsafe, for types that may lose their descriptor while it is \
                  registered; Bell owns its own until the registration is gone"
    )]
    let bell = AsyncFd::with_interest(Bell(replies), Interest::READABLE)?;
    loop {
        if bell.get_ref().0.wake_senders() {
            // Each ring is a report of its own, so nothing has to be read.
            bell.readable().await?.clear_ready();
        } else {
            tokio::task::yield_now().await;
        }
    }
}
