//! TLS on the API's port: handshakes, within bounds of number and time.
//!
//! A handshake has a permit as every connection has one, and the time of [`HANDSHAKE_TIMEOUT`], or
//! a second or two while permits are scarce. So clients that begin handshakes and end none go as
//! silent clients do, and probes are answered all the while. The work of a handshake, a signature
//! above all, is done on the one thread of the control plane. So handshakes begin a few at a time,
//! in the order in which their clients first spoke, and requests that are under way have the thread
//! in between.
//!
//! Who speaks plain HTTP here is told so, in plain HTTP.
//!
//! No answer says `Strict-Transport-Security` (RFC 6797). It would hold for all ports of the host,
//! and so close the plain ones beside this one to every browser that has seen the dashboard.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderValue, header};
use axum::response::IntoResponse;
use rustls::{HandshakeKind, ServerConfig};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::accept_pace::AcceptPace;
use super::permits::{Expired, IdleLimit};
use super::problem::ApiProblem;

/// What is spoken within TLS (RFC 7301), the preferred one first.
pub const PROTOCOLS: [&str; 2] = ["h2", "http/1.1"];

/// The protocol in which a directory of certificates speaks TLS to see its answer (RFC 8737,
/// section 6.2).
pub const ACME_TLS: &[u8] = b"acme-tls/1";

/// How long a handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The first byte of a handshake (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 0x16;

/// How handshakes end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    /// With keys that are new.
    Full,
    /// With keys of a session before.
    Resumed,
    /// One of both refused the other.
    Failed,
    /// The client took too long, or went away.
    Abandoned,
    /// The client spoke plain HTTP.
    Plain,
    /// A directory of automatic certificates has seen what it asked for.
    Challenge,
    /// The client waited a moment while permits were scarce, and made room for others.
    Displaced,
}

/// Their names in metrics.
const OUTCOMES: [&str; 7] =
    ["full", "resumed", "failed", "abandoned", "plain", "challenge", "displaced"];

/// How many handshakes ended how. Relaxed: it is only reported.
#[derive(Debug, Default)]
pub struct Handshakes([AtomicU64; OUTCOMES.len()]);

impl Handshakes {
    /// By outcome.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        OUTCOMES.into_iter().zip(self.0.iter().map(|count| count.load(Ordering::Relaxed)))
    }

    /// Counts on from what another process has counted.
    pub fn count_on(&self, counts: &[(String, u64)]) {
        for (outcome, count) in counts {
            if let Some(place) = OUTCOMES.iter().position(|own| own == outcome) {
                self.0[place].fetch_add(*count, Ordering::Relaxed);
            }
        }
    }

    fn count(&self, outcome: Outcome) {
        self.0[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// The TLS of one port.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
    /// Waited for in the order of those who come.
    pace: Arc<Mutex<AcceptPace>>,
    handshakes: Arc<Handshakes>,
}

/// What became of a connection.
pub enum Opened {
    /// TLS is spoken on it.
    Tls(Box<TlsStream<TcpStream>>),
    /// Plain HTTP is, which [`plain_routes`] answer.
    Plain(TcpStream),
}

impl Tls {
    /// What shows the certificates of `config`, and counts in `handshakes`.
    pub fn new(config: Arc<ServerConfig>, handshakes: Arc<Handshakes>) -> Tls {
        let pace = Arc::new(Mutex::new(AcceptPace::of_handshakes()));
        Tls { acceptor: config.into(), pace, handshakes }
    }

    /// Waits until TLS is spoken on `stream`; `None` when it never is.
    pub async fn open(&self, stream: TcpStream, limit: &mut IdleLimit) -> Option<Opened> {
        let start = Instant::now();
        let opened = tokio::select! {
            opened = self.handshake(stream) => opened,
            why = limit.expired(start, HANDSHAKE_TIMEOUT) => Err(match why {
                Expired::Timeout => Outcome::Abandoned,
                Expired::Scarce => Outcome::Displaced,
            }),
        };
        let outcome = match &opened {
            Ok(Opened::Plain(_)) => Outcome::Plain,
            Ok(Opened::Tls(stream)) => match stream.get_ref().1.handshake_kind() {
                Some(HandshakeKind::Resumed) => Outcome::Resumed,
                _ => Outcome::Full,
            },
            Err(outcome) => *outcome,
        };
        self.handshakes.count(outcome);
        opened.ok()
    }

    async fn handshake(&self, stream: TcpStream) -> Result<Opened, Outcome> {
        let mut first = [0];
        match stream.peek(&mut first).await {
            Ok(1..) if first[0] != HANDSHAKE => return Ok(Opened::Plain(stream)),
            Ok(1..) => {}
            Ok(0) | Err(_) => return Err(Outcome::Abandoned),
        }
        let mut pace = self.pace.lock().await;
        let rest = pace.accepted(Instant::now());
        let handshake = self.acceptor.accept(stream);
        if let Some(rest) = rest {
            sleep(rest).await;
        }
        drop(pace);
        match handshake.await {
            Ok(mut stream) if stream.get_ref().1.alpn_protocol() == Some(ACME_TLS) => {
                // It may be gone already.
                let _ = stream.shutdown().await;
                Err(Outcome::Challenge)
            }
            Ok(stream) => Ok(Opened::Tls(Box::new(stream))),
            Err(error) => {
                tracing::debug!(%error, "a client of the API did not come to speak TLS");
                // Of its own errors rustls makes this kind.
                let is_refusal = error.kind() == std::io::ErrorKind::InvalidData;
                Err(if is_refusal { Outcome::Failed } else { Outcome::Abandoned })
            }
        }
    }
}

/// What answers plain HTTP on a port of TLS.
pub fn plain_routes() -> Router {
    Router::new().fallback(async || {
        let mut response = ApiProblem::plain_on_tls().into_response();
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        response
    })
}
