//! The addresses at which the server is reached: which may be, and how they are taken.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Weak};

use anyhow::{Result, anyhow};
use auth::is_loopback;
use auth::keys::ring::{KeyRing, Known};
use httpd::tls::Tls;
use tokio::net::{TcpListener, TcpSocket};

use crate::API_BACKLOG;
use crate::listener::ApiPort;

/// The first option that makes no sense without a certificate.
pub(super) fn needs_certificate(
    listen: &Option<SocketAddr>,
    api: &Option<SocketAddr>,
) -> Option<&'static str> {
    let listens = listen.is_some().then_some("--tls-listen");
    listens.or(api.is_some().then_some("--tls-api"))
}

/// The keys of `dir`, without which nobody but this machine may reach the API at `ports`, each of
/// which stands beside the option that names it.
pub(super) fn keys_for(
    ports: [(Option<SocketAddr>, &'static str); 2],
    dir: &Path,
) -> Result<KeyRing> {
    let keys = KeyRing::open(dir)?;
    let mut open = ports.into_iter().filter_map(|(address, option)| Some((address?, option)));
    let reached = open.find(|(address, _)| !is_loopback(*address));
    if let (Known::None, Some((api, option))) = (keys.known(), reached) {
        return Err(anyhow!(
            "no key was made, and others could reach the API at {api}: make one with `encke key \
             new --scope admin --data {}`, or leave {option} on 127.0.0.1",
            dir.display()
        ));
    }
    Ok(keys)
}

/// Where the API is, by plain HTTP and by TLS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ApiAddresses {
    pub(super) plain: Option<SocketAddr>,
    pub(super) tls: Option<SocketAddr>,
}

impl ApiAddresses {
    /// Those that there are.
    pub(super) fn each(self) -> impl Iterator<Item = SocketAddr> {
        self.plain.into_iter().chain(self.tls)
    }
}

/// The API's ports, taken: nobody can connect before they listen.
pub(super) struct ApiSockets {
    plain: Option<TcpSocket>,
    tls: Option<TcpSocket>,
}

impl ApiSockets {
    /// Takes them.
    pub(super) fn bind(wanted: ApiAddresses) -> Result<ApiSockets> {
        let plain = wanted.plain.map(|api| bind(api, "--api")).transpose()?;
        let tls = wanted.tls.map(|api| bind(api, "--tls-api")).transpose()?;
        Ok(ApiSockets { plain, tls })
    }

    /// Where they are, with the ports that were chosen.
    pub(super) fn addresses(&self) -> io::Result<ApiAddresses> {
        let address =
            |socket: &Option<TcpSocket>| socket.as_ref().map(TcpSocket::local_addr).transpose();
        Ok(ApiAddresses { plain: address(&self.plain)?, tls: address(&self.tls)? })
    }

    /// Begins to listen.
    pub(super) fn listen(self) -> Result<ApiListeners> {
        let plain = self.plain.map(|socket| listen(socket, "--api")).transpose()?;
        let tls = self.tls.map(|socket| listen(socket, "--tls-api")).transpose()?;
        Ok(ApiListeners { plain, tls })
    }
}

/// The API's ports that listen.
pub(super) struct ApiListeners {
    pub(super) plain: Option<Arc<TcpListener>>,
    pub(super) tls: Option<Arc<TcpListener>>,
}

/// The API's ports as they listen, for as long as somebody serves there.
pub(super) struct ApiListening {
    pub(super) plain: Option<Weak<TcpListener>>,
    pub(super) tls: Option<Weak<TcpListener>>,
}

impl ApiListeners {
    /// Weak references to the listeners, which do not keep them open.
    pub(super) fn listening(&self) -> ApiListening {
        let weak = |listener: &Option<Arc<_>>| listener.as_ref().map(Arc::downgrade);
        ApiListening { plain: weak(&self.plain), tls: weak(&self.tls) }
    }

    /// The listeners with how they are spoken to, for whoever serves there.
    pub(super) fn ports(self, tls: Tls) -> Vec<ApiPort> {
        let plain = self.plain.map(|listener| ApiPort { listener, tls: None });
        let tls = self.tls.map(|listener| ApiPort { listener, tls: Some(tls) });
        plain.into_iter().chain(tls).collect()
    }
}

/// Takes the address, which `option` names.
fn bind(address: SocketAddr, option: &str) -> Result<TcpSocket> {
    let bind = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // As every server: the port of one that has just ended may be taken at once.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(socket)
    };
    bind().map_err(|error| listen_error(address, option, &error))
}

fn listen(socket: TcpSocket, option: &str) -> Result<Arc<TcpListener>> {
    let address = socket.local_addr()?;
    let listener = socket.listen(API_BACKLOG);
    listener.map(Arc::new).map_err(|error| listen_error(address, option, &error))
}

fn listen_error(address: SocketAddr, option: &str, error: &io::Error) -> anyhow::Error {
    match error.kind() {
        ErrorKind::AddrInUse => anyhow!(
            "{address} is in use: stop the program that listens there, or choose another address \
             with {option}"
        ),
        _ => anyhow!(
            "cannot listen on {address}: {error}; choose an address of this machine and a port \
             from 1024 on with {option}"
        ),
    }
}
