//! The word that the server is stopping, for everything that would otherwise go on.

use tokio::sync::watch;

/// Says it, once.
#[derive(Debug)]
pub struct Stopper(watch::Sender<bool>);

/// Hears it.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<bool>);

/// A word that is not said yet.
pub fn channel() -> (Stopper, Stop) {
    let (sender, receiver) = watch::channel(false);
    (Stopper(sender), Stop(receiver))
}

impl Stopper {
    /// Says it.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Stop {
    /// Whether the server is stopping.
    pub fn is_said(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until the server is stopping.
    pub async fn said(&mut self) {
        // Fails when the sayer is gone, and the server with it.
        let _ = self.0.wait_for(|stop| *stop).await;
    }
}
