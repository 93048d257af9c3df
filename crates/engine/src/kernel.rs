//! Sockets of the kernel's own.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;

use sys::epoll::Epoll;
use sys::socket;

use crate::sockets::{Received, Sockets};
use crate::tls::Numbered;

/// The kernel's sockets, some of which another process may have a copy of.
pub(crate) struct Kernel {
    epoll: Rc<Epoll>,
    /// A bit for each number of a descriptor: a copy of it has gone to another process. `None` when
    /// none goes.
    copied: Option<Vec<u64>>,
}

impl Kernel {
    /// Sockets that `epoll` reports.
    pub(crate) fn new(epoll: Rc<Epoll>) -> Kernel {
        Kernel { epoll, copied: None }
    }

    /// Copies go to another process from now on.
    pub(crate) fn note_copies(&mut self) {
        self.copied.get_or_insert_default();
    }

    /// No other process has a copy.
    pub(crate) fn forget_copies(&mut self) {
        self.copied = None;
    }

    /// Whether a copy of the descriptor with that number has gone to another process.
    pub(crate) fn is_copied(&self, number: u32) -> bool {
        let word =
            self.copied.as_ref().and_then(|copied| copied.get((number / u64::BITS) as usize));
        word.is_some_and(|word| word >> (number % u64::BITS) & 1 == 1)
    }

    /// One has.
    pub(crate) fn set_copied(&mut self, number: u32) {
        let Some(copied) = &mut self.copied else { return };
        let word = (number / u64::BITS) as usize;
        if word >= copied.len() {
            copied.resize(word + 1, 0);
        }
        copied[word] |= 1 << (number % u64::BITS);
    }

    /// Whether that was so; it is not any more.
    fn take_copied(&mut self, number: u32) -> bool {
        let is_copied = self.is_copied(number);
        if is_copied && let Some(copied) = &mut self.copied {
            copied[(number / u64::BITS) as usize] &= !(1 << (number % u64::BITS));
        }
        is_copied
    }
}

impl Sockets for Kernel {
    type Socket = OwnedFd;

    fn receive(&mut self, socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<Received> {
        socket::receive(socket, buffer).map(|len| Received::of(len, buffer.len()))
    }

    fn send(&mut self, socket: &OwnedFd, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        socket::send_parts(socket, parts)
    }

    fn shutdown(&mut self, socket: &OwnedFd) {
        // Fails only on a connection that is broken already, which the next read shows.
        let _ = socket::shutdown_write(socket);
    }

    fn peer(&self, socket: &OwnedFd) -> Option<SocketAddr> {
        socket::peer_address(socket).ok()
    }

    fn close(&mut self, socket: OwnedFd, abort: bool) {
        if self.take_copied(Kernel::number(&socket)) {
            // A close would mean nothing to the kernel as long as somebody else has a copy.
            let _ = self.epoll.remove(&socket);
            let _ =
                if abort { socket::disconnect(&socket) } else { socket::shutdown_both(&socket) };
        } else if abort {
            let _ = socket::reset_on_close(&socket);
        }
        drop(socket);
    }
}

impl Numbered for Kernel {
    fn number(socket: &OwnedFd) -> u32 {
        socket.as_raw_fd() as u32
    }
}
