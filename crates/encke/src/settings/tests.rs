//! Files of settings and the environment beside a command line.

use std::io::Write;

use super::*;

fn command() -> Command {
    let option = |name: &'static str| Arg::new(name).long(name);
    let serve = Command::new("serve")
        .arg(option("max-backlog").default_value("1").value_parser(clap::value_parser!(u32)))
        .arg(option("allow-origin").action(ArgAction::Append))
        .arg(option("key").value_parser(clap::value_parser!(ApiKey)))
        .arg(option("cluster").requires("nats"))
        .arg(option("nats"))
        .arg(option("json").action(ArgAction::SetTrue));
    let load = Command::new("load")
        .arg(option("both").action(ArgAction::SetTrue))
        .arg(option("kind").required(true));
    let graph = Command::new("graph").subcommand(load);
    let config = option("config").value_parser(clap::value_parser!(PathBuf)).global(true);
    let root = Command::new("encke").arg(option("log-level").global(true)).arg(config);
    root.subcommand(serve).subcommand(graph)
}

fn parse(file: &str, args: &[&str]) -> Result<Settings, SettingsError> {
    let mut path = tempfile::NamedTempFile::new().unwrap();
    path.write_all(file.as_bytes()).unwrap();
    let config = format!("--config={}", path.path().display());
    let args = [&["encke", &config], args].concat();
    let args: Vec<OsString> = args.into_iter().map(OsString::from).collect();
    read(&command(), &args, &Environment::default())
}

fn serve(file: &str, args: &[&str]) -> ArgMatches {
    let settings = parse(file, &[&["serve"], args].concat()).unwrap();
    settings.matches.subcommand_matches("serve").unwrap().clone()
}

fn backlog(matches: &ArgMatches) -> u32 {
    *matches.get_one("max-backlog").unwrap()
}

#[track_caller]
fn refused(file: &str, args: &[&str]) -> String {
    parse(file, args).err().expect("it is refused").to_string()
}

#[test]
fn command_line_wins_over_the_file_and_the_file_over_the_default() {
    assert_eq!(backlog(&serve("", &[])), 1);
    assert_eq!(backlog(&serve("max_backlog = 2", &[])), 2);
    assert_eq!(backlog(&serve("max-backlog = 2", &["--max-backlog=3"])), 3);
    assert_eq!(backlog(&serve("max-backlog = 2\n[serve]\nmax-backlog = 0x10", &[])), 16);
}

#[test]
fn lists_flags_and_global_options_stand_in_a_file() {
    let matches = serve("json = true\nallow-origin = ['a', 'b']\nlog-level = 'warn'", &[]);
    assert!(matches.get_flag("json"));
    let origins: Vec<_> = matches.get_many::<String>("allow-origin").unwrap().collect();
    assert_eq!(origins, ["a", "b"]);
    assert_eq!(matches.get_one::<String>("log-level").unwrap(), "warn");
    let only = serve("allow-origin = ['a', 'b']", &["--allow-origin=c"]);
    assert_eq!(only.get_many::<String>("allow-origin").unwrap().count(), 1);
}

#[test]
fn tables_of_other_commands_are_checked_and_left_alone() {
    let matches = serve("[graph.load]\nboth = true\n[serve]\njson = true", &[]);
    assert!(matches.get_flag("json"));
}

#[test]
fn option_that_must_be_given_may_stand_in_the_file() {
    let args = ["graph", "load"];
    let settings = parse("[graph.load]\nboth = true\nkind = 'a'", &args).unwrap();
    let load = settings.matches.subcommand_matches("graph").unwrap().subcommand_matches("load");
    assert!(load.unwrap().get_flag("both"));
    assert!(refused("[graph.load]\nboth = true", &args).contains("--kind"));
}

