//! Ports for programs that cannot take one from the kernel as they begin to listen.

use std::net::{Ipv4Addr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use crate::RigError;

/// Below those that the kernel gives to whoever asks for any (`net.ipv4.ip_local_port_range`,
/// 32768 to 60999). A port of those may be the local end of another's connection a moment after it
/// was free, and tests and demos open thousands of them while others start their programs. From
/// 26000 on are those of the tests of the browser client, Python and Go, which may run beside
/// these.
const FIRST: u32 = 10_000;
const COUNT: u32 = 16_000;

/// What this process has given out, for as long as it lives: a socket whose name has the port in
/// it. Such names (unix(7), abstract) are one for the same machine and network as the ports are,
/// and go with their process.
static GIVEN: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());

/// A port that nobody has, on no address, and that no program of ours gives out again while this
/// one runs. Servers of a cluster must know each other's before they start, and a server that is
/// started again takes its own again.
///
/// # Errors
/// There is none.
pub fn free_port() -> Result<u16, RigError> {
    static TRIED: AtomicU32 = AtomicU32::new(0);
    // Programs that run at the same time begin far from each other.
    let first = process::id().wrapping_mul(7919);
    for _ in 0..COUNT {
        let number = first.wrapping_add(TRIED.fetch_add(1, Relaxed));
        let port = u16::try_from(FIRST + number % COUNT).expect("it is below 26000");
        // Another program may have given it out, and nobody listens there yet.
        let Ok(ours) = claim(port) else { continue };
        if TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok() {
            GIVEN.lock().unwrap_or_else(PoisonError::into_inner).push(ours);
            return Ok(port);
        }
    }
    Err(RigError::NoPort { first: FIRST, last: FIRST + COUNT - 1 })
}

/// Takes the name of a port, which one process can have at a time.
fn claim(port: u16) -> std::io::Result<UnixListener> {
    let name = SocketAddr::from_abstract_name(format!("encke-port-{port}"))?;
    UnixListener::bind_addr(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_that_was_given_out_is_not_given_out_again_though_nobody_listens() {
        let port = free_port().unwrap();
        assert!(claim(port).is_err());
        assert_ne!(free_port().unwrap(), port);
    }
}
