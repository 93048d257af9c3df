//! Programs that `cargo xtask programs` puts below `target/tools`.

use std::env;
use std::path::{Path, PathBuf};

/// `path` in a folder `tools` above this program, where there is one.
pub fn tool(path: &Path) -> Option<PathBuf> {
    let own = env::current_exe().ok()?;
    own.ancestors().map(|folder| folder.join("tools").join(path)).find(|path| path.exists())
}
