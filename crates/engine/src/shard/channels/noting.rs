//! Notes of who comes to channels and goes, where the app is to hear of it ([`ChannelNotes`]).
//!
//! [`ChannelNotes`]: crate::ChannelNotes

use hub::Id;
use smallvec::SmallVec;

use super::super::core::{At, Core};
use super::super::tables::seats::Seat;
use crate::channel_notes::{ChannelChange, ChannelNote};
use crate::sockets::Sockets;

/// Notes that are made before a change and put down behind it.
pub(in super::super) type NotesToBe = SmallVec<[ChannelNote; 4]>;

impl<S: Sockets> Core<S> {
    /// Whether the connection's app is told of its channels, as the apps are now: another worker
    /// may have put down that somebody came, whatever this one has seen of them.
    fn is_noted(&mut self, at: &At<'_, S::Socket>) -> bool {
        self.channels.apps.has(at.slot) && self.app(at).is_some_and(|app| app.is_noted())
    }

    /// Notes something of a channel, or of a member of it, that somebody keeps.
    pub(super) fn note(&mut self, at: &At<'_, S::Socket>, of: (Id, Id), change: ChannelChange) {
        if self.is_noted(at) {
            self.put_notes(SmallVec::from_slice(&[ChannelNote::keeping(&self.names, of, change)]));
        }
    }

    /// Keeps what is to be noted once the connection has left `channel`, and its seat there.
    pub(super) fn note_leaving(
        &mut self,
        at: &At<'_, S::Socket>,
        channel: Id,
        (is_in, seat): (bool, Option<Seat>),
    ) -> NotesToBe {
        if !self.is_noted(at) {
            return NotesToBe::new();
        }
        let member = seat.map(|seat| (channel, seat.sub));
        // It is not in as long as it waits for the list.
        let change = if is_in { ChannelChange::Left } else { ChannelChange::Waited };
        let both = member.into_iter().chain(is_in.then_some((channel, Id::NONE)));
        both.map(|of| ChannelNote::keeping(&self.names, of, change)).collect()
    }

    /// Keeps what is to be noted once the connection has left all that it is in.
    pub(in super::super) fn note_leaving_all(&mut self, at: &At<'_, S::Socket>) -> NotesToBe {
        self.notes_of_all(at, ChannelChange::Left)
    }

    /// Notes that the connection was in all that it is in already.
    pub(in super::super) fn note_was_there(&mut self, at: &At<'_, S::Socket>) {
        let notes = self.notes_of_all(at, ChannelChange::WasThere);
        self.put_notes(notes);
    }

    fn notes_of_all(&mut self, at: &At<'_, S::Socket>, change: ChannelChange) -> NotesToBe {
        if !self.is_noted(at) {
            return NotesToBe::new();
        }
        let seats = self.watching.seats.of(at.slot).map(|seat| {
            let waits = !self.has_id(at, seat.room);
            ((seat.room, seat.sub), if waits { ChannelChange::Waited } else { change })
        });
        let all = seats.chain(self.ids(at).map(|id| ((id, Id::NONE), change)));
        all.map(|(of, change)| ChannelNote::keeping(&self.names, of, change)).collect()
    }

    /// Puts notes down: what they tell of is done.
    pub(in super::super) fn put_notes(&self, notes: NotesToBe) {
        for note in notes {
            match &self.config.pusher {
                Some(apps) => apps.notes().push(&self.names, note),
                None => note.release(&self.names),
            }
        }
    }
}
