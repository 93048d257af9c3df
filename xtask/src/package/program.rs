//! The programs as they are packed, and what comes with Encke's own: completions and manual pages,
//! if it can write them, licences and documents.

use std::env;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use super::{Wanted, archive, done, output};
use crate::building;

/// Where each shell looks, below `/usr/share`.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "bash-completion/completions/encke"),
    ("zsh", "zsh/vendor-completions/_encke"),
    ("fish", "fish/vendor_completions.d/encke.fish"),
];

/// The program, stripped, and what it wrote about itself.
pub(super) struct PackagedProgram {
    pub(super) path: PathBuf,
    /// What belongs below `/usr/share`.
    pub(super) share: PathBuf,
    /// The example Playdar, stripped; `None` where a run of the checks leaves it out.
    pub(super) playdar: Option<PathBuf>,
}

/// Builds it with the versions that the lockfile names. One that is for others is built anew, in a
/// folder of its own, so that no path of this machine is in it; the quick one is that of the tests.
pub(super) fn build(wanted: &Wanted) -> anyhow::Result<PackagedProgram> {
    let mut target = std::path::absolute(building::target(&wanted.root))?;
    let mut hidden = Vec::new();
    let folder = if wanted.profile == "dev" {
        building::build(&wanted.root)?;
        "debug"
    } else {
        target.push("packaged");
        hidden.extend(paths(&wanted.root, &target)?);
        // One by one: together, each would have the features of what the other depends on.
        for package in building::programs() {
            let mut cargo = Command::new("cargo");
            cargo.args(["build", "--locked", "--package", package, "--profile", &wanted.profile]);
            hide(&hidden, &mut cargo)?;
            cargo.env("CARGO_TARGET_DIR", &target);
            done(cargo.current_dir(&wanted.root))?;
        }
        &wanted.profile
    };
    let built = target.join(folder);
    let path = stripped(wanted, &built, "encke", &hidden)?;
    let share = wanted.stage("program/share");
    describe(&path, &share)?;
    let playdar = if building::programs().contains(&"playdar") {
        Some(stripped(wanted, &built, "playdar", &hidden)?)
    } else {
        println!("no package of playdar: the example is left out");
        None
    };
    Ok(PackagedProgram { path, share, playdar })
}

/// The program `name` of the folder `built`, stripped, and without the paths that are hidden.
fn stripped(
    wanted: &Wanted,
    built: &Path,
    name: &str,
    hidden: &[(PathBuf, &str)],
) -> anyhow::Result<PathBuf> {
    let path = wanted.stage("program").join(name);
    archive::copy(&built.join(name), &path, 0o755)?;
    // The lines of sources go, the names of functions stay: for `perf`, and for a panic.
    done(Command::new("strip").arg("--strip-debug").arg(&path))?;
    let program = fs::read(&path)?;
    for (from, _) in hidden {
        let from = from.as_os_str().as_bytes();
        let is_there = program.windows(from.len()).any(|bytes| bytes == from);
        ensure!(!is_there, "{} is in {name}", from.escape_ascii());
    }
    Ok(path)
}

