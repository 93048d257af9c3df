//! `cargo xtask package`: everything that can be installed, made from this tree.
//!
//! | file | for whom |
//! | --- | --- |
//! | `encke_VERSION_ARCH.deb` | Debian and its kin: the program, a service of systemd, settings |
//! | `playdar_VERSION_ARCH.deb` | the same: the example Playdar, a service of its user |
//! | `encke-VERSION-PROCESSOR-linux.tar.gz` | other Linux with glibc |
//! | `encke-VERSION-oci/`, and the same as `.tar` | containers: an OCI image layout |
//! | `encke-VERSION.tgz` | npm: the browser client |
//! | `encke-VERSION.tar` | Hex: the Erlang application |
//! | `SHA256SUMS` | who wants to know what came |
//!
//! The crate needs no file: `cargo install --path crates/encke --locked` takes this tree. What the
//! files hold is dated by the commit (or by `SOURCE_DATE_EPOCH`), owned by root and in order of
//! name. So the same tree and program make the same bytes. But for `--profile dev`, the program has
//! no path of this machine in it, so the same compilers make the same one elsewhere. It takes what
//! Debian has everywhere: tar, gzip, sha256sum, dpkg-deb, readelf, strip.
//!
//! With `--try` each is then used as its user would, see [`trial`].

mod archive;
mod deb;
mod hex;
mod image;
mod npm;
mod program;
mod trial;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};

use crate::{building, programs};

/// What to make, and what with.
struct Wanted {
    root: PathBuf,
    /// Where the files go.
    out: PathBuf,
    /// What cargo calls the build: `dist`, or `dev`, which is quick and slow to run.
    profile: String,
    version: String,
    /// Seconds since 1970 that every file in the packages is dated with.
    date: u64,
}

impl Wanted {
    /// Where a package is put together.
    fn stage(&self, name: &str) -> PathBuf {
        self.out.join("stage").join(name)
    }

    /// Levels of gzip and xz. What is quickly made is unpacked once, on this machine, and a run of
    /// all checks waits for it at its end: these take a third and a half of what the next ones do.
    fn levels(&self) -> (&'static str, &'static str) {
        if self.profile == "dev" { ("-1", "-z0") } else { ("-6", "-z6") }
    }
}

/// What was made.
struct Made {
    deb: PathBuf,
    /// Unless the example is left out.
    playdar: Option<PathBuf>,
    tarball: PathBuf,
    image: PathBuf,
    npm: PathBuf,
    hex: PathBuf,
}

/// Makes all packages. `options`: `--profile NAME`, `--out DIR`, `--try`.
pub(crate) fn run(root: &Path, options: &[&str]) -> anyhow::Result<bool> {
    if let ["--inside", words @ ..] = options {
        return trial::inside(words).map(|()| true);
    }
    let mut wanted = Wanted {
        root: root.to_owned(),
        out: building::target(root).join("package"),
        profile: "dist".into(),
        version: version(root)?,
        date: date(root),
    };
    let mut tried = false;
    let mut options = options.iter();
    while let Some(option) = options.next() {
        let mut value = || options.next().with_context(|| format!("{option} needs a value"));
        match *option {
            "--profile" => wanted.profile = (*value()?).into(),
            "--out" => wanted.out = std::path::absolute(value()?)?,
            "--try" => tried = true,
            _ => bail!("{option} is no option of package: --profile NAME, --out DIR, --try"),
        }
    }
    let made = make(&wanted)?;
    if tried {
        trial::run(&wanted, &made)?;
    }
    Ok(true)
}

/// What CI does: quickly built, and tried.
pub(crate) fn check(root: &Path) -> anyhow::Result<bool> {
    let mut options = vec!["--profile", "dev"];
    if programs::is_root() {
        options.push("--try");
    } else {
        println!("the packages are made and not tried, which takes root");
        ensure!(std::env::var("CI").as_deref() != Ok("true"), "in CI they have to be tried");
    }
    run(root, &options)
}

fn make(wanted: &Wanted) -> anyhow::Result<Made> {
    // Files of another version would be among the sums.
    if wanted.out.exists() {
        fs::remove_dir_all(&wanted.out).with_context(|| wanted.out.display().to_string())?;
    }
    fs::create_dir_all(&wanted.out).with_context(|| wanted.out.display().to_string())?;
    let program = program::build(wanted)?;
    let made = Made {
        deb: deb::make(wanted, &program)?,
        playdar: program.playdar.as_ref().map(|path| deb::playdar(wanted, path)).transpose()?,
        tarball: program::tarball(wanted, &program)?,
        image: image::make(wanted, &program)?,
        npm: npm::make(wanted)?,
        hex: hex::make(wanted)?,
    };
    let stage = wanted.stage("");
    fs::remove_dir_all(&stage).with_context(|| stage.display().to_string())?;
    let mut sums = String::new();
    let image = archive::with_ending(&made.image, ".tar");
    let others = [&made.tarball, &image, &made.npm, &made.hex];
    for file in [&made.deb].into_iter().chain(&made.playdar).chain(others) {
        let name = file.file_name().context("a package has a name")?.to_string_lossy();
        let bytes = fs::metadata(file).with_context(|| file.display().to_string())?.len();
        println!("{name}: {:.1} MB", bytes as f64 / 1e6);
        sums += &format!("{}  {name}\n", archive::sha256(file)?);
    }
    fs::write(wanted.out.join("SHA256SUMS"), sums)?;
    println!("in {}", wanted.out.display());
    Ok(made)
}

fn version(root: &Path) -> anyhow::Result<String> {
    let manifest: toml::Table = fs::read_to_string(root.join("Cargo.toml"))?.parse()?;
    let version = manifest["workspace"]["package"]["version"].as_str();
    Ok(version.context("the workspace has no version")?.to_owned())
}

/// The date of the commit, unless it is given; 1970 where there is no commit.
fn date(root: &Path) -> u64 {
    let given = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.parse().ok());
    let of_commit = || {
        let mut git = Command::new("git");
        let output = git.args(["log", "-1", "--format=%ct"]).current_dir(root).output().ok()?;
        String::from_utf8_lossy(&output.stdout).trim().parse().ok()
    };
    given.or_else(of_commit).unwrap_or_default()
}

/// Runs `command` to its end, which must be a good one. What it prints is shown.
fn done(command: &mut Command) -> anyhow::Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("{name} does not start"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}

/// Runs `command` to its good end, and returns what it prints.
fn output(command: &mut Command) -> anyhow::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("{name} does not start"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}: {stderr}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
