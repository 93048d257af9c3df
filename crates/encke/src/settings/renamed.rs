//! Old names of options: each is taken until version 1.0, with one warning.
//!
//! They are clap's hidden aliases, which the command line takes by itself. The environment and
//! files of settings take them as they take the present names.

use std::ffi::OsString;

use clap::Command;

use super::environment::Environment;
use super::file::SettingsFile;
use super::{leaf, old_names};

/// What is to be said of old names that the command `words` of `program` was given: one sentence
/// each.
pub(super) fn warnings(
    program: &Command,
    words: &[&str],
    args: &[OsString],
    environment: &Environment,
    file: Option<&SettingsFile>,
) -> Vec<String> {
    let own = leaf(program, words).get_arguments().filter(|arg| !arg.is_global_set());
    let mut warnings = Vec::new();
    for arg in own.chain(program.get_arguments()) {
        let present = arg.get_long().unwrap_or_default();
        for old in old_names(arg) {
            if !environment.is_of_successor() && args.iter().any(|word| is_option(word, old)) {
                warnings.push(sentence("", &format!("--{old}"), &format!("--{present}")));
            }
        }
        let given = environment.old_names_of(arg, words);
        warnings.extend(given.iter().map(|(old, present)| sentence("", old, present)));
    }
    let of_file = file.map(|file| of_file(program, words, file)).unwrap_or_default();
    let of_this = of_file.into_iter().filter(|(command, _)| command == words);
    warnings.extend(of_this.map(|(_, warning)| warning));
    warnings
}

/// What is to be said of old names in `file`, whichever command they are for. At its top stand
/// those of the command `words`.
pub(crate) fn warnings_of_file(
    program: &Command,
    words: &[&str],
    file: &SettingsFile,
) -> Vec<String> {
    of_file(program, words, file).into_iter().map(|(_, warning)| warning).collect()
}

/// Each sentence with the words of its command. The file is a good one: its tables are commands.
fn of_file<'f>(
    program: &Command,
    words: &'f [&'f str],
    file: &'f SettingsFile,
) -> Vec<(Vec<&'f str>, String)> {
    let warning = |(command, name, at): (Vec<&'f str>, String, String)| {
        let own = leaf(program, &command).get_arguments().filter(|arg| !arg.is_global_set());
        let mut args = own.chain(program.get_arguments());
        let arg = args.find(|arg| old_names(arg).contains(&&*name))?;
        let warning = sentence(&format!("{at}: "), &name, arg.get_long().unwrap_or_default());
        Some((command, warning))
    };
    file.options(words).filter_map(warning).collect()
}

fn is_option(word: &OsString, name: &str) -> bool {
    let word = word.as_encoded_bytes();
    let rest = word.strip_prefix(b"--").and_then(|word| word.strip_prefix(name.as_bytes()));
    rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'=')
}

fn sentence(at: &str, old: &str, present: &str) -> String {
    format!("{at}{old} is an old name, which version 1.0 will not know; write {present}")
}

#[cfg(test)]
mod tests {
    use clap::{Arg, ArgAction};

    use super::super::{Environment, Settings, read};
    use super::*;

    fn given(line: &[&str], variable: Option<&str>, file: &str) -> Settings {
        let path = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(path.path(), file).unwrap();
        let config = format!("--config={}", path.path().display());
        let args: Vec<OsString> =
            ["encke"].iter().chain(line).chain([&&*config]).map(OsString::from).collect();
        let variable = variable.map(|name| (name.to_owned(), "true".to_owned()));
        read(&crate::cli::program(), &args, &variable.into_iter().collect()).unwrap()
    }

    /// Its one warning names `old`.
    #[track_caller]
    fn check_warned(settings: &Settings, old: &str) {
        let [warning] = &settings.old_names[..] else { panic!("{old}: {:?}", settings.old_names) };
        assert!(warning.contains(old) && warning.contains("1.0"), "{warning}");
    }

    #[track_caller]
    fn check(settings: &Settings, arg: &Arg, old: &str) {
        let mut matches = &settings.matches;
        while let Some((_, inner)) = matches.subcommand() {
            matches = inner;
        }
        assert!(matches.get_flag(arg.get_id().as_str()), "{old} is taken");
        check_warned(settings, old);
    }

    /// The variable that the option of the command `words` is read from.
    fn variable_of(settings: &Settings, words: &[&str], arg: &str) -> String {
        let below = |command, word: &&str| Command::find_subcommand(command, word).unwrap();
        let mut args = words.iter().fold(&settings.command, below).get_arguments();
        let arg = args.find(|one| one.get_id() == arg).unwrap();
        arg.get_env().unwrap().to_str().unwrap().to_owned()
    }

    /// It is read from `old`, which clap does in the environment of this process.
    #[track_caller]
    fn check_variable(words: &[&str], arg: &Arg, old: &str) {
        let settings = given(words, Some(old), "");
        assert_eq!(variable_of(&settings, words, arg.get_id().as_str()), old);
        check_warned(&settings, old);
    }

    fn check_all(command: &Command, words: &[&str]) -> usize {
        let mut seen = 0;
        for arg in command.get_arguments() {
            for old in old_names(arg) {
                // An option with a value wants one that it takes.
                assert!(matches!(arg.get_action(), ArgAction::SetTrue), "{old}: give a value here");
                let line = format!("--{old}");
                check(&given(&[words, &[&*line]].concat(), None, ""), arg, &line);
                check(&given(words, None, &format!("{old} = true")), arg, old);
                let file = format!("[{}]\n{old} = true", words.join("."));
                check(&given(words, None, &file), arg, old);
                let variable = old.replace('-', "_").to_uppercase();
                let command = words.join("_").to_uppercase();
                check_variable(words, arg, &format!("ENCKE_{command}_{variable}"));
                if words == ["serve"] {
                    check_variable(words, arg, &format!("ENCKE_{variable}"));
                }
                seen += 1;
            }
        }
        let inner = command.get_subcommands();
        let below = inner.map(|inner| check_all(inner, &[words, &[inner.get_name()]].concat()));
        seen + below.sum::<usize>()
    }

    #[test]
    fn every_old_name_is_taken_from_everywhere_with_one_warning() {
        assert!(check_all(&crate::cli::program(), &[]) > 0);
    }

    #[test]
    fn present_name_is_taken_without_a_word_and_wins() {
        for settings in [
            given(&["serve", "--take-over"], None, ""),
            given(&["serve"], Some("ENCKE_TAKE_OVER"), ""),
            given(&["serve"], None, "take-over = true"),
            given(&["serve", "--data=--inherit"], None, ""),
            given(&["send", "bob", "hello"], Some("ENCKE_INHERIT"), ""),
        ] {
            assert_eq!(settings.old_names, [""; 0]);
        }
        let both = [("ENCKE_TAKE_OVER", "false"), ("ENCKE_SERVE_INHERIT", "true")];
        let both: Environment =
            both.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let args = ["encke", "serve"].map(OsString::from);
        let settings = read(&crate::cli::program(), &args, &both).unwrap();
        assert_eq!(variable_of(&settings, &["serve"], "take_over"), "ENCKE_TAKE_OVER");
    }

    /// A server starts its successor by the first name, which earlier versions know alone.
    #[test]
    fn successor_of_a_server_is_not_warned_of_its_command_line() {
        let settings = given(&["serve", "--inherit"], Some(server::SUCCESSOR), "");
        assert_eq!(settings.old_names, [""; 0]);
    }
}
