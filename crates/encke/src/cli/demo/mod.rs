//! `encke demo`: the whole system at work on this machine.
//!
//! A friends graph is made and stored, a server started on it, the crowd brought online over real
//! sockets, and events sent over the real API. Every event is accounted for: what the server says
//! that it delivered must have been received.
//!
//! The server is a process of its own, as it is in earnest. So its memory and processor time are
//! told apart from those of the listeners and the senders, which live in this one. Whatever ends
//! this process ends the server too. A temporary directory is removed at any end but kill -9 and
//! what leaves a core. The signals that ask for an end are listened for before it is made. When it
//! is removed no child is left ([`child`]) and no thread that makes files.

mod args;
mod certificate;
mod child;
mod files;
mod folder;
mod friends;
mod live;
mod load;
mod measure;
mod nodes;
mod process;
mod report;

use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::Instant;

use ::load::findings::Findings;
use anyhow::{Result, bail};
use auth::keys::KeyFile;
use figures::numbers::grouped;
use serde::Serialize;
use server::{DemoFacts, PageToken};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;
use tune::{Ends, Report, Verdict};

pub(crate) use self::args::DemoArgs;
use self::certificate::Certificate;
use self::files::RunFiles;
use self::folder::Folder;
use self::friends::{Friends, Stored};
use self::live::Live;
use self::load::Load;
use self::nodes::NodesReport;
use self::process::{ServerOptions, ServerProcess};
use self::report::DemoReport;
use super::conclude::{conclude, unchecked};
use super::flood;
use super::signer::Signer;
use crate::console::tell;
use crate::signals::Signals;

const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8000);
const DEFAULT_API: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8001);

/// Connections for which there is room beside the crowd.
const ROOM_FOR_VISITORS: u32 = 10_000;

pub(crate) fn run(args: DemoArgs) -> Result<()> {
    match args.nodes {
        Some(nodes) => play(args, move |demo| nodes::run(demo, nodes), NodesReport::findings),
        None => play(args, Demo::run, DemoReport::findings),
    }
}

/// A demo from its start to its report, and what was `found` in that.
fn play<R: Serialize + Display, F: Future<Output = Result<Option<R>>>>(
    args: DemoArgs,
    demo: impl FnOnce(Demo) -> F,
    found: impl FnOnce(&R) -> Findings,
) -> Result<()> {
    let json = args.json;
    let read = |path: &PathBuf| Signer::read(path, args.token_claims.clone());
    let signer = args.token_key.as_ref().map(read).transpose()?;
    let runtime = server::runtime()?;
    let signals = {
        let _within = runtime.enter();
        Signals::with_hangup()?
    };
    let folder = Folder::new(args.data.as_deref())?;
    let (data, stop) = (folder.path().to_owned(), CancellationToken::new());
    let demo = demo(Demo { args, signer, data, stop: stop.clone() });
    let end = runtime.block_on(play_out(demo, signals, stop));
    // A graph that is being made need not be waited for: the process' end breaks it off, and the
    // store has all of it or nothing.
    runtime.shutdown_background();
    let removed = folder.close();
    let outcome = match end {
        DemoEnd::Played(outcome) => outcome,
        // Nobody is left who could be told what is not removed.
        DemoEnd::AtOnce(code) => std::process::exit(code),
    };
    let outcome = outcome.map_err(unchecked)?;
    removed?;
    let Some(report) = outcome else {
        tell("stopped before the first event was sent: nothing was checked");
        return Ok(());
    };
    conclude(&report, &found(&report), json)
}

/// How a demo has ended.
enum DemoEnd<T> {
    /// In order, or of itself.
    Played(T),
    /// By a second signal, which has this exit code.
    AtOnce(i32),
}

/// Plays the `demo` to its end. The first of the `signals` stops it in order. The second ends it at
/// once: it is dropped, and its children with it.
async fn play_out<T>(
    demo: impl Future<Output = T>,
    mut signals: Signals,
    stop: CancellationToken,
) -> DemoEnd<T> {
    let second = async {
        signals.next().await;
        stop.cancel();
        signals.next().await
    };
    tokio::select! {
        outcome = demo => DemoEnd::Played(outcome),
        code = second => DemoEnd::AtOnce(code),
    }
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
        if self.args.api.is_some_and(|api| !auth::is_loopback(api)) {
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
                bail!(
                    "these limits are too low for that many users; --anyway tries it all the same"
                );
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
        let cores = sys::machine::cores();
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
        let (users, started) = (self.args.users, Instant::now());
        let stored = self.friends().provide(&self.data).await?;
        let how = match stored.found {
            true => format!("found in {}", self.data.display()),
            false => format!("made and stored in {:.1} s", started.elapsed().as_secs_f64()),
        };
        let (users, subscriptions) = (grouped(users.into()), grouped(stored.subscriptions));
        self.note(&format!("graph    {users} users, {subscriptions} subscriptions, {how}"))?;
        Ok(stored)
    }

    fn friends(&self) -> Friends {
        let DemoArgs { users, edges_per_user, both, .. } = self.args;
        Friends::new(users, edges_per_user, both)
    }

    async fn serve(&self, stored: &Stored) -> Result<ServerProcess> {
        let users = self.args.users;
        let events_per_second = self.args.rate_for(stored.mean_audience(users));
        let room = users.saturating_add(ROOM_FOR_VISITORS);
        let certificate = self.args.tls.then(|| Certificate::make(&self.data)).transpose()?;
        let options = ServerOptions {
            listen: self.address(self.args.listen, DEFAULT_LISTEN)?,
            api: self.address(self.args.api, DEFAULT_API)?,
            member: None,
            data: &self.data,
            limits: &self.args.limits.clone().with_capacity_for(room),
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
        self.note(&format!("server   process {}", server.pid()))?;
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
        let followed = self.friends().followed();
        self.note(&format!("API      http://{api}/   try: curl {api}/subscribers/{followed}"))?;
        self.note(&format!(
            "send     curl {api}/send --json '{{\"about\":{followed},\"data\":\"hello\"}}'"
        ))?;
        Ok(server)
    }

    /// The address that was asked for; else the usual one, or a free one when that is taken.
    fn address(&self, asked: Option<SocketAddr>, usual: SocketAddr) -> Result<SocketAddr> {
        if let Some(address) = asked {
            return Ok(address);
        }
        // Closed again at once, so that the server can take it.
        if TcpListener::bind(usual).is_ok() {
            return Ok(usual);
        }
        self.note(&format!("{usual} is taken, so a free port is used instead"))?;
        Ok(SocketAddr::new(usual.ip(), 0))
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

#[cfg(test)]
mod tests;
