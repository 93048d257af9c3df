//! `encke demo --nodes`: nodes of one cluster on this machine, one of which is killed half-way.
//!
//! A NATS server, a PostgreSQL and the nodes are processes of their own. The friends graph is in
//! PostgreSQL, and nodes build their replicas from it. Some subscriptions change while it runs
//! ([`changes`]). Where there is no PostgreSQL the graph is loaded into each node and stands still.
//! The listeners are spread over the nodes, and events are sent to each in turn. Every event is
//! accounted for at every listener ([`record`]), whichever nodes it listened to.

mod audiences;
mod changes;
mod nats;
mod postgres;
mod record;
mod report;
mod sender;
mod users;
mod waiting;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use figures::latency::Quantiles;
use figures::numbers::{grouped, short};
use load::report::LiveText;
use rig::oracle::Totals;
use serde_json::Value;
use server::DemoFacts;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use self::audiences::Audiences;
use self::changes::Changes;
use self::nats::NatsProcess;
use self::postgres::PostgresProcess;
use self::record::Record;
use self::report::Killed;
pub(super) use self::report::NodesReport;
use self::users::Users;
use self::waiting::{in_time, unless_panicked};
use super::friends::{Friends, Stored};
use super::process::{Member, ServerOptions, ServerProcess};
use super::{DEFAULT_API, DEFAULT_LISTEN, Demo, ROOM_FOR_VISITORS};
use crate::cli::ticker::Ticker;
use crate::cli::work::on_own_thread;
use crate::client::ApiClient;
use crate::system;

/// How many there may be: more would only share this machine's cores.
pub(super) const NODES_MAX: u8 = NAMES.len() as u8;

const NAMES: [&str; 9] = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];

/// Of two nodes one is left, to which all listeners come from one address: that has some 28,000
/// ports.
const USERS_MAX: u32 = 25_000;

/// When a node is killed in a demo without an end.
const KILL_AFTER: Duration = Duration::from_secs(20);

/// How long it may take until all nodes are members, and until all listeners are online.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// How long nothing may come, at the end, before what has not come is lost: longer than listeners
/// are away.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(5);

/// How long to listen whether more comes than should.
const QUIET: Duration = Duration::from_millis(200);

/// Everything in its order. `None` when it was stopped before the first event was sent.
pub(super) async fn run(demo: Demo, nodes: u8) -> Result<Option<NodesReport>> {
    if demo.args.users > USERS_MAX {
        bail!("a demo with nodes has {} users at most: give --users", grouped(USERS_MAX.into()));
    }
    demo.check_keys()?;
    demo.check_machine()?;
    let program = nats::find()?;
    let folder = demo.data.join("nats");
    let start = NatsProcess::start(&program, &folder);
    let Some(nats) = demo.unless_stopped(start).await.transpose()? else { return Ok(None) };
    let outcome = demo.note(&format!("NATS     {}, {}", nats.url(), program.display()));
    let outcome = match outcome {
        Ok(()) => with_nats(&demo, &NAMES[..nodes.into()], nats.url()).await,
        Err(error) => Err(error),
    };
    let stopped = nats.stop().await;
    let outcome = outcome?;
    stopped?;
    Ok(outcome)
}

