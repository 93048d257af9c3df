//! What tests take that never changes between runs: built or fetched once for a user, and kept
//! outside the clone.
//!
//! A tool stands in a folder of its own, `NAME-KEY`, where the key is its version or a hash of what
//! it is made of. So another version of it is another tool, clones share what they have in common,
//! and nothing that is there is ever changed. The folder of all is `$ENCKE_TOOLS`, else
//! `encke/tools` in the user's cache (`$XDG_CACHE_HOME`, else `~/.cache`), else `target/store`.
//!
//! Who uses a tool finds it below `target/tools`, which holds links alone: to the versions that
//! this clone takes.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use sha2::{Digest, Sha256};

use crate::building::target;

/// Names the folder of all tools.
const VARIABLE: &str = "ENCKE_TOOLS";

/// Stands in the folder of a tool once it is whole. Its time is that of the last use.
const COMPLETE: &str = "complete";

/// How the name of a tool's lock ends.
const LOCK: &str = ".lock";

/// A version that was not used for so long is deleted when another of the same tool is made.
const UNUSED_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// A tool as this clone wants it.
pub(crate) struct Tool<'a> {
    /// The path of its link below `target/tools`.
    pub(crate) link: &'a str,
    /// Its version, or the [`digest`] of what it is made of.
    pub(crate) key: &'a str,
    /// What of its folder the link leads to; nothing for the folder itself.
    pub(crate) inside: &'a str,
}

impl Tool<'_> {
    /// Where it is, made by `make` in an empty folder if it was not there yet, and linked to. Two
    /// who want the same at once wait for each other.
    pub(crate) fn ensure(
        &self,
        root: &Path,
        make: impl FnOnce(&Path) -> anyhow::Result<()>,
    ) -> anyhow::Result<PathBuf> {
        let link = target(root).join("tools").join(self.link);
        let made = self.make_in(&folder(root)?, make)?.join(self.inside);
        point(&link, &made).with_context(|| link.display().to_string())?;
        Ok(made)
    }

    /// Where it is, if it is there; used, so that it stays.
    pub(crate) fn find(&self, root: &Path) -> anyhow::Result<Option<PathBuf>> {
        let made = folder(root)?.join(self.name());
        let complete = made.join(COMPLETE);
        Ok(complete.is_file().then(|| File::create(complete)).transpose()?.map(|_| made))
    }

    /// Likewise the one that was used last of those whose keys begin so.
    pub(crate) fn newest(&self, root: &Path, beginning: &str) -> anyhow::Result<Option<PathBuf>> {
        let store = folder(root)?;
        let newest = self.newest_in(&store, beginning);
        Ok(newest.map(|made| File::create(made.join(COMPLETE)).map(|_| made)).transpose()?)
    }

    fn newest_in(&self, store: &Path, beginning: &str) -> Option<PathBuf> {
        let beginning = Tool { key: beginning, ..*self }.name();
        let all = fs::read_dir(store).into_iter().flatten().flatten();
        let such = all.filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            // A key has no dash: what has one is another tool, whose name begins like this one's.
            name.strip_prefix(&*beginning).is_some_and(|rest| !rest.contains('-'))
        });
        let used = such.filter_map(|entry| {
            let used = fs::metadata(entry.path().join(COMPLETE)).and_then(|file| file.modified());
            Some((used.ok()?, entry.path()))
        });
        used.max().map(|(_, made)| made)
    }

    fn make_in(
        &self,
        store: &Path,
        make: impl FnOnce(&Path) -> anyhow::Result<()>,
    ) -> anyhow::Result<PathBuf> {
        let name = self.link.replace('/', "-");
        let folder = store.join(self.name());
        let lock = store.join(format!("{name}{LOCK}"));
        let lock = File::create(&lock).with_context(|| lock.display().to_string())?;
        lock.lock().context("the lock of a tool")?;
        let complete = folder.join(COMPLETE);
        let is_new = !complete.is_file();
        if is_new {
            println!("making {name} {}", self.key);
            // An attempt that was interrupted.
            remove(&folder)?;
            fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
            make(&folder)?;
        }
        // Whose time it sets, though there is nothing in it.
        File::create(&complete)?;
        if is_new {
            remove_unused(store, &name);
        }
        Ok(folder)
    }

    /// The name of its folder.
    fn name(&self) -> String {
        format!("{}-{}", self.link.replace('/', "-"), self.key)
    }
}

/// A key for what is made of these texts.
pub(crate) fn digest(texts: &[impl AsRef<[u8]>]) -> String {
    let mut hash = Sha256::new();
    for text in texts {
        let text = text.as_ref();
        hash.update(text.len().to_le_bytes());
        hash.update(text);
    }
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The folder of all tools.
pub(crate) fn folder(root: &Path) -> anyhow::Result<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let cache = || {
        let cache = named("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache.or_else(|| Some(Path::new(&named("HOME")?).join(".cache")))?;
        Some(cache.join("encke/tools"))
    };
    let store = named(VARIABLE).map(PathBuf::from).or_else(cache);
    let store = std::path::absolute(store.unwrap_or_else(|| target(root).join("store")))?;
    fs::create_dir_all(&store).with_context(|| store.display().to_string())?;
    Ok(store)
}

/// Makes `link` lead to `to`, whatever it was before; two may do so at once.
fn point(link: &Path, to: &Path) -> anyhow::Result<()> {
    if fs::read_link(link).is_ok_and(|path| path == to) {
        return Ok(());
    }
    if fs::symlink_metadata(link).is_ok_and(|found| found.is_dir()) {
        remove(link)?;
    }
    fs::create_dir_all(link.parent().context("a link is in a folder")?)?;
    let new = link.with_added_extension(std::process::id().to_string());
    remove(&new)?;
    symlink(to, &new)?;
    Ok(fs::rename(new, link)?)
}

/// Removes a file, a link or a folder, if there is one.
pub(crate) fn remove(path: &Path) -> anyhow::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| path.display().to_string())
        }
        _ => Ok(()),
    }
}

