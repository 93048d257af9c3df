//! What can go wrong with the stored graph, in sentences that say what to do.

use std::io;
use std::path::PathBuf;

use heed::MdbError;
use hub::FollowersError;
use thiserror::Error;

/// Why the store of a directory could not be opened. For the operator.
#[derive(Debug, Error)]
#[error("cannot open the friends graph in {}: {reason}", dir.display())]
pub struct OpenError {
    /// The data directory.
    pub dir: PathBuf,
    /// What is wrong with it.
    pub reason: OpenReason,
}

/// What is wrong with a data directory.
#[derive(Debug, Error)]
pub enum OpenReason {
    /// It cannot be created, or files in it cannot be written.
    #[error(
        "the directory cannot be created or written ({0}); check its owner, permissions and free \
         space, or name another directory"
    )]
    Directory(io::Error),
    /// Its lock is held.
    #[error("{} uses it; stop that one first, or name another directory", process(*.pid))]
    InUse {
        /// The process that holds the lock, as far as it said so.
        pid: Option<u32>,
    },
    /// Another version of Encke wrote it.
    #[error(
        "the store has format {found} and this program reads format {known}; use the version of \
         Encke that wrote it, or load the graph into a new directory"
    )]
    OtherFormat {
        /// As the store says.
        found: u32,
        /// Ours.
        known: u32,
    },
    /// An LMDB file of another program.
    #[error("data.mdb there is not a store of Encke; name another directory")]
    Foreign,
    /// The file contradicts itself.
    #[error(
        "data.mdb is damaged ({0}); put a backup in its place, or move it away and load the graph \
         again"
    )]
    Damaged(String),
    /// The process may not map even a small file.
    #[error("the system maps no more than {0} bytes for this process; raise `ulimit -v`")]
    AddressSpace(usize),
    /// No thread for the writer.
    #[error("the system grants no thread for its writer ({0}); raise `ulimit -u`")]
    Thread(io::Error),
    /// LMDB's own words.
    #[error("{0}")]
    Lmdb(String),
}

fn process(pid: Option<u32>) -> String {
    pid.map_or("another process".into(), |pid| format!("another process (pid {pid})"))
}

impl From<heed::Error> for OpenReason {
    fn from(error: heed::Error) -> OpenReason {
        match error {
            heed::Error::Io(error) => OpenReason::Directory(error),
            heed::Error::Mdb(
                error @ (MdbError::Invalid
                | MdbError::Corrupted
                | MdbError::PageNotFound
                | MdbError::VersionMismatch),
            ) => OpenReason::Damaged(error.to_string()),
            heed::Error::Decoding(error) => OpenReason::Damaged(error.to_string()),
            other => OpenReason::Lmdb(other.to_string()),
        }
    }
}

/// Why a change was not made. Nothing of the request was stored.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WriteError {
    /// The file system took no more bytes. The server goes on reading; a retry may succeed.
    #[error(
        "nothing was stored, the disk is full or failing ({0}); free some space, send it again"
    )]
    DiskFull(String),
    /// The store reached the address space that it reserved at start.
    #[error(
        "nothing was stored, the store has reached the {0} bytes that this process may map; raise \
         `ulimit -v` and start it again"
    )]
    SizeLimit(usize),
    /// The store is being closed.
    #[error("nothing was stored, the server is stopping; send it again when it is back")]
    Stopped,
    /// Anything else, in the words of LMDB or of the system.
    #[error("nothing was stored: {0}; see the server's disk and restart it if this goes on")]
    Store(String),
}

/// Why a look-up failed. The caller is told, the server lives on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the friends graph could not be read: {0}")]
pub struct ReadError(String);

impl From<heed::Error> for ReadError {
    fn from(error: heed::Error) -> ReadError {
        let text = match error {
            heed::Error::Mdb(MdbError::BadRslot) => "a read inside a read on one thread".into(),
            heed::Error::Mdb(MdbError::ReadersFull) => "too many threads read at once".into(),
            other => other.to_string(),
        };
        ReadError(text)
    }
}

impl From<ReadError> for FollowersError {
    fn from(error: ReadError) -> FollowersError {
        FollowersError(error.0)
    }
}
