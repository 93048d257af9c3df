//! Options in the environment.
//!
//! Each long option has a name of its own, with the words of its command: `--rate` of `encke flood`
//! is `ENCKE_FLOOD_RATE`, `--both` of `encke graph load` is `ENCKE_GRAPH_LOAD_BOTH`. Those of the
//! server go without its word too, `ENCKE_MAX_BACKLOG`, as do those that mean the same to all who
//! take them, `ENCKE_KEY`. Where both are there the longer name is meant more closely. Some of the
//! server have a name that OpenTelemetry gives them, which is meant least closely.

use std::collections::BTreeMap;
use std::env;

use clap::{Arg, Command};

use super::{is_setting, old_names, with_words};

const PREFIX: &str = "ENCKE_";

/// The command whose options need not be called with its name.
const SERVER: &str = "serve";

/// The options that mean the same to each command, and may go without its name: where the server,
/// its directory and its database are, and what it is shown.
const SHARED: [&str; 8] = [
    "api",
    "ca",
    "data",
    "key",
    "postgres",
    "postgres-password-file",
    "postgres-root",
    "postgres-schema",
];

/// `listen` alone takes one, and everybody calls it so.
const SHARED_TOKEN: &str = "token";

/// This command makes a server and a directory of its own: what is said of others is not for it.
const ALONE: &str = "demo";

/// What OpenTelemetry calls options of the server ("OpenTelemetry Environment Variable
/// Specification"). There, an empty variable is none.
const STANDARD: [(&str, &str); 5] = [
    ("otlp", "OTEL_EXPORTER_OTLP_ENDPOINT"),
    ("otlp-headers", "OTEL_EXPORTER_OTLP_HEADERS"),
    ("otlp-service", "OTEL_SERVICE_NAME"),
    ("otlp-sampler", "OTEL_TRACES_SAMPLER"),
    ("otlp-ratio", "OTEL_TRACES_SAMPLER_ARG"),
];

/// Names that are no options: where the demo finds programs, and what a server tells its successor.
const OTHERS: [&str; 3] = ["ENCKE_NATS_SERVER", "ENCKE_POSTGRES_BIN", server::SUCCESSOR];

/// The variables that may be meant for this program.
#[derive(Default)]
pub(crate) struct Environment {
    variables: BTreeMap<String, String>,
}

impl Environment {
    /// Those of this process.
    pub(crate) fn of_process() -> Environment {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
        };
        env::vars_os().filter_map(text).collect()
    }

    /// What is to be said of names that no option has: one sentence each.
    pub(crate) fn unknown(&self, program: &Command) -> Vec<String> {
        let mut known = Vec::new();
        collect_names(program, "", &mut known);
        let is_known = |name: &str| OTHERS.contains(&name) || known.iter().any(|k| k == name);
        let unknown = self
            .variables
            .iter()
            .filter(|(name, _)| name.starts_with(PREFIX))
            .filter(|(name, value)| !is_known(name.as_str()) && !is_service_link(name, value));
        unknown.map(|(name, _)| sentence(name, &known)).collect()
    }

    /// Whether a server has started this one as its successor, by a command line that is not ours.
    pub(super) fn is_of_successor(&self) -> bool {
        self.variables.contains_key(server::SUCCESSOR)
    }

    /// The old names that are given for `arg` of the command `words`, with the present ones.
    pub(super) fn old_names_of(&self, arg: &Arg, words: &[&str]) -> Vec<(String, String)> {
        let words: String = match arg.is_global_set() {
            true => String::new(),
            false => words.iter().map(|word| format!("{word}-")).collect(),
        };
        let present = names(arg, &words);
        let pairs = old_variables(arg, &words).into_iter().zip(present.into_iter().cycle());
        pairs.filter(|(old, _)| self.variables.contains_key(old)).collect()
    }
}

impl FromIterator<(String, String)> for Environment {
    fn from_iter<T: IntoIterator<Item = (String, String)>>(variables: T) -> Environment {
        let is_standard = |name: &str, value: &str| {
            !value.is_empty() && STANDARD.iter().any(|(_, standard)| *standard == name)
        };
        let variables = variables
            .into_iter()
            .filter(|(name, value)| name.starts_with(PREFIX) || is_standard(name, value));
        Environment { variables: variables.collect() }
    }
}