/// Deletes versions of a tool that nobody has used for long, and those that never became whole: who
/// makes one has the lock. What cannot be deleted stays.
fn remove_unused(store: &Path, name: &str) {
    let used = |path: &Path| fs::metadata(path).and_then(|file| file.modified()).ok();
    // Taken a moment ago.
    let Some(now) = used(&store.join(format!("{name}{LOCK}"))) else { return };
    for entry in fs::read_dir(store).into_iter().flatten().flatten() {
        let is_version = |file: &OsStr| {
            let key = file.to_str().and_then(|file| file.strip_prefix(name)?.strip_prefix('-'));
            // A key has no dash: what has one is another tool, whose name begins like this one's.
            key.is_some_and(|key| !key.contains('-'))
        };
        let is_garbage = used(&entry.path().join(COMPLETE))
            .is_none_or(|used| now.duration_since(used).is_ok_and(|age| age > UNUSED_MAX));
        if is_version(&entry.file_name()) && is_garbage {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("encke-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn tool<'a>(link: &'a str, key: &'a str) -> Tool<'a> {
        Tool { link, key, inside: "" }
    }

    #[test]
    fn tool_is_made_once_and_again_after_a_failure() {
        let store = Folder::new("store");
        let write = |folder: &Path| Ok(fs::write(folder.join("program"), "1")?);
        let tool = tool("bin/a", "1");
        tool.make_in(&store.0, |folder| {
            write(folder)?;
            anyhow::bail!("no registry")
        })
        .unwrap_err();
        let folder = tool.make_in(&store.0, |folder| {
            assert_eq!(fs::read_dir(folder).unwrap().count(), 0, "a failed attempt left something");
            write(folder)
        });
        let again = tool.make_in(&store.0, |_| panic!("it is there"));
        assert_eq!(folder.unwrap(), again.unwrap());
    }

    #[test]
    fn version_that_nobody_uses_goes_when_another_is_made() {
        let store = Folder::new("unused");
        let make = |link, key| tool(link, key).make_in(&store.0, |_| Ok(())).unwrap();
        let (old, other) = (make("a", "1"), make("a-b", "1"));
        let recent = make("a", "2");
        let broken_off = tool("a", "0");
        broken_off.make_in(&store.0, |_| anyhow::bail!("no registry")).unwrap_err();
        for folder in [&old, &other] {
            let complete = File::create(folder.join(COMPLETE)).unwrap();
            let now = complete.metadata().unwrap().modified().unwrap();
            complete.set_modified(now - 2 * UNUSED_MAX).unwrap();
        }
        make("a", "3");
        assert!(!store.0.join(broken_off.name()).exists());
        assert!(!old.exists() && other.exists() && recent.exists());
    }

    #[test]
    fn newest_of_a_beginning_is_the_one_that_was_used_last() {
        let store = Folder::new("newest");
        let make = |link, key| tool(link, key).make_in(&store.0, |_| Ok(())).unwrap();
        let made = [make("a", "aa1"), make("a", "aa2"), make("a", "b1"), make("a-aa", "aa1")];
        tool("a", "aa3").make_in(&store.0, |_| anyhow::bail!("broken off")).unwrap_err();
        let now = fs::metadata(made[3].join(COMPLETE)).unwrap().modified().unwrap();
        for (age, folder) in [2, 1, 0, 0].into_iter().zip(&made) {
            let complete = File::create(folder.join(COMPLETE)).unwrap();
            complete.set_modified(now - Duration::from_secs(age)).unwrap();
        }
        let newest = |beginning| tool("a", "any").newest_in(&store.0, beginning);
        assert_eq!(newest("aa").as_ref(), Some(&made[1]));
        assert_eq!(newest("b").as_ref(), Some(&made[2]));
        assert_eq!(newest("c"), None);
    }

    #[test]
    fn link_leads_to_the_last_version_and_replaces_what_was_there() {
        let folder = Folder::new("link");
        let link = folder.0.join("tools/compat");
        fs::create_dir_all(link.join("of-an-older-kind")).unwrap();
        for version in ["one", "two"] {
            let to = folder.0.join(version);
            point(&link, &to).unwrap();
            assert_eq!(fs::read_link(&link).unwrap(), to);
        }
    }

    #[test]
    fn digest_parts_its_texts() {
        assert_eq!(digest(&["ab", "c"]), digest(&["ab", "c"]));
        assert_ne!(digest(&["ab", "c"]), digest(&["a", "bc"]));
        assert_eq!(digest(&[""]).len(), 16);
    }
}
