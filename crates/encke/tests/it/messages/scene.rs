//! What the cases are typed against: a server, a graph, an address at which nobody listens, one at
//! which nobody answers, and peers that answer what a case says.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::{env, fs};

use tempfile::TempDir;

use super::Case;
use crate::harness::{Finished, Program, Server, encke, wait_for, without_settings};

/// What a peer takes of a request.
const REQUEST_BYTES: usize = 1 << 16;

/// An argument that is longer than any option takes.
const LONG_BYTES: usize = 5_000;

pub(super) struct Scene {
    server: Server,
    dir: TempDir,
    /// Bound and not listening: nobody else gets the port, and nobody answers there.
    closed: socket2::Socket,
    /// Listening, and nobody accepts.
    silent: TcpListener,
}

impl Scene {
    pub(super) fn start() -> Scene {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start_in(&dir.path().join("data"), &[]);
        let pairs = dir.path().join("pairs");
        fs::write(&pairs, "1 2\n").unwrap();
        let mut load = encke(["graph", "load"]);
        let load = Program::run(load.arg(pairs).arg("--data").arg(dir.path().join("loaded")));
        assert_eq!(load.code(), Some(0), "{load:?}");
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let closed = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
        let closed = closed.unwrap();
        closed.bind(&local.into()).unwrap();
        Scene { server, dir, closed, silent: TcpListener::bind(local).unwrap() }
    }

    /// `text` with the scene's own addresses and directories.
    pub(super) fn filled(&self, text: &str, peer: &str) -> String {
        let closed = self.closed.local_addr().unwrap().as_socket().unwrap();
        let silent = self.silent.local_addr().unwrap();
        let (api, public) = (self.server.api.address(), self.server.listen());
        let path = |name: &str| self.dir.path().join(name).display().to_string();
        [
            ("{api}", api.to_string()),
            ("{public}", public.to_string()),
            ("{port}", public.port().to_string()),
            ("{closed}", closed.to_string()),
            ("{closed_port}", closed.port().to_string()),
            ("{silent}", silent.to_string()),
            ("{peer}", peer.to_owned()),
            ("{data}", path("data")),
            ("{loaded}", path("loaded")),
            ("{long}", "x".repeat(LONG_BYTES)),
        ]
        .into_iter()
        .fold(text.to_owned(), |text, (name, value)| text.replace(name, &value))
    }

    /// Types the case in a directory of its own, and waits for the end; also where its peer was.
    pub(super) fn run(&self, number: usize, case: &Case) -> (Finished, String) {
        let dir = self.dir.path().join(format!("case{number}"));
        fs::create_dir(&dir).unwrap();
        let peer = case.peer.as_ref().map(|(answer, holds)| peer(answer, *holds));
        let peer = peer.map_or_else(String::new, |address| address.to_string());
        let program = Program::spawn(&mut self.shell(&case.typed, &peer, &dir));
        let Some(until) = &case.until else { return (program.finish(), peer) };
        wait_for(&format!("{} says {until:?}", case.typed), || program.stderr().contains(until));
        match &case.then {
            Some(then) => {
                let then = Program::run(&mut self.shell(then, &peer, &dir));
                assert_eq!(then.code(), Some(0), "{then:?}");
            }
            None => program.signal("INT"),
        }
        (program.finish(), peer)
    }

    fn shell(&self, typed: &str, peer: &str, dir: &Path) -> Command {
        let program = Path::new(env!("CARGO_BIN_EXE_encke")).parent().unwrap();
        let path = env::var_os("PATH").unwrap_or_default();
        let folders = [program.to_owned()].into_iter().chain(env::split_paths(&path));
        let mut shell = without_settings(Path::new("sh"));
        shell.env("PATH", env::join_paths(folders).unwrap()).env("HOME", dir).current_dir(dir);
        shell.arg("-c").arg(self.filled(typed, peer));
        shell
    }
}

/// A peer that answers `answer`, a byte for each character, to everybody, and closes the
/// connection, or else holds it.
fn peer(answer: &str, holds: bool) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let answer: Vec<u8> = answer.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect();
    thread::spawn(move || {
        let mut held = Vec::new();
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut request = vec![0; REQUEST_BYTES];
            // A client that is gone already has nothing to be told.
            let _ = stream.read(&mut request).and_then(|_| stream.write_all(&answer));
            held.extend(holds.then_some(stream));
        }
    });
    address
}
