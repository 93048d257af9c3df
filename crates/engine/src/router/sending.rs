//! A send under way: its audience is gathered, then it is posted to all of it or to nobody.

use std::sync::Arc;

use hub::{Audience, Begun, DisconnectReason, EventId, Followers, FollowersError, NoRoomToKeep};
use smallvec::SmallVec;

use super::{Router, Step};
use crate::mailbox::{Mail, Reservation, Targets};
use crate::receipt::{Bell, LaneBell, Receipt, Stub};
use crate::{Event, Outgoing};

/// An event to be, and its place among the sends that have begun.
pub(super) struct Drafted {
    pub(super) outgoing: Outgoing,
    /// `None` when it is not to be remembered.
    pub(super) begun: Option<Begun>,
    /// Its number, where that is given.
    pub(super) id: Option<EventId>,
}

/// What the workers are told.
pub(super) enum ToAll {
    Event(Arc<Event>),
    Disconnect(DisconnectReason),
    Text(Arc<str>),
}

/// Room in the mailboxes of these workers, in their order.
pub(super) type Reservations<'r> = SmallVec<[(usize, Reservation<'r>); 4]>;

/// A send under way. Dropped before it is posted, it has never been.
pub struct Sending<'r> {
    router: &'r Router,
    /// The event as long as it has no number.
    pub(super) draft: Option<Drafted>,
    /// What is posted, once it is known.
    pub(super) said: Option<ToAll>,
    audience: Audience,
    gathered: bool,
    /// It waits for room, or for its turn, and nobody waits for it.
    waits: bool,
    /// Its audience had to be gathered anew: from now on it is waited for, or a crowd that comes
    /// back could hold it up for ever.
    renewed: bool,
    /// What the receipt rings, where that is not for a task.
    bell: Option<Arc<Bell>>,
    /// The event whose being on disk the receipt waits for.
    durable: Option<u64>,
    /// It was posted, and was to be kept on disk, which is full or fails.
    is_not_kept: bool,
    is_posted: bool,
}

impl<'r> Sending<'r> {
    pub(super) fn new(router: &'r Router, audience: Audience) -> Sending<'r> {
        Sending {
            router,
            draft: None,
            said: None,
            audience,
            gathered: false,
            waits: false,
            renewed: false,
            bell: None,
            durable: None,
            is_not_kept: false,
            is_posted: false,
        }
    }

    /// Sends for a worker's lane, which is rung when the receipt is complete.
    pub fn for_lane(mut self, bell: LaneBell) -> Sending<'r> {
        self.bell = Some(bell.0);
        self
    }

    /// Whether its whole audience is known, and only its turn or room are waited for.
    pub fn is_gathered(&self) -> bool {
        self.gathered
    }

    /// Does the next piece of work. Call it until it answers [`Step::Posted`], not after.
    pub fn step(&mut self, followers: &dyn Followers) -> Result<Step, FollowersError> {
        self.go_on();
        if !self.gather_on(followers)? {
            return Ok(Step::More);
        }
        Ok(self.post_gathered())
    }

    /// Looks up the next slice of the audience. `true` once that is whole: then it is to be
    /// [posted](Sending::post), when its turn has come. Until then nobody waits for it.
    pub fn gather(&mut self, followers: &dyn Followers) -> Result<bool, FollowersError> {
        let was_gathered = self.gathered;
        let is_gathered = self.gather_on(followers)?;
        if is_gathered && !was_gathered && !self.renewed {
            // Others may have to be posted before it, perhaps for long.
            self.wait();
        }
        Ok(is_gathered)
    }

    /// Posts it, once it is gathered. [`Step::More`] says that others may have their turn, and that
    /// it is to be [gathered](Sending::gather) and posted again: a client has come meanwhile that
    /// its audience may lack, or another send is being posted. Not to be called after
    /// [`Step::Posted`] or [`Step::Stale`].
    pub fn post(&mut self) -> Step {
        self.go_on();
        if self.gathered { self.post_gathered() } else { Step::More }
    }

    fn gather_on(&mut self, followers: &dyn Followers) -> Result<bool, FollowersError> {
        if !self.gathered && !self.audience.gather(&self.router.directory, followers)? {
            self.gathered = true;
        }
        Ok(self.gathered)
    }

