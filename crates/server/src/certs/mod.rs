//! The server's certificates: which there are, whose name gets which, and how they are replaced
//! while it runs.
//!
//! One set serves every TLS port. A handshake asks it once ([`ResolvesServerCert`]) and keeps what
//! it got, so a reload changes nothing for a connection that is there already. A pair that cannot
//! be used is an error at the start. Afterwards it is refused, told and counted, and the pair
//! before it stays.
//!
//! The set stands behind a lock of the standard library and not behind an atomic pointer. The lock
//! is held for one clone of an `Arc`, some 20 ns of a handshake's 74 µs. It is written only when a
//! certificate is replaced.

pub(crate) mod acme;
mod pair;
mod set;
mod trust;
pub(crate) mod watch;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use auth::file_watch::{self, Stamps};
use httpd::tls::ACME_TLS;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, SignatureScheme};

use self::acme::Acme;
use self::acme::challenges::Challenges;
use self::pair::Pair;
pub(crate) use self::pair::PairError;
use self::set::Set;
pub use self::trust::{TrustError, client_config, roots};

/// The files of one certificate, in PEM.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PairFiles {
    /// The certificate, and behind it those that lead to one which clients trust.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// All certificates of a running server.
#[derive(Debug)]
pub(crate) struct Certificates {
    provider: Arc<CryptoProvider>,
    files: Vec<PairFiles>,
    /// What the files looked like before they were read the first time.
    first_look: Stamps,
    /// Those of the files, in their order. Locked for as long as a reload takes, so that two do not
    /// mix.
    pairs: Mutex<Vec<Arc<Pair>>>,
    /// Those that are asked for, if they are, and what proves their names.
    acme: Option<Arc<Acme>>,
    challenges: Arc<Challenges>,
    /// The one that came.
    automatic: RwLock<Option<Arc<Pair>>>,
    set: RwLock<Arc<Set>>,
    counts: Counts,
}

/// What happened. Relaxed: it is only reported.
#[derive(Debug, Default)]
struct Counts {
    unmatched: AtomicU64,
    reloaded: AtomicU64,
    refused: AtomicU64,
}

/// What a reload did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Reloaded {
    /// Pairs that are in use as they are on disk now.
    pub(crate) taken: usize,
    /// Pairs that cannot be used, in whose place the ones before stay.
    pub(crate) refused: usize,
}

