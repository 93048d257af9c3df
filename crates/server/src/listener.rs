//! The API's ports: accepting connections, no more than so many, and ending them in order.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use bytes::Bytes;
use dispatch::barrier::Barrier;
use dispatch::log_interval::LogInterval;
use futures_util::future::join_all;
use httpd::accept_pace::AcceptPace;
use httpd::connection::{self, IDLE_TIMEOUT, STALL_TIMEOUT, Serving};
use httpd::exchange::Peer;
use httpd::permits::{ConnectionPermits, Permit};
use httpd::tls::{Opened, Tls, plain_routes};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::lane::{self, Lanes, Leased};

/// How long to wait after an accept that failed for lack of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How many requests of a connection that lanes know are answered here at most before it is leased
/// again. It begins with one and is doubled each time. A lease costs about as much as a request, so
/// a client whose requests are seldom for lanes pays for it seldom.
const ANSWERS_MAX: u32 = 1_024;

/// One of the API's ports.
pub(crate) struct ApiPort {
    pub(crate) listener: Arc<TcpListener>,
    /// `None` where plain HTTP is spoken.
    pub(crate) tls: Option<Tls>,
}

/// How many are answered at most while more of them is here, which cannot be leased: as many as the
/// library answers in one turn.
const ANSWERS_OF_A_TURN: u32 = 16;

type Accepted = io::Result<(TcpStream, SocketAddr)>;

/// What connections need to be served.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) routes: Router,
    /// For all ports together.
    pub(crate) permits: Arc<ConnectionPermits>,
    /// Where single sends by plain HTTP are served, if anywhere but here.
    pub(crate) lanes: Option<Arc<Lanes>>,
    pub(crate) stop: CancellationToken,
}

/// Accepts at all `ports` and serves until `service` is to stop, or `barrier` leads on to another
/// program, which accepts at them from then on; then waits until every connection has ended.
pub(crate) async fn run(ports: Vec<ApiPort>, service: Service, barrier: Arc<Barrier>) {
    let (permits, stop) = (Arc::clone(&service.permits), service.stop.clone());
    let accepting = async {
        join_all(ports.into_iter().map(|port| accept(port, service.clone()))).await;
        stop.cancelled().await;
    };
    tokio::select! {
        () = accepting => {}
        () = barrier.moved() => {}
    }
    permits.take_all().await;
}

