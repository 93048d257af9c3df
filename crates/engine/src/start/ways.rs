//! The ways between the workers and the control plane.

use std::sync::Arc;

use sync::replies::Replies;

use super::Engine;
use crate::answers::Answers;
use crate::client_sends::ClientSends;
use crate::handing_out::HandOuts;
use crate::history_reads::HistoryReads;
use crate::resume::Resumes;
use crate::router::Router;
use crate::token_queue::TokenQueue;
use crate::watch::Watches;
use crate::well_known::WellKnown;

impl Engine {
    /// The way in for events.
    pub fn router(&self) -> &Arc<Router> {
        &self.router
    }

    /// Where the senders that wait for receipts are woken: the control plane must look there as
    /// long as it waits for any.
    pub fn replies(&self) -> &Arc<Replies> {
        &self.replies
    }

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

    /// Where workers ask what tokens of the Mercure protocol are, as at [`Engine::token_queue`].
    pub fn hub_token_queue(&self) -> TokenQueue {
        TokenQueue::new(self.mailboxes.clone(), self.hub_tokens.clone())
    }

    /// What clients send: somebody must take and answer it, or they wait for ever.
    pub fn client_sends(&self) -> &Arc<ClientSends> {
        &self.client_sends
    }

    /// What clients read of what was sent: somebody must take and answer it.
    pub fn history_reads(&self) -> &Arc<HistoryReads> {
        &self.history_reads
    }

    /// Where connections come that are served elsewhere, if any are: somebody must take them, or
    /// their clients wait for ever.
    pub fn hand_outs(&self) -> Option<&HandOuts> {
        self.hand_outs.as_ref()
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
