//! The router: finds the audience of an event and hands it to the workers.
//!
//! It runs on the sender's thread. A send is a small state machine, [`Sending`], because two things
//! may make it pause: an audience of many thousands is walked slice by slice, and a worker's
//! mailbox may be full. What to do in a pause (yield, sleep, give up) is the caller's to say.
//!
//! Cost of a typical audience of 16: one look into the store, 16 into the directory, one sort of 16
//! numbers, one mail per worker that has a listener.

use std::sync::Arc;

use hub::{Audience, ConnRef, Directory, DisconnectReason, EventIds, Followers, FollowersError};
use hub::{IdText, Names};

use crate::Event;
use crate::mailbox::{Mail, Mailbox, Targets};
use crate::receipt::{Receipt, Stub};
use crate::replies::Replies;

/// Finds audiences and posts mail. Shared by all senders.
pub struct Router {
    names: Arc<Names>,
    directory: Arc<Directory>,
    mailboxes: Arc<[Arc<Mailbox>]>,
    replies: Arc<Replies>,
    event_ids: EventIds,
}

/// What a step of a send came to.
#[derive(Debug)]
pub enum Step {
    /// The audience is large: a slice was walked, others may have their turn before the next.
    More,
    /// A worker's mailbox is full: try again when it has had time to work.
    MailboxFull,
    /// All mail is posted. The receipt tells how many connections it reached.
    Posted(Receipt),
}

impl Router {
    pub(crate) fn new(
        names: Arc<Names>,
        directory: Arc<Directory>,
        mailboxes: Arc<[Arc<Mailbox>]>,
        replies: Arc<Replies>,
    ) -> Router {
        Router { names, directory, mailboxes, replies, event_ids: EventIds::default() }
    }

    /// Makes the event that a sender asked for. `data` must be one valid JSON value.
    pub fn event(&self, about: &str, data: &str) -> Arc<Event> {
        let number = self.event_ids.next(sys::clock::unix_ms());
        Arc::new(Event::new(number, about, data))
    }

    /// Begins to hand `event` to the audience of its subject `about`.
    pub fn send(&self, about: IdText<'_>, event: Arc<Event>) -> Sending<'_> {
        let audience = self.names.lookup(about).map(Audience::of_subject);
        self.sending(audience, Letter::Event(event))
    }

    /// Begins to end all connections of `id`.
    pub fn logout(&self, id: IdText<'_>) -> Sending<'_> {
        let audience = self.names.lookup(id).map(Audience::of_id);
        self.sending(audience, Letter::Goodbye(DisconnectReason::LoggedOut))
    }

    /// A name that is neither online nor stored has no audience.
    fn sending(&self, audience: Option<Audience>, letter: Letter) -> Sending<'_> {
        let audience = audience.unwrap_or_default();
        let ticket = Some(Stub::first(&self.replies));
        Sending { router: self, letter, audience, gathered: false, ticket }
    }

    /// How many connections are logged in under `id`.
    pub fn connections(&self, id: IdText<'_>) -> usize {
        self.names.lookup(id).map_or(0, |id| self.directory.connections(id))
    }

    /// How many ids are online.
    pub fn ids_online(&self) -> usize {
        self.directory.ids_online()
    }

    /// The dictionary of names.
    pub fn names(&self) -> &Arc<Names> {
        &self.names
    }
}

enum Letter {
    Event(Arc<Event>),
    Goodbye(DisconnectReason),
}

/// A send under way. Dropping it unfinished abandons what is not posted yet.
pub struct Sending<'r> {
    router: &'r Router,
    letter: Letter,
    audience: Audience,
    gathered: bool,
    /// The sender's own stub, without which the receipt could complete between two mails, and the
    /// receipt; gone once all is posted.
    ticket: Option<(Stub, Receipt)>,
}

impl Sending<'_> {
    /// Does the next piece of work. Call it until it answers [`Step::Posted`], not after.
    pub fn step(&mut self, followers: &dyn Followers) -> Result<Step, FollowersError> {
        if !self.gathered {
            if self.audience.gather(&self.router.directory, followers)? {
                return Ok(Step::More);
            }
            self.gathered = true;
        }
        Ok(self.post())
    }

    fn post(&mut self) -> Step {
        let (stub, receipt) = self.ticket.take().expect("a finished send is not stepped again");
        while let Some((worker, targets)) = self.audience.group() {
            let mail = self.letter.mail(targets, stub.another());
            if self.router.mailboxes[worker].post(mail).is_err() {
                self.ticket = Some((stub, receipt));
                return Step::MailboxFull;
            }
            self.audience.next_group();
        }
        Step::Posted(receipt)
    }
}

impl Letter {
    fn mail(&self, targets: &[ConnRef], stub: Stub) -> Mail {
        let targets = Targets::from_slice(targets);
        match self {
            Letter::Event(event) => Mail::Deliver { event: event.clone(), targets, stub },
            Letter::Goodbye(reason) => Mail::Close { reason: *reason, targets, stub },
        }
    }
}
