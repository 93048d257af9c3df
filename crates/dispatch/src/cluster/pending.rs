//! What somebody has sent to all nodes, until it is known what it came to.

use tokio::sync::oneshot;

use crate::outcome::{Delivered, LogTrouble, Unposted};

/// Something on its way through the log.
#[derive(Debug)]
pub struct Pending {
    state: State,
    bytes: usize,
}

#[derive(Debug)]
enum State {
    Waiting(oneshot::Receiver<Result<Delivered, LogTrouble>>),
    Known(Result<Delivered, LogTrouble>),
}

impl Pending {
    pub(super) fn new(
        answer: oneshot::Receiver<Result<Delivered, LogTrouble>>,
        bytes: usize,
    ) -> Pending {
        Pending { state: State::Waiting(answer), bytes }
    }

    /// Waits until [`Pending::ready`] tells something.
    pub async fn known(&mut self) {
        if let State::Waiting(answer) = &mut self.state {
            // Who drives the node is gone, with the runtime: it may have sent it.
            self.state = State::Known(answer.await.unwrap_or(Err(LogTrouble::Silent)));
        }
    }

    /// What it came to, which is waited for.
    pub(super) async fn answer(mut self) -> Result<Delivered, LogTrouble> {
        self.known().await;
        match self.state {
            State::Known(known) => known,
            State::Waiting(_) => Err(LogTrouble::Silent),
        }
    }

    /// What it came to, if that is known.
    pub fn ready(&mut self) -> Option<Result<Delivered, Unposted>> {
        use oneshot::error::TryRecvError::{Closed, Empty};
        if let State::Waiting(answer) = &mut self.state {
            self.state = match answer.try_recv() {
                Ok(answer) => State::Known(answer),
                Err(Closed) => State::Known(Err(LogTrouble::Silent)),
                Err(Empty) => return None,
            };
        }
        match self.state {
            State::Known(known) => Some(known.map_err(Unposted::from)),
            State::Waiting(_) => None,
        }
    }

    /// What lies in memory until it is delivered.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
