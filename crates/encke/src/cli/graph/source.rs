//! Where a graph is read from: a server at work, or a data directory that none uses.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow, bail, ensure};
use clap::Args;
use graph::{Graph, GraphOptions, OpenError, OpenReason};
use http_body_util::BodyExt;
use tokio::time::timeout;

use crate::cli::client::{ApiArgs, runtime};
use crate::cli::work::Progress;
use crate::client::{ApiClient, ServerUrl};
use crate::console::told;
use crate::signals::Signals;

/// How long a server may say nothing: it reads from its disk, and waits for a commit at most. Who
/// makes a backup each night must hear that one has not come.
const SILENCE_MAX: Duration = Duration::from_secs(120);

/// The server, or the directory.
#[derive(Debug, Args)]
pub(super) struct SourceArgs {
    #[command(flatten)]
    api: ApiArgs,
    /// Read this data directory, which no server uses, instead of asking a server.
    // Not from the environment, as with `graph load`: it must not decide whose graph is read.
    #[arg(long, value_name = "DIR", hide_env = true)]
    data: Option<PathBuf>,
}

/// What was named.
pub(super) enum PairsFrom {
    Server(ServerUrl),
    Directory(PathBuf),
}

impl SourceArgs {
    pub(super) fn source(self) -> Result<PairsFrom> {
        match self.data {
            Some(data) => Ok(PairsFrom::Directory(data)),
            None => Ok(PairsFrom::Server(self.api.server()?)),
        }
    }
}

/// Opens the graph in `data`, which must be there, to read it.
pub(super) fn open(data: &Path) -> Result<Graph> {
    check_is_there(data)?;
    Ok(Graph::open_to_read(data, &GraphOptions::default())?)
}

/// Fails where there is no graph in `data`: opening one would make it. One that is gone is another
/// matter, which is told by who opens it.
pub(super) fn check_is_there(data: &Path) -> Result<()> {
    ensure!(
        ["data.mdb", "data.state"].iter().any(|name| data.join(name).symlink_metadata().is_ok()),
        "there is no friends graph in {}: load one with `encke graph load`, or name its directory \
         with --data",
        data.display()
    );
    Ok(())
}

/// Opens the graph for a command that a server answers too.
pub(super) fn open_unused(data: &Path) -> Result<Graph> {
    open(data).map_err(|error| match error.downcast_ref() {
        Some(OpenError { reason: OpenReason::InUse { .. }, .. }) => {
            anyhow!(
                "{}; or leave --data out: then the server itself is asked, at --api",
                told(&error)
            )
        }
        _ => error,
    })
}

/// Writes what the server answers at `path` into `out`, whole or with an error.
pub(super) fn download(server: &ServerUrl, path: &str, out: &mut dyn Write) -> Result<()> {
    runtime()?.block_on(async {
        let mut signals = Signals::new()?;
        tokio::select! {
            done = pieces(server, path, out) => done,
            _ = signals.next() => bail!("stopped before it was done"),
        }
    })
}

async fn pieces(server: &ServerUrl, path: &str, out: &mut dyn Write) -> Result<()> {
    let mut client = said(server, ApiClient::connect(server)).await??;
    let mut body = said(server, client.open(path)).await??;
    let (mut progress, mut bytes) = (Progress::new("bytes"), 0);
    while let Some(frame) = said(server, body.frame()).await? {
        let frame = frame.map_err(|error| {
            anyhow!("the answer of {server} ended early ({error}); look at its log")
        })?;
        if let Some(piece) = frame.data_ref() {
            out.write_all(piece)?;
            bytes += piece.len() as u64;
            progress.set("bytes", bytes, 0);
        }
    }
    Ok(out.flush()?)
}

/// What comes of the server, if it does.
async fn said<T>(server: &ServerUrl, what: impl Future<Output = T>) -> Result<T> {
    timeout(SILENCE_MAX, what).await.map_err(|_| {
        let seconds = SILENCE_MAX.as_secs();
        anyhow!("{server} has said nothing for {seconds} s; see that it runs, and try again")
    })
}

/// The snapshot of the store in `data`, into `file`.
pub(super) fn copy(data: &Path, file: &mut File) -> Result<()> {
    Ok(open_unused(data)?.backup_to(file)?)
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    /// It takes two minutes, of a clock that stands until nobody does anything.
    #[tokio::test(start_paused = true)]
    async fn server_that_says_nothing_is_given_up_and_named() {
        let server: ServerUrl = "http://127.0.0.1:8001".parse().unwrap();
        let told = said(&server, pending::<()>()).await.unwrap_err().to_string();
        let cure = "see that it runs, and try again";
        assert_eq!(told, format!("http://127.0.0.1:8001 has said nothing for 120 s; {cure}"));
        assert_eq!(said(&server, ready(7)).await.unwrap(), 7);
    }
}
