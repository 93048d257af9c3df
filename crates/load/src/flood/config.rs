//! What a crowd is asked for, and why it could not start.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use proto::Transport;

use crate::Trust;
use crate::flood::Tokens;
use crate::flood::tokens::TOKEN_BYTES_MAX;
use crate::target::{Target, TargetError};

/// What a crowd is to do.
#[derive(Clone, PartialEq, Debug)]
pub struct FloodConfig {
    /// Where: `http://host:port/path` or `https://…`, in which `{id}` stands for the listener's id.
    pub url: String,
    /// Who vouches for the server, which `https://` takes.
    pub trust: Option<Trust>,
    /// How the listeners hear events.
    pub transport: Transport,
    /// What each of them shows, if anything: made for the id as it stands in the URL.
    pub tokens: Option<Tokens>,
    /// How many listeners.
    pub users: u32,
    /// The id of the first listener; the others follow.
    pub first_id: u64,
    /// Connections begun a second; 0 is as fast as the server takes them.
    pub connect_rate: f64,
    /// Streams that may be on their way to open at one time, so that the server's backlog of
    /// connections not yet accepted does not overflow.
    pub opening_max: u32,
    /// How long a stream may take to open.
    pub open_timeout: Duration,
    /// Threads; 0 is as many as the descriptor limit and the cores ask for.
    pub threads: u32,
    /// Addresses to connect from; empty is as many of 127.0.0.0/8 as it takes when the server is
    /// there, and the system's choice otherwise.
    pub sources: Vec<IpAddr>,
    /// How long, counted from the start; `None` is until stopped.
    pub duration: Option<Duration>,
    /// What part of the crowd does at one moment.
    pub storm: Option<Storm>,
    /// The share of listeners, 0 to 1, that stop reading their stream.
    pub slow: f64,
    /// When they do, counted from when all are online; `None` is as soon as it has opened.
    pub slow_after: Option<Duration>,
    /// Receive buffer of slow listeners: small, so that the server soon notices. 0 is the system's
    /// choice.
    pub slow_buffer_bytes: usize,
    /// Whether a listener that comes back says which event it heard last, and must then hear
    /// every event since. The classic page cannot.
    pub resume: bool,
    /// Whether a listener whose stream ended or failed comes back after a second.
    pub reconnect: bool,
    /// The latency from which on an event is late.
    pub late_after: Duration,
}

impl Default for FloodConfig {
    fn default() -> FloodConfig {
        FloodConfig {
            url: "http://127.0.0.1:8000/stream/{id}".to_owned(),
            trust: None,
            transport: Transport::Sse,
            tokens: None,
            users: 10_000,
            first_id: 0,
            connect_rate: 0.0,
            opening_max: 1_000,
            open_timeout: Duration::from_secs(30),
            threads: 0,
            sources: Vec::new(),
            duration: None,
            storm: None,
            slow: 0.0,
            slow_after: None,
            slow_buffer_bytes: 4_096,
            resume: false,
            reconnect: false,
            late_after: Duration::from_secs(1),
        }
    }
}

/// A storm: what the listeners of two roles do at one moment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Storm {
    /// When it breaks out, counted from when all are online.
    pub after: Duration,
    /// The share of listeners, 0 to 1, that reset their connections and stay away.
    pub vanish: f64,
    /// The share that reset theirs and then connect again as fast as they can.
    pub come_back: f64,
    /// How long each of these stays away.
    pub away: Duration,
}

impl Default for Storm {
    fn default() -> Storm {
        let (after, away) = (Duration::from_secs(10), Duration::ZERO);
        Storm { after, vanish: 0.25, come_back: 0.25, away }
    }
}

/// Why a crowd could not start.
#[derive(Debug, thiserror::Error)]
pub enum FloodError {
    /// The URL cannot be used.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A figure that cannot be.
    #[error("{0}")]
    Config(&'static str),
    /// The threads asked for cannot hold the crowd.
    #[error(
        "{users} listeners do not fit into {threads} threads with room for {room} descriptors \
         each: use --threads {needed}, or raise the limit (ulimit -n)"
    )]
    Descriptors {
        /// Listeners asked for.
        users: u32,
        /// Threads asked for.
        threads: u32,
        /// Threads that it takes.
        needed: u32,
        /// Listeners that one thread can hold.
        room: u32,
    },
    /// A source address is of another family than the server's.
    #[error("cannot connect from {from} to {target}: one is IPv4, the other IPv6")]
    Source {
        /// The source address.
        from: IpAddr,
        /// The server's address.
        target: SocketAddr,
    },
    /// A thread could not start.
    #[error("cannot start a thread of the crowd: {0}")]
    Thread(#[from] io::Error),
}

/// Whether the token of the last listener, whose id is the longest, has room in a head.
pub(super) fn check_token(config: &FloodConfig, target: &Target) -> Result<(), FloodError> {
    let last = config.first_id + u64::from(config.users - 1);
    let token = config.tokens.as_ref().map(|tokens| tokens.sign(&target.id(last)));
    match token.is_some_and(|token| token.len() > TOKEN_BYTES_MAX) {
        true => Err(FloodError::Config("a listener's token has more than 6 KiB: shorten the ids")),
        false => Ok(()),
    }
}

/// Whether somebody vouches for a server that speaks TLS.
pub(super) fn check_trust(config: &FloodConfig, target: &Target) -> Result<(), FloodError> {
    match target.tls_name.is_some() && config.trust.is_none() {
        true => Err(FloodError::Config("https:// takes the authorities that vouch for the server")),
        false => Ok(()),
    }
}

/// Whether a crowd can be as it is asked for.
pub(super) fn check(config: &FloodConfig) -> Result<(), FloodError> {
    let rate_fits = config.connect_rate.is_finite() && config.connect_rate >= 0.0;
    let (vanish, come_back) =
        config.storm.map_or((0.0, 0.0), |storm| (storm.vanish, storm.come_back));
    let shares_fit = vanish >= 0.0 && come_back >= 0.0 && vanish + come_back + config.slow <= 1.0;
    match config {
        _ if config.users == 0 => Err(FloodError::Config("a crowd needs at least one user")),
        _ if config.first_id.checked_add(config.users.into()).is_none() => {
            Err(FloodError::Config("the ids of the users must fit into 64 bits"))
        }
        _ if config.resume && config.transport == Transport::Classic => {
            Err(FloodError::Config("the classic page cannot be resumed: leave --resume out"))
        }
        _ if config.opening_max == 0 => {
            Err(FloodError::Config("at least one stream must be allowed to open"))
        }
        _ if !rate_fits => Err(FloodError::Config("the rate of connections must be 0 or more")),
        _ if !(0.0..=1.0).contains(&config.slow) => {
            Err(FloodError::Config("the share of slow listeners must be between 0 and 1"))
        }
        _ if !shares_fit => {
            Err(FloodError::Config("listeners that vanish, come back or are slow are at most all"))
        }
        _ => Ok(()),
    }
}
