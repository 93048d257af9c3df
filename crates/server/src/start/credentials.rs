//! What stands before there are ports: keys of the API, tokens of streams, certificates. Nothing of
//! it is seen from outside, so a file that is wrong ends the start before a client could connect.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use auth::keys::ring::KeyRing;
use auth::live_access::LiveAccess;
use auth::token_service::{AuthenticatorSetup, open_authenticator};
use engine::TlsConfig;

use crate::ServeConfig;
use crate::certs::Certificates;
use crate::certs::acme::{Acme, Proof};
use crate::ports::{keys_for, needs_certificate};

/// Who is let in, and what the server shows of itself.
pub(crate) struct Credentials {
    pub(super) keys: Arc<KeyRing>,
    /// The tokens of streams, where they are needed.
    pub(super) tokens: Option<AuthenticatorSetup>,
    pub(super) certificates: Arc<Certificates>,
    /// By which the dashboard listens.
    pub(super) live: LiveAccess,
}

impl Credentials {
    /// Reads what `config` names, and tells the engine's part of it.
    pub(crate) async fn load(config: &mut ServeConfig, live: LiveAccess) -> Result<Credentials> {
        let api_ports = [(config.api, "--api"), (config.tls_api, "--tls-api")];
        let keys = Arc::new(keys_for(api_ports, &config.data)?);
        let ports: Vec<SocketAddr> =
            config.engine.listen.into_iter().chain(config.tls_listen).collect();
        let (access, in_cluster) = (std::mem::take(&mut config.access), config.cluster.is_some());
        let tokens = open_authenticator(access, &ports, &config.data, &live, in_cluster).await?;
        let cookie = std::mem::take(&mut config.token_cookie);
        config.engine.tokens = tokens.as_ref().map(|tokens| tokens.config(cookie));
        let acme = config.acme.take().map(|acme| {
            let (tls, plain) = (config.tls_listen.or(config.tls_api), config.engine.listen);
            let proofs = [(tls, Proof::TlsAlpn), (plain.or(config.api), Proof::Http)];
            let proofs = proofs.into_iter().filter_map(|(port, proof)| port.map(|_| proof));
            Acme::new(acme, config.data.join("acme"), proofs.collect())
        });
        let certificates = Certificates::load(std::mem::take(&mut config.certificates), acme)?;
        if let Some(option) = needs_certificate(&config.tls_listen, &config.tls_api)
            && certificates.are_none()
        {
            return Err(anyhow!(
                "{option} needs a certificate: give --tls-cert and --tls-key, each a PEM file, or \
                 --acme-domain"
            ));
        }
        config.engine.tls = config
            .tls_listen
            .map(|listen| TlsConfig { listen, config: certificates.stream_config() });
        Ok(Credentials { keys, tokens, certificates, live })
    }
}
