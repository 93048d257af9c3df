//! Connections that are signed in as a user of their app.
//!
//! Such a one is logged in under a key of the user, so that all of a user's connections can be
//! ended together, and the user is a member of the room with that key. So whoever has the user in a
//! watchlist watches that room, and hears when the user's first connection has come and the last
//! one has gone. In a cluster nobody here knows who is signed in elsewhere: it is asked, as the
//! list of a presence channel is.
//!
//! Where the app wants it, the watchlist of a user for whom its backend signs none are those whom
//! the user follows in the stored graph. The control plane is asked for them, and they are watched
//! once they have come.
//!
//! Cost: 200 bytes, the user's id and what presence channels are told of the user, and of each user
//! that is watched its id and what a watcher costs ([`crate::watch`]).

use hub::{Id, IdText};
use pusher::server_frame::{self, ErrorText, watchlist_events};
use pusher::{App, Asker, SignIn, SignInRefusal, User};

use super::super::core::{At, Core};
use super::super::tables::signed_in::SignedInUser;
use super::seats::member_key;
use crate::channels::user_key;
use crate::limits::work;
use crate::said::Followed;
use crate::sockets::Sockets;
use crate::watch::FollowedAsk;

/// What one is counted for beside its texts.
const USER_BYTES: usize = 256;

/// What is counted for one of a watchlist beside its text.
const WATCHED_BYTES: usize = 48;

/// What is kept of `user`, as it is counted.
fn bytes_of(user: &User) -> usize {
    let watched: usize = user.watchlist.iter().map(|id| WATCHED_BYTES + id.len()).sum();
    USER_BYTES + user.id.len() + user.info.as_ref().map_or(0, |info| info.get().len()) + watched
}

impl<S: Sockets> Core<S> {
    pub(super) fn sign_in(&mut self, at: &mut At<'_, S::Socket>, wish: &SignIn) {
        match self.try_sign_in(at, wish) {
            Ok(is_cut) => {
                self.say_frame(&server_frame::signin_success(&wish.user_data));
                if is_cut {
                    self.say_frame(&server_frame::error(ErrorText::watchlist_cut()));
                }
                self.say_watchlist(at);
            }
            Err(refusal) => self.say_frame(&server_frame::error(refusal)),
        }
    }

    /// Signs the connection in. Whether its watchlist was cut.
    fn try_sign_in(
        &mut self,
        at: &mut At<'_, S::Socket>,
        wish: &SignIn,
    ) -> Result<bool, SignInRefusal> {
        let Some(app) = self.app(at) else { return Err(SignInRefusal::Key) };
        self.budget.spend(work::SIGNATURE);
        let (socket, user) = (self.socket_id(at), self.channels.signed_in.user(at.slot));
        let is_signed_in = user.is_some();
        let asker = Asker { key: &app.key, secret: &app.secret, socket, user };
        let user = asker.sign_in(wish)?;
        let is_cut = user.is_watchlist_cut;
        if is_signed_in {
            return Ok(is_cut);
        }
        let bytes = bytes_of(&user);
        self.names.charge_within(bytes).map_err(|_| SignInRefusal::Full)?;
        let key = user_key(&app.id, &user.id);
        let key = IdText::of_key(&key);
        let is_in = key.is_ok_and(|key| self.login(at, &[key], None).is_ok());
        if !is_in {
            self.names.discharge(bytes);
            return Err(SignInRefusal::Full);
        }
        match self.enter_user(at, &app, user) {
            true => Ok(is_cut),
            false => Err(SignInRefusal::Full),
        }
    }

    /// The connection, which is logged in under the user's key and for which the bytes are counted,
    /// is that user. `false` where all connections together have as many names as they may.
    pub(super) fn enter_user(&mut self, at: &mut At<'_, S::Socket>, app: &App, user: User) -> bool {
        let (key, member) = (user_key(&app.id, &user.id), member_key(&user.id));
        let ids = IdText::of_key(&key).ok().zip(IdText::of_key(&member).ok());
        let entered = ids.and_then(|(key, member)| {
            let room = self.names.lookup(key)?;
            Some((room, self.names.login(member, false).ok()?))
        });
        let Some((room, sub)) = entered else {
            self.names.discharge(bytes_of(&user));
            if let Ok(key) = IdText::of_key(&key) {
                self.logout(at, &[key]);
            }
            return false;
        };
        if let Some(rooms) = &self.rooms {
            rooms.members.join(room, sub, None);
        }
        self.watch_users(at, app, &user.watchlist);
        if app.watches_graph && user.watchlist.is_empty() {
            self.ask_followed(at, &user.id);
        }
        let signed_in = SignedInUser { user, room, sub };
        self.channels.signed_in.0.insert(at.slot, Box::new(signed_in));
        true
    }

