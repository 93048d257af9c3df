//! Under which ids a connection is reachable: log-ins and log-outs, at its start, in its life and
//! at its end.
//!
//! A command costs what it changes, not what the connection holds: its ids are found in a list
//! that is in order ([`crate::id_lists`]). A connection may be logged out of its last id: it stays
//! open, hears no events, and may be logged in again.

use std::sync::Arc;

use hub::{Bound, ConnRef, Directory, Id, IdText, IdsFull};
use proto::Problem;

use super::core::{At, Core};
use super::tokens::{too_many_connections, too_many_ids};
use crate::addresses::id_problem;
use crate::conn::ids::{Further, Ids};
use crate::id_lists::IdLists;
use crate::limits::{IDS_PER_CONNECTION_MAX, RETRY_AFTER_SECONDS};
use crate::sockets::Sockets;
use crate::tokens::Granted;

/// Why a log-in was refused. Nothing of it was done.
#[derive(Debug)]
pub(crate) enum LoginRefused {
    /// It would bring the connection past [`IDS_PER_CONNECTION_MAX`].
    TooManyIds,
    /// It would bring the connection past what its token is good for.
    TooManyForToken(u32),
    /// All connections together have as many ids as they may.
    Full,
    /// One of the ids has as many connections as it may.
    IdFull,
}

impl LoginRefused {
    /// What the client is told.
    pub(super) fn problem(&self) -> Problem {
        match self {
            LoginRefused::TooManyIds => Problem::bad_request(format!(
                "A connection is logged in under at most {IDS_PER_CONNECTION_MAX} ids. Log out of \
                 some first; nothing of this command was done."
            )),
            LoginRefused::TooManyForToken(most) => too_many_ids(*most),
            LoginRefused::Full => Problem::ids_full(RETRY_AFTER_SECONDS),
            LoginRefused::IdFull => id_problem(),
        }
    }
}

