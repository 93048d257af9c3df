//! Erlang nodes as child processes that evaluate what they are told, and their epmd.

use std::cell::RefCell;
use std::io::Write;
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::{ChildStdin, Command};

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{Program, Server, wait_for};

/// The cookie of all nodes that are to talk to each other.
pub(crate) const COOKIE: &str = "a-secret-of-the-tests";

/// What a node runs: it evaluates each line that it is told and prints the value behind `=> `. All
/// in one process, so that `self()` stays the same and names stay bound.
const LOOP: &str = "
    Loop = fun Loop(Bound) ->
        case io:get_line(\"\") of
            eof -> halt();
            Line ->
                {ok, Tokens, _} = erl_scan:string(Line),
                {ok, Parsed} = erl_parse:parse_exprs(Tokens),
                {Value, Next} = try erl_eval:exprs(Parsed, Bound) of
                    {value, V, B} -> {V, B}
                catch Class:Reason -> {{Class, Reason}, Bound} end,
                io:format(\"=> ~0tp~n\", [Value]),
                Loop(Next)
        end
    end,
    ok = io:setopts([{encoding, unicode}]),
    spawn(fun() -> Loop([]) end).";

/// An epmd on a port of its own, in the world of one test.
pub(crate) struct World {
    port: u16,
    home: TempDir,
    epmd: RefCell<Option<Program>>,
}

impl World {
    /// One without an epmd as yet.
    pub(crate) fn without_epmd() -> World {
        let port = testing::free_port();
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("cookie"), format!("{COOKIE}\n")).unwrap();
        World { port, home, epmd: RefCell::new(None) }
    }

    /// One whose epmd is the one at `port`.
    pub(crate) fn with_epmd_at(port: u16) -> World {
        World { port, ..World::without_epmd() }
    }

    /// Where its epmd listens, or will.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn new() -> World {
        let world = World::without_epmd();
        world.start_epmd();
        world
    }

    pub(crate) fn start_epmd(&self) {
        let mut command = installed("epmd");
        command.args(["-address", "127.0.0.1", "-port", &self.port.to_string()]);
        *self.epmd.borrow_mut() = Some(Program::spawn(&mut command));
        wait_for("epmd listens", || TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok());
    }

    /// A server that is the node `encke@127.0.0.1`, with further `options`.
    pub(crate) fn encke(&self, options: &[&str]) -> Server {
        self.encke_as("encke@127.0.0.1", options)
    }

    /// The same as the node `name`.
    pub(crate) fn encke_as(&self, node: &str, options: &[&str]) -> Server {
        let start = |variable: &str, port: &str, options: &[&str]| {
            Server::start_with_variable(variable, port, options)
        };
        self.start_encke(node, options, start)
    }

    /// The same as `encke@127.0.0.1` on a store that outlives it.
    pub(crate) fn encke_in(&self, data: &Path, options: &[&str]) -> Server {
        let start = |variable: &str, port: &str, options: &[&str]| {
            Server::start_in_with_variable(data, variable, port, options)
        };
        self.start_encke("encke@127.0.0.1", options, start)
    }

    fn start_encke(
        &self,
        node: &str,
        options: &[&str],
        start: impl FnOnce(&str, &str, &[&str]) -> Server,
    ) -> Server {
        let name = format!("--erlang-node={node}");
        let cookie = format!("--erlang-cookie-file={}", self.home.path().join("cookie").display());
        let mut all = vec![&*name, &cookie];
        all.extend(options);
        let server = start("ERL_EPMD_PORT", &self.port.to_string(), &all);
        // A server is up without its epmd, which may come late. The test's own nodes look there.
        if self.epmd.borrow().is_some() {
            let alive = node.split('@').next().unwrap();
            wait_for("epmd knows the server", || self.registered().contains(&format!(" {alive} ")));
        }
        server
    }

    /// What its epmd says of the nodes that it knows.
    fn registered(&self) -> String {
        let port = self.port.to_string();
        let said = installed("epmd").args(["-port", &port, "-names"]).output().unwrap();
        String::from_utf8(said.stdout).unwrap()
    }

    /// The environment of a program that is to be a node of this world.
    pub(super) fn join(&self, command: &mut Command) {
        command.env("ERL_EPMD_PORT", self.port.to_string()).env("HOME", self.home.path());
    }

    /// The node `name@127.0.0.1`, connected to nobody.
    pub(crate) fn erl(&self, name: &str) -> Erl {
        self.erl_with(name, COOKIE, &[])
    }

    /// The same with another cookie and further `options`.
    pub(crate) fn erl_with(&self, name: &str, cookie: &str, options: &[&str]) -> Erl {
        let mut command = erl_program();
        self.join(&mut command);
        command.args(["-setcookie", cookie, "-name", &format!("{name}@127.0.0.1")]);
        Erl::start(&mut command, options)
    }

    /// A node that asks the first one that it connects to for a name (`-sname undefined`).
    pub(crate) fn nameless(&self) -> Erl {
        let mut command = erl_program();
        self.join(&mut command);
        command.args(["-setcookie", COOKIE, "-sname", "undefined"]);
        Erl::start(&mut command, &[])
    }
}

