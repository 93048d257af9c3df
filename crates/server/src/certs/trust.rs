//! Whom our own clients of TLS trust: the authorities of the system, or those of one file.
//!
//! It takes the system's, not a list inside the program (`webpki-roots`). An operator who makes the
//! machine trust an authority means this program too. A list that ages with the binary would have
//! to be updated for each authority that goes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use thiserror::Error;

use super::pair::{PairError, certificates, contents};

/// Why nobody can be trusted.
#[derive(Debug, Error)]
pub enum TrustError {
    /// The file of authorities cannot be used.
    #[error("{0}")]
    File(String),
    /// One certificate of the file cannot be used.
    #[error("a certificate in {} cannot be used: {error}", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: rustls::Error,
    },
    /// The system has none.
    #[error(
        "this system trusts no authority{0}: install its certificates (on Debian the package \
         ca-certificates), or name the server's own with --ca FILE"
    )]
    NoneHere(String),
}

/// The settings of a client that trusts the authorities in the PEM file `ca` and no other; without
/// one those of the system. It speaks `protocols` (ALPN).
///
/// Reads files each time: some milliseconds for the system's.
pub fn client_config(
    ca: Option<&Path>,
    protocols: &[&str],
) -> Result<Arc<ClientConfig>, TrustError> {
    let roots = roots(ca)?;
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder.with_safe_default_protocol_versions();
    let builder = builder.expect("the provider has suites of both versions");
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    Ok(Arc::new(config))
}

/// The authorities in the PEM file `ca` and no other; without one those of the system.
pub fn roots(ca: Option<&Path>) -> Result<RootCertStore, TrustError> {
    match ca {
        Some(path) => roots_of(path),
        None => system_roots(),
    }
}

fn roots_of(path: &Path) -> Result<RootCertStore, TrustError> {
    let file = |error: PairError| TrustError::File(error.to_string());
    let (text, _) = contents(path).map_err(file)?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path, &text).map_err(file)? {
        let path = path.to_owned();
        roots.add(certificate).map_err(|error| TrustError::Certificate { path, error })?;
    }
    Ok(roots)
}

fn system_roots() -> Result<RootCertStore, TrustError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Some systems have one or the other of a form that nobody can read any more.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map(|error| format!(" ({error})")).unwrap_or_default();
        return Err(TrustError::NoneHere(why));
    }
    Ok(roots)
}
