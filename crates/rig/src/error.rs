//! Why a server cannot be used.

use std::io;
use std::path::{Path, PathBuf};

/// Why a server cannot be used. Each says what to do, or what the server said.
#[derive(Debug, thiserror::Error)]
pub enum RigError {
    /// The program, or the shell before it, does not start.
    #[error("cannot start {}: {source}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It has ended, and nobody ended it.
    #[error("{} has ended; it said:\n{said}", program.display())]
    Ended {
        /// The program.
        program: PathBuf,
        /// Its log.
        said: String,
    },
    /// A file or folder of it cannot be made.
    #[error("cannot make {}: {source}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// PostgreSQL refuses to run as root.
    #[error(
        "PostgreSQL does not run as root, and there is no user postgres: run this as another user"
    )]
    NoUser,
    /// All ports are taken.
    #[error("there is no free port from {first} to {last}")]
    NoPort {
        /// The first that was tried.
        first: u32,
        /// And the last.
        last: u32,
    },
}

impl RigError {
    pub(crate) fn start(program: &Path) -> impl FnOnce(io::Error) -> RigError {
        move |source| RigError::Start { program: program.to_owned(), source }
    }

    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> RigError {
        move |source| RigError::File { path: path.to_owned(), source }
    }
}
