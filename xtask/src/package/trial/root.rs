//! A fresh Debian without a network: what every Debian has, and what a package depends on, copied
//! out of this machine's own packages, as debootstrap would unpack them.
//!
//! So nothing else of this machine is there, and a package that forgets to say what it needs fails.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use super::super::{archive, done, output};

/// Where dpkg keeps what it knows.
const INFO: &str = "var/lib/dpkg/info";

/// What a system can do without.
const LEFT_OUT: [&str; 3] = ["/usr/share/doc/", "/usr/share/man/", "/usr/share/locale/"];

/// Makes it at `root`, with what `depends` lists, as a control file does.
pub(super) fn make(root: &Path, depends: &str) -> anyhow::Result<()> {
    // /bin and its like belong to no package.
    for name in ["bin", "sbin", "lib", "lib64"] {
        archive::make_folder(&root.join("usr").join(name), 0o755)?;
        std::os::unix::fs::symlink(format!("usr/{name}"), root.join(name))?;
    }
    let packages = packages(depends)?;
    let mut files = String::new();
    let mut status = String::new();
    for package in &packages {
        for file in output(Command::new("dpkg-query").args(["--listfiles", package]))?.lines() {
            let left_out = LEFT_OUT.iter().any(|folder| file.starts_with(folder));
            if file.starts_with('/') && !left_out && fs::symlink_metadata(file).is_ok() {
                files += &format!(".{file}\n");
            }
        }
        status += &output(Command::new("dpkg-query").args(["--status", package]))?;
        status += "\n";
    }
    copy(root, &files)?;
    archive::write(&root.join("var/lib/dpkg/status"), status, 0o644)?;
    archive::write(&root.join(INFO).join("format"), "1\n", 0o644)?;
    for entry in fs::read_dir(Path::new("/").join(INFO))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // `libc6:amd64.list`, `adduser.postinst`.
        let is_of = |package: &String| {
            name.strip_prefix(package).is_some_and(|rest| rest.starts_with(['.', ':']))
        };
        if packages.iter().any(is_of) {
            archive::copy(&entry.path(), &root.join(INFO).join(&name), 0o755)?;
        }
    }
    for folder in [
        "var/lib/dpkg/updates",
        "var/lib/dpkg/triggers",
        "var/log",
        "etc/ssl/certs",
        "run",
        "tmp",
        "dev",
    ] {
        archive::make_folder(&root.join(folder), 0o755)?;
    }
    for (name, mode) in [("passwd", 0o644), ("group", 0o644)] {
        let master = format!("/usr/share/base-passwd/{name}.master");
        archive::copy(Path::new(&master), &root.join("etc").join(name), mode)?;
    }
    done(Command::new("chroot").arg(root).arg("ldconfig"))
}

/// Copies what the lines of `files` name, without what is below folders.
fn copy(root: &Path, files: &str) -> anyhow::Result<()> {
    let list = archive::with_ending(root, ".files");
    fs::write(&list, files)?;
    let mut from = Command::new("tar");
    from.args(["--create", "--no-recursion", "--directory=/", "--file=-", "--files-from"]);
    let mut from = from.arg(&list).stdout(Stdio::piped()).spawn().context("tar does not start")?;
    let mut to = Command::new("tar");
    to.args(["--extract", "--keep-directory-symlink", "--file=-", "--directory"]).arg(root);
    done(to.stdin(from.stdout.take().context("it is piped")?))?;
    ensure!(from.wait()?.success(), "tar cannot read this machine's packages");
    Ok(())
}

/// The essential ones, those that `depends` names, and all that these need.
fn packages(depends: &str) -> anyhow::Result<BTreeSet<String>> {
    let form = "${Package}\t${Essential}\t${Pre-Depends}, ${Depends}\n";
    let list = output(Command::new("dpkg-query").args(["--show", "--showformat", form]))?;
    let mut needs: BTreeMap<&str, &str> = BTreeMap::new();
    let mut wanted: Vec<&str> = named(depends, |_| true);
    for line in list.lines() {
        let mut fields = line.split('\t');
        let (Some(name), Some(essential), Some(need)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        needs.insert(name, need);
        if essential == "yes" {
            wanted.push(name);
        }
    }
    for name in &wanted {
        ensure!(needs.contains_key(name), "{name} is not installed here, and cannot be copied");
    }
    let mut found = BTreeSet::new();
    while let Some(name) = wanted.pop() {
        if found.insert(name.to_owned()) {
            wanted.extend(named(needs[name], |name| needs.contains_key(name)));
        }
    }
    Ok(found)
}

/// The packages that a list of dependencies names; of alternatives the first that `is_there`.
fn named<'d>(depends: &'d str, is_there: impl Fn(&str) -> bool) -> Vec<&'d str> {
    let bare = |text: &'d str| text.trim().split([' ', ':', '(']).next().unwrap_or_default();
    let one = |entry: &'d str| entry.split('|').map(bare).find(|name| is_there(name));
    depends.split(',').filter_map(one).filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_read_and_of_alternatives_the_first_that_is_there_counts() {
        assert_eq!(named("libc6 (>= 2.36), adduser", |_| true), ["libc6", "adduser"]);
        let here = |name: &str| name == "mawk";
        assert_eq!(named("gawk | mawk:any (>= 1), , perl", here), ["mawk"]);
    }
}
