//! The control plane of a server: made first, with nothing of it at work, and then begun.
//!
//! A server that starts begins it at once. One that inherits makes it beside a server that still
//! serves, and begins it when that one has gone: until then nothing here writes or sends.

mod rooms;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use anyhow::Result;
use auth::keys;
use auth::keys::ring::KeyRing;
use auth::live_access::LiveAccess;
use auth::tokens::{RevocationLine, Verifier};
use axum::Router;
use dispatch::barrier::Barrier;
use dispatch::channels::ChannelReader;
use dispatch::cluster::{Cluster, Joining, ReplicaSync};
use dispatch::idempotency;
use dispatch::idempotency::IdempotencyKeys;
use dispatch::posting::Sender;
use dispatch::presence::{self, Hook, Presence};
use dispatch::pusher_hooks::PusherHooks;
use dispatch::traces::TracesEnd;
use engine::{Engine, Guest, RefusedOrigins};
use gateway::ErlangTask;
use graph::Graph;
use httpd::host::ApiHosts;
use httpd::permits::ConnectionPermits;
use httpd::tls::{Handshakes, PROTOCOLS, Tls};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::erlang::ErlangStart;
use super::{Credentials, ServerSetup};
use crate::api::{Api, ApiParts, ApiPast};
use crate::certs::Certificates;
use crate::epoch::EpochFileComes;
use crate::keep::Keeping;
use crate::lane::Lanes;
use crate::listener::Service;
use crate::memory::Kept;
use crate::ports::{ApiAddresses, ApiListeners};
use crate::pusher_apps::AppsFile;
use crate::token_rates::TokenRates;
use crate::upgrade::{Program, Serving, Upgrades};
use crate::{
    ErlangConfig, ServeConfig, Server, api, certs, client_log, client_sends, epoch, handed_out,
    listener, memory, passing, refused_origins, replies, resumes, shortage,
};

/// What a server has more that is to be a node of a cluster.
pub(crate) struct Member {
    pub(crate) joining: Joining,
    /// What keeps its graph up to date, where that is a replica of what PostgreSQL has.
    pub(crate) replica_sync: Option<ReplicaSync>,
}

/// The control plane, at rest.
pub(crate) struct ControlPlane {
    pub(super) engine: Arc<RwLock<Engine>>,
    pub(super) graph: Graph,
    keeping: Option<Keeping>,
    router: Arc<engine::Router>,
    pub(super) cluster: Option<Arc<Cluster>>,
    sender: Sender,
    presence: Arc<Presence>,
    /// How long an id must be gone until it is told.
    presence_grace: Duration,
    hooks: Vec<Hook>,
    pusher_hooks: Option<Arc<PusherHooks>>,
    guest: Option<Guest>,
    refused_origins: Arc<RefusedOrigins>,
    erlang: Option<ErlangConfig>,
    backlog_bytes_max: usize,
    apis: ApiAddresses,
    state: Arc<Api>,
    routes: Router,
    api_hosts: ApiHosts,
    permits: Arc<ConnectionPermits>,
    /// Of clients of the public port that are served as those of the API.
    public_permits: Arc<ConnectionPermits>,
    certificates: Arc<Certificates>,
    handshakes: Arc<Handshakes>,
    keys: Arc<KeyRing>,
    verifier: Option<Arc<Verifier>>,
    pusher_apps: Option<Arc<AppsFile>>,
    traces: Option<TracesEnd>,
    live: LiveAccess,
    data: PathBuf,
    program: Option<Program>,
    never_upgraded: Option<&'static str>,
    running: DropGuard,
    /// What writes in the data directory by itself ends with it, before all the rest.
    chores: CancellationToken,
    stop: CancellationToken,
}

