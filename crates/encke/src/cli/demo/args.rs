//! What a demo is asked for.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::nodes::NODES_MAX;
use crate::cli::flood::TransportArg;
use crate::cli::serve::LimitArgs;
use crate::cli::signer::TokenClaimsArgs;
use crate::units::{parse_rate_over_0, parse_seconds};

/// Events a second of a small demo: enough to see something.
const RATE_MIN: f64 = 1_000.0;

/// Seconds within which everybody hears an event, on average, in a large demo. One a minute is what
/// others published for a million users.
const SECONDS_PER_EVENT_HEARD: f64 = 60.0;

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
  encke demo --nodes 3 --seconds 30
  encke demo --listen 127.0.0.1:0 --api 127.0.0.1:0 --seconds 5 --json")]
pub(crate) struct DemoArgs {
    /// How many users there are, all of them online.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(2..))]
    pub(super) users: u32,
    /// How many edges each newcomer of the graph brings: so many follow each user.
    #[arg(long, value_name = "N", default_value_t = 15)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) edges_per_user: u32,
    /// Store each edge both ways, as friends follow one another: audiences are twice as large on
    /// average, and a few have thousands.
    #[arg(long)]
    pub(super) both: bool,
    /// Events a second; each is heard by its subject and who follows it, 16 users with the default
    /// graph.
    ///
    /// Default: 1000, or what lets everybody hear one event a minute if that is more (1042 for a
    /// million users, 16,667 deliveries a second).
    #[arg(long, value_name = "RATE", value_parser = parse_rate_over_0)]
    pub(super) rate: Option<f64>,
    /// End after sending for so long, in seconds.
    ///
    /// Default: with Ctrl-C.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub(super) seconds: Option<Duration>,
    /// How the listeners hear events: sse, ndjson, classic or websocket.
    #[arg(long, default_value = "sse", value_parser = parse_transport)]
    pub(super) transport: TransportArg,
    /// Have streams ask for tokens, and sign one for each user with the secret in this file, 32
    /// bytes or more.
    ///
    /// The page hands its visitors one with which they may be any of the users.
    #[arg(long, value_name = "FILE")]
    pub(super) token_key: Option<PathBuf>,
    /// Have the listeners speak TLS, at a port of its own and with a certificate that is made for
    /// it; the pages and the API stay plain.
    #[arg(long)]
    pub(super) tls: bool,
    #[command(flatten)]
    pub(super) token_claims: TokenClaimsArgs,
    /// Where clients connect.
    ///
    /// Default: 127.0.0.1:8000, or a free port when that is taken.
    #[arg(long, value_name = "ADDRESS", value_parser = crate::cli::names::parse_address)]
    pub(super) listen: Option<SocketAddr>,
    /// Where applications connect.
    ///
    /// Default: 127.0.0.1:8001, or a free port when that is taken.
    #[arg(long, value_name = "ADDRESS", value_parser = crate::cli::names::parse_address)]
    pub(super) api: Option<SocketAddr>,
    /// Keep the graph in this directory, where the next demo of the same size finds it.
    ///
    /// Default: a temporary one, which is removed at the end.
    #[arg(long, value_name = "DIR")]
    pub(super) data: Option<PathBuf>,
    /// Write the run to this directory: a row a second as run.csv, the report as run.json, and
    /// pictures of it, light and dark, as SVG and PNG.
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Start although this machine does not hold so many users, as `encke tune` reckons.
    #[arg(long)]
    pub(super) anyway: bool,
    #[command(flatten)]
    pub(super) limits: LimitArgs,
    /// Show a cluster instead: so many nodes, 2 to 9, over a NATS server that is started for them,
    /// with the graph in a PostgreSQL that is started too, where one is installed.
    ///
    /// The users are spread over them, events are sent to each in turn, and one node is killed in
    /// the middle, or after 20 s: its listeners go on at the others.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(2..=NODES_MAX))]
    #[arg(conflicts_with_all = ["transport", "token_key", "tls", "data", "out"])]
    pub(super) nodes: Option<u8>,
    /// Print the summary as JSON; everything else goes to standard error then.
    #[arg(long)]
    pub(super) json: bool,
}

impl DemoArgs {
    /// Events a second when each is heard by so many.
    pub(super) fn rate_for(&self, audience: f64) -> f64 {
        let everybody = f64::from(self.users) / SECONDS_PER_EVENT_HEARD / audience;
        self.rate.unwrap_or(everybody.max(RATE_MIN))
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
