//! A NATS, or three, a PostgreSQL where one is asked for, and nodes.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use testing::NatsServer;
use testing::postgres::Postgres;

use crate::harness::{Program, Server, encke, wait_for};

/// Servers and nodes; they end with it, nodes first.
pub(crate) struct World {
    pub(crate) nodes: Vec<Server>,
    pub(crate) nats: Vec<NatsServer>,
    pub(crate) postgres: Option<Postgres>,
    folder: TempDir,
}

/// The store of a server whose every record waits for the disk.
pub(crate) const SYNC_ALWAYS: &str =
    "jetstream { store_dir: \"STORE\", max_file_store: 20GB, sync_interval: always }\n";

impl World {
    /// One NATS with its defaults.
    pub(crate) fn new() -> World {
        World::over(vec![NatsServer::start(&nats_program())])
    }

    /// One NATS with these settings.
    pub(crate) fn with_settings(settings: &str) -> World {
        World::over(vec![NatsServer::with_settings(&nats_program(), settings)])
    }

    /// Three of them.
    pub(crate) fn of_three() -> World {
        World::over(NatsServer::cluster(&nats_program(), 3))
    }

    fn over(nats: Vec<NatsServer>) -> World {
        World { nodes: Vec::new(), nats, postgres: None, folder: tempfile::tempdir().unwrap() }
    }

    /// With a PostgreSQL, whose commits wait for its disk.
    pub(crate) fn with_postgres(mut self) -> World {
        let settings = ["max_wal_size=8GB", "shared_buffers=1GB"];
        self.postgres = Some(Postgres::start(&settings).expect("PostgreSQL is installed"));
        self
    }

    /// A friends graph of so many users with 15 edges each, for nodes that start later.
    pub(crate) fn load(&self, users: u64) {
        let file = self.folder.path().join("friends");
        let users = format!("--users={users}");
        run(encke(["graph", "generate", "--edges-per-user=15", "--seed=1", &users, "-o"])
            .arg(&file));
        for name in NAMES {
            run(encke(["graph", "load"]).arg(&file).arg("--data").arg(self.store(name)));
        }
        fs::remove_file(file).unwrap();
    }

    /// Three nodes that know of each other.
    pub(crate) fn start_nodes(&mut self, options: &[&str]) {
        for name in NAMES {
            let node = self.start_node(name, options);
            self.nodes.push(node);
        }
        for node in &self.nodes {
            wait_for("all are members", || node.api.stats()["cluster"]["members"] == NAMES.len());
        }
    }

    /// The node of that name.
    pub(crate) fn start_node(&self, name: &str, options: &[&str]) -> Server {
        let (nats, node) = (format!("--nats={}", self.urls()), format!("--node={name}"));
        let postgres = self.postgres.as_ref().map(|server| format!("--postgres={}", server.url()));
        let mut all = vec!["--cluster=c", &nats, &node];
        all.extend(postgres.as_deref());
        let replicas = (self.nats.len() > 1).then_some("--nats-replicas=3");
        all.extend(replicas.into_iter().chain(options.iter().copied()));
        Server::start_in(&self.store(name), &all)
    }

    fn urls(&self) -> String {
        self.nats.iter().map(NatsServer::url).collect::<Vec<_>>().join(",")
    }

    /// Where the node of that name has its data.
    pub(crate) fn store(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Processor time of the nodes and of NATS so far, in seconds.
    pub(crate) fn cpu(&self) -> (f64, f64) {
        let nodes = self.nodes.iter().map(|node| cpu_seconds(node.pid())).sum();
        (nodes, self.nats.iter().map(|server| cpu_seconds(server.pid())).sum())
    }
}

const NAMES: [&str; 3] = ["a", "b", "c"];

fn nats_program() -> PathBuf {
    testing::nats_current().expect("nats-server is installed (`cargo xtask ci` does)")
}

/// Runs a command that must do what it says.
pub(crate) fn run(command: &mut std::process::Command) {
    let finished = Program::run(command);
    assert_eq!(finished.code(), Some(0), "{finished:?}");
}

/// Processor time of a process, user's and system's (`man 5 proc_pid_stat`, fields 14 and 15).
pub(crate) fn cpu_seconds(pid: u32) -> f64 {
    /// What a tick is on every Linux that is common (`sysconf(_SC_CLK_TCK)`).
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).unwrap();
    // After the name, which may hold anything.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks = |n: usize| fields[n - 3].parse::<f64>().unwrap();
    (ticks(14) + ticks(15)) / TICKS_PER_SECOND
}