    fn watch_users(&mut self, at: &At<'_, S::Socket>, app: &App, watchlist: &[String]) {
        self.budget.spend_ids(watchlist.len());
        for id in watchlist {
            let key = user_key(&app.id, id);
            // Past what all may have together some are not watched: their state is told once.
            let _ = IdText::of_key(&key).map(|key| self.watch_changes(at, key));
        }
    }

    /// Asks whom the user follows, if it can follow somebody.
    fn ask_followed(&mut self, at: &At<'_, S::Socket>, user: &str) {
        let Some(rooms) = self.rooms.as_ref().filter(|_| IdText::parse(user).is_ok()) else {
            return;
        };
        let ask = FollowedAsk { conn: self.conn_ref(at), user: user.into() };
        if !rooms.followed.push(ask) {
            self.say_frame(&server_frame::error(ErrorText::watchlist_busy()));
        }
    }

    /// Those whom the user follows are its watchlist, if it has none. What is said of it is put
    /// into the buffer for answers.
    pub(in super::super) fn take_followed(
        &mut self,
        at: &mut At<'_, S::Socket>,
        Followed { ids, is_cut }: Followed,
    ) {
        let Some(app) = self.app(at) else { return };
        let user = self.channels.signed_in.user(at.slot);
        if user.is_none_or(|user| !user.watchlist.is_empty()) {
            return;
        }
        let bytes: usize = ids.iter().map(|id| WATCHED_BYTES + id.len()).sum();
        if self.names.charge_within(bytes).is_err() {
            return self.say_frame(&server_frame::error(ErrorText::watchlist_busy()));
        }
        self.watch_users(at, &app, &ids);
        if let Some(signed_in) = self.channels.signed_in.0.get_mut(&at.slot) {
            signed_in.user.watchlist = ids;
        }
        if is_cut {
            self.say_frame(&server_frame::error(ErrorText::watchlist_cut()));
        }
        self.say_watchlist(at);
    }

    /// Counts what is kept of `user`, who was let in before.
    pub(super) fn charge_user(&self, user: &User) {
        self.names.charge(bytes_of(user));
    }

    /// The connection is nobody any more. What it watches is forgotten with all else.
    pub(super) fn sign_out(&mut self, at: &At<'_, S::Socket>) {
        let Some(signed_in) = self.channels.signed_in.0.remove(&at.slot) else { return };
        let SignedInUser { user, room, sub } = *signed_in;
        if let Some(rooms) = &self.rooms {
            rooms.members.leave(room, sub);
        }
        self.names.logout(sub);
        self.names.discharge(bytes_of(&user));
    }

    /// Says who of the user's watchlist is signed in. What changes from then on is told behind it.
    pub(in super::super) fn say_watchlist(&mut self, at: &At<'_, S::Socket>) {
        let Some(app) = self.app(at) else { return };
        if self.config.cluster {
            return self.ask_watchlist(at, &app);
        }
        let (Some(user), Some(rooms)) = (self.channels.signed_in.user(at.slot), &self.rooms) else {
            return;
        };
        let is_online = |id: &&str| {
            let key = user_key(&app.id, id);
            let room = IdText::of_key(&key).ok().and_then(|key| self.names.lookup(key));
            room.is_some_and(|room| rooms.members.list(room).count > 0)
        };
        let watched = user.watchlist.iter().map(String::as_str);
        let (online, offline): (Vec<&str>, Vec<&str>) = watched.partition(is_online);
        self.budget.spend_ids(online.len() + offline.len());
        if let Some(frame) = watchlist_events(&online, &offline) {
            self.say_frame(&frame);
        }
    }

    /// Asks who of the user's watchlist is signed in at any node of the cluster: each of them is
    /// answered by itself.
    fn ask_watchlist(&mut self, at: &At<'_, S::Socket>, app: &App) {
        let user = self.channels.signed_in.user(at.slot);
        let watched = user.map_or(&[][..], |user| &user.watchlist[..]);
        self.budget.spend_ids(watched.len());
        let room = |id: &String| {
            let key = user_key(&app.id, id);
            IdText::of_key(&key).ok().and_then(|key| self.names.lookup(key))
        };
        let mut are_asked = true;
        for room in watched.iter().filter_map(room).collect::<Vec<Id>>() {
            are_asked &= self.ask_state(at, room);
        }
        if !are_asked {
            self.say_frame(&server_frame::error(ErrorText::watchlist_busy()));
        }
    }
}
