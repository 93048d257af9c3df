//! The packages of Debian and its kin: the program, a service of systemd, its settings; and the
//! example Playdar, a service of its user.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::program::{self, PackagedProgram};
use super::{Wanted, archive, done};

/// What Debian calls this processor.
pub(super) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Where the parts of `deploy/debian` go, and with which mode.
const FILES: [(&str, &str, u32); 6] = [
    ("encke.service", "usr/lib/systemd/system/encke.service", 0o644),
    ("60-encke.conf", "usr/lib/sysctl.d/60-encke.conf", 0o644),
    ("encke.toml", "etc/encke/encke.toml", 0o644),
    ("postinst", "DEBIAN/postinst", 0o755),
    ("prerm", "DEBIAN/prerm", 0o755),
    ("postrm", "DEBIAN/postrm", 0o755),
];

pub(super) fn make(wanted: &Wanted, program: &PackagedProgram) -> anyhow::Result<PathBuf> {
    let stage = wanted.stage("deb");
    archive::copy(&program.path, &stage.join("usr/bin/encke"), 0o755)?;
    archive::copy_folder(&program.share, &stage.join("usr/share"))?;
    let parts = wanted.root.join("deploy/debian");
    for (name, to, mode) in FILES {
        archive::copy(&parts.join(name), &stage.join(to), mode)?;
    }
    let documents = stage.join("usr/share/doc/encke");
    program::documents(&wanted.root, &documents)?;
    fs::rename(documents.join("LICENSE"), documents.join("copyright"))?;
    archive::write(&stage.join("DEBIAN/conffiles"), "/etc/encke/encke.toml\n", 0o644)?;
    let control = control(wanted, &program::glibc(&program.path)?, kilobytes(&stage)?);
    archive::write(&stage.join("DEBIAN/control"), control, 0o644)?;
    build(wanted, &stage, "encke")
}

/// The example: a daemon that a person starts for themselves.
pub(super) fn playdar(wanted: &Wanted, program: &Path) -> anyhow::Result<PathBuf> {
    let stage = wanted.stage("deb-playdar");
    archive::copy(program, &stage.join("usr/bin/playdar"), 0o755)?;
    let from = wanted.root.join("examples/playdar");
    let documents = stage.join("usr/share/doc/playdar");
    for (name, to) in [
        ("deploy/playdar.service", stage.join("usr/lib/systemd/user/playdar.service")),
        ("README.md", documents.join("README.md")),
        ("../../LICENSE", documents.join("copyright")),
    ] {
        archive::copy(&from.join(name), &to, 0o644)?;
    }
    archive::copy_folder(&from.join("scripts"), &documents.join("scripts"))?;
    let (version, architecture) = (&wanted.version, architecture());
    let (glibc, kilobytes) = (program::glibc(program)?, kilobytes(&stage)?);
    let control = format!(
        "Package: playdar\n\
         Version: {version}\n\
         Architecture: {architecture}\n\
         Maintainer: The authors of Encke <encke@example.org>\n\
         Installed-Size: {kilobytes}\n\
         Depends: libc6 (>= {glibc}), libgcc-s1\n\
         Section: sound\n\
         Priority: optional\n\
         Description: finds where a song can be heard\n \
         Asks the music of this machine, programs, the local network and friends, and pushes\n \
         each answer as it comes. Takes what scrobblers say of the song that plays. It is the\n \
         example of the push server Encke, which it has in itself.\n"
    );
    archive::write(&stage.join("DEBIAN/control"), control, 0o644)?;
    build(wanted, &stage, "playdar")
}

/// Packs what stands in `stage`.
fn build(wanted: &Wanted, stage: &Path, name: &str) -> anyhow::Result<PathBuf> {
    set_modes(stage)?;
    let file = wanted.out.join(format!("{name}_{}_{}.deb", wanted.version, architecture()));
    let mut build = Command::new("dpkg-deb");
    // xz is what every dpkg of the last decade reads.
    build.args(["--root-owner-group", "-Zxz", wanted.levels().1, "--build"]).arg(stage).arg(&file);
    done(build.env("SOURCE_DATE_EPOCH", wanted.date.to_string()))?;
    Ok(file)
}

fn control(wanted: &Wanted, glibc: &str, kilobytes: u64) -> String {
    let (version, architecture) = (&wanted.version, architecture());
    format!(
        "Package: encke\n\
         Version: {version}\n\
         Architecture: {architecture}\n\
         Maintainer: The authors of Encke <encke@example.org>\n\
         Installed-Size: {kilobytes}\n\
         Depends: libc6 (>= {glibc}), libgcc-s1, adduser\n\
         Recommends: ca-certificates\n\
         Section: net\n\
         Priority: optional\n\
         Description: push server for a million connected users\n \
         Pushes events over WebSocket, Server-Sent Events, long poll and NDJSON, each to those\n \
         who follow its subject. Stores who follows whom, and answers every send with the\n \
         number of connections that heard it. One program, one data directory.\n"
    )
}

fn kilobytes(folder: &Path) -> anyhow::Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        sum +=
            if metadata.is_dir() { kilobytes(&entry.path())? } else { metadata.len() / 1024 + 1 };
    }
    Ok(sum)
}

/// Folders are for everybody, whatever the umask of who packs.
fn set_modes(folder: &Path) -> anyhow::Result<()> {
    archive::make_folder(folder, 0o755)?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            set_modes(&entry.path())?;
        }
    }
    Ok(())
}
