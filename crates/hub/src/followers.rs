//! The stored side of an audience, as the router asks for it, and of what a client has missed.

use std::borrow::Cow;
use std::sync::Arc;

use thiserror::Error;

use crate::archive::KeptListener;
use crate::id::Id;

/// A stored pair: the subscriber hears what is sent about the subscribee.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Subscription {
    /// The id that hears.
    pub subscriber: Id,
    /// Who is listened to.
    pub subscribee: Id,
}

/// The store could not answer; the text says why. The sender is told, the server lives on.
#[derive(Debug, Error)]
#[error("the subscribers could not be read: {0}")]
pub struct FollowersError(pub String);

/// How many subscribers one slice holds at most: about a tenth of a millisecond of a sender's time.
pub const SLICE_MAX: usize = 1024;

/// Who follows whom.
pub trait Followers: Send + Sync {
    /// Visits, in ascending order, at most [`SLICE_MAX`] stored subscribers of `subject` that stand
    /// after `after` (from the first one when `None`), each once. Returns the last one visited when
    /// there are more, to go on from.
    ///
    /// A slice is one short read: a celebrity's audience is walked in many, between which others
    /// have their turn, and no read transaction stays open meanwhile.
    fn slice(
        &self,
        subject: Id,
        after: Option<Id>,
        visit: &mut dyn FnMut(Id),
    ) -> Result<Option<Id>, FollowersError>;

    /// The other direction: visits whom `subscriber` follows, as [`Followers::slice`] does its
    /// followers, in an order of its own. A slice may be empty although there are more, and what it
    /// returns is then none of them, but where it goes on.
    fn slice_of_following(
        &self,
        subscriber: Id,
        after: Option<Id>,
        visit: &mut dyn FnMut(Id),
    ) -> Result<Option<Id>, FollowersError>;

    /// Whether `subscriber` hears an event about these `subjects`, one of whom it follows. In a
    /// stored graph it does.
    fn hears(&self, _subscriber: Id, _subjects: &mut dyn Iterator<Item = Cow<'_, str>>) -> bool {
        true
    }

    /// The number up to which it is not known whom `subscriber` followed, so that some events may
    /// not be found. A stored graph knows it of all times, as far as events go.
    fn unknown_up_to(&self, _subscriber: Id) -> u64 {
        0
    }

    /// What `subscriber` hears of events that are kept on disk, if that is not all that is sent
    /// about it and about whom it follows. In a stored graph it is.
    fn kept_listener(&self, _subscriber: Id) -> Option<Arc<dyn KeptListener>> {
        None
    }
}

/// A graph without edges: every audience is the subject alone.
pub struct Nobody;

impl Followers for Nobody {
    fn slice(
        &self,
        _: Id,
        _: Option<Id>,
        _: &mut dyn FnMut(Id),
    ) -> Result<Option<Id>, FollowersError> {
        Ok(None)
    }

    fn slice_of_following(
        &self,
        _: Id,
        _: Option<Id>,
        _: &mut dyn FnMut(Id),
    ) -> Result<Option<Id>, FollowersError> {
        Ok(None)
    }
}
