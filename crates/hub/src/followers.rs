//! The stored side of an audience, as the router asks for it.

use thiserror::Error;

use crate::id::Id;

/// A stored pair: the subscriber hears what is sent about the subscribee.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Subscription {
    /// Who listens.
    pub subscriber: Id,
    /// Who is listened to.
    pub subscribee: Id,
}

/// The store could not answer; the text says why. The sender is told, the server lives on.
#[derive(Debug, Error)]
#[error("the subscribers could not be read: {0}")]
pub struct FollowersError(pub String);

/// Who follows a subject.
pub trait Followers: Send + Sync {
    /// Hands the stored subscribers of `subject` to `slice`, in ascending order of their bits, a
    /// bounded number (at most a few thousand) at a time, each exactly once.
    fn for_each_slice(
        &self,
        subject: Id,
        slice: &mut dyn FnMut(&[Id]),
    ) -> Result<(), FollowersError>;
}

/// A graph without edges: every audience is the subject alone.
pub struct Nobody;

impl Followers for Nobody {
    fn for_each_slice(&self, _: Id, _: &mut dyn FnMut(&[Id])) -> Result<(), FollowersError> {
        Ok(())
    }
}
