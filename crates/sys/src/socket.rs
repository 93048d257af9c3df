//! TCP sockets: set-up through socket2, the calls of the hot path directly.
//!
//! Every socket made here is non-blocking and closed on exec. `TCP_NODELAY` is set on the listener;
//! on Linux accepted sockets inherit it, which saves a call per connection.

use std::io::{self, IoSlice};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};

/// A socket in a group on one address (`SO_REUSEPORT`), over which the kernel spreads new
/// connections. No client is sent to it before it [listens](listen).
pub fn bind_in_group(address: SocketAddr) -> io::Result<OwnedFd> {
    let socket = stream_socket(address)?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_tcp_nodelay(true)?;
    socket.bind(&SockAddr::from(address))?;
    Ok(socket.into())
}

/// Has a bound socket listen. `backlog` is cut by the kernel to `net.core.somaxconn`.
pub fn listen(socket: &impl AsFd, backlog: i32) -> io::Result<()> {
    SockRef::from(socket).listen(backlog)
}

/// Checks that nobody listens on `address` and returns it with its port, chosen by the kernel when
/// it was 0. A group member may share a port with any program of the same user; without this look a
/// second server would quietly take half of the first one's clients.
pub fn claim(address: SocketAddr) -> io::Result<SocketAddr> {
    let socket = stream_socket(address)?;
    socket.set_reuse_address(true)?;
    socket.bind(&SockAddr::from(address))?;
    // With SO_REUSEADDR the bind alone passes beside another bound socket that does not listen yet.
    socket.listen(1)?;
    local_address(&socket)
}

/// The address that `socket` is bound to.
pub fn local_address(socket: &impl AsFd) -> io::Result<SocketAddr> {
    let address = SockRef::from(socket).local_addr()?;
    address.as_socket().ok_or_else(|| io::Error::other("not an internet socket"))
}

/// The address of the other end of `socket`.
pub fn peer_address(socket: &impl AsFd) -> io::Result<SocketAddr> {
    let address = SockRef::from(socket).peer_addr()?;
    address.as_socket().ok_or_else(|| io::Error::other("not an internet socket"))
}

/// The next connection of `listener`; `WouldBlock` when there is none.
pub fn accept(listener: &impl AsFd) -> io::Result<OwnedFd> {
    let (fd, null) = (listener.as_fd().as_raw_fd(), std::ptr::null_mut());
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: the kernel writes no address when both pointers are null.
    let accepted = unsafe { libc::accept4(fd, null, null.cast(), flags) };
    let accepted = crate::check(accepted)?;
    // SAFETY: the descriptor was just made and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(accepted) })
}

/// Accepts a connection, and says from which address it comes.
pub fn accept_from(listener: &impl AsFd) -> io::Result<(OwnedFd, IpAddr)> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    let (socket, address) = SockRef::from(listener).accept4(flags)?;
    let address = address.as_socket().ok_or_else(|| io::Error::other("not an internet socket"))?;
    Ok((socket.into(), address.ip()))
}

/// Whether an accept failed for want of a descriptor or of memory: the client still waits.
pub fn is_shortage(error: &io::Error) -> bool {
    let shortages = [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM];
    error.raw_os_error().is_some_and(|code| shortages.contains(&code))
}

/// Whether an accept failed for a reason of the client that was next, which is gone by that: it
/// aborted, or its network had a fault (accept(2), "Error handling"). `EPERM` is none: a security
/// module that forbids it leaves the client where it is.
pub fn is_of_client(error: &io::Error) -> bool {
    let faults = [
        libc::ECONNABORTED,
        libc::EINTR,
        libc::EPROTO,
        libc::ENOPROTOOPT,
        libc::EOPNOTSUPP,
        libc::ENETDOWN,
        libc::ENETUNREACH,
        libc::EHOSTDOWN,
        libc::EHOSTUNREACH,
        libc::ENONET,
        libc::ETIMEDOUT,
    ];
    error.raw_os_error().is_some_and(|code| faults.contains(&code))
}

