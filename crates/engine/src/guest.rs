//! A worker that is no thread of the engine: somebody else keeps its connections, such as the
//! processes of Erlang nodes, which the control plane reaches.
//!
//! To the directory, the router and the receipts it is a worker as any other. It has a number and a
//! mailbox, its connections have slots and generations, and the sender hears what it counts on a
//! delivery. So an audience may be made of sockets and of others, each counted once, and no code of
//! the data plane knows of it.
//!
//! Whoever keeps it must take its mail, or senders find the mailbox full.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use hub::{ConnRef, Directory, DisconnectReason, Id, IdText, IdsFull, Names};

use crate::Event;
use crate::mailbox::{Mail, Mailbox, Targets};
use crate::receipt::Stub;

/// The guest's side of what all share.
pub struct Guest {
    number: usize,
    mailbox: Arc<Mailbox>,
    names: Arc<Names>,
    directory: Arc<Directory>,
}

/// What the guest is told.
#[derive(Debug)]
pub enum GuestMail {
    /// An event for these connections.
    Deliver(Delivery),
    /// These connections are to be ended, for this reason.
    Close(DisconnectReason, Delivery),
    /// All connections are to be told that events may be missing up to this number; what comes
    /// behind it has greater ones.
    Gap(u64),
}

/// The connections that a mail is for. The sender is answered when it is dropped.
#[derive(Debug)]
pub struct Delivery {
    event: Option<Arc<Event>>,
    targets: Targets,
    stub: Stub,
}

impl Delivery {
    /// The event, if there is one to hand over.
    pub fn event(&self) -> Option<&Arc<Event>> {
        self.event.as_ref()
    }

    /// The connections, sorted by slot.
    pub fn targets(&self) -> &[ConnRef] {
        &self.targets
    }

    /// The mail for these of its connections, to be handled apart from the rest: the sender is
    /// answered when all parts are dropped.
    pub fn part(&self, targets: impl IntoIterator<Item = ConnRef>) -> Delivery {
        let targets = targets.into_iter().collect();
        Delivery { event: self.event.clone(), targets, stub: self.stub.another() }
    }

    /// Counts one connection that the event reached.
    pub fn count_one(&mut self) {
        self.stub.count_one();
    }
}

impl Guest {
    pub(crate) fn new(
        number: usize,
        mailbox: Arc<Mailbox>,
        names: Arc<Names>,
        directory: Arc<Directory>,
    ) -> Guest {
        Guest { number, mailbox, names, directory }
    }

    /// Logs the connection in `slot` in under `text`, unless it is by `ids`, which it has already.
    /// `None` then. Refused when all connections together have as many ids as they may. Who is
    /// logged in must be [logged out](Guest::logout) under each id.
    pub fn login(
        &self,
        slot: usize,
        generation: u32,
        text: IdText<'_>,
        ids: impl IntoIterator<Item = Id>,
    ) -> Result<Option<Id>, IdsFull> {
        let mut ids = ids.into_iter().peekable();
        let id = self.names.login(text, ids.peek().is_none())?;
        if ids.any(|known| known == id) {
            self.names.logout(id);
            return Ok(None);
        }
        self.directory.login(id, ConnRef::new(self.number, slot, generation));
        Ok(Some(id))
    }

    /// Takes that back.
    pub fn logout(&self, slot: usize, generation: u32, id: Id) {
        self.directory.logout(id, ConnRef::new(self.number, slot, generation));
        self.names.logout(id);
    }

    /// Takes the next mail, if there is one.
    pub fn take(&self) -> Option<GuestMail> {
        loop {
            return Some(match self.mailbox.take()? {
                Mail::Deliver { event, targets, stub, .. } => {
                    GuestMail::Deliver(Delivery { event: Some(event), targets, stub })
                }
                Mail::Close { reason, targets, stub } => {
                    GuestMail::Close(reason, Delivery { event: None, targets, stub })
                }
                Mail::Gap { up_to } => GuestMail::Gap(up_to),
                // Its connections ask nothing, and are not drained: they have no stream to end.
                Mail::CatchUp(_) | Mail::Room(_) | Mail::TokenResult(_) | Mail::Say(_) => continue,
                Mail::Revoke(_) | Mail::Drain { .. } | Mail::Text { .. } => continue,
            });
        }
    }

    /// Before waiting for the descriptor to be readable (edge-triggered; it is never read): `true`
    /// when there is no mail, and each from now on rings.
    pub fn may_sleep(&self) -> bool {
        self.mailbox.may_sleep(true)
    }

    /// Says that the guest is awake again, after it has waited.
    pub fn awake(&self) {
        self.mailbox.awake();
    }
}

impl AsFd for Guest {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.mailbox.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use sync::replies::Replies;

    use super::*;
    use crate::receipt::Receipt;

    fn guest() -> Guest {
        let mailbox = Arc::new(Mailbox::new().unwrap());
        Guest::new(3, mailbox, Arc::new(Names::new([7; 16])), Arc::new(Directory::default()))
    }

    #[test]
    fn connection_of_a_guest_is_in_the_directory_until_it_is_logged_out() {
        let guest = guest();
        let bob = IdText::parse("bob").unwrap();
        let id = guest.login(5, 9, bob, []).unwrap().unwrap();
        assert_eq!(guest.login(5, 9, bob, [id]), Ok(None), "it has it already");
        let mut seen = Vec::new();
        guest.directory.walk(id, None, 9, |conn| seen.push(conn));
        assert_eq!(seen, [ConnRef::new(3, 5, 9)]);
        guest.logout(5, 9, id);
        assert_eq!((guest.directory.connections(id), guest.names.len()), (0, 0));
    }

    #[test]
    fn what_a_guest_counts_is_on_the_receipt() {
        let guest = guest();
        let (stub, receipt) = Receipt::for_task(&Arc::new(Replies::new().unwrap()));
        let event = Arc::new(Event::new(1, "a", "1").unwrap());
        let targets: Targets = (0..3).map(|slot| ConnRef::new(3, slot, 0)).collect();
        let mail = Mail::Deliver { event, targets, is_last: true, stub };
        guest.mailbox.post_drain(0).unwrap();
        guest.mailbox.reserve(1, 3).unwrap().post(mail);
        let Some(GuestMail::Deliver(mut delivery)) = guest.take() else { panic!("it has mail") };
        assert_eq!((delivery.targets().len(), delivery.event().unwrap().number()), (3, 1));
        let mut part = delivery.part([ConnRef::new(3, 2, 0)]);
        delivery.count_one();
        delivery.count_one();
        drop(delivery);
        assert_eq!(receipt.ready(), None, "a part is still out");
        assert_eq!((part.targets().len(), part.event().unwrap().number()), (1, 1));
        part.count_one();
        drop(part);
        assert_eq!(receipt.ready(), Some(3));
        assert!(guest.take().is_none() && guest.may_sleep());
    }
}
