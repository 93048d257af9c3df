//! What the control plane has of an engine: where workers ask, and how they are told.

use std::sync::Arc;

use super::Engine;
use crate::answers::Answers;
use crate::resume::Resumes;
use crate::token_queue::TokenQueue;
use crate::watch::Watches;
use crate::well_known::WellKnown;

impl Engine {
    /// Where workers ask what clients that came back have missed: the control plane must answer, by
    /// [`Resuming::begin`](crate::Resuming::begin), or they are held for ever.
    pub fn resumes(&self) -> &Arc<Resumes> {
        &self.resumes
    }

    /// Where workers ask what tokens are that they cannot verify within a turn: somebody must take
    /// these questions and answer them, or their clients are refused.
    pub fn token_queue(&self) -> TokenQueue {
        TokenQueue::new(self.mailboxes.clone(), self.tokens.clone())
    }

    /// The way to say something to one connection.
    pub fn answers(&self) -> Answers {
        Answers::new(self.mailboxes.clone())
    }

    /// Who is in a room, and who wants to know, where streams need tokens: the control plane must
    /// answer and tell, or nobody hears of it.
    pub fn watches(&self) -> Option<&Watches> {
        self.watches.as_ref()
    }

    /// Where texts are shown on the public port that prove whose names lead here.
    pub fn well_known(&self) -> WellKnown {
        WellKnown::new(&self.mailboxes[..self.workers()])
    }
}
