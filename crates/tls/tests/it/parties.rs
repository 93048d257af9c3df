//! The two parties of a test: rustls with all that it has, and ours, which is cut down to keys.

use std::io::{Read, Write};
use std::sync::Arc;

use rcgen::generate_simple_self_signed;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{self, cipher_suite as suites};
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{
    ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection,
    SupportedCipherSuite,
};
use tls::{Choice, Failure, Fault, Handshake, Keys, Opened, Step, Suite, Version};

pub(crate) const NAME: &str = "push.test";

/// All that may be agreed on.
pub(crate) const ALL: [(Version, Suite); 4] = [
    (Version::Tls13, Suite::Aes128Gcm),
    (Version::Tls13, Suite::ChaCha20Poly1305),
    (Version::Tls12, Suite::Aes128Gcm),
    (Version::Tls12, Suite::ChaCha20Poly1305),
];

/// A server's certificate, and a client's trust in it.
pub(crate) struct Trust {
    resolver: Arc<dyn ResolvesServerCert>,
    pub(crate) roots: RootCertStore,
}

#[derive(Debug)]
struct Only(Arc<CertifiedKey>);

impl ResolvesServerCert for Only {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }
}

impl Trust {
    pub(crate) fn new() -> Trust {
        let made = generate_simple_self_signed([NAME.to_owned()]).unwrap();
        let cert = made.cert.der().clone();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let key = aws_lc_rs::sign::any_supported_type(&key).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(cert.clone()).unwrap();
        Trust { resolver: Arc::new(Only(Arc::new(CertifiedKey::new(vec![cert], key)))), roots }
    }

    pub(crate) fn server(&self, choice: Choice) -> Arc<ServerConfig> {
        tls::server_config(self.resolver.clone(), choice)
    }

    /// A whole client that speaks that alone.
    pub(crate) fn full_client(&self, version: Version, suite: Suite) -> ClientConfig {
        let builder = ClientConfig::builder_with_provider(only(version, suite))
            .with_safe_default_protocol_versions()
            .unwrap();
        let mut config = builder.with_root_certificates(self.roots.clone()).with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config
    }

    /// A whole server that speaks that alone, and sends tickets.
    pub(crate) fn full_server(&self, version: Version, suite: Suite) -> ServerConfig {
        let builder = ServerConfig::builder_with_provider(only(version, suite))
            .with_safe_default_protocol_versions()
            .unwrap();
        let mut config = builder.with_no_client_auth().with_cert_resolver(self.resolver.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config
    }
}

pub(crate) fn both_suites() -> Choice {
    Choice { chacha20: true, ..Choice::default() }
}

fn only(version: Version, suite: Suite) -> Arc<CryptoProvider> {
    let cipher_suites: Vec<SupportedCipherSuite> = match (version, suite) {
        (Version::Tls13, Suite::Aes128Gcm) => vec![suites::TLS13_AES_128_GCM_SHA256],
        (Version::Tls13, Suite::ChaCha20Poly1305) => vec![suites::TLS13_CHACHA20_POLY1305_SHA256],
        (Version::Tls12, Suite::Aes128Gcm) => {
            vec![suites::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256]
        }
        (Version::Tls12, Suite::ChaCha20Poly1305) => {
            vec![suites::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256]
        }
    };
    Arc::new(CryptoProvider { cipher_suites, ..aws_lc_rs::default_provider() })
}

/// rustls with all that it has.
pub(crate) struct Full(pub(crate) Connection);

impl Full {
    pub(crate) fn client(config: ClientConfig) -> Full {
        let name = ServerName::try_from(NAME).unwrap();
        Full(ClientConnection::new(Arc::new(config), name).unwrap().into())
    }

    pub(crate) fn server(config: ServerConfig) -> Full {
        Full(ServerConnection::new(Arc::new(config)).unwrap().into())
    }

    /// What it has to send.
    pub(crate) fn out(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        while self.0.wants_write() {
            self.0.write_tls(&mut out).unwrap();
        }
        out
    }

