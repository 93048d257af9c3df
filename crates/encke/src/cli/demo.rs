//! `encke demo`: the whole system at work on this machine, in one process.
//!
//! A friends graph is made and loaded, the server started, the crowd brought online over real
//! sockets, and events sent over the real API. Every event is accounted for: what the server says
//! that it delivered must have been received.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use backend::Graph;
use backend::graph::LoadOptions;
use clap::Args;
use load::graph_model::BarabasiAlbert;
use load::report::{FloodReport, RunReport, SpamReport, grouped};
use load::{Flood, FloodConfig, FloodSnapshot, Spam, SpamConfig};
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::flood;
use super::serve::LimitArgs;
use super::work::Progress;
use crate::console::{LiveLine, say, tell};
use crate::serve::signals::Signals;
use crate::serve::{self, ServeConfig, Server, open_graph};
use crate::units::{parse_rate_over_0, parse_seconds};

/// How long to wait for what is still on its way when the last event is sent.
const ARRIVAL_PATIENCE: Duration = Duration::from_secs(5);

/// How long the server may take to stop at the end.
const GRACE: Duration = Duration::from_secs(5);

const POLL_PERIOD: Duration = Duration::from_millis(50);
const POLLS_PER_LINE: u32 = 20;
const DEFAULT_LISTEN: &str = "127.0.0.1:8000";
const DEFAULT_API: &str = "127.0.0.1:8001";

/// Shows the whole system at work on this machine.
///
/// Makes a friends graph, serves it, brings its users online and sends events about them, each of
/// which all friends of its subject hear. Opens nothing, but prints the addresses to look at. Ends
/// with Ctrl-C or after --seconds, and fails when an event was lost.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  encke demo
  encke demo --users 1000 --rate 5000 --seconds 10
  encke demo --listen 127.0.0.1:0 --api 127.0.0.1:0 --seconds 5 --json")]
pub(crate) struct DemoArgs {
    /// How many users there are, all of them online.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(2..))]
    users: u32,
    /// How many friends each newcomer makes.
    #[arg(long, value_name = "N", default_value_t = 15)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    edges_per_user: u32,
    /// Events a second.
    #[arg(long, value_name = "RATE", default_value = "1000", value_parser = parse_rate_over_0)]
    rate: f64,
    /// End after sending for so long, in seconds. Default: with Ctrl-C.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    seconds: Option<Duration>,
    /// Where clients connect. Default: 127.0.0.1:8000, or a free port when that is taken.
    #[arg(long, value_name = "ADDRESS", value_parser = super::serve::parse_address)]
    listen: Option<SocketAddr>,
    /// Where applications connect. Default: 127.0.0.1:8001, or a free port when that is taken.
    #[arg(long, value_name = "ADDRESS", value_parser = super::serve::parse_address)]
    api: Option<SocketAddr>,
    /// Keep the graph in this directory. Default: one that is removed at the end.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    #[command(flatten)]
    limits: LimitArgs,
    /// Print the summary as JSON; everything else goes to standard error then.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: DemoArgs) -> Result<()> {
    let temporary = match &args.data {
        Some(_) => None,
        None => Some(tempfile::tempdir().context("cannot make a directory for the graph")?),
    };
    let data = args.data.clone().or_else(|| temporary.as_ref().map(|dir| dir.path().to_owned()));
    let data = data.context("there is a directory for the graph")?;
    let report = serve::runtime()?.block_on(async {
        let mut signals = Signals::new()?;
        let demo = Demo { args: args.clone(), data };
        demo.run(&mut signals).await
    });
    if let Some(dir) = temporary {
        dir.close().context("cannot remove the directory of the graph")?;
    }
    match report? {
        None => Ok(()),
        Some(outcome) => conclude(&outcome, args.json),
    }
}

/// What came of it.
struct Outcome {
    report: RunReport,
    /// Streams that others opened, to look at the demo. What they heard was delivered, and the
    /// crowd did not receive it.
    visitors: u64,
}