    fn post_gathered(&mut self) -> Step {
        let router: &'r Router = self.router;
        let Some(rooms) = router.reserve(&self.audience) else {
            self.wait();
            return Step::MailboxFull;
        };
        self.is_not_kept = false;
        let room_to_keep = match router.reserve_to_keep(self.draft.as_ref()) {
            Ok(room) => room,
            // As a mailbox that is full.
            Err(NoRoomToKeep::Queue) => {
                self.wait();
                return Step::MailboxFull;
            }
            // What the cluster's log has is posted on every node.
            Err(NoRoomToKeep::Disk) if self.has_number() => {
                self.is_not_kept = true;
                None
            }
            Err(NoRoomToKeep::Disk) => return Step::NotKept,
        };
        let Some(drafted) = self.draft.take() else { return self.post_to(rooms) };
        let Some(_turn) = router.posting.take() else {
            self.draft = Some(drafted);
            return Step::More;
        };
        let Some(id) = router.number(drafted.id) else {
            self.draft = Some(drafted);
            return Step::Stale;
        };
        // In a cluster only the node that has taken it waits, not the order of the log.
        let waits = room_to_keep.is_some()
            && drafted.id.is_none()
            && (drafted.outgoing.durable || router.is_always_durable());
        self.durable = waits.then_some(id.number());
        self.said = Some(ToAll::Event(router.remembered(drafted, id, room_to_keep)));
        let posted = self.post_to(rooms);
        router.event_ids.set_posted(id.number());
        posted
    }

    fn has_number(&self) -> bool {
        self.draft.as_ref().is_some_and(|drafted| drafted.id.is_some())
    }

    /// Whether it is missing on disk, although it was posted: for a number that a cluster gave.
    pub fn is_not_kept(&self) -> bool {
        self.is_not_kept
    }

    /// The event, once it has its number.
    pub fn event(&self) -> Option<&Arc<Event>> {
        match &self.said {
            Some(ToAll::Event(event)) => Some(event),
            _ => None,
        }
    }

    /// A mailbox is full, or others are to be posted first. Who comes back meanwhile does not wait
    /// for this send.
    fn wait(&mut self) {
        let router = self.router;
        if let (Some(history), Some(begun)) = (&router.history, self.begun()) {
            history.wait(begun);
            self.waits = true;
        }
    }

    /// After a wait: looks the audience up anew if somebody has come whom it may lack.
    fn go_on(&mut self) {
        if !std::mem::take(&mut self.waits) {
            return;
        }
        let router = self.router;
        let Some(Drafted { outgoing, begun: Some(begun), .. }) = &mut self.draft else { return };
        let Some(history) = &router.history else { return };
        if !history.go_on(begun) {
            self.audience = router.audience(outgoing, begun.subjects());
            (self.gathered, self.renewed) = (false, true);
        }
    }

    fn begun(&mut self) -> Option<&mut Begun> {
        self.draft.as_mut()?.begun.as_mut()
    }

    /// Posts what is said to all, into room that is reserved.
    fn post_to(&mut self, mut rooms: Reservations<'_>) -> Step {
        let was_posted = std::mem::replace(&mut self.is_posted, true);
        assert!(!was_posted, "a finished send is not stepped again");
        let said = self.said.as_ref().expect("a draft has been numbered before");
        // The sender's own stub: without it the receipt could complete between two mails.
        let (stub, receipt) = match &self.bell {
            None => Receipt::for_task(&self.router.replies),
            Some(bell) => Receipt::for_lane(bell),
        };
        if let (Some(number), Some(event_store)) = (self.durable, &self.router.event_store) {
            let stub = stub.another();
            event_store.when_durable(
                number,
                Box::new(move |is_durable| {
                    if !is_durable {
                        stub.waiter().set_unsure();
                    }
                    drop(stub);
                }),
            );
        }
        while let Some((worker, targets)) = self.audience.take_group() {
            // Groups come from the last worker to the first.
            while rooms.last().is_some_and(|(other, _)| *other != worker) {
                rooms.pop();
            }
            let (_, room) = rooms.last_mut().expect("room is reserved for each group");
            let is_last = room.is_for_one();
            room.post(said.mail(targets, is_last, stub.another()));
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

impl ToAll {
    fn mail(&self, targets: Targets, is_last: bool, stub: Stub) -> Mail {
        match self {
            ToAll::Event(event) => Mail::Deliver { event: event.clone(), targets, is_last, stub },
            ToAll::Disconnect(reason) => Mail::Close { reason: *reason, targets, stub },
            ToAll::Text(text) => Mail::Text { text: Arc::clone(text), targets, stub },
        }
    }
}
