//! `encke serve`: the server.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use engine::EngineConfig;
use engine::workers::{fair_capacity, workers_for};
use hub::{HistoryLimits, HistoryRules};
use server::DemoFacts;
use server::PublicUrl;

pub(crate) use self::run::run;
use self::tls::TlsArgs;
use super::UsageError;
use super::address_limits::AddressLimitArgs;
use super::client_sends::ClientSendArgs;
use super::cluster::ClusterArgs;
use super::erlang::ErlangArgs;
use super::keep::KeepArgs;
use super::mercure::MercureArgs;
use super::names::{ListenAddress, NameArgs, Port};
use super::otlp::OtlpArgs;
use super::presence::PresenceArgs;
use super::pusher::PusherArgs;
use super::remember::Remember;
use super::streams::StreamArgs;
use super::tokens::TokenArgs;
use crate::system;
use crate::units::{parse_bytes, parse_seconds, whole};

/// Groups of options in the help.
const GENERAL: &str = "General";
const NETWORK: &str = "Network";
const HISTORY: &str = "History";

/// The least backlog that is of use: an event of a few kilobytes must fit.
const BACKLOG_BYTES_MIN: usize = 4096;

/// The shortest bound on messages: a command with one id of the greatest length must fit.
const MESSAGE_BYTES_MIN: usize = 512;

/// The longest: a client that sends half of such a message keeps that much memory.
const MESSAGE_BYTES_MAX: usize = 1024 * 1024;

/// Serves streams to clients, and the API to applications.
///
/// Clients open streams at --listen; applications send events and keep the friends graph through
/// --api or, by TLS, --tls-api. Streams need a token where --token-key or --token-jwks says how to
/// verify one; without that, and without --open, they stay on loopback. With keys (`encke key new`)
/// every call to the API needs one; without any it stays on loopback, for this machine alone.
/// SIGTERM or Ctrl-C ends it in order, within --grace, with exit code 0; a second one ends it at
/// once, with exit code 143 or 130. SIGHUP reads the certificates, the keys of tokens,
/// --pusher-apps and --config again, asks again for a certificate that could not be had, and logs
/// which of the changed options count from now on and which from the next start on. SIGUSR2 starts
/// the program anew, as `encke upgrade` does, and leaves everything to that.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ServeArgs {
    /// Address of the public port, where clients open streams.
    ///
    /// Port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8000")]
    #[arg(help_heading = NETWORK)]
    listen: Port,
    /// Address of the API port, for your own programs; `none` disables it.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8001")]
    #[arg(help_heading = NETWORK)]
    api: Port,
    #[command(flatten)]
    tls: TlsArgs,
    /// URL at which browsers reach the public port behind a proxy.
    ///
    /// The dashboard uses it. It has a scheme and a host, and a path if the proxy adds one.
    #[arg(long, value_name = "URL", help_heading = NETWORK)]
    public_url: Option<PublicUrl>,
    /// Directory with the subscriptions and what else outlives a restart.
    #[arg(long, value_name = "DIR", default_value = "./encke-data", help_heading = GENERAL)]
    data: PathBuf,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    #[command(flatten)]
    address_limits: AddressLimitArgs,
    #[command(flatten)]
    client_sends: ClientSendArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    erlang: ErlangArgs,
    #[command(flatten)]
    tokens: TokenArgs,
    #[command(flatten)]
    presence: PresenceArgs,
    #[command(flatten)]
    pusher: PusherArgs,
    #[command(flatten)]
    mercure: MercureArgs,
    #[command(flatten)]
    keep: KeepArgs,
    #[command(flatten)]
    streams: StreamArgs,
    #[command(flatten)]
    otlp: OtlpArgs,
    /// Time to end connections in order when the server stops, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = parse_seconds)]
    #[arg(help_heading = GENERAL)]
    grace: Duration,
    /// Stop when standard input closes.
    ///
    /// For a program that starts the server for itself: the server also stops if that program dies.
    #[arg(long, help_heading = GENERAL)]
    until_eof: bool,
    /// Take over ports and streams from the server that runs with the same --data.
    ///
    /// If none runs, the server starts as usual. `encke upgrade` does this for you. Use it if
    /// something else starts the new version, such as another container with the same data.
    #[arg(long, alias = "inherit", help_heading = GENERAL)]
    take_over: bool,
    /// Show the page of `encke demo` at / of the public port, and let it look users up and send
    /// through the API.
    ///
    /// The value tells it of the demo, as JSON.
    #[arg(long, value_name = "JSON", hide = true)]
    demo_page: Option<DemoFacts>,
    /// Print the addresses as one line of JSON.
    #[arg(long, help_heading = GENERAL)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  encke serve
  encke serve --listen 0.0.0.0:8000 --token-key secret.txt --allow-origin https://example.org
  encke serve --listen 127.0.0.1:0 --api 127.0.0.1:0 --json
  encke serve --listen none --tls-listen 0.0.0.0:443 --tls-cert chain.pem --tls-key key.pem \
      --token-key secret.txt
  encke serve --tls-listen 0.0.0.0:443 --acme-domain push.example.org --token-key secret.txt
  ENCKE_MAX_BACKLOG=256KiB encke serve --config encke.toml";

