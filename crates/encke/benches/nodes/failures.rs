//! What listeners and senders notice while something fails, with enough of them to see a storm.
//! What is lost in rarer cases the nemesis looks for.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testing::NatsServer;

use crate::Options;
use crate::harness::{Program, encke};
use crate::programs::{Flood, Spam, account, report, worst};
use crate::table::Table;
use crate::world::World;

/// Half of them are at the one of two nodes that is killed, and all at the other one then. They are
/// of one process, which has 20,000 descriptors where that limit cannot be raised.
const USERS: u64 = 19_800;

/// Streams and users of the rows about NATS and PostgreSQL.
const FEW_USERS: u64 = 3_000;

/// Events a second about them, each heard by 16.
const FEW_EVENTS: f64 = 300.0;

/// How long a send waits for the log at most (`cluster`'s SEND_DEADLINE_MS).
const WAIT_MAX_MS: f64 = 10_000.0;

/// How long nodes may take to find PostgreSQL again.
const BACK_MAX: Duration = Duration::from_secs(60);

/// What is sent last arrives within this.
const ARRIVAL: Duration = Duration::from_secs(2);

/// `encke demo --nodes 2`, which kills a node in the middle and accounts for each event.
pub(crate) fn killed_node(options: &Options, table: &mut Table) {
    let (users, seconds) =
        (format!("--users={USERS}"), format!("--seconds={}", options.seconds.max(6)));
    let ports = ["--listen=127.0.0.1:0", "--api=127.0.0.1:0"];
    let fixed = ["demo", "--nodes=2", "--json", "--rate=1000", &users, &seconds];
    let mut program = Program::spawn(&mut encke(fixed.iter().chain(&ports)));
    let end = Instant::now() + Duration::from_secs(options.seconds + 180);
    while !program.has_ended() && Instant::now() < end {
        sleep(Duration::from_millis(50));
    }
    let told = report(program);
    let number = |member: &str| told[member].as_u64().unwrap_or_else(|| panic!("{told}"));
    table.shown("streams at the killed node", &told["killed"]["listeners"]);
    for member in ["lost", "doubled", "out_of_order", "strays", "gaps", "miscounted", "offline"] {
        table.oracle(member, number(member), 0);
    }
    table.oracle("streams lost at other nodes", number("losses_of_stream"), number("resumed"));
    table.shown("events sent", number("sent"));
    table.shown("events without an answer", number("unanswered"));
    let seconds = |quantile: &str| told["away"][quantile].as_f64().unwrap() / 1e3;
    table.shown("streams back after, p50", format!("{:.2} s", seconds("p50_ms")));
    table.most("streams back after, the last", seconds("max_ms"), 5.0, " s");
    table.shown("latency p99 of all", format!("{} ms", told["latency"]["p99_ms"]));
}

/// Streams of few users at three nodes; they end with it.
struct Few {
    world: World,
    floods: Vec<Flood>,
}

impl Few {
    fn start(world: World) -> Few {
        let mut world = world;
        if world.postgres.is_none() {
            world.load(FEW_USERS);
        }
        world.start_nodes(&[]);
        let floods = Flood::at_each(&world.nodes, FEW_USERS / 3, &[]);
        Few { world, floods }
    }

    /// Sends while `trouble` happens.
    fn send(&mut self, seconds: u64, trouble: impl FnOnce(&mut World)) -> Vec<Value> {
        // As lines of one request they would be answered in turn, and wait for each other.
        let nodes = &self.world.nodes;
        let spams = Spam::at_each(nodes, FEW_USERS, FEW_EVENTS, seconds, &["--late-after=60"]);
        trouble(&mut self.world);
        spams.into_iter().map(|spam| spam.finish(seconds)).collect()
    }

    fn finish(self, table: &mut Table, spams: &[Value]) {
        sleep(ARRIVAL);
        let floods: Vec<Value> = self.floods.into_iter().map(Flood::finish).collect();
        account(table, &floods, spams);
        table.shown("latency p99", format!("{:.2} ms", worst(&floods, "latency", "p99_ms")));
    }
}

