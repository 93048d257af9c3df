//! The servers, what is between them, and the faults that they have.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use testing::postgres::Postgres;
use testing::{NatsServer, SmallDisk, TcpRelay};

use super::plan::{Fault, NODES, Nats, Net};
use crate::harness::{Api, Program, encke, own_ports};

/// The disk of NATS where it can be filled.
const SMALL_DISK_BYTES: usize = 48 << 20;

/// What a node says that is started where NATS does not answer.
const CANNOT_JOIN: &str = "cannot join the cluster: no connection to NATS";

/// How long a relay takes to end what it has, so that nothing goes on in its middle.
const PAUSE: Duration = Duration::from_millis(20);

/// Three nodes, each with a network of its own to NATS and to PostgreSQL.
pub(super) struct Scene {
    pub(super) nodes: Vec<Node>,
    /// Three, or one.
    nats: Vec<Mutex<NatsServer>>,
    postgres: Mutex<Postgres>,
    disk: Option<SmallDisk>,
    folder: TempDir,
}

/// A node, wherever it stands.
pub(super) struct Node {
    program: Mutex<Option<Program>>,
    args: Vec<String>,
    pub(super) listen: SocketAddr,
    pub(super) api: SocketAddr,
    /// To each server.
    nats: Vec<TcpRelay>,
    postgres: TcpRelay,
}

impl Scene {
    /// `None`, and the test is skipped, where a server is missing.
    pub(super) fn start(kind: Nats, options: &[&str]) -> Option<Scene> {
        let program = testing::nats_current()?;
        let disk = match kind {
            Nats::SmallDisk => Some(SmallDisk::mount(SMALL_DISK_BYTES)?),
            Nats::One | Nats::Three => None,
        };
        let nats = match &disk {
            None if kind == Nats::Three => NatsServer::cluster(&program, 3),
            None => vec![NatsServer::start(&program)],
            Some(disk) => {
                let store = disk.mount_point().display();
                let settings =
                    format!("jetstream {{ store_dir: \"{store}/s\", max_file: 20GB }}\n");
                vec![NatsServer::behind(disk.enter(), &program, &settings)]
            }
        };
        let postgres = Postgres::start(&[])?;
        let folder = tempfile::tempdir().unwrap();
        let mut nodes = Vec::new();
        for n in 0..NODES {
            nodes.push(Node::start(n, &nats, &postgres, folder.path(), options));
        }
        let nats = nats.into_iter().map(Mutex::new).collect();
        let postgres = Mutex::new(postgres);
        Some(Scene { nodes, nats, postgres, disk, folder })
    }

    /// Something begins to be wrong.
    pub(super) fn begin(&self, fault: Fault) {
        match fault {
            Fault::NodeKilled(node) => self.nodes[node].kill(),
            Fault::NodeStopped(node) => self.nodes[node].signal("STOP"),
            Fault::NodeEnded(node) => self.nodes[node].signal("TERM"),
            Fault::NatsNet(node, net) => {
                self.nodes[node].nats.iter().for_each(|relay| harm(relay, net));
            }
            Fault::PostgresNet(node, net) => harm(&self.nodes[node].postgres, net),
            Fault::NatsKilled(server) => lock(&self.nats[server]).kill(),
            Fault::NatsStopped(server) => lock(&self.nats[server]).pause(),
            Fault::NatsOlder => {
                let mut nats = lock(&self.nats[0]);
                nats.kill();
                copy(&nats.store(), &self.older());
                nats.restart();
            }
            Fault::NatsOlderOf(servers) => {
                for (n, server) in self.chosen(servers) {
                    let mut nats = lock(server);
                    nats.kill();
                    copy(&nats.store(), &self.older_of(n));
                    nats.restart();
                }
            }
            Fault::NatsWiped(_) => {}
            Fault::NatsFull => self.disk.as_ref().unwrap().fill(),
            Fault::PostgresKilled => lock(&self.postgres).kill(),
        }
    }

    /// And is mended.
    pub(super) fn end(&self, fault: Fault) {
        match fault {
            Fault::NodeKilled(node) => self.nodes[node].run(),
            Fault::NodeStopped(node) => self.nodes[node].signal("CONT"),
            Fault::NodeEnded(node) => self.nodes[node].run_again(),
            Fault::NatsNet(node, net) => {
                self.nodes[node].nats.iter().for_each(|relay| mend(relay, net));
            }
            Fault::PostgresNet(node, net) => mend(&self.nodes[node].postgres, net),
            Fault::NatsKilled(server) => lock(&self.nats[server]).restart(),
            Fault::NatsStopped(server) => lock(&self.nats[server]).resume(),
            Fault::NatsOlder => {
                let mut nats = lock(&self.nats[0]);
                nats.kill();
                fs::remove_dir_all(nats.store()).unwrap();
                fs::rename(self.older(), nats.store()).unwrap();
                nats.restart();
            }
            Fault::NatsOlderOf(servers) | Fault::NatsWiped(servers) => {
                self.chosen(servers).for_each(|(_, server)| lock(server).kill());
                for (n, server) in self.chosen(servers) {
                    fs::remove_dir_all(lock(server).store()).unwrap();
                    if fault == Fault::NatsOlderOf(servers) {
                        fs::rename(self.older_of(n), lock(server).store()).unwrap();
                    }
                }
                self.chosen(servers).for_each(|(_, server)| lock(server).restart());
            }
            Fault::NatsFull => {
                self.disk.as_ref().unwrap().clear();
                let mut nats = lock(&self.nats[0]);
                nats.kill();
                nats.restart();
            }
            Fault::PostgresKilled => lock(&self.postgres).run(),
        }
    }

