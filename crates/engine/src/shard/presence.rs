//! Under which ids a connection is reachable: log-ins and log-outs, at its start, in its life and
//! at its end.
//!
//! The record keeps the ids in order, so that a head or a message full of them costs a sort, not a
//! square. A connection may be logged out of its last id: it stays open, hears no events, and may
//! be logged in again.

use hub::{ConnRef, Id, IdText, IdsFull};
use proto::Problem;
use smallvec::SmallVec;

use super::Shard;
use crate::conn::Phase;
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

/// The ids of nearly every connection.
type Ids = SmallVec<[Id; 4]>;

impl<S: Sockets> Shard<S> {
    /// Logs the connection in `slot` in under `texts` too. Says how many of them are new to it; an
    /// id that it has already, or that stands there twice, is no error.
    pub(crate) fn login(&mut self, slot: u32, texts: &[IdText<'_>]) -> Result<usize, LoginRefused> {
        let me = self.conn_ref(slot);
        let Some(conn) = self.conns.at(slot) else { return Ok(0) };
        let mut ids: Ids = conn.ids().collect();
        let mut new = Ids::new();
        for (n, &text) in texts.iter().enumerate() {
            match self.names.login(text, ids.is_empty() && n == 0) {
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
            let is_new = *id != before && ids.binary_search(id).is_err();
            before = *id;
            if !is_new {
                self.names.logout(*id);
            }
            is_new
        });
        if ids.len() + new.len() > IDS_PER_CONNECTION_MAX {
            new.iter().for_each(|&id| self.names.logout(id));
            return Err(LoginRefused::TooManyIds);
        }
        new.iter().for_each(|&id| self.directory.login(id, me));
        ids.extend_from_slice(&new);
        ids.sort_unstable();
        conn.set_ids(&ids);
        Ok(new.len())
    }

    /// Logs the connection in `slot` out of those of `texts` that it is logged in under. Says how
    /// many they were.
    pub(crate) fn logout(&mut self, slot: u32, texts: &[IdText<'_>]) -> usize {
        let me = self.conn_ref(slot);
        let Some(conn) = self.conns.at(slot) else { return 0 };
        let mut gone: Ids = texts.iter().filter_map(|&text| self.names.lookup(text)).collect();
        gone.sort_unstable();
        let mut ids: Ids = conn.ids().collect();
        let before = ids.len();
        ids.retain(|id| {
            let stays = gone.binary_search(id).is_err();
            if !stays {
                self.directory.logout(*id, me);
                self.names.logout(*id);
            }
            stays
        });
        if ids.len() < before {
            conn.set_ids(&ids);
        }
        before - ids.len()
    }

    /// Logs the connection in `slot` out of all its ids: its stream is at its end.
    pub(super) fn leave(&mut self, slot: u32) {
        let me = self.conn_ref(slot);
        let Some(conn) = self.conns.at(slot) else { return };
        if conn.phase != Phase::Streaming {
            return;
        }
        for id in conn.ids() {
            self.directory.logout(id, me);
            self.names.logout(id);
        }
        conn.set_ids(&[]);
        self.counters.streams_closed[conn.transport.index()].add(1);
    }

    pub(super) fn conn_ref(&self, slot: u32) -> ConnRef {
        ConnRef::new(self.worker, slot as usize, self.conns.generation(slot))
    }
}
