//! Elixir: the application built with Mix without a network, and the example of Phoenix's channels
//! in a real `elixir` node.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::client::sources;
use super::node::{COOKIE, World};
use crate::harness::Program;

/// Builds the application as its users do; returns where its modules are.
fn built(home: &Path) -> String {
    let folder = home.join("encke");
    fs::create_dir_all(folder.join("src")).unwrap();
    fs::copy(sources().join("mix.exs"), folder.join("mix.exs")).unwrap();
    for file in fs::read_dir(sources().join("src")).unwrap().map(Result::unwrap) {
        fs::copy(file.path(), folder.join("src").join(file.file_name())).unwrap();
    }
    let mut mix = Command::new("mix");
    mix.args(["compile", "--warnings-as-errors"]).current_dir(&folder);
    mix.env("HOME", home).env("MIX_ENV", "prod").env("HEX_OFFLINE", "1");
    let built = mix.output().expect("mix is missing: apt-get install -y elixir");
    let said = [built.stdout, built.stderr].map(|out| String::from_utf8(out).unwrap()).concat();
    assert!(built.status.success() && said.contains("Generated encke app"), "{said}");
    folder.join("_build/prod/lib/encke/ebin").display().to_string()
}

#[test]
fn channels_of_phoenix_hear_and_are_heard() {
    let (world, home) = (World::new(), tempfile::tempdir().unwrap());
    // However long a machine takes to start Elixir, the stream says nothing meanwhile.
    let server = world.encke(&["--keepalive=0"]);
    let mut browser = server.listener("room:42");
    let mut elixir = Command::new("elixir");
    world.join(&mut elixir);
    elixir.args(["--name", "phoenix@127.0.0.1", "--cookie", COOKIE, "--erl"]);
    elixir.args(["-start_epmd false", "-pa", &built(home.path())]);
    elixir.arg(sources().join("test/phoenix_channel_test.exs"));
    elixir.arg(sources().join("examples/phoenix_channel.ex"));
    elixir.env("LC_ALL", "C.UTF-8");
    let elixir = Program::spawn(&mut elixir);
    assert_eq!(elixir.line(), "joined");
    assert_eq!(server.api.send("room:42", json!({"text": "hi"})), 2);
    assert_eq!(browser.data(), json!({"text": "hi"}));
    assert_eq!(browser.data(), json!({"said": "grüße"}));
    assert_eq!(elixir.line(), "done");
    assert_eq!(browser.data(), json!([["a", 1], ["b", "nil"]]));
    server.into_program().kill();
    assert_eq!(elixir.line(), "ended");
}
