//! Programs of tests that `cargo xtask programs` puts below `target/tools`.

use std::path::{Path, PathBuf};

/// `path` in a folder `tools` above this program. Skips the test where there is none.
pub fn tool(path: impl AsRef<Path>) -> Option<PathBuf> {
    let path = path.as_ref();
    let found = rig::tool(path);
    if found.is_none() {
        let name = path.display();
        crate::skip(&format!("there is no {name}: `cargo xtask programs` brings it, or says why"));
    }
    found
}

/// `path` in a folder `tools` above this program, where there is one: for a test that can do with
/// less.
pub fn found(path: impl AsRef<Path>) -> Option<PathBuf> {
    rig::tool(path.as_ref())
}
