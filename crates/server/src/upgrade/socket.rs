//! The socket in the data directory at which a server can be asked for an upgrade.
//!
//! Who asks must be the server's own user, or root: the socket's mode says so, and the kernel's
//! word on who has connected. A server puts its socket in the place of the one before in one step,
//! and on its end takes away none but its own.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net;
use std::path::{Path, PathBuf};

use sys::passing::{self, Credentials};
use tokio::net::{UnixListener, UnixStream};

/// The socket's name, and that of the one that is to replace it.
const NAME: &str = "upgrade.sock";
const NEW_NAME: &str = "upgrade.sock.new";

/// How many may wait who ask for an upgrade.
const BACKLOG: i32 = 128;

/// The longest path of a socket: `sun_path` in unix(7), without the zero behind it.
const PATH_BYTES_MAX: usize = 107;

/// Room for the name of a socket in a directory of ours, with the slash before it.
const NAME_BYTES_MAX: usize = 40;

/// A directory in which there are sockets. Where its path is too long for that, the way there leads
/// through a descriptor of it.
#[derive(Debug)]
pub(crate) struct SocketDir {
    path: PathBuf,
    _dir: Option<File>,
}

impl SocketDir {
    /// The directory at `dir`, which is there.
    pub(crate) fn open(dir: &Path) -> io::Result<SocketDir> {
        if dir.as_os_str().len() + NAME_BYTES_MAX <= PATH_BYTES_MAX {
            return Ok(SocketDir { path: dir.to_owned(), _dir: None });
        }
        let dir = File::open(dir)?;
        // `self` is the process: a thread with a table of its own gets there, too.
        let path = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd()));
        Ok(SocketDir { path, _dir: Some(dir) })
    }

    /// How to get there.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// The socket of a server that serves.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) listener: UnixListener,
    dir: SocketDir,
    /// What tells its file from others of the name.
    inode: u64,
}

impl Socket {
    /// Whether it could be made in `data`.
    pub(crate) fn try_to_bind(data: &Path) -> io::Result<()> {
        let dir = SocketDir::open(data)?;
        bind_new(&dir)?;
        fs::remove_file(dir.path().join(NEW_NAME))
    }

    /// Makes it in `data`, in the place of the one that is there.
    pub(crate) fn bind(data: &Path) -> io::Result<Socket> {
        let dir = SocketDir::open(data)?;
        let listener = bind_new(&dir)?;
        let new = dir.path().join(NEW_NAME);
        let inode = fs::symlink_metadata(&new)?.ino();
        fs::rename(&new, dir.path().join(NAME))?;
        Ok(Socket { listener, dir, inode })
    }

    /// Takes its file away, unless another server has put its own there.
    pub(crate) fn remove(&self) {
        let path = self.dir.path().join(NAME);
        if fs::symlink_metadata(&path).is_ok_and(|found| found.ino() == self.inode) {
            // Without it, who asks is told that no server runs; with it, the same a little later.
            let _ = fs::remove_file(&path);
        }
    }
}

/// Makes the one that is to replace the one that is there.
fn bind_new(dir: &SocketDir) -> io::Result<UnixListener> {
    let new = dir.path().join(NEW_NAME);
    match fs::remove_file(&new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let socket = passing::bind_private(&new)?;
    sys::socket::listen(&socket, BACKLOG)?;
    UnixListener::from_std(net::UnixListener::from(socket))
}

/// Whether who answers is to be believed: our own user, root, or whose the directory is.
pub(crate) fn may_answer(data: &Path, peer: Credentials) -> io::Result<bool> {
    Ok(may_ask(peer)? || fs::metadata(data)?.uid() == peer.uid)
}

/// Whether who has connected may ask: our own user, or root.
pub(crate) fn may_ask(peer: Credentials) -> io::Result<bool> {
    let (own, _other) = net::UnixStream::pair()?;
    Ok(peer.uid == 0 || peer.uid == passing::peer_credentials(&own)?.uid)
}

/// Connects to the server that runs in `data`; `None` when none does.
pub(crate) async fn connect(data: &Path) -> io::Result<Option<UnixStream>> {
    let connected = match SocketDir::open(data) {
        Ok(dir) => UnixStream::connect(dir.path().join(NAME)).await,
        Err(error) => Err(error),
    };
    match connected {
        Ok(stream) => Ok(Some(stream)),
        Err(error) => match error.kind() {
            // One that was killed leaves its socket behind.
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => Ok(None),
            _ => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[tokio::test]
    async fn socket_is_replaced_in_one_step_and_taken_away_by_none_but_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        assert!(connect(dir.path()).await.unwrap().is_none());
        let old = Socket::bind(dir.path()).unwrap();
        let new = Socket::bind(dir.path()).unwrap();
        let mode = fs::metadata(dir.path().join(NAME)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        old.remove();
        let client = connect(dir.path()).await.unwrap().unwrap();
        let (accepted, _) = new.listener.accept().await.unwrap();
        assert!(may_ask(passing::peer_credentials(&accepted).unwrap()).unwrap());
        let foreign = Credentials { pid: 1, uid: u32::MAX };
        assert!(!may_ask(foreign).unwrap() && !may_answer(dir.path(), foreign).unwrap());
        fs::create_dir(dir.path().join(NEW_NAME)).unwrap();
        assert!(Socket::try_to_bind(dir.path()).is_err());
        fs::remove_dir(dir.path().join(NEW_NAME)).unwrap();
        Socket::try_to_bind(dir.path()).unwrap();
        drop((client, accepted, old));
        drop(new.listener);
        assert!(connect(dir.path()).await.unwrap().is_none(), "it is there, and nobody listens");
    }

    #[tokio::test]
    async fn long_path_is_no_obstacle() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("d".repeat(120));
        fs::create_dir(&deep).unwrap();
        let socket = Socket::bind(&deep).unwrap();
        assert!(connect(&deep).await.unwrap().is_some());
        socket.remove();
        assert!(connect(&deep).await.unwrap().is_none());
    }
}