async fn with_nats(demo: &Demo, names: &[&'static str], nats: &str) -> Result<Option<NodesReport>> {
    let Some(programs) = rig::postgres::find() else {
        demo.note(
            "graph    stands still: there is no PostgreSQL (apt-get install postgresql, or name \
             the folder of initdb in ENCKE_POSTGRES_BIN)",
        )?;
        return with_graph(demo, names, nats, None).await;
    };
    let folder = demo.data.join("postgres");
    let start = PostgresProcess::start(&programs, &folder);
    let Some(postgres) = demo.unless_stopped(start).await.transpose()? else { return Ok(None) };
    let outcome = with_graph(demo, names, nats, Some(&postgres)).await;
    let stopped = postgres.stop().await;
    let outcome = outcome?;
    stopped?;
    Ok(outcome)
}

async fn with_graph(
    demo: &Demo,
    names: &[&'static str],
    nats: &str,
    postgres: Option<&PostgresProcess>,
) -> Result<Option<NodesReport>> {
    let load = async {
        match postgres {
            Some(postgres) => load_once(demo, postgres).await,
            None => load(demo, names).await,
        }
    };
    let Some(graph) = demo.unless_stopped(load).await.transpose()? else { return Ok(None) };
    let database = postgres.map(PostgresProcess::database);
    let mut nodes = Vec::new();
    for (place, name) in names.iter().enumerate() {
        let start = start(demo, place, Member { nats, node: name, database }, graph.1);
        let what = format!("node {name} does not start");
        match demo.unless_stopped(in_time(START_TIMEOUT, start, &what)).await {
            Some(started) => nodes.push(started?),
            None => return Ok(None),
        }
    }
    let (subscriptions, mean_audience) = graph;
    let changes = postgres.is_some();
    let mut run = Run { demo, names, nodes, subscriptions, mean_audience, changes };
    let outcome = run.play().await;
    demo.note("stopping")?;
    let stops = run.nodes.drain(..).map(ServerProcess::stop);
    let stopped: Result<Vec<()>> =
        futures_util::future::join_all(stops).await.into_iter().collect();
    let outcome = outcome?;
    stopped?;
    Ok(outcome)
}

/// Makes the graph in PostgreSQL. Returns how many subscriptions it has, and the mean audience.
async fn load_once(demo: &Demo, postgres: &PostgresProcess) -> Result<(u64, f64)> {
    let (friends, args) = (friends(demo), &demo.args);
    let lines = on_own_thread(move || friends.lines()).await?;
    let subscriptions = postgres.load(&lines, args.both).await?;
    let (users, pairs) = (grouped(args.users.into()), grouped(subscriptions));
    let url = &postgres.database().url;
    demo.note(&format!("graph    {users} users, {pairs} subscriptions, in {url}"))?;
    let stored = Stored { subscriptions, found: false };
    Ok((subscriptions, stored.mean_audience(args.users)))
}

/// Makes the graph for each node. Returns how many subscriptions it has, and the mean audience.
async fn load(demo: &Demo, names: &[&'static str]) -> Result<(u64, f64)> {
    let friends = friends(demo);
    let mut stored = None;
    for name in names {
        stored = Some(friends.provide(&demo.data.join(name)).await?);
    }
    let stored = stored.expect("there are nodes");
    let (users, subscriptions) = (grouped(demo.args.users.into()), grouped(stored.subscriptions));
    demo.note(&format!("graph    {users} users, {subscriptions} subscriptions, loaded into each"))?;
    Ok((stored.subscriptions, stored.mean_audience(demo.args.users)))
}

fn friends(demo: &Demo) -> Friends {
    Friends::new(demo.args.users, demo.args.edges_per_user, demo.args.both)
}

/// Starts the node at that place.
async fn start(
    demo: &Demo,
    place: usize,
    member: Member<'_>,
    mean_audience: f64,
) -> Result<ServerProcess> {
    let (args, name) = (&demo.args, member.node);
    let free = SocketAddr::from(([127, 0, 0, 1], 0));
    let (listen, api) = match place {
        0 => (demo.address(args.listen, DEFAULT_LISTEN)?, demo.address(args.api, DEFAULT_API)?),
        _ => (free, free),
    };
    // All may come to any of them.
    let room = args.users.saturating_add(ROOM_FOR_VISITORS);
    let rate = args.rate_for(mean_audience);
    let node = ServerProcess::start(ServerOptions {
        listen,
        api,
        data: &demo.data.join(name),
        member: Some(member),
        limits: &args.limits.clone().with_capacity_for(room),
        token_key: None,
        certificate: None,
        token_claims: &args.token_claims,
        demo: DemoFacts { users: args.users, events_per_second: rate, token: None },
    })
    .await?;
    let pid = node.pid();
    let (listen, api) = (node.listen(), node.api());
    demo.note(&format!("node {name}   process {pid}, http://{listen}/, API http://{api}/"))?;
    Ok(node)
}

/// Nodes at work.
struct Run<'a> {
    demo: &'a Demo,
    names: &'a [&'static str],
    nodes: Vec<ServerProcess>,
    subscriptions: u64,
    mean_audience: f64,
    /// Subscriptions can be changed.
    changes: bool,
}

impl Run<'_> {
    /// `None` when it was stopped before the first event was sent.
    async fn play(&mut self) -> Result<Option<NodesReport>> {
        let (demo, friends) = (self.demo, friends(self.demo));
        let members =
            in_time(START_TIMEOUT, self.wait_members(), "the nodes do not find each other");
        let Some(members) = demo.unless_stopped(members).await else { return Ok(None) };
        members?;
        let record = Record::new(on_own_thread(move || Audiences::of(&friends)).await?);
        let record = Arc::new(record);
        system::descriptors()?;
        let addresses: Vec<_> = self.nodes.iter().map(ServerProcess::listen).collect();
        let _online = Users::start(demo.args.users, &addresses, &record);
        match demo.unless_stopped(self.wait_online(&record)).await {
            Some(online) => online?,
            None => return Ok(None),
        }
        let started = Instant::now();
        let sending = CancellationToken::new();
        let sender = self.start_sending(&record, &sending)?;
        let changer = self.changes.then(|| self.start_changing(&sending));
        let watched = self.watch(&record, started, &sender).await;
        sending.cancel();
        let sent = unless_panicked(sender.await);
        let changes = match changer {
            Some(changer) => Some(unless_panicked(changer.await)?),
            None => None,
        };
        let seconds = started.elapsed().as_secs_f64();
        let killed = watched?;
        sent?;
        wait_settled(&record).await;
        let mut record = record.open();
        let report = NodesReport {
            nodes: self.names.len(),
            killed,
            changes,
            users: demo.args.users,
            subscriptions: self.subscriptions,
            mean_audience: self.mean_audience,
            seconds,
            totals: Totals::default(),
            latency: Quantiles::default(),
            answers: Quantiles::default(),
            away: Quantiles::default(),
            offline: demo.args.users - record.online(),
        };
        Ok(Some(report.with(record.settle())))
    }

    async fn wait_members(&self) -> Result<()> {
        for node in &self.nodes {
            let mut api = ApiClient::connect(node.url()).await?;
            while api.get::<Value>("/stats").await?["cluster"]["members"] != self.nodes.len() {
                sleep(Duration::from_millis(50)).await;
            }
        }
        Ok(())
    }

    async fn wait_online(&mut self, record: &Record) -> Result<()> {
        let (users, started) = (self.demo.args.users, Instant::now());
        while record.open().online() < users {
            if started.elapsed() > START_TIMEOUT {
                let record = record.open();
                let (online, why) = (record.online(), record.failure().unwrap_or("no answer"));
                bail!("only {online} of {users} listeners came online; the last one failed: {why}");
            }
            self.nodes.iter_mut().try_for_each(ServerProcess::expect_alive)?;
            sleep(Duration::from_millis(20)).await;
        }
        let (users, after) = (grouped(users.into()), started.elapsed().as_secs_f64());
        let spread = self.names.len();
        self.demo.note(&format!("online   {users} listeners after {after:.1} s, on {spread} nodes"))
    }

    fn start_sending(
        &self,
        record: &Arc<Record>,
        stop: &CancellationToken,
    ) -> Result<JoinHandle<Result<()>>> {
        let (args, audience) = (&self.demo.args, self.mean_audience);
        let rate = args.rate_for(audience);
        self.demo.note(&format!(
            "sending  {} events/s x {audience:.1} listeners, to each node in turn; {} is killed \
             after {:.0} s",
            grouped(rate.round() as u64),
            self.last(),
            self.kill_after().as_secs_f64(),
        ))?;
        let urls = self.nodes.iter().map(|node| node.url().clone()).collect();
        let stop = stop.clone();
        Ok(tokio::spawn(sender::send(urls, record.clone(), rate, args.seconds, stop)))
    }

    /// At those nodes that stay alive.
    fn start_changing(&self, stop: &CancellationToken) -> JoinHandle<Result<Changes>> {
        let (users, in_all) = (self.demo.args.users, self.nodes.len());
        let nodes = self.nodes[..in_all - 1].iter().map(|node| node.url().clone()).collect();
        tokio::spawn(changes::change(nodes, users, in_all, stop.clone()))
    }

    /// The node that is killed.
    fn last(&self) -> &'static str {
        self.names[self.names.len() - 1]
    }

    fn kill_after(&self) -> Duration {
        self.demo.args.seconds.map_or(KILL_AFTER, |seconds| seconds / 2)
    }

    /// A line a second until all is sent, or it is stopped; a node is killed in the middle.
    async fn watch(
        &mut self,
        record: &Record,
        started: Instant,
        sender: &JoinHandle<Result<()>>,
    ) -> Result<Option<Killed>> {
        let (mut ticker, mut killed) = (Ticker::new(), None);
        let live = self.demo.live();
        while !sender.is_finished() {
            if killed.is_none() && started.elapsed() >= self.kill_after() {
                killed = Some(self.kill(record, started).await?);
            }
            self.nodes.iter_mut().try_for_each(ServerProcess::expect_alive)?;
            if ticker.line_is_due() {
                live.set(line(record))?;
            }
            if self.demo.unless_stopped(ticker.tick()).await.is_none() {
                break;
            }
        }
        Ok(killed)
    }

    async fn kill(&mut self, record: &Record, started: Instant) -> Result<Killed> {
        let (name, nodes) = (self.last(), self.names.len());
        let users = self.demo.args.users;
        let listeners = (0..users).filter(|&id| users::home(id, nodes) == nodes - 1).count() as u64;
        let after = started.elapsed().as_secs_f64();
        record.open().disturb();
        self.nodes.pop().expect("there are nodes").kill().await?;
        self.demo.note(&format!("killed   {name}, which had {} listeners", grouped(listeners)))?;
        Ok(Killed { node: name, after, listeners })
    }
}

/// Waits until all are online and have heard everything, or nothing comes any more, and then
/// whether there is more than should come.
async fn wait_settled(record: &Record) {
    let (mut seen, mut at) = ((0, 0), Instant::now());
    while !record.open().is_settled() && at.elapsed() < ARRIVAL_TIMEOUT {
        let now = {
            let record = record.open();
            (record.totals().heard, record.online())
        };
        if now != seen {
            (seen, at) = (now, Instant::now());
        }
        sleep(Duration::from_millis(10)).await;
    }
    sleep(QUIET).await;
}

/// The line of a second.
fn line(record: &Record) -> String {
    let mut record = record.open();
    let latency = record.take_latency();
    let (online, totals) = (u64::from(record.online()), record.totals());
    LiveText::default()
        .part(format!("online {}", short(online)))
        .part(format!("sent {}", short(totals.sent)))
        .part(format!("acknowledged {}", short(totals.acknowledged)))
        .part(format!("heard {}", short(totals.heard)))
        .latency("", &latency)
        .end()
}
