//! The port program behind `encke ketama`: keys in, servers out, and a list that may change.
//!
//! There are two threads, so that nothing that happens to the file can hold up a look-up.
//! [`packets`] answers keys from the continuum that holds, [`list`] looks at the file and replaces
//! the continuum as a whole. How a key finds its server is the crate `ketama`; here are pipes,
//! files and sentences.

mod list;
mod packets;

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use anyhow::{Context, Result};
use ketama::Continuum;
use tokio::sync::watch;

pub(crate) use list::{ServerList, ServerListError};

/// Answers the keys on standard input until it ends.
///
/// Both ends are taken as plain files: what is answered leaves at once, and whole batches go
/// through one buffer, not two.
pub(crate) fn answer_stdin(continuum: &watch::Receiver<Continuum>) -> Result<()> {
    let plain = |end: io::Result<_>| end.map(File::from).context("cannot open a standard stream");
    let mut input = plain(io::stdin().as_fd().try_clone_to_owned())?;
    let mut output = plain(io::stdout().as_fd().try_clone_to_owned())?;
    packets::answer_all(&mut input, &mut output, continuum)
}
