//! The packages that need no system of their own: the tarball, those of npm and Hex, and the crate.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

use super::super::{Wanted, archive, done, output};
use super::run_inside;
use super::server::{DEADLINE, Process};
use crate::node::{CLIENT, Node};

/// Unpacks `file` into `place`.
fn unpack(file: &Path, place: &Path) -> anyhow::Result<()> {
    archive::make_folder(place, 0o755)?;
    let mut tar = Command::new("tar");
    done(tar.arg("--extract").arg("--file").arg(file).arg("--directory").arg(place))
}

/// Unpacked, and the demo run out of it.
pub(super) fn tarball(file: &Path, place: &Path) -> anyhow::Result<()> {
    unpack(file, place)?;
    let folder = fs::read_dir(place)?.next().context("the tarball is empty")??.path();
    run_inside(&[Path::new("demo"), &folder.join("bin/encke")])
}

/// Where the demo's ports are free.
pub(super) fn demo(program: &str) -> anyhow::Result<()> {
    let mut demo = Command::new(program);
    let told = output(demo.args(["demo", "--users", "100", "--seconds", "1"]))?;
    let last = told.lines().last().unwrap_or_default();
    ensure!(last.starts_with("lost 0 "), "the demo lost something: {told}");
    println!("packages: encke demo out of the tarball: {last}");
    Ok(())
}

/// Unpacked, started as its unit says, and a song told as a scrobbler tells it.
pub(super) fn playdar(package: &Path, place: &Path) -> anyhow::Result<()> {
    archive::make_folder(place, 0o755)?;
    done(Command::new("dpkg-deb").arg("--extract").arg(package).arg(place))?;
    run_inside(&[Path::new("playdar"), place])
}

/// Where the ports of the unit are free.
pub(super) fn listened(root: &Path) -> anyhow::Result<()> {
    let program = root.join("usr/bin/playdar");
    let unit = root.join("usr/lib/systemd/user/playdar.service");
    let unit = fs::read_to_string(unit).context("no unit was installed")?;
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/playdar "));
    let options = start.context("the unit starts another program")?.replace("%h", "/nowhere");
    let mut daemon = Command::new(program);
    daemon.args(options.split(' ')).arg("--data").arg(root.join("data"));
    let mut daemon = Process::heard(&mut daemon)?;
    let told = daemon.line_with("streams")?;
    let streams =
        told.split_whitespace().nth(1).and_then(|url| url.strip_suffix("/stream/query:QID"));
    let streams = format!("{}/stream/listening", streams.context("it says where streams are")?);
    let curl = |words: &[&str]| {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--fail", "--max-time"]);
        curl.arg(DEADLINE.as_secs().to_string()).args(words);
        curl
    };
    let asked = "http://127.0.0.1:60210/auth_1/?website=http://localhost/&name=scrobbler&json";
    let form = value(&output(&mut curl(&[asked]))?, "formtoken")?;
    let form = format!("website=http://localhost/&name=scrobbler&json=1&formtoken={form}");
    let granted = output(&mut curl(&["--data", &form, "http://127.0.0.1:60210/auth_2/"]))?;
    let token = format!("Authorization: Token {}", value(&granted, "authtoken")?);
    // curl writes a head at once to terminals alone: elsewhere when more comes, in half a minute.
    let mut listening = Command::new("stdbuf");
    listening.args(["--output=L", "curl", "--silent", "--show-error", "--fail", "--max-time"]);
    listening.arg(DEADLINE.as_secs().to_string()).args(["--no-buffer", "--include", &streams]);
    let mut listener = Process::heard(&mut listening)?;
    listener.line_with("HTTP/")?;
    let song = r#"{"listen_type":"playing_now","payload":[{"track_metadata":
        {"artist_name":"Comet Encke","track_name":"Taurids"}}]}"#;
    let submit = "http://127.0.0.1:60210/1/submit-listens";
    done(&mut curl(&["--output", "/dev/null", "--header", &token, "--data", song, submit]))?;
    let heard = listener.line_with("Taurids")?;
    println!("packages: playdar of its package told the song that plays: {heard}");
    daemon.stop()
}

/// The text behind `"name":"` in JSON of one line.
fn value(json: &str, name: &str) -> anyhow::Result<String> {
    let mark = format!("\"{name}\":\"");
    let rest = json.split_once(&mark).with_context(|| format!("no {name} in {json}"))?.1;
    Ok(rest.split('"').next().unwrap_or_default().to_owned())
}

