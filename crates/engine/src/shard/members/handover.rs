//! Who is in a room goes over to another process: members, with what is told of them, and what
//! connections watch. Those are told whole lists there.

use hub::{Id, IdText, Info};
use proto::Format;

use super::super::core::{At, Core};
use crate::sockets::Sockets;

impl<S: Sockets> Core<S> {
    /// Likewise for a connection of another process, with the info that was told there: it is that
    /// of its token, if it keeps one.
    pub(in super::super) fn join_again(
        &mut self,
        at: &At<'_, S::Socket>,
        subject: &str,
        info: Option<&str>,
    ) {
        let known = at.conn.grant().and_then(|grant| grant.info());
        let info = info.map(|info| match known {
            Some(known) if known.json() == info => known.clone(),
            _ => Info::new(info),
        });
        self.join_as(at, subject, info.as_ref());
    }

    /// The subject of its token, and what others are told of that, for another process.
    pub(in super::super) fn member_texts(
        &self,
        slot: u32,
        first: Option<Id>,
    ) -> (Option<String>, Option<String>) {
        let subject = self.subjects.get(slot).id();
        let Some((rooms, subject)) = self.rooms.as_ref().zip(subject) else { return (None, None) };
        let info = first.and_then(|room| rooms.members.info(room, subject));
        (self.names.text(subject), info.map(|info| info.json().to_owned()))
    }

    /// The names of the rooms that the connection in `slot` watches.
    pub(in super::super) fn watched_texts(&self, slot: u32) -> Vec<String> {
        self.watching.of(slot).filter_map(|room| self.names.text(room)).collect()
    }

    /// Has a connection of another process watch what it watched there. It waits for the lists, and
    /// asks for them [later](Core::ask_lists).
    pub(in super::super) fn watch_again(&mut self, at: &At<'_, S::Socket>, texts: &[String]) {
        let Some(rooms) = &self.rooms else { return };
        for text in texts {
            let Some(room) = IdText::of_key(text).ok() else { continue };
            let Ok(room) = self.names.login(room, true) else { continue };
            rooms.members.watchers().login(room, self.conn_ref(at));
            self.watching.put(at.slot, room, true);
            self.watching.ask(at.slot, room);
            if at.conn.wire.format() == Format::Poll {
                self.polled.entry(at.slot).or_default().add(room);
            }
        }
    }
}
