//! Unix sockets that carry descriptors, unix(7), and who is at their other end.
//!
//! Descriptors travel with the first byte that they are sent with: whoever has read that byte has
//! them, and they may come with bytes that stand before it. They stay open at the sender, and in
//! between they count for the user who sent them. Without `CAP_SYS_RESOURCE` no more of one user's
//! than `RLIMIT_NOFILE` are on their way at a time. A send beyond that fails with `ETOOMANYREFS`
//! until some are received.
//!
//! The sockets must not be asked for other control messages, such as `SO_PASSCRED`.
//!
//! Cost: the system call, about 1 KiB of stack, and at the receiver a list's growth.

use std::fs::{File, Permissions};
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use socket2::{Domain, SockAddr, Socket, Type};

/// Descriptors that one send can carry: the kernel's `SCM_MAX_FD`.
pub const DESCRIPTORS_MAX: usize = 253;

/// A socket that waits for nothing, connected to the one at `path`. `None` while that has as many
/// who wait to be accepted as it may.
pub fn connect(path: &Path) -> io::Result<Option<UnixStream>> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None)?;
    match socket.connect(&SockAddr::unix(path)?) {
        Ok(()) => Ok(Some(OwnedFd::from(socket).into())),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// One control message with descriptors, as the kernel reads and writes it: cmsg(3).
#[repr(C)]
struct Control {
    header: libc::cmsghdr,
    descriptors: [RawFd; DESCRIPTORS_MAX],
}

// Where CMSG_DATA is: without a gap behind the header.
const _: () = assert!(size_of::<libc::cmsghdr>().is_multiple_of(size_of::<usize>()));

// What the kernel writes has room.
const _: () = {
    assert!(Control::len(DESCRIPTORS_MAX) <= size_of::<Control>());
};

impl Control {
    fn of(descriptors: &[BorrowedFd<'_>]) -> Control {
        debug_assert!(descriptors.len() <= DESCRIPTORS_MAX, "some would not be sent");
        let header = libc::cmsghdr {
            cmsg_len: Control::len(descriptors.len()),
            cmsg_level: libc::SOL_SOCKET,
            cmsg_type: libc::SCM_RIGHTS,
        };
        let mut control = Control { header, descriptors: [-1; DESCRIPTORS_MAX] };
        for (place, descriptor) in control.descriptors.iter_mut().zip(descriptors) {
            *place = descriptor.as_raw_fd();
        }
        control
    }

    /// Bytes of a message with so many descriptors.
    const fn len(descriptors: usize) -> usize {
        size_of::<libc::cmsghdr>() + descriptors * size_of::<RawFd>()
    }

    /// The descriptors in what the kernel has written.
    fn received(&self, control_len: usize) -> &[RawFd] {
        let header = &self.header;
        let is_rights =
            header.cmsg_level == libc::SOL_SOCKET && header.cmsg_type == libc::SCM_RIGHTS;
        if control_len < Control::len(0) || !is_rights {
            return &[];
        }
        let count = header.cmsg_len.saturating_sub(Control::len(0)) / size_of::<RawFd>();
        &self.descriptors[..count.min(DESCRIPTORS_MAX)]
    }
}

/// Sends `parts`, or as many bytes of them as there is room for, and with the first of these bytes
/// all of `descriptors`: they must not be sent again with the rest. No SIGPIPE.
///
/// # Errors
/// `InvalidInput` for more than [`DESCRIPTORS_MAX`] of them, or for some without a byte to go with;
/// then, as after every error, nothing was sent.
pub fn send(
    socket: &impl AsFd,
    parts: &[IoSlice<'_>],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<usize> {
    let has_bytes = parts.iter().any(|part| !part.is_empty());
    if descriptors.len() > DESCRIPTORS_MAX || (!has_bytes && !descriptors.is_empty()) {
        let sentence = "descriptors are sent with a byte at least, 253 at most in one go";
        return Err(io::Error::new(ErrorKind::InvalidInput, sentence));
    }
    let mut control = Control::of(descriptors);
    let mut message = crate::socket::message(parts);
    if !descriptors.is_empty() {
        message.msg_control = (&raw mut control).cast();
        message.msg_controllen = control.header.cmsg_len;
    }
    let fd = socket.as_fd().as_raw_fd();
    retried(|| {
        // SAFETY: `message`, the parts and the control message that it points at outlive the call,
        // and the descriptors in there are borrowed for it.
        unsafe { libc::sendmsg(fd, &raw const message, libc::MSG_NOSIGNAL) }
    })
}

/// Whether a send has failed because too many descriptors are on their way: when some of them have
/// been received it may be tried again.
pub fn is_crowded(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ETOOMANYREFS)
}

/// Receives into `buffer`; 0 is the end of the stream. Each descriptor that came along is put
/// behind those in `descriptors`, closed on exec.
///
/// # Errors
/// `InvalidData` when this thread's table had no room for all that came: those that came are closed
/// and the bytes are lost, so that the conversation is over.
pub fn receive(
    socket: &impl AsFd,
    buffer: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
) -> io::Result<usize> {
    let mut control = Control::of(&[]);
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut message = crate::socket::message(&[]);
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    let fd = socket.as_fd().as_raw_fd();
    let len = retried(|| {
        message.msg_control = (&raw mut control).cast();
        message.msg_controllen = size_of::<Control>();
        // SAFETY: `message`, the buffer and the control message that it points at, with their
        // lengths, outlive the call.
        unsafe { libc::recvmsg(fd, &raw mut message, libc::MSG_CMSG_CLOEXEC) }
    })?;
    let before = descriptors.len();
    for &descriptor in control.received(message.msg_controllen) {
        // SAFETY: the kernel has just made this descriptor for us, and it belongs to nobody else.
        descriptors.push(unsafe { OwnedFd::from_raw_fd(descriptor) });
    }
    if message.msg_flags & libc::MSG_CTRUNC != 0 {
        descriptors.truncate(before);
        let sentence = "descriptors are short: some of those that came were lost; \
                        raise the limit on open files and begin anew";
        return Err(io::Error::new(ErrorKind::InvalidData, sentence));
    }
    Ok(len)
}

/// Two connected sockets for messages (`SOCK_SEQPACKET`), for two threads of which one has a
/// descriptor table of its own. What one [sends](send) in one go, with its descriptors, the other
/// [receives](receive) in one go: all of it, or nothing is sent. `bytes` are what may be under way,
/// cut to `net.core.wmem_max`.
pub fn message_pair(bytes: usize) -> io::Result<(OwnedFd, OwnedFd)> {
    let (one, other) = Socket::pair(Domain::UNIX, Type::SEQPACKET, None)?;
    for socket in [&one, &other] {
        socket.set_nonblocking(true)?;
        socket.set_send_buffer_size(bytes)?;
    }
    Ok((one.into(), other.into()))
}

/// A Unix socket (`SOCK_STREAM`) with the name `path`, to which only this user can connect: it has
/// its mode before it has its name. It does not listen yet, and does not block.
pub fn bind_private(path: &Path) -> io::Result<OwnedFd> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    let inode = File::from(OwnedFd::from(socket));
    inode.set_permissions(Permissions::from_mode(0o600))?;
    let socket = Socket::from(OwnedFd::from(inode));
    socket.bind(&SockAddr::unix(path)?)?;
    Ok(socket.into())
}

/// Who is at the other end of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Credentials {
    /// The process, as this one's PID namespace numbers it; 0 when it has no number there.
    pub pid: u32,
    /// Its effective user.
    pub uid: u32,
}

/// Who connected `socket`, or listened on it, at that time (`SO_PEERCRED`).
pub fn peer_credentials(socket: &impl AsFd) -> io::Result<Credentials> {
    let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as u32;
    let (fd, value) = (socket.as_fd().as_raw_fd(), (&raw mut found).cast());
    let (level, option) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
    // SAFETY: `value` has `len` bytes, and both outlive the call.
    crate::check(unsafe { libc::getsockopt(fd, level, option, value, &raw mut len) })?;
    Ok(Credentials { pid: found.pid as u32, uid: found.uid })
}

/// Calls again whenever a signal has ended the call.
fn retried(mut call: impl FnMut() -> libc::ssize_t) -> io::Result<usize> {
    loop {
        match crate::check_len(call()) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests;