/// Begins a connection to `target`, from the address `source` when given (the kernel picks the port
/// as late as it can, `IP_BIND_ADDRESS_NO_PORT`, so each source address has all ports to itself).
/// Writable means connected or failed: ask [`connect_error`].
pub fn connect_from(source: Option<IpAddr>, target: SocketAddr) -> io::Result<OwnedFd> {
    let socket = stream_socket(target)?;
    socket.set_tcp_nodelay(true)?;
    if let Some(source) = source {
        bind_late(&socket)?;
        socket.bind(&SockAddr::from(SocketAddr::new(source, 0)))?;
    }
    match socket.connect(&SockAddr::from(target)) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(socket.into()),
    }
}

/// How the connection attempt ended: `None` is well.
pub fn connect_error(socket: &impl AsFd) -> io::Result<Option<io::Error>> {
    SockRef::from(socket).take_error()
}

/// Receives into `buffer`; 0 is the end of the stream.
pub fn receive(socket: &impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    let (fd, len) = (socket.as_fd().as_raw_fd(), buffer.len());
    // SAFETY: `buffer` has `len` bytes and outlives the call.
    crate::check_len(unsafe { libc::recv(fd, buffer.as_mut_ptr().cast(), len, 0) })
}

/// Sends `bytes`, or as many of them as there is room for. No SIGPIPE.
pub fn send(socket: &impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    let (fd, data, len) = (socket.as_fd().as_raw_fd(), bytes.as_ptr().cast(), bytes.len());
    // SAFETY: `bytes` has `len` bytes and outlives the call.
    crate::check_len(unsafe { libc::send(fd, data, len, libc::MSG_NOSIGNAL) })
}