/// What the data plane may use.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArgs {
    /// Number of worker threads; 0 is one per core.
    ///
    /// With 0 there are more if --max-connections would not fit their descriptor limits.
    #[arg(long, value_name = "N", default_value_t = 0)]
    #[arg(value_parser = whole(0..=4096_usize))]
    workers: usize,
    /// Connections at one time; 0 is as many as the descriptor limit allows.
    #[arg(long, value_name = "N", default_value_t = 0)]
    #[arg(value_parser = whole(0..=u32::MAX))]
    max_connections: u32,
    /// Silence after which a stream sends a keep-alive, in seconds; 0 never sends one.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = parse_seconds)]
    keepalive: Duration,
    /// Time in which a client must send its request head, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = parse_head_timeout)]
    head_timeout: Duration,
    /// Unsent bytes of one connection above which it is closed; also the largest event.
    #[arg(long, value_name = "BYTES", default_value = "64KiB", value_parser = parse_backlog)]
    max_backlog: usize,
    /// Memory for the buffers of all connections together.
    ///
    /// It holds half requests and messages, and what slow clients have not taken. When it is full,
    /// connections that need more are closed. Default: a quarter of the memory of the machine, or
    /// of the container if that has less.
    #[arg(long, value_name = "BYTES", value_parser = parse_backlog)]
    max_buffered: Option<usize>,
    /// Memory for the ids of all connections together.
    ///
    /// When it is full, a connection gets no further ids beside its first. Default: an eighth of
    /// the memory of the machine, or of the container if that has less.
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    max_ids_memory: Option<usize>,
    /// Length of the longest message that a WebSocket client may send.
    #[arg(long, value_name = "BYTES", default_value = "4KiB", value_parser = parse_message)]
    max_message: usize,
    /// Compress WebSocket messages for clients that offer it (permessage-deflate).
    ///
    /// An event is compressed once for all clients.
    #[arg(long)]
    websocket_deflate: bool,
    /// Time after a write to a stream in which its events wait for one write, in milliseconds.
    ///
    /// Many small events share a write then. The first one after a silence is written at once. 0
    /// writes each event at once.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 0)]
    #[arg(value_parser = whole(0..=1000_u64))]
    gather_ms: u64,
    /// Events of each subject to remember for clients that come back; 0 remembers none.
    #[arg(long, value_name = "N", default_value_t = 200, help_heading = HISTORY)]
    #[arg(value_parser = whole(0..=usize::MAX))]
    history_events: usize,
    /// Time to remember an event, in seconds; 0 remembers none.
    #[arg(long, value_name = "SECONDS", default_value = "180", value_parser = parse_seconds)]
    #[arg(help_heading = HISTORY)]
    history_seconds: Duration,
    /// Memory for all remembered events together; 0 remembers none.
    #[arg(long, value_name = "BYTES", default_value = "64MiB", value_parser = parse_bytes)]
    #[arg(help_heading = HISTORY)]
    history_bytes: usize,
    /// Rule for how much is remembered of some ids, such as 'room:*=1000,1h'.
    ///
    /// PATTERN is an id, or the beginning of ids with a * behind it; AGE has s, m, h or d. Repeat
    /// the option, up to 32 times: the first rule that fits an id counts. For all other ids,
    /// --history-events and --history-seconds count.
    #[arg(long, value_name = "PATTERN=COUNT,AGE", help_heading = HISTORY)]
    remember: Vec<Remember>,
    #[command(flatten)]
    names: NameArgs,
}

impl ServeArgs {
    /// Where clients connect, by whatever.
    fn streams(&self) -> impl Iterator<Item = &ListenAddress> {
        self.listen.0.iter().chain(&self.tls.tls_listen.0)
    }

    /// Where the API is, by whatever.
    fn apis(&self) -> impl Iterator<Item = &ListenAddress> {
        self.api.0.iter().chain(&self.tls.tls_api.0)
    }
}

impl LimitArgs {
    /// The limits with room for `connections` unless another number was asked for.
    pub(crate) fn with_capacity_for(self, connections: u32) -> LimitArgs {
        match self.max_connections {
            0 => LimitArgs { max_connections: connections, ..self },
            _ => self,
        }
    }