/// Prints the summary and judges it.
fn conclude(outcome: &Outcome, json: bool) -> Result<()> {
    let Outcome { report, visitors } = outcome;
    if json {
        say(serde_json::to_string(report)?)?;
    } else {
        say(report.to_string().trim_end())?;
    }
    if *visitors > 0 {
        tell(format!(
            "{visitors} others connected too: what they heard counts as delivered, so of losses \
             only those that left a gap can be told"
        ));
    }
    let FloodReport { failed, missing, doubled, .. } = report.flood;
    if let Some(failure) = &report.spam.failure {
        bail!("a connection to the API ended before its time: {failure}");
    }
    let lost = if *visitors > 0 { report.lost.min(0) } else { report.lost };
    if lost != 0 || missing + doubled > 0 {
        bail!("{lost} events were lost, {missing} are missing, {doubled} came twice");
    }
    if failed > 0 {
        bail!("{failed} streams did not open");
    }
    Ok(())
}

/// The line of a second: counts since the start, the rate and the latencies of the last second.
fn summary(now: &FloodSnapshot, before: &FloodSnapshot, sent: u64) -> String {
    let seconds = (now.seconds - before.seconds).max(1e-3);
    let rate = (now.totals.events - before.totals.events) as f64 / seconds;
    let missing = now.totals.missing();
    format!(
        "online {}  sent {}  received {} ({}/s)  missing {missing}  p50 {:.2} ms  p99 {:.2} ms",
        grouped(now.totals.open()),
        grouped(sent),
        grouped(now.totals.events),
        grouped(rate.round() as u64),
        now.latency.p50_ms,
        now.latency.p99_ms,
    )
}

struct Demo {
    args: DemoArgs,
    data: PathBuf,
}

impl Demo {
    /// Everything in its order. `None` when a signal came before the first event was sent.
    async fn run(self, signals: &mut Signals) -> Result<Option<Outcome>> {
        let graph = tokio::select! {
            graph = self.graph() => graph?,
            _ = signals.next() => return Ok(None),
        };
        let server = self.serve(graph).await?;
        let outcome = self.load(&server, signals).await;
        self.note("stopping")?;
        let stopped = server.stop(GRACE).await;
        let outcome = outcome?;
        stopped?;
        Ok(outcome)
    }

    /// The friends graph, made and stored.
    async fn graph(&self) -> Result<Graph> {
        let DemoArgs { users, edges_per_user, .. } = self.args;
        let (data, started) = (self.data.clone(), Instant::now());
        let make = move || {
            let model = BarabasiAlbert { users, edges_per_user, seed: 1 };
            let mut progress = Progress::new("generating");
            let mut file = Vec::new();
            model
                .generate(&mut file, &mut |done, total| progress.set("generating", done, total))?;
            let graph = open_graph(&data)?;
            let options = LoadOptions { both: true, skip_malformed: false };
            let bytes = file.len() as u64;
            graph.load("the graph", &mut file.as_slice(), bytes, options, &mut |now| {
                progress.set("loading", now.done, now.total);
            })?;
            Ok::<_, anyhow::Error>(graph)
        };
        let graph = spawn_blocking(make).await.context("the graph was not made")??;
        self.note(&format!(
            "graph    {} users, {} subscriptions, made and stored in {:.1} s",
            grouped(users.into()),
            grouped(graph.subscriptions()),
            started.elapsed().as_secs_f64()
        ))?;
        Ok(graph)
    }

    async fn serve(&self, graph: Graph) -> Result<Server> {
        let listen = self.address(self.args.listen, DEFAULT_LISTEN)?;
        let api = self.address(self.args.api, DEFAULT_API)?;
        let engine = self.args.limits.clone().engine_here(listen)?;
        let config = ServeConfig { engine, api, data: self.data.clone() };
        let server = Server::start(config, graph).await?;
        let (listen, api) = (server.listen(), server.api());
        self.note(&format!(
            "streams  http://{listen}/stream/{{id}}   try: curl -N {listen}/stream/0"
        ))?;
        self.note(&format!("page     http://{listen}/test/0"))?;
        self.note(&format!("API      http://{api}/           try: curl {api}/subscribers/0"))?;
        self.note(&format!(
            "send     curl {api}/send --json '{{\"about\":0,\"data\":\"hello\"}}'"
        ))?;
        Ok(server)
    }

