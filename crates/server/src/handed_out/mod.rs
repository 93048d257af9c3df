//! Clients of the public port that read durable streams, append to them, or publish by the Mercure
//! protocol.
//!
//! A worker lets each request in and hands its connection out ([`engine::HandOuts`]); here it is
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
        let peer = Peer { is_tls: secured.is_some(), ..Peer::UNKNOWN };
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
