//! The browser client as `npm publish` would send it. It is built before (`prepack`, or by a step
//! of the same run), so what is packed is never empty nor old.

use std::path::PathBuf;
use std::process::Command;

use anyhow::ensure;

use super::{Wanted, output};
use crate::node::{CLEAN_INSTALL, CLIENT, Node, client_is_built};

pub(super) fn make(wanted: &Wanted) -> anyhow::Result<PathBuf> {
    let node = Node::ensure(&wanted.root)?;
    let folder = wanted.root.join(CLIENT);
    if !folder.join("node_modules").is_dir() {
        ensure!(node.npm(&folder, &CLEAN_INSTALL)?, "npm cannot fetch what builds the client");
    }
    let out = wanted.out.display().to_string();
    let mut pack = vec!["pack", "--silent", "--pack-destination", &out];
    if client_is_built() {
        pack.push("--ignore-scripts");
    }
    let packed = node.npm(&folder, &pack)?;
    ensure!(packed, "npm cannot pack {CLIENT}");
    let file = wanted.out.join(format!("encke-{}.tgz", wanted.version));
    ensure!(file.is_file(), "npm has packed another version than {}", wanted.version);
    // Where npm is set up to run no scripts, it packs what happens to be there.
    let list = output(Command::new("tar").arg("--list").arg("--file").arg(&file))?;
    ensure!(list.contains("package/dist/encke.js\n"), "npm has packed what is not built: {list}");
    Ok(file)
}
