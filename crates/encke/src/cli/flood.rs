//! `encke flood`: the listener crowd.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use load::flood::{Storm, Tokens};
use load::report::{FloodReport, flood_line};
use load::{Flood, FloodConfig, FloodSnapshot, Version};
use proto::Transport;

use super::client::{CaArg, runtime};
use super::conclude::{conclude, unchecked};
use super::signer::{Signer, TokenKeyArg};
use super::ticker::Ticker;
use crate::console::{say, tell};
use crate::signals::Signals;
use crate::units::{parse_bytes, parse_ip, parse_rate, parse_seconds, parse_share, whole};

/// Connects many listeners, counts and times what they receive.
///
/// Works against any server that streams over HTTP. Prints a line a second and a summary at the
/// end: after --seconds, or with Ctrl-C. Of events that `encke spam` made it knows which are
/// missing, doubled or late.
///
/// The exit status is 1 if a listener was not online, a connection failed or ended early, a gap was
/// told, or an event is missing, came twice, out of order or late, or could not be followed. The
/// summary says so, and what was not checked: among it what came last about each subject, for
/// which spam's `delivered` must be the `stamped` here.
///
/// A part of the listeners can make trouble: the first ids vanish in a storm, the next come back
/// from it, the next are slow. The summary tells what the steady rest heard before, during and
/// after.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  encke flood --users 10000 --seconds 60
  encke flood --users 1000000 --connect-rate 20000
  encke flood --users 100000 --storm-after 20 --seconds 60
  encke flood --users 10000 --slow 0.1 --slow-after 10 --seconds 60
  encke flood --transport websocket --users 10000
  encke flood --transport poll --users 10000
  encke flood --token-key secret
  encke flood --url 'https://localhost:8443/stream/{id}' --ca ca.pem
  encke flood --transport ndjson --url 'http://127.0.0.1:8000/stream/{id}' --json
  encke flood --url 'http://127.0.0.1:9000/sub?ch={id}' --source 127.0.0.2 --source 127.0.0.3")]
pub(crate) struct FloodArgs {
    /// Where to listen; {id} is the listener's id.
    ///
    /// Default: Encke on this machine.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// How the listeners hear events.
    #[arg(long, value_enum, default_value_t = TransportArg::Sse)]
    transport: TransportArg,
    #[command(flatten)]
    ca: CaArg,
    /// The newest version of TLS that the listeners speak with a server at https://.
    #[arg(long, value_enum, value_name = "VERSION", default_value_t = VersionArg::Tls13)]
    tls_max: VersionArg,
    #[command(flatten)]
    token_key: TokenKeyArg,
    /// How many listeners.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    #[arg(value_parser = whole(1..=u32::MAX))]
    users: u32,
    /// The id of the first listener; the others follow.
    #[arg(long, value_name = "ID", default_value_t = 0)]
    #[arg(value_parser = whole(0..=u64::MAX))]
    first_id: u64,
    /// Connections begun a second; 0 is as fast as the server takes them.
    #[arg(long, value_name = "RATE", default_value = "0", value_parser = parse_rate)]
    connect_rate: f64,
    /// Streams that may be on their way to open at one time.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    #[arg(value_parser = whole(1..=u32::MAX))]
    opening_max: u32,
    /// How long a stream may take to open, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = parse_seconds)]
    open_timeout: Duration,
    /// Threads; 0 is as many as the descriptor limit and the cores ask for.
    #[arg(long, value_name = "N", default_value_t = 0)]
    #[arg(value_parser = whole(0..=u32::MAX))]
    threads: u32,
    /// Connect from this address; may be repeated.
    ///
    /// Default: as many loopback addresses as it takes when the server is on one, else the system's
    /// choice.
    #[arg(long, value_name = "IP", value_delimiter = ',')]
    #[arg(value_parser = parse_ip)]
    source: Vec<IpAddr>,
    /// End after so long, in seconds.
    ///
    /// Default: with Ctrl-C.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    seconds: Option<Duration>,
    /// A storm so many seconds after all are online: --vanish of the listeners reset their
    /// connections and stay away, --come-back of them connect again as fast as they can.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    storm_after: Option<Duration>,
    /// The share of listeners, 0 to 1, that vanish in the storm.
    #[arg(long, value_name = "SHARE", default_value = "0.25", value_parser = parse_share)]
    #[arg(requires = "storm_after")]
    vanish: f64,
    /// The share that come back from the storm; --opening-max bounds how many do so at one time.
    #[arg(long, value_name = "SHARE", default_value = "0.25", value_parser = parse_share)]
    #[arg(requires = "storm_after")]
    come_back: f64,
    /// How long they stay away before that, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = parse_seconds)]
    #[arg(requires = "storm_after")]
    away: Duration,
    /// Listeners that come back send the id of their last event (Last-Event-ID), and must then
    /// receive every event since.
    ///
    /// Not on the classic page.
    #[arg(long)]
    resume: bool,
    /// The share of listeners, 0 to 1, that stop reading their stream.
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = parse_share)]
    slow: f64,
    /// They stop so many seconds after all are online.
    ///
    /// Default: as soon as their stream is open.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    slow_after: Option<Duration>,
    /// Their receive buffer, so that the server soon notices; 0 is the system's choice.
    #[arg(long, value_name = "BYTES", default_value = "4KiB", value_parser = parse_bytes)]
    slow_buffer: usize,
    /// Listeners whose stream ended or failed come back after a second.
    #[arg(long)]
    reconnect: bool,
    /// The latency from which on an event is late, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_seconds)]
    late_after: Duration,
    /// Print the summary as JSON; the lines go to standard error then.
    #[arg(long)]
    json: bool,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum VersionArg {
    #[value(name = "1.2")]
    Tls12,
    #[value(name = "1.3")]
    Tls13,
}

