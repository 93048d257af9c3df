//! An event on its way to its audience: one shape, whoever made it and however it travels.
//!
//! It is built where an event comes in: the API, an Erlang process, the cluster's log, the
//! dashboard. It goes as it is to the [router](crate::Router), in a cluster by way of the log.

use hub::{Draft, EventError, Key, LeftOut, Space};
use proto::Frame;

/// An event on its way.
#[derive(Debug)]
pub struct Outgoing {
    /// What it says, and about whom.
    pub draft: Draft,
    /// The Erlang term that its payload was, if it was one: guests hear that one.
    pub term: Option<Frame>,
    /// It is for all who follow its subjects, too. Nobody follows a key.
    pub followed: bool,
    /// It is remembered for those who come back. One that is not for followers never is, if its
    /// subject is an id: what is remembered of an id is for all who follow it. Of a channel it
    /// says whether the last one is told to those who subscribe; all are remembered for those who
    /// have missed them.
    pub remembered: bool,
    /// The connections that do not hear it, whatever they are logged in under. One that is not
    /// there is nobody.
    pub except: LeftOut,
    /// Its receipt waits until it is on disk, where it is kept there at all.
    pub durable: bool,
}

impl Outgoing {
    /// An event about `about` for all who follow it. `data` must be one valid JSON value.
    ///
    /// # Errors
    ///
    /// `about` is no id.
    pub fn new(about: &str, data: &str) -> Result<Outgoing, EventError> {
        Draft::new(about, data).map(Outgoing::from)
    }

    /// An event of the [key](hub::Key) that `draft` is about, which is remembered if that is a
    /// channel that caches its last one.
    pub fn on_channel(draft: Draft) -> Outgoing {
        debug_assert!(draft.subjects(|about| about.iter().all(|id| id.is_key())));
        let key = draft.about();
        let remembered = Key::parse(&key).is_some_and(|key| key.space == Space::CacheChannel);
        drop(key);
        Outgoing { followed: false, remembered, ..draft.into() }
    }

    /// This event, for the connections of its subjects alone, and not remembered.
    #[must_use]
    pub fn for_subjects_alone(self) -> Outgoing {
        Outgoing { followed: false, remembered: false, ..self }
    }
}

impl From<Draft> for Outgoing {
    /// An event for all who follow its subjects.
    fn from(draft: Draft) -> Outgoing {
        let (followed, remembered) = (true, true);
        let except = LeftOut::NOBODY;
        Outgoing { draft, term: None, followed, remembered, except, durable: false }
    }
}
