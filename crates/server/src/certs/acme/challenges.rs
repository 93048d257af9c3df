//! What proves to a directory that a name is ours: answers that are there while it asks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use anyhow::{Context, Result, ensure};
use axum::Router;
use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use engine::WellKnown;
use httpd::problem::ApiProblem;
use rcgen::{CertificateParams, CustomExtension, KeyPair};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;

/// Where a directory asks for an answer (RFC 8555, section 8.3), before the token.
const PATH: &str = "/.well-known/acme-challenge/";

/// The answers of the order under way. There are as many as it has names.
#[derive(Debug, Default)]
pub(crate) struct Challenges {
    handshakes: Mutex<HashMap<String, Arc<CertifiedKey>>>,
    /// By token.
    requests: Mutex<HashMap<String, String>>,
    /// Where the workers of streams show these too, if they have a plain port.
    shown: OnceLock<WellKnown>,
}

impl Challenges {
    /// The certificate that answers for `name`.
    pub(crate) fn handshake(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        let handshakes = self.handshakes.lock().unwrap_or_else(PoisonError::into_inner);
        handshakes.get(&name.to_ascii_lowercase()).cloned()
    }

    /// The text that answers for `token`.
    pub(crate) fn request(&self, token: &str) -> Option<String> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).get(token).cloned()
    }

    /// Answers for `name` with the SHA-256 of the key authorization (RFC 8737, section 3).
    pub(super) fn add_handshake(
        &self,
        name: &str,
        digest: &[u8],
        provider: &CryptoProvider,
    ) -> Result<()> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new([name.to_owned()])?;
        params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
        let certificate = params.self_signed(&key)?;
        let secret = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let chain = vec![certificate.der().clone()];
        let secret = provider.key_provider.load_private_key(secret);
        let secret = secret.context("the answer to TLS-ALPN-01 cannot be made")?;
        // Not checked against each other: nobody reads a certificate with such an extension.
        let certified = CertifiedKey::new(chain, secret);
        let mut handshakes = self.handshakes.lock().unwrap_or_else(PoisonError::into_inner);
        handshakes.insert(name.to_owned(), Arc::new(certified));
        Ok(())
    }

    /// Answers for `token` with the key authorization.
    pub(super) fn add_request(&self, token: &str, answer: &str) -> Result<()> {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.insert(token.to_owned(), answer.to_owned());
        ensure!(self.show(&requests), "more names than a certificate can have: give fewer");
        Ok(())
    }

    /// Has the workers of streams show the answers to requests too, from now on.
    pub(crate) fn show_at(&self, shown: WellKnown) {
        // There is one engine.
        let _ = self.shown.set(shown);
    }

    fn show(&self, requests: &HashMap<String, String>) -> bool {
        let texts =
            requests.iter().map(|(token, answer)| (format!("{PATH}{token}"), answer.clone()));
        self.shown.get().is_none_or(|shown| shown.show(texts.collect()))
    }

    /// Forgets all.
    pub(super) fn clear(&self) {
        self.handshakes.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        if !requests.is_empty() {
            requests.clear();
            self.show(&requests);
        }
    }
}

/// The path of HTTP-01, which everybody may call by every name: the directory has no key, and an
/// answer tells nothing that it has not asked for.
pub(crate) fn routes(challenges: Arc<Challenges>) -> Router {
    let answer = async move |Path(token): Path<String>| -> Response {
        match challenges.request(&token) {
            Some(answer) => {
                ([(header::CONTENT_TYPE, "application/octet-stream")], answer).into_response()
            }
            None => {
                let detail = "No directory asks for this now.";
                ApiProblem::new(StatusCode::NOT_FOUND, detail).into_response()
            }
        }
    };
    Router::new().route(&format!("{PATH}{{token}}"), get(answer))
}
