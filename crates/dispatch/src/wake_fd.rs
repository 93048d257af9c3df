//! Tasks that a descriptor wakes: workers and the router ring an eventfd, and never touch the
//! runtime themselves (see [`engine::Replies`] for why).

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// What owns the descriptor, kept until the registration is gone.
struct Owner<T>(Arc<T>);

impl<T: AsFd> AsRawFd for Owner<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

/// The descriptor of a `T`, registered with the runtime.
pub struct WakeFd<T: AsFd>(AsyncFd<Owner<T>>);

impl<T: AsFd> WakeFd<T> {
    /// Registers the descriptor of `owner`.
    pub fn new(owner: Arc<T>) -> io::Result<WakeFd<T>> {
        #[expect(
            deprecated,
            reason = "its successor is unsafe, for types that may lose their descriptor while it \
                      is registered; Owner keeps its own until the registration is gone"
        )]
        AsyncFd::with_interest(Owner(owner), Interest::READABLE).map(WakeFd)
    }

    /// Waits until it is rung. Each ring is a report of its own, so nothing has to be read.
    pub async fn rung(&self) -> io::Result<()> {
        self.0.readable().await?.clear_ready();
        Ok(())
    }
}
