//! Other servers of the protocol, which the row `peers` starts if it is given their programs.
//!
//! - `--soketi FOLDER` is where npm has installed soketi, which takes Node 20. Its package asks for
//!   `uWebSockets.js` from a place that is no registry. npm has the same library as `uwebsockets`.
//!   So the folder has this `package.json`, and `npm install --ignore-scripts` is run there:
//!   `{"dependencies": {"@soketi/soketi": "1.6.1"},
//!   "overrides": {"uWebSockets.js": "npm:uwebsockets@3.0.6"}}`
//! - `--sockudo PROGRAM` is what `cargo install sockudo` has made.
//!
//! Of other free servers none comes from a registry of this project's machines: Reverb is in
//! Packagist, Slanger and pusher-fake are in RubyGems, and the proxy of Go has no version of ipe.
//!
//! Each is one process, at loopback alone, with its own settings. Only what bounds an app's rates
//! and connections is lifted, and each is told not to ask the network for other nodes.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use testing::{free_port, wait_within};

use crate::app::{KEY, SECRET};
use crate::broadcast::Beside;
use crate::harness::Program;
use crate::{Outcome, START_MAX};

/// A server that can be started.
#[derive(Clone, Debug)]
pub(crate) enum Other {
    Soketi(PathBuf),
    Sockudo(PathBuf),
}

/// One that runs until it is dropped.
pub(crate) struct Started {
    pub(crate) beside: Beside,
    #[expect(dead_code, reason = "the process ends with it, and then its folder goes")]
    process: (Program, TempDir),
}

impl Other {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Other::Soketi(_) => "soketi",
            Other::Sockudo(_) => "Sockudo",
        }
    }

    /// Starts it in an empty folder, without a file of settings, and waits until it listens.
    pub(crate) fn start(&self) -> Outcome<Started> {
        let (folder, port) = (tempfile::tempdir()?, free_port());
        let mut command = match self {
            Other::Soketi(installed) => soketi(&installed.canonicalize()?, port),
            Other::Sockudo(program) => sockudo(&program.canonicalize()?, port),
        };
        let mut program = Program::spawn(command.current_dir(folder.path()));
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut listens = false;
        let is_decided = || {
            listens = TcpStream::connect(address).is_ok();
            listens || program.has_ended()
        };
        wait_within(START_MAX, is_decided);
        if !listens {
            let said = program.stderr();
            return Err(format!("{} does not start: {said}", self.name()).into());
        }
        let beside = Beside { listen: address, api: address, pid: program.pid() };
        Ok(Started { beside, process: (program, folder) })
    }
}

fn soketi(installed: &Path, port: u16) -> Command {
    let mut command = Command::new("node");
    command.arg(installed.join("node_modules/@soketi/soketi/bin/server.js")).arg("start");
    let loopback = Ipv4Addr::LOCALHOST.to_string();
    let free = || free_port().to_string();
    let settings = [
        ("HOST", loopback.clone()),
        ("PORT", port.to_string()),
        ("METRICS_HOST", loopback.clone()),
        ("METRICS_SERVER_PORT", free()),
        ("CLUSTER_PORT", free()),
        // It would ask all machines of the network for further nodes.
        ("CLUSTER_UNICAST_ADDRESSES", loopback),
        ("DEFAULT_APP_ID", "1".into()),
        ("DEFAULT_APP_KEY", KEY.into()),
        ("DEFAULT_APP_SECRET", SECRET.into()),
    ];
    command.envs(settings.map(|(name, value)| (format!("SOKETI_{name}"), value)));
    command
}

fn sockudo(program: &Path, port: u16) -> Command {
    const NO_BOUND: &str = "1000000";
    let mut command = Command::new(program);
    command
        .env("HOST", Ipv4Addr::LOCALHOST.to_string())
        .env("PORT", port.to_string())
        .env("METRICS_ENABLED", "false")
        .env("RATE_LIMITER_ENABLED", "false")
        // A line for each connection would be read by nobody.
        .env("RUST_LOG", "error")
        .env("SOCKUDO_DEFAULT_APP_ID", "1")
        .env("SOCKUDO_DEFAULT_APP_KEY", KEY)
        .env("SOCKUDO_DEFAULT_APP_SECRET", SECRET)
        .env("SOCKUDO_DEFAULT_APP_MAX_CONNECTIONS", NO_BOUND)
        .env("SOCKUDO_DEFAULT_APP_MAX_BACKEND_EVENTS_PER_SECOND", NO_BOUND);
    command
}
