//! Answers of the control plane to single connections.
//!
//! What a worker has [asked](crate::questions) for a client is answered by mail, which has its
//! place among the events: what was posted before is written before, what is posted behind it
//! behind it. The control plane says *what*; how that looks on the connection, by its format and
//! its carrier, is the worker's.
//!
//! It weighs as one delivery in the mailbox, and counts as what waits for its client: one that does
//! not read is a slow reader. Where the connection has gone it is dropped.

use std::sync::Arc;

use hub::ConnRef;

use crate::mailbox::{Mail, Mailbox};
use crate::said::{DirectMessage, Say};

/// The way to all connections.
#[derive(Clone, Debug)]
pub struct Answers {
    mailboxes: Arc<[Arc<Mailbox>]>,
}

impl Answers {
    pub(crate) fn new(mailboxes: Arc<[Arc<Mailbox>]>) -> Answers {
        Answers { mailboxes }
    }

    /// Says `said` to `conn`, if it is still there.
    ///
    /// # Errors
    /// Its worker's mailbox is full: try again a little later with what is given back.
    pub fn say(&self, conn: ConnRef, said: DirectMessage) -> Result<(), DirectMessage> {
        let Some(mut room) = self.mailboxes[conn.worker()].reserve(1, 1) else {
            return Err(said);
        };
        room.post(Mail::Say(Say { target: conn, said }));
        Ok(())
    }
}
