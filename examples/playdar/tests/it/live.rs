//! A daemon at work with the made files, and the requests of a client that can also misbehave.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use playdar::daemon::{Daemon, DaemonConfig};
use playdar::friends::FriendsConfig;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::one_song::DEADLINE;

/// A daemon, and its folder with `music` in it.
pub(crate) struct Live {
    pub(crate) daemon: Daemon,
    pub(crate) dir: TempDir,
}

/// What was answered.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Live {
    /// Starts one on free ports, and waits until its folder is read.
    pub(crate) async fn start() -> Live {
        Live::among(None).await
    }

    /// As [`Live::start`], with friends.
    pub(crate) async fn among(friends: Option<FriendsConfig>) -> Live {
        let dir = tempfile::tempdir().unwrap();
        let music = dir.path().join("music");
        std::fs::create_dir(&music).unwrap();
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
        for file in std::fs::read_dir(data).unwrap().map(Result::unwrap) {
            std::fs::copy(file.path(), music.join(file.file_name())).unwrap();
        }
        let any = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        let daemon = Daemon::start(DaemonConfig {
            listen: any,
            streams: any,
            data: dir.path().join("data"),
            music: vec![music],
            hosts: vec!["music.example".to_owned()],
            name: "here".to_owned(),
            scripts: Vec::new(),
            lan: None,
            friends,
            examples: Value::Null,
        });
        let daemon = daemon.await.unwrap();
        let mut scanned = daemon.scanned();
        timeout(DEADLINE, scanned.wait_for(Option::is_some)).await.unwrap().unwrap();
        Live { daemon, dir }
    }

    pub(crate) fn host(&self) -> String {
        self.daemon.listen().to_string()
    }

    /// Asks as a program of this machine does.
    pub(crate) async fn get(&self, target: &str) -> Reply {
        self.ask("GET", target, &[], "").await
    }

    /// Asks with further headers; `Host` among them takes the place of the right one.
    pub(crate) async fn ask(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        form: &str,
    ) -> Reply {
        let mut head = format!("{method} {target} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "Host") {
            head += &format!("Host: {}\r\n", self.host());
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        if !form.is_empty() {
            head += "Content-Type: application/x-www-form-urlencoded\r\n";
            head += &format!("Content-Length: {}\r\n", form.len());
        }
        self.send(format!("{head}\r\n{form}").as_bytes()).await
    }

    /// Sends bytes, and reads until the daemon ends the connection.
    pub(crate) async fn send(&self, bytes: &[u8]) -> Reply {
        let mut socket = TcpStream::connect(self.daemon.listen()).await.unwrap();
        socket.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        let read = timeout(DEADLINE, socket.read_to_end(&mut answer)).await;
        read.expect("the daemon answers in time").unwrap();
        Reply::of(&answer)
    }

    /// Opens an answer that does not end, and reads until it has said `words`.
    pub(crate) async fn open(address: SocketAddr, target: &str, words: &str) -> Open {
        let mut socket = TcpStream::connect(address).await.unwrap();
        let head = format!(
            "GET {target} HTTP/1.1\r\nHost: {address}\r\nAccept: text/event-stream\r\n\r\n"
        );
        socket.write_all(head.as_bytes()).await.unwrap();
        let mut open = Open { socket, heard: String::new() };
        open.until(words).await;
        open
    }

    /// Asks for a song, and answers the query's id.
    pub(crate) async fn resolve(&self, track: &str, more: &str) -> String {
        let track = track.replace(' ', "%20");
        let target = format!("/api/?method=resolve&artist=Test%20Tones&track={track}{more}");
        self.get(&target).await.json()["qid"].as_str().unwrap().to_owned()
    }

    /// The results of a query once it is solved.
    pub(crate) async fn solved(&self, qid: &str) -> Value {
        let target = format!("/api/?method=get_results_long&qid={qid}&timeout=20000");
        let solved = async {
            loop {
                let results = self.get(&target).await.json();
                if results["solved"] == true {
                    break results;
                }
            }
        };
        timeout(DEADLINE, solved).await.expect("it is solved in time")
    }

    /// The sid of a song that is there.
    pub(crate) async fn sid(&self, track: &str) -> String {
        let qid = self.resolve(track, "").await;
        let results = self.solved(&qid).await;
        results["results"][0]["sid"].as_str().unwrap().to_owned()
    }
}

impl Reply {
    fn of(answer: &[u8]) -> Reply {
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("there is a head");
        let head = String::from_utf8(answer[..end].to_vec()).unwrap().to_ascii_lowercase();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
        Reply { status, head, body: answer[end + 4..].to_vec() }
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    pub(crate) fn has(&self, line: &str) -> bool {
        self.head.lines().any(|one| one == line)
    }
}

/// An answer that does not end.
pub(crate) struct Open {
    socket: TcpStream,
    pub(crate) heard: String,
}

impl Open {
    /// Reads until it has said `words`.
    pub(crate) async fn until(&mut self, words: &str) {
        let reading = async {
            while !self.heard.contains(words) {
                let mut piece = [0; 4096];
                let count = self.socket.read(&mut piece).await.unwrap();
                assert!(count > 0, "it ended with {}", self.heard);
                self.heard.push_str(&String::from_utf8_lossy(&piece[..count]));
            }
        };
        let read = timeout(DEADLINE, reading).await;
        assert!(read.is_ok(), "never heard {words:?} in {}", self.heard);
    }
}
