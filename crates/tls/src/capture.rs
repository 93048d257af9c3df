//! Here is what a handshake tells of itself only while it goes on. That is its secrets, which
//! rustls hands over by its log of keys alone, and whether a client has named its server.

use std::fmt;
use std::sync::{Arc, OnceLock};

use rustls::KeyLog;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use zeroize::Zeroizing;

use crate::Suite;
use crate::cipher::Cipher;
use crate::derive::SECRET_BYTES;

/// A secret, once it is known. It is written where it stays, since what moves leaves a copy behind.
type Secret = OnceLock<Box<Zeroizing<[u8; SECRET_BYTES]>>>;

/// Stands in one handshake's own configuration. The secrets are written once, and wiped when it is
/// dropped.
#[derive(Default)]
pub(crate) struct Capture {
    client: Secret,
    server: Secret,
    /// What a client sends under within the handshake.
    handshake: Secret,
    /// A server's certificates.
    resolver: Option<Arc<dyn ResolvesServerCert>>,
    named: OnceLock<bool>,
}

impl Capture {
    /// A server's, which has its certificates from `resolver`.
    pub(crate) fn before(resolver: Arc<dyn ResolvesServerCert>) -> Capture {
        Capture { resolver: Some(resolver), ..Capture::default() }
    }

    /// Whether the client has named the server.
    pub(crate) fn named(&self) -> bool {
        self.named.get().is_some_and(|named| *named)
    }

    /// Copies the secret that clients, or servers, send under to `out`. Whether there is one.
    pub(crate) fn copy(&self, of_client: bool, out: &mut [u8; SECRET_BYTES]) -> bool {
        let place = if of_client { &self.client } else { &self.server };
        place.get().map(|secret| out.copy_from_slice(&***secret)).is_some()
    }

    /// Whether the client seals what it sends from now on in a handshake of TLS 1.3.
    pub(crate) fn is_sealed(&self) -> bool {
        self.handshake.get().is_some()
    }

    /// What opens the client's part of a handshake of TLS 1.3.
    pub(crate) fn handshake_cipher(&self, suite: Suite) -> Option<Cipher> {
        self.handshake.get().map(|secret| Cipher::of_secret(suite, secret))
    }

    fn place(&self, label: &str) -> Option<&Secret> {
        match label {
            "CLIENT_TRAFFIC_SECRET_0" => Some(&self.client),
            "SERVER_TRAFFIC_SECRET_0" => Some(&self.server),
            "CLIENT_HANDSHAKE_TRAFFIC_SECRET" => Some(&self.handshake),
            _ => None,
        }
    }
}

impl KeyLog for Capture {
    fn log(&self, label: &str, _client_random: &[u8], secret: &[u8]) {
        let Some(place) = self.place(label) else { return };
        // A suite with longer secrets is none of ours; without a secret the handshake fails.
        if secret.len() == SECRET_BYTES {
            let kept = place.get_or_init(|| {
                let mut kept = Box::new(Zeroizing::new([0; SECRET_BYTES]));
                kept.copy_from_slice(secret);
                kept
            });
            debug_assert!(kept[..] == *secret, "a handshake has one secret of each kind");
        }
    }

    fn will_log(&self, label: &str) -> bool {
        self.place(label).is_some()
    }
}

impl ResolvesServerCert for Capture {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.named.get_or_init(|| hello.server_name().is_some());
        self.resolver.as_ref()?.resolve(hello)
    }
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Capture")
    }
}
