//! What the cases are typed against: a server, a graph, an address at which nobody listens, one at
//! which nobody answers, and peers that answer what a case says.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use tempfile::TempDir;
use testing::postgres::Postgres;

use super::{Case, peers};
use crate::harness::{Finished, Program, Server, encke, wait_for, without_settings};
use crate::keep::damaged_log;

/// An argument that is longer than any option takes.
const LONG_BYTES: usize = 5_000;

/// What cases type beside the program's own commands.
const TYPED: &str = include_str!("typed.sh");

/// The program by which the kernel refuses calls.
const REFUSE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/messages/refuse.pl");

pub(super) struct Scene {
    server: Server,
    dir: TempDir,
    /// Bound and not listening: nobody else gets the port, and nobody answers there.
    closed: socket2::Socket,
    /// Listening, and nobody accepts.
    silent: TcpListener,
    nats: Option<PathBuf>,
    postgres: Option<Postgres>,
}

/// A case that was begun.
pub(super) struct Begun {
    program: Program,
    dir: PathBuf,
    pub(super) peer: String,
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
        damaged_log(&dir.path().join("damaged"));
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let closed = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
        let closed = closed.unwrap();
        closed.bind(&local.into()).unwrap();
        let silent = TcpListener::bind(local).unwrap();
        let (nats, postgres) = (testing::nats_current(), Postgres::start(&[]));
        Scene { server, dir, closed, silent, nats, postgres }
    }

    /// Whether all is here that the case needs; else the test is skipped.
    pub(super) fn has(&self, case: &Case) -> bool {
        let needs = case.needs.as_deref().unwrap_or_default();
        needs.split_whitespace().all(|need| match need {
            "nats" => self.nats.is_some(),
            "postgres" => self.postgres.is_some(),
            "namespaces" => self.works("apart true", "this user may have no namespaces of its own"),
            "refusals" => self.works("refuse EIO flock true", "perl cannot refuse system calls"),
            other => panic!("{other}?"),
        })
    }

    /// Whether that works here; else the test is skipped.
    fn works(&self, typed: &str, why: &str) -> bool {
        let works = Program::run(&mut self.shell(typed, "", self.dir.path())).code() == Some(0);
        if !works {
            testing::skip(why);
        }
        works
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
            ("{damaged}", path("damaged")),
            ("{nats}", self.nats.as_ref().map_or("", |path| path.to_str().unwrap()).to_owned()),
            ("{postgres}", self.postgres.as_ref().map(Postgres::url).unwrap_or_default()),
            ("{long}", "x".repeat(LONG_BYTES)),
        ]
        .into_iter()
        .fold(text.to_owned(), |text, (name, value)| text.replace(name, &value))
    }

    /// Types the case in a directory of its own.
    pub(super) fn begin(&self, number: usize, case: &Case) -> Begun {
        let dir = self.dir.path().join(format!("case{number}"));
        fs::create_dir(&dir).unwrap();
        let peer = case.peer.as_ref().map(|(answer, then)| peers::answering(answer, *then));
        let peer = peer.map_or_else(String::new, |address| address.to_string());
        if let Some(word) = &case.upgrade {
            peers::upgrading(&dir, word);
        }
        let program = Program::spawn(&mut self.shell(&case.typed, &peer, &dir));
        Begun { program, dir, peer }
    }

    /// Waits for the end of what was begun.
    pub(super) fn end(&self, case: &Case, Begun { program, dir, peer }: Begun) -> Finished {
        if case.stop {
            wait_for(&format!("{} minds signals", case.typed), || minds_signals(program.pid()));
            program.signal("INT");
        }
        let Some(until) = &case.until else { return program.finish() };
        let until = self.filled(until, &peer);
        wait_for(&format!("{} says {until:?}", case.typed), || program.stderr().contains(&until));
        match &case.then {
            Some(then) => {
                let then = Program::run(&mut self.shell(then, &peer, &dir));
                assert_eq!(then.code(), Some(0), "{then:?}");
            }
            None => program.signal("INT"),
        }
        program.finish()
    }

    fn shell(&self, typed: &str, peer: &str, dir: &Path) -> Command {
        let program = Path::new(env!("CARGO_BIN_EXE_encke")).parent().unwrap();
        let path = env::var_os("PATH").unwrap_or_default();
        let folders = [program.to_owned()].into_iter().chain(env::split_paths(&path));
        let mut shell = without_settings(Path::new("sh"));
        shell.env("PATH", env::join_paths(folders).unwrap()).env("HOME", dir).current_dir(dir);
        shell.env("REFUSE", REFUSE);
        shell.arg("-c").arg(format!("{TYPED}\n{}", self.filled(typed, peer)));
        shell
    }
}

/// Whether the process is the program by now, and does something of its own at SIGINT.
fn minds_signals(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // The second signal.
    status.starts_with("Name:\tencke\n") && caught.is_some_and(|mask| mask & 2 != 0)
}
