//! Clients of others, as their packages are: each hears everything, in order and once, through
//! resets, a server that is killed, gaps and keep-alives, and nothing that nobody sent.
//!
//! The programs around them stand in `compat/`, with files that lock what they take;
//! `cargo xtask programs` installs them. All of them follow one subject and are tried together.

pub(crate) mod clients;
pub(crate) mod switch;
mod upgrade;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Value, json};
use testing::wait_within;

use self::clients::{Beginning, CLIENTS, Listed};
use self::switch::Switch;
use crate::harness::{Api, DEADLINE, Program, Server};

/// What all of them follow.
const SUBJECT: &str = "news";

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../compat");

/// How many events of it the server remembers.
const HISTORY_EVENTS: u64 = 100;

/// What hurts readers: line ends of Unicode that are none of SSE's or JSON's, characters beyond the
/// first 65,536, those that JSON writes with a backslash, a sign of byte order, and combined ones.
const UNICODE: &str = "\u{2028}\u{2029}\u{85}\u{b}\u{c} 😀𝔸 \r\n\r\t\0 \
                       \u{feff}e\u{301} \"\\/ 日本";

/// Something that a client is to hear next.
#[derive(Clone, Debug, PartialEq)]
enum Heard {
    Event(Value),
    Gap,
    /// Where its stream begins, which may also come between others.
    Beginning,
}

/// A client at work.
struct Client {
    listed: &'static Listed,
    switch: Switch,
    program: Program,
    /// Events that nobody sent.
    phantoms: Vec<String>,
    /// How often it was told where its stream begins, if it asks.
    beginnings: Option<u64>,
    /// How much is to pass to it.
    pieces: u64,
    /// Until when it may be waited for.
    until: Instant,
    /// Why it is tried no more.
    fault: Option<String>,
}

impl Client {
    fn start(listed: &'static Listed, folder: &Path, server: &Server, asks: bool) -> Client {
        let switch = Switch::new();
        switch.open(server.listen());
        server.api.subscribe(listed.name, SUBJECT);
        let ask = if asks { "?next=1" } else { "" };
        let url = format!("http://{}/stream/{}{ask}", switch.address(), listed.name);
        let program = Program::spawn(&mut listed.command(folder, &url));
        let beginnings = (asks || listed.beginning == Beginning::ByPing).then_some(0);
        let until = Instant::now();
        Client {
            listed,
            switch,
            program,
            phantoms: Vec::new(),
            beginnings,
            pieces: 0,
            until,
            fault: None,
        }
    }

    /// It hears `all`, one after the other, and nothing in between.
    fn hear(&mut self, all: &[Heard]) {
        for (n, wanted) in all.iter().enumerate() {
            if let Err(fault) = self.hear_one(wanted) {
                self.fail(&format!("{n} of {} heard, then {fault}", all.len()));
                return;
            }
        }
    }

    fn hear_one(&mut self, wanted: &Heard) -> Result<(), String> {
        loop {
            let line =
                self.program.line_within(self.until.saturating_duration_since(Instant::now()))?;
            let event: Value = serde_json::from_str(&line).unwrap();
            let text = |name: &str| event[name].as_str().unwrap_or_default();
            let (id, data) = (text("id"), text("data"));
            let kind = Some(text("type")).filter(|kind| *kind != "message").unwrap_or_default();
            if data.is_empty() && kind.is_empty() {
                self.phantoms.push(line);
                continue;
            }
            let body: Value = serde_json::from_str(data).unwrap_or_default();
            if let (Some(beginnings), "next") = (&mut self.beginnings, kind) {
                // A ping that comes before it is known what was missed.
                if body["ok"] == json!({ "ping": 1 }) {
                    continue;
                }
                if id.is_empty() || body["next"] != id && body["ok"]["next"] != id {
                    return Err(line);
                }
                *beginnings += 1;
                if wanted == &Heard::Beginning {
                    return Ok(());
                }
                continue;
            }
            let is_whole = body["about"] == SUBJECT && body["id"] == id && kind.is_empty();
            let heard = match kind {
                "gap" if body == json!({}) || body == json!({ "gap": true }) => Some(Heard::Gap),
                _ => is_whole.then(|| Heard::Event(body["data"].clone())),
            };
            let short: String = line.chars().take(200).collect();
            return if heard.as_ref() == Some(wanted) { Ok(()) } else { Err(short) };
        }
    }

    /// Waits for `ready`; it is a fault if that does not come.
    fn wait(&mut self, what: &str, mut ready: impl FnMut(&Client) -> bool) {
        let left = self.until.saturating_duration_since(Instant::now());
        if !wait_within(left, || ready(self)) {
            self.fail(&format!("not within {DEADLINE:?}: {what}"));
        }
    }

