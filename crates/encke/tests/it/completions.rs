//! What the packages take from the program itself: completions for shells, pages for `man`.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::harness::{Program, encke};

/// The completion script for `shell`.
fn script(shell: &str) -> String {
    let finished = Program::run(&mut encke(["completions", shell]));
    assert_eq!(finished.code(), Some(0), "{finished:?}");
    finished.stdout
}

/// What bash offers behind `line`, with the script that it would load.
fn offered_by_bash(line: &str) -> Vec<String> {
    let program = "source /dev/stdin; read -ra COMP_WORDS <<< \"$LINE\"; \
                   [[ $LINE == *' ' ]] && COMP_WORDS+=(''); \
                   COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); \
                   _encke encke \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD-1]}\"; \
                   printf '%s\\n' \"${COMPREPLY[@]}\"";
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", program]).env("LINE", line);
    let mut bash = bash.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = bash.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, script("bash").as_bytes()).unwrap();
    drop(input);
    let output = bash.wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(String::from).collect()
}

#[test]
fn shells_complete_commands_and_options() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = script(shell);
        for word in ["subscribe", "max-backlog", "skip-malformed"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    assert_eq!(offered_by_bash("encke subscribe"), ["subscribe", "subscribers"]);
    assert_eq!(offered_by_bash("encke serve --max-ba"), ["--max-backlog"]);
    assert_eq!(offered_by_bash("encke listen bob --transport "), ["sse", "websocket", "poll"]);
    let finished = Program::run(&mut encke(["completions", "tcl"]));
    assert_eq!(finished.code(), Some(2), "{finished:?}");
}

fn file_of(command: &str) -> String {
    format!("{}.1", format!("encke {command}").trim_end().replace(' ', "-"))
}

fn page(directory: &Path, name: &str) -> String {
    fs::read_to_string(directory.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Each command that `--help` names has a page, and each option of it stands there.
#[test]
fn each_command_has_a_page_with_its_options_and_examples() {
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("new/man1");
    let finished = Program::run(encke(["man"]).arg(&pages));
    assert_eq!(finished.code(), Some(0), "{finished:?}");
    for name in ["", "serve", "graph", "graph load", "key new", "listen", "completions", "man"] {
        let page = page(&pages, &file_of(name));
        // roff writes a hyphen as \-.
        let page = page.replace("\\-", "-");
        let words = name.split_whitespace();
        let help = Program::run(encke(words).arg("--help")).stdout;
        let options = help.lines().filter_map(|line| line.trim_start().strip_prefix("--"));
        for option in options.filter_map(|line| line.split([' ', ',']).next()) {
            assert!(page.contains(&format!("--{option}")), "{name}: {option}");
        }
        for part in [".TH", ".SH EXAMPLES", "exit"] {
            assert!(page.to_lowercase().contains(&part.to_lowercase()), "{name}: {part}");
        }
    }
    assert!(!pages.join("encke-help.1").exists());
    // Made again they are the same: packages can be built anew to the byte.
    let first = page(&pages, "encke-serve.1");
    assert!(!first.contains("demo\\-page"), "an option that is hidden");
    assert!(first.contains("ENCKE_MAX_BACKLOG"));
    Program::run(encke(["man"]).arg(&pages));
    assert_eq!(page(&pages, "encke-serve.1"), first);
}

#[test]
fn pages_that_cannot_be_written_are_told() {
    let finished = Program::run(&mut encke(["man", "/dev/null/man"]));
    assert_eq!(finished.code(), Some(1), "{finished:?}");
    assert!(finished.stderr.contains("/dev/null/man"), "{finished:?}");
}
