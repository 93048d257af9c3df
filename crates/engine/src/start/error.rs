//! Why the data plane does not start.

use std::io;
use std::net::SocketAddr;

use sys::socket;
use thiserror::Error;

/// Why the data plane does not start. The text says what to do.
#[derive(Debug, Error)]
pub enum StartError {
    /// Somebody listens there.
    #[error("{0} is in use: stop the program that listens there, or choose another address")]
    AddressInUse(SocketAddr),
    /// Not an address of ours, or one that needs rights that we lack.
    #[error("cannot listen on {0}: {1}; choose an address of this machine and a port from 1024 on")]
    Listen(SocketAddr, io::Error),
    /// There is no way in.
    #[error("there is no port for streams: give an address, for plain HTTP or for TLS")]
    NoPort,
    /// The kernel refused something else.
    #[error("cannot start a worker: {0}; check the limits on descriptors and threads")]
    Worker(io::Error),
}

/// Takes the address for this process, and a port where it names none.
pub(super) fn claim(listen: SocketAddr) -> Result<SocketAddr, StartError> {
    socket::claim(listen).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => StartError::AddressInUse(listen),
        _ => StartError::Listen(listen, error),
    })
}