    fn fail(&mut self, fault: &str) {
        self.fault = Some(format!("{fault}\n{}", self.program.stderr()));
        self.switch.shut();
        self.program.signal("KILL");
    }
}

/// All of them.
struct Crowd {
    clients: Vec<Client>,
    phase: &'static str,
}

impl Crowd {
    /// They do it side by side, so one deadline is for all: what is silent costs its time once.
    fn each(&mut self, mut act: impl FnMut(&mut Client)) {
        let until = Instant::now() + DEADLINE;
        for client in self.clients.iter_mut().filter(|client| client.fault.is_none()) {
            client.until = until;
            act(client);
            if let Some(fault) = &mut client.fault {
                *fault = format!("{}: {fault}", self.phase);
            }
        }
    }

    /// So many connections each.
    fn wait_online(&mut self, api: &Api, connections: u64) {
        self.each(|client| {
            let name = client.listed.name;
            let what = format!("{connections} connections");
            client.wait(&what, |_| api.connections(name) == connections);
        });
    }

    /// Sends each of `data`, heard by all who are there or by nobody.
    fn send(&self, api: &Api, data: &[Value], is_heard: bool) {
        let there = self.clients.iter().filter(|client| client.fault.is_none()).count();
        let wanted = if is_heard { there } else { 0 };
        for part in data.chunks(100) {
            let lines = part.iter().map(|data| json!({ "about": SUBJECT, "data": data }));
            let body: String = lines.map(|line| line.to_string() + "\n").collect();
            let answer = api.post_lines("/send", &body);
            assert_eq!(answer.head.status, 200, "{}", answer.body);
            for line in answer.body.lines() {
                let line: Value = serde_json::from_str(line).unwrap();
                // Who failed may be still about to leave, and the test fails by that.
                let exactly = there == self.clients.len();
                assert!(!exactly || line["delivered"] == wanted, "{}: {line}", self.phase);
            }
        }
    }

    fn hear(&mut self, data: &[Value]) {
        let all: Vec<Heard> = data.iter().cloned().map(Heard::Event).collect();
        self.each(|client| client.hear(&all));
    }

    fn shut(&mut self, api: &Api) {
        self.each(|client| client.switch.shut());
        self.wait_online(api, 0);
    }

    fn open(&mut self, server: &Server) {
        self.each(|client| client.switch.open(server.listen()));
        self.wait_online(&server.api, 1);
    }

    /// As many more keep-alives as `pieces` have passed to each, and been read.
    fn keep_alive(&mut self, pieces: u64) {
        // First all are asked, for they come to all at once.
        self.each(|client| client.pieces = client.switch.pieces() + pieces);
        self.each(|client| {
            client.wait("keep-alives", |client| {
                client.switch.pieces() >= client.pieces && client.switch.is_read()
            });
        });
    }
}

fn numbers(name: &str, count: u64) -> Vec<Value> {
    (0..count).map(|n| json!({ name: n })).collect()
}

fn start_server(data: &Path) -> Server {
    let history = format!("--history-events={HISTORY_EVENTS}");
    // How fast they read, and how long they take to come back, is the machine's affair.
    let options = ["--keepalive=1", "--max-backlog=4MiB", "--history-seconds=600", &history];
    Server::start_in(data, &options)
}

/// Where the programs are, as `compat/` has them now; `None`, and the test is skipped, where one
/// language is missing.
fn programs() -> Option<PathBuf> {
    let parts = fs::read_dir(SOURCES).unwrap().map(Result::unwrap);
    let parts = parts.filter(|part| part.file_type().unwrap().is_dir());
    let names: Vec<_> = parts.map(|part| part.file_name().into_string().unwrap()).collect();
    programs_of(names.iter().map(String::as_str))
}

/// Where the programs are, if these parts of them are there.
pub(crate) fn programs_of<'n>(names: impl IntoIterator<Item = &'n str>) -> Option<PathBuf> {
    let folder = testing::tool("compat")?;
    for name in names {
        testing::tool(Path::new("compat").join(name).join("complete"))?;
        check_copies(&Path::new(SOURCES).join(name), &folder.join(name));
    }
    Some(folder)
}

/// What is run is what stands in the sources.
fn check_copies(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_file() {
            let (source, copy) = (entry.path(), to.join(entry.file_name()));
            let same = fs::read(&source).unwrap() == fs::read(&copy).unwrap_or_default();
            assert!(same, "{} is another one: cargo xtask programs", copy.display());
        }
    }
}

fn start_all(folder: &Path, server: &Server, asks: bool) -> Crowd {
    let listed = CLIENTS.iter().filter(|listed| !asks || listed.beginning == Beginning::IfAsked);
    let clients = listed.map(|listed| Client::start(listed, folder, server, asks)).collect();
    let mut listeners = Crowd { clients, phase: "to connect" };
    listeners.wait_online(&server.api, 1);
    listeners
}

