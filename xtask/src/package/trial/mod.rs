//! Each package used as its user would use it: installed where nothing of this project is, started,
//! and made to carry an event.
//!
//! A server under trial runs in a network of its own, so that it has the ports that it has on a
//! fresh machine, whatever else this one does. Its namespaces of mounts and processes end with the
//! trial. That takes root.

mod deb;
mod image;
mod rest;
mod root;
mod server;

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

use super::{Made, Wanted, archive, done};

pub(super) fn run(wanted: &Wanted, made: &Made) -> anyhow::Result<()> {
    let place = wanted.out.join("trial");
    deb::run(wanted, &made.deb, &place.join("deb"))?;
    if let Some(package) = &made.playdar {
        rest::playdar(package, &place.join("playdar"))?;
    }
    image::run(&made.image, &place.join("image"))?;
    rest::tarball(&made.tarball, &place.join("tarball"))?;
    rest::npm(wanted, &made.npm, &place.join("npm"))?;
    rest::hex(&made.hex, &place.join("hex"))?;
    rest::install(wanted, &place.join("cargo"))?;
    // Hundreds of megabytes that are of no more use.
    std::fs::remove_dir_all(&place).with_context(|| place.display().to_string())?;
    println!("packages: all were used");
    Ok(())
}

/// Runs the second half of a trial in namespaces of its own.
fn run_inside(words: &[&Path]) -> anyhow::Result<()> {
    let mut unshare = Command::new("unshare");
    unshare.args(["--net", "--mount", "--pid", "--mount-proc", "--fork", "--kill-child"]);
    unshare.arg(std::env::current_exe()?).args(["package", "--inside"]).args(words);
    done(&mut unshare).context("in namespaces of its own; that takes root")
}

/// What [`run_inside`] has started.
pub(in crate::package) fn inside(words: &[&str]) -> anyhow::Result<()> {
    // Loopback is there, and down.
    done(Command::new("ip").args(["link", "set", "lo", "up"]))?;
    match words {
        ["deb", root, package] => deb::inside(Path::new(root), Path::new(package)),
        ["image", root, config] => image::inside(Path::new(root), config),
        ["demo", program] => rest::demo(program),
        ["playdar", root] => rest::listened(Path::new(root)),
        _ => bail!("--inside is for this program itself"),
    }
}

/// Gives `root` what the kernel has there, as it is seen in these namespaces.
fn mount_kernel(root: &Path) -> anyhow::Result<()> {
    let (proc, null) = (root.join("proc"), root.join("dev/null"));
    std::fs::create_dir_all(&proc)?;
    archive::write(&null, "", 0o666)?;
    done(Command::new("mount").args(["-t", "proc", "proc"]).arg(proc))?;
    done(Command::new("mount").args(["--bind", "/dev/null"]).arg(null))
}
