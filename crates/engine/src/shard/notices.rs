//! What the log is told of a shard's clients, and what is set anew while it runs.

use std::sync::Arc;

use hub::DisconnectReason;
use proto::Problem;

use super::core::{At, Core};
use super::{NoPlace, Shard};
use crate::notices::Notice;
use crate::settings::Settings;
use crate::sockets::Sockets;
use crate::texts::Texts;

impl<S: Sockets> Core<S> {
    /// A client is answered with `problem`.
    pub(super) fn note_refusal(&self, at: &At<'_, S::Socket>, problem: &Problem) {
        self.notices.refused(|| Notice::Refused {
            peer: self.io.peer(&at.conn.socket),
            status: problem.status,
            detail: problem.detail.clone(),
        });
    }

    /// A connection ends, which still has its ids.
    pub(super) fn note_end(&self, at: &At<'_, S::Socket>, reason: DisconnectReason) {
        if reason != DisconnectReason::SlowReader {
            return;
        }
        self.notices.slow(|| Notice::Slow {
            peer: self.io.peer(&at.conn.socket),
            id: at.conn.first_id().and_then(|id| self.names.text(id)),
            backlog_bytes: at.conn.backlog_bytes() as u64,
        });
    }
}

impl<S: Sockets> Shard<S> {
    /// A client for whom there is no place is answered so.
    pub(crate) fn note_no_place(&self, socket: &S::Socket, why: NoPlace) {
        let core = &self.core;
        core.notices.refused(|| {
            let Problem { status, detail, .. } = core.no_place_problem(why, 0);
            Notice::Refused { peer: core.io.peer(socket), status, detail }
        });
    }

    /// Shows these texts from now on.
    pub(crate) fn show(&mut self, texts: Arc<Texts>) {
        self.core.texts = texts;
    }

    /// This holds from now on.
    pub(crate) fn set(&mut self, settings: &Settings) {
        self.core.config.settings.clone_from(settings);
    }
}
