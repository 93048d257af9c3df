//! `encke demo`: the whole system at work on this machine.
//!
//! A friends graph is made and stored, a server started on it, the crowd brought online over real
//! sockets, and events sent over the real API. Every event is accounted for: what the server says
//! that it delivered must have been received.
//!
//! The server is a process of its own, as it is in earnest, so that its memory and processor time
//! are told apart from those of the crowd and the senders, which live in this one. Whatever ends
//! this process ends the server too, and a temporary directory is removed at any end but kill -9.

mod certificate;
mod files;
mod friends;
mod live;
mod load;
mod measure;
mod process;
mod report;

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use figures::numbers::grouped;
use server::keys::KeyFile;
use server::{DemoFacts, PageToken};
use tempfile::TempDir;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;
use tune::{Ends, Report, Verdict};

use self::certificate::Certificate;
use self::files::RunFiles;
use self::friends::{Friends, Stored};
use self::live::Live;
use self::load::Load;
use self::process::{ServerOptions, ServerProcess};
use self::report::DemoReport;
use super::conclude::{conclude, unjudged};
use super::flood::{self, TransportArg};
use super::serve::LimitArgs;
use super::signer::{Signer, TokenClaimsArgs};
use super::work::on_own_thread;
use crate::console::tell;
use crate::signals::Signals;
use crate::units::{parse_rate_over_0, parse_seconds};

const DEFAULT_LISTEN: &str = "127.0.0.1:8000";
const DEFAULT_API: &str = "127.0.0.1:8001";

/// Events a second of a small demo: enough to see something.
const RATE_MIN: f64 = 1_000.0;

/// Seconds within which everybody hears an event, on average, in a large demo. One a minute is what
/// others published for a million users.
const SECONDS_PER_EVENT_HEARD: f64 = 60.0;

/// Connections for which there is room beside the crowd.
const ROOM_FOR_VISITORS: u32 = 10_000;

/// Shows the whole system at work on this machine.
///
/// Makes a friends graph, serves it, brings its users online and sends events about them, each of
/// which all followers of its subject hear. Opens nothing, but prints the addresses to look at. The
/// server is a process of its own. Ends with Ctrl-C or after --seconds. The exit status is 1 if an
/// event was lost, refused, came twice, out of order or more than 5 s late, if a stream failed or
/// the server ended; the summary says so, and what was not checked.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  encke demo
  encke demo --users 1000 --rate 5000 --seconds 10
  encke demo --users 1000000 --data ./million --seconds 600 --out ./run
  encke demo --transport ndjson --both
  encke demo --token-key secret
  encke demo --tls
  encke demo --listen 127.0.0.1:0 --api 127.0.0.1:0 --seconds 5 --json")]
pub(crate) struct DemoArgs {
    /// How many users there are, all of them online.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(2..))]
    users: u32,
    /// How many edges each newcomer of the graph brings: so many follow each user.
    #[arg(long, value_name = "N", default_value_t = 15)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    edges_per_user: u32,
    /// Store each edge both ways, as friends follow one another: audiences are twice as large on
    /// average, and a few have thousands.
    #[arg(long)]
    both: bool,
    /// Events a second; each is heard by its subject and who follows it, 16 users with the default
    /// graph. Default: 1000, or what lets everybody hear one event a minute if that is more (1042
    /// for a million users, 16,667 deliveries a second).
    #[arg(long, value_name = "RATE", value_parser = parse_rate_over_0)]
    rate: Option<f64>,
    /// End after sending for so long, in seconds. Default: with Ctrl-C.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    seconds: Option<Duration>,
    /// How the listeners hear events: sse, ndjson, classic or websocket.
    #[arg(long, default_value = "sse", value_parser = parse_transport)]
    transport: TransportArg,
    /// Have streams ask for tokens, and sign one for each user with the secret in this file, 32
    /// bytes or more. The page hands its visitors one with which they may be any of the users.
    #[arg(long, value_name = "FILE")]
    token_key: Option<PathBuf>,
    /// Have the listeners speak TLS, at a port of its own and with a certificate that is made for
    /// it; the pages and the API stay plain.
    #[arg(long)]
    tls: bool,
    #[command(flatten)]
    token_claims: TokenClaimsArgs,
    /// Where clients connect. Default: 127.0.0.1:8000, or a free port when that is taken.
    #[arg(long, value_name = "ADDRESS", value_parser = super::names::parse_address)]
    listen: Option<SocketAddr>,
    /// Where applications connect. Default: 127.0.0.1:8001, or a free port when that is taken.
    #[arg(long, value_name = "ADDRESS", value_parser = super::names::parse_address)]
    api: Option<SocketAddr>,
    /// Keep the graph in this directory, where the next demo of the same size finds it. Default: a
    /// temporary one, which is removed at the end.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Write the run to this directory: a row a second as run.csv, the report as run.json, and
    /// pictures of it, light and dark, as SVG and PNG.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Start although this machine does not hold so many users, as `encke tune` reckons.
    #[arg(long)]
    anyway: bool,
    #[command(flatten)]
    limits: LimitArgs,
    /// Print the summary as JSON; everything else goes to standard error then.
    #[arg(long)]
    json: bool,
}