/// Accepts at one port until the end.
async fn accept(port: ApiPort, service: Service) {
    let ApiPort { listener, tls } = port;
    let mut failures = LogInterval::default();
    let mut pace = AcceptPace::of_accepts();
    loop {
        let accepted = tokio::select! {
            () = service.stop.cancelled() => break,
            accepted = service.next(&listener) => accepted,
        };
        match accepted {
            (permit, Ok((stream, peer))) => {
                let (permit, service) = (permit.into_ordinary(), service.clone());
                let peer = Peer { address: peer.ip(), ..Peer::UNKNOWN };
                tokio::spawn(service.serve(stream, peer, permit, tls.clone()));
                if let Some(rest) = pace.accepted(Instant::now()) {
                    sleep(rest).await;
                }
            }
            (_, Err(error)) => {
                if let Some(suppressed) = failures.due(Instant::now()) {
                    tracing::warn!(
                        %error, suppressed,
                        "cannot accept a connection to the API; raise the limit on descriptors \
                         (ulimit -n) if that is what it lacks"
                    );
                }
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

impl Service {
    /// Waits for a place, and then for who takes it.
    async fn next(&self, listener: &TcpListener) -> (Permit, Accepted) {
        (self.permits.take().await, listener.accept().await)
    }

    /// Serves a connection to its end.
    async fn serve(self, stream: TcpStream, peer: Peer, permit: Permit, tls: Option<Tls>) {
        connection::prepare(&stream);
        let Some(tls) = tls else { return self.serve_plain(stream, peer, permit).await };
        let Service { routes, permits, stop, .. } = self;
        let mut limit = permits.idle_limit();
        let opened = tokio::select! {
            opened = tls.open(stream, &mut limit) => opened,
            () = stop.cancelled() => None,
        };
        match opened {
            Some(Opened::Tls(stream)) => {
                let peer = Peer { is_tls: true, ..peer };
                let unread = Bytes::new();
                connection::serve(stream, unread, peer, routes, &permit, limit, stop).await;
            }
            Some(Opened::Plain(stream)) => {
                let (unread, routes) = (Bytes::new(), plain_routes());
                connection::serve(stream, unread, peer, routes, &permit, limit, stop).await;
            }
            None => {}
        }
    }

    /// Serves a client without TLS, in a lane as long as it sends single events. What a lane does
    /// not take is answered here, and then the connection is leased again.
    async fn serve_plain(self, stream: TcpStream, peer: Peer, permit: Permit) {
        let Service { routes, permits, lanes, stop } = self;
        let idle_limit = permits.idle_limit();
        let mut serving = Serving { peer, routes, idle_limit, stop };
        let (mut stream, mut unread) = (stream, Bytes::new());
        // Whether it speaks HTTP/1.1 for sure, and how many answers it is given here at a time.
        let (mut is_known, mut answers) = (false, 1);
        let lanes = lanes.filter(|_| !permit.is_reserved());
        while let Some(lanes) = &lanes {
            let is_tried = unread.is_empty();
            if is_tried {
                let Some(is_one) = is_for_lanes(&mut serving, &stream).await else { return };
                is_known |= is_one;
                let leased = match is_one {
                    true => lanes.lease(stream, peer.address).await,
                    false => Leased::No(stream),
                };
                match leased {
                    Leased::No(here) => stream = here,
                    Leased::Back { stream: back, has_served, unsent, unread: rest } => {
                        (stream, unread) = (back, rest.into());
                        let sent = timeout(STALL_TIMEOUT, stream.write_all(&unsent)).await;
                        if !matches!(sent, Ok(Ok(()))) {
                            return;
                        }
                        if unread.is_empty() || has_served {
                            answers = 1;
                        }
                        if unread.is_empty() {
                            // It was silent or does not read, or the lane rests.
                            continue;
                        }
                    }
                    Leased::Closed => return,
                }
            }
            // The library ends one at once of which it has read nothing, and soon one that is idle
            // where all are to leave.
            if !is_known || lanes.are_recalled() || serving.stop.is_cancelled() {
                break;
            }
            let most = if is_tried { answers } else { ANSWERS_OF_A_TURN };
            let served = connection::serve_some(stream, unread, &serving, most).await;
            let Some(back) = served else { return };
            (stream, unread) = back;
            if is_tried {
                answers = (2 * answers).min(ANSWERS_MAX);
            }
        }
        let Serving { peer, routes, idle_limit, stop } = serving;
        connection::serve(stream, unread, peer, routes, &permit, idle_limit, stop).await;
    }
}

/// Whether what a client sends next is for lanes, once it is there, or the end has come. `None`
/// when it was silent for too long.
async fn is_for_lanes(serving: &mut Serving, stream: &TcpStream) -> Option<bool> {
    let silent_since = Instant::now();
    tokio::select! {
        // First, so that a request that is here is answered before its connection ends.
        biased;
        is_one = lane::prefers(stream) => Some(is_one),
        () = serving.stop.cancelled() => Some(false),
        _ = serving.idle_limit.expired_between(silent_since, IDLE_TIMEOUT) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Behind an upgrade, or at the end.
    #[tokio::test(start_paused = true)]
    async fn silent_connection_that_is_leased_now_and_then_goes_soon_where_all_are_to_leave() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _far = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let permits = ConnectionPermits::new();
        let _its = permits.take().await;
        let leaving = tokio::spawn({
            let permits = Arc::clone(&permits);
            async move { permits.take_all().await }
        });
        tokio::task::yield_now().await;
        let (idle_limit, stop) = (permits.idle_limit(), CancellationToken::new());
        let mut serving = Serving { peer: Peer::UNKNOWN, routes: Router::new(), idle_limit, stop };
        let gone = timeout(IDLE_TIMEOUT / 2, is_for_lanes(&mut serving, &stream));
        assert_eq!(gone.await, Ok(None));
        leaving.abort();
    }
}
