//! What a connection is at its app, as it is written down for another process, and goes on there.

use std::sync::Arc;

use hub::{IdText, Info};
use pusher::{Channel, Member, USER_PREFIX, User};

use super::super::core::{At, Core};
use super::super::tables::seats::Seat;
use super::super::tables::wishes::Start;
use crate::sockets::Sockets;
use crate::state::PusherState;

impl<S: Sockets> Core<S> {
    /// What the connection in `slot` is, if it is at an app.
    pub(in super::super) fn write_channels(&self, slot: u32) -> Option<PusherState> {
        let app = self.channels.apps.last_seen(slot)?.key.clone();
        let user = self.channels.signed_in.user(slot);
        let user = user.map(|user| {
            let info = user.info.as_ref().map(|info| info.get().to_owned());
            (user.id.clone(), info, user.watchlist.clone())
        });
        let seats = self.watching.seats.of(slot).filter_map(|Seat { room, sub, .. }| {
            let info = self.rooms.as_ref().and_then(|rooms| rooms.members.info(room, sub));
            let info = info.map(|info| info.json().to_owned());
            Some((self.names.text(room)?, self.names.text(sub)?, info))
        });
        let (mut missed, mut pending) = (Vec::new(), Vec::new());
        for (key, start) in self.channels.missed.written(slot) {
            match start {
                Start::Behind(number) => missed.push((key, number)),
                Start::Here => pending.push((key, false)),
                Start::Nowhere => pending.push((key, true)),
            }
        }
        Some(PusherState { app, user, seats: seats.collect(), missed, pending })
    }

    /// A connection of another process is what it was there. The rooms that it is to watch: it
    /// hears a whole list of each anew.
    pub(in super::super) fn come_to_app(
        &mut self,
        at: &mut At<'_, S::Socket>,
        state: PusherState,
    ) -> Vec<String> {
        let PusherState { app, user, seats, missed, pending } = state;
        let served = self.config.pusher.as_ref().and_then(|apps| apps.by_key(&app));
        let Some(served) = served else { return Vec::new() };
        // It was let in before: no bound of today's takes it away.
        served.usage.take(None);
        let app = Arc::clone(&served.app);
        self.channels.apps.enter(at.slot, served);
        if let Some((id, info, watchlist)) = user {
            let Member { id, info } = Member::of_parts(id, info);
            let user = User { id, info, watchlist, is_watchlist_cut: false };
            self.charge_user(&user);
            let own = [USER_PREFIX, &user.id].concat();
            self.enter_user(at, &app, user);
            if let Ok(channel) = Channel::parse(&own) {
                self.hear_graph(at, &app, channel);
            }
        }
        let mut rooms = Vec::new();
        for (room, sub, info) in seats {
            if self.sit_again(at, &room, &sub, info.as_deref()) {
                rooms.push(room);
            }
        }
        let missed = missed.into_iter().map(|(key, number)| (key, Start::Behind(number)));
        let pending = pending
            .into_iter()
            .map(|(key, is_gap)| (key, if is_gap { Start::Nowhere } else { Start::Here }));
        self.wish_again(at, &missed.chain(pending).collect::<Vec<_>>());
        rooms
    }

    fn sit_again(
        &mut self,
        at: &At<'_, S::Socket>,
        room: &str,
        sub: &str,
        info: Option<&str>,
    ) -> bool {
        let texts = (IdText::of_key(room), IdText::of_key(sub));
        let (Some(rooms), (Ok(room), Ok(sub))) = (&self.rooms, texts) else { return false };
        let logins = (self.names.login(room, true), self.names.login(sub, true));
        let (Ok(room), Ok(sub)) = logins else { return false };
        let info = info.map(Info::new);
        rooms.members.join_within(room, sub, info.as_ref(), usize::MAX);
        self.watching.seats.put(at.slot, Seat { room, sub, is_unseen: false });
        true
    }
}
