//! A worker's listeners: one for plain clients, one for those of TLS, either of which may be none.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use sys::epoll::Epoll;
use sys::socket;

use crate::limits;

/// The tokens of listeners are the highest, one for each.
const FIRST_TOKEN: u64 = u64::MAX - 1;

/// Kinds of listeners.
pub(crate) const LISTENERS_MAX: usize = 2;

/// One of them, and who comes in by it.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) socket: OwnedFd,
    /// Its clients begin with TLS.
    pub(crate) is_tls: bool,
    /// How many clients the next turn may accept.
    pub(crate) accepts: usize,
    /// Whether epoll reports its clients.
    is_watched: bool,
}

impl Listener {
    /// Opens the worker's part of `listen`.
    pub(crate) fn open(listen: SocketAddr, is_tls: bool, epoll: &Epoll) -> io::Result<Listener> {
        let socket = socket::bind_in_group(listen)?;
        Listener::open_bound(socket, is_tls, epoll)
    }

    /// Opens one whose socket is [bound](socket::bind_in_group) already.
    pub(crate) fn open_bound(socket: OwnedFd, is_tls: bool, epoll: &Epoll) -> io::Result<Listener> {
        socket::bound_kernel_buffers(&socket, limits::KERNEL_UNSENT_BYTES, limits::VANISHED_MS)?;
        socket::defer_accept(&socket, limits::DEFER_ACCEPT_SECONDS)?;
        socket::listen(&socket, limits::LISTEN_BACKLOG)?;
        Listener::taken_over(socket, is_tls, epoll)
    }

    /// One that another process has opened.
    pub(crate) fn taken_over(socket: OwnedFd, is_tls: bool, epoll: &Epoll) -> io::Result<Listener> {
        let mut listener = Listener { socket, is_tls, accepts: 1, is_watched: false };
        listener.watch(epoll)?;
        Ok(listener)
    }

    /// Its clients are reported, as long as there are any.
    pub(crate) fn watch(&mut self, epoll: &Epoll) -> io::Result<()> {
        if !self.is_watched {
            epoll.add_source(&self.socket, FIRST_TOKEN + u64::from(self.is_tls))?;
            self.is_watched = true;
        }
        Ok(())
    }

    /// Its clients wait in the kernel's queue.
    pub(crate) fn leave(&mut self, epoll: &Epoll) -> io::Result<()> {
        if self.is_watched {
            epoll.remove(&self.socket)?;
            self.is_watched = false;
        }
        Ok(())
    }
}

/// Whether a report is of a listener, and of that for TLS.
pub(crate) fn is_tls_listener(token: u64) -> Option<bool> {
    token.checked_sub(FIRST_TOKEN).map(|kind| kind == 1)
}
