//! The browser client as `npm publish` would send it. It is built before (`prepack`), so what is
//! packed is never empty nor old.

use std::path::PathBuf;

use anyhow::ensure;

use super::Wanted;
use crate::node::{CLEAN_INSTALL, CLIENT, Node, target};

pub(super) fn make(wanted: &Wanted) -> anyhow::Result<PathBuf> {
    let node = Node::ensure(&target(&wanted.root))?;
    let folder = wanted.root.join(CLIENT);
    if !folder.join("node_modules").is_dir() {
        ensure!(node.npm(&folder, &CLEAN_INSTALL)?, "npm cannot fetch what builds the client");
    }
    let out = wanted.out.display().to_string();
    let packed = node.npm(&folder, &["pack", "--silent", "--pack-destination", &out])?;
    ensure!(packed, "npm cannot pack {CLIENT}");
    let file = wanted.out.join(format!("encke-{}.tgz", wanted.version));
    ensure!(file.is_file(), "npm has packed another version than {}", wanted.version);
    Ok(file)
}
