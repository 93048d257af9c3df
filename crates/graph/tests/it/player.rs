//! A process that does what its test tells it. A line of its input is a command, and each has one
//! line as its answer. So a test can play through what two processes do, in any order.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, SyncSender};
use std::thread::{self, JoinHandle};

use graph::{Beside, Graph, GraphOptions, Pair, WriteError};
use hub::{Followers, Id, IdText, Names};

use super::crash::{everything, operations};
use super::{child, child_dir, pair};

/// What stands before an answer: the test runner prints, too.
const ANSWER: &str = "=> ";

/// Such a process, as its test sees it.
pub(super) struct Player {
    child: Child,
    commands: ChildStdin,
    lines: BufReader<ChildStdout>,
    /// Requests of `work` that were answered, and whether it has been told that the store is
    /// another process's.
    pub(super) done: usize,
    pub(super) stopped: bool,
}

impl Player {
    pub(super) fn start(dir: &Path) -> Player {
        Player::start_by(&mut child(&[], "player::child_plays", dir))
    }

    pub(super) fn start_by(command: &mut Command) -> Player {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let commands = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Player { child, commands, lines, done: 0, stopped: false }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The answer to `command`.
    #[track_caller]
    pub(super) fn say(&mut self, command: &str) -> String {
        self.begin(command);
        self.answer().unwrap_or_else(|| panic!("it ended at: {command}"))
    }

    /// Says `command`, and leaves it at that.
    pub(super) fn begin(&mut self, command: &str) {
        writeln!(self.commands, "{command}").unwrap();
    }

    /// The next answer; `None` when it has ended.
    pub(super) fn answer(&mut self) -> Option<String> {
        loop {
            if let Some((_, answer)) = self.hear()?.split_once(ANSWER) {
                return Some(answer.trim_end().to_owned());
            }
        }
    }

    /// Hears it until its work has been refused.
    pub(super) fn wait_until_stopped(&mut self) {
        while !self.stopped {
            self.hear().unwrap();
        }
    }

    /// Hears it until so many requests of its work were answered since that was looked at.
    pub(super) fn wait_until_done(&mut self, requests: usize) {
        while self.done < requests {
            self.hear().unwrap();
        }
    }

    fn hear(&mut self) -> Option<String> {
        let mut line = String::new();
        if self.lines.read_line(&mut line).unwrap() == 0 {
            return None;
        }
        assert!(!line.contains("broken"), "{line}");
        self.done += usize::from(line.contains("done"));
        self.stopped |= line.contains("stopped");
        Some(line)
    }

    /// Kills it, and hears what it has said before.
    pub(super) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        while self.answer().is_some() {}
    }

    /// Lets it end.
    pub(super) fn end(mut self) {
        drop(self.commands);
        assert!(self.child.wait().unwrap().success());
    }
}

#[test]
fn child_plays() {
    let Some(dir) = child_dir() else { return };
    let mut actor = Actor { dir: &dir, graph: None, beside: None, slow: None };
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let answer = actor.act(words[0], &words[1..]);
        // One write, so that a kill cannot leave half a line.
        tell(&format!("{ANSWER}{answer}\n"));
    }
}

/// A look-up that has stopped in the middle.
struct Slow {
    go_on: SyncSender<()>,
    all: JoinHandle<String>,
}

fn tell(line: &str) {
    std::io::stdout().write_all(line.as_bytes()).unwrap();
}

struct Actor<'d> {
    dir: &'d Path,
    graph: Option<Graph>,
    beside: Option<Beside>,
    slow: Option<Slow>,
}

