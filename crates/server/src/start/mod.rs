//! The start of a server, in parts that one which takes over goes through as well: what stands
//! before there is an engine ([`ServerSetup`]), and the control plane ([`ControlPlane`]).

mod control;
mod credentials;
mod erlang;
mod setup;

use std::future::ready;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use auth::keys::KeyFile;
use auth::live_access::LiveAccess;
use dispatch::cluster::{ClusterConfig, Joining, KeptLog, ReplicaSync};
use dispatch::idempotency::IdempotencyKeys;
use engine::Engine;
use graph::{Graph, GraphOptions};

pub(crate) use self::control::ControlPlane;
use self::control::Member;
use self::credentials::Credentials;
pub(crate) use self::setup::ServerSetup;
use crate::epoch::Begun;
use crate::ports::ApiSockets;
use crate::{ServeConfig, Server, epoch};

impl Server {
    /// Opens the graph and starts. When this returns, clients can connect.
    pub async fn start(config: ServeConfig) -> Result<Server> {
        let live = LiveAccess::random().context("the system's random source fails")?;
        let mut setup = ServerSetup::load(config, live).await?;
        let config = &mut setup.config;
        let ages_ms = config.engine.remember.iter().map(|rule| rule.age_ms_max);
        let age_ms = ages_ms.fold(config.engine.history.age_ms_max, u64::max);
        if let Some(cluster) = &mut config.cluster {
            cluster.history = Duration::from_millis(age_ms);
        }
        let store = config.cluster.as_mut().and_then(|cluster| cluster.store.take());
        let replica_sync = match store {
            Some(store) => Some(ReplicaSync::open(config.data.clone(), store).await?),
            None => None,
        };
        let graph = match &replica_sync {
            Some(replica_sync) => replica_sync.graph(),
            None => open_graph(&config.data)?,
        };
        let sockets = ApiSockets::bind(setup.apis)?;
        setup.set_apis(sockets.addresses()?);
        let random = getrandom::u64().map_err(|error| anyhow!("no random numbers: {error}"))?;
        let begun = begin_epoch(&setup, random).await?;
        let (mut epoch, epoch_file) = (begun.epoch, begun.file);
        let member = match setup.config.cluster.take() {
            Some(cluster) => {
                let joining = join(cluster, &setup, epoch.base).await?;
                Some(Member { joining, replica_sync })
            }
            None => None,
        };
        if let Some(Member { joining, .. }) = &member {
            epoch = joining.epoch();
            setup.config.engine.cluster = true;
        }
        // In a cluster the log gives the numbers.
        let epoch_file = member.is_none().then_some(epoch_file);
        let names = Arc::clone(graph.names());
        let engine = Engine::prepare(setup.config.engine.clone(), epoch, names)?;
        if setup.keeping.is_some() && member.is_none() {
            // Of what is not kept nothing is known of before.
            engine.router().forget_up_to(begun.start);
            engine.router().event_ids().set_lost(begun.lost);
        }
        if !engine.full_workers_leave() {
            tracing::warn!(
                "this kernel does not let a full worker leave new clients to the others \
                 (SO_ATTACH_REUSEPORT_CBPF): some may be answered 503 before all workers are full"
            );
        }
        let idempotency = match &member {
            Some(member) => IdempotencyKeys::of_cluster(member.joining.keys_secret()),
            None => IdempotencyKeys::new().context("the system's random source fails")?,
        };
        let mut control = ControlPlane::new(setup, engine, graph, member, idempotency)?;
        control.open_streams().await?;
        control.begin(ready(epoch_file));
        let erlang = match control.take_erlang() {
            Some(erlang) => Some(erlang.start(Duration::ZERO).await?),
            None => None,
        };
        let server = control.serve(sockets.listen()?);
        server.set_erlang(erlang);
        if let Some(cluster) = &server.cluster {
            cluster.joined().await?;
        }
        let mut engine = server.engine.write().unwrap_or_else(PoisonError::into_inner);
        // Signals are for the threads of the control plane.
        sys::signals::blocked(|| engine.open())??;
        drop(engine);
        Ok(server)
    }
}

/// Begins the epoch of this process, or goes on with that of the events that stay, whose log is
/// opened.
async fn begin_epoch(setup: &ServerSetup, random: u64) -> Result<Begun> {
    let log = match &setup.keeping {
        Some(keeping) => Some(keeping.open().await?),
        None => None,
    };
    // A node of a cluster keeps events under its numbers.
    let is_alone = setup.config.cluster.is_none();
    let log = log.filter(|_| is_alone);
    let begun = epoch::begin(&setup.config.data, random, sys::clock::unix_ms(), log);
    if let Some(keeping) = setup.keeping.as_ref().filter(|_| is_alone) {
        keeping.begin(&begun)?;
    }
    Ok(begun)
}

/// Reaches the log of the cluster. `above` is a number beyond which this server has given none.
async fn join(cluster: ClusterConfig, setup: &ServerSetup, above: u64) -> Result<Joining> {
    let api_keys = KeyFile::in_dir(&setup.config.data);
    let Some(keeping) = setup.keeping.clone() else {
        return Joining::begin(cluster, above, api_keys).await;
    };
    let joining = Joining::begin(cluster, above.max(keeping.last()), api_keys).await?;
    keeping.put_aside_if_foreign(joining.epoch())?;
    Ok(joining.keeping(Arc::new(keeping)))
}

/// Opens the graph in the data directory `dir`.
pub fn open_graph(dir: &Path) -> Result<Graph> {
    Ok(Graph::open(dir, &GraphOptions::default())?)
}
