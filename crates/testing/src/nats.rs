//! These are real NATS servers for tests, started on free ports with stores of their own. They are
//! stopped, killed and started again as a test wants. They are gone when it ends, also when it
//! panics or is killed.

use std::cell::Cell;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use rig::{Nats, nats};

use crate::folders::temporary;
use crate::{DEADLINE, free_port, wait_within};

/// Names the program of a current NATS server, where tests do not find it by themselves.
pub use rig::nats::NAMED as NATS_SERVER;

/// The current NATS server: what [`NATS_SERVER`] names, or `tools/bin/nats-server` in a folder
/// above this program, where `cargo xtask programs` puts it. Skips the test where there is none.
pub fn nats_current() -> Option<PathBuf> {
    let named = std::env::var_os(NATS_SERVER).map(PathBuf::from);
    let found = named.or_else(nats::current);
    if found.is_none() {
        crate::skip("there is no current nats-server: `cargo xtask programs` builds it");
    }
    found
}

/// The NATS server of the system, which is older (2.9 in Debian 12). Skips the test where there is
/// none.
pub fn nats_of_system() -> Option<PathBuf> {
    let found = nats::of_system();
    if found.is_none() {
        crate::skip("there is no nats-server: on Debian, as root: apt-get install nats-server");
    }
    found
}

/// A server, which may be stopped and started.
pub struct NatsServer {
    /// What stands before its arguments: what runs the program, and that itself.
    program: Vec<OsString>,
    settings: String,
    folder: PathBuf,
    port: u16,
    running: Option<Nats>,
    /// How much of what it has said was waited for.
    heard: Cell<usize>,
}

impl NatsServer {
    /// A server with JetStream on a port of its own.
    pub fn start(program: &Path) -> NatsServer {
        let settings = "jetstream { store_dir: \"STORE\", max_file_store: 20GB }\n";
        NatsServer::with_settings(program, settings)
    }

    /// A server with these settings besides its address (NATS's configuration file). `STORE` in
    /// them becomes a folder of its own.
    pub fn with_settings(program: &Path, settings: &str) -> NatsServer {
        NatsServer::behind(&[], program, settings)
    }

    /// A server that is started, each time, by the program and arguments in `before`.
    pub fn behind(before: &[OsString], program: &Path, settings: &str) -> NatsServer {
        let mut server = NatsServer::prepare(program, free_port(), settings);
        server.program.splice(0..0, before.iter().cloned());
        server.restart();
        server
    }

    /// As [`NatsServer::behind`], by a command to which the program and its arguments are added.
    pub fn within(command: Command, program: &Path, settings: &str) -> NatsServer {
        let before = [command.get_program()].into_iter().chain(command.get_args());
        let before: Vec<OsString> = before.map(OsString::from).collect();
        NatsServer::behind(&before, program, settings)
    }

    /// Three servers (or so many) that are a cluster with JetStream.
    pub fn cluster(program: &Path, count: usize) -> Vec<NatsServer> {
        let routes: Vec<u16> = (0..count).map(|_| free_port()).collect();
        let all = routes.iter().map(|port| format!("\"nats://127.0.0.1:{port}\""));
        let all = all.collect::<Vec<_>>().join(", ");
        let prepare = |(index, port): (usize, &u16)| {
            let settings = format!(
                "server_name: n{index}\n\
                 jetstream {{ store_dir: \"STORE\", max_file_store: 20GB }}\n\
                 lame_duck_duration: \"30s\"\nlame_duck_grace_period: \"1s\"\n\
                 cluster {{ name: test, listen: \"127.0.0.1:{port}\", routes: [{all}], \
                 no_advertise: true }}\n"
            );
            NatsServer::prepare(program, free_port(), &settings)
        };
        let mut servers: Vec<NatsServer> = routes.iter().enumerate().map(prepare).collect();
        servers.iter_mut().for_each(NatsServer::restart);
        servers
    }

    fn prepare(program: &Path, port: u16, settings: &str) -> NatsServer {
        let (folder, settings) = (temporary("nats"), settings.to_owned());
        let program = vec![program.into()];
        NatsServer { program, settings, folder, port, running: None, heard: Cell::new(0) }
    }

    /// Starts it, on the same port and store as before, and waits until it is ready.
    ///
    /// # Panics
    /// When it does not get ready, with what it said.
    pub fn restart(&mut self) {
        assert!(self.running.is_none(), "it runs");
        let nats = Nats::start(&self.program, &self.folder, Some(self.port), &self.settings);
        let nats = nats.unwrap_or_else(|error| panic!("{error}"));
        let is_ready = || nats.ready().unwrap_or_else(|error| panic!("{error}")).is_some();
        assert!(wait_within(DEADLINE, is_ready), "it does not get ready; it said:\n{}", nats.log());
        self.heard.set(0);
        self.running = Some(nats);
    }

    /// Waits until a line of the server's log has `what` in it, behind the last that was waited
    /// for.
    ///
    /// # Panics
    /// When none comes in time, with the lines that came.
    pub fn wait_for(&self, what: &str) {
        let running = self.running.as_ref().expect("it runs");
        let has_said = || {
            let said = running.log();
            let at = said.get(self.heard.get()..).and_then(|rest| rest.find(what));
            self.heard.set(at.map_or(self.heard.get(), |at| self.heard.get() + at + what.len()));
            at.is_some()
        };
        let said = wait_within(DEADLINE, has_said);
        assert!(said, "no line with {what:?}; the server said:\n{}", running.log());
    }

    /// `nats://…` of it.
    pub fn url(&self) -> String {
        format!("nats://{}", self.address())
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// The number of its process.
    pub fn pid(&self) -> u32 {
        self.running.as_ref().expect("it runs").pid()
    }

    /// Where its store is, which a test may copy and put back while it does not run.
    pub fn store(&self) -> PathBuf {
        nats::store(&self.folder)
    }

    /// Its folder, for files of a test.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Ends it as a loss of power ends it, but for what the kernel still writes.
    pub fn kill(&mut self) {
        self.running = None;
    }

    /// Stops it in its tracks: its connections stay, and nothing comes out of them.
    pub fn pause(&self) {
        self.signal("STOP");
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.signal("CONT");
    }

    /// Makes it hand over what it leads and end its connections one by one, and then itself.
    pub fn lame_duck(&self) {
        self.signal("USR2");
    }

    fn signal(&self, name: &str) {
        crate::signal(self.pid(), name);
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