impl DemoArgs {
    /// Events a second when each is heard by so many.
    fn rate_for(&self, audience: f64) -> f64 {
        let everybody = f64::from(self.users) / SECONDS_PER_EVENT_HEARD / audience;
        self.rate.unwrap_or(everybody.max(RATE_MIN))
    }
}

pub(crate) fn run(args: DemoArgs) -> Result<()> {
    let json = args.json;
    let read = |path: &PathBuf| Signer::read(path, args.token_claims.clone());
    let signer = args.token_key.as_ref().map(read).transpose()?;
    let (data, temporary) = directory(args.data.as_deref())?;
    let leftover = temporary.as_ref().map(|dir| dir.path().to_owned());
    let runtime = server::runtime()?;
    let outcome = runtime.block_on(async {
        let signals = Signals::new()?;
        let stop = CancellationToken::new();
        tokio::spawn(handle_signals(signals, stop.clone(), leftover));
        Demo { args, signer, data, stop }.run().await
    });
    // A graph that is being made need not be waited for: the process' end breaks it off, and the
    // store has all of it or nothing.
    runtime.shutdown_background();
    if let Some(dir) = temporary {
        dir.close().context("cannot remove the directory of the graph")?;
    }
    let Some(report) = outcome.map_err(unjudged)? else {
        tell("stopped before the first event was sent: nothing was checked");
        return Ok(());
    };
    conclude(&report, &report.findings(), json)
}

/// Where the graph is kept: the directory that was asked for, or one to be removed at the end.
fn directory(asked: Option<&Path>) -> Result<(PathBuf, Option<TempDir>)> {
    if let Some(dir) = asked {
        return Ok((dir.to_owned(), None));
    }
    let dir = tempfile::tempdir().context("cannot make a directory for the graph")?;
    Ok((dir.path().to_owned(), Some(dir)))
}

/// The first signal stops the demo in order. The second ends it at once: the server sees that and
/// ends as well.
async fn handle_signals(mut signals: Signals, stop: CancellationToken, leftover: Option<PathBuf>) {
    signals.next().await;
    stop.cancel();
    let code = signals.next().await;
    if let Some(dir) = leftover {
        // Nobody is left who could be told.
        let _ = fs::remove_dir_all(dir);
    }
    std::process::exit(code);
}

/// A demo, from its graph to its end.
struct Demo {
    args: DemoArgs,
    /// Makes the users' tokens, where streams need them.
    signer: Option<Signer>,
    data: PathBuf,
    /// Cancelled at the first signal.
    stop: CancellationToken,
}

impl Demo {
    /// Its page and its load tools show no key, so the API is for this machine alone.
    fn check_keys(&self) -> Result<()> {
        if self.args.api.is_some_and(|api| !server::is_loopback(api)) {
            bail!(
                "the demo's API has no keys, so it stays on loopback: leave --api out, and take a \
                 tunnel to look at it from elsewhere (ssh -L 8000:127.0.0.1:8000 -L \
                 8001:127.0.0.1:8001)"
            );
        }
        if KeyFile::in_dir(&self.data).read()?.is_some() {
            bail!(
                "{} belongs to a server with keys, and the demo has none: give another --data",
                self.data.display()
            );
        }
        Ok(())
    }

    /// Everything in its order. `None` when it was stopped before the first event was sent.
    async fn run(self) -> Result<Option<DemoReport>> {
        self.check_keys()?;
        self.check_machine()?;
        let mut files = self.args.out.as_deref().map(RunFiles::create).transpose()?;
        let outcome = self.run_into(files.as_mut()).await;
        let report = match (outcome, files) {
            (Ok(Some(report)), Some(files)) => self.draw(files, report).await?,
            (Ok(None), Some(files)) => {
                files.discard();
                return Ok(None);
            }
            // What was seen before a failure stays.
            (outcome, _) => return outcome,
        };
        Ok(Some(report))
    }

    async fn run_into(&self, files: Option<&mut RunFiles>) -> Result<Option<DemoReport>> {
        let machine_bytes_before = measure::machine_bytes();
        let Some(stored) = self.unless_stopped(self.graph()).await else { return Ok(None) };
        let stored = stored?;
        let Some(server) = self.unless_stopped(self.serve(&stored)).await else { return Ok(None) };
        let mut server = server?;
        let load = Load { demo: self, server: &mut server, stored, machine_bytes_before, files };
        let outcome = load.run().await;
        self.note("stopping")?;
        let stopped = server.stop().await;
        let outcome = outcome?;
        stopped?;
        Ok(outcome)
    }

