//! Threads for which, unlike a runtime's, the end of the process does not wait.

use std::thread;

use anyhow::{Context, Result};

/// Starts one that is called `name` and does `work`.
pub(crate) fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    let started = thread::Builder::new().name(name.to_owned()).spawn(work);
    started.map(drop).context("cannot start a thread; check the limit on threads (ulimit -u)")
}
