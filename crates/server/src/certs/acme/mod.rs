//! Automatic certificates (ACME, RFC 8555): one for all names of `--acme-domain`, asked for when
//! there is none that is good, and again when two thirds of its life are over.
//!
//! It goes on beside everything else. A directory that is dead, slow or refuses costs a line in the
//! log and a later try. The certificate before stays in use for as long as it is good. Tries are 2
//! minutes to 6 hours apart, with as much again drawn at random. The first hour has five at most,
//! as many failures as public directories take; where one takes a number of its own for old, which
//! is no failure, it is asked again within seconds, a few times. A signal (SIGHUP) asks for a try
//! at once. Its files are read and written on threads that may wait for a disk.
//!
//! Names are proven at the ports that there are: by TLS-ALPN-01 (RFC 8737) where TLS is spoken, and
//! by HTTP-01 (RFC 8555, section 8.3) at the plain ones. With both, tries take turns.

pub(crate) mod challenges;
mod client;
mod order;
mod store;
mod turns;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use self::store::{Made, Store};
use self::turns::Turns;
use super::Certificates;
use super::pair::Pair;

/// How long a try may take.
const TRY_TIMEOUT: Duration = Duration::from_secs(300);

/// No sleep is longer, for the clock may be set, and machines sleep.
const SLEEP_MAX: Duration = Duration::from_secs(3600);

/// The part of a certificate's life, before two thirds of it, from which its renewal is drawn: not
/// all that were made at one time come back at one time.
const JITTER: f64 = 0.02;

/// What automatic certificates are asked for with.
#[derive(Clone, Debug)]
pub struct AcmeConfig {
    /// The names of hosts, in small letters, none of them with a wildcard.
    pub domains: Vec<String>,
    /// Addresses of mail for news about the account.
    pub contacts: Vec<String>,
    /// The URL of the directory.
    pub directory: String,
    /// A file with the authorities of the directory's own certificate; the system's unless given.
    pub ca: Option<PathBuf>,
}

/// How a name is proven.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Proof {
    /// By a handshake.
    TlsAlpn,
    /// By a plain request.
    Http,
}

/// Automatic certificates at work.
#[derive(Debug)]
pub(crate) struct Acme {
    config: AcmeConfig,
    store: Arc<Store>,
    /// How names may be proven here.
    proofs: Vec<Proof>,
    /// Rung by who wants a try at once.
    pub(super) now: Notify,
    counts: [AtomicU64; 2],
}

impl Acme {
    /// Automatic certificates that are kept in `dir`.
    pub(crate) fn new(config: AcmeConfig, dir: PathBuf, proofs: Vec<Proof>) -> Acme {
        Acme {
            store: Arc::new(Store::new(dir, &config.directory)),
            config,
            proofs,
            now: Notify::new(),
            counts: Default::default(),
        }
    }

    /// The names that are asked for.
    pub(crate) fn domains(&self) -> &[String] {
        &self.config.domains
    }