impl ControlPlane {
    /// Makes it, with what was sent with a key of late in `idempotency`. For a `member` it is at
    /// work at once.
    pub(crate) fn new(
        setup: ServerSetup,
        mut engine: Engine,
        graph: Graph,
        member: Option<Member>,
        idempotency: Arc<IdempotencyKeys>,
    ) -> Result<ControlPlane> {
        let ServerSetup { config, credentials, traces, apis, keeping, pusher_apps, hub } = setup;
        let Credentials { keys, tokens, certificates, live } = credentials;
        let never_upgraded = never_upgraded(&config);
        let stop = CancellationToken::new();
        let (running, barrier) = (stop.clone().drop_guard(), Barrier::new());
        let (traces, traces_end) = traces.unzip();
        let tokens = tokens.map(|setup| setup.start(engine.token_queue(), &stop)).transpose()?;
        let verifier = tokens.as_ref().map(|tokens| Arc::clone(tokens.verifier()));
        hub.iter().try_for_each(|hub| hub.begin(engine.hub_token_queue(), &stop))?;
        let (router, listen) = (Arc::clone(engine.router()), engine.address());
        let members = engine.watches().map(|watches| Arc::clone(watches.members()));
        let cluster = member.map(|Member { joining, replica_sync }| {
            let (router, graph) = (Arc::clone(&router), graph.clone());
            let keys = Arc::clone(&idempotency);
            joining.at(listen).telling_rooms(members.clone()).start(
                router,
                graph,
                replica_sync,
                tokens.clone(),
                keys,
                stop.clone(),
            )
        });
        let sender = Sender {
            channels: ChannelReader::new(Arc::clone(&router), members),
            router: Arc::clone(&router),
            graph: graph.clone(),
            cluster: cluster.clone(),
            barrier: barrier.clone(),
        };
        let acme_routes = certificates.acme().map(|_| {
            certificates.challenges().show_at(engine.well_known());
            certs::acme::challenges::routes(Arc::clone(certificates.challenges()))
        });
        let presence = Presence::new(Arc::clone(&router), &stop);
        let presence_grace = config.presence.grace;
        let hooks: Result<Vec<Hook>> =
            config.presence.webhooks.into_iter().map(Hook::new).collect();
        let pusher_hooks = config.engine.pusher.clone().map(PusherHooks::new);
        let guest = engine.take_guest();
        let engine = Arc::new(RwLock::new(engine));
        let permits = ConnectionPermits::new();
        let handshakes = Arc::<Handshakes>::default();
        let backlog_bytes_max = config.engine.backlog_bytes_max;
        let streams = config.streams.map(|streams| {
            let sends = (&sender, &idempotency);
            api::Streams::new(&config.data, streams, sends, backlog_bytes_max, &stop)
        });
        let state = Arc::new(api::open(ApiParts {
            engine: Arc::clone(&engine),
            sender: sender.clone(),
            presence: Arc::clone(&presence),
            keys: Arc::clone(&keys),
            live_id: live.id.clone(),
            tokens,
            certificates: Arc::clone(&certificates),
            handshakes: Arc::clone(&handshakes),
            backlog_bytes_max,
            trusted: config.engine.trusted,
            pusher: config.engine.pusher,
            pusher_hooks: pusher_hooks.clone(),
            hub,
            public_url: config.public_url,
            idempotency,
            traces,
            streams,
            log: keeping.as_ref().map(Keeping::archive),
            idle_limit: permits.idle_limit(),
            stop: stop.clone(),
        })?);
        let demo = config.demo.as_ref().map(|_| listen.port());
        let api_hosts = Arc::new(RwLock::new(config.api_hosts));
        let routes = api::routes(Arc::clone(&state), Arc::clone(&api_hosts), demo);
        let routes = routes.merge(acme_routes.unwrap_or_default());
        let routes = passing::guarded(routes, &barrier);
        let (refused_origins, erlang) = (config.engine.refused_origins, config.erlang);
        Ok(ControlPlane {
            engine,
            graph,
            keeping,
            router,
            cluster,
            sender,
            presence,
            presence_grace,
            hooks: hooks?,
            pusher_hooks,
            guest,
            refused_origins,
            erlang,
            backlog_bytes_max,
            apis,
            state,
            routes,
            api_hosts,
            permits,
            public_permits: ConnectionPermits::new(),
            certificates,
            handshakes,
            keys,
            verifier,
            pusher_apps,
            traces: traces_end,
            live,
            data: config.data,
            program: config.program,
            never_upgraded,
            running,
            chores: stop.child_token(),
            stop,
        })
    }

