//! The control plane's end of the tokens: takes what workers ask, tells them what tokens are found
//! to be, and which are good no more.

use std::sync::Arc;
use std::thread::Thread;

use hub::ConnRef;

use crate::mailbox::{Mail, Mailbox, TokenResult};
use crate::tokens::{Outcome, Revocation, TokenQuestion, Tokens};

/// The way to all workers, for whoever verifies tokens.
#[derive(Clone, Debug)]
pub struct TokenQueue {
    mailboxes: Arc<[Arc<Mailbox>]>,
    tokens: Arc<Tokens>,
}

impl TokenQueue {
    pub(crate) fn new(mailboxes: Arc<[Arc<Mailbox>]>, tokens: Arc<Tokens>) -> TokenQueue {
        TokenQueue { mailboxes, tokens }
    }

    /// From now on `thread` takes the questions, unless another one does. Without one all that ask
    /// are refused.
    pub fn set_verifier(&self, thread: Thread) {
        self.tokens.questions.set_thread(thread);
    }

    /// The next question, if there is one. Who finds none parks, and is woken by the next.
    pub fn take(&self) -> Option<TokenQuestion> {
        self.tokens.questions.take()
    }

    /// How many questions wait.
    pub fn waiting(&self) -> usize {
        self.tokens.questions.waiting()
    }

    /// Tells the worker of `conn` what its token is found to be.
    ///
    /// # Errors
    /// Its mailbox is full: try again a little later with what is given back.
    pub fn post_result(&self, conn: ConnRef, outcome: Outcome) -> Result<(), Outcome> {
        let Some(mut room) = self.mailboxes[conn.worker()].reserve(1, 1) else {
            return Err(outcome);
        };
        room.post(Mail::TokenResult(TokenResult { target: conn, outcome }));
        Ok(())
    }

    /// Has the streams ended whose tokens these are. `false` where a mailbox is full, and then
    /// nothing is done: try again a little later.
    #[must_use]
    pub fn revoke(&self, revocation: &Revocation) -> bool {
        let revoked = self.tokens.revoked(revocation);
        let rooms: Option<Vec<_>> =
            self.mailboxes.iter().map(|mailbox| mailbox.reserve(1, 1)).collect();
        let Some(rooms) = rooms else { return false };
        rooms.into_iter().for_each(|mut room| room.post(Mail::Revoke(revoked)));
        true
    }
}

/// For the simulator, which sees that all uses are given back.
#[cfg(test)]
impl TokenQueue {
    /// How many tokens are in use, of those that bound their connections.
    pub(crate) fn tokens_in_use(&self) -> usize {
        self.tokens.uses.len()
    }
}
