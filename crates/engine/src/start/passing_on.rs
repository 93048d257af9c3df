//! An engine that takes another process' connections over, or gives its own away.

use std::path::Path;
use std::sync::Arc;

use hub::{Epoch, Names};
use sys::{machine, socket};

use super::{Engine, StartError};
use crate::config::EngineConfig;
use crate::counters::Total;
use crate::handover::{self, Handover, HandoverFacts, Predecessor, Takeover, TakeoverState};

impl Engine {
    /// As [`Engine::prepare`] for one that takes another process' connections over, and its ports:
    /// see [`Engine::take_over`].
    pub fn prepare_successor(
        mut config: EngineConfig,
        epoch: Epoch,
        names: Arc<Names>,
        from: &Predecessor,
    ) -> Result<Engine, StartError> {
        config.listen = from.listen;
        if let (Some(tls), Some(listen)) = (&mut config.tls, from.tls_listen) {
            tls.listen = listen;
        }
        Engine::assemble(config, epoch, names, Some(from))
    }

    /// Starts the workers, once, which take over what the workers of `from` give: each waits for
    /// them at a Unix socket in `dir`. Where they are more, some get no listener, and whether they
    /// may have one of their own is found out before anything moves.
    pub fn take_over(&mut self, dir: &Path, from: &Predecessor) -> Result<Takeover, StartError> {
        let workers = self.workers();
        let state = Arc::new(TakeoverState::new(dir.to_owned(), from.workers, workers));
        let takeover = Takeover(Arc::clone(&state));
        let Some((config, shared)) = self.closed.take() else { return Ok(takeover) };
        if workers > from.workers {
            for (listen, _) in config.listens() {
                let bound = socket::bind_in_group(listen);
                bound.map_err(|error| StartError::Listen(listen, error))?;
            }
        }
        for (worker, shared) in shared.into_iter().enumerate() {
            // Dropped, what has begun is given up.
            self.spawn(worker, config.clone(), shared, Some(Arc::clone(&state)))
                .map_err(StartError::Worker)?;
        }
        Ok(takeover)
    }

    /// Begins to give all connections to another process, of which so many workers wait in `dir`.
    pub fn begin_handover(&self, dir: &Path, receivers: usize) -> Handover {
        self.begin_handover_by(machine::cores(), dir, receivers)
    }

    /// Begins a handover by so many workers at a time.
    pub(crate) fn begin_handover_by(
        &self,
        copiers: usize,
        dir: &Path,
        receivers: usize,
    ) -> Handover {
        let (workers, mailboxes) = (self.threads.len(), self.mailboxes.clone());
        Handover::begin(dir.to_owned(), receivers, workers, copiers, mailboxes)
    }

    /// What another process has to know to take all over.
    pub fn handover_facts(&self) -> HandoverFacts {
        let snapshot = self.snapshot();
        let of_a_worker = snapshot.workers.iter().map(|worker| worker.connections_open).max();
        HandoverFacts {
            predecessor: Predecessor {
                listen: self.plain_address,
                tls_listen: self.tls_address,
                workers: self.workers(),
                address_keys: self.addresses.keys(),
            },
            connections_of_a_worker: of_a_worker.unwrap_or_default(),
            connections: snapshot.whole().connections_open,
        }
    }

    /// What is counted and goes on, as it stands.
    pub fn totals(&self) -> Vec<Total> {
        handover::totals(&self.snapshot().whole())
    }
}
