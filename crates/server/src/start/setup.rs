//! What a server has before it has an engine, one that starts and one that takes over alike.

use std::sync::Arc;

use anyhow::Result;
use auth::live_access::LiveAccess;
use auth::token_service::AuthenticatorSetup;
use dispatch::traces::{Traces, TracesEnd};

use super::Credentials;
use crate::keep::Keeping;
use crate::mercure_hub::Hub;
use crate::ports::ApiAddresses;
use crate::pusher_apps::{AppsFile, AppsServer};
use crate::reload::add_own_names;
use crate::{ServeConfig, demo_page};

/// The configuration, and what was read and begun by it.
pub(crate) struct ServerSetup {
    pub(crate) config: ServeConfig,
    pub(super) credentials: Credentials,
    /// What sends traces, if they go anywhere.
    pub(super) traces: Option<(Traces, TracesEnd)>,
    /// Where the API is: where it is wanted, until that is [known](ServerSetup::set_apis).
    pub(crate) apis: ApiAddresses,
    /// The log of the events that stay, which is not open yet, if some do.
    pub(crate) keeping: Option<Keeping>,
    /// The apps of the Pusher protocol, if there are some.
    pub(super) pusher_apps: Option<Arc<AppsFile>>,
    /// Who may listen and publish by the Mercure protocol, if it is served.
    pub(super) hub: Option<Arc<Hub>>,
}

impl ServerSetup {
    /// Reads what `config` names, and begins what sends traces. Nothing of it is seen by clients.
    pub(crate) async fn load(mut config: ServeConfig, live: LiveAccess) -> Result<ServerSetup> {
        let credentials = Credentials::load(&mut config, live).await?;
        let node = config.cluster.as_ref().map(|cluster| cluster.node.as_str());
        let traces = config.traces.take().map(|traces| Traces::start(traces, node)).transpose()?;
        let apis = ApiAddresses { plain: config.api, tls: config.tls_api };
        let has_hub = config.hub.is_some();
        let keeping = config.keep.as_ref().map(|keep| Keeping::new(&config.data, keep, has_hub));
        let pusher_apps = load_apps(&mut config)?;
        config.engine.hands_out = config.streams.is_some();
        let hub = load_hub(&mut config, &credentials)?;
        config.engine.event_store = keeping.as_ref().map(Keeping::event_store);
        Ok(ServerSetup { config, credentials, traces, apis, keeping, pusher_apps, hub })
    }

    /// The API is there. Puts into the engine's configuration what the control plane knows: its own
    /// ports, the names in certificates, and whether there is somebody beside the workers.
    pub(crate) fn set_apis(&mut self, apis: ApiAddresses) {
        let ServerSetup { config, credentials, .. } = self;
        let page = config.demo.as_ref().zip(apis.plain);
        let page = page.map(|(demo, api)| demo_page::page(demo, api.port()));
        config.engine.page = page.map(Arc::new);
        let (settings, api_hosts) = (&mut config.engine.settings, &mut config.api_hosts);
        add_own_names(settings, api_hosts, apis, &credentials.certificates);
        config.engine.guest = config.erlang.is_some();
        self.apis = apis;
    }
}

/// Reads the apps of the Pusher protocol, if there are some, and tells the engine of them.
fn load_apps(config: &mut ServeConfig) -> Result<Option<Arc<AppsFile>>> {
    let Some(path) = config.pusher_apps.take() else { return Ok(None) };
    let ports = [config.engine.listen, config.tls_listen, config.api, config.tls_api];
    let is_loopback = ports.into_iter().flatten().all(auth::is_loopback);
    let server = AppsServer { is_loopback, needs_tokens: config.engine.tokens.is_some() };
    let file = Arc::new(AppsFile::load(path, server)?);
    config.engine.pusher = Some(Arc::clone(file.live()));
    Ok(Some(file))
}

/// Reads the keys of the Mercure protocol, if it is served, and tells the engine of it.
fn load_hub(config: &mut ServeConfig, known: &Credentials) -> Result<Option<Arc<Hub>>> {
    let Some(hub) = config.hub.take() else { return Ok(None) };
    let ports = [config.engine.listen, config.tls_listen, config.api, config.tls_api];
    let is_reached = !ports.into_iter().flatten().all(auth::is_loopback);
    let public_url = config.public_url.as_ref().map(ToString::to_string);
    let revoked = known.tokens.as_ref().map(AuthenticatorSetup::revoked);
    let hub = Arc::new(Hub::open(hub, public_url, is_reached, revoked.as_ref())?);
    config.engine.mercure = Some(hub.config().clone());
    Ok(Some(hub))
}
