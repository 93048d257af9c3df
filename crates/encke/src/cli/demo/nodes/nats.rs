//! The NATS server of a demo with nodes: found on this machine, started with a store of its own on
//! a free port, and gone with the demo.
//!
//! It knows no `--until-eof` as the nodes do, so a shell stands before it that kills it when its
//! standard input ends, whose other end only the demo holds: no end of the demo leaves it behind.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use crate::cli::demo::child::{AtDrop, OwnChild};

/// Names the program, where it is not found by itself.
const NAMED: &str = "ENCKE_NATS_SERVER";

/// Its store is lost with the demo anyway, so it need not end in order.
const SCRIPT: &str = "\"$@\" </dev/null & read -r _; kill -KILL $!; wait";

/// How long it may take to listen, and to end.
const START_TIMEOUT: Duration = Duration::from_secs(30);
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// A server at work. It ends when this is dropped.
pub(super) struct NatsProcess {
    shell: OwnChild,
    url: String,
}

/// What the server writes into a file when it listens.
#[derive(Deserialize)]
struct Ports {
    nats: Vec<String>,
}

impl NatsProcess {
    /// Starts the `program` with its files in `folder`, and waits until it listens.
    pub(super) async fn start(program: &Path, folder: &Path) -> Result<NatsProcess> {
        let (ports, log) = (folder.join("ports"), folder.join("log"));
        fs::create_dir_all(&ports).context("cannot make a directory for NATS")?;
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "sh"]).arg(program);
        // -1 is a port that the kernel gives, which the file tells.
        command.args(["-a", "127.0.0.1", "-p", "-1", "-js", "-sd"]).arg(folder.join("store"));
        command.arg("--ports_file_dir").arg(&ports).arg("-l").arg(&log);
        command.stdout(Stdio::null()).stderr(Stdio::inherit());
        let shell =
            OwnChild::spawn(&mut command, AtDrop::EndOfInput).context("cannot start NATS")?;
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            if let Some(url) = told(&ports) {
                return Ok(NatsProcess { shell, url });
            }
            if Instant::now() >= deadline {
                let said = fs::read_to_string(&log).unwrap_or_default();
                bail!("{} does not listen; it said:\n{said}", program.display());
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
        let ended = self.shell.end(END_TIMEOUT).await.context("cannot watch NATS")?;
        ended.map(drop).context("NATS does not end")
    }
}

/// The address in the file of ports, when it is there and whole.
fn told(folder: &Path) -> Option<String> {
    let mut files = fs::read_dir(folder).ok()?.flatten();
    let text = fs::read(files.next()?.path()).ok()?;
    serde_json::from_slice::<Ports>(&text).ok()?.nats.into_iter().next()
}

/// The program: what the environment names, `tools/bin/nats-server` in a folder above this program,
/// where `cargo xtask ci` puts a current one, or the system's.
pub(super) fn find() -> Result<PathBuf> {
    if let Some(named) = env::var_os(NAMED).map(PathBuf::from) {
        if !named.is_file() {
            bail!("{NAMED} names {}, which is no file", named.display());
        }
        return Ok(named);
    }
    let own = env::current_exe().unwrap_or_default();
    let installed = own.ancestors().map(|folder| folder.join("tools/bin/nats-server"));
    let path = env::var_os("PATH").unwrap_or_default();
    // Debian has it where only root's path leads.
    let folders = env::split_paths(&path).chain(["/usr/sbin".into()]);
    let mut found = installed.chain(folders.map(|folder| folder.join("nats-server")));
    found.find(|program| program.is_file()).with_context(|| {
        format!(
            "nodes take NATS, and there is no nats-server: install it (apt-get install \
             nats-server, or https://github.com/nats-io/nats-server/releases), or name the program \
             in {NAMED}"
        )
    })
}
