//! Sockets of the kernel's own.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use sys::epoll::Epoll;
use sys::socket;

use crate::sockets::{Received, Sockets};
use crate::tls::Numbered;

/// The kernel's sockets, some of which another process may have a copy of.
pub(crate) struct Kernel {
    epoll: Rc<Epoll>,
    /// Of which a copy has gone to the process that is to take over; `None` when none goes.
    copied: Option<Numbers>,
    /// Of which one has gone to a process that did not take over. It may stand still with them for
    /// as long as it likes.
    stray: Numbers,
}

/// Numbers of descriptors, a bit for each.
#[derive(Default)]
struct Numbers(Vec<u64>);

impl Numbers {
    fn has(&self, number: u32) -> bool {
        let word = self.0.get((number / u64::BITS) as usize);
        word.is_some_and(|word| word >> (number % u64::BITS) & 1 == 1)
    }

    fn put(&mut self, number: u32) {
        let word = (number / u64::BITS) as usize;
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (number % u64::BITS);
    }

    /// Whether it was there.
    fn take(&mut self, number: u32) -> bool {
        let has = self.has(number);
        if has {
            self.0[(number / u64::BITS) as usize] &= !(1 << (number % u64::BITS));
        }
        has
    }

    fn add(&mut self, others: &Numbers) {
        self.0.resize(self.0.len().max(others.0.len()), 0);
        self.0.iter_mut().zip(&others.0).for_each(|(word, other)| *word |= other);
    }
}

impl Kernel {
    /// Sockets that `epoll` reports.
    pub(crate) fn new(epoll: Rc<Epoll>) -> Kernel {
        Kernel { epoll, copied: None, stray: Numbers::default() }
    }

    /// Copies go to another process from now on.
    pub(crate) fn note_copies(&mut self) {
        self.copied.get_or_insert_default();
    }

    /// The process that has copies does not take over.
    pub(crate) fn leave_copies(&mut self) {
        if let Some(copied) = self.copied.take() {
            self.stray.add(&copied);
        }
    }

    /// Whether a copy of the descriptor with that number has gone to the process that is to take
    /// over.
    pub(crate) fn is_copied(&self, number: u32) -> bool {
        self.copied.as_ref().is_some_and(|copied| copied.has(number))
    }

    /// One has.
    pub(crate) fn set_copied(&mut self, number: u32) {
        if let Some(copied) = &mut self.copied {
            copied.put(number);
        }
    }

    /// Whether any other process may have a copy; from now on the number is another's.
    fn take_copied(&mut self, number: u32) -> bool {
        let is_copied = self.copied.as_mut().is_some_and(|copied| copied.take(number));
        self.stray.take(number) || is_copied
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

    fn descriptor<'s>(&self, socket: &'s OwnedFd) -> Option<BorrowedFd<'s>> {
        Some(socket.as_fd())
    }

    fn let_go(&mut self, socket: OwnedFd) {
        // The copy of another process may stay open as long as that likes: whoever goes on ends
        // its side of the connection.
        self.take_copied(Kernel::number(&socket));
        let _ = self.epoll.remove(&socket);
    }
}

impl Numbered for Kernel {
    fn number(socket: &OwnedFd) -> u32 {
        socket.as_raw_fd() as u32
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// A process that was to take over may stand still with its copies: who is cut is cut.
    #[test]
    fn who_is_cut_while_another_process_has_a_copy_is_cut() {
        for (abort, fails) in [(false, false), (true, true)] {
            for is_left in [false, true] {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                client.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
                let socket = OwnedFd::from(listener.accept().unwrap().0);
                let epoll = Rc::new(Epoll::new().unwrap());
                epoll.add_stream(&socket, 1).unwrap();
                let mut kernel = Kernel::new(epoll);
                kernel.note_copies();
                kernel.set_copied(Kernel::number(&socket));
                let _copy = socket.try_clone().unwrap();
                if is_left {
                    kernel.leave_copies();
                    assert!(!kernel.is_copied(Kernel::number(&socket)), "the next one has none");
                }
                kernel.close(socket, abort);
                let read = client.read(&mut [0]);
                assert_eq!(read.is_err(), fails, "{abort} {is_left}: {read:?}");
            }
        }
    }
}