    /// Opens what is kept on disk beside the graph.
    pub(crate) async fn open_streams(&self) -> Result<()> {
        match self.state.streams() {
            Some(streams) => streams.open().await,
            None => Ok(()),
        }
    }

    /// Begins all that nobody calls for. Numbers of events are reserved in `epoch_file`, when it is
    /// there, but in a cluster, whose log gives them.
    pub(crate) fn begin(&mut self, epoch_file: impl EpochFileComes) {
        let hooks = std::mem::take(&mut self.hooks);
        hooks.into_iter().for_each(|hook| hook.begin(&self.presence));
        let (told, barrier) = (Arc::clone(&self.presence), Arc::clone(&self.sender.barrier));
        tokio::spawn(presence::run(told, barrier, self.presence_grace));
        let (router, stop) = (&self.router, &self.stop);
        let (replies, asked, notices, account) = {
            let engine = self.engine.read().unwrap_or_else(PoisonError::into_inner);
            let (replies, asked) = (Arc::clone(engine.replies()), Arc::clone(engine.resumes()));
            (replies, asked, Arc::clone(engine.notices()), Arc::clone(engine.account()))
        };
        tokio::spawn(replies::listen(replies));
        let rates = Arc::<TokenRates>::default();
        client_sends::answer_all(&self.state, &self.engine, Arc::clone(&rates));
        handed_out::serve_all(&self.state, &self.engine, rates, &self.public_permits, stop);
        for size in [resumes::Size::Small, resumes::Size::Large] {
            let (router, asked) = (Arc::clone(router), Arc::clone(&asked));
            tokio::spawn(resumes::answer(router, asked, size, self.graph.clone()));
        }
        tokio::spawn(resumes::wait_for_places(Arc::clone(router), asked));
        tokio::spawn(resumes::forget(Arc::clone(router)));
        tokio::spawn(epoch::keep(epoch_file, Arc::clone(router.event_ids()), self.graph.clone()));
        self.begin_rooms();
        tokio::spawn(client_log::tell(notices));
        tokio::spawn(shortage::warn(Arc::clone(&self.engine)));
        tokio::spawn(refused_origins::tell(Arc::clone(&self.refused_origins)));
        if let Some(cluster) = &self.cluster {
            let (engine, cluster) = (Arc::clone(&self.engine), Arc::clone(cluster));
            tokio::spawn(dispatch::cluster::count_streams(engine, cluster));
        }
        tokio::spawn(keys::ring::watch(Arc::clone(&self.keys), stop.clone()));
        if let Some(apps) = &self.pusher_apps {
            tokio::spawn(Arc::clone(apps).run(stop.clone()));
        }
        tokio::spawn(certs::watch::run(Arc::clone(&self.certificates), stop.clone()));
        if self.certificates.acme().is_some() {
            tokio::spawn(certs::acme::run(Arc::clone(&self.certificates), self.chores.clone()));
        }
        if let Some(streams) = self.state.streams() {
            tokio::spawn(Arc::clone(streams).sweep());
        }
        if let Some(keeping) = &self.keeping {
            keeping.begin_chores(self.cluster.is_some().then_some(router));
        }
        tokio::spawn(api::live::run(Arc::clone(&self.state)));
        tokio::spawn(idempotency::forget(Arc::clone(self.state.idempotency())));
        tokio::spawn(memory::give_back(Kept {
            names: Arc::clone(self.graph.names()),
            account,
            idempotency: Arc::clone(self.state.idempotency()),
            permits: [Arc::clone(&self.permits), Arc::clone(&self.public_permits)],
        }));
    }