impl Actor<'_> {
    fn act(&mut self, command: &str, words: &[&str]) -> String {
        let options = GraphOptions::default();
        match command {
            "open" => opened(Graph::open(self.dir, &options), &mut self.graph),
            "beside" => opened(Graph::open_beside(self.dir, &options), &mut self.beside),
            "take" => opened(self.beside.take().unwrap().take(), &mut self.graph),
            "look" => said(self.beside.as_mut().unwrap().catch_up()),
            "forget" => {
                self.beside = None;
                "ok".into()
            }
            "go" => said(self.graph().let_go()),
            "back" => said(self.graph().take_back()),
            "add" => said(self.graph().add_blocking(pairs(words))),
            "remove" => said(self.graph().remove_blocking(pairs(words))),
            "online" => bits(self.names().acquire(id_text(words[0]))),
            "known" => self.names().lookup(id_text(words[0])).map_or("nobody".into(), bits),
            "followers" => followers(self.graph(), words[0]),
            "all" => format!("{}", everything(self.graph()).len()),
            "slow" => self.slow(words[0]),
            "on" => self.on(),
            "work" => self.work(words[0].parse().unwrap(), words[1].parse().unwrap()),
            "watch" => self.watch(),
            other => panic!("what is {other}?"),
        }
    }

    fn graph(&self) -> &Graph {
        self.graph.as_ref().unwrap()
    }

    fn names(&self) -> &Names {
        match (&self.graph, &self.beside) {
            (Some(graph), _) => graph.names(),
            (None, Some(beside)) => beside.names(),
            (None, None) => panic!("it has no store"),
        }
    }

    /// Reads a list, and stops in the middle of a snapshot until it is told to go `on`, which is
    /// answered with all that it has found there.
    fn slow(&mut self, whom: &str) -> String {
        let (send, go_on) = mpsc::sync_channel(1);
        let (in_the_middle, wait) = mpsc::sync_channel(1);
        let (graph, id) = (self.graph().clone(), self.names().lookup(id_text(whom)).unwrap());
        let all = thread::spawn(move || {
            let mut ids = Vec::new();
            let mut visit = |id| {
                ids.push(id);
                if ids.len() == 10 {
                    in_the_middle.send(()).unwrap();
                    go_on.recv().unwrap();
                }
            };
            graph.slice(id, None, &mut visit).unwrap();
            texts(&graph, &ids)
        });
        self.slow = Some(Slow { go_on: send, all });
        said(wait.recv())
    }

    fn on(&mut self) -> String {
        let Slow { go_on, all } = self.slow.take().unwrap();
        go_on.send(()).unwrap();
        all.join().unwrap()
    }

    /// Makes one request after the other, until the store is another process's.
    fn work(&self, seed: u64, thread: u64) -> String {
        let graph = self.graph().clone();
        thread::spawn(move || {
            for operation in operations(seed, thread) {
                let pairs = operation.pairs.iter().map(pair).collect();
                let result = match operation.add {
                    true => graph.add_blocking(pairs),
                    false => graph.remove_blocking(pairs),
                };
                match result {
                    Ok(_) => tell("done\n"),
                    Err(WriteError::HandedOver) => return tell("stopped\n"),
                    Err(other) => return tell(&format!("broken: {other}\n")),
                }
            }
        });
        "works".into()
    }

    /// Reads one list after the other. Each block that it meets has a checksum.
    fn watch(&self) -> String {
        let graph = self.graph().clone();
        thread::spawn(move || {
            for n in (0..40).cycle() {
                let nth = graph.names().lookup(id_text(&format!("{n}th")));
                for id in nth.into_iter().chain([Id::from_bits(n)]) {
                    if let Err(error) = graph.page_followers(id, None, usize::MAX) {
                        return tell(&format!("broken: {error}\n"));
                    }
                }
            }
        });
        "watches".into()
    }
}

fn opened<T, E: std::fmt::Display>(result: Result<T, E>, place: &mut Option<T>) -> String {
    said(result.map(|opened| *place = Some(opened)))
}

trait Said {
    fn said(self) -> String;
}

impl Said for () {
    fn said(self) -> String {
        "ok".into()
    }
}

impl Said for u64 {
    fn said(self) -> String {
        self.to_string()
    }
}

impl Said for graph::HandedOver {
    fn said(self) -> String {
        format!("gone with {}", self.subscriptions)
    }
}

fn said<T: Said, E: std::fmt::Display>(result: Result<T, E>) -> String {
    result.map_or_else(|error| format!("error: {error}"), Said::said)
}

fn pairs(words: &[&str]) -> Vec<Pair> {
    words.chunks(2).map(|pair| Pair::parse(pair[0], pair[1]).unwrap()).collect()
}

fn id_text(text: &str) -> IdText<'_> {
    IdText::parse(text).unwrap()
}

fn bits(id: Id) -> String {
    format!("{:x}", id.to_bits())
}

fn followers(graph: &Graph, whom: &str) -> String {
    let Some(id) = graph.names().lookup(id_text(whom)) else { return String::new() };
    match graph.page_followers(id, None, usize::MAX) {
        Ok(page) => texts(graph, &page.ids),
        Err(error) => format!("error: {error}"),
    }
}

fn texts(graph: &Graph, ids: &[Id]) -> String {
    let text = |&id| graph.names().text(id).unwrap_or_else(|| format!("?{}", bits(id)));
    let mut texts: Vec<String> = ids.iter().map(text).collect();
    texts.sort_unstable();
    texts.join(" ")
}
