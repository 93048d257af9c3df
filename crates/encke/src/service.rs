//! What a service manager is told of the server's life: sd_notify(3), the protocol of systemd's
//! `Type=notify`. One datagram each, to the socket that `NOTIFY_SOCKET` names; without that name,
//! nothing.
//!
//! Nothing here fails the server: a manager that cannot be told is logged, once for each state.

use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// What the server has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Clients can connect; also the end of reloading.
    Ready,
    /// Settings are read again.
    Reloading,
    /// It ends in order.
    Stopping,
    /// A new version begins to take over.
    Upgrading,
    /// The process of this number serves in its place; 0 where the number is not known here.
    Moved(u32),
}

/// What it does while it reloads.
const READING: &str = "reading settings again";

impl State {
    fn message(self) -> String {
        match self {
            State::Ready => "READY=1\nSTATUS=serving".into(),
            // The time lets `Type=notify-reload` know which reload this is.
            State::Reloading => {
                let now_us = sys::clock::monotonic_ns() / 1000;
                format!("RELOADING=1\nMONOTONIC_USEC={now_us}\nSTATUS={READING}")
            }
            State::Upgrading => State::Reloading.message().replace(READING, "being upgraded"),
            // The manager then watches the other, and no more this one's end.
            State::Moved(0) => State::Ready.message(),
            State::Moved(pid) => format!("MAINPID={pid}\n{}", State::Ready.message()),
            State::Stopping => "STOPPING=1\nSTATUS=ending streams in order".into(),
        }
    }
}

/// Tells the service manager, where there is one.
pub(crate) fn tell(state: State) {
    let Some(socket) = env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = send(socket.as_bytes(), &state.message()) {
        tracing::warn!("cannot tell the service manager ({state:?}) at NOTIFY_SOCKET: {error}");
    }
}

fn send(socket: &[u8], message: &str) -> io::Result<()> {
    let to = match socket {
        // A name that is no file: systemd writes its first byte, which is 0, as @.
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        path => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(path))?,
    };
    let own = UnixDatagram::unbound()?;
    // A manager that does not read must not stop the server.
    own.set_nonblocking(true)?;
    own.send_to_addr(message.as_bytes(), &to).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_that_is_a_name_is_reached_and_one_that_is_not_there_is_an_error() {
        let name = format!("encke-test-{}", std::process::id());
        let manager =
            UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        send(format!("@{name}").as_bytes(), &State::Ready.message()).unwrap();
        let mut heard = [0; 100];
        let len = manager.recv(&mut heard).unwrap();
        assert_eq!(&heard[..len], b"READY=1\nSTATUS=serving");
        assert!(send(b"/nowhere/notify", "READY=1").is_err());
    }

    #[test]
    fn who_takes_over_is_the_service_from_then_on() {
        let message = State::Moved(123).message();
        assert_eq!(message, "MAINPID=123\nREADY=1\nSTATUS=serving");
        assert_eq!(State::Moved(0).message(), State::Ready.message());
        assert!(State::Upgrading.message().starts_with("RELOADING=1\nMONOTONIC_USEC="));
        assert!(State::Upgrading.message().ends_with("STATUS=being upgraded"));
    }

    #[test]
    fn reload_says_when_it_began() {
        let message = State::Reloading.message();
        let at = message.lines().find_map(|line| line.strip_prefix("MONOTONIC_USEC=")).unwrap();
        assert!(at.parse::<u64>().unwrap() > 0, "{message}");
    }
}
