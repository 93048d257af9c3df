//! `cargo xtask site`: the documentation as a folder that any web server serves.
//!
//! `site/build.js` does it, with VitePress; a link that leads nowhere fails it.

use std::path::Path;

use crate::node::{CLEAN_INSTALL, Node};

/// What builds the site.
const SITE: &str = "site";

/// Builds the site into `target/site-pages`.
pub(crate) fn site(root: &Path) -> anyhow::Result<bool> {
    let node = Node::ensure(root)?;
    let folder = root.join(SITE);
    Ok(node.npm(&folder, &CLEAN_INSTALL)? && node.npm(&folder, &["run", "build"])?)
}
