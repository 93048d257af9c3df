//! Who is tried, and how its program below `target/tools/compat` is started.

use std::path::Path;
use std::process::Command;

use Beginning::{AsBrowser, ByHead, ByPing, IfAsked};
use Language::{Go, Java, JavaScript, Perl, Python, Rust};

/// A client of others.
pub(crate) struct Listed {
    pub(crate) name: &'static str,
    pub(crate) language: Language,
    /// What its program calls it.
    argument: &'static str,
    pub(crate) beginning: Beginning,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Language {
    JavaScript,
    Python,
    Go,
    Rust,
    Java,
    Perl,
}

/// How a client knows where its stream begins before it has heard an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Beginning {
    /// By the answer's head, which the program can read.
    ByHead,
    /// The program asks on its WebSocket, and tells the answer.
    ByPing,
    /// As browsers do, which it behaves as.
    AsBrowser,
    /// Only if the address asks for it with `?next=1`: the library shows the program no head.
    IfAsked,
}

const fn listed(
    name: &'static str,
    language: Language,
    argument: &'static str,
    beginning: Beginning,
) -> Listed {
    Listed { name, language, argument, beginning }
}

pub(crate) const CLIENTS: [Listed; 21] = [
    listed("eventsource", JavaScript, "eventsource.js", IfAsked),
    listed("fetch-event-source", JavaScript, "fetch-event-source.js", AsBrowser),
    listed("eventsource-client", JavaScript, "eventsource-client.js", IfAsked),
    listed("ws", JavaScript, "ws.js", ByPing),
    listed("undici-websocket", JavaScript, "undici-websocket.js", ByPing),
    listed("httpx-sse", Python, "httpx_sse", ByHead),
    listed("sseclient-py", Python, "sseclient_py", ByHead),
    listed("aiohttp-sse-client", Python, "aiohttp_sse_client", IfAsked),
    listed("websockets", Python, "websockets", ByPing),
    listed("websocket-client", Python, "websocket_client", ByPing),
    listed("r3labs-sse", Go, "r3labs", IfAsked),
    listed("tmaxmax-go-sse", Go, "tmaxmax", IfAsked),
    listed("gorilla-websocket", Go, "gorilla", ByPing),
    listed("coder-websocket", Go, "coder", ByPing),
    listed("reqwest-eventsource", Rust, "reqwest-eventsource", IfAsked),
    listed("rust-eventsource-client", Rust, "eventsource-client", IfAsked),
    listed("tokio-tungstenite", Rust, "tungstenite", ByPing),
    listed("okhttp-sse", Java, "okhttp-sse", ByHead),
    listed("okhttp-eventsource", Java, "okhttp-eventsource", IfAsked),
    listed("java-net-http", Java, "java-websocket", ByPing),
    listed("mojolicious", Perl, "mojolicious", ByPing),
];

impl Listed {
    /// What reads the stream at `url`, with programs in `folder`.
    pub(crate) fn command(&self, folder: &Path, url: &str) -> Command {
        let mut command = self.language.command(folder);
        match self.language {
            JavaScript => command.arg(folder.join("node").join(self.argument)),
            _ => command.arg(self.argument),
        };
        command.arg(url);
        command
    }
}

impl Language {
    fn command(self, folder: &Path) -> Command {
        let start = |program: &str, file: &str| {
            let mut command = Command::new(program);
            command.arg(folder.join(file));
            command
        };
        match self {
            JavaScript => Command::new(folder.join("node/node")),
            Go => Command::new(folder.join("go/clients")),
            Rust => Command::new(folder.join("rust/clients")),
            Perl => start("perl", "perl/main.pl"),
            Python => {
                let mut command = start("python3", "python/main.py");
                // Where pip has put the packages, and nothing of the user's.
                command.env("PYTHONPATH", folder.join("python/packages"));
                command.env("PYTHONDONTWRITEBYTECODE", "1");
                command
            }
            Java => {
                let mut command = Command::new("java");
                // Small, for many of them run side by side.
                command.args(["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"]);
                let java = folder.join("java").display().to_string();
                command.arg(format!("{java}/classes:{java}/jars/*")).arg("Main");
                command
            }
        }
    }
}
