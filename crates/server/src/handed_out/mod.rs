//! Clients of the public port that read durable streams, append to them, or publish by the Mercure
//! protocol.
//!
//! A worker lets each request in and hands its connection out ([`engine::HandOuts`]). Here it is
//! served as one of the API is, by the same code, and the connection ends with its answer. Whoever
//! came by TLS goes on with the keys that the worker had ([`sealed`]).
//!
//! As many may be served at one time as the API has connections, beside these: so clients of the
//! public port take no place of the API's. Further ones are answered 503.
//!
//! Cost: none until a client asks; then what a connection to the API costs.

mod sealed;

use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use dispatch::wake_fd::WakeFd;
use engine::{Engine, HandOuts, HandedOut};
use httpd::connection;
use httpd::exchange::Peer;
use httpd::permits::{ConnectionPermits, Permit};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use self::sealed::Sealed;
use crate::api::{Api, public_routes};
use crate::token_rates::TokenRates;

/// How long it is waited for the next one after the kernel could not give what there is, for want
/// of memory for example.
const PAUSE: Duration = Duration::from_millis(100);

/// Who serves them.
struct HandedOutServer {
    api: Arc<Api>,
    rates: Arc<TokenRates>,
    permits: Arc<ConnectionPermits>,
    stop: CancellationToken,
}

/// Serves what the workers of `engine` hand out, if they hand anything out, until all `permits` are
/// taken.
pub(crate) fn serve_all(
    api: &Arc<Api>,
    engine: &RwLock<Engine>,
    rates: Arc<TokenRates>,
    permits: &Arc<ConnectionPermits>,
    stop: &CancellationToken,
) {
    let engine = engine.read().unwrap_or_else(PoisonError::into_inner);
    let Some(hand_outs) = engine.hand_outs().cloned() else { return };
    let (api, permits, stop) = (Arc::clone(api), Arc::clone(permits), stop.clone());
    let server = Arc::new(HandedOutServer { api, rates, permits, stop });
    tokio::spawn(async move {
        if let Err(error) = server.run(hand_outs).await {
            tracing::error!("requests that workers hand on are not served any more: {error}");
        }
    });
}

impl HandedOutServer {
    async fn run(self: Arc<HandedOutServer>, hand_outs: HandOuts) -> io::Result<()> {
        let (wake, mut receiver) =
            (WakeFd::new(Arc::new(hand_outs.clone()))?, hand_outs.receiver());
        loop {
            match receiver.receive() {
                Ok(Some(handed)) => {
                    let permit = self.permits.take().await.into_ordinary();
                    tokio::spawn(Arc::clone(&self).serve(handed, permit));
                }
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => wake.rung().await?,
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(error),
                Err(error) => {
                    tracing::warn!("a client of durable streams waits, or is lost: {error}");
                    let _ = timeout(PAUSE, wake.rung()).await;
                }
            }
        }
    }

    /// Serves a connection to its end.
    async fn serve(self: Arc<HandedOutServer>, handed: HandedOut, permit: Permit) {
        let HandedOut { socket, read, secured, request, counted } = handed;
        // It fails for a connection that is broken.
        let Ok(stream) = TcpStream::from_std(socket.into()) else { return };
        connection::prepare(&stream);
        let (is_tls, ends_with_its_side) = (secured.is_some(), is_live(&read));
        let peer = Peer { is_tls, ends_with_its_side, ..Peer::UNKNOWN };
        let (read, limit, stop) = (Bytes::from(read), self.permits.idle_limit(), self.stop.clone());
        let (api, rates) = (Arc::clone(&self.api), Arc::clone(&self.rates));
        let routes = public_routes(api, request, rates, limit.clone());
        match secured {
            None => connection::serve(stream, read, peer, routes, &permit, limit, stop).await,
            Some((keys, sealed)) => {
                let stream = Sealed::new(stream, keys, sealed);
                connection::serve(stream, read, peer, routes, &permit, limit, stop).await;
            }
        }
        drop(counted);
    }
}

/// Whether the request that `read` begins with waits for what comes: one who has gone would else
/// hold its place, and its token's, until there is something to send.
fn is_live(read: &[u8]) -> bool {
    let line = read.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut parts = line.split(|byte| *byte == b' ');
    let (method, target) = (parts.next(), parts.next().unwrap_or_default());
    let query = target.splitn(2, |byte| *byte == b'?').nth(1).unwrap_or_default();
    let mut pairs = query.split(|byte| *byte == b'&');
    method == Some(b"GET") && pairs.any(|pair| pair.starts_with(b"live="))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_read_is_known_by_its_first_line() {
        for (line, expected) in [
            ("GET /v1/stream/a?offset=-1&live=sse HTTP/1.1\r\nHost: a", true),
            ("GET /v1/stream/a?live=long-poll HTTP/1.1\r\n", true),
            ("GET /v1/stream/a?offset=-1 HTTP/1.1\r\nX: ?live=sse", false),
            ("GET /v1/stream/live=sse HTTP/1.1\r\n", false),
            ("POST /v1/stream/a?live=sse HTTP/1.1\r\n", false),
            ("", false),
        ] {
            assert_eq!(is_live(line.as_bytes()), expected, "{line}");
        }
    }
}
