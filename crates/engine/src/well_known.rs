//! Short texts under `/.well-known/` of the public port (RFC 8615): what others ask for to see that
//! a name leads here.
//!
//! They come and go all at once, by an order, which a worker takes at the start of a turn. A client
//! that is told of a text when it is shown, and asks later than within the same millisecond, finds
//! it.
//!
//! Cost: an empty queue that is looked at once a turn; one table for all workers.

use std::sync::Arc;

use crate::limits::TEXTS_MAX;
use crate::mailbox::{Mailbox, Order};
use crate::texts::Texts;

/// The way to all workers, for whoever has something to show.
#[derive(Clone, Debug)]
pub struct WellKnown {
    mailboxes: Box<[Arc<Mailbox>]>,
}

impl WellKnown {
    /// To the workers of these.
    pub(crate) fn new(mailboxes: &[Arc<Mailbox>]) -> WellKnown {
        WellKnown { mailboxes: mailboxes.into() }
    }

    /// Shows these texts, by path, to who asks from now on, and no others. `false` where they are
    /// more than [`TEXTS_MAX`]: then nothing changes.
    #[must_use]
    pub fn show(&self, texts: Vec<(String, String)>) -> bool {
        if texts.len() > TEXTS_MAX {
            return false;
        }
        let texts = Arc::new(Texts(texts));
        self.mailboxes.iter().for_each(|mailbox| mailbox.post_order(Order::Texts(texts.clone())));
        true
    }
}