    /// # Errors
    /// The machine does not hold the users; what it lacks is told.
    fn check_machine(&self) -> Result<()> {
        let users = self.args.users;
        let mut machine = Report::of_machine(users, Ends::Both);
        if !machine.fits() {
            machine.checks.retain(|check| check.verdict == Verdict::TooLow);
            tell(machine.to_string().trim_end());
            if !self.args.anyway {
                bail!("so many users do not fit; with --anyway the demo tries it");
            }
        }
        let low: Vec<&str> = machine.with(Verdict::Low).map(|check| check.name).collect();
        if !low.is_empty() {
            self.note(&format!(
                "machine  low: {}; see encke tune --users {users} --with-clients",
                low.join(", ")
            ))?;
        }
        Ok(())
    }

    /// Completes the files.
    async fn draw(&self, files: RunFiles, report: DemoReport) -> Result<DemoReport> {
        let DemoArgs { users, transport, tls, .. } = self.args;
        let tls = if tls { " --tls" } else { "" };
        let title = format!("{} users online, both ends on one machine", grouped(users.into()));
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let (audience, spam) = (report.graph.mean_audience, &report.run.spam);
        let subtitle = format!(
            "encke demo --users {users} --transport {}{tls}: {:.0} events/s x {audience:.1} \
             listeners, {cores} cores",
            transport.as_str(),
            spam.sent as f64 / spam.seconds.max(1e-3),
        );
        let draw = move || files.finish(&report, &title, &subtitle).map(|()| report);
        let report = spawn_blocking(draw).await??;
        if let Some(dir) = &self.args.out {
            self.note(&format!("files    {}/run.csv, run.json, run-light.svg …", dir.display()))?;
        }
        Ok(report)
    }

    /// The friends graph, made and stored.
    async fn graph(&self) -> Result<Stored> {
        let DemoArgs { users, edges_per_user, both, .. } = self.args;
        let (data, started) = (self.data.clone(), Instant::now());
        let provide = move || Friends::new(users, edges_per_user, both).provide(&data);
        let stored = on_own_thread(provide).await?;
        let how = match stored.found {
            true => format!("found in {}", self.data.display()),
            false => format!("made and stored in {:.1} s", started.elapsed().as_secs_f64()),
        };
        let (users, subscriptions) = (grouped(users.into()), grouped(stored.subscriptions));
        self.note(&format!("graph    {users} users, {subscriptions} subscriptions, {how}"))?;
        Ok(stored)
    }

    async fn serve(&self, stored: &Stored) -> Result<ServerProcess> {
        let users = self.args.users;
        let events_per_second = self.args.rate_for(stored.mean_audience(users));
        let room = users.saturating_add(ROOM_FOR_VISITORS);
        let certificate = self.args.tls.then(|| Certificate::make(&self.data)).transpose()?;
        let options = ServerOptions {
            listen: self.address(self.args.listen, DEFAULT_LISTEN)?,
            api: self.address(self.args.api, DEFAULT_API)?,
            data: &self.data,
            limits: &self.args.limits.clone().with_room_for(room),
            token_key: self.args.token_key.as_deref(),
            certificate,
            token_claims: &self.args.token_claims,
            demo: DemoFacts {
                users,
                events_per_second,
                token: self.signer.as_ref().map(|signer| PageToken(signer.token_for_all())),
            },
        };
        let server = ServerProcess::start(options).await?;
        let (listen, api) = (server.listen(), server.api());
        self.note(&format!("server   process {}", server.pid().unwrap_or_default()))?;
        self.note(&format!("look     http://{listen}/   be one of the users, in a browser"))?;
        let attempt = match &self.args.token_key {
            Some(key) => {
                let claims: String =
                    self.args.token_claims.options().map(|option| format!(" '{option}'")).collect();
                format!("encke listen 0 --url {listen} --token-key {}{claims}", key.display())
            }
            None => format!("curl -N {listen}/stream/0"),
        };
        self.note(&format!("streams  http://{listen}/stream/{{id}}   try: {attempt}"))?;
        if let Some(secured) = server.secured() {
            let (base, ca) = (secured.base(), secured.certificate.file.display());
            self.note(&format!("TLS      {base}/   try: curl -N --cacert {ca} {base}/stream/0"))?;
        }
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

    /// What comes of `work`; `None` when the demo was stopped first.
    async fn unless_stopped<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            done = work => Some(done),
            () = self.stop.cancelled() => None,
        }
    }

    /// A line that stays.
    fn note(&self, line: &str) -> Result<()> {
        flood::report_line(line, self.args.json)
    }

    /// A line that is kept up to date.
    fn live(&self) -> Live {
        Live::new(self.args.json)
    }
}

/// Polls go on where the one before ended and so hear what was delivered to nobody, which the demo
/// would take for too much.
fn parse_transport(text: &str) -> Result<TransportArg, String> {
    match TransportArg::from_str(text, false)? {
        TransportArg::Poll => Err("the demo's listeners keep a stream; `encke flood` polls".into()),
        transport => Ok(transport),
    }
}