    /// The options of `encke serve` that say the same.
    pub(crate) fn options(&self) -> Vec<String> {
        let LimitArgs { workers, max_connections, keepalive, head_timeout, .. } = self;
        let mut options = vec![
            format!("--workers={workers}"),
            format!("--max-connections={max_connections}"),
            format!("--keepalive={}", keepalive.as_secs_f64()),
            format!("--head-timeout={}", head_timeout.as_secs_f64()),
            format!("--max-backlog={}", self.max_backlog),
            format!("--max-message={}", self.max_message),
            format!("--history-events={}", self.history_events),
            format!("--history-seconds={}", self.history_seconds.as_secs_f64()),
            format!("--history-bytes={}", self.history_bytes),
        ];
        let given = |name: &str, bytes: Option<usize>| bytes.map(|bytes| format!("{name}={bytes}"));
        options.extend(self.remember.iter().map(Remember::option));
        options.extend(given("--max-buffered", self.max_buffered));
        options.extend(given("--max-ids-memory", self.max_ids_memory));
        options.extend(self.websocket_deflate.then(|| "--websocket-deflate".to_owned()));
        options.extend((self.gather_ms > 0).then(|| format!("--gather-ms={}", self.gather_ms)));
        options.extend(self.names.options());
        options
    }

    /// The data plane's configuration on a machine with so many cores and descriptors, but for its
    /// [settings](live::settings()).
    fn engine(self, listen: SocketAddr, cores: usize, descriptors: u64) -> EngineConfig {
        let workers = match self.workers {
            0 => workers_for(self.max_connections.into(), descriptors, cores),
            workers => workers,
        };
        let workers = workers.min(hub::ConnRef::WORKERS_MAX);
        let mut config = EngineConfig::new(listen);
        if self.max_connections > 0 {
            config.connections_max = self.max_connections as usize;
        }
        EngineConfig {
            workers,
            backlog_bytes_max: self.max_backlog,
            buffered_bytes_max: self.max_buffered.unwrap_or(config.buffered_bytes_max),
            ids_bytes_max: self.max_ids_memory.unwrap_or(config.ids_bytes_max),
            websocket_deflate: self.websocket_deflate,
            gather_ms: self.gather_ms,
            history: HistoryLimits {
                events_max: self.history_events,
                age_ms_max: self.history_seconds.as_millis() as u64,
                bytes_max: self.history_bytes,
            },
            ..config
        }
    }

    /// The configuration on a machine with so much memory: what is not given is a share of it, so
    /// that clients alone cannot take it all.
    fn within(mut self, memory: u64) -> LimitArgs {
        let share = |part: u64| usize::try_from(memory / part).unwrap_or(usize::MAX);
        self.max_buffered.get_or_insert(share(4).max(BACKLOG_BYTES_MIN));
        self.max_ids_memory.get_or_insert(share(8));
        self
    }

    /// The configuration for this machine, whose descriptor limit is raised as far as it may be,
    /// but for its [settings](live::settings()).
    pub(crate) fn engine_here(self, listen: SocketAddr) -> Result<EngineConfig> {
        let limit = system::descriptors()?;
        let cores = sys::machine::cores();
        let asked = u64::from(self.max_connections);
        let limits = match tune::memory_limit() {
            Some(memory) => self.within(memory),
            None => self,
        };
        let remember = limits.rules()?;
        let config = limits.engine(listen, cores, limit.soft);
        let most = config.workers as u64 * fair_capacity(limit.soft);
        if asked > most {
            tracing::warn!(
                "--max-connections {asked} does not fit: {} workers hold about {most} at {} \
                 descriptors each; raise --workers, or the limit (ulimit -n)",
                config.workers,
                limit.soft,
            );
        }
        Ok(EngineConfig { remember, ..config })
    }

    /// How much is remembered of some ids.
    fn rules(&self) -> Result<HistoryRules> {
        let rules = self.remember.iter().map(|remember| remember.rule.clone()).collect();
        let rules = HistoryRules::new(rules);
        let rules = rules.map_err(|error| UsageError(format!("--remember: {error}")))?;
        let is_off = self.history_events == 0
            || self.history_seconds.as_millis() == 0
            || self.history_bytes == 0;
        if is_off && !rules.is_empty() {
            let why = "--remember needs a server that remembers: set none of --history-events, \
                       --history-seconds and --history-bytes to 0";
            return Err(UsageError(why.into()).into());
        }
        Ok(rules)
    }
}

fn parse_head_timeout(text: &str) -> Result<Duration, String> {
    let timeout = parse_seconds(text)?;
    if timeout.as_millis() == 0 {
        return Err("write at least 0.001 s: a client needs some time to send its head".into());
    }
    Ok(timeout)
}

fn parse_backlog(text: &str) -> Result<usize, String> {
    let bytes = parse_bytes(text)?;
    if bytes < BACKLOG_BYTES_MIN {
        return Err(format!("write at least {BACKLOG_BYTES_MIN} bytes: an event must fit"));
    }
    Ok(bytes)
}

fn parse_message(text: &str) -> Result<usize, String> {
    let bytes = parse_bytes(text)?;
    if !(MESSAGE_BYTES_MIN..=MESSAGE_BYTES_MAX).contains(&bytes) {
        return Err(format!("write from {MESSAGE_BYTES_MIN} bytes to {MESSAGE_BYTES_MAX}"));
    }
    Ok(bytes)
}

mod announce;
mod live;
mod program;
mod run;
mod tls;

#[cfg(test)]
mod tests;
