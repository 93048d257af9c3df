//! This tries the container image without a container. Every sum is checked and the layers are
//! unpacked in their order. The entry is started in there as the user that the image names, health
//! check and all.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::Value;

use super::super::{archive, done, image, output};
use super::server::{Process, chroot, wait_online};
use super::{mount_kernel, run_inside};

pub(super) fn run(layout: &Path, place: &Path) -> anyhow::Result<()> {
    // As it came to somebody: the one file.
    let here = place.join("layout");
    archive::make_folder(&here, 0o755)?;
    let mut untar = Command::new("tar");
    untar.arg("--extract").arg("--file").arg(archive::with_ending(layout, ".tar"));
    done(untar.arg("--directory").arg(&here))?;
    ensure!(json(&here.join("oci-layout"))?["imageLayoutVersion"] == "1.0.0", "no layout");
    let index = json(&here.join("index.json"))?;
    let manifest = json(&blob(&here, &index["manifests"][0])?)?;
    let config = blob(&here, &manifest["config"])?;
    let sums = json(&config)?["rootfs"]["diff_ids"].clone();
    let layers = manifest["layers"].as_array().context("the image has no layers")?;
    ensure!(sums.as_array().is_some_and(|sums| sums.len() == layers.len()), "{sums}");
    let root = place.join("root");
    archive::make_folder(&root, 0o755)?;
    for (number, layer) in layers.iter().enumerate() {
        let packed = blob(&here, layer)?;
        let unpacked = place.join(format!("layer-{number}.tar.gz"));
        archive::copy(&packed, &unpacked, 0o644)?;
        done(Command::new("gunzip").arg(&unpacked))?;
        let unpacked = place.join(format!("layer-{number}.tar"));
        let sum = format!("sha256:{}", archive::sha256(&unpacked)?);
        ensure!(sums[number] == *sum, "the sum of layer {number} is {sum}");
        let mut tar = Command::new("tar");
        tar.args(["--extract", "--numeric-owner", "--preserve-permissions", "--file"]);
        done(tar.arg(&unpacked).arg("--directory").arg(&root))?;
    }
    ensure!(!root.join("bin/sh").exists(), "the image has a shell");
    run_inside(&[Path::new("image"), &root, &config])
}

/// The file that a descriptor names, whose size and sum are as it says.
fn blob(layout: &Path, descriptor: &Value) -> anyhow::Result<PathBuf> {
    let digest = descriptor["digest"].as_str().context("a descriptor has a digest")?;
    let sum = digest.strip_prefix("sha256:").context("its sum is SHA-256")?;
    let file = layout.join("blobs/sha256").join(sum);
    ensure!(archive::sha256(&file)? == sum, "{digest} holds something else");
    ensure!(fs::metadata(&file)?.len() == descriptor["size"], "{digest} has another size");
    Ok(file)
}

fn json(file: &Path) -> anyhow::Result<Value> {
    let text = fs::read(file).with_context(|| file.display().to_string())?;
    Ok(serde_json::from_slice(&text)?)
}

pub(super) fn inside(root: &Path, config: &str) -> anyhow::Result<()> {
    mount_kernel(root)?;
    let config = json(Path::new(config))?["config"].take();
    let texts = |name: &str| -> Vec<&str> {
        config[name].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    };
    let user = config["User"].as_str().context("the image names no user")?;
    let variables: Vec<_> =
        texts("Env").iter().filter_map(|variable| variable.split_once('=')).collect();
    let start = |words: &[&str]| -> anyhow::Result<Command> {
        let mut command = chroot(root, user, words)?;
        command.envs(variables.iter().copied());
        Ok(command)
    };
    let server = Process::spawn(&mut start(&[texts("Entrypoint"), texts("Cmd")].concat())?)?;
    let health: Vec<&str> = config["Healthcheck"]["Test"]
        .as_array()
        .into_iter()
        .flatten()
        .skip(1)
        .filter_map(Value::as_str)
        .collect();
    // The same, for as long as it takes to start.
    done(&mut start(&[&health[..], &["--wait", "60"]].concat())?)?;
    ensure!(server.user()? == image::USER, "it runs as another user than {}", image::USER);
    let stream = ["--silent", "--no-buffer", "http://127.0.0.1:8000/stream/bob"];
    let mut stream = Process::heard(Command::new("curl").args(stream))?;
    wait_online("bob")?;
    let mut send = Command::new("curl");
    send.args(["--silent", "--fail", "http://127.0.0.1:8001/send", "--json"]);
    output(send.arg(r#"{"about":"bob","data":"out of the image"}"#))?;
    let heard = stream.line_with("out of the image")?;
    drop(stream);
    server.stop()?;
    let asked = start(&health)?.output()?;
    ensure!(asked.status.code() == Some(1), "a server that is gone is healthy: {asked:?}");
    println!("packages: out of the image, as user {user}: {heard}");
    Ok(())
}
