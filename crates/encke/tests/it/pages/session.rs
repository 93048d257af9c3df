//! This is a terminal in which a page is followed. It is a shell in an empty folder, in a network
//! of its own, where the ports and addresses of the page are free.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};

use tempfile::TempDir;

use super::page::Block;
use crate::harness::{Program, wait_for, without_settings};

/// Namespaces of a session: nothing that is started in it outlives it, or is seen outside.
const NAMESPACES: [&str; 6] =
    ["--net", "--mount", "--pid", "--mount-proc", "--fork", "--kill-child"];

/// An address of the network that pages have as a server's, and a data directory of packages.
const SCRIPT: &str = "ip link set lo up && ip addr add 10.0.0.7/32 dev lo && \
                      mount -t tmpfs tmpfs /var/lib && mkdir /var/lib/encke && \
                      cd \"$1\" && exec bash --norc";

/// `cargo run --release -- …`, as README has it, runs the program that is tested.
const CARGO: &str = "#!/bin/sh\n[ \"$1 $2 $3\" = 'run --release --' ] || exit 97\nshift 3\n\
                     exec encke \"$@\"\n";

/// Commands that go on until somebody ends them.
const LASTING: [&str; 5] =
    ["encke serve", "encke listen", "curl -N", "python3 -m http.server", "cargo run"];

/// Where the API is unless the page says otherwise.
const API: &str = "127.0.0.1:8001";

/// What a page shows in the place of something that differs.
const ANY: char = '…';

pub(super) struct Session {
    shell: Program,
    input: ChildStdin,
    base: TempDir,
    /// How many commands there were.
    steps: usize,
    /// Those that go on: what was typed, the number of its step, its process.
    lasting: Vec<(String, usize, String)>,
    /// The server's process, as the shell knows it.
    server: Option<String>,
    /// What is typed in the place of something that a page cannot know.
    instead: Vec<(&'static str, String)>,
}

/// What a command has said.
pub(super) struct Said {
    pub(super) code: String,
    pub(super) out: String,
    pub(super) errors: String,
}

impl Session {
    /// `None` where this user may not make a network.
    pub(super) fn start() -> Option<Session> {
        let ways: [&[&str]; 2] = [&[], &["--user", "--map-root-user"]];
        let works = |way: &&[&str]| {
            let mut probe = Command::new("unshare");
            probe.args(*way).args(NAMESPACES).arg("true");
            let status = probe.stdin(Stdio::null()).stderr(Stdio::null()).status();
            status.is_ok_and(|status| status.success())
        };
        let Some(way) = ways.into_iter().find(works) else {
            testing::skip("this user may not make a network (unshare --net)");
            return None;
        };
        let base = tempfile::tempdir().unwrap();
        for folder in ["bin", "steps", "work"] {
            fs::create_dir(base.path().join(folder)).unwrap();
        }
        let bin = base.path().join("bin");
        symlink(env!("CARGO_BIN_EXE_encke"), bin.join("encke")).unwrap();
        fs::write(bin.join("cargo"), CARGO).unwrap();
        fs::set_permissions(bin.join("cargo"), fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = without_settings(Path::new("unshare"));
        command.args(way).args(NAMESPACES).args(["bash", "-c", SCRIPT, "bash"]);
        let path = std::env::var("PATH").unwrap_or_default();
        command.arg(base.path().join("work")).env("HOME", base.path().join("work"));
        command.env("PATH", format!("{}:{path}:/usr/sbin:/sbin", bin.display()));
        let (shell, input) = Program::spawn_with_input(&mut command);
        let (lasting, instead) = (Vec::new(), Vec::new());
        let mut session = Session { shell, input, base, steps: 0, lasting, server: None, instead };
        session.run("set -o pipefail");
        Some(session)
    }

    /// The folder in which commands are typed.
    pub(super) fn folder(&self) -> PathBuf {
        self.base.path().join("work")
    }

    /// From now on `by` is typed where the page has `what`.
    pub(super) fn instead(&mut self, what: &'static str, by: impl Into<String>) {
        self.instead.push((what, by.into()));
    }

    /// Types the commands of a block. Each must end well, or go on; what a `console` block shows
    /// behind one must be what it says.
    pub(super) fn follow(&mut self, block: &Block) {
        for (command, shown) in block.commands() {
            let command =
                self.instead.iter().fold(command, |text, (what, by)| text.replace(what, by));
            if LASTING.iter().any(|start| command.starts_with(start)) {
                self.begin(&command);
                continue;
            }
            let out = self.run(&command);
            assert!(
                shown.is_empty() || fits(&plain(&shown), plain(&out).trim_end()),
                "line {}: {command}\nshown: {shown}\nsaid: {out}",
                block.line
            );
        }
    }

    /// Runs a command that ends well; what it has said.
    pub(super) fn run(&mut self, command: &str) -> String {
        let said = self.attempt(command);
        assert_eq!(said.code, "0", "{command}: {}{}", said.out, said.errors);
        said.out
    }

    /// Runs a command that may fail.
    pub(super) fn attempt(&mut self, command: &str) -> Said {
        let step = self.step(command);
        let line = format!(". {step}.sh </dev/null >{step}.out 2>{step}.err; echo \"end $?\"");
        let code = self.type_line(&line);
        let read = |end: &str| fs::read_to_string(format!("{step}.{end}")).unwrap();
        Said { code, out: read("out"), errors: read("err") }
    }

    /// Starts a command that goes on, and waits until it is at work.
    pub(super) fn begin(&mut self, command: &str) {
        let is_server = command.starts_with("encke serve") || command.starts_with("cargo run");
        if is_server {
            self.end_server();
        }
        let is_stream = command.contains(":8000/") && !command.contains("/v1/stream/");
        let listens = command.starts_with("encke listen") || is_stream;
        let before = if listens { self.open() } else { 0 };
        let number = self.steps;
        let step = self.step(&format!("exec {command}"));
        let line = format!("(. {step}.sh) </dev/null >{step}.out 2>{step}.err & echo \"end $!\"");
        let pid = self.type_line(&line);
        self.lasting.push((command.to_owned(), number, pid.clone()));
        if is_server {
            self.server = Some(pid);
            let api = option_of(command, "--api").unwrap_or(API);
            let ready = self.attempt(&format!("encke ready --wait 100 --api http://{api}"));
            let errors = fs::read_to_string(format!("{step}.err")).unwrap();
            assert_eq!(ready.code, "0", "{command}: {}{errors}", ready.errors);
        } else if listens {
            wait_for(&format!("{command} is online"), || self.open() > before);
        } else if command.contains("http.server") {
            let ask = "curl -s -o page.html http://127.0.0.1:8080/";
            wait_for("the folder is served", || self.attempt(ask).code == "0");
        }
    }

    /// Ends the server and waits for its end, as Ctrl-C in its terminal does.
    pub(super) fn end_server(&mut self) {
        if let Some(pid) = self.server.take() {
            self.run(&format!("kill -INT {pid}; wait {pid}"));
        }
    }

    /// Ends the last command that begins with `command` and goes on.
    pub(super) fn end(&mut self, command: &str) {
        let (_, _, pid) = self.last(command);
        let line = format!("kill -INT {pid}; wait {pid}");
        self.attempt(&line);
    }

    fn last(&self, command: &str) -> &(String, usize, String) {
        let last = self.lasting.iter().rfind(|(text, ..)| text.starts_with(command));
        last.unwrap_or_else(|| panic!("{command} was not begun"))
    }

    /// Waits until the last command that begins with `command` and goes on has said `words`.
    pub(super) fn hears(&self, command: &str, words: &str) {
        let (_, number, _) = self.last(command);
        let path = self.base.path().join(format!("steps/{number}.out"));
        let mut said = String::new();
        let found = testing::wait_within(testing::DEADLINE, || {
            said = fs::read_to_string(&path).unwrap_or_default();
            fits_in(&plain(words), &plain(&said))
        });
        assert!(found, "{command} has not said {words}: {said}");
    }

    /// How many streams the server has.
    fn open(&mut self) -> u64 {
        let text = self.attempt(&format!("curl -s http://{API}/metrics")).out;
        let figures = text.lines().filter_map(|line| line.strip_prefix("encke_streams_open"));
        figures.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }

    /// Writes the next command down; the beginning of the names of its files.
    fn step(&mut self, command: &str) -> String {
        let step = self.base.path().join(format!("steps/{}", self.steps));
        self.steps += 1;
        let mut text = String::new();
        writeln!(text, "{command}").unwrap();
        fs::write(step.with_extension("sh"), text).unwrap();
        step.display().to_string()
    }

    /// Types a line of ours; the word behind `end`.
    fn type_line(&mut self, line: &str) -> String {
        writeln!(self.input, "{line}").unwrap();
        let answer = self.shell.line();
        answer.strip_prefix("end ").unwrap_or_else(|| panic!("{line}: {answer}")).to_owned()
    }
}

/// The value of an option in a command.
fn option_of<'c>(command: &'c str, option: &str) -> Option<&'c str> {
    let mut words = command.split_whitespace();
    words.find(|word| *word == option).and_then(|_| words.next())
}

