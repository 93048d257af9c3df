//! Connections: how many, how long a head may take, and when a peer that does not read is let go.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
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
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Connections of this machine.
const OWN_MAX: usize = 512;

/// Connections of others, who play songs of ours.
const OTHERS_MAX: usize = 64;

/// Those of one address, so that nobody has all the places: a browser opens six.
const ADDRESS_MAX: usize = 8;

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
pub(super) struct HttpPeer(pub(super) IpAddr);

impl HttpPeer {
    pub(super) fn is_own(self) -> bool {
        self.0.to_canonical().is_loopback()
    }

    /// Whose share it has: in IPv6 one host has all addresses of a network of 64 bits.
    fn holder(self) -> IpAddr {
        match self.0.to_canonical() {
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
            address => address,
        }
    }
}

/// Accepts until `stop`. Who comes beyond the bound is turned away at once: a browser tries again.
pub(super) async fn run(listener: TcpListener, routes: Router, stop: CancellationToken) {
    let mut places = Places::new();
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
        let peer = HttpPeer(address.ip());
        let Some(place) = places.take(peer) else { continue };
        let (routes, stop) = (routes.clone(), stop.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = serve(socket, address, routes) => {}
            }
            drop(place);
        });
    }
}

/// Places for connections.
struct Places {
    own: Arc<Semaphore>,
    others: Arc<Semaphore>,
    /// What is left of the share of each address that has a connection.
    shares: HashMap<IpAddr, Arc<Semaphore>>,
}

impl Places {
    fn new() -> Places {
        let [own, others] = [OWN_MAX, OTHERS_MAX].map(|places| Arc::new(Semaphore::new(places)));
        Places { own, others, shares: HashMap::new() }
    }

    /// A place, free again when it is dropped; nothing where there is none for this peer.
    fn take(&mut self, peer: HttpPeer) -> Option<ConnectionPlace> {
        if peer.is_own() {
            let all = self.own.clone().try_acquire_owned().ok()?;
            return Some(ConnectionPlace { _all: all, _share: None });
        }
        let all = self.others.clone().try_acquire_owned().ok()?;
        self.shares.retain(|_, share| share.available_permits() < ADDRESS_MAX);
        let share = self.shares.entry(peer.holder());
        let share = share.or_insert_with(|| Arc::new(Semaphore::new(ADDRESS_MAX)));
        let share = share.clone().try_acquire_owned().ok()?;
        Some(ConnectionPlace { _all: all, _share: Some(share) })
    }
}

/// One place, of all and of the share of an address.
struct ConnectionPlace {
    _all: OwnedSemaphorePermit,
    _share: Option<OwnedSemaphorePermit>,
}

async fn serve(socket: TcpStream, address: SocketAddr, routes: Router) {
    let set = SockRef::from(&socket).set_tcp_user_timeout(Some(UNREAD_TIMEOUT));
    if set.is_err() || socket.set_nodelay(true).is_err() {
        // The peer is gone already.
        return;
    }
    let routes = TowerToHyperService::new(routes);
    let answer = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(HttpPeer(address.ip()));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_has_its_share_and_leaves_the_others_theirs() {
        let peer = |text: &str| HttpPeer(text.parse().unwrap());
        let mut places = Places::new();
        for (greedy, same) in
            [("192.0.2.1", "::ffff:192.0.2.1"), ("2001:db8::1", "2001:db8::ffff:1")]
        {
            let mut held: Vec<_> = (0..100).filter_map(|_| places.take(peer(greedy))).collect();
            assert_eq!(held.len(), ADDRESS_MAX);
            assert!(places.take(peer(same)).is_none() && places.take(peer("192.0.2.9")).is_some());
            held.pop();
            assert!(places.take(peer(same)).is_some());
        }
        let crowd = |n: u8| HttpPeer(IpAddr::from([198, 51, 100, n]));
        let held: Vec<_> = (0..=255).filter_map(|n| places.take(crowd(n))).collect();
        assert_eq!((held.len(), places.shares.len()), (OTHERS_MAX, OTHERS_MAX));
        let own: Vec<_> = (0..600).filter_map(|_| places.take(peer("127.0.0.1"))).collect();
        assert_eq!(own.len(), OWN_MAX);
        drop(held);
        assert!(places.take(peer("192.0.2.1")).is_some() && places.shares.len() == 1);
    }
}
