//! The router: finds the audience of an event and hands it to the workers.
//!
//! It runs on the sender's thread. A send is a small state machine, [`Sending`], because two things
//! may make it pause: an audience of many thousands is walked slice by slice, and a worker's
//! mailbox may be full. What to do in a pause (yield, sleep, give up) is the caller's to say.
//!
//! A send is posted to all of its audience or to nobody. Once the audience is gathered, room is
//! reserved in each mailbox that it needs; where one is full, the send gives all room back and
//! waits without a number, and holds up nobody. With room everywhere it takes its turn
//! ([`Posting`]): the event gets its number, is recorded in the [history](History) and posted to
//! all mailboxes, without a wait, and only then has the next one its turn. So every connection
//! hears growing numbers, "I have heard all up to this number" is exact, and what has a number was
//! posted.
//!
//! Cost of a typical audience of 16: one look into the store, 16 into the directory, one sort of 16
//! numbers, one mail per worker that has a listener, and a record in the history.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use hub::{Audience, Begun, ConnRef, Directory, DisconnectReason, Draft, EventIds, Followers};
use hub::{FollowersError, HistoryLimits, IdText, Names};
use proto::Frame;
use smallvec::SmallVec;

use crate::clock::Clock;
use crate::mailbox::{Mail, Mailbox, Reservation, Targets};
use crate::posting::Posting;
use crate::receipt::{Receipt, Stub};
use crate::replies::Replies;
use crate::{Event, History, TERM_SLOT};

/// Finds audiences and posts mail. Shared by all senders.
pub struct Router {
    names: Arc<Names>,
    directory: Arc<Directory>,
    mailboxes: Arc<[Arc<Mailbox>]>,
    replies: Arc<Replies>,
    event_ids: Arc<EventIds>,
    /// `None` when nothing is remembered.
    history: Option<History>,
    posting: Posting,
    clock: Clock,
}

/// What a step of a send came to.
#[derive(Debug)]
pub enum Step {
    /// The audience is large and a slice was walked, or another send is being posted: others may
    /// have their turn before the next step.
    More,
    /// A mailbox that this send needs is full: try again when its worker has had time to work.
    /// Nothing is posted, and the event has no number.
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
        event_ids: Arc<EventIds>,
        history: HistoryLimits,
        clock: Clock,
    ) -> Router {
        let history = history.is_on().then(|| History::new(names.clone(), history));
        let posting = Posting::new();
        Router { names, directory, mailboxes, replies, event_ids, history, posting, clock }
    }

    /// Begins to hand the event that becomes of `draft` to the audience of its subject `about`.
    pub fn send(&self, about: IdText<'_>, draft: Draft) -> Sending<'_> {
        let begun = self.history.as_ref().map(|history| history.begin(about));
        let subject = match &begun {
            Some(begun) => Some(begun.subject()),
            None => self.names.lookup(about),
        };
        let mut sending = Sending::new(self, subject.map(Audience::of_subject));
        sending.draft = Some(Drafted { draft, begun, term: None });
        sending
    }

    /// Begins to hand the event that becomes of `draft` to the connections of `id` alone. It is not
    /// remembered: what is remembered of a subject is for all who follow it.
    pub fn send_to(&self, id: IdText<'_>, draft: Draft) -> Sending<'_> {
        let mut sending = Sending::new(self, self.names.lookup(id).map(Audience::of_id));
        sending.draft = Some(Drafted { draft, begun: None, term: None });
        sending
    }

    /// Begins to end all connections of `id`.
    pub fn logout(&self, id: IdText<'_>) -> Sending<'_> {
        let mut sending = Sending::new(self, self.names.lookup(id).map(Audience::of_id));
        sending.outgoing = Some(Outgoing::Disconnect(DisconnectReason::LoggedOut));
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

    /// Who numbers events.
    pub fn event_ids(&self) -> &Arc<EventIds> {
        &self.event_ids
    }

    /// What was sent of late; `None` when nothing is remembered.
    pub fn history(&self) -> Option<&History> {
        self.history.as_ref()
    }

    /// Posts what a client of `worker` has missed, when no send is between its number and its last
    /// mail; gives it back otherwise.
    pub(crate) fn post_catch_up(&self, worker: usize, mut mail: Mail) -> Result<(), Mail> {
        let Some(_turn) = self.posting.take() else { return Err(mail) };
        let Some(mut room) = self.mailboxes[worker].reserve(1, mail.weight()) else {
            return Err(mail);
        };
        if let Mail::CatchUp(catch_up) = &mut mail
            && catch_up.whole
        {
            catch_up.up_to = self.event_ids.last();
        }
        room.post(mail);
        Ok(())
    }

    /// Room for all mail to this audience; `None` where a mailbox is full.
    fn reserve(&self, audience: &Audience) -> Option<Reservations<'_>> {
        let reserve = |need: hub::Need| {
            Some((need.worker, self.mailboxes[need.worker].reserve(need.groups, need.targets)?))
        };
        audience.needs().map(reserve).collect()
    }

    /// Gives the event its number and remembers it. The caller has its turn to post.
    fn number(&self, Drafted { draft, begun, term }: Drafted) -> Arc<Event> {
        let id = self.event_ids.next(self.clock.unix_ms());
        let event: Event = draft.numbered(id);
        if let Some(term) = term {
            event.frame(TERM_SLOT, |_| term);
        }
        let event = Arc::new(event);
        if let (Some(history), Some(begun)) = (&self.history, begun) {
            history.record(begun, event.clone(), self.clock.monotonic_ms());
        }
        event
    }
}

/// An event to be, and its place among the sends that have begun.
struct Drafted {
    draft: Draft,
    /// `None` when it is not to be remembered.
    begun: Option<Begun>,
    /// The Erlang term that its payload was, if it was one.
    term: Option<Frame>,
}

enum Outgoing {
    Event(Arc<Event>),
    Disconnect(DisconnectReason),
}

/// Room in the mailboxes of these workers, in their order.
type Reservations<'r> = SmallVec<[(usize, Reservation<'r>); 4]>;