/// The text with each event's id, and each long number in hexadecimal, the same.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for part in text.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
        let word = part.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        let is_id = word.len() == 16 && word.starts_with('2');
        let is_hex = word.len() >= 20 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        plain.push_str(if is_id || is_hex { "ID" } else { word });
        plain.push_str(&part[word.len()..]);
    }
    plain
}

/// Whether `said` is what is shown, whatever stands where the page has `…`.
fn fits(shown: &str, said: &str) -> bool {
    let shown = shown.trim_end();
    let (Some(first), Some(last)) = (shown.split(ANY).next(), shown.rsplit(ANY).next()) else {
        return false;
    };
    said.starts_with(first) && said.ends_with(last) && fits_in(shown, said)
}

/// Whether the pieces of `shown` around each `…` stand in `said`, in their order.
fn fits_in(shown: &str, said: &str) -> bool {
    let mut rest = said;
    shown.split(ANY).all(|piece| {
        let found = rest.find(piece);
        rest = found.map_or("", |at| &rest[at + piece.len()..]);
        found.is_some()
    })
}

#[test]
fn shown_answers_fit_whatever_their_ids_are() {
    let fits = |shown: &str, said: &str| fits(&plain(shown), &plain(said));
    assert!(fits("{\"id\":\"2F3y6mQsYKmaB3xZ\"}", "{\"id\":\"2G00000000000001\"}"));
    assert!(!fits("2F3y6mQsYKmaB3xZ,\"n\":1}", "2G00000000000001,\"n\":2}"));
    assert!(fits("KEY=3c1f0f5dd5a0c7e51b07\nSECRET=…", "KEY=00000f5dd5a0c7e51b07\nSECRET=abc"));
    assert!(!fits("{\"type\":…,\"status\":400}", "{\"type\":1,\"status\":400,\"more\":1}"));
    assert_eq!(option_of("encke serve --api ADDRESS --open", "--api"), Some("ADDRESS"));
}
