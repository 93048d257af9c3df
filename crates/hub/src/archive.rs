//! What lies on disk of the events that stay, as the router and those who read the past see it.

use std::borrow::Cow;
use std::sync::Arc;

use smallvec::{SmallVec, smallvec};
use thiserror::Error;

use crate::key::{Key, Space};
use crate::page::{KeptUpdatesOf, KeptUpdatesPage, Page, PageOf};

/// How much is kept on disk of the subjects of one rule for that.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeptBounds {
    /// Its pattern, without white space.
    pub pattern: String,
    /// Events of one subject; [`usize::MAX`] where they are not counted.
    pub events_max: usize,
    /// Bytes of the lines of one subject; [`u64::MAX`] where they are not counted.
    pub bytes_max: u64,
    /// Milliseconds after which an event is over.
    pub age_ms_max: u64,
}

/// What one who is logged in under a [key](crate::Key) hears of the kept events about keys.
pub trait KeptListener: Send + Sync {
    /// Whether these are to be looked for among all that are kept, and not under its own key.
    fn is_of_many(&self) -> bool;

    /// What the name of each key begins with that it may listen to, as far as that is known.
    fn literal(&self) -> &str;

    /// For how many bytes each byte of a key counts that it is tried on, some 10 ns each.
    fn looks(&self) -> usize;

    /// Whether it listens to the key with this text.
    fn listens(&self, key: &str) -> bool;

    /// Whether it hears an event about all these, if it listens to one of them.
    fn hears(&self, subjects: &mut dyn Iterator<Item = Cow<'_, str>>) -> bool;
}

/// Events on disk of the subjects that are kept. `F` is as in [`Event`](crate::Event).
pub trait Archive<F>: Send + Sync {
    /// Whether what is sent about `id` is kept.
    fn keeps(&self, id: &str) -> bool;

    /// A page of the events about `id` that are kept. It reads from a disk and may take long: it is
    /// called where it holds up nobody, on no worker and on no thread of the control plane.
    ///
    /// All that was posted before the call is there, be it on disk yet or not: whoever asks has
    /// found that the memory has forgotten it.
    ///
    /// # Errors
    ///
    /// The disk could not be read.
    fn page(&self, id: &str, of: PageOf) -> Result<Page<F>, ArchiveError>;

    /// Whether all that `listener` may hear is kept.
    fn keeps_all(&self, listener: &dyn KeptListener) -> bool;

    /// A page of the kept events about keys that one of `listeners` hears, found among all of
    /// them. It takes long, as [`Archive::page`] does.
    ///
    /// # Errors
    ///
    /// The disk could not be read.
    fn heard(
        &self,
        listeners: &[Arc<dyn KeptListener>],
        of: KeptUpdatesOf,
    ) -> Result<KeptUpdatesPage<F>, ArchiveError>;

    /// The number of the first event about keys that is on disk and was given this id by its
    /// publisher. The id is as [`Event::own_id`](crate::Event::own_id) has it.
    ///
    /// # Errors
    ///
    /// The disk could not be read.
    fn number_of(&self, own_id: &str) -> Result<Option<u64>, ArchiveError>;

    /// How much is kept by each of its rules, in their order. The memory remembers no more of it.
    /// None where all is kept for as long as there is room.
    fn bounds(&self) -> Vec<KeptBounds> {
        Vec::new()
    }

    /// The place among [`Archive::bounds`] of the rule by which what is sent about `id` is kept.
    fn rule_place(&self, _id: &str) -> Option<usize> {
        None
    }

    /// Whether it is this process's to read. While another one is about to go on for this one it
    /// is not, and pages cannot be read: nobody is told of a gap for that.
    fn is_open(&self) -> bool {
        true
    }
}

/// The archive could not be read; the text says why.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the log on disk could not be read: {0}")]
pub struct ArchiveError(pub String);

/// The keys under which an archive has what one hears who is logged in under `id`, but for one who
/// [looks among all](KeptListener::is_of_many).
pub fn kept_under(id: &str) -> SmallVec<[Cow<'_, str>; 2]> {
    let key = |space, name| Cow::Owned(Key { space, app: "", name }.text());
    match Key::parse(id) {
        Some(Key { space: Space::PrivateTopic, name, .. }) => {
            smallvec![Cow::Borrowed(id), key(Space::Topic, name)]
        }
        Some(Key { space: Space::Granted, name, .. }) => {
            smallvec![key(Space::PrivateTopic, name)]
        }
        _ => smallvec![Cow::Borrowed(id)],
    }
}