/// The server that leads the log is killed, comes back, and later one ends as a lame duck.
pub(crate) fn nats_leader(options: &Options, table: &mut Table) {
    let mut few = Few::start(World::of_three());
    let seconds = options.seconds.max(10);
    let calm = few.send(3, |_| ());
    table.shown("answers p99 before", format!("{:.2} ms", worst(&calm, "answer", "p99_ms")));
    let mut dead = 0;
    let killed = few.send(seconds, |world| {
        sleep(Duration::from_secs(2));
        dead = leader(&world.nats);
        world.nats[dead].kill();
    });
    let wait = |spams: &[Value]| worst(spams, "answer", "max_ms");
    table.most("leader killed: longest wait of a send", wait(&killed), WAIT_MAX_MS, " ms");
    few.world.nats[dead].restart();
    let after = few.send(5, |_| ());
    table.shown("answers p99 when it is back", ms_of(&after));
    let lame = few.send(seconds, |world| {
        sleep(Duration::from_secs(2));
        world.nats[leader(&world.nats)].lame_duck();
    });
    table.most("lame duck: longest wait of a send", wait(&lame), 1_000.0, " ms");
    few.finish(table, &[calm, killed, after, lame].concat());
}

/// PostgreSQL is stopped for a while, and comes back.
pub(crate) fn postgresql_away(options: &Options, table: &mut Table) {
    let mut few = Few::start(World::new().with_postgres());
    few.follow();
    let before = few.send(options.seconds, |_| ());
    let away = options.away;
    let mut statuses = Vec::new();
    let mut back = Duration::ZERO;
    let during = few.send(away.as_secs(), |world| {
        world.postgres.as_mut().unwrap().stop();
        let end = Instant::now() + away;
        while Instant::now() < end {
            for node in &world.nodes {
                statuses.push(node.api.post("/subscriptions/add", &pair("away")).status());
            }
            sleep(Duration::from_millis(500));
        }
        world.postgres.as_mut().unwrap().run();
        let start = Instant::now();
        for node in &world.nodes {
            loop {
                let answer = node.api.post("/subscriptions/add", &pair("back"));
                if answer.status() == 200 {
                    break;
                }
                assert!(start.elapsed() < BACK_MAX, "no change is taken again: {answer:?}");
                sleep(Duration::from_millis(20));
            }
        }
        back = start.elapsed();
    });
    let refused = statuses.iter().filter(|status| **status == 503).count();
    table.oracle("changes refused with 503 while away", refused as u64, statuses.len() as u64);
    table.shown("changes taken again at all nodes after", format!("{:.2} s", back.as_secs_f64()));
    table.shown("answers p99 before", ms_of(&before));
    table.shown("answers p99 while away", ms_of(&during));
    few.finish(table, &[before, during].concat());
}

impl Few {
    /// Each follows the 15 behind it, through the API.
    fn follow(&self) {
        let follows = |n: u64| (1..=15).map(move |k| ((n + k) % FEW_USERS, n));
        let lines = (0..FEW_USERS).flat_map(follows);
        let line = |(a, b)| json!({"subscriber": a, "subscribee": b}).to_string() + "\n";
        let body: String = lines.map(line).collect();
        assert_eq!(self.world.nodes[0].api.post_lines("/subscriptions/add", &body).status(), 200);
    }
}

fn ms_of(spams: &[Value]) -> String {
    format!("{:.2} ms", worst(spams, "answer", "p99_ms"))
}

fn pair(subscribee: &str) -> Value {
    json!([{"subscriber": "one", "subscribee": subscribee}])
}

/// Which of the servers leads the log, as any of them says: the protocol is text, and this is all
/// that is asked of it.
fn leader(servers: &[NatsServer]) -> usize {
    let mut socket = TcpStream::connect(servers[0].address()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let ask = "CONNECT {\"verbose\":false}\r\nSUB answer 1\r\n\
               PUB $JS.API.STREAM.INFO.ENCKE_c_1 answer 0\r\n\r\n";
    socket.write_all(ask.as_bytes()).unwrap();
    for line in BufReader::new(socket).lines() {
        let line = line.unwrap();
        if line.starts_with('{') {
            let info: Value = serde_json::from_str(&line).unwrap();
            let name = info["cluster"]["leader"].as_str().unwrap_or_else(|| panic!("{info}"));
            return name.strip_prefix('n').unwrap().parse().unwrap();
        }
    }
    panic!("the server says nothing of the log");
}
