//! Under which ids a connection is reachable: log-ins and log-outs, at its start, in its life and
//! at its end.
//!
//! A command costs what it changes, not what the connection holds: the record keeps its ids in
//! order ([`crate::conn`]). A connection may be logged out of its last id: it stays open, hears no
//! events, and may be logged in again.

use hub::{Id, IdText, IdsFull};
use proto::Problem;
use smallvec::SmallVec;

use super::core::{At, Core};
use crate::conn::SOME_IDS;
use crate::limits::{IDS_PER_CONNECTION_MAX, RETRY_AFTER_SECONDS};
use crate::sockets::Sockets;

/// Why a log-in was refused. Nothing of it was done.
#[derive(Debug)]
pub(crate) enum LoginRefused {
    /// It would bring the connection past [`IDS_PER_CONNECTION_MAX`].
    TooManyIds,
    /// All connections together have as many ids as they may.
    Full,
}

impl LoginRefused {
    /// What the client is told.
    pub(super) fn problem(&self) -> Problem {
        match self {
            LoginRefused::TooManyIds => Problem::bad_request(format!(
                "A connection is logged in under at most {IDS_PER_CONNECTION_MAX} ids. Log out of \
                 some first; nothing of this command was done."
            )),
            LoginRefused::Full => Problem::ids_full(RETRY_AFTER_SECONDS),
        }
    }
}

/// The ids of nearly every log-in.
type Ids = SmallVec<[Id; SOME_IDS]>;

impl<S: Sockets> Core<S> {
    /// Logs the connection in under `texts` too. Says how many of them are new to it; an id that it
    /// has already, or that stands there twice, is no error.
    pub(super) fn login(
        &mut self,
        at: &mut At<'_, S::Socket>,
        texts: &[IdText<'_>],
    ) -> Result<usize, LoginRefused> {
        self.budget.spend_ids(texts.len());
        let me = self.conn_ref(at);
        let has_none = at.conn.ids_len() == 0;
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
            let is_new = *id != before && !at.conn.has_id(*id);
            before = *id;
            if !is_new {
                self.names.logout(*id);
            }
            is_new
        });
        if at.conn.ids_len() + new.len() > IDS_PER_CONNECTION_MAX {
            new.iter().for_each(|&id| self.names.logout(id));
            return Err(LoginRefused::TooManyIds);
        }
        new.iter().for_each(|&id| self.directory.login(id, me));
        at.conn.put_ids(&new);
        Ok(new.len())
    }

    /// Logs the connection out of those of `texts` that it is logged in under. Says how many they
    /// were.
    pub(super) fn logout(&mut self, at: &mut At<'_, S::Socket>, texts: &[IdText<'_>]) -> usize {
        self.budget.spend_ids(texts.len());
        let me = self.conn_ref(at);
        let gone = texts.iter().filter(|&&text| {
            let id = self.names.lookup(text).filter(|&id| at.conn.take_id(id));
            id.inspect(|&id| {
                self.directory.logout(id, me);
                self.names.logout(id);
            })
            .is_some()
        });
        gone.count()
    }

    /// Logs the connection out of all its ids if it is logged in: its stream is at its end.
    pub(super) fn leave(&mut self, at: &mut At<'_, S::Socket>) {
        if !at.conn.life().is_logged_in() {
            return;
        }
        let me = self.conn_ref(at);
        self.budget.spend_ids(at.conn.ids_len());
        while let Some(id) = at.conn.pop_id() {
            self.directory.logout(id, me);
            self.names.logout(id);
        }
        at.conn.tidy();
        self.counters.streams_closed[at.conn.transport.index()].add(1);
    }
}