/// Sends `parts` in one call (at most `IOV_MAX`, 1,024), as much as there is room for. No SIGPIPE.
pub fn send_parts(socket: &impl AsFd, parts: &[IoSlice<'_>]) -> io::Result<usize> {
    if let [part] = parts {
        return send(socket, part);
    }
    let message = message(parts);
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: `message` and the parts that it points at outlive the call.
    crate::check_len(unsafe { libc::sendmsg(fd, &raw const message, libc::MSG_NOSIGNAL) })
}

/// What sendmsg(2) is told of `parts`.
pub(crate) fn message(parts: &[IoSlice<'_>]) -> libc::msghdr {
    libc::msghdr {
        msg_name: std::ptr::null_mut(),
        msg_namelen: 0,
        // IoSlice is the platform's iovec, std guarantees it; the kernel only reads them.
        msg_iov: parts.as_ptr().cast_mut().cast(),
        msg_iovlen: parts.len(),
        msg_control: std::ptr::null_mut(),
        msg_controllen: 0,
        msg_flags: 0,
    }
}

/// Ends our sending side; the peer reads the end of the stream.
pub fn shutdown_write(socket: &impl AsFd) -> io::Result<()> {
    SockRef::from(socket).shutdown(Shutdown::Write)
}

/// Ends both sides of the connection, however many descriptors of it there are, in this process or
/// in others: the peer reads the end of the stream behind what was sent (FIN).
pub fn shutdown_both(socket: &impl AsFd) -> io::Result<()> {
    SockRef::from(socket).shutdown(Shutdown::Both)
}

/// Resets the connection (RST) at once, however many descriptors of it there are: tcp(7) and
/// connect(2) with `AF_UNSPEC`. What was not sent yet is lost. A close would do neither while
/// another process has a descriptor.
pub fn disconnect(socket: &impl AsFd) -> io::Result<()> {
    let nowhere = libc::sockaddr { sa_family: libc::AF_UNSPEC as u16, sa_data: [0; 14] };
    let (fd, len) = (socket.as_fd().as_raw_fd(), size_of::<libc::sockaddr>() as u32);
    // SAFETY: `nowhere` has `len` bytes and outlives the call.
    crate::check(unsafe { libc::connect(fd, &raw const nowhere, len) }).map(drop)
}

/// Makes the coming close a reset (RST): no FIN, no TIME_WAIT.
pub fn reset_on_close(socket: &impl AsFd) -> io::Result<()> {
    SockRef::from(socket).set_linger(Some(std::time::Duration::ZERO))
}

/// Bounds what the kernel keeps for a connection, set on the listener and inherited by what it
/// accepts: at most `unsent_bytes` that the client has not asked for yet (`TCP_NOTSENT_LOWAT`), and
/// `vanished_ms` for a client's host that acknowledges nothing (`TCP_USER_TIMEOUT`, RFC 5482; it
/// also ends a client that keeps its window shut for so long).
pub fn bound_kernel_buffers(
    listener: &impl AsFd,
    unsent_bytes: u32,
    vanished_ms: u32,
) -> io::Result<()> {
    let timeout = std::time::Duration::from_millis(u64::from(vanished_ms));
    SockRef::from(listener).set_tcp_user_timeout(Some(timeout))?;
    SockRef::from(listener).set_tcp_notsent_lowat(unsent_bytes)
}

/// Reports a new connection of `listener` when its first bytes are there, or when the client has
/// sent none for about `seconds` (`TCP_DEFER_ACCEPT`, tcp(7)): one wake-up for both.
pub fn defer_accept(listener: &impl AsFd, seconds: i32) -> io::Result<()> {
    let (fd, len) = (listener.as_fd().as_raw_fd(), size_of::<i32>() as u32);
    let (level, option) = (libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT);
    // SAFETY: the four bytes of `seconds` outlive the call.
    crate::check(unsafe { libc::setsockopt(fd, level, option, (&raw const seconds).cast(), len) })?;
    Ok(())
}

/// How many clients wait in the queue of `listener` to be accepted (`TCP_INFO`, of which the kernel
/// tells a listener's queue where it tells a connection's unacknowledged segments).
pub fn clients_waiting(listener: &impl AsFd) -> io::Result<u32> {
    let mut info = std::mem::MaybeUninit::<libc::tcp_info>::zeroed();
    let mut len = size_of::<libc::tcp_info>() as u32;
    let (fd, level) = (listener.as_fd().as_raw_fd(), libc::IPPROTO_TCP);
    // SAFETY: `info` has `len` bytes and both outlive the call.
    let result = unsafe {
        libc::getsockopt(fd, level, libc::TCP_INFO, info.as_mut_ptr().cast(), &raw mut len)
    };
    crate::check(result)?;
    // SAFETY: all bytes were zero, which is a `tcp_info`, and the kernel wrote the first `len`.
    Ok(unsafe { info.assume_init() }.tcpi_unacked)
}

/// Asks for a receive buffer of `bytes`, for clients that are meant to be slow.
pub fn set_receive_buffer(socket: &impl AsFd, bytes: usize) -> io::Result<()> {
    SockRef::from(socket).set_recv_buffer_size(bytes)
}

fn stream_socket(address: SocketAddr) -> io::Result<Socket> {
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket = Socket::new(Domain::for_address(address), kind, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        // `[::]` means IPv6 and IPv4 alike, whatever net.ipv6.bindv6only says.
        socket.set_only_v6(false)?;
    }
    Ok(socket)
}

fn bind_late(socket: &Socket) -> io::Result<()> {
    let (on, len) = (1_i32, size_of::<i32>() as u32);
    let (level, option) = (libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT);
    let fd = socket.as_raw_fd();
    // SAFETY: the four bytes of `on` outlive the call.
    crate::check(unsafe { libc::setsockopt(fd, level, option, (&raw const on).cast(), len) })?;
    Ok(())
}

#[cfg(test)]
mod tests;
