//! What is replaced while the server runs: files that are read again, and settings.

use std::sync::{Arc, PoisonError};

use auth::tokens;
use engine::Settings;
use proto::request::Hosts;

use crate::{Server, certs};

impl Server {
    /// Reads again what can be replaced while the server runs: certificates, and keys of tokens.
    pub async fn reload(&self) {
        certs::watch::reload(&self.certificates).await;
        if let Some(verifier) = &self.verifier {
            tokens::reload(verifier).await;
        }
    }

    /// Goes by these settings, and by these names of the API, from now on. What the server adds to
    /// both by itself, such as the names in its certificates, it adds to these too.
    pub fn set(&self, mut settings: Settings, mut api_hosts: Hosts) {
        let names = self.certificates.host_names();
        let apis = self.api.iter().chain(&self.tls_api);
        apis.for_each(|api| settings.origins.allow_api(*api));
        settings.origins.add_hosts(&names);
        api_hosts.add(&names);
        *self.api_hosts.write().unwrap_or_else(PoisonError::into_inner) = api_hosts;
        let engine = Arc::clone(&self.engine);
        // It is locked for writing while it is opened, which is over, and while it drains.
        if let Ok(engine) = engine.try_read() {
            engine.set(settings);
        }
    }
}