    /// How many tries had which outcome.
    pub(crate) fn tries(&self) -> [(&'static str, u64); 2] {
        let [made, failed] = &self.counts;
        [("ok", made.load(Ordering::Relaxed)), ("failed", failed.load(Ordering::Relaxed))]
    }

    /// The certificate that is kept, if it is for the names that are asked for.
    pub(super) fn kept(&self) -> Option<Pair> {
        let files = self.store.certificate_if_there()?;
        let pair = match Pair::read(&files) {
            Ok(pair) => pair,
            Err(error) => {
                tracing::warn!("an automatic certificate is asked for anew: {error}");
                return None;
            }
        };
        let covered = |domain: &String| pair.names.contains(domain);
        self.config.domains.iter().all(covered).then_some(pair)
    }
}

/// Asks for certificates and renews them, until `stop`.
pub(crate) async fn run(certificates: Arc<Certificates>, stop: CancellationToken) {
    let Some(acme) = certificates.acme.clone() else { return };
    tokio::select! {
        () = keep(&acme, &certificates) => {}
        () = stop.cancelled() => {}
    }
}

async fn keep(acme: &Arc<Acme>, certificates: &Arc<Certificates>) {
    let mut turns = Turns::new();
    loop {
        wait_until_due(certificates, &acme.now).await;
        let proof = turns.proof(&acme.proofs);
        let tried = timeout(TRY_TIMEOUT, obtain(acme, certificates, proof)).await;
        let tried = tried.unwrap_or_else(|late| Err(late).context("it took too long"));
        certificates.challenges.clear();
        let [made, failed] = &acme.counts;
        match tried {
            Ok(()) => {
                made.fetch_add(1, Ordering::Relaxed);
                turns = Turns::new();
            }
            Err(error) => {
                let soon = if order::is_bad_nonce(&error) { turns.stale() } else { None };
                let pause = soon.unwrap_or_else(|| turns.refused());
                tell(acme, &error, pause);
                // After it was told: who sees the figure finds the reason in the log.
                if soon.is_none() {
                    failed.fetch_add(1, Ordering::Relaxed);
                }
                // Who rang before that knew nothing of this failure.
                rung_or_after(&acme.now, pause).await;
            }
        }
    }
}

/// Tells of a try that failed, and when the next is.
fn tell(acme: &Acme, error: &anyhow::Error, pause: Duration) {
    tracing::error!(
        directory = acme.config.directory,
        "no certificate for {}: {error:#}; the next try is in {} s, or on SIGHUP",
        acme.config.domains.join(", "),
        pause.as_secs(),
    );
}

/// Waits until somebody rings or `time` is over.
async fn rung_or_after(now: &Notify, time: Duration) {
    // Which of both it was makes no difference.
    let _ = timeout(time, now.notified()).await;
}

/// Waits until a certificate is to be asked for: at once if there is none.
async fn wait_until_due(certificates: &Certificates, now: &Notify) {
    let early = JITTER * fastrand::f64();
    loop {
        let due = certificates.automatic().map(|pair| due(&pair, early));
        let left = due.map_or(0, |due| due - unix_seconds());
        let Ok(left @ 1..) = u64::try_from(left) else { return };
        // Whoever rings: what is good is not asked for anew.
        rung_or_after(now, Duration::from_secs(left).min(SLEEP_MAX)).await;
    }
}

/// When `pair` is to be renewed, in seconds since 1970.
fn due(pair: &Pair, early: f64) -> i64 {
    let life = (pair.ends() - pair.begins()).max(0);
    pair.begins() + (life as f64 * (2.0 / 3.0 - early)) as i64
}

/// Asks for a certificate, keeps it and puts it to use.
async fn obtain(acme: &Arc<Acme>, certificates: &Arc<Certificates>, proof: Proof) -> Result<()> {
    let made = order::order(&acme.config, &acme.store, &certificates.challenges, proof).await?;
    let (acme, certificates) = (Arc::clone(acme), Arc::clone(certificates));
    at_the_disk(move || put_to_use(&acme, &certificates, &made)).await
}

fn put_to_use(acme: &Acme, certificates: &Certificates, made: &Made) -> Result<()> {
    let files = acme.store.write_certificate(made)?;
    let pair = Pair::read(&files)?;
    let is_good = due(&pair, 0.0) > unix_seconds();
    pair.tell(sys::clock::unix_ms());
    certificates.install(pair);
    ensure!(
        is_good,
        "a certificate came that is to be renewed already: check this machine's clock"
    );
    Ok(())
}

/// Does `work` on a thread that may wait for a disk: the one of the control plane may not.
async fn at_the_disk<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    spawn_blocking(work).await.context("the server is about to end")?
}

fn unix_seconds() -> i64 {
    i64::try_from(sys::clock::unix_ms() / 1000).unwrap_or(i64::MAX)
}
