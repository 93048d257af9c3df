//! The API's ports: accepting connections, no more than so many, and ending them in order.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures_util::future::join_all;
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::accept_pace::AcceptPace;
use super::connection;
use super::exchange::Peer;
use super::permits::{IdleLimit, Permit, Permits};
use super::tls::{Opened, Tls, plain_routes};
use crate::gate::Gate;
use crate::log_interval::LogInterval;

/// How long to wait after an accept that failed for lack of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// One of the API's ports.
pub(crate) struct Door {
    pub(crate) listener: Arc<TcpListener>,
    /// `None` where plain HTTP is spoken.
    pub(crate) tls: Option<Tls>,
}

type Accepted = io::Result<(TcpStream, SocketAddr)>;

/// What a connection needs to be served.
#[derive(Clone)]
struct Service {
    routes: Router,
    permits: Arc<Permits>,
    stop: CancellationToken,
}

/// Accepts at all `doors` and serves until `stop` is cancelled, or `gate` leads on to another
/// program, which accepts at them from then on; then waits until every connection has ended. The
/// permits are for all doors together.
pub(crate) async fn run(
    doors: Vec<Door>,
    routes: Router,
    permits: Arc<Permits>,
    gate: Arc<Gate>,
    stop: CancellationToken,
) {
    let service = Service { routes, permits: Arc::clone(&permits), stop: stop.clone() };
    let accepting = async {
        join_all(doors.into_iter().map(|door| accept(door, service.clone()))).await;
        stop.cancelled().await;
    };
    tokio::select! {
        () = accepting => {}
        () = gate.moved() => {}
    }
    permits.take_all().await;
}

/// Serves a connection of the program before us, which says of each request whose it is.
pub(crate) async fn serve_passed(
    stream: UnixStream,
    routes: Router,
    permit: Permit,
    limit: IdleLimit,
    stop: CancellationToken,
) {
    let permit = permit.into_ordinary();
    connection::serve(stream, Peer::UNKNOWN, routes, &permit, limit, stop).await;
}

/// Accepts at one door until the end.
async fn accept(door: Door, service: Service) {
    let Door { listener, tls } = door;
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
                let peer = Peer { address: peer.ip(), is_tls: false };
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
        let Service { routes, permits, stop } = self;
        let mut limit = permits.idle_limit();
        connection::prepare(&stream);
        let Some(tls) = tls else {
            return connection::serve(stream, peer, routes, &permit, limit, stop).await;
        };
        let opened = tokio::select! {
            opened = tls.open(stream, &mut limit) => opened,
            () = stop.cancelled() => None,
        };
        match opened {
            Some(Opened::Tls(stream)) => {
                let peer = Peer { is_tls: true, ..peer };
                connection::serve(stream, peer, routes, &permit, limit, stop).await;
            }
            Some(Opened::Plain(stream)) => {
                connection::serve(stream, peer, plain_routes(), &permit, limit, stop).await;
            }
            None => {}
        }
    }
}
