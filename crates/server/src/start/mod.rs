//! The start of a server, in parts that one which inherits goes through as well: what stands before
//! there are ports ([`Credentials`]), and the control plane ([`ControlPlane`]).

mod control;
mod credentials;

use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use auth::keys::KeyFile;
use auth::live_access::LiveAccess;
use dispatch::cluster::{Joining, Keeper};
use dispatch::idempotency::IdempotencyKeys;
use dispatch::traces::{Traces, TracesEnd};
use engine::Engine;
use graph::{Graph, GraphOptions};

pub(crate) use self::control::{ControlPlane, Parts};
pub(crate) use self::credentials::Credentials;
use crate::ports::{ApiAddresses, ApiSockets};
use crate::reload::add_own_names;
use crate::{ServeConfig, Server, demo_page, epoch};

impl Server {
    /// Opens the store and starts. When this returns, clients can connect.
    pub async fn start(mut config: ServeConfig) -> Result<Server> {
        let live = LiveAccess::random().context("the system's random source fails")?;
        let credentials = Credentials::load(&mut config, live).await?;
        let traces = traces(&mut config)?;
        let age_ms = config.engine.history.age_ms_max;
        if let Some(cluster) = &mut config.cluster {
            cluster.history = Duration::from_millis(age_ms);
        }
        let ledger = config.cluster.as_mut().and_then(|cluster| cluster.ledger.take());
        let keeper = match ledger {
            Some(ledger) => Some(Keeper::open(config.data.clone(), ledger).await?),
            None => None,
        };
        let graph = match &keeper {
            Some(keeper) => keeper.graph(),
            None => open_graph(&config.data)?,
        };
        let wanted = ApiAddresses { plain: config.api, tls: config.tls_api };
        let sockets = ApiSockets::bind(wanted)?;
        let apis = sockets.addresses()?;
        tell_engine(&mut config, &credentials, apis);
        let random = getrandom::u64().map_err(|error| anyhow!("no random numbers: {error}"))?;
        let (mut epoch, epoch_file) = epoch::begin(&config.data, random, sys::clock::unix_ms());
        let joining = match config.cluster.take() {
            Some(cluster) => {
                let api_keys = KeyFile::in_dir(&config.data);
                Some(Joining::begin(cluster, epoch.base, api_keys).await?)
            }
            None => None,
        };
        if let Some(joining) = &joining {
            epoch = joining.epoch();
            config.engine.cluster = true;
        }
        // In a cluster the log gives the numbers.
        let epoch_file = joining.is_none().then_some(epoch_file);
        let engine = Engine::prepare(config.engine.clone(), epoch, Arc::clone(graph.names()))?;
        if !engine.full_workers_leave() {
            tracing::warn!(
                "this kernel does not let a full worker leave new clients to the others \
                 (SO_ATTACH_REUSEPORT_CBPF): some may be answered 503 before all workers are full"
            );
        }
        let idempotency = match &joining {
            Some(joining) => IdempotencyKeys::of_cluster(joining.keys_secret()),
            None => IdempotencyKeys::new().context("the system's random source fails")?,
        };
        let parts = Parts {
            config,
            credentials,
            traces,
            engine,
            graph,
            apis,
            joining,
            keeper,
            idempotency,
        };
        let mut control = ControlPlane::new(parts)?;
        control.begin(epoch_file);
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

/// Begins what sends traces, if they go anywhere.
pub(crate) fn traces(config: &mut ServeConfig) -> Result<Option<(Traces, TracesEnd)>> {
    let node = config.cluster.as_ref().map(|cluster| cluster.node.as_str());
    config.traces.take().map(|traces| Traces::start(traces, node)).transpose()
}

/// Puts into the engine's settings what the control plane knows: its own ports, the names in
/// certificates, and whether there is somebody beside the workers.
pub(crate) fn tell_engine(config: &mut ServeConfig, credentials: &Credentials, apis: ApiAddresses) {
    let page = config.demo.as_ref().zip(apis.plain);
    let page = page.map(|(demo, api)| demo_page::page(demo, api.port()));
    config.engine.page = page.map(Arc::new);
    let (settings, api_hosts) = (&mut config.engine.settings, &mut config.api_hosts);
    add_own_names(settings, api_hosts, apis, &credentials.certificates);
    config.engine.guest = config.erlang.is_some();
}

/// Opens the store in `dir`.
pub fn open_graph(dir: &Path) -> Result<Graph> {
    Ok(Graph::open(dir, &GraphOptions::default())?)
}
