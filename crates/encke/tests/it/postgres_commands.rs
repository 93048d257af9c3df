//! `encke postgres` against a real PostgreSQL.

use testing::postgres::Postgres;

use crate::harness::{Program, encke};

#[test]
fn table_is_made_the_graph_and_let_go_by_commands() {
    let Some(server) = Postgres::start(&["fsync=off"]) else { return };
    let run = |args: &[&str]| {
        let mut command = encke(["postgres"]);
        Program::run(command.args(args).env("ENCKE_POSTGRES", server.url()))
    };
    let status = run(&["status"]);
    assert!(status.code() == Some(1) && status.stderr.contains("encke postgres migrate"));
    assert_eq!(run(&["migrate"]).stdout, "the graph's tables are at version 5\n");
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