/// What of this machine compilers write into panics and assertions, and what they are to write: the
/// same tree makes the same program wherever it is built, and tells nobody whose home that was.
fn paths(root: &Path, target: &Path) -> anyhow::Result<[(PathBuf, &'static str); 3]> {
    let of_home = || Some(PathBuf::from(env::var_os("HOME")?).join(".cargo"));
    let cargo = env::var_os("CARGO_HOME").map(PathBuf::from).or_else(of_home);
    let cargo = cargo.context("neither CARGO_HOME nor HOME is set")?;
    Ok([(fs::canonicalize(root)?, "/encke"), (target.to_owned(), "/target"), (cargo, "/cargo")])
}

/// Has rustc and compilers of C write these paths otherwise.
fn hide(paths: &[(PathBuf, &str)], cargo: &mut Command) -> anyhow::Result<()> {
    let (mut rust, mut c) = (Vec::new(), env::var("CFLAGS").unwrap_or_default());
    for (from, to) in paths {
        let from = from.to_str().context("a path is no text")?;
        rust.push(format!("--remap-path-prefix={from}={to}"));
        c += &format!(" -ffile-prefix-map={from}={to}");
    }
    // Flags of who packs would be overruled: so they are none.
    cargo.env("CARGO_ENCODED_RUSTFLAGS", rust.join("\x1f")).env("CFLAGS", c.trim());
    Ok(())
}

/// Lets the program write its completions and manual pages. One that cannot is packed without.
fn describe(program: &Path, share: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(share)?;
    let ask = |words: &[&str]| {
        let mut command = Command::new(program);
        command.args(words).output().context("encke does not start")
    };
    for (shell, file) in COMPLETIONS {
        let answer = ask(&["completions", shell])?;
        if answer.status.success() {
            ensure!(!answer.stdout.is_empty(), "`encke completions {shell}` printed nothing");
            archive::write(&share.join(file), answer.stdout, 0o644)?;
        } else {
            println!("no completions for {shell}: this encke does not write them");
        }
    }
    let pages = share.join("man/man1");
    fs::create_dir_all(&pages)?;
    let answer = ask(&["man", &pages.display().to_string()])?;
    if !answer.status.success() {
        println!("no manual pages: this encke does not write them");
        fs::remove_dir_all(share.join("man"))?;
        return Ok(());
    }
    let mut count = 0;
    for page in fs::read_dir(&pages)? {
        let page = page?.path();
        archive::gzip(&page)?;
        fs::remove_file(&page)?;
        count += 1;
    }
    ensure!(count > 0, "`encke man` wrote no page");
    Ok(())
}

/// Licences and documents, into `folder`.
pub(super) fn documents(root: &Path, folder: &Path) -> anyhow::Result<()> {
    for name in ["README.md", "CHANGELOG.md", "LICENSE", "LICENSE-APACHE", "LICENSE-MIT"] {
        archive::copy(&root.join(name), &folder.join(name), 0o644)?;
    }
    archive::copy_folder(&root.join("deploy"), &folder.join("deploy"))
}

/// The oldest glibc that has all that the program asks for.
pub(super) fn glibc(program: &Path) -> anyhow::Result<String> {
    let text = output(Command::new("readelf").args(["--version-info", "--wide"]).arg(program))?;
    let newest = newest_glibc(&text).context("the program asks for no version of glibc")?;
    Ok(format!("2.{newest}"))
}

fn newest_glibc(text: &str) -> Option<u32> {
    let versions = text.split("GLIBC_2.").skip(1);
    let minors = versions.filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse().ok()
    });
    minors.max()
}

/// For Linux with a glibc that is new enough: unpack it anywhere.
pub(super) fn tarball(wanted: &Wanted, program: &PackagedProgram) -> anyhow::Result<PathBuf> {
    let name = format!("encke-{}-{}-linux", wanted.version, env::consts::ARCH);
    let folder = wanted.stage("tarball");
    let own = folder.join(&name);
    archive::copy(&program.path, &own.join("bin/encke"), 0o755)?;
    archive::copy_folder(&program.share, &own.join("share"))?;
    documents(&wanted.root, &own)?;
    let file = wanted.out.join(format!("{name}.tar"));
    archive::tar_of(&folder, &file, wanted.date, &[&name])?;
    let packed = archive::gzip_at(wanted.levels().0, &file)?;
    fs::remove_file(file)?;
    Ok(packed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_version_is_by_number() {
        let text = "Name: GLIBC_2.9  Flags\n Name: GLIBC_2.34\nGLIBC_2.2.5";
        assert_eq!(newest_glibc(text), Some(34));
        assert_eq!(newest_glibc("Name: GCC_3.0"), None);
    }
}
