//! Our node among Erlang nodes: what it is made of, and its start.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use dispatch::posting::Sender;
use dispatch::presence::Presence;
use engine::Guest;
use gateway::{Erlang, ErlangTask};
use tokio_util::sync::CancellationToken;

use crate::ErlangConfig;
use crate::api::Api;

/// Our node among Erlang nodes, before it is started.
pub(crate) struct ErlangStart {
    pub(super) config: ErlangConfig,
    pub(super) guest: Guest,
    pub(super) sender: Sender,
    pub(super) presence: Arc<Presence>,
    pub(super) backlog_bytes_max: usize,
    pub(super) data: PathBuf,
    pub(super) state: Arc<Api>,
    pub(super) stop: CancellationToken,
}

impl ErlangStart {
    /// Starts it. Its port may become free within `patience`.
    pub(crate) async fn start(self, patience: Duration) -> Result<ErlangTask> {
        let ErlangStart { config, guest, data, state, stop, .. } = self;
        let (from, most) = ((self.sender, self.presence, state.rooms()), self.backlog_bytes_max);
        let node = Erlang::start(config, &data, from, guest, most, patience, &stop);
        let (erlang, task) = node.await?;
        state.set_erlang(erlang);
        Ok(task)
    }
}
