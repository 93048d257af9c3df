//! The addresses at which the server is reached: which may be, and how they are taken.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Result, anyhow};
use tokio::net::TcpSocket;

use crate::API_BACKLOG;
use crate::http::listener::Door;
use crate::http::tls::Tls;
use crate::keys::ring::{KeyRing, Known};

/// The first option that makes no sense without a certificate.
pub(super) fn needs_certificate(
    listen: &Option<SocketAddr>,
    api: &Option<SocketAddr>,
) -> Option<&'static str> {
    let listens = listen.is_some().then_some("--tls-listen");
    listens.or(api.is_some().then_some("--tls-api"))
}

/// Whether only this machine can reach `address`.
pub fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// The API's ports and the options that name them.
pub(super) type ApiPorts = [(Option<SocketAddr>, &'static str); 2];

/// The keys of `dir`, without which nobody but this machine may reach the API.
pub(super) fn keys_for(ports: ApiPorts, dir: &Path) -> Result<KeyRing> {
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

/// Takes the address, which `option` names; nobody can connect before it listens.
pub(super) fn bind(address: SocketAddr, option: &str) -> Result<TcpSocket> {
    let bind = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // As every server: the port of one that has just ended may be taken at once.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(socket)
    };
    bind().map_err(|error| listen_error(address, option, &error))
}

/// Begins to listen.
pub(super) fn door(socket: TcpSocket, tls: Option<Tls>) -> Result<Door> {
    let option = if tls.is_some() { "--tls-api" } else { "--api" };
    let address = socket.local_addr()?;
    let listener = socket.listen(API_BACKLOG);
    let listener = listener.map_err(|error| listen_error(address, option, &error))?;
    Ok(Door { listener, tls })
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