impl Erl {
    fn start(command: &mut Command, options: &[&str]) -> Erl {
        command.args(["-noshell", "-start_epmd", "false", "-kernel", "logger_level", "none"]);
        command.args(options).args(["-eval", LOOP]);
        let (program, input) = Program::spawn_with_input(command);
        let erl = Erl { program, input: RefCell::new(input) };
        assert_eq!(erl.eval("E = 'encke@127.0.0.1', 1 + 1"), "2");
        erl
    }
}

/// Debian's, or the `erl` that the variable `ENCKE_ERL` names: another release of OTP.
fn erl_program() -> Command {
    std::env::var_os("ENCKE_ERL").map_or_else(|| installed("erl"), Command::new)
}

fn installed(program: &str) -> Command {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output().unwrap();
    assert!(
        found.status.success(),
        "{program} is missing, and these tests need the real one: apt-get install -y erlang-base"
    );
    Command::new(program)
}

/// An Erlang node. Dropping it kills it.
pub(crate) struct Erl {
    pub(crate) program: Program,
    input: RefCell<ChildStdin>,
}

impl Erl {
    /// The value of `expressions`, as Erlang writes it. `E` is bound to Encke's node.
    #[track_caller]
    pub(crate) fn eval(&self, expressions: &str) -> String {
        writeln!(self.input.borrow_mut(), "{}.", expressions.replace('\n', " ")).unwrap();
        loop {
            if let Some(value) = self.program.line().strip_prefix("=> ") {
                return value.to_owned();
            }
        }
    }

    /// Evaluates until the value is `expected`.
    #[track_caller]
    pub(crate) fn wait(&self, expressions: &str, expected: &str) {
        wait_for(&format!("{expressions} is {expected}"), || self.eval(expressions) == expected);
    }

    /// A call of the process `name` of Encke's.
    #[track_caller]
    pub(crate) fn call(&self, name: &str, request: &str) -> String {
        self.eval(&format!("gen_server:call({{{name}, E}}, {request})"))
    }

    /// The next message of the evaluating process.
    #[track_caller]
    pub(crate) fn message(&self) -> String {
        // A fun, so that the name is free again the next time.
        self.eval("(fun() -> receive Message -> Message after 60000 -> none end end)()")
    }
}

/// The figures of the Erlang side.
pub(crate) fn figures(server: &Server) -> Value {
    server.api.stats()["erlang"].take()
}

/// Waits until the figure `name` is `expected`.
#[track_caller]
pub(crate) fn wait_figure(server: &Server, name: &str, expected: u64) {
    wait_for(&format!("{name} is {expected}"), || figures(server)[name] == expected);
}
