//! What somebody has sent to all nodes, until it is known what it came to.

use tokio::sync::oneshot;

use crate::outcome::{Delivered, LogTrouble, Unposted};

/// Something on its way through the log.
#[derive(Debug)]
pub struct Pending {
    state: PendingState,
    bytes: usize,
}

#[derive(Debug)]
enum PendingState {
    Waiting(oneshot::Receiver<Result<Delivered, LogTrouble>>),
    Known(Result<Delivered, LogTrouble>),
}

impl Pending {
    pub(super) fn new(
        answer: oneshot::Receiver<Result<Delivered, LogTrouble>>,
        bytes: usize,
    ) -> Pending {
        Pending { state: PendingState::Waiting(answer), bytes }
    }

    /// Waits until [`Pending::ready`] tells something.
    pub async fn known(&mut self) {
        if let PendingState::Waiting(answer) = &mut self.state {
            // The node loop is gone, with the runtime: it may have sent it.
            self.state = PendingState::Known(answer.await.unwrap_or(Err(LogTrouble::Silent)));
        }
    }

    /// What it came to, which is waited for.
    pub(super) async fn answer(mut self) -> Result<Delivered, LogTrouble> {
        self.known().await;
        match self.state {
            PendingState::Known(known) => known,
            PendingState::Waiting(_) => Err(LogTrouble::Silent),
        }
    }

    /// What it came to, if that is known.
    pub fn ready(&mut self) -> Option<Result<Delivered, Unposted>> {
        use oneshot::error::TryRecvError::{Closed, Empty};
        if let PendingState::Waiting(answer) = &mut self.state {
            self.state = match answer.try_recv() {
                Ok(answer) => PendingState::Known(answer),
                Err(Closed) => PendingState::Known(Err(LogTrouble::Silent)),
                Err(Empty) => return None,
            };
        }
        match self.state {
            PendingState::Known(known) => Some(known.map_err(Unposted::from)),
            PendingState::Waiting(_) => None,
        }
    }

    /// What lies in memory until it is delivered.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