/// Installed into an application without a network, and imported. What was not built is no package.
pub(super) fn npm(wanted: &Wanted, file: &Path, place: &Path) -> anyhow::Result<()> {
    let node = Node::ensure(&wanted.root)?;
    let application = place.join("application");
    archive::write(&application.join("package.json"), r#"{"private":true}"#, 0o644)?;
    let file = file.display().to_string();
    let install = ["install", "--offline", "--no-audit", "--no-fund", &file];
    ensure!(node.npm(&application, &install)?, "npm does not install it");
    let script = "\
        import { connect } from 'encke';\n\
        import { existsSync, readFileSync } from 'node:fs';\n\
        const folder = 'node_modules/encke/';\n\
        const { exports, files } = JSON.parse(readFileSync(folder + 'package.json'));\n\
        const leaves = (value) =>\n\
          typeof value === 'string' ? [value] : Object.values(value).flatMap(leaves);\n\
        const gone = [...leaves(exports), ...files].filter((name) => !existsSync(folder + name));\n\
        if (gone.length > 0 || typeof connect !== 'function') throw new Error(`no ${gone}`);\n\
        console.log(`packages: from npm: ${Object.keys(exports)}`);\n";
    archive::write(&application.join("try.mjs"), script, 0o644)?;
    done(node.program(&application).arg("try.mjs"))?;
    // Somebody who has not fetched what builds it, and so has not built it.
    let unbuilt = place.join("unbuilt");
    for entry in fs::read_dir(wanted.root.join(CLIENT))? {
        let entry = entry?;
        let name = entry.file_name();
        if entry.file_type()?.is_file() {
            archive::copy(&entry.path(), &unbuilt.join(&name), 0o644)?;
        } else if name == "src" {
            archive::copy_folder(&entry.path(), &unbuilt.join(&name))?;
        }
    }
    let packed = node.npm(&unbuilt, &["pack", "--silent", "--loglevel=silent"])?;
    ensure!(!packed, "npm packs what is not built");
    Ok(())
}

/// Unpacked as rebar3 does it, its sum and its terms read, compiled and started.
pub(super) fn hex(file: &Path, place: &Path) -> anyhow::Result<()> {
    unpack(file, place)?;
    let parts: Result<Vec<Vec<u8>>, _> = ["VERSION", "metadata.config", "contents.tar.gz"]
        .iter()
        .map(|name| fs::read(place.join(name)))
        .collect();
    archive::write(&place.join("summed"), parts?.concat(), 0o644)?;
    let sum = archive::sha256(&place.join("summed"))?.to_uppercase();
    ensure!(fs::read_to_string(place.join("CHECKSUM"))? == sum, "its sum is {sum}");
    let contents = place.join("contents");
    unpack(&place.join("contents.tar.gz"), &contents)?;
    archive::make_folder(&contents.join("ebin"), 0o755)?;
    archive::copy(&contents.join("src/encke.app.src"), &contents.join("ebin/encke.app"), 0o644)?;
    let script = "\
        {ok, Terms} = file:consult(\"../metadata.config\"),\n\
        Files = proplists:get_value(<<\"files\">>, Terms),\n\
        [] = [File || File <- Files, not filelib:is_regular(File)],\n\
        Names = [binary_to_list(File) || File <- Files],\n\
        Sources = [Name || Name <- Names, \".erl\" =:= filename:extension(Name)],\n\
        Options = [{outdir, \"ebin\"}, warnings_as_errors],\n\
        [{ok, _} = compile:file(Name, Options) || Name <- Sources],\n\
        ok = application:start(encke),\n\
        {ok, Version} = application:get_key(encke, vsn),\n\
        true = list_to_binary(Version) =:= proplists:get_value(<<\"version\">>, Terms),\n\
        io:format(\"packages: from Hex: encke ~s, ~b modules~n\", [Version, length(Sources)]),\n\
        halt(0).";
    let mut erl = Command::new("erl");
    erl.args(["-noshell", "-pa", "ebin", "-eval", script, "-s", "init", "stop"]);
    done(erl.current_dir(contents))
}

/// The crate alone, with the versions of the lockfile: what it depends on has fewer features then
/// than in the whole workspace, and all with others is built anew. Not for packages that are quick
/// to make: a step of `cargo xtask ci` looks whether it compiles.
pub(super) fn install(wanted: &Wanted, place: &Path) -> anyhow::Result<()> {
    if wanted.profile == "dev" {
        println!("packages: no cargo install: cargo xtask ci checks that the crate compiles alone");
        return Ok(());
    }
    let mut cargo = Command::new("cargo");
    cargo.args(["install", "--path", "crates/encke", "--locked", "--debug", "--root"]);
    done(cargo.arg(place).current_dir(&wanted.root))?;
    let version = output(Command::new(place.join("bin/encke")).arg("--version"))?;
    ensure!(version.trim() == format!("encke {}", wanted.version), "{version}");
    println!("packages: from cargo install: {}", version.trim());
    Ok(())
}
