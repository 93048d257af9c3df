//! Connections: how many, how long a head may take, and when a peer that does not read is let go.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Connections of this machine.
const OWN_MAX: usize = 512;

/// Connections of others, who play songs of ours.
const OTHERS_MAX: usize = 64;

/// How long a head may take, and how long a connection may be kept between two.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes of a head: long names, escaped, three times over.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// How long a peer may take nothing of what is written to it.
const UNREAD_TIMEOUT: Duration = Duration::from_secs(60);

/// How long nothing is accepted when that fails: descriptors may be short.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Whom a request comes from.
#[derive(Clone, Copy)]
pub(super) struct Peer(pub(super) IpAddr);

impl Peer {
    pub(super) fn is_own(self) -> bool {
        self.0.to_canonical().is_loopback()
    }
}

/// Accepts until `stop`. Who comes beyond the bound is turned away at once: a browser tries again.
pub(super) async fn run(listener: TcpListener, routes: Router, stop: CancellationToken) {
    let own = Arc::new(Semaphore::new(OWN_MAX));
    let others = Arc::new(Semaphore::new(OTHERS_MAX));
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let (socket, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection is not accepted");
                // Waits for the stop or for the pause, whichever comes first.
                let _ = timeout(ACCEPT_PAUSE, stop.cancelled()).await;
                continue;
            }
        };
        let peer = Peer(address.ip());
        let room = if peer.is_own() { &own } else { &others };
        let Ok(permit) = room.clone().try_acquire_owned() else { continue };
        let (routes, stop) = (routes.clone(), stop.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = serve(socket, address, routes) => {}
            }
            drop(permit);
        });
    }
}

async fn serve(socket: TcpStream, address: SocketAddr, routes: Router) {
    let set = SockRef::from(&socket).set_tcp_user_timeout(Some(UNREAD_TIMEOUT));
    if set.is_err() || socket.set_nodelay(true).is_err() {
        // The peer is gone already.
        return;
    }
    let routes = TowerToHyperService::new(routes);
    let answer = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Peer(address.ip()));
        routes.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(socket), answer);
    // Whatever ended it, the client knows as well as we.
    let _ = connection.await;
}
