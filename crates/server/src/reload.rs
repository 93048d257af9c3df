//! What is replaced while the server runs: files that are read again, and settings.

use std::sync::{Arc, PoisonError};

use auth::tokens;
use engine::Settings;
use proto::request::Hosts;

use crate::Server;
use crate::certs::{self, Certificates};
use crate::ports::ApiAddresses;

/// Adds what the server knows by itself: whose pages may connect, as those of its API at `apis`
/// may, and what it is called, as in its certificates.
pub(crate) fn add_own_names(
    settings: &mut Settings,
    api_hosts: &mut Hosts,
    apis: ApiAddresses,
    certificates: &Certificates,
) {
    let names = certificates.host_names();
    apis.each().for_each(|api| settings.origins.allow_api(api));
    settings.origins.add_hosts(&names);
    api_hosts.add(&names);
}

impl Server {
    /// Reads again what can be replaced while the server runs: certificates, keys of tokens and
    /// of the hub of the Mercure protocol, and apps of the Pusher protocol.
    pub async fn reload(&self) {
        certs::watch::reload(&self.certificates).await;
        if let Some(verifier) = &self.verifier {
            tokens::reload(verifier).await;
        }
        if let Some(hub) = &self.hub {
            hub.reload().await;
        }
        if let Some(apps) = &self.pusher_apps {
            apps.reload().await;
        }
    }

    /// Goes by these settings, and by these names of the API, from now on. What the server adds to
    /// both by itself it adds to these too.
    pub fn set(&self, mut settings: Settings, mut api_hosts: Hosts) {
        let apis = ApiAddresses { plain: self.api, tls: self.tls_api };
        add_own_names(&mut settings, &mut api_hosts, apis, &self.certificates);
        *self.api_hosts.write().unwrap_or_else(PoisonError::into_inner) = api_hosts;
        let engine = Arc::clone(&self.engine);
        // It is locked for writing while it is opened, which is over, and while it drains.
        if let Ok(engine) = engine.try_read() {
            engine.set(settings);
        }
    }
}
