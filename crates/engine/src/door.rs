//! A worker's listeners: one for plain clients, one for those of TLS, either of which may be none.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use sys::epoll::Epoll;
use sys::socket;

use crate::limits;

/// The tokens of doors are the highest, one for each.
const FIRST_TOKEN: u64 = u64::MAX - 1;

/// Kinds of doors.
pub(crate) const DOORS_MAX: usize = 2;

/// A listener, and who comes in by it.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) listener: OwnedFd,
    /// Its clients begin with TLS.
    pub(crate) is_tls: bool,
    /// How many clients the next turn may accept.
    pub(crate) accepts: usize,
    /// Whether epoll reports its clients.
    is_watched: bool,
}

impl Door {
    /// Opens the worker's part of `listen`.
    pub(crate) fn open(listen: SocketAddr, is_tls: bool, epoll: &Epoll) -> io::Result<Door> {
        let listener = socket::bind_in_group(listen)?;
        Door::open_bound(listener, is_tls, epoll)
    }

    /// Opens a listener that is [bound](socket::bind_in_group) already.
    pub(crate) fn open_bound(listener: OwnedFd, is_tls: bool, epoll: &Epoll) -> io::Result<Door> {
        socket::bound_kernel_buffers(&listener, limits::KERNEL_UNSENT_BYTES, limits::VANISHED_MS)?;
        socket::defer_accept(&listener, limits::DEFER_ACCEPT_SECONDS)?;
        socket::listen(&listener, limits::LISTEN_BACKLOG)?;
        Door::taken_over(listener, is_tls, epoll)
    }

    /// One that another process has opened.
    pub(crate) fn taken_over(listener: OwnedFd, is_tls: bool, epoll: &Epoll) -> io::Result<Door> {
        let mut door = Door { listener, is_tls, accepts: 1, is_watched: false };
        door.watch(epoll)?;
        Ok(door)
    }

    /// Its clients are reported, as long as there are any.
    pub(crate) fn watch(&mut self, epoll: &Epoll) -> io::Result<()> {
        if !self.is_watched {
            epoll.add_source(&self.listener, FIRST_TOKEN + u64::from(self.is_tls))?;
            self.is_watched = true;
        }
        Ok(())
    }

    /// Its clients wait in the kernel's queue.
    pub(crate) fn leave(&mut self, epoll: &Epoll) -> io::Result<()> {
        if self.is_watched {
            epoll.remove(&self.listener)?;
            self.is_watched = false;
        }
        Ok(())
    }
}

/// Whether a report is of a door, and of that for TLS.
pub(crate) fn is_tls_door(token: u64) -> Option<bool> {
    token.checked_sub(FIRST_TOKEN).map(|door| door == 1)
}