    /// Servers of NATS by their bits.
    fn chosen(&self, bits: u8) -> impl Iterator<Item = (usize, &Mutex<NatsServer>)> {
        self.nats.iter().enumerate().filter(move |(n, _)| bits >> n & 1 == 1)
    }

    fn older_of(&self, server: usize) -> PathBuf {
        self.folder.path().join(format!("older-{server}"))
    }

    fn older(&self) -> PathBuf {
        self.folder.path().join("older")
    }

    /// Runs SQL.
    pub(super) fn sql(&self, sql: &str) -> String {
        lock(&self.postgres).sql(sql).unwrap()
    }

    /// Waits until all nodes are ready and know of each other; what is wrong if they do not.
    pub(super) fn wait_well(&self, limit: Duration) -> Result<(), String> {
        let end = Instant::now() + limit;
        for (n, node) in self.nodes.iter().enumerate() {
            loop {
                let said = node.stats();
                if said.as_ref().is_ok_and(is_well) {
                    break;
                }
                if lock(&node.program).as_mut().is_none_or(Program::has_ended) {
                    let stderr = node.stderr();
                    if !stderr.contains(CANNOT_JOIN) {
                        return Err(format!("node {n} has ended: {stderr}"));
                    }
                    // It was started while NATS was away: whoever starts it does so again.
                    node.run();
                }
                if Instant::now() >= end {
                    let said = said.map(|stats| stats["cluster"].to_string());
                    let stderr = node.stderr();
                    return Err(format!("node {n} does not get well: {said:?}; {stderr}"));
                }
                sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }

    /// What each node has said on standard error.
    pub(super) fn stderr(&self) -> String {
        let said = |(n, node): (usize, &Node)| format!("node {n}: {}\n", node.stderr());
        self.nodes.iter().enumerate().map(said).collect()
    }
}

fn is_well(stats: &Value) -> bool {
    let cluster = &stats["cluster"];
    cluster["members"] == NODES && is_member(stats) && cluster["lag_records"] == 0
}

/// Whether a node says that it is a member and has its connection.
pub(super) fn is_member(stats: &Value) -> bool {
    stats["cluster"]["membership"] == "member" && stats["cluster"]["nats"]["connected"] == true
}

impl Node {
    fn start(
        n: usize,
        nats: &[NatsServer],
        postgres: &Postgres,
        folder: &Path,
        options: &[&str],
    ) -> Node {
        let to_nats: Vec<TcpRelay> =
            nats.iter().map(|server| TcpRelay::start(server.address())).collect();
        let servers = to_nats.iter().map(|relay| format!("nats://{}", relay.address()));
        let to_postgres = TcpRelay::start(([127, 0, 0, 1], postgres.port()).into());
        let url = |port: u16| format!("postgresql://postgres@127.0.0.1:{port}/postgres");
        let mut args: Vec<String> =
            ["serve", "--json", "--workers=2", "--keepalive=1", "--history-events=100000"]
                .map(str::to_owned)
                .into();
        args.extend([
            format!("--data={}", folder.join(n.to_string()).display()),
            "--cluster=c".to_owned(),
            format!("--node=n{n}"),
            format!("--nats={}", servers.collect::<Vec<_>>().join(",")),
            format!("--nats-replicas={}", nats.len()),
            format!("--postgres={}?sslmode=disable", url(to_postgres.address().port())),
        ]);
        args.extend(options.iter().map(|&option| option.to_owned()));
        // It comes back where it was.
        args.extend(own_ports());
        let program = Program::spawn(&mut encke(&args));
        let line: Value = serde_json::from_str(&program.line()).unwrap();
        let address = |name: &str| -> SocketAddr { line[name].as_str().unwrap().parse().unwrap() };
        let (listen, api) = (address("listen"), address("api"));
        let program = Mutex::new(Some(program));
        Node { program, args, listen, api, nats: to_nats, postgres: to_postgres }
    }

    fn run(&self) {
        *lock(&self.program) = Some(Program::spawn(&mut encke(&self.args)));
    }

    /// Starts it again when it has ended by itself, as it was asked to.
    fn run_again(&self) {
        if let Some(program) = lock(&self.program).take() {
            program.finish();
        }
        self.run();
    }

    fn kill(&self) {
        if let Some(program) = lock(&self.program).take() {
            program.kill();
        }
    }

    fn signal(&self, name: &str) {
        if let Some(program) = &*lock(&self.program) {
            program.signal(name);
        }
    }

    fn stderr(&self) -> String {
        lock(&self.program).as_ref().map(Program::stderr).unwrap_or_default()
    }

    /// Its figures, if it answers.
    pub(super) fn stats(&self) -> Result<Value, String> {
        let answer = Api::new(self.api).request("GET", "/stats", None, b"");
        let answer = answer.map_err(|error| error.to_string())?;
        serde_json::from_str(&answer.body).map_err(|error| error.to_string())
    }
}

fn harm(relay: &TcpRelay, net: Net) {
    match net {
        Net::Refuse => relay.refuse(),
        Net::Delay(ms) => relay.delay(Duration::from_millis(ms)),
        Net::Hold => relay.hold(),
        Net::Swallow => relay.swallow(),
        Net::SwallowAnswers => relay.swallow_answers(),
    }
}

fn mend(relay: &TcpRelay, net: Net) {
    if matches!(net, Net::Swallow | Net::SwallowAnswers) {
        // TCP never goes on behind a hole.
        relay.refuse();
        sleep(PAUSE);
    }
    relay.pass();
}

/// A copy of a whole folder.
fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(done.success());
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
