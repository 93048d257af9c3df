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
    /// It was to be taken over from the process that holds it, and none does.
    #[error("no process has it open, so there is none to take it over from; start it as usual")]
    NotHeld,
    /// LMDB tells processes by their ids, and the one that has it open has the same one, in another
    /// PID namespace.
    #[error(
        "the process that uses it has the same process id as this one, {pid}, as in two containers \
         that know nothing of one another; give this one another id (for containers: --pid=host)"
    )]
    SamePid {
        /// Of both.
        pid: u32,
    },
    /// It cannot be relied upon, as was found after it had been opened.
    #[error(transparent)]
    Unusable(#[from] Unusable),
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
    /// The store is a replica's, and was to be opened as one that is its own record.
    #[error(
        "the graph there is a copy that a node of a cluster keeps; start it as a node of its \
         cluster, or name another directory"
    )]
    IsReplica,
    /// The store is its own record, and was to be opened as a replica.
    #[error(
        "the graph there is a single node's own record, which a copy of a cluster's graph would \
         replace; name another directory, or move data.mdb and data.state away from there"
    )]
    IsOwnRecord,
    /// An LMDB file of another program.
    #[error("data.mdb there is not a store of Encke; name another directory")]
    Foreign,
    /// The file contradicts itself, or is not what was written.
    #[error(
        "data.mdb is damaged ({0}); `encke graph check` lists what is wrong. Move data.mdb and \
         data.state away from there, then `encke graph restore BACKUP`, or load the graph again: \
         keys and revoked tokens beside them stay"
    )]
    Damaged(String),
    /// There was a store, and the file is empty or not there.
    #[error(
        "data.mdb is empty or missing, though the directory held {}; remove data.state there, then \
         `encke graph restore BACKUP`, or start with an empty graph",
        held(*.subscriptions)
    )]
    Gone {
        /// How many there were, as far as that is known.
        subscriptions: Option<u64>,
    },
    /// The file is sound and not the newest one that was there.
    #[error(
        "data.mdb is of transaction {found}, but the directory held one of transaction {known}: \
         newer changes are missing. Put a newer backup in its place; if this one is meant to be \
         there, remove data.state beside it"
    )]
    Older {
        /// The file's.
        found: u64,
        /// What was recorded.
        known: u64,
    },
    /// What the kernel tells of this process cannot be read: which descriptors LMDB has, and where
    /// it has mapped its file.
    #[error(
        "what this process has open cannot be read below /proc ({0}); if /proc is not mounted, \
         mount it (`mount -t proc proc /proc`)"
    )]
    Proc(io::Error),
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

fn held(subscriptions: Option<u64>) -> String {
    subscriptions.map_or("a graph".into(), |count| format!("{count} subscriptions"))
}

fn process(pid: Option<u32>) -> String {
    pid.map_or("another process".into(), |pid| format!("another process (pid {pid})"))
}

impl From<heed::Error> for OpenReason {
    fn from(error: heed::Error) -> OpenReason {
        match error {
            heed::Error::Io(error) => OpenReason::Directory(error),
            error if is_damage(&error) => OpenReason::Damaged(error.to_string()),
            other => OpenReason::Lmdb(other.to_string()),
        }
    }
}

/// Why an open store cannot be relied upon any more. For the operator.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unusable {
    /// Its directory or its file was removed, or replaced by another one.
    #[error(
        "the data directory {} is gone ({error}), so nothing can be kept; stop the server, put the \
         directory or a backup of it in its place, and start it again", dir.display()
    )]
    Gone {
        /// The directory.
        dir: PathBuf,
        /// What the system says.
        error: String,
    },
    /// LMDB's lock file was cut short under its map, or cannot be read.
    #[error(
        "lock.mdb was cut short or cannot be read, so the friends graph is neither read nor \
         changed; see that nobody writes into the data directory, then restart the server"
    )]
    LockFile,
    /// The replica has no graph that can be relied upon, until it is rebuilt.
    #[error("this node's copy of the graph is not there yet ({0}); it is being made anew")]
    MustRebuild(String),
    /// The file is not what was written.
    #[error(
        "data.mdb is damaged ({0}), so nothing is changed in it; stop the server and see `encke \
         graph check`"
    )]
    Damaged(String),
}

/// Why a change was not made. Nothing of the request was stored, unless it says so.
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
    /// The store is a replica: its pairs change by the log alone.
    #[error(
        "nothing was stored, the graph here is a node's copy; change the cluster's graph instead"
    )]
    IsReplica,
    /// The store is another process's by now.
    #[error("nothing was stored, a new version of the server is taking over; send it again")]
    HandedOver,
    /// The store is being closed.
    #[error("nothing was stored, the server is stopping; send it again when it is back")]
    Stopped,
    /// The store cannot be relied upon any more.
    #[error(transparent)]
    Unusable(#[from] Unusable),
    /// The disk failed at the very last step. The one case in which nobody knows.
    #[error(
        "the disk failed while this was being stored ({0}), and it may be stored or not; restart \
         the server, which looks at its store, and send it again"
    )]
    Unknown(String),
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
            heed::Error::Mdb(MdbError::Panic) => "the disk failed; restart the server".into(),
            error if is_damage(&error) => format!("{error}; see `encke graph check`"),
            other => other.to_string(),
        };
        ReadError(text)
    }
}

impl From<Unusable> for ReadError {
    fn from(error: Unusable) -> ReadError {
        ReadError(error.to_string())
    }
}

impl From<ReadError> for FollowersError {
    fn from(error: ReadError) -> FollowersError {
        FollowersError(error.0)
    }
}

/// Whether LMDB or a checksum says that the file is not what was written.
pub(super) fn is_damage(error: &heed::Error) -> bool {
    use MdbError::{Corrupted, Invalid, PageNotFound, VersionMismatch};
    match error {
        heed::Error::Decoding(_) => true,
        heed::Error::Mdb(error) => {
            matches!(error, Corrupted | Invalid | PageNotFound | VersionMismatch)
        }
        _ => false,
    }
}
