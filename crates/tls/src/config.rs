//! How both sides are to negotiate. What is chosen here, each with a measurement, stands in the
//! decision on TLS.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{self, cipher_suite as suites, kx_group};
use rustls::server::{NoServerSessionStorage, ResolvesServerCert};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, Error, RootCertStore, ServerConfig, SupportedCipherSuite,
    SupportedProtocolVersion,
};

use crate::Version;

/// What may be chosen beside what is always there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    /// Protocols for ALPN; a client that names none of them gets the alert
    /// `no_application_protocol` (RFC 7301). Empty takes any. The first one is spoken. Who agrees
    /// on another has come to see a certificate ([`Agreed`](crate::Agreed)).
    pub protocols: &'static [&'static [u8]],
    /// ChaCha20-Poly1305 behind AES-GCM, for clients that have no AES at all.
    pub chacha20: bool,
    /// X25519MLKEM768 before the other groups: 17 µs a handshake, and some 2.3 KB of it.
    pub post_quantum: bool,
    /// The newest version that is spoken; TLS 1.2 always is.
    pub newest: Version,
}

impl Default for Choice {
    /// HTTP/1.1, by AES-GCM and elliptic curves.
    fn default() -> Choice {
        Choice {
            protocols: &[b"http/1.1"],
            chacha20: false,
            post_quantum: false,
            newest: Version::Tls13,
        }
    }
}

/// AES-128-GCM alone where a client has it: TLS 1.3 demands it of all (RFC 8446, section 9.1), and
/// keys of 16 bytes and secrets of 32 keep a connection's keys at 104 bytes.
fn provider(choice: Choice) -> CryptoProvider {
    let mut cipher_suites: Vec<SupportedCipherSuite> = vec![
        suites::TLS13_AES_128_GCM_SHA256,
        suites::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        suites::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    ];
    if choice.chacha20 {
        cipher_suites.extend([
            suites::TLS13_CHACHA20_POLY1305_SHA256,
            suites::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
            suites::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        ]);
    }
    let mut kx_groups = vec![kx_group::X25519, kx_group::SECP256R1];
    if choice.post_quantum {
        kx_groups.insert(0, kx_group::X25519MLKEM768);
    }
    CryptoProvider { cipher_suites, kx_groups, ..aws_lc_rs::default_provider() }
}

static VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];

fn versions(choice: Choice) -> &'static [&'static SupportedProtocolVersion] {
    match choice.newest {
        Version::Tls12 => &VERSIONS[..1],
        Version::Tls13 => &VERSIONS,
    }
}

fn protocols(choice: Choice) -> Vec<Vec<u8>> {
    choice.protocols.iter().map(|name| name.to_vec()).collect()
}

/// A server's side, with the certificates that `resolver` has.
pub fn server_config(resolver: Arc<dyn ResolvesServerCert>, choice: Choice) -> Arc<ServerConfig> {
    let provider = provider(choice);
    // AWS-LC gathers its first seed for 25 ms, once in a process. Whoever makes a configuration has
    // the time; a worker's first handshake has not, with all its streams waiting. Where it fails,
    // handshakes do.
    let _ = provider.secure_random.fill(&mut [0; 1]);
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(versions(choice))
        .expect("the suites are of both versions")
        .with_no_client_auth()
        .with_cert_resolver(resolver);
    // OpenSSL's clients put ChaCha20 or AES-256 first.
    config.ignore_client_order = true;
    config.alpn_protocols = protocols(choice);
    // A stream lasts: a ticket would save 16 µs of its next handshake, and cost keys to keep.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.max_early_data_size = 0;
    config.send_half_rtt_data = false;
    config.enable_secret_extraction = true;
    Arc::new(config)
}

/// A client's side, which trusts `roots`. For load tools and tests.
pub fn client_config(roots: RootCertStore, choice: Choice) -> Result<Arc<ClientConfig>, Error> {
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider(choice)))
        .with_protocol_versions(versions(choice))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols(choice);
    config.resumption = rustls::client::Resumption::disabled();
    config.enable_secret_extraction = true;
    Ok(Arc::new(config))
}
