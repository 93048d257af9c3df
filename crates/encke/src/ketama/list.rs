//! The list of servers on disk, and the continuum made of it.
//!
//! The file is looked at twice a second: which file it is (a list is best replaced by rename(2)),
//! its length, its times. Such a stamp that is new and then the same a second time says that the
//! list has changed and nobody is writing it any more; then it is read. So half a list that an
//! editor has written so far is not taken for the list, and a change within the clock tick of a
//! read is not overlooked. With inotify(7) nobody would have to look, but it does not work on
//! network file systems.
//!
//! Whatever happens to the file, the continuum that is there holds until there is a better one.
//!
//! Cost: a stat(2) every half second; a change takes reading, parsing and building, on this thread.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use ketama::{Continuum, ContinuumError, ListError, parse};
use thiserror::Error;
use tokio::sync::watch;

/// Between two looks at the file.
const LOOK_PERIOD: Duration = Duration::from_millis(500);

/// As many servers as a continuum may have, with the longest addresses.
const LIST_BYTES_MAX: u64 = 1 << 24;

/// Why a list cannot be used. The first two are about the file, the others about what it says.
#[derive(Debug, Error)]
pub(crate) enum ServerListError {
    #[error("cannot read {}: {error}; name a file that this user may read", path.display())]
    Read { path: PathBuf, error: io::Error },
    #[error("{} is not a file that can be read again when it changes: name one", path.display())]
    NoFile { path: PathBuf },
    #[error("{} has more than {LIST_BYTES_MAX} bytes: divide the servers", path.display())]
    TooLong { path: PathBuf },
    #[error("{}, {error}", path.display())]
    List { path: PathBuf, error: ListError },
    #[error("{}: {error}", path.display())]
    Continuum { path: PathBuf, error: ContinuumError },
}

impl ServerListError {
    /// Whether the list says something wrong, and not just cannot be read.
    pub(crate) fn is_usage(&self) -> bool {
        !matches!(self, ServerListError::Read { .. })
    }
}

/// What tells one state of a file from another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stamp {
    file: (u64, u64),
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Stamp {
        Stamp {
            file: (metadata.dev(), metadata.ino()),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// The list and who uses what is made of it.
pub(crate) struct ServerList {
    path: PathBuf,
    continuum: watch::Sender<Continuum>,
    /// The file at the last look; `None` when there was none.
    seen: Option<Stamp>,
    /// The file that was read last; `None` when there was none, and before one has stayed the same.
    read: Option<Stamp>,
    /// Whether what was read last could not be used.
    bad: bool,
}

impl ServerList {
    /// Reads the list at `path` for the first time. The receiver has its continuum, and the one of
    /// each later list that is good.
    pub(crate) fn open(
        path: PathBuf,
    ) -> Result<(ServerList, watch::Receiver<Continuum>), ServerListError> {
        let continuum = read(&path)?;
        warn_of_idle_servers(&continuum);
        let (sender, receiver) = watch::channel(continuum);
        // It is read once more when it has stayed the same, since it may be being written now.
        let list = ServerList { path, continuum: sender, seen: None, read: None, bad: false };
        Ok((list, receiver))
    }

    /// Looks at the list for as long as the program runs.
    pub(crate) fn keep(mut self) -> Result<()> {
        loop {
            self.look();
            thread::sleep(LOOK_PERIOD);
        }
    }

    fn look(&mut self) {
        let stamp = fs::metadata(&self.path).ok().map(|metadata| Stamp::of(&metadata));
        let settled = self.seen == stamp;
        self.seen = stamp;
        if settled && self.read != stamp {
            self.read = stamp;
            self.reload();
        }
    }

    fn reload(&mut self) {
        let was_bad = std::mem::take(&mut self.bad);
        let held = self.continuum.borrow().servers().len();
        match read(&self.path) {
            Ok(continuum) if continuum.servers() != self.continuum.borrow().servers() => {
                let servers = continuum.servers().len();
                warn_of_idle_servers(&continuum);
                self.continuum.send_replace(continuum);
                let path = self.path.display();
                tracing::info!("{path} has changed: {servers} servers now, {held} before");
            }
            Ok(_) if was_bad => {
                tracing::info!("{} is as before: {held} servers", self.path.display());
            }
            Ok(_) => {}
            Err(error) => {
                self.bad = true;
                tracing::error!("the {held} servers of before hold: {error}");
            }
        }
    }
}

/// Reads a list and makes its continuum. Devices and pipes are not opened: that could wait.
fn read(path: &Path) -> Result<Continuum, ServerListError> {
    let failed = |error| ServerListError::Read { path: path.to_owned(), error };
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err(ServerListError::NoFile { path: path.to_owned() });
    }
    let mut list = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(LIST_BYTES_MAX + 1).read_to_end(&mut list).map_err(failed)?;
    if list.len() as u64 > LIST_BYTES_MAX {
        return Err(ServerListError::TooLong { path: path.to_owned() });
    }
    let servers =
        parse(&list).map_err(|error| ServerListError::List { path: path.to_owned(), error })?;
    Continuum::new(&servers)
        .map_err(|error| ServerListError::Continuum { path: path.to_owned(), error })
}

fn warn_of_idle_servers(continuum: &Continuum) {
    for server in continuum.servers_without_points() {
        tracing::warn!(
            "{} has no keys: its memory is too small a part of all servers' for one point",
            server.address()
        );
    }
}
