//! Two hosts on one machine, each a network namespace of the kernel (ip-netns(8)) with a daemon in
//! it, are tied by a pair of veth. They find and play each other's songs as on any LAN.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// One namespace, which lasts as long as a process in it.
struct Host {
    holder: Child,
}

impl Host {
    /// `None` where this user or this machine may not.
    fn new() -> Option<Host> {
        let say = "ip link set lo up && echo up && exec cat";
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", say]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = command.stderr(Stdio::null()).spawn().ok()?;
        let mut line = String::new();
        let output = holder.stdout.take().expect("it is piped");
        BufReader::new(output).read_line(&mut line).ok()?;
        let host = Host { holder };
        (line == "up\n").then_some(host)
    }

    /// The beginning of a command there.
    fn inside(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.holder.id())).arg(program);
        command
    }

    fn run(&self, line: &str) -> bool {
        let mut words = line.split(' ');
        let mut command = self.inside(words.next().expect("a line has a word"));
        command.args(words).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        end(&mut self.holder);
    }
}

fn end(child: &mut Child) {
    // It may have ended by itself.
    let _ = child.kill();
    let _ = child.wait();
}

/// Two hosts with a wire between them: 198.18.0.0/15 leads nowhere (RFC 2544).
fn two_hosts() -> Option<[Host; 2]> {
    let hosts = [Host::new()?, Host::new()?];
    let other = hosts[1].holder.id();
    let made = hosts[0].run(&format!("ip link add eth0 type veth peer name eth0 netns {other}"))
        && hosts.iter().zip(1..).all(|(host, n)| {
            host.run(&format!("ip address add 198.18.0.{n}/24 dev eth0"))
                && host.run("ip link set eth0 up")
                && host.run("ip route add default dev eth0")
        });
    made.then_some(hosts)
}

/// A daemon on a host, with one song.
struct Daemon<'a> {
    host: &'a Host,
    child: Child,
    port: String,
    /// Kept open, so that it may write on.
    _output: BufReader<ChildStdout>,
    _dir: TempDir,
}

impl<'a> Daemon<'a> {
    fn start(host: &'a Host, name: &str, song: &Path) -> Daemon<'a> {
        let dir = tempfile::tempdir().unwrap();
        let music = dir.path().join("music");
        fs::create_dir(&music).unwrap();
        fs::copy(song, music.join(song.file_name().unwrap())).unwrap();
        let mut command = host.inside(env!("CARGO_BIN_EXE_playdar"));
        command.args(["--lan", "--listen", "0.0.0.0:0", "--name", name]);
        command.arg("--music").arg(&music).arg("--data").arg(dir.path().join("data"));
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut page = String::new();
        while !page.starts_with("page ") {
            page.clear();
            assert_ne!(output.read_line(&mut page).unwrap(), 0, "it does not start");
        }
        let page = page.trim_end();
        let port = page.trim_end_matches('/').rsplit(':').next().unwrap().to_owned();
        Daemon { host, child, port, _output: output, _dir: dir }
    }

    /// What it answers to a program of its own host.
    fn call(&self, path: &str) -> Output {
        let url = format!("http://127.0.0.1:{}{path}", self.port);
        self.host.inside("curl").args(["-sf", "--max-time", "60", &url]).output().unwrap()
    }

    fn api(&self, query: &str) -> Value {
        let answer = self.call(&format!("/api/?method={query}"));
        serde_json::from_slice(&answer.stdout).unwrap_or_else(|_| panic!("{query}: {answer:?}"))
    }

    /// The `sid` of the song of this title that `source` has. It is asked for anew until both
    /// daemons have read their folders.
    fn find(&self, title: &str, source: &str) -> String {
        let title = title.replace(' ', "%20");
        let mut sid = None;
        testing::wait_for(&format!("{source} answers"), || {
            let asked = self.api(&format!("resolve&artist=Test%20Tones&track={title}"));
            let qid = asked["qid"].as_str().unwrap();
            let answer = self.api(&format!("get_results_long&timeout=1000&qid={qid}"));
            let is_it = |it: &&Value| it["source"] == source && it["score"] == 1.0;
            if let Some(found) = answer["results"].as_array().unwrap().iter().find(is_it) {
                assert!(found.get("url").is_none(), "{found}");
                sid = found["sid"].as_str().map(str::to_owned);
            }
            sid.is_some()
        });
        sid.unwrap()
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

#[test]
fn daemons_of_two_hosts_find_and_play_each_others_songs() {
    let Some(hosts) = two_hosts() else {
        return testing::skip("this user may make no network namespaces, or has no ip or unshare");
    };
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let songs = [data.join("tone.mp3"), data.join("tone.flac")];
    let one = Daemon::start(&hosts[0], "one", &songs[0]);
    let two = Daemon::start(&hosts[1], "two", &songs[1]);
    for (from, to, title, song) in
        [(&one, "two", "Tone in FLAC", &songs[1]), (&two, "one", "Tone in MP3", &songs[0])]
    {
        let sid = from.find(title, to);
        let played = from.call(&format!("/sid/{sid}"));
        assert!(played.status.success(), "{played:?}");
        assert_eq!(played.stdout, fs::read(song).unwrap(), "{title}");
        let roster: Value = serde_json::from_slice(&from.call("/lan/roster").stdout).unwrap();
        assert_eq!(roster[0]["name"], to, "{roster}");
    }
    // Another host plays songs, and may do nothing else.
    let of_one = format!("http://198.18.0.1:{}/api/?method=stat", one.port);
    let refused = hosts[1].inside("curl").args(["-s", "--max-time", "60", "-i", &of_one]).output();
    let refused = String::from_utf8(refused.unwrap().stdout).unwrap();
    assert!(refused.starts_with("HTTP/1.1 403"), "{refused}");
}