    /// What our node among Erlang nodes is made of, if there is to be one.
    pub(crate) fn take_erlang(&mut self) -> Option<ErlangStart> {
        let (config, guest) = (self.erlang.take()?, self.guest.take()?);
        Some(ErlangStart {
            config,
            guest,
            sender: self.sender.clone(),
            presence: Arc::clone(&self.presence),
            backlog_bytes_max: self.backlog_bytes_max,
            data: self.data.clone(),
            state: Arc::clone(&self.state),
            stop: self.stop.clone(),
        })
    }

    /// Goes on with the API of the server before, and refuses the tokens that it refused.
    pub(crate) fn take_over(&self, api: ApiPast, revoked: Vec<RevocationLine<'_>>) {
        self.state.take_over(api);
        if let Some(tokens) = self.state.tokens() {
            tokens.learn(revoked);
        }
    }

    /// What the API knows.
    pub(crate) fn state(&self) -> &Arc<Api> {
        &self.state
    }

    /// Serves the API at `listeners`. What is left is to open the engine.
    pub(crate) fn serve(self, listeners: ApiListeners) -> Server {
        let tls = Tls::new(self.certificates.server_config(&PROTOCOLS), self.handshakes);
        let listening = listeners.listening();
        let (barrier, stop) = (self.sender.barrier, self.stop);
        let ports = listeners.ports(tls);
        // A cluster's log answers for each send, and a trace has more to tell of it.
        let has_lanes = self.cluster.is_none() && self.traces.is_none();
        let (listen, tls_listen, lanes) = {
            let engine = self.engine.read().unwrap_or_else(PoisonError::into_inner);
            let open = || Lanes::open(&engine, &self.state, &self.api_hosts, &stop);
            (engine.address(), engine.tls_address(), has_lanes.then(open))
        };
        let service = Service {
            routes: self.routes.clone(),
            permits: self.permits,
            lanes: lanes.clone(),
            stop: stop.clone(),
        };
        let run = listener::run(ports, service, Arc::clone(&barrier));
        let public_permits = self.public_permits;
        let run = async move {
            run.await;
            public_permits.take_all().await;
        };
        let erlang = Arc::<Mutex<Option<ErlangTask>>>::default();
        let hub = self.state.hub().cloned();
        let serving = Serving {
            engine: Arc::clone(&self.engine),
            graph: self.graph.clone(),
            keeping: self.keeping.clone(),
            barrier: Arc::clone(&barrier),
            lanes,
            router: self.router,
            state: self.state,
            data: self.data.clone(),
            apis: self.apis,
            listening,
            erlang: Arc::clone(&erlang),
            live: self.live,
            backlog_bytes_max: self.backlog_bytes_max,
            chores: self.chores,
        };
        let upgrades = Upgrades::new(serving, self.program, self.never_upgraded);
        let asked = Arc::clone(&upgrades).serve(&self.data, stop.clone());
        Server {
            engine: self.engine,
            graph: self.graph,
            keeping: self.keeping,
            cluster: self.cluster,
            listen,
            tls_listen,
            api: self.apis.plain,
            tls_api: self.apis.tls,
            api_hosts: self.api_hosts,
            certificates: self.certificates,
            verifier: self.verifier,
            hub,
            pusher_apps: self.pusher_apps,
            pusher_hooks: self.pusher_hooks,
            running: self.running,
            stop,
            barrier,
            routes: self.routes,
            api_task: tokio::spawn(run),
            passing_task: None,
            upgrades,
            upgrades_task: tokio::spawn(asked),
            erlang,
            traces: self.traces,
        }
    }
}

/// Why a server with this `config` is never upgraded in place.
fn never_upgraded(config: &ServeConfig) -> Option<&'static str> {
    if config.engine.cluster {
        return Some(
            "this server is a node of a cluster (--nats), which is not upgraded in place: end it \
             and start the new version, its clients go to the other nodes",
        );
    }
    config.demo.is_some().then_some(
        "this server is encke demo's, which is not upgraded in place: end it and start it anew",
    )
}
