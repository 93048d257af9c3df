//! `encke serve` on free ports.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Deref;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use super::api::sum;
use super::program::without_settings;
use super::{Api, Program, Stream, Wire, encke, wait_for};

/// Options for the ports of a server that is started again on them: the tests' own, since one that
/// the kernel gave may be another's by then.
pub(crate) fn own_ports() -> [String; 2] {
    ["listen", "api"].map(|name| format!("--{name}=127.0.0.1:{}", testing::free_port()))
}

/// A server at work, on ports and in a directory of its own.
pub(crate) struct Server {
    program: Program,
    listen: SocketAddr,
    pub(crate) api: Api,
    tls_api: Option<SocketAddr>,
    tls_listen: Option<SocketAddr>,
    /// Kept for its end, which removes it.
    _data: Option<TempDir>,
}

impl Server {
    /// Starts one with further `options`.
    pub(crate) fn start(options: &[&str]) -> Server {
        let data = tempfile::tempdir().unwrap();
        let server = Server::start_in(data.path(), options);
        Server { _data: Some(data), ..server }
    }

    /// Starts one whose environment has the variable `name`.
    pub(crate) fn start_with_variable(name: &str, value: &str, options: &[&str]) -> Server {
        let data = tempfile::tempdir().unwrap();
        let server = Server::start_in_with_variable(data.path(), name, value, options);
        Server { _data: Some(data), ..server }
    }

    /// The same on a store that outlives it.
    pub(crate) fn start_in_with_variable(
        data: &Path,
        name: &str,
        value: &str,
        options: &[&str],
    ) -> Server {
        let mut command = encke(serve_args(data, options));
        Server::of(Program::spawn(command.env(name, value)))
    }

    /// One that may take its time to start, with its API on a port that is known before.
    pub(crate) fn starting_in(data: &Path, options: &[&str]) -> (Program, Api) {
        let port = SocketAddr::from((Ipv4Addr::LOCALHOST, testing::free_port()));
        let mut args = serve_args(data, options);
        args.retain(|arg| !arg.to_string_lossy().starts_with("--api="));
        args.push(format!("--api={port}").into());
        (Program::spawn(&mut encke(args)), Api::new(port))
    }

    /// Starts one on a store that outlives it.
    pub(crate) fn start_in(data: &Path, options: &[&str]) -> Server {
        Server::of(Program::spawn(&mut encke(serve_args(data, options))))
    }

    /// Starts another version of it, on a store that outlives it.
    pub(crate) fn start_program(program: &Path, data: &Path, options: &[&str]) -> Server {
        let mut command = without_settings(program);
        Server::of(Program::spawn(command.args(serve_args(data, options))))
    }

    /// Starts one that may have so many descriptors in each table.
    pub(crate) fn start_with_descriptors(descriptors: u32, options: &[&str]) -> Server {
        let data = tempfile::tempdir().unwrap();
        let script = format!("ulimit -n {descriptors}; exec \"$0\" \"$@\"");
        let mut command = std::process::Command::new("sh");
        command.arg("-c").arg(script).arg(env!("CARGO_BIN_EXE_encke"));
        command.args(serve_args(data.path(), options));
        let server = Server::of(Program::spawn(&mut command));
        Server { _data: Some(data), ..server }
    }

    /// The server that `program` becomes: waits for its line.
    pub(crate) fn of(program: Program) -> Server {
        let line: Value = serde_json::from_str(&program.line()).unwrap();
        assert_eq!(line["pid"], program.pid());
        let address = |name: &str| Some(line[name].as_str()?.parse::<SocketAddr>().unwrap());
        let (tls_listen, tls_api) = (address("tls_listen"), address("tls_api"));
        let listen = address("listen").or(tls_listen).unwrap();
        // Where there is no plain one, no test uses it.
        let api = Api::new(address("api").or(tls_api).unwrap());
        Server { program, listen, api, tls_api, tls_listen, _data: None }
    }

    /// Where clients connect.
    pub(crate) fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// Where clients connect by TLS.
    pub(crate) fn tls_listen(&self) -> SocketAddr {
        self.tls_listen.unwrap()
    }