/// Gives every long option of `program` and of its commands its variable, but for those that hide
/// it: of its names the first that `environment` has.
pub(crate) fn with_variables(program: Command, environment: &Environment) -> Command {
    with_variables_below(program, "", environment)
}

fn with_variables_below(command: Command, words: &str, environment: &Environment) -> Command {
    let with_variable = |arg: Arg| {
        let names = names(&arg, words);
        let old = old_variables(&arg, words);
        let standard = standard(&arg, words);
        let mut all = names.iter().chain(&old).chain(&standard);
        let set = all.find(|name| environment.variables.contains_key(*name));
        // The shortest is the one to read about.
        let Some(name) = set.or(names.last()) else { return arg };
        with_words(arg.env(name.clone()).hide_env_values(true))
    };
    command.mut_args(with_variable).mut_subcommands(|command| {
        let words = format!("{words}{}-", command.get_name());
        with_variables_below(command, &words, environment)
    })
}

/// The names of an option of the command that is called `words`, each with a hyphen behind it; the
/// one that is meant most closely first.
fn names(arg: &Arg, words: &str) -> Vec<String> {
    arg.get_long().map(|long| names_by(arg, words, long)).unwrap_or_default()
}

/// What they were before.
fn old_variables(arg: &Arg, words: &str) -> Vec<String> {
    old_names(arg).into_iter().flat_map(|old| names_by(arg, words, old)).collect()
}

/// The names of an option where it is called `called`.
fn names_by(arg: &Arg, words: &str, called: &str) -> Vec<String> {
    let is_config = arg.get_long() == Some("config");
    let Some(long) = arg.get_long().filter(|_| is_setting(arg) || is_config) else {
        return Vec::new();
    };
    if arg.is_hide_env_set() {
        return Vec::new();
    }
    let command = words.trim_end_matches('-');
    let is_shared = SHARED.contains(&long) || (command, long) == ("listen", SHARED_TOKEN);
    let is_short = command == SERVER || (is_shared && command != ALONE);
    let variable = |words: &str| {
        format!("{PREFIX}{}", format!("{words}{called}").replace('-', "_").to_uppercase())
    };
    match (words, is_short) {
        ("", _) => vec![variable("")],
        (words, true) => vec![variable(words), variable("")],
        (words, false) => vec![variable(words)],
    }
}

/// The name that OpenTelemetry gives it, if it is such an option of the server.
fn standard(arg: &Arg, words: &str) -> Option<String> {
    let is_server = words.trim_end_matches('-') == SERVER;
    let long = arg.get_long().filter(|_| is_server)?;
    STANDARD.iter().find(|(option, _)| *option == long).map(|(_, name)| (*name).to_owned())
}

fn collect_names(command: &Command, words: &str, into: &mut Vec<String>) {
    let all = |arg| [names(arg, words), old_variables(arg, words)].concat();
    into.extend(command.get_arguments().flat_map(all));
    for command in command.get_subcommands() {
        collect_names(command, &format!("{words}{}-", command.get_name()), into);
    }
}

/// Whether Kubernetes has put it there, for a service whose name begins with `encke`
/// (kubernetes.io, "Discovering services").
fn is_service_link(name: &str, value: &str) -> bool {
    let of_port = name.contains("_PORT_") && (name.contains("_TCP") || name.contains("_UDP"));
    let is_address = value.starts_with("tcp://") || value.starts_with("udp://");
    name.contains("_SERVICE_HOST") || name.contains("_SERVICE_PORT") || of_port || is_address
}