/// What the file gives counts as given where another option requires it.
#[test]
fn option_that_another_requires_may_stand_in_the_file() {
    let matches = serve("nats = 'a'", &["--cluster=c"]);
    assert_eq!(matches.get_one::<String>("nats").unwrap(), "a");
    assert!(refused("json = true", &["serve", "--cluster=c"]).contains("--nats"));
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    for (file, line, text) in [
        ("colour = 1", 1, "`colour`"),
        ("[serve]\n\ncolour = 1", 3, "`encke serve` has no option --colour"),
        ("[serve]\nmax-backlgo = 1", 2, "is max-backlog meant?"),
        ("[colour]\nx = 1", 1, "unknown table `colour`"),
        ("config = 'x'", 1, "`config`"),
        ("[serve]\nlog-level = 'warn'", 2, "above every table"),
        ("\nmax-backlog = 1979-05-27", 2, "must be a string"),
        ("max-backlog = [1, 2]", 1, "takes one value"),
        ("json = 'maybe'", 1, "write true or false"),
        ("[serve]\nmax-backlog = 'x'", 2, "invalid value 'x' for '--max-backlog"),
        ("max-backlog = 'x'", 1, "invalid value 'x' for '--max-backlog"),
    ] {
        let error = refused(file, &["serve"]);
        assert!(error.contains(&format!(", line {line}: ")) && error.contains(text), "{error}");
    }
    let faults = |file: &str| {
        let mut path = tempfile::NamedTempFile::new().unwrap();
        path.write_all(file.as_bytes()).unwrap();
        let file = SettingsFile::read(path.path()).unwrap();
        file.check(&command(), &["serve"]).into_iter().map(|fault| fault.line).collect::<Vec<_>>()
    };
    assert_eq!(
        faults("json = 5\ncolour = 2\n[graph.load]\nboth = 'x'\n[x]\n[serve]\nkey=1"),
        [1, 2, 4, 5]
    );
    assert_eq!(faults("json = true\n[graph.load]\nboth = true"), [0; 0]);
}

#[test]
fn settings_are_listed_with_their_sources() {
    let file = "log-level = 'warn'\n[serve]\nmax-backlog = 2\nkey = 'encke_a'";
    let settings = parse(file, &["serve", "--allow-origin=a"]).unwrap();
    let list = settings.list();
    let of = |name: &str| list.iter().find(|setting| setting.name() == name).unwrap();
    let line = |name: &str| match of(name).source {
        Source::File { line, .. } => line,
        _ => 0,
    };
    assert_eq!((line("log-level"), line("max-backlog"), line("json")), (1, 3, 0));
    assert_eq!(of("allow-origin").source, Source::CommandLine);
    assert!(of("key").is_secret() && !of("json").is_secret());
    assert_eq!(of("json").values.as_deref(), Some(&["false".to_owned()][..]));
    assert!(list.iter().all(|setting| setting.name() != "config"));
}

#[test]
fn passwords_are_seen_in_urls() {
    let [url, name] = ["URL", "NAME@HOST"].map(|name| Arg::new("x").long("x").value_name(name));
    for (arg, value, has) in [
        (&url, "postgresql://encke@db/app", true),
        (&url, "nats://user:word@host:4222", true),
        (&url, "user:word@host:4222", true),
        (&url, "token@host", true),
        (&name, "https://user:word@host/jwks", true),
        (&url, "host=db password=x", true),
        (&url, "host=db password \t= x", true),
        (&url, "postgresql://db/app?sslpassword=x", true),
        (&url, "postgresql://db/app", false),
        (&url, "nats://user:wo/rd@host", true),
        (&url, "postgresql://user:wo/rd@db/app", true),
        (&name, "https://example.org/jwks?Api_Key=x", true),
        (&url, "postgresql://db/app?sslmode=require", false),
        (&name, "https://example.org/@x", false),
        (&url, "host:4222", false),
        (&name, "encke@host", false),
        (&name, "/run/secrets/password", false),
    ] {
        assert_eq!(has_password(arg, value), has, "{value}");
    }
}
