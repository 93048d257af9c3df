//! `encke postgres` against a real PostgreSQL.

use std::process::Command;

use testing::postgres::Postgres;

use crate::harness::{Finished, Program, encke};

/// What becomes of a command that goes to this server.
fn run(command: &mut Command, server: &Postgres) -> Finished {
    Program::run(command.env("ENCKE_POSTGRES", server.url()))
}

#[test]
fn table_is_made_the_graph_and_let_go_by_commands() {
    let Some(server) = Postgres::start(&["fsync=off"]) else { return };
    let run = |args: &[&str]| run(encke(["postgres"]).args(args), &server);
    let status = run(&["status"]);
    assert!(status.code() == Some(1) && status.stderr.contains("encke postgres migrate"));
    assert_eq!(run(&["migrate"]).stdout, "the graph's tables are at version 6\n");
    server
        .sql(
            "create table follows (a bigint, b text, primary key (a, b));
              insert into follows values (1, 'rj'), (2, 'rj')",
        )
        .unwrap();
    let wrong = run(&["install", "follows", "a", "c"]);
    assert!(wrong.stderr.contains("public.follows has no column c"), "{}", wrong.stderr);
    let installed = run(&["install", "follows", "a", "b"]);
    assert_eq!(installed.stdout, "follows is the graph, at version 1\n");
    server.sql("delete from follows where a = 1").unwrap();
    let status: serde_json::Value =
        serde_json::from_str(&run(&["status", "--json"]).stdout).unwrap();
    assert_eq!(status["version"], 2);
    assert_eq!(status["source"]["table"], "public.follows");
    let is_the_graph = "the graph is the table public.follows (a follows b)";
    assert!(run(&["status"]).stdout.contains(is_the_graph));
    assert!(run(&["uninstall"]).stdout.contains("the graph stays as it is"));
    assert!(run(&["uninstall"]).stderr.contains("no table was the graph"));
}

/// As tools that map objects make them.
#[test]
fn status_prints_a_command_that_a_shell_takes_for_a_table_with_capitals() {
    let Some(server) = Postgres::start(&["fsync=off"]) else { return };
    let run = |command: &mut Command| run(command, &server);
    assert_eq!(run(&mut encke(["postgres", "migrate"])).code(), Some(0));
    server
        .sql(
            "create table \"Follows\" (\"followerId\" bigint, \"it's\" bigint,
                 primary key (\"followerId\", \"it's\"))",
        )
        .unwrap();
    let install = ["postgres", "install", "\"Follows\"", "followerId", "it's"];
    let installed = run(&mut encke(install));
    assert_eq!(installed.code(), Some(0), "{installed:?}");
    let unseen =
        "alter table \"Follows\" disable trigger all; insert into \"Follows\" values (1, 2);
        alter table \"Follows\" enable trigger all";
    server.sql(unseen).unwrap();
    let status = run(&mut encke(["postgres", "status"]));
    let told = status.stdout.lines().find(|line| line.contains("differs")).unwrap();
    let command = told.split('`').nth(1).unwrap().strip_prefix("encke ").unwrap();
    let program = encke([""; 0]);
    let command = format!("{} {command}", program.get_program().display());
    let mended = run(Command::new("sh").args(["-c", &command]));
    assert_eq!(mended.code(), Some(0), "{command}: {mended:?}");
    let status = run(&mut encke(["postgres", "status"]));
    assert!(status.stdout.contains("both have the same pairs"), "{status:?}");
}

/// As a restore of the table alone does it.
#[test]
fn table_that_was_dropped_and_made_anew_is_told_with_what_to_do() {
    let Some(server) = Postgres::start(&["fsync=off"]) else { return };
    let run = |args: &[&str]| run(encke(["postgres"]).args(args), &server);
    assert_eq!(run(&["migrate"]).code(), Some(0));
    let make = "create table follows (a bigint, b bigint, primary key (a, b));
        insert into follows values (1, 2), (3, 4)";
    server.sql(make).unwrap();
    assert_eq!(run(&["install", "follows", "a", "b"]).code(), Some(0));
    server.sql("drop table follows").unwrap();
    server.sql(make).unwrap();
    let status = run(&["status"]).stdout;
    assert!(status.contains("a table that is gone") && status.contains("install"), "{status}");
    let json: serde_json::Value = serde_json::from_str(&run(&["status", "--json"]).stdout).unwrap();
    assert!(json["source"].is_null() && json["source_lost"].is_string(), "{json}");
    let refused = server.sql("select encke.change(array[['a', 'b']])").unwrap_err();
    assert!(refused.contains("encke postgres install"), "{refused}");
    let checked = server.sql("select * from encke.source_differences(3)").unwrap_err();
    assert!(checked.contains("a table that is gone"), "{checked}");
    assert_eq!(run(&["install", "follows", "a", "b"]).code(), Some(0));
    assert!(run(&["status"]).stdout.contains("both have the same pairs"));
}

#[test]
fn triggers_that_are_off_and_a_comparison_that_fails_are_told() {
    let Some(server) = Postgres::start(&["fsync=off"]) else { return };
    let run = |args: &[&str]| run(encke(["postgres"]).args(args), &server);
    let json = || -> serde_json::Value {
        serde_json::from_str(&run(&["status", "--json"]).stdout).unwrap()
    };
    assert_eq!(run(&["migrate"]).code(), Some(0));
    server.sql("create table follows (a bigint, b bigint, primary key (a, b))").unwrap();
    let install = ["install", "follows", "a", "b"];
    assert_eq!(run(&install).code(), Some(0));
    let told = json();
    assert!(told["triggers_off"] == false && told["differences"] == 0, "{told}");
    for change in ["disable trigger encke_insert", "enable replica trigger encke_update"] {
        server.sql(&format!("alter table follows {change}")).unwrap();
        // No row differs yet.
        let told = json();
        assert_eq!(told["triggers_off"], true, "{change}: {told}");
        assert!(told["differences"] == 0 && told["differences_error"].is_null(), "{told}");
        let status = run(&["status"]).stdout;
        assert!(status.contains("its triggers are gone or off"), "{status}");
        assert!(status.contains("`encke postgres install public.follows a b`"), "{status}");
        assert_eq!(run(&install).code(), Some(0));
        assert_eq!(json()["triggers_off"], false, "{change}");
    }
    let broken = "create or replace function encke.source_difference_query() returns text
        language sql as $$ select 'no query' $$";
    server.sql(broken).unwrap();
    let told = json();
    assert!(told["differences"].is_null(), "{told}");
    assert!(told["differences_error"].as_str().unwrap().contains("syntax error"), "{told}");
    let status = run(&["status"]);
    assert!(status.stderr.contains("they could not be compared"), "{status:?}");
}
