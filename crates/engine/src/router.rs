//! The router: finds the audience of an event and hands it to the workers.
//!
//! It runs on the sender's thread. A send is a small state machine, [`Sending`], because two things
//! may make it pause: an audience of many thousands is walked slice by slice, and a worker's mailbox
//! may be full. What to do in a pause (yield, sleep, give up) is the caller's to say.
//!
//! Cost of a typical audience of 16: one look into the store, 16 into the directory, one sort of 16
//! numbers, one mail per worker that has a listener.

use std::sync::Arc;

use hub::{ConnRef, Directory, DisconnectReason, EventIds, Followers, FollowersError};
use hub::{Id, IdText, Names};

use crate::Event;
use crate::mailbox::{Mail, Mailbox, Targets};
use crate::receipt::{Receipt, Stub};

/// Finds audiences and posts mail. Shared by all senders.
pub struct Router {
    names: Arc<Names>,
    directory: Arc<Directory>,
    mailboxes: Arc<[Arc<Mailbox>]>,
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
    ) -> Router {
        Router { names, directory, mailboxes, event_ids: EventIds::default() }
    }

    /// Makes the event that a sender asked for. `data` must be one valid JSON value.
    pub fn event(&self, about: &str, data: &str) -> Arc<Event> {
        let number = self.event_ids.next(sys::clock::unix_ms());
        Arc::new(Event::new(number, about, data))
    }

    /// Begins to hand `event` to the audience of its subject `about`.
    pub fn send(&self, about: IdText<'_>, event: Arc<Event>) -> Sending<'_> {
        let mut sending = Sending::new(self, Letter::Event(event));
        if let Some(subject) = self.names.lookup(about) {
            sending.include(subject);
            sending.unread = Some((subject, None));
        }
        sending
    }

    /// Begins to end all connections of `id`.
    pub fn logout(&self, id: IdText<'_>) -> Sending<'_> {
        let mut sending = Sending::new(self, Letter::Goodbye(DisconnectReason::LoggedOut));
        if let Some(id) = self.names.lookup(id) {
            sending.include(id);
        }
        sending
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
    /// The subject whose followers are still to be read, and the last one that was.
    unread: Option<(Id, Option<Id>)>,
    /// The connections found so far; once `sorted`, those not posted yet.
    targets: Vec<ConnRef>,
    sorted: bool,
    /// The sender's own stub, without which the receipt could complete between two mails, and the
    /// receipt; gone once all is posted.
    ticket: Option<(Stub, Receipt)>,
}

impl<'r> Sending<'r> {
    fn new(router: &'r Router, letter: Letter) -> Sending<'r> {
        let ticket = Some(Stub::first());
        Sending { router, letter, unread: None, targets: Vec::new(), sorted: false, ticket }
    }

    fn include(&mut self, member: Id) {
        let targets = &mut self.targets;
        self.router.directory.visit(member, |conn| targets.push(conn));
    }

    /// Does the next piece of work. Call it until it answers [`Step::Posted`], not after.
    pub fn step(&mut self, followers: &dyn Followers) -> Result<Step, FollowersError> {
        if let Some((subject, after)) = self.unread {
            let last = followers.slice(subject, after, &mut |follower| self.include(follower))?;
            self.unread = last.map(|last| (subject, Some(last)));
            if self.unread.is_some() {
                return Ok(Step::More);
            }
        }
        if !self.sorted {
            // Brings a connection that is in the audience under two ids side by side, and the
            // connections of one worker together, the last worker's first in line for `post`.
            self.targets.sort_unstable();
            self.targets.dedup();
            self.sorted = true;
        }
        Ok(self.post())
    }

    fn post(&mut self) -> Step {
        let (stub, receipt) = self.ticket.take().expect("a finished send is not stepped again");
        while let Some(worker) = self.targets.last().map(|conn| conn.worker()) {
            let start = self.targets.partition_point(|conn| conn.worker() < worker);
            let mail = self.letter.mail(&self.targets[start..], stub.another());
            if self.router.mailboxes[worker].post(mail).is_err() {
                self.ticket = Some((stub, receipt));
                return Step::MailboxFull;
            }
            self.targets.truncate(start);
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
