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
use httpd::connection::{self, IDLE_TIMEOUT, STALL_TIMEOUT};
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

/// One of the API's ports.
pub(crate) struct ApiPort {
    pub(crate) listener: Arc<TcpListener>,
    /// `None` where plain HTTP is spoken.
    pub(crate) tls: Option<Tls>,
}

type Accepted = io::Result<(TcpStream, SocketAddr)>;

/// What a connection needs to be served.
#[derive(Clone)]
struct Service {
    routes: Router,
    permits: Arc<ConnectionPermits>,
    /// Where single sends by plain HTTP are served, if anywhere but here.
    lanes: Option<Arc<Lanes>>,
    stop: CancellationToken,
}

/// Accepts at all `ports` and serves until `stop` is cancelled, or `barrier` leads on to another
/// program, which accepts at them from then on; then waits until every connection has ended. The
/// permits are for all ports together.
pub(crate) async fn run(
    ports: Vec<ApiPort>,
    routes: Router,
    permits: Arc<ConnectionPermits>,
    lanes: Option<Arc<Lanes>>,
    barrier: Arc<Barrier>,
    stop: CancellationToken,
) {
    let service = Service { routes, permits: Arc::clone(&permits), lanes, stop: stop.clone() };
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

    /// Serves a client without TLS, in a lane as long as it sends single events.
    async fn serve_plain(self, stream: TcpStream, peer: Peer, permit: Permit) {
        let Service { routes, permits, lanes, stop } = self;
        let mut limit = permits.idle_limit();
        let (mut stream, mut unread) = (stream, Bytes::new());
        let lanes = lanes.filter(|_| !permit.is_reserved());
        while let Some(lanes) = lanes.as_ref().filter(|_| unread.is_empty()) {
            let silent_since = Instant::now();
            let is_one = tokio::select! {
                is_one = lane::prefers(&stream) => is_one,
                () = stop.cancelled() => false,
                _ = limit.expired(silent_since, IDLE_TIMEOUT) => return,
            };
            let leased =
                if is_one { lanes.lease(stream, peer.address).await } else { Leased::No(stream) };
            match leased {
                Leased::No(here) => {
                    stream = here;
                    break;
                }
                Leased::Back { stream: back, unsent, unread: rest } => {
                    (stream, unread) = (back, rest.into());
                    let sent = timeout(STALL_TIMEOUT, stream.write_all(&unsent)).await;
                    if !matches!(sent, Ok(Ok(()))) {
                        return;
                    }
                }
                Leased::Closed => return,
            }
        }
        connection::serve(stream, unread, peer, routes, &permit, limit, stop).await;
    }
}