fn sentence(name: &str, known: &[String]) -> String {
    let nothing = format!("{name} in the environment is no option of any command");
    let rest = name.strip_prefix(PREFIX).unwrap_or(name);
    // The option alone, of a command that wants its name before it.
    let mut meant: Vec<&str> =
        known.iter().filter(|k| k.ends_with(&format!("_{rest}"))).map(String::as_str).collect();
    if meant.is_empty() {
        meant.extend(super::closest(name, known.iter().map(String::as_str)));
    }
    meant.truncate(4);
    match meant.is_empty() {
        true => nothing,
        false => format!("{nothing}; is {} meant?", meant.join(" or ")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn program() -> Command {
        crate::cli::program()
    }

    fn environment(name: &str, value: &str) -> Environment {
        [(name.to_owned(), value.to_owned())].into_iter().collect()
    }

    /// Two options may have one name only if they mean the same.
    #[test]
    fn no_two_options_have_one_name() {
        fn check(command: &Command, words: &str, seen: &mut BTreeMap<String, String>) {
            for arg in command.get_arguments() {
                let long = arg.get_long().unwrap_or_default();
                for name in [names(arg, words), old_variables(arg, words)].concat() {
                    let short = format!("{PREFIX}{}", long.replace('-', "_").to_uppercase());
                    let may_share = name == short;
                    let option = format!("{} --{long}", if may_share { "" } else { words });
                    let before = seen.insert(name.clone(), option.clone());
                    assert!(before.is_none_or(|before| before == option), "{name}: {option}");
                }
            }
            for command in command.get_subcommands() {
                check(command, &format!("{words}{}-", command.get_name()), seen);
            }
        }
        let mut seen = BTreeMap::new();
        check(&program(), "", &mut seen);
        for name in ["ENCKE_SEED", "ENCKE_RATE", "ENCKE_DEMO_KEY"] {
            assert!(!seen.contains_key(name), "{name}");
        }
        for name in ["ENCKE_SPAM_RATE", "ENCKE_MAX_BACKLOG", "ENCKE_SERVE_MAX_BACKLOG"] {
            assert!(seen.contains_key(name), "{name}");
        }
    }

    #[test]
    fn longer_name_is_meant_more_closely() {
        let variable = |environment: &Environment| {
            let program = with_variables(program(), environment);
            let serve = program.find_subcommand("serve").unwrap();
            let arg = serve.get_arguments().find(|arg| arg.get_long() == Some("max-backlog"));
            arg.unwrap().get_env().unwrap().to_str().unwrap().to_owned()
        };
        assert_eq!(variable(&Environment::default()), "ENCKE_MAX_BACKLOG");
        let long = environment("ENCKE_SERVE_MAX_BACKLOG", "1");
        assert_eq!(variable(&long), "ENCKE_SERVE_MAX_BACKLOG");
    }

    #[test]
    fn names_of_opentelemetry_are_meant_least_closely_and_are_none_when_empty() {
        let variable = |variables: &[(&str, &str)]| {
            let variables = variables.iter().map(|(name, value)| (*name, *value));
            let environment: Environment =
                variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            assert_eq!(environment.unknown(&program()), [""; 0]);
            let program = with_variables(program(), &environment);
            let serve = program.find_subcommand("serve").unwrap();
            let arg = serve.get_arguments().find(|arg| arg.get_long() == Some("otlp"));
            arg.unwrap().get_env().unwrap().to_str().unwrap().to_owned()
        };
        let standard = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4318");
        assert_eq!(variable(&[]), "ENCKE_OTLP");
        assert_eq!(variable(&[standard]), standard.0);
        assert_eq!(variable(&[(standard.0, "")]), "ENCKE_OTLP");
        assert_eq!(variable(&[standard, ("ENCKE_OTLP", "none")]), "ENCKE_OTLP");
        assert_eq!(variable(&[standard, ("ENCKE_SERVE_OTLP", "none")]), "ENCKE_SERVE_OTLP");
        assert_eq!(variable(&[("OTEL_PROPAGATORS", "b3")]), "ENCKE_OTLP");
    }

    #[test]
    fn unknown_names_are_told_with_what_may_be_meant() {
        let said = |name: &str, value: &str| environment(name, value).unknown(&program()).join("");
        assert!(said("ENCKE_MAX_BACKLGO", "1").ends_with("is ENCKE_MAX_BACKLOG meant?"));
        let rate = said("ENCKE_RATE", "1");
        assert!(rate.contains("ENCKE_DEMO_RATE"), "{rate}");
        assert!(rate.contains("ENCKE_CLIENT_SEND_RATE"), "{rate}");
        assert!(said("ENCKE_COLOUR_OF_THE_SKY", "1").ends_with("of any command"));
        for (name, value) in [
            ("ENCKE_CONFIG", "x"),
            ("ENCKE_NATS_SERVER", "x"),
            ("ENCKE_SERVICE_HOST", "10.0.0.1"),
            ("ENCKE_SERVICE_PORT_HTTP", "80"),
            ("ENCKE_PORT", "tcp://10.0.0.1:80"),
            ("ENCKE_PORT_80_TCP_ADDR", "10.0.0.1"),
            ("PATH", "/bin"),
        ] {
            assert_eq!(said(name, value), "", "{name}");
        }
    }
}