    /// The same after it was told to send that.
    pub(crate) fn say(&mut self, text: &[u8]) -> Vec<u8> {
        self.0.set_buffer_limit(None);
        self.0.writer().write_all(text).unwrap();
        self.out()
    }

    /// Takes bytes, and gives the text that was in them.
    pub(crate) fn hear(&mut self, mut bytes: &[u8]) -> Result<Vec<u8>, rustls::Error> {
        let mut text = Vec::new();
        while !bytes.is_empty() {
            self.0.read_tls(&mut bytes).unwrap();
            let state = self.0.process_new_packets()?;
            let from = text.len();
            text.resize(from + state.plaintext_bytes_to_read(), 0);
            self.0.reader().read_exact(&mut text[from..]).unwrap();
        }
        Ok(text)
    }
}

/// Ours, on a buffer of its own.
pub(crate) struct Ours {
    handshake: Option<Handshake>,
    pub(crate) keys: Box<Keys>,
    pub(crate) agreed: Option<tls::Agreed>,
    received: Vec<u8>,
    pub(crate) is_closed: bool,
}

impl Ours {
    fn new(handshake: Handshake) -> Ours {
        let (handshake, keys) = (Some(handshake), Box::default());
        Ours { handshake, keys, agreed: None, received: Vec::new(), is_closed: false }
    }

    pub(crate) fn server(trust: &Trust, choice: Choice) -> Ours {
        Ours::new(Handshake::server(&trust.server(choice)).unwrap())
    }

    pub(crate) fn client(trust: &Trust, choice: Choice) -> Ours {
        let config = tls::client_config(trust.roots.clone(), choice).unwrap();
        Ours::new(Handshake::client(&config, ServerName::try_from(NAME).unwrap()).unwrap())
    }

    /// A step of the handshake: what is to be sent.
    pub(crate) fn step(&mut self, bytes: &[u8]) -> (Vec<u8>, Result<bool, Failure>) {
        let mut out = Vec::new();
        let Some(handshake) = &mut self.handshake else {
            self.received.extend_from_slice(bytes);
            return (out, Ok(true));
        };
        match handshake.step(bytes, &mut out, &mut self.keys) {
            Ok(Step::NeedMore) => (out, Ok(false)),
            Ok(Step::Done { agreed, rest }) => {
                (self.handshake, self.agreed, self.received) = (None, Some(agreed), rest);
                (out, Ok(true))
            }
            Err(failure) => (out, Err(failure)),
        }
    }

    /// Takes bytes, and gives the text that was in them.
    pub(crate) fn hear(&mut self, bytes: &[u8]) -> Result<Vec<u8>, Fault> {
        self.received.extend_from_slice(bytes);
        let (mut text, mut at) = (Vec::new(), 0);
        let mut opener = self.keys.opener();
        loop {
            match opener.next(&mut self.received[at..])? {
                Opened::NeedMore { record } => {
                    assert!(record > self.received.len() - at);
                    break;
                }
                Opened::Idle { record } => at += record,
                Opened::Closed => {
                    self.is_closed = true;
                    break;
                }
                Opened::Data { record, text: range } => {
                    text.extend_from_slice(&self.received[at..][range]);
                    at += record;
                }
            }
        }
        self.received.drain(..at);
        Ok(text)
    }

    pub(crate) fn say(&mut self, text: &[u8]) -> Vec<u8> {
        let (mut out, mut at) = (Vec::new(), 0);
        let mut sealer = self.keys.sealer();
        let mut buffer = vec![0; tls::limits::SEALED_BYTES_MAX];
        while at < text.len() {
            let sealed = sealer.seal(&[text], at, &mut buffer).unwrap();
            out.extend_from_slice(&buffer[..sealed.bytes]);
            at += sealed.text;
        }
        out
    }

    pub(crate) fn alert(&mut self, alert: tls::Alert) -> Vec<u8> {
        let mut out = [0; tls::limits::ALERT_BYTES_MAX];
        let bytes = self.keys.sealer().alert(alert, &mut out);
        out[..bytes].to_vec()
    }
}