    /// The address that was asked for; else the usual one, or a free one when that is taken.
    fn address(&self, asked: Option<SocketAddr>, usual: &str) -> Result<SocketAddr> {
        if let Some(address) = asked {
            return Ok(address);
        }
        let address: SocketAddr = usual.parse().context("the usual address is one")?;
        // Closed again at once, so that the server can take it.
        if TcpListener::bind(address).is_ok() {
            return Ok(address);
        }
        self.note(&format!("{usual} is taken, so a free port is used instead"))?;
        Ok(SocketAddr::new(address.ip(), 0))
    }

    /// The crowd and the events.
    async fn load(&self, server: &Server, signals: &mut Signals) -> Result<Option<Outcome>> {
        let Some(mut flood) = self.crowd(server, signals).await? else { return Ok(None) };
        let config = SpamConfig {
            api: format!("http://{}", server.api()),
            users: self.args.users,
            rate: self.args.rate,
            duration: self.args.seconds,
            // The latency shown is the server's, not that of a sender that waits for company.
            coalesce: Duration::ZERO,
            ..SpamConfig::default()
        };
        let mut spam = spawn_blocking(move || Spam::start(&config)).await??;
        let end = match self.args.seconds {
            Some(seconds) => format!("for {} s, or until Ctrl-C", seconds.as_secs_f64()),
            None => "until Ctrl-C".into(),
        };
        self.note(&format!("sending  {} events a second {end}", self.args.rate))?;
        self.watch(&mut flood, &mut spam, signals).await?;
        // From here on all ends by itself; who cannot wait may say so again.
        Signals::new()?.end_at_next();
        let spam = SpamReport::from(&spawn_blocking(move || spam.finish()).await?);
        let delivered = spam.delivered;
        let finished = spawn_blocking(move || {
            flood.wait_until(ARRIVAL_PATIENCE, |totals| totals.stamped >= delivered);
            flood.finish()
        });
        let flood = finished.await??;
        let visitors = server.connections_opened().saturating_sub(flood.totals.begun);
        Ok(Some(Outcome { report: RunReport::new(FloodReport::from(&flood), spam), visitors }))
    }

    /// Brings everybody online. `None` when a signal came first.
    async fn crowd(&self, server: &Server, signals: &mut Signals) -> Result<Option<Flood>> {
        let config = FloodConfig {
            url: format!("http://{}/stream/{{id}}", server.listen()),
            users: self.args.users,
            ..FloodConfig::default()
        };
        let mut flood = flood::start(config)?;
        let mut progress = Progress::new("connecting");
        let snapshot = loop {
            let now = flood.snapshot();
            progress.set("connecting", now.totals.opened, self.args.users.into());
            if now.all_tried() {
                break now;
            }
            tokio::select! {
                () = sleep(POLL_PERIOD) => {}
                _ = signals.next() => return Ok(None),
            }
        };
        drop(progress);
        if let Some(failure) = snapshot.first_failure {
            bail!("{} streams did not open: {failure}", snapshot.totals.failed_total());
        }
        let (open, seconds) =
            (snapshot.totals.open(), snapshot.totals.opened_after_ns as f64 / 1e9);
        self.note(&format!("online   {} listeners after {seconds:.1} s", grouped(open)))?;
        Ok(Some(flood))
    }

    /// A line a second until all is sent, or a signal comes.
    async fn watch(&self, flood: &mut Flood, spam: &mut Spam, signals: &mut Signals) -> Result<()> {
        let mut polls = interval(POLL_PERIOD);
        polls.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut before = flood.snapshot();
        let live = (!self.args.json).then(LiveLine::new);
        for poll in 1u32.. {
            tokio::select! {
                _ = polls.tick() => {}
                _ = signals.next() => break,
            }
            if spam.is_finished() {
                break;
            }
            if poll.is_multiple_of(POLLS_PER_LINE) {
                let (now, sent) = (flood.snapshot(), spam.snapshot().totals.sent);
                let line = summary(&now, &before, sent);
                match &live {
                    Some(live) => live.set(line)?,
                    None => self.note(&line)?,
                }
                before = now;
            }
        }
        Ok(())
    }

    /// A line that stays.
    fn note(&self, line: &str) -> Result<()> {
        flood::report_line(line, self.args.json)
    }
}
