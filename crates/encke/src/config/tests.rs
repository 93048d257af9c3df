//! Files of settings beside a command line.

use std::io::Write;

use super::*;

fn command() -> Command {
    let option = |name: &'static str| Arg::new(name).long(name);
    let serve = Command::new("serve")
        .arg(option("max-backlog").default_value("1"))
        .arg(option("allow-origin").action(ArgAction::Append))
        .arg(option("json").action(ArgAction::SetTrue));
    let load = Command::new("load").arg(option("both").action(ArgAction::SetTrue));
    let graph = Command::new("graph").subcommand(load);
    let root = Command::new("encke").arg(option("log-level").global(true));
    root.subcommand(serve).subcommand(graph)
}

fn parse(file: &str, args: &[&str]) -> Result<ArgMatches, ConfigError> {
    let mut path = tempfile::NamedTempFile::new().unwrap();
    path.write_all(file.as_bytes()).unwrap();
    let matches = command().get_matches_from(args);
    let command = with_file(command(), path.path(), &words(&matches))?;
    Ok(command.get_matches_from(args))
}

fn serve(file: &str, args: &[&str]) -> ArgMatches {
    let matches = parse(file, &[&["encke", "serve"], args].concat()).unwrap();
    matches.subcommand_matches("serve").unwrap().clone()
}

fn text<'m>(matches: &'m ArgMatches, name: &str) -> &'m str {
    matches.get_one::<String>(name).unwrap()
}

#[test]
fn command_line_wins_over_the_file_and_the_file_over_the_default() {
    assert_eq!(text(&serve("", &[]), "max-backlog"), "1");
    assert_eq!(text(&serve("max_backlog = 2", &[]), "max-backlog"), "2");
    assert_eq!(text(&serve("max-backlog = 2", &["--max-backlog=3"]), "max-backlog"), "3");
    assert_eq!(text(&serve("max-backlog = 2\n[serve]\nmax-backlog = 4", &[]), "max-backlog"), "4");
}

#[test]
fn lists_flags_and_global_options_stand_in_a_file() {
    let matches = serve("json = true\nallow-origin = ['a', 'b']\nlog-level = 'warn'", &[]);
    assert!(matches.get_flag("json"));
    let origins: Vec<_> = matches.get_many::<String>("allow-origin").unwrap().collect();
    assert_eq!(origins, ["a", "b"]);
    assert_eq!(text(&matches, "log-level"), "warn");
    let only = serve("allow-origin = ['a', 'b']", &["--allow-origin=c"]);
    assert_eq!(only.get_many::<String>("allow-origin").unwrap().count(), 1);
}

#[test]
fn tables_of_other_commands_are_checked_and_left_alone() {
    let matches = serve("[graph.load]\nboth = true\n[serve]\njson = true", &[]);
    assert!(matches.get_flag("json"));
    let args = ["encke", "graph", "load"];
    let matches = parse("[graph.load]\nboth = true", &args).unwrap();
    let load = matches.subcommand_matches("graph").unwrap().subcommand_matches("load");
    assert!(load.unwrap().get_flag("both"));
}

#[test]
fn unknown_keys_are_named() {
    for file in ["colour = 1", "[serve]\ncolour = 1", "[colour]\nx = 1", "config = 'x'"] {
        let error = parse(file, &["encke", "serve"]).unwrap_err().to_string();
        assert!(error.contains("`colour`") || error.contains("`config`"), "{error}");
    }
    let error = parse("max-backlog = 1979-05-27", &["encke", "serve"]).unwrap_err();
    assert!(matches!(error, ConfigError::Type { .. }));
}

#[test]
fn options_have_environment_variables() {
    let command = with_environment(command());
    let serve = command.find_subcommand("serve").unwrap();
    let variable = |name| serve.get_arguments().find(|arg| arg.get_id() == name).unwrap();
    assert_eq!(variable("max-backlog").get_env().unwrap(), "ENCKE_MAX_BACKLOG");
}
