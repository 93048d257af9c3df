//! Pairs as callers name them: by text, checked, not yet looked up.

use hub::{Id, IdError, IdText};

/// An id that owns its text: an integer, or a name that the store may not know yet.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum OwnedId {
    /// A number, which is its own id.
    Integer(Id),
    /// Any other valid id.
    Name(Box<str>),
}

impl OwnedId {
    /// The id borrowed, as [`hub::Names`] asks for it.
    pub fn as_text(&self) -> IdText<'_> {
        match self {
            OwnedId::Integer(id) => IdText::Integer(*id),
            OwnedId::Name(name) => IdText::Name(name),
        }
    }
}

impl From<IdText<'_>> for OwnedId {
    fn from(text: IdText<'_>) -> OwnedId {
        match text {
            IdText::Integer(id) => OwnedId::Integer(id),
            IdText::Name(name) => OwnedId::Name(name.into()),
        }
    }
}

/// A subscription whose ids are not looked up yet, borrowed.
#[derive(Clone, Copy)]
pub(super) struct TextPair<'a> {
    pub(super) subscriber: IdText<'a>,
    pub(super) subscribee: IdText<'a>,
}

/// One subscription to add or to remove.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Pair {
    /// The id that hears.
    pub subscriber: OwnedId,
    /// Who is listened to.
    pub subscribee: OwnedId,
}

impl Pair {
    /// Checks both texts against the rules for ids.
    pub fn parse(subscriber: &str, subscribee: &str) -> Result<Pair, IdError> {
        Ok(Pair {
            subscriber: IdText::parse(subscriber)?.into(),
            subscribee: IdText::parse(subscribee)?.into(),
        })
    }

    pub(super) fn as_text(&self) -> TextPair<'_> {
        TextPair { subscriber: self.subscriber.as_text(), subscribee: self.subscribee.as_text() }
    }
}
