//! Where the socket is on which requests are passed on, and who may be at its other end.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use tokio::net::UnixStream;

/// Its name in the directory of the data.
const NAME: &str = "passing.sock";

/// The longest path of a socket: `sun_path` without its last zero (unix(7)).
const PATH_BYTES_MAX: usize = 107;

/// The path of the socket of the server whose data are in `data`.
pub fn path(data: &Path) -> PathBuf {
    data.join(NAME)
}

/// Calls `with` with a path to `path` that a socket's address can hold: a long one leads through
/// the descriptor of its directory.
pub fn reach<T>(path: &Path, with: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    if path.as_os_str().len() <= PATH_BYTES_MAX {
        return with(path);
    }
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(ErrorKind::InvalidInput.into());
    };
    let dir = File::open(dir)?;
    with(&PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd())).join(name))
}

/// Whether the other end of `stream` is a process of our user's, or of root's, and not this one.
pub fn is_ours(stream: &UnixStream) -> io::Result<bool> {
    let theirs = stream.peer_cred()?;
    // Who made both ends is at both.
    let own = UnixStream::pair()?.0.peer_cred()?.uid();
    Ok(theirs.uid() == own || theirs.uid() == 0)
}

/// The process at the other end of `stream`, where that can be told.
pub(super) fn process(stream: &UnixStream) -> io::Result<Option<u32>> {
    Ok(stream.peer_cred()?.pid().and_then(|pid| u32::try_from(pid).ok()))
}
