//! The file of pairs that is loaded, or standard input.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, Result};

/// What the pairs are read from, and how many bytes it has, 0 when that is not known.
pub(super) type Input = (Box<dyn Read + Send>, u64);

/// Opens the file at `path`; `-` is standard input.
pub(super) fn open(path: &Path) -> Result<Input> {
    if path == Path::new("-") {
        return Ok((Box::new(io::stdin()), 0));
    }
    let cannot = || format!("cannot read {}; check its path, owner and mode", path.display());
    let file = File::open(path).with_context(cannot)?;
    let bytes = file.metadata().with_context(cannot)?.len();
    Ok((Box::new(file), bytes))
}
