//! Real NATS servers for tests: started on free ports with stores of their own, stopped, killed and
//! started again as a test wants, and gone when it ends, also when it panics.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Instant;

use crate::{DEADLINE, free_port};

/// Names the program of a current NATS server, where tests do not find it by themselves.
pub const NATS_SERVER: &str = "ENCKE_NATS_SERVER";

/// Lines of a server's log that wait for the test; those that come then are passed over.
const LINES_MAX: usize = 1000;

/// The current NATS server: what [`NATS_SERVER`] names, or `tools/bin/nats-server` in a folder
/// above this program, where `cargo xtask programs` puts it. Skips the test where there is none.
pub fn nats_current() -> Option<PathBuf> {
    let named = std::env::var_os(NATS_SERVER).map(PathBuf::from);
    let found = named.or_else(|| crate::tools::find(Path::new("bin/nats-server")));
    if found.is_none() {
        crate::skip("there is no current nats-server: `cargo xtask programs` builds it");
    }
    found
}

/// The NATS server of the system, which is older (2.9 in Debian 12). Skips the test where there is
/// none.
pub fn nats_of_system() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
    let found = folders.map(|folder| folder.join("nats-server")).find(|path| path.is_file());
    if found.is_none() {
        crate::skip("there is no nats-server: on Debian, as root: apt-get install nats-server");
    }
    found
}

/// A server, which may be stopped and started.
pub struct NatsServer {
    /// What stands before its arguments: the program, and what runs that.
    program: Vec<OsString>,
    folder: PathBuf,
    port: u16,
    running: Option<Running>,
}

struct Running {
    child: Child,
    lines: Receiver<String>,
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

    /// As [`NatsServer::with_settings`], started by `command`, to which the program and its
    /// arguments are added: once, since a command cannot be copied.
    pub fn within(command: Command, program: &Path, settings: &str) -> NatsServer {
        let mut server = NatsServer::prepare(program, free_port(), settings);
        server.run(command, true);
        server
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
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("encke-nats-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a folder below the temporary one");
        let settings = settings.replace("STORE", &folder.join("store").display().to_string());
        let mut text = format!("listen: \"127.0.0.1:{port}\"\n");
        write!(text, "{settings}").expect("a string takes all");
        std::fs::write(folder.join("nats.conf"), text).expect("a file in our own folder");
        NatsServer { program: vec![program.into()], folder, port, running: None }
    }

    /// Starts it, on the same port and store as before, and waits until it is ready.
    ///
    /// # Panics
    /// When it does not get ready, with what it said.
    pub fn restart(&mut self) {
        let mut command = Command::new(&self.program[0]);
        command.args(&self.program[1..]);
        self.run(command, false);
    }

    fn run(&mut self, mut command: Command, add_program: bool) {
        assert!(self.running.is_none(), "it runs");
        if add_program {
            command.args(&self.program);
        }
        command.arg("-c").arg(self.folder.join("nats.conf"));
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{:?} does not start: {error}", self.program));
        let stderr = child.stderr.take().expect("it was piped");
        let (sender, lines) = sync_channel(LINES_MAX);
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                // The pipe is emptied whether the test reads or not.
                let _ = sender.try_send(line);
            }
        });
        self.running = Some(Running { child, lines });
        self.wait_for("Server is ready");
    }

    /// Waits until a line of the server's log has `what` in it.
    ///
    /// # Panics
    /// When none comes in time, with the lines that came.
    pub fn wait_for(&self, what: &str) {
        let running = self.running.as_ref().expect("it runs");
        let end = Instant::now() + DEADLINE;
        let mut heard = String::new();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match running.lines.recv_timeout(left) {
                Ok(line) if line.contains(what) => return,
                Ok(line) => heard.extend([line.as_str(), "\n"]),
                Err(error) => panic!("no line with {what:?} ({error}); the server said:\n{heard}"),
            }
        }
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
        self.running.as_ref().expect("it runs").child.id()
    }

    /// Where its store is, which a test may copy and put back while it does not run.
    pub fn store(&self) -> PathBuf {
        self.folder.join("store")
    }

    /// Its folder, for files of a test.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Ends it as a loss of power ends it, but for what the kernel still writes.
    pub fn kill(&mut self) {
        if let Some(mut running) = self.running.take() {
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
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
