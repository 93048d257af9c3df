//! Whom a tool trusts that speaks TLS, and how it speaks.

use std::fmt::{self, Debug};
use std::sync::Arc;

use tls::rustls::{ClientConfig, Error, RootCertStore};
use tls::{Choice, Version};

/// The authorities that vouch for a server, and the newest version that is spoken with it.
#[derive(Clone)]
pub struct Trust(Arc<ClientConfig>);

impl Trust {
    /// Trusts `roots`, and speaks TLS 1.2 or, up to `newest`, a later one.
    ///
    /// # Errors
    /// The library refuses: it has no suites for the version.
    pub fn new(roots: RootCertStore, newest: Version) -> Result<Trust, Error> {
        Ok(Trust(tls::client_config(roots, Choice { newest, ..Choice::default() })?))
    }

    /// What handshakes begin with.
    pub(crate) fn config(&self) -> &Arc<ClientConfig> {
        &self.0
    }
}

impl Debug for Trust {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Trust(…)")
    }
}

/// Whether both are the same, not whether both trust the same.
impl PartialEq for Trust {
    fn eq(&self, other: &Trust) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