#[test]
fn clients_of_others_hear_everything_once_and_nothing_else() {
    let Some(folder) = programs() else { return };
    let data = tempfile::tempdir().unwrap();
    let server = start_server(data.path());
    let mut listeners = start_all(&folder, &server, false);
    reset_before_the_first_event(&mut listeners, &server, |client| {
        client.listed.beginning != Beginning::IfAsked
    });

    listeners.phase = "1,000 events";
    let many = numbers("many", 1_000);
    listeners.send(&server.api, &many, true);
    listeners.hear(&many);

    listeners.phase = "Unicode and 60 KB";
    let odd = [json!(UNICODE), json!({ UNICODE: "key" }), json!("x".repeat(60_000)), json!("")];
    listeners.send(&server.api, &odd, true);
    listeners.hear(&odd);

    listeners.phase = "keep-alives";
    listeners.keep_alive(3);
    let after = numbers("after keep-alives", 3);
    listeners.send(&server.api, &after, true);
    listeners.hear(&after);

    listeners.phase = "reset among events";
    let (before, away) = (numbers("before", HISTORY_EVENTS / 2), numbers("away", 10));
    listeners.send(&server.api, &before, true);
    listeners.shut(&server.api);
    listeners.send(&server.api, &away, false);
    listeners.open(&server);
    listeners.hear(&[before, away].concat());

    listeners.phase = "gap";
    listeners.shut(&server.api);
    let forgotten = numbers("forgotten", HISTORY_EVENTS * 2);
    listeners.send(&server.api, &forgotten, false);
    listeners.open(&server);
    listeners.each(|client| client.hear(&[Heard::Gap]));
    listeners.hear(&forgotten[HISTORY_EVENTS as usize..]);

    let server = start_anew(&mut listeners, server, data.path(), "kill -9");
    let _server = start_anew(&mut listeners, server, data.path(), "SIGTERM");
    report(&listeners);
}

/// Those that know the beginning of their streams only if they ask for it.
#[test]
fn clients_of_others_that_ask_where_they_begin_lose_nothing_before_the_first_event() {
    let Some(folder) = programs() else { return };
    let data = tempfile::tempdir().unwrap();
    let server = start_server(data.path());
    let mut listeners = start_all(&folder, &server, true);
    reset_before_the_first_event(&mut listeners, &server, |_| true);
    let _server = start_anew(&mut listeners, server, data.path(), "kill -9");
    // At first, after the reset, after the kill.
    listeners.each(|client| match client.beginnings {
        Some(3..) => {}
        told => client.fail(&format!("told its beginning {told:?} times")),
    });
    report(&listeners);
}

/// What was sent meanwhile is heard by those who know where they were.
fn reset_before_the_first_event(
    listeners: &mut Crowd,
    server: &Server,
    knows: impl Fn(&Client) -> bool,
) {
    listeners.phase = "reset before the first event";
    listeners.each(|client| {
        if client.beginnings.is_some() {
            client.hear(&[Heard::Beginning]);
        }
    });
    // A head, perhaps a block with the beginning in it, a keep-alive behind them.
    listeners.keep_alive(2);
    listeners.shut(&server.api);
    let early = numbers("early", 3);
    listeners.send(&server.api, &early, false);
    listeners.open(server);
    let early: Vec<Heard> = early.into_iter().map(Heard::Event).collect();
    listeners.each(|client| {
        if knows(client) {
            client.hear(&early);
        }
    });
}

/// A server that starts anew knows nothing of what was before: that is told as a gap. It is killed
/// or it stops by itself, which ends each stream as HTTP and WebSocket want it.
fn start_anew(listeners: &mut Crowd, server: Server, data: &Path, signal: &'static str) -> Server {
    listeners.phase = signal;
    match signal {
        "kill -9" => server.into_program().kill(),
        _ => assert_eq!(server.stop("TERM").code(), Some(0)),
    }
    listeners.each(|client| client.switch.shut());
    let server = start_server(data);
    listeners.send(&server.api, &numbers("while nobody is there", 1), false);
    listeners.open(&server);
    listeners.each(|client| client.hear(&[Heard::Gap]));
    let last = numbers("last", 3);
    listeners.send(&server.api, &last, true);
    listeners.hear(&last);
    server
}

/// Everything that anybody heard otherwise.
fn report(listeners: &Crowd) {
    let mut faults = 0;
    for Client { listed, phantoms, fault, .. } in &listeners.clients {
        let fault = fault.as_deref().unwrap_or("none");
        faults += u64::from(fault != "none" || !phantoms.is_empty());
        println!("{} ({:?}): phantoms {phantoms:?}, fault: {fault}", listed.name, listed.language);
    }
    assert_eq!(faults, 0, "clients that hear otherwise");
}