impl From<VersionArg> for Version {
    fn from(version: VersionArg) -> Version {
        match version {
            VersionArg::Tls12 => Version::Tls12,
            VersionArg::Tls13 => Version::Tls13,
        }
    }
}

/// How listeners hear events.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum TransportArg {
    /// Server-Sent Events.
    Sse,
    /// One line of JSON per event.
    Ndjson,
    /// The comet page of old.
    Classic,
    /// WebSocket, a text message per event.
    #[value(name = "websocket")]
    WebSocket,
    /// Long polls, one after the other on a connection; each goes on where the one before ended,
    /// so that listeners hear what was delivered to nobody, too.
    Poll,
}

impl From<TransportArg> for Transport {
    fn from(transport: TransportArg) -> Transport {
        match transport {
            TransportArg::Sse => Transport::Sse,
            TransportArg::Ndjson => Transport::Ndjson,
            TransportArg::Classic => Transport::Classic,
            TransportArg::WebSocket => Transport::WebSocket,
            TransportArg::Poll => Transport::Poll,
        }
    }
}

impl TransportArg {
    /// Its name on the command line.
    pub(super) fn as_str(self) -> &'static str {
        Transport::from(self).as_str()
    }

    /// Where Encke serves it.
    pub(super) fn path(self) -> &'static str {
        match self {
            TransportArg::Classic => "/test/{id}",
            TransportArg::Poll => "/poll/{id}",
            TransportArg::Sse | TransportArg::Ndjson | TransportArg::WebSocket => "/stream/{id}",
        }
    }
}

impl FloodArgs {
    fn config(self) -> Result<FloodConfig> {
        let path = self.transport.path();
        let url = self.url.unwrap_or_else(|| format!("http://127.0.0.1:8000{path}"));
        Ok(FloodConfig {
            trust: self.ca.trust(&url, self.tls_max.into())?,
            tokens: self.token_key.signer()?.map(tokens),
            url,
            transport: self.transport.into(),
            users: self.users,
            first_id: self.first_id,
            connect_rate: self.connect_rate,
            opening_max: self.opening_max,
            open_timeout: self.open_timeout,
            threads: self.threads,
            sources: self.source,
            duration: self.seconds,
            storm: self.storm_after.map(|after| Storm {
                after,
                vanish: self.vanish,
                come_back: self.come_back,
                away: self.away,
            }),
            slow: self.slow,
            slow_after: self.slow_after,
            slow_buffer_bytes: self.slow_buffer,
            resume: self.resume,
            reconnect: self.reconnect,
            late_after: self.late_after,
        })
    }
}

/// A token for each listener, signed with the same key.
pub(super) fn tokens(signer: Signer) -> Tokens {
    Tokens::new(move |id| signer.token(id, &[]))
}

pub(crate) fn run(args: FloodArgs) -> Result<()> {
    let json = args.json;
    let config = args.config()?;
    let url = config.url.clone();
    let snapshot = runtime()?.block_on(async {
        let mut signals = Signals::new()?;
        let flood = start(config)?;
        watch(flood, json, &mut signals).await.map_err(unchecked)
    })?;
    let report = FloodReport::from(&snapshot);
    let concluded = conclude(&report, &report.findings(), json);
    if report.opened == 0 {
        let why = report.first_failure.unwrap_or_else(|| "no answer in time".into());
        let what_to_do = match () {
            () if why.starts_with("status 401") => "sign tokens for the listeners with --token-key",
            () if why.starts_with("TLS") => {
                "see that TLS is spoken there, that the certificate is for this host, and name who \
                 has signed it with --ca"
            }
            () if ["status 404", "status 406"].iter().any(|status| why.starts_with(status)) => {
                "see that --url leads to streams of that --transport"
            }
            () if why.starts_with("status") => "see what the server says",
            () if report.failed_by.contains_key("no_port") => {
                "see that each --source is an address of this machine, or give more of them"
            }
            () => "start a server with `encke serve`",
        };
        bail!("no stream opened at {url}: {why}; {what_to_do}");
    }
    concluded
}

/// Starts a crowd, whose threads have private descriptor tables and so must hear no signals.
pub(super) fn start(config: FloodConfig) -> Result<Flood> {
    let started = sys::signals::blocked(|| Flood::start(config));
    let cannot = "cannot block signals; see that no filter of system calls (seccomp) forbids \
                  sigprocmask";
    Ok(started.context(cannot)??)
}

/// Prints a line a second until the crowd has ended by itself or a signal ends it.
async fn watch(mut flood: Flood, json: bool, signals: &mut Signals) -> Result<FloodSnapshot> {
    let mut before = flood.snapshot();
    let mut ticker = Ticker::new();
    while ticker.tick_unless(signals).await && !flood.is_finished() {
        if ticker.line_is_due() {
            let now = flood.snapshot();
            report_line(&flood_line(&now, &before), json)?;
            before = now;
        }
    }
    Ok(flood.finish()?)
}

/// A line for people, where it does not get between the lines for programs.
pub(super) fn report_line(line: &str, json: bool) -> Result<()> {
    if json {
        tell(line);
        return Ok(());
    }
    Ok(say(line)?)
}
