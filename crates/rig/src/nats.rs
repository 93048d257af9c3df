//! A NATS server: found on this machine, started with files of its own, ended at once.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::server::{Server, shell};
use crate::{RigError, tool};

/// Names the program, where it is not found by itself.
pub const NAMED: &str = "ENCKE_NATS_SERVER";

/// Nobody needs its store when it ends, or wants it as after a loss of power, so it need not end in
/// order.
const END: &str = "kill -KILL $!";

/// What it says, with its address behind it, when it has its port, and when it takes clients.
const LISTENS: &str = "Listening for client connections on ";
const IS_READY: &str = "Server is ready";

/// A server at work. Dropping it ends it, and waits for that.
#[derive(Debug)]
pub struct Nats(Server);

impl Nats {
    /// Starts `program`, whose first words may be others that become it, with its files in
    /// `folder`, which is made. `settings` are those of its configuration file besides its address;
    /// `STORE` in them becomes a folder of its own. Without a `port` the kernel gives one.
    ///
    /// # Errors
    /// A file cannot be made, or the program does not start.
    pub fn start(
        program: &[OsString],
        folder: &Path,
        port: Option<u16>,
        settings: &str,
    ) -> Result<Nats, RigError> {
        fs::create_dir_all(folder).map_err(RigError::file(folder))?;
        let port = port.map_or("-1".to_owned(), |port| port.to_string());
        let settings = settings.replace("STORE", &store(folder).display().to_string());
        let file = folder.join("nats.conf");
        fs::write(&file, format!("listen: \"127.0.0.1:{port}\"\n{settings}"))
            .map_err(RigError::file(&file))?;
        let mut shell = shell(program, END);
        shell.arg("-c").arg(file);
        let name = program.last().map_or("nats-server".as_ref(), Path::new);
        Ok(Nats(Server::start(&mut shell, name, &folder.join("log"))?))
    }

    /// Where it listens, once it takes clients.
    ///
    /// # Errors
    /// It has ended.
    pub fn ready(&self) -> Result<Option<SocketAddr>, RigError> {
        // Its end is looked for first: what it has said until then is whole.
        let alive = self.0.expect_alive();
        let said = self.0.log();
        let address = address(&said).filter(|_| said.contains(IS_READY));
        alive.map(|()| address)
    }

    /// Its process.
    pub fn server(&mut self) -> &mut Server {
        &mut self.0
    }

    /// The number of its process.
    pub fn pid(&self) -> u32 {
        self.0.pid()
    }

    /// What it has said since it was started.
    pub fn log(&self) -> String {
        self.0.log()
    }
}

/// Where a server has its store whose files are in `folder`.
pub fn store(folder: &Path) -> PathBuf {
    folder.join("store")
}

fn address(said: &str) -> Option<SocketAddr> {
    let (_, rest) = said.split_once(LISTENS)?;
    rest.split_whitespace().next()?.parse().ok()
}

/// A current server: `tools/bin/nats-server` in a folder above this program, where `cargo xtask
/// programs` puts one.
pub fn current() -> Option<PathBuf> {
    tool(Path::new("bin/nats-server"))
}

/// The server of the system.
pub fn of_system() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    // Debian has it where only root's path leads.
    let folders = env::split_paths(&path).chain(["/usr/sbin".into()]);
    folders.map(|folder| folder.join("nats-server")).find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_what_the_log_says() {
        let said = "[1] 2026/01/01 00:00:00.000000 [INF] Starting nats-server\n\
                    [1] 2026/01/01 00:00:00.000000 [INF] Listening for client connections on \
                    127.0.0.1:37001\n[1] 2026/01/01 00:00:00.000000 [INF] Server is ready\n";
        assert_eq!(address(said), Some(([127, 0, 0, 1], 37001).into()));
        assert_eq!(address("[INF] Starting nats-server\n"), None);
        // Half a line.
        assert_eq!(address("[INF] Listening for client connections on 127.0"), None);
    }
}
