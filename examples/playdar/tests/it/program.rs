//! The command itself.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use testing::signal;

fn playdar() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_playdar"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PLAYDAR_") {
            command.env_remove(name);
        }
    }
    command
}

#[test]
fn help_is_told_and_wrong_arguments_exit_2() {
    let help = playdar().arg("--help").output().unwrap();
    let text = String::from_utf8(help.stdout).unwrap();
    assert!(help.status.success() && text.contains("--demo") && text.contains("Exit codes"));
    for wrong in [&["--nothing"][..], &["--listen", "here"], &["--host", "a/b"], &["x"]] {
        assert_eq!(playdar().args(wrong).output().unwrap().status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn failure_is_told_and_exits_1() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut command = playdar();
    command.arg(format!("--listen={}", taken.local_addr().unwrap()));
    let output = command.arg("--data").arg(dir.path()).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(told.contains("another Playdar may run"), "{told}");
}

#[test]
fn friends_without_tls_need_no_certificates() {
    let (dir, none) = (tempfile::tempdir().unwrap(), tempfile::NamedTempFile::new().unwrap());
    let start = |friends: &str| {
        let mut command = playdar();
        command.args(["--listen=127.0.0.1:0", "--name=alice", "--friends", friends]);
        command.arg("--data").arg(dir.path().join("data"));
        command.env("SSL_CERT_FILE", none.path()).env("SSL_CERT_DIR", dir.path());
        command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
    };
    let mut with_tls = start("https://127.0.0.1:1,http://127.0.0.1:1");
    assert_eq!(with_tls.wait().unwrap().code(), Some(1));
    let mut without = start("http://127.0.0.1:1,http://127.0.0.1:1");
    let lines = BufReader::new(without.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.into_iter().any(|line| line.starts_with("ready")), "it does not start");
    signal(without.id(), "INT");
    assert!(without.wait().unwrap().success());
}

#[test]
fn demo_finds_its_own_song_and_ends_with_ctrl_c() {
    let mut command = playdar();
    command.args(["--demo", "--listen=127.0.0.1:0"]).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let lines: Vec<String> = lines
        .scan(false, |is_over, line| {
            let was_over = std::mem::replace(is_over, line.starts_with("ready"));
            (!was_over).then_some(line)
        })
        .take(5)
        .collect();
    let try_it = lines.iter().find_map(|line| line.strip_prefix("try      curl '")).unwrap();
    let url = format!("http://{}", try_it.trim_end_matches('\''));
    let asked = ask(&url);
    let qid = asked.split('"').nth(3).unwrap();
    let base = url.split("/api").next().unwrap();
    let results = ask(&format!("{base}/api/?method=get_results_long&qid={qid}&timeout=20000"));
    assert!(results.contains("\"score\":1.0"), "{results}");
    signal(child.id(), "INT");
    assert!(child.wait().unwrap().success());
}

/// A plain request, without a client's library.
fn ask(url: &str) -> String {
    use std::io::{Read as _, Write as _};
    let rest = url.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_at(rest.find('/').unwrap());
    let mut socket = std::net::TcpStream::connect(host).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    socket.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}