/// A send under way. Dropped before it is posted, it has never been.
pub struct Sending<'r> {
    router: &'r Router,
    /// The event as long as it has no number.
    draft: Option<Drafted>,
    /// What is posted, once it is known.
    outgoing: Option<Outgoing>,
    audience: Audience,
    gathered: bool,
    /// It waits for room, and nobody waits for it.
    waits: bool,
    /// The sender's own stub, without which the receipt could complete between two mails, and the
    /// receipt; gone once all is posted.
    receipt: Option<(Stub, Receipt)>,
}

impl<'r> Sending<'r> {
    /// A name that is neither online nor stored nor remembered has no audience.
    fn new(router: &'r Router, audience: Option<Audience>) -> Sending<'r> {
        Sending {
            router,
            draft: None,
            outgoing: None,
            audience: audience.unwrap_or_default(),
            gathered: false,
            waits: false,
            receipt: Some(Stub::first(&router.replies)),
        }
    }

    /// The same with the Erlang term that its payload was: guests hear that one.
    pub fn with_term(mut self, term: Frame) -> Sending<'r> {
        if let Some(drafted) = &mut self.draft {
            drafted.term = Some(term);
        }
        self
    }

    /// Does the next piece of work. Call it until it answers [`Step::Posted`], not after.
    pub fn step(&mut self, followers: &dyn Followers) -> Result<Step, FollowersError> {
        self.go_on();
        if !self.gathered {
            if self.audience.gather(&self.router.directory, followers)? {
                return Ok(Step::More);
            }
            self.gathered = true;
        }
        let router: &'r Router = self.router;
        let Some(rooms) = router.reserve(&self.audience) else {
            self.wait();
            return Ok(Step::MailboxFull);
        };
        let Some(drafted) = self.draft.take() else { return Ok(self.post(rooms)) };
        let Some(_turn) = router.posting.take() else {
            self.draft = Some(drafted);
            return Ok(Step::More);
        };
        let event = router.number(drafted);
        let number = event.number();
        self.outgoing = Some(Outgoing::Event(event));
        let posted = self.post(rooms);
        router.event_ids.set_posted(number);
        Ok(posted)
    }

    /// The event, once it has its number.
    pub fn event(&self) -> Option<&Arc<Event>> {
        match &self.outgoing {
            Some(Outgoing::Event(event)) => Some(event),
            _ => None,
        }
    }

    /// A mailbox is full. Who comes back meanwhile does not wait for this send.
    fn wait(&mut self) {
        if let (Some(history), Some(begun)) = (&self.router.history, self.begun()) {
            history.wait(*begun);
            self.waits = true;
        }
    }

    /// After a wait: looks the audience up anew if somebody has come whom it may lack.
    fn go_on(&mut self) {
        if !std::mem::take(&mut self.waits) {
            return;
        }
        let router = self.router;
        if let (Some(history), Some(begun)) = (&router.history, self.begun())
            && !history.go_on(begun)
        {
            self.audience = Audience::of_subject(begun.subject());
            self.gathered = false;
        }
    }

    fn begun(&mut self) -> Option<&mut Begun> {
        self.draft.as_mut().and_then(|drafted| drafted.begun.as_mut())
    }

    /// Posts what is outgoing to all, into room that is reserved.
    fn post(&mut self, mut rooms: Reservations<'_>) -> Step {
        let (stub, receipt) = self.receipt.take().expect("a finished send is not stepped again");
        let outgoing = self.outgoing.as_ref().expect("a draft has been numbered before");
        while let Some((worker, targets)) = self.audience.group() {
            // Groups come from the last worker to the first.
            while rooms.last().is_some_and(|(other, _)| *other != worker) {
                rooms.pop();
            }
            let (_, room) = rooms.last_mut().expect("room is reserved for each group");
            let is_last = room.is_for_one();
            room.post(outgoing.mail(targets, is_last, stub.another()));
            self.audience.next_group();
        }
        Step::Posted(receipt)
    }
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        let begun = self.draft.take().and_then(|drafted| drafted.begun);
        if let (Some(history), Some(begun)) = (&self.router.history, begun) {
            history.abandon(begun);
        }
    }
}

impl Outgoing {
    fn mail(&self, targets: &[ConnRef], is_last: bool, stub: Stub) -> Mail {
        let targets = Targets::from_slice(targets);
        match self {
            Outgoing::Event(event) => {
                Mail::Deliver { event: event.clone(), targets, is_last, stub }
            }
            Outgoing::Disconnect(reason) => Mail::Close { reason: *reason, targets, stub },
        }
    }
}