    /// `http://…` of the API, as commands want it.
    pub(crate) fn api_url(&self) -> String {
        format!("http://{}", self.api.address())
    }

    /// Where the API speaks TLS.
    pub(crate) fn tls_api(&self) -> SocketAddr {
        self.tls_api.unwrap()
    }

    /// `https://localhost…` of the API.
    pub(crate) fn tls_url(&self) -> String {
        format!("https://localhost:{}", self.tls_api().port())
    }

    /// `http://…` of the public port.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.listen)
    }

    /// A connection to the public port that has said nothing.
    pub(crate) fn connect(&self) -> Wire {
        Wire::connect(self.listen)
    }

    /// A connection to the public port that has sent `bytes`.
    pub(crate) fn ask(&self, bytes: impl AsRef<[u8]>) -> Wire {
        let mut wire = self.connect();
        wire.send(bytes);
        wire
    }

    /// An NDJSON stream of `id`, logged in.
    pub(crate) fn listener(&self, id: &str) -> Stream {
        Stream::open(self.listen, &format!("/stream/{id}"), "application/x-ndjson")
    }

    /// A stream of `path` with `accept`, logged in.
    pub(crate) fn stream(&self, path: &str, accept: &str) -> Stream {
        Stream::open(self.listen, path, accept)
    }

    /// Waits until `id` has so many connections.
    pub(crate) fn wait_online(&self, id: &str, connections: u64) {
        wait_for(&format!("{id} has {connections} connections"), || {
            self.api.connections(id) == connections
        });
    }

    /// Waits until so many connections are open, whatever they are; returns the figures.
    pub(crate) fn wait_open(&self, connections: u64) -> Value {
        let mut stats = Value::Null;
        wait_for(&format!("{connections} connections are open"), || {
            stats = self.api.stats();
            stats["connections_open"] == connections
        });
        stats
    }

    /// Waits until so many streams are open, logged in: what is sent from then on they hear. A
    /// connection that is open may have asked for nothing yet.
    pub(crate) fn wait_streams(&self, streams: u64) -> Value {
        let mut stats = Value::Null;
        wait_for(&format!("{streams} streams are open"), || {
            stats = self.api.stats();
            sum(&stats["streams_open"]) == streams
        });
        stats
    }

    /// Waits until a crowd of so many, of which nobody is refused, has logged in; some may be gone
    /// already.
    pub(crate) fn wait_crowd(&self, clients: u64) {
        wait_for(&format!("a crowd of {clients} is online"), || {
            let stats = self.api.stats();
            sum(&stats["streams_open"]) + sum(&stats["connections_closed"]) >= clients
        });
    }

    /// Waits until so many connections have ended for `reason`.
    pub(crate) fn wait_closed(&self, reason: &str, connections: u64) {
        wait_for(&format!("{connections} connections ended for {reason}"), || {
            self.api.stats()["connections_closed"][reason] == connections
        });
    }

    /// The exit code, once it has ended by itself.
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        self.program.exit_code()
    }

    /// Sends the signal of that name and waits for the end.
    pub(crate) fn stop(self, signal: &str) -> super::Finished {
        self.program.signal(signal);
        self.program.finish()
    }

    pub(crate) fn into_program(self) -> Program {
        self.program
    }
}

impl Deref for Server {
    type Target = Program;

    fn deref(&self) -> &Program {
        &self.program
    }
}

/// The arguments of a server on free ports whose store is in `data`.
fn serve_args(data: &Path, options: &[&str]) -> Vec<OsString> {
    // The last two are names that tests call both ports by.
    let fixed = [
        "serve",
        "--listen=127.0.0.1:0",
        "--api=127.0.0.1:0",
        "--json",
        "--workers=2",
        "--public-host=x,encke.test,push.test",
        "--api-host=x,push.test",
    ];
    // What `options` repeat would be refused.
    let named = |fixed: &&str| {
        let name = fixed.split('=').next().unwrap();
        !options.iter().any(|option| option.split('=').next() == Some(name))
    };
    let mut args: Vec<OsString> =
        fixed.iter().filter(|fixed| named(fixed)).map(Into::into).collect();
    args.extend(["--data".into(), data.into()]);
    args.extend(options.iter().map(Into::into));
    args
}
