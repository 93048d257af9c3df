//! The connection to NATS: made once with a bound in time, then kept by the library.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use async_nats::connection::State as Link;
use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event, ServerAddr};
use tokio::sync::{mpsc, watch};
use tokio::time::{interval, timeout, timeout_at};

use crate::config::{ConfigError, NatsConfig};
use crate::limits::RECONNECT_PAUSE;
use crate::state::{Counters, Counts, State, count};

/// Events of the connection that wait for our task, of some 30 bytes each. One that is lost is made
/// good by the next look.
const EVENTS_WAITING_MAX: usize = 256;

/// How often the task looks at the connection without an event.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// A cluster's NATS. Clones are the same connection, which ends with the last of them and of what
/// was made of them.
#[derive(Clone)]
pub struct NatsClient {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) client: Client,
    pub(crate) cluster: String,
    pub(crate) replicas: usize,
    pub(crate) counters: Counters,
    state: watch::Sender<State>,
}

/// Why there is no connection. Nothing secret is in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A server does not let us in.
    #[error(
        "NATS at {servers} refuses the credentials: give user and password, a token, a \
         credentials file or a key of a user that the server knows"
    )]
    Refused {
        /// The addresses that were tried.
        servers: String,
    },
    /// No server has answered in time.
    #[error(
        "no connection to NATS at {servers} within {} s ({why}): see that a server runs there, \
         that this host reaches it, and that both speak TLS or neither",
        .within.as_secs_f64()
    )]
    Unreachable {
        /// The addresses that were tried.
        servers: String,
        /// What the last attempt met.
        why: String,
        /// How long it was tried.
        within: Duration,
    },
}

impl NatsClient {
    /// Connects to one of the servers. From then on the connection is kept: when it is lost, one to
    /// any of them is made again, and [`NatsClient::state`] says how it is.
    ///
    /// Call it within a tokio runtime: some tasks are spawned there.
    pub async fn connect(config: NatsConfig) -> Result<NatsClient, ConnectError> {
        let (addresses, options) = config.checked()?;
        let (events, events_rx) = mpsc::channel(EVENTS_WAITING_MAX);
        let options = options.event_callback(move |event| {
            let _ = events.try_send(event);
            std::future::ready(())
        });
        let client = first_connect(&config, &addresses, options).await?;
        let state = State {
            connected: false,
            server: String::new(),
            server_name: String::new(),
            server_version: String::new(),
            since: Instant::now(),
            connects: 0,
            last_error: None,
        };
        let shared = Arc::new(Shared {
            client,
            cluster: config.cluster,
            replicas: config.replicas,
            counters: Counters::default(),
            state: watch::Sender::new(state),
        });
        shared.look(None);
        tokio::spawn(keep(Arc::downgrade(&shared), events_rx));
        Ok(NatsClient { shared })
    }

    /// How the connection is now.
    #[must_use]
    pub fn state(&self) -> State {
        self.shared.state.borrow().clone()
    }

    /// The state of the connection, for those who wait for a change.
    #[must_use]
    pub fn watch_state(&self) -> watch::Receiver<State> {
        self.shared.state.subscribe()
    }

    /// What was counted since the start.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.shared.counters.read()
    }

    /// The name of the cluster.
    #[must_use]
    pub fn cluster(&self) -> &str {
        &self.shared.cluster
    }
}

/// Tries all servers again and again until one answers or time is up.
async fn first_connect(
    config: &NatsConfig,
    addresses: &[ServerAddr],
    options: ConnectOptions,
) -> Result<Client, ConnectError> {
    let servers = || {
        let all: Vec<String> = config.urls.iter().map(ToString::to_string).collect();
        all.join(", ")
    };
    let within = config.connect_timeout;
    let mut why = "nothing has answered".to_owned();
    let attempts = async {
        let mut pace = interval(RECONNECT_PAUSE);
        loop {
            pace.tick().await;
            match options.clone().connect(addresses).await {
                Ok(client) => return Ok(client),
                Err(error) => match error.kind() {
                    ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
                        return Err(ConnectError::Refused { servers: servers() });
                    }
                    _ => why = error.to_string(),
                },
            }
        }
    };
    match timeout(within, attempts).await {
        Ok(outcome) => outcome,
        Err(_) => Err(ConnectError::Unreachable { servers: servers(), why, within }),
    }
}

impl Shared {
    /// Whether there is a connection at this moment, as far as is known.
    pub(crate) fn watch_state(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.client.connection_state() == Link::Connected
    }

    /// Waits until there is a connection, or until `deadline`, and says whether there is one.
    pub(crate) async fn connected_by(&self, deadline: tokio::time::Instant) -> bool {
        let mut state = self.state.subscribe();
        while !self.is_connected() {
            // A second is the most by which a lost event makes the state late.
            let until = deadline.min(tokio::time::Instant::now() + LOOK_INTERVAL);
            if timeout_at(until, state.changed()).await.is_err() && until == deadline {
                break;
            }
        }
        self.is_connected()
    }

    /// Which connection this is: another number is another one.
    pub(crate) fn connects(&self) -> u64 {
        self.client.statistics().connects.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Waits until there is another connection than `connects`.
    pub(crate) async fn reconnected(&self, connects: u64) {
        let mut state = self.state.subscribe();
        while self.connects() == connects {
            // The sender is in `self`.
            let _ = state.changed().await;
        }
    }

    /// Brings the state to what the library says.
    fn look(&self, error: Option<String>) {
        let connected = self.is_connected();
        let info = self.client.try_server_info().unwrap_or_default();
        let connects = self.connects();
        self.state.send_if_modified(|state| {
            let old = state.clone();
            let mut new = State {
                connected,
                server: format!("{}:{}", info.host, info.port),
                server_name: info.server_name,
                server_version: info.version,
                since: old.since,
                connects,
                last_error: error.or(state.last_error.take()),
            };
            if connects != state.connects {
                new.last_error = None;
            }
            if (new.connected, new.connects) != (state.connected, state.connects) {
                new.since = Instant::now();
            }
            *state = new;
            *state != old
        });
    }
}

/// Follows what the library tells of the connection, until nobody has it any more.
async fn keep(shared: Weak<Shared>, mut events: mpsc::Receiver<Event>) {
    let mut looks = interval(LOOK_INTERVAL);
    loop {
        let event = tokio::select! {
            event = events.recv() => match event {
                Some(event) => Some(event),
                None => return,
            },
            _ = looks.tick() => None,
        };
        let Some(shared) = shared.upgrade() else { return };
        let mut error = None;
        match event {
            Some(Event::SlowConsumer(_)) => {
                count(&shared.counters.slow_consumer);
                tracing::error!("NATS's client has dropped a message: a subscription was full");
            }
            Some(Event::LameDuckMode) => leave(&shared.client).await,
            Some(Event::ClientError(why)) => error = Some(why.to_string()),
            Some(Event::ServerError(why)) => {
                tracing::warn!("NATS says: {why}");
                error = Some(why.to_string());
            }
            _ => {}
        }
        shared.look(error);
    }
}

/// Goes to another server before this one, which is about to stop, ends the connection: it would do
/// so at any time within two minutes, with what is under way.
async fn leave(client: &Client) {
    let others = client.server_pool().await.is_ok_and(|pool| pool.len() > 1);
    if others && client.force_reconnect().await.is_err() {
        tracing::debug!("the connection has ended already");
    }
}
