//! The container image as a layout of files (OCI image format 1.1), made without any daemon:
//! `skopeo copy oci:DIR …`, `podman load -i FILE.tar` and `docker load -i FILE.tar` take it.
//!
//! Two layers over nothing: what the program links to, as it is on this machine, with the
//! authorities that it trusts; and the program. There is no shell. It runs as a user by number, so
//! that Kubernetes sees that it is not root.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::program::PackagedProgram;
use super::{Wanted, archive, deb, output};

/// The user and the group in the image.
pub(super) const USER: u32 = 10001;

/// Whom to trust by TLS, where Debian keeps it.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// Returns the folder of the layout; beside it stands the same as one file.
pub(super) fn make(wanted: &Wanted, program: &PackagedProgram) -> anyhow::Result<PathBuf> {
    let layout = wanted.out.join(format!("encke-{}-oci", wanted.version));
    let stage = wanted.stage("image");
    let layers = [base(wanted, program, &stage)?, own(wanted, program, &stage)?];
    let mut descriptors = Vec::new();
    let mut unpacked = Vec::new();
    for layer in &layers {
        unpacked.push(format!("sha256:{}", archive::sha256(layer)?));
        let packed = archive::gzip_at(wanted.levels().0, layer)?;
        descriptors.push(blob(&layout, &fs::read(packed)?, LAYER)?);
    }
    let config = config(wanted, &unpacked)?;
    let config = blob(&layout, config.to_string().as_bytes(), CONFIG)?;
    let manifest = json!({
        "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": descriptors,
    });
    let mut manifest = blob(&layout, manifest.to_string().as_bytes(), MANIFEST)?;
    manifest["platform"] = json!({ "architecture": deb::architecture(), "os": "linux" });
    // The first is a tag within a layout, the second the whole name, which `docker load` takes.
    manifest["annotations"] = json!({
        "org.opencontainers.image.ref.name": wanted.version,
        "io.containerd.image.name": format!("encke:{}", wanted.version),
    });
    let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [manifest] });
    archive::write(&layout.join("index.json"), index.to_string(), 0o644)?;
    let version = json!({ "imageLayoutVersion": "1.0.0" });
    archive::write(&layout.join("oci-layout"), version.to_string(), 0o644)?;
    let file = archive::with_ending(&layout, ".tar");
    archive::tar_of(&layout, &file, wanted.date, &["oci-layout", "index.json", "blobs"])?;
    Ok(layout)
}

/// What a container is started with.
fn config(wanted: &Wanted, unpacked: &[String]) -> anyhow::Result<Value> {
    let created = output(
        Command::new("date")
            .args(["--utc", "+%Y-%m-%dT%H:%M:%SZ", "--date"])
            .arg(format!("@{}", wanted.date)),
    )?;
    let second = 1_000_000_000_u64;
    Ok(json!({
        "created": created.trim(),
        "architecture": deb::architecture(),
        "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "ExposedPorts": { "8000/tcp": {}, "8001/tcp": {} },
            "Env": ["PATH=/usr/bin", "ENCKE_DATA=/var/lib/encke"],
            "Entrypoint": ["encke"],
            "Cmd": ["serve"],
            "Volumes": { "/var/lib/encke": {} },
            "WorkingDir": "/var/lib/encke",
            "StopSignal": "SIGTERM",
            // Docker's and Podman's own; Kubernetes asks /readyz by HTTP.
            "Healthcheck": {
                "Test": ["CMD", "encke", "ready", "--api", "http://127.0.0.1:8001"],
                "Interval": 10 * second,
                "Timeout": 5 * second,
                "StartPeriod": 10 * second,
                "Retries": 3,
            },
            "Labels": {
                "org.opencontainers.image.title": "encke",
                "org.opencontainers.image.version": wanted.version,
                "org.opencontainers.image.licenses": "Apache-2.0 OR MIT",
            },
        },
        "rootfs": { "type": "layers", "diff_ids": unpacked },
    }))
}

