//! `encke tune` on the machine that runs the tests, whatever that allows.

use std::fs;

use serde_json::Value;

use crate::harness::{Finished, Program, encke};

fn tune(args: &[&str]) -> Finished {
    Program::run(encke(["tune"]).args(args))
}

fn json_of(finished: &Finished) -> Value {
    serde_json::from_str(&finished.stdout).unwrap()
}

#[test]
fn file_in_the_repository_is_what_the_program_prints() {
    let printed = tune(&["--sysctl", "--users=1000000"]);
    assert_eq!(printed.code(), Some(0), "{printed:?}");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/sysctl.conf");
    let again = "run: encke tune --users 1000000 --sysctl > deploy/sysctl.conf";
    assert_eq!(fs::read_to_string(path).unwrap(), printed.stdout, "{again}");
}

#[test]
fn few_users_fit_and_more_than_any_machine_holds_do_not() {
    let few = tune(&["--users=10"]);
    assert_eq!(few.code(), Some(0), "{few:?}");
    assert!(few.stdout.contains("\n10 users fit"), "{few:?}");
    assert!(few.stdout.lines().any(|line| line.starts_with("fs.file-max")), "{few:?}");
    let all = tune(&["--users=4294967295", "--with-clients"]);
    assert_eq!(all.code(), Some(1), "{all:?}");
    assert!(all.stdout.contains(" do not fit here; at most "), "{all:?}");
    assert_eq!(all.stderr, "", "the report says it");
}

#[test]
fn json_holds_the_verdict_and_its_reasons() {
    for (users, fits) in [("10", true), ("4294967295", false)] {
        let finished = tune(&["--json", "--users", users]);
        assert_eq!(finished.code(), Some(i32::from(!fits)), "{finished:?}");
        let report = json_of(&finished);
        assert_eq!(report["fits"], fits);
        assert_eq!(report["users"].to_string(), users);
        let too_low = report["checks"].as_array().unwrap().iter();
        let too_low: Vec<_> = too_low.filter(|check| check["verdict"] == "too_low").collect();
        assert_eq!(too_low.is_empty(), fits, "{report}");
        assert!(too_low.iter().all(|check| check["follows"].is_string()), "{report}");
    }
}

#[test]
fn descriptor_limit_of_this_process_is_the_one_that_is_checked() {
    let program = env!("CARGO_BIN_EXE_encke");
    let command = format!("ulimit -n 1000 && exec {program} tune --users 100000 --json");
    let finished = Program::run(std::process::Command::new("sh").args(["-c", &command]));
    let report = json_of(&finished);
    let check = &report["checks"][0];
    assert_eq!((&check["here"][0], &check["verdict"]), (&1000.into(), &"low".into()), "{report}");
    // 984 descriptors less six times their root: 798.
    assert_eq!(report["workers"], 100_000_u64.div_ceil(798));
}

#[test]
fn nothing_is_written_where_nothing_is_low() {
    // One user is content with any kernel's defaults.
    let applied = tune(&["--apply", "--users=1", "--json"]);
    assert_eq!(applied.code(), Some(0), "{applied:?}");
    assert_eq!(json_of(&applied)["changes"], Value::Array(Vec::new()), "{applied:?}");
}

#[test]
fn wrong_arguments_are_wrong_usage() {
    for wrong in [
        &["--users=0"][..],
        &["--users=many"],
        &["--users=-1"],
        &["--sysctl", "--apply"],
        &["--sysctl", "--json"],
        &["1000"],
    ] {
        assert_eq!(tune(wrong).code(), Some(2), "{wrong:?}");
    }
}
