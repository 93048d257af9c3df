//! What lies on disk of the events that stay, as the router and those who read the past see it.

use thiserror::Error;

use crate::page::{Page, PageOf};

/// Events on disk of the subjects that are kept. `F` is as in [`Event`](crate::Event).
pub trait Archive<F>: Send + Sync {
    /// Whether what is sent about `id` is kept.
    fn keeps(&self, id: &str) -> bool;

    /// A page of the events about `id` that are kept. It reads from a disk and may take long: it is
    /// called where it holds up nobody, on no worker and on no thread of the control plane.
    ///
    /// All that was posted before the call is there, be it on disk yet or not: whoever asks has
    /// found that the memory has forgotten it.
    ///
    /// # Errors
    ///
    /// The disk could not be read.
    fn page(&self, id: &str, of: PageOf) -> Result<Page<F>, ArchiveError>;

    /// Whether it is this process's to read. While another one is about to go on for this one it
    /// is not, and pages cannot be read: nobody is told of a gap for that.
    fn is_open(&self) -> bool {
        true
    }
}

/// The archive could not be read; the text says why.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the log on disk could not be read: {0}")]
pub struct ArchiveError(pub String);