/// Libraries, the loader, users, names, authorities.
fn base(wanted: &Wanted, program: &PackagedProgram, stage: &Path) -> anyhow::Result<PathBuf> {
    let root = stage.join("base");
    let linked = output(Command::new("ldd").arg(&program.path))?;
    let mut libraries = linked.lines().filter_map(library).peekable();
    ensure!(libraries.peek().is_some(), "the program links to nothing: {linked}");
    for library in libraries {
        archive::copy(Path::new(library), &root.join(library.trim_start_matches('/')), 0o755)?;
    }
    let users = format!(
        "root:x:0:0::/:/usr/sbin/nologin\nencke:x:{USER}:{USER}::/var/lib/encke:/usr/sbin/nologin\n"
    );
    archive::write(&root.join("etc/passwd"), users, 0o644)?;
    archive::write(&root.join("etc/group"), format!("root:x:0:\nencke:x:{USER}:\n"), 0o644)?;
    archive::write(&root.join("etc/nsswitch.conf"), "hosts: files dns\n", 0o644)?;
    let authorities = Path::new(AUTHORITIES);
    if authorities.exists() {
        archive::copy(authorities, &root.join(AUTHORITIES.trim_start_matches('/')), 0o644)?;
    } else {
        println!("no {AUTHORITIES} on this machine: the image trusts nobody by TLS");
    }
    // The licences of what is not ours.
    for package in ["libc6", "libgcc-s1", "ca-certificates"] {
        let copyright = format!("usr/share/doc/{package}/copyright");
        let there = Path::new("/").join(&copyright);
        if there.exists() {
            archive::copy(&there, &root.join(copyright), 0o644)?;
        }
    }
    let file = stage.join("base.tar");
    archive::tar(&root, &file, wanted.date)?;
    archive::add_folder(&file, "tmp", (0, 0o1777), wanted.date)?;
    Ok(file)
}

/// The program, and a folder that its user may write to.
fn own(wanted: &Wanted, program: &PackagedProgram, stage: &Path) -> anyhow::Result<PathBuf> {
    let root = stage.join("own");
    archive::copy(&program.path, &root.join("usr/bin/encke"), 0o755)?;
    for name in ["LICENSE", "LICENSE-APACHE", "LICENSE-MIT"] {
        let to = root.join("usr/share/doc/encke").join(name);
        archive::copy(&wanted.root.join(name), &to, 0o644)?;
    }
    let file = stage.join("own.tar");
    archive::tar(&root, &file, wanted.date)?;
    archive::add_folder(&file, "var/lib/encke", (USER, 0o700), wanted.date)?;
    Ok(file)
}

/// The file of a line of ldd: `libc.so.6 => /lib/…/libc.so.6 (0x…)`, `/lib64/ld-…so.2 (0x…)`.
fn library(line: &str) -> Option<&str> {
    let path = line.split_once("=> ").map_or(line, |(_, path)| path).trim();
    path.starts_with('/').then(|| path.split(' ').next()).flatten()
}

/// Puts `bytes` into the layout, under their own sum, and returns what names them.
fn blob(layout: &Path, bytes: &[u8], kind: &str) -> anyhow::Result<Value> {
    let blobs = layout.join("blobs/sha256");
    fs::create_dir_all(&blobs).with_context(|| blobs.display().to_string())?;
    let new = blobs.join("new");
    archive::write(&new, bytes, 0o644)?;
    let sum = archive::sha256(&new)?;
    fs::rename(new, blobs.join(&sum))?;
    Ok(json!({ "mediaType": kind, "digest": format!("sha256:{sum}"), "size": bytes.len() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_read_out_of_what_ldd_prints() {
        let libc = "\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)";
        assert_eq!(library(libc), Some("/lib/x86_64-linux-gnu/libc.so.6"));
        let loader = "\t/lib64/ld-linux-x86-64.so.2 (0x00007f)";
        assert_eq!(library(loader), Some("/lib64/ld-linux-x86-64.so.2"));
        assert_eq!(library("\tlinux-vdso.so.1 (0x00007ffd)"), None);
    }
}
