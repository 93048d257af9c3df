//! Who comes to channels and goes, noted for apps that are told of it: by webhooks, or by counts of
//! subscribers.
//!
//! Workers note here what has changed, behind the change itself. One task takes the notes twenty
//! times a second and looks how things are then. So notes are hints: where there were too many for
//! a moment, all that is known is looked at anew ([`ChannelNotes::take`]).
//!
//! Cost: nothing for an app that wants nothing told. Of others a log-in or log-out takes a lock
//! and a look-up of a name.

#![expect(
    clippy::disallowed_types,
    reason = "it is held for a push, and for a swap twenty times a second"
)]

use std::sync::{Mutex, MutexGuard, PoisonError};

use hub::{Id, Names};

/// Notes that wait at most: what 50,000 clients make that come back in a tick, each to a channel.
const NOTES_MAX: usize = 65_536;

/// What has become of a channel, or of a member of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChannelChange {
    /// A connection has come.
    Came,
    /// A connection has gone.
    Left,
    /// A connection has gone, or was refused, that waited for the list of the channel: nobody was
    /// told of it as a member, but another one may have gone meanwhile.
    Waited,
    /// A connection has come with an upgrade: it was there before.
    WasThere,
    /// A subscriber was told that the channel keeps no event.
    Missed,
}

/// A note. Its names are kept: whoever takes it has to release them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChannelNote {
    /// The channel.
    pub channel: Id,
    /// The member; [`Id::NONE`] of the channel itself.
    pub member: Id,
    /// What has become of it.
    pub change: ChannelChange,
}

#[derive(Default)]
struct Noted {
    notes: Vec<ChannelNote>,
    has_lost: bool,
}

/// What is noted and not taken yet.
#[derive(Default)]
pub struct ChannelNotes(Mutex<Noted>);

impl ChannelNotes {
    /// Puts a note, whose names were acquired for it, behind the others.
    pub(crate) fn push(&self, names: &Names, note: ChannelNote) {
        let mut noted = self.lock();
        if noted.notes.len() < NOTES_MAX {
            noted.notes.push(note);
            return;
        }
        noted.has_lost = true;
        drop(noted);
        note.release(names);
    }

    /// Takes all notes out, in their order. Whether there were others that found no room.
    pub fn take(&self, notes: &mut Vec<ChannelNote>) -> bool {
        debug_assert!(notes.is_empty(), "those of before are done");
        let mut noted = self.lock();
        std::mem::swap(&mut noted.notes, notes);
        std::mem::take(&mut noted.has_lost)
    }

    /// Each change is one step.
    fn lock(&self) -> MutexGuard<'_, Noted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChannelNote {
    /// Keeps the names of a note to be, before what may let them go.
    pub(crate) fn keeping(
        names: &Names,
        (channel, member): (Id, Id),
        change: ChannelChange,
    ) -> ChannelNote {
        for id in [channel, member] {
            if id != Id::NONE {
                names.acquire_id(id);
            }
        }
        ChannelNote { channel, member, change }
    }

    /// Lets its names go.
    pub fn release(self, names: &Names) {
        for id in [self.channel, self.member] {
            if id != Id::NONE {
                names.release(id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use hub::IdText;

    use super::*;

    #[test]
    fn notes_past_their_bound_are_told_as_lost_and_keep_no_name() {
        let (names, notes) = (Names::new([1; 16]), ChannelNotes::default());
        let channel = names.acquire(IdText::of_key("#c1:a").unwrap());
        let note = || ChannelNote::keeping(&names, (channel, Id::NONE), ChannelChange::Came);
        let mut taken = Vec::new();
        for _ in 0..NOTES_MAX {
            notes.push(&names, note());
        }
        assert!(!notes.take(&mut taken));
        assert_eq!(taken.len(), NOTES_MAX);
        taken.drain(..).for_each(|note| note.release(&names));
        for _ in 0..=NOTES_MAX {
            notes.push(&names, note());
        }
        assert!(notes.take(&mut taken));
        taken.drain(..).for_each(|note| note.release(&names));
        names.release(channel);
        assert!(!notes.take(&mut taken) && names.is_empty());
    }
}
