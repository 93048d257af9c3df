//! This is the Erlang application as a package of Hex, in the form that its registry and rebar3
//! read (format 3 of hex_core's tarballs). It is a tar of the format's version, a sum, what the
//! package says of itself as Erlang terms, and its files.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;

use super::{Wanted, archive};

const FOLDER: &str = "clients/erlang";

/// What of `clients/erlang` its users get.
const FILES: [&str; 3] = ["README.md", "mix.exs", "rebar.config"];

/// The version of the format.
const FORMAT: &str = "3";

pub(super) fn make(wanted: &Wanted) -> anyhow::Result<PathBuf> {
    let stage = wanted.stage("hex");
    let (contents, from) = (stage.join("contents"), wanted.root.join(FOLDER));
    archive::copy_folder(&from.join("src"), &contents.join("src"))?;
    for name in FILES {
        archive::copy(&from.join(name), &contents.join(name), 0o644)?;
    }
    for name in ["LICENSE-APACHE", "LICENSE-MIT"] {
        archive::copy(&wanted.root.join(name), &contents.join(name), 0o644)?;
    }
    let mut files: Vec<String> = Vec::new();
    for entry in fs::read_dir(&contents)?.chain(fs::read_dir(contents.join("src"))?) {
        let path = entry?.path();
        if path.is_file() {
            files.push(path.strip_prefix(&contents)?.display().to_string());
        }
    }
    files.sort_unstable();
    let names: Vec<&str> = files.iter().map(String::as_str).collect();
    let packed = stage.join("contents.tar");
    archive::tar_of(&contents, &packed, wanted.date, &names)?;
    let packed = fs::read(archive::gzip(&packed)?)?;
    let metadata = metadata(&wanted.version, &names);
    // The sum is over what stands beside it, in this order.
    let summed = [FORMAT.as_bytes(), metadata.as_bytes(), &packed].concat();
    archive::write(&stage.join("summed"), summed, 0o644)?;
    let sum = archive::sha256(&stage.join("summed"))?.to_uppercase();
    archive::write(&stage.join("VERSION"), FORMAT, 0o644)?;
    archive::write(&stage.join("CHECKSUM"), sum, 0o644)?;
    archive::write(&stage.join("metadata.config"), metadata, 0o644)?;
    let file = wanted.out.join(format!("encke-{}.tar", wanted.version));
    let parts = ["VERSION", "CHECKSUM", "metadata.config", "contents.tar.gz"];
    archive::tar_of(&stage, &file, wanted.date, &parts)
        .with_context(|| file.display().to_string())?;
    Ok(file)
}

fn metadata(version: &str, files: &[&str]) -> String {
    let files: Vec<String> = files.iter().map(|name| format!("<<\"{name}\">>")).collect();
    format!(
        "{{<<\"name\">>,<<\"encke\">>}}.\n\
         {{<<\"version\">>,<<\"{version}\">>}}.\n\
         {{<<\"app\">>,<<\"encke\">>}}.\n\
         {{<<\"description\">>,<<\"Encke, a push server, for Erlang and Elixir\">>}}.\n\
         {{<<\"licenses\">>,[<<\"Apache-2.0\">>,<<\"MIT\">>]}}.\n\
         {{<<\"links\">>,[]}}.\n\
         {{<<\"build_tools\">>,[<<\"mix\">>,<<\"rebar3\">>]}}.\n\
         {{<<\"requirements\">>,[]}}.\n\
         {{<<\"files\">>,[{}]}}.\n",
        files.join(",")
    )
}
