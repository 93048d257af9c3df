//! Wakes the tasks that wait for the workers' receipts.
//!
//! Workers only ring (see [`engine::Replies`] for why). This task runs on a thread of the runtime,
//! where waking is safe.

use std::io;
use std::sync::Arc;

use dispatch::wake_fd::WakeFd;
use engine::Replies;

/// Listens for as long as the runtime lives.
pub(super) async fn listen(replies: Arc<Replies>) -> io::Result<()> {
    let wake = WakeFd::new(Arc::clone(&replies))?;
    loop {
        if replies.wake_senders() {
            wake.rung().await?;
        } else {
            tokio::task::yield_now().await;
        }
    }
}
