//! The systems under measurement, each as real processes with its own settings, on free ports, in a
//! directory of its own, and gone when it is dropped.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command};
use std::time::{Duration, Instant};

use sys::clock;
use tempfile::TempDir;
use testing::{NatsServer, free_port};

use crate::child::{self, Role};
use crate::harness::{Program, Server};
use crate::listeners::Streams;
use crate::wire::Wire;
use crate::{Outcome, Plan, START_MAX};

/// What is compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum System {
    Bare,
    Encke,
    Kept,
    Nchan,
    Nats,
}

impl System {
    /// The one that the others are held against stands first.
    pub(crate) const ALL: [System; 5] =
        [System::Bare, System::Encke, System::Kept, System::Nchan, System::Nats];

    pub(crate) fn name(self) -> &'static str {
        match self {
            System::Bare => "bare",
            System::Encke => "encke",
            System::Kept => "kept",
            System::Nchan => "nchan",
            System::Nats => "nats",
        }
    }

    /// Why it cannot be measured here.
    pub(crate) fn missing(self) -> Option<&'static str> {
        match self {
            System::Bare | System::Encke | System::Kept => None,
            System::Nchan if nginx().is_some() => None,
            System::Nchan => Some(
                "no nginx with that module: on Debian, apt-get install nginx libnginx-mod-nchan",
            ),
            System::Nats if on_path("nats-server").is_some() => None,
            System::Nats => Some("no nats-server: on Debian, apt-get install nats-server"),
        }
    }

    /// Starts it for so many streams.
    pub(crate) fn start(self, plan: &Plan, streams: u32) -> Outcome<Running> {
        match self {
            System::Bare => bare(plan, streams),
            System::Encke => encke(plan, &[]),
            System::Kept => encke(plan, &["--keep=*=7d"]),
            System::Nchan => nchan(plan),
            System::Nats => nats(),
        }
    }
}

/// A system at work.
pub(crate) struct Running {
    pub(crate) streams: Streams,
    pub(crate) wire: Wire,
    /// Where events go.
    pub(crate) address: SocketAddr,
    process: Process,
}

enum Process {
    Bare(Program, #[expect(dead_code, reason = "its end ends the child")] ChildStdin),
    Encke(Box<Server>, #[expect(dead_code, reason = "removed at its end")] TempDir),
    Nchan(Nginx),
    Nats(NatsServer),
}

impl Running {
    /// Processor time of all its processes so far, in microseconds.
    pub(crate) fn cpu_us(&self) -> Outcome<f64> {
        let pids = match &self.process {
            Process::Bare(program, _) => vec![program.pid()],
            Process::Encke(server, _) => vec![server.pid()],
            Process::Nchan(nginx) => with_children(nginx.program.pid())?,
            Process::Nats(server) => vec![server.pid()],
        };
        let times: std::io::Result<Vec<Duration>> =
            pids.into_iter().map(clock::process_cpu_of).collect();
        Ok(times?.iter().sum::<Duration>().as_nanos() as f64 / 1e3)
    }
}

fn bare(plan: &Plan, streams: u32) -> Outcome<Running> {
    let (program, input) = child::spawn(&Role::Bare { threads: plan.cores, streams })?;
    let port: u16 = program.line_within(START_MAX)?.parse()?;
    Ok(Running {
        streams: Streams::Sse(format!("http://127.0.0.1:{port}/stream/{{id}}")),
        wire: Wire::Send,
        address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        process: Process::Bare(program, input),
    })
}

fn encke(plan: &Plan, more: &[&str]) -> Outcome<Running> {
    let dir = tempfile::tempdir()?;
    let workers = format!("--workers={}", plan.cores);
    let options = [&[&*workers], more].concat();
    let server = Server::start_program(&plan.encke, dir.path(), &options);
    Ok(Running {
        streams: Streams::Sse(format!("{}/stream/{{id}}", server.url())),
        wire: Wire::Send,
        address: server.api.address(),
        process: Process::Encke(Box::new(server), dir),
    })
}

fn nats() -> Outcome<Running> {
    let program = on_path("nats-server").ok_or("no nats-server")?;
    let server = NatsServer::with_settings(&program, "");
    let address = server.address();
    let streams = Streams::Nats(address);
    Ok(Running { streams, wire: Wire::Nats, address, process: Process::Nats(server) })
}

/// nginx with Nchan. Its workers outlive a master that is killed, so it is asked to end.
struct Nginx {
    program: Program,
    _dir: TempDir,
}

impl Drop for Nginx {
    fn drop(&mut self) {
        if self.program.has_ended() {
            return;
        }
        self.program.signal("TERM");
        let end = Instant::now() + START_MAX;
        while !self.program.has_ended() && Instant::now() < end {
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }
}

/// Its settings, with the names of what differs from run to run.
const NCHAN_CONF: &str = include_str!("nchan.conf");

fn nchan(plan: &Plan) -> Outcome<Running> {
    let (nginx, module) = nginx().ok_or("no nginx with Nchan")?;
    let (dir, port) = (tempfile::tempdir()?, free_port());
    let settings = NCHAN_CONF
        .replace("MODULE", &module.display().to_string())
        .replace("WORKERS", &plan.cores.to_string())
        .replace("DIR", &dir.path().display().to_string())
        .replace("PORT", &port.to_string());
    let file = dir.path().join("nginx.conf");
    fs::write(&file, settings)?;
    let mut command = Command::new(nginx);
    command.arg("-p").arg(dir.path()).arg("-e").arg("stderr").arg("-c").arg(&file);
    let mut nginx = Nginx { program: Program::spawn(&mut command), _dir: dir };
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let end = Instant::now() + START_MAX;
    while TcpStream::connect(address).is_err() {
        if nginx.program.has_ended() || Instant::now() > end {
            return Err(format!("nginx does not start: {}", nginx.program.stderr()).into());
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
    Ok(Running {
        streams: Streams::Sse(format!("http://{address}/stream/{{id}}")),
        wire: Wire::Pub,
        address,
        process: Process::Nchan(nginx),
    })
}

/// nginx, and the module of Nchan for it.
fn nginx() -> Option<(PathBuf, PathBuf)> {
    let module = Path::new("/usr/lib/nginx/modules/ngx_nchan_module.so");
    Some((on_path("nginx")?, module.is_file().then(|| module.to_owned())?))
}

/// A program, also where only an administrator's path has it.
fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
    folders.map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// A process and its children, by `/proc/<pid>/stat` (proc(5)): the fourth field is the parent.
fn with_children(pid: u32) -> Outcome<Vec<u32>> {
    let mut pids = vec![pid];
    for entry in fs::read_dir("/proc")? {
        let Ok(child) = entry?.file_name().to_string_lossy().parse::<u32>() else { continue };
        // One that has ended in between is nobody's.
        let stat = fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
        if parent.and_then(|parent| parent.parse().ok()) == Some(pid) {
            pids.push(child);
        }
    }
    Ok(pids)
}