impl Certificates {
    /// Those of `files`; the first is for clients that name no host, or none of ours.
    ///
    /// # Errors
    /// One cannot be used: better heard at the start than by every client.
    pub(crate) fn load(
        files: Vec<PairFiles>,
        acme: Option<Acme>,
    ) -> Result<Arc<Certificates>, PairError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let first_look = file_watch::look(&watch::paths(&files));
        let pairs: Vec<Arc<Pair>> =
            files.iter().map(|files| Pair::read(files).map(Arc::new)).collect::<Result<_, _>>()?;
        pairs.iter().for_each(|pair| pair.tell(sys::clock::unix_ms()));
        let certificates = Certificates {
            provider,
            files,
            first_look,
            set: RwLock::new(Arc::new(Set::new(pairs.clone()))),
            pairs: Mutex::new(pairs),
            acme: acme.map(Arc::new),
            challenges: Arc::default(),
            automatic: RwLock::default(),
            counts: Counts::default(),
        };
        if let Some(pair) = certificates.acme.as_ref().and_then(|acme| acme.kept()) {
            pair.tell(sys::clock::unix_ms());
            certificates.install(pair);
        }
        Ok(Arc::new(certificates))
    }

    /// Reads the files again. To be called where it may wait for the disk.
    pub(crate) fn reload(&self) -> Reloaded {
        let mut pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
        let mut reloaded = Reloaded::default();
        for (files, pair) in self.files.iter().zip(pairs.iter_mut()) {
            match Pair::read(files) {
                Ok(new) => {
                    if new != **pair {
                        new.tell(sys::clock::unix_ms());
                        *pair = Arc::new(new);
                    }
                    reloaded.taken += 1;
                }
                Err(error) => {
                    tracing::error!("the certificate before stays in use: {error}");
                    reloaded.refused += 1;
                }
            }
        }
        self.swap(&pairs);
        let count = |counter: &AtomicU64, by| counter.fetch_add(by as u64, Ordering::Relaxed);
        count(&self.counts.reloaded, reloaded.taken);
        count(&self.counts.refused, reloaded.refused);
        reloaded
    }

    /// Puts `pair` in the place of the automatic one.
    fn install(&self, pair: Pair) {
        let pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
        let pair = Some(Arc::new(pair));
        *self.automatic.write().unwrap_or_else(PoisonError::into_inner) = pair;
        self.swap(&pairs);
    }

    /// Takes `pairs`, and behind them the automatic one, for all handshakes from now on.
    fn swap(&self, pairs: &[Arc<Pair>]) {
        let all = pairs.iter().cloned().chain(self.automatic()).collect();
        *self.set.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(Set::new(all));
    }

    fn automatic(&self) -> Option<Arc<Pair>> {
        self.automatic.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The automatic ones, if there are to be any.
    pub(crate) fn acme(&self) -> Option<&Arc<Acme>> {
        self.acme.as_ref()
    }

    /// What proves the names of automatic ones.
    pub(crate) fn challenges(&self) -> &Arc<Challenges> {
        &self.challenges
    }

    /// The settings of a port on which `protocols` are spoken (ALPN, RFC 7301): TLS 1.2 and 1.3,
    /// no early data. With automatic certificates `acme-tls/1` is spoken too, and whoever has
    /// agreed on that has seen all there is to see: the connection is to be closed.
    pub(crate) fn server_config(self: &Arc<Self>, protocols: &[&str]) -> Arc<ServerConfig> {
        let builder = ServerConfig::builder_with_provider(Arc::clone(&self.provider));
        let builder =
            builder.with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12]);
        let builder = builder.expect("the provider has suites of both versions");
        let resolver = Arc::clone(self) as Arc<dyn ResolvesServerCert>;
        let mut config = builder.with_no_client_auth().with_cert_resolver(resolver);
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        if self.acme.is_some() {
            config.alpn_protocols.push(ACME_TLS.to_vec());
        }
        Arc::new(config)
    }

    /// How the workers of streams meet their clients: by HTTP/1.1 alone, and such that a connection
    /// can be cut down to its keys.
    pub(crate) fn stream_config(self: &Arc<Self>) -> Arc<ServerConfig> {
        let protocols: &[&[u8]] = match self.acme {
            Some(_) => &[b"http/1.1", ACME_TLS],
            None => &[b"http/1.1"],
        };
        let resolver = Arc::clone(self) as Arc<dyn ResolvesServerCert>;
        tls::server_config(resolver, tls::Choice { protocols, ..tls::Choice::default() })
    }

    /// Whether there is no certificate and there is to be none.
    pub(crate) fn are_none(&self) -> bool {
        self.files.is_empty() && self.acme.is_none()
    }

    /// The names of hosts in all certificates, without those that stand for many, and those for
    /// which one is asked for.
    pub(crate) fn host_names(&self) -> Vec<String> {
        let set = self.current();
        let names = set.names().filter(|name| !name.starts_with('*')).map(str::to_owned);
        names.chain(self.acme.iter().flat_map(|acme| acme.domains().to_vec())).collect()
    }

    /// When each certificate ends, in seconds since 1970, by its first name. Of two with one name
    /// it is the one that ends first.
    pub(crate) fn ends(&self) -> Vec<(String, i64)> {
        self.current().ends()
    }

    /// How many handshakes named a host that no certificate is for.
    pub(crate) fn unmatched(&self) -> u64 {
        self.counts.unmatched.load(Ordering::Relaxed)
    }

    /// How many pairs were read again and taken, and how many refused.
    pub(crate) fn reloads(&self) -> [(&'static str, u64); 2] {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [("ok", read(&self.counts.reloaded)), ("failed", read(&self.counts.refused))]
    }

    fn current(&self) -> Arc<Set> {
        Arc::clone(&self.set.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn choose(&self, name: Option<&str>, schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let set = self.current();
        let for_name = name.map(|name| set.for_name(name, schemes));
        match for_name {
            Some(Some(key)) => return Some(key),
            Some(None) => self.counts.unmatched.fetch_add(1, Ordering::Relaxed),
            None => 0,
        };
        set.first(schemes)
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let mut protocols = hello.alpn().into_iter().flatten();
        if protocols.any(|protocol| protocol == ACME_TLS) {
            // It offers this one and no other (RFC 8737, section 3).
            let is_alone = hello.alpn().into_iter().flatten().count() == 1;
            return self.challenges.handshake(hello.server_name().filter(|_| is_alone)?);
        }
        self.choose(hello.server_name(), hello.signature_schemes())
    }
}

#[cfg(test)]
mod tests;
