//! Tells everything that would otherwise go on that the server is stopping.

use tokio::sync::watch;

/// Stops the server.
#[derive(Debug)]
pub struct Stopper(watch::Sender<bool>);

/// Knows whether the server is stopping.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<bool>);

/// Both halves, for a server that is not stopping yet.
pub fn channel() -> (Stopper, Stop) {
    let (sender, receiver) = watch::channel(false);
    (Stopper(sender), Stop(receiver))
}

impl Stopper {
    /// Has everything that holds a [`Stop`] end.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Stop {
    /// Whether the server is stopping.
    pub fn is_stopping(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until the server is stopping.
    pub async fn stopping(&mut self) {
        // Fails when the stopper is gone, and the server with it.
        let _ = self.0.wait_for(|stopping| *stopping).await;
    }
}
