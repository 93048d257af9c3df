//! The NATS server of a demo with nodes: found on this machine, started with a store of its own on
//! a free port, and gone with the demo.

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rig::{Nats, nats};
use tokio::time::{Instant, sleep};

use crate::cli::demo::child;

/// A log in a file.
const SETTINGS: &str = "jetstream { store_dir: \"STORE\" }\n";

/// How long it may take to listen, and to end.
const START_TIMEOUT: Duration = Duration::from_secs(30);
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// A server at work. It ends when this is dropped.
pub(super) struct NatsProcess {
    nats: Nats,
    url: String,
}

impl NatsProcess {
    /// Starts the `program` with its files in `folder`, and waits until it takes clients.
    pub(super) async fn start(program: &Path, folder: &Path) -> Result<NatsProcess> {
        let nats = Nats::start(&[program.into()], folder, None, SETTINGS)?;
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            if let Some(address) = nats.ready()? {
                return Ok(NatsProcess { nats, url: format!("nats://{address}") });
            }
            if Instant::now() >= deadline {
                let (program, seconds) = (program.display(), START_TIMEOUT.as_secs());
                bail!("{program} does not listen within {seconds} s; it said:\n{}", nats.log());
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Where nodes connect.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Ends it, and waits for that.
    pub(super) async fn stop(mut self) -> Result<()> {
        child::end_server(self.nats.server(), "NATS", END_TIMEOUT).await
    }
}

/// The program: what the environment names, a current one in the project's own folder, or the
/// system's.
pub(super) fn find() -> Result<PathBuf> {
    if let Some(named) = env::var_os(nats::NAMED).map(PathBuf::from) {
        if !named.is_file() {
            bail!("{} names {}, which is no file", nats::NAMED, named.display());
        }
        return Ok(named);
    }
    nats::current().or_else(nats::of_system).with_context(|| {
        format!(
            "nodes take NATS, and there is no nats-server: install it (apt-get install \
             nats-server, or https://github.com/nats-io/nats-server/releases), or name the program \
             in {}",
            nats::NAMED
        )
    })
}