impl<S: Sockets> Core<S> {
    /// Logs a connection in for a request, whose token is `granted`, if one is needed.
    pub(super) fn login_with(
        &mut self,
        at: &mut At<'_, S::Socket>,
        texts: &[IdText<'_>],
        granted: Option<Granted>,
    ) -> Result<(), Problem> {
        let Some(granted) = granted else {
            return self.login(at, texts, None).map(drop).map_err(|refused| refused.problem());
        };
        if !self.take_use(&granted) {
            return Err(too_many_connections());
        }
        if let Err(refused) = self.login(at, texts, granted.grant.ids_max) {
            self.give_back_use(Some(&granted.grant));
            return Err(refused.problem());
        }
        let grant = Arc::clone(&granted.grant);
        self.keep_token(at, granted);
        if let Some(subject) = &grant.subject {
            self.join_as(at, subject, grant.info());
        }
        Ok(())
    }

    /// Logs the connection in under `texts` too, `ids_max` in all at most. Says how many of them
    /// are new to it; an id that it has already, or that stands there twice, is no error.
    pub(super) fn login(
        &mut self,
        at: &mut At<'_, S::Socket>,
        texts: &[IdText<'_>],
        ids_max: Option<u32>,
    ) -> Result<usize, LoginRefused> {
        self.budget.spend_ids(texts.len());
        let me = self.conn_ref(at);
        let has_none = self.ids_len(at) == 0;
        let mut new = Ids::new();
        for (n, &text) in texts.iter().enumerate() {
            match self.names.login(text, has_none && n == 0) {
                Ok(id) => new.push(id),
                Err(IdsFull { .. }) => {
                    new.iter().for_each(|&id| self.names.logout(id));
                    return Err(LoginRefused::Full);
                }
            }
        }
        new.sort_unstable();
        let mut before = Id::NONE;
        new.retain(|id| {
            let is_new = *id != before && !self.has_id(at, *id);
            before = *id;
            if !is_new {
                self.names.logout(*id);
            }
            is_new
        });
        let ids = self.ids_len(at) + new.len();
        let over = ids_max.filter(|&most| ids > most as usize).map(LoginRefused::TooManyForToken);
        let refused = match ids > IDS_PER_CONNECTION_MAX {
            true => Some(LoginRefused::TooManyIds),
            false => over,
        };
        if let Some(refused) = refused {
            new.iter().for_each(|&id| self.names.logout(id));
            return Err(refused);
        }
        let most = match self.config.settings.connections_per_id_max {
            0 => usize::MAX,
            most => most,
        };
        // A channel may have all connections there are.
        let most_of = |id: Id| if id.is_key() { usize::MAX } else { most };
        let login = |id: Id| self.directory.login_within(id, me, most_of(id));
        if let Some(full) = new.iter().position(|&id| !login(id)) {
            new[..full].iter().for_each(|&id| self.directory.logout(id, me));
            new.iter().for_each(|&id| self.names.logout(id));
            self.note_bound(Bound::ConnectionsPerId);
            return Err(LoginRefused::IdFull);
        }
        self.put_ids(at, &new);
        self.join(at, &new);
        Ok(new.len())
    }

    /// Logs the connection out of those of `texts` that it is logged in under. Says how many they
    /// were.
    pub(super) fn logout(&mut self, at: &mut At<'_, S::Socket>, texts: &[IdText<'_>]) -> usize {
        self.budget.spend_ids(texts.len());
        let me = self.conn_ref(at);
        let mut gone = 0;
        for &text in texts {
            let Some(id) = self.names.lookup(text) else { continue };
            let further = further_mut(me, &mut self.more_ids, &self.directory);
            if at.conn.take_id(id, further, &mut at.place.list) {
                self.directory.logout(id, me);
                self.forget_id(at, id);
                gone += 1;
            }
        }
        gone
    }

    /// Logs the connection out of all its ids if it is logged in: its stream is at its end.
    pub(super) fn leave(&mut self, at: &mut At<'_, S::Socket>) {
        if !at.conn.state().is_logged_in() {
            // It may be verified, and not let in yet.
            self.forget_session(at);
            return;
        }
        self.log_out_of_all(at);
        self.counters.streams_closed[at.conn.wire.transport().index()].add(1);
    }

    /// Takes a log-in back of which nobody was told.
    pub(super) fn log_out_of_all(&mut self, at: &mut At<'_, S::Socket>) {
        let me = self.conn_ref(at);
        let notes = self.note_leaving_all(at);
        let subscriber = self.subscriber_leaving(at);
        self.budget.spend_ids(self.ids_len(at));
        self.leave_patterns(at);
        if let Some(id) = at.conn.first_id() {
            self.directory.logout(id, me);
            self.forget_id(at, id);
        }
        // What was logged out is not found again, so each of two of one hash has its turn.
        for &hash in self.more_ids.of(at.place.list) {
            let gone = self.directory.logout_of_hash(me, hash);
            debug_assert!(gone.is_some(), "what is in the list is in the directory");
            gone.into_iter().for_each(|id| self.forget_id(at, id));
        }
        at.conn.forget_ids(&mut self.more_ids, &mut at.place.list);
        self.leave_app(at);
        self.put_notes(notes);
        self.note_left(at, subscriber);
        self.forget_rooms(at);
        self.forget_token(at);
        at.conn.tidy();
    }

    /// The connection is out of the directory's entry of `id`.
    fn forget_id(&self, at: &At<'_, S::Socket>, id: Id) {
        self.leave_room(at, id);
        self.names.logout(id);
    }

    /// The connection's ids, in order. Those that are not in its record cost a look-up each.
    pub(super) fn ids(&self, at: &At<'_, S::Socket>) -> impl Iterator<Item = Id> + use<S> {
        self.further(at).all(at.conn.first_id(), at.place.list).into_iter()
    }

    /// How many there are.
    pub(super) fn ids_len(&self, at: &At<'_, S::Socket>) -> usize {
        usize::from(at.conn.first_id().is_some()) + self.more_ids.of(at.place.list).len()
    }

    /// Whether `id` is one of them.
    pub(super) fn has_id(&self, at: &At<'_, S::Socket>, id: Id) -> bool {
        at.conn.first_id() == Some(id) || self.further(at).has(id, at.place.list)
    }

    /// Puts in ids that it has not, and that it is logged in under in the directory.
    pub(super) fn put_ids(&mut self, at: &mut At<'_, S::Socket>, new: &[Id]) {
        let further = further_mut(self.conn_ref(at), &mut self.more_ids, &self.directory);
        at.conn.put_ids(new, further, &mut at.place.list);
    }

    fn further(&self, at: &At<'_, S::Socket>) -> Further<'_, &IdLists> {
        Further { conn: self.conn_ref(at), lists: &self.more_ids, directory: &self.directory }
    }
}

fn further_mut<'l>(
    conn: ConnRef,
    lists: &'l mut IdLists,
    directory: &'l Directory,
) -> Further<'l, &'l mut IdLists> {
    Further { conn, lists, directory }
}
