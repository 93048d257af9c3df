//! The server as its owner sees upgrades: how one is asked for by a signal, and the end of a server
//! whose everything is another's.

use std::sync::{Arc, PoisonError};

use anyhow::{Context, Result};
use dispatch::traces::limits::FLUSH_TIME_MAX;
use gateway::ErlangTask;
use tokio::task::spawn_blocking;

use super::Done;
use crate::Server;
use crate::passing::LAST_MAX;

impl Server {
    /// Starts the program anew, as it was started, and leaves everything to it.
    pub async fn upgrade(&self) {
        self.upgrades.start().await;
    }

    /// Waits until another process serves in this one's place: what is left is to
    /// [leave](Server::leave).
    pub async fn moved(&self) -> Done {
        self.upgrades.done().await
    }

    /// Our node among Erlang nodes, which is started.
    pub(crate) fn set_erlang(&self, task: Option<ErlangTask>) {
        *self.erlang.lock().unwrap_or_else(PoisonError::into_inner) = task;
    }

    /// The Erlang node's task, to be ended by who asks.
    pub(crate) fn take_erlang(&self) -> Option<ErlangTask> {
        self.erlang.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Ends a server whose streams are another's, with its last connection to the API, whose
    /// requests are passed on.
    pub async fn leave(self) -> Result<()> {
        self.outlive_workers().await?;
        if !self.until_last(LAST_MAX).await {
            tracing::warn!("connections to the API are cut off: their requests did not end");
        }
        if let Some(traces) = self.traces {
            traces.end(FLUSH_TIME_MAX).await;
        }
        Ok(())
    }

    /// Waits until the workers have ended, whose streams are another's. Whoever drops the server
    /// does this first: a worker that held the last of something would close descriptors that its
    /// own table does not have, or has for a client.
    pub async fn outlive_workers(&self) -> Result<()> {
        let engine = Arc::clone(&self.engine);
        let workers = spawn_blocking(move || {
            engine.write().unwrap_or_else(PoisonError::into_inner).drain(0);
            // The last connection to the API may stay for long, and the successor needs memory too.
            sys::allocator::give_back();
        });
        workers.await.context("the workers did not end")
    }

    /// All goes on at the server that has taken over, in this process too, as an upgrade has it.
    #[cfg(test)]
    pub(crate) async fn move_on(&self) {
        let serving = self.upgrades.serving();
        serving.move_on_to(dispatch::successor::Successor::in_any_process(&serving.data));
        self.upgrades.serving().end_erlang().await;
    }
}
