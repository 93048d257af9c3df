//! Crates of others, compiled: kept outside the clone, so that a fresh clone compiles our own
//! alone.
//!
//! What cargo has made of them is the same as long as the lockfile, the root's manifest and the
//! compiler are. So after a run that passed it is copied to where tools are kept
//! ([`crate::store`]), under hashes of these. From there it goes below `target` of a clone that has
//! nothing there. cargo looks at all of it as at what it has made itself, and makes anew what does
//! not fit. So where the manifest or the lockfile is another, what was kept last for the same
//! compiler is taken: most of it fits. Our own crates are never kept: their sources are told apart
//! by times alone.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::building::target;
use crate::store::{Tool, digest};

/// The folders of builds, below `target`: of all, and of the models under loom.
const BUILDS: [&str; 2] = ["debug", "loom/debug"];

/// Where cargo keeps what it makes, below each. The last one says that what stands in the others is
/// whole, so a copy that breaks off is taken for nothing.
const PARTS: [&str; 3] = ["deps", "build", ".fingerprint"];

/// The link of it below `target/tools`.
const LINK: &str = "registry-crates";

/// A file below `target` and in what is kept: how often others than those of the same key were
/// taken in between. Each time what fits no longer goes along.
const AGE: &str = "registry-crates-age";

/// So often; then all is compiled, and what fits no longer is gone.
const AGE_MAX: u32 = 6;

/// Copies what is kept into a clone that has built nothing yet; says so.
pub(crate) fn restore(root: &Path) -> anyhow::Result<()> {
    let target = target(root);
    // What this program itself takes is there.
    if target.join("debug/encke").exists() {
        return Ok(());
    }
    let key = key(root)?;
    let tool = Tool { link: LINK, key: &key, inside: "" };
    let (kept, age) = if let Some(kept) = tool.find(root)? {
        println!("crates of others are those of an earlier build");
        (kept.clone(), age(&kept))
    } else if let Some(kept) =
        tool.newest(root, &key[..COMPILER])?.filter(|kept| age(kept) < AGE_MAX)
    {
        println!("crates of others are those of an earlier build, as far as they fit");
        (kept.clone(), age(&kept) + 1)
    } else {
        println!("no compiled crates of others are kept: all are compiled");
        return Ok(());
    };
    fs::write(target.join(AGE), age.to_string())?;
    for build in BUILDS {
        let to = target.join(build);
        fs::create_dir_all(&to).with_context(|| to.display().to_string())?;
        for part in PARTS {
            let from = kept.join(build).join(part);
            if from.exists() {
                copy(&[from], &to)?;
            }
        }
    }
    Ok(())
}

/// Keeps what was compiled, unless it is there already.
pub(crate) fn keep(root: &Path) -> anyhow::Result<()> {
    let own = own_names(root)?;
    let key = key(root)?;
    let tool = Tool { link: LINK, key: &key, inside: "" };
    let made = tool.ensure(root, |folder| {
        fs::write(folder.join(AGE), age(&target(root)).to_string())?;
        for (build, part) in BUILDS.iter().flat_map(|build| PARTS.map(|part| (build, part))) {
            let from = target(root).join(build).join(part);
            // Whoever has run no models has built none.
            if !from.exists() {
                continue;
            }
            let files = fs::read_dir(&from).with_context(|| from.display().to_string())?;
            let files: Result<Vec<PathBuf>, _> =
                files.map(|entry| entry.map(|entry| entry.path())).collect();
            let mut files = files?;
            files.retain(|file| file.file_name().is_some_and(|name| is_foreign(name, &own)));
            let to = folder.join(build).join(part);
            fs::create_dir_all(&to)?;
            // A command line has a bound.
            files.chunks(1000).try_for_each(|files| copy(files, &to))?;
        }
        Ok(())
    });
    made.map(|_| ())
}

/// What [`AGE`] says in `folder`: nothing where all was compiled.
fn age(folder: &Path) -> u32 {
    let text = fs::read_to_string(folder.join(AGE)).unwrap_or_default();
    text.trim().parse().unwrap_or_default()
}

/// Copies files and folders with their times, by which cargo tells what is older. Over those that
/// are there: what was made just now, as for this program, would have all that uses it made anew.
fn copy(from: &[PathBuf], to: &Path) -> anyhow::Result<()> {
    let mut cp = Command::new("cp");
    cp.args(["--archive", "--reflink=auto", "--"]).args(from).arg(to);
    cp.stdin(Stdio::null());
    ensure!(cp.status().context("cp does not start")?.success(), "cp cannot copy the crates");
    Ok(())
}

/// Whether a file or folder that cargo has made belongs to a crate that is none of ours: its name
/// is that of a crate, a dash and a hash.
fn is_foreign(name: &OsStr, own: &HashSet<String>) -> bool {
    let name = name.to_string_lossy();
    let Some((name, _)) = name.rsplit_once('-') else { return false };
    let name = name.replace('-', "_");
    !own.contains(&name) && !name.strip_prefix("lib").is_some_and(|name| own.contains(name))
}

/// The names of all that the workspace builds, as the compiler has them.
fn own_names(root: &Path) -> anyhow::Result<HashSet<String>> {
    let mut metadata = Command::new("cargo");
    metadata.args(["metadata", "--no-deps", "--format-version", "1", "--offline"]);
    let output = metadata.current_dir(root).stdin(Stdio::null()).stderr(Stdio::null()).output();
    let output = output.context("cargo does not start")?;
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo's metadata")?;
    let packages = metadata["packages"].as_array().context("cargo tells no packages")?;
    let targets = packages.iter().flat_map(|package| package["targets"].as_array()).flatten();
    let named = packages.iter().chain(targets).filter_map(|named| named["name"].as_str());
    Ok(named.map(|name| name.replace('-', "_")).collect())
}

/// Which compiler this is.
pub(crate) fn compiler() -> anyhow::Result<Vec<u8>> {
    let version = Command::new("rustc").arg("-vV").stdin(Stdio::null()).output();
    Ok(version.context("rustc does not start")?.stdout)
}

/// What it depends on: first, in [`COMPILER`] characters, that without which nothing of it fits.
fn key(root: &Path) -> anyhow::Result<String> {
    let mut compiler = vec![compiler()?];
    for name in ["RUSTFLAGS", "CC", "CFLAGS"] {
        compiler.push(std::env::var(name).unwrap_or_default().into_bytes());
    }
    let mut texts = Vec::new();
    for file in ["Cargo.lock", "Cargo.toml", ".cargo/config.toml"] {
        texts.push(fs::read(root.join(file)).with_context(|| file.to_owned())?);
    }
    Ok(digest(&compiler) + &digest(&texts))
}

/// The length of a [`digest`].
const COMPILER: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_workspace_are_ours_in_each_form() {
        let own = HashSet::from(["encke".to_owned(), "it".to_owned(), "build_me".to_owned()]);
        for name in ["encke-0a1b", "libencke-0a1b.rlib", "it-0a1b.d", "build-me-0a", "no_hash"] {
            assert!(!is_foreign(OsStr::new(name), &own), "{name}");
        }
        for name in ["libserde-0a1b.rmeta", "aws-lc-sys-0a1b", "enckes-0a1b", "iter-0a"] {
            assert!(is_foreign(OsStr::new(name), &own), "{name}");
        }
    }

    #[test]
    fn crates_of_this_workspace_are_known() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let own = own_names(root).unwrap();
        assert!(["encke", "xtask", "it", "engine"].iter().all(|&name| own.contains(name)));
    }
}
