//! A directory of automatic certificates (Pebble), with a name server for which all names lead to
//! this machine.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;

use serde_json::json;

use super::{Authority, Program, tls_client, wait_for};

/// A directory at work.
pub(crate) struct Directory {
    authority: Authority,
    port: u16,
    management: u16,
    /// Where it looks for proofs.
    pub(crate) tls_port: u16,
    pub(crate) http_port: u16,
    _program: Program,
}

impl Directory {
    /// Starts one whose certificates are good for so many seconds; `None`, and the test is skipped,
    /// where there is no Pebble.
    pub(crate) fn start(validity_seconds: u64) -> Option<Directory> {
        let there = Command::new("pebble")
            .arg("-help")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if there.is_err() {
            testing::skip("this machine has no pebble, the directory of Let's Encrypt for tests");
            return None;
        }
        let authority = Authority::new();
        let own = authority.issue("pebble", &["localhost"]);
        let [port, management, tls_port, http_port] = [(); 4].map(|()| testing::free_port());
        let config = json!({ "pebble": {
            "listenAddress": format!("127.0.0.1:{port}"),
            "managementListenAddress": format!("127.0.0.1:{management}"),
            "certificate": own.certificate,
            "privateKey": own.key,
            "httpPort": http_port,
            "tlsPort": tls_port,
            "retryAfter": { "authz": 1, "order": 1 },
            // The same for versions before and after profiles.
            "certificateValidityPeriod": validity_seconds,
            "profiles": { "default": { "validityPeriod": validity_seconds } },
        }});
        let file = authority.dir().join("pebble.json");
        std::fs::write(&file, config.to_string()).unwrap();
        let mut command = Command::new("pebble");
        command.arg("-config").arg(&file).arg("-dnsserver").arg(name_server());
        let program = Program::spawn(command.env("PEBBLE_VA_NOSLEEP", "1"));
        for port in [port, management] {
            wait_for("the directory is there", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        }
        let _program = program;
        Some(Directory { authority, port, management, tls_port, http_port, _program })
    }

    /// The options of `encke serve` that name it.
    pub(crate) fn options(&self) -> [String; 2] {
        [
            format!("--acme-directory=https://localhost:{}/dir", self.port),
            format!("--acme-ca={}", self.authority.ca().display()),
        ]
    }

    /// The authority that signs its certificates.
    pub(crate) fn root(&self) -> PathBuf {
        let address = (Ipv4Addr::LOCALHOST, self.management).into();
        let mut client = tls_client(address, "localhost", &self.authority.ca());
        client.write_all(b"GET /roots/0 HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        // It closes without a word.
        let _ = client.read_to_string(&mut answer);
        let start = answer.find("-----BEGIN").unwrap_or_else(|| panic!("{answer}"));
        let path = self.authority.dir().join("root.pem");
        std::fs::write(&path, &answer[start..]).unwrap();
        path
    }
}

/// Answers every question for an IPv4 address with this machine's, and all others with nothing
/// (RFC 1035, section 4.1), until the tests end. Returns its address.
fn name_server() -> String {
    // Pebble asks by TCP, and one of years ago by UDP.
    let both = || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = UdpSocket::bind(listener.local_addr().unwrap()).ok()?;
        Some((listener, socket))
    };
    let (listener, socket) = (0..100).find_map(|_| both()).unwrap();
    let address = socket.local_addr().unwrap().to_string();
    thread::spawn(move || {
        let mut question = [0; 512];
        while let Ok((len, from)) = socket.recv_from(&mut question) {
            // Who goes away without its answer needs none.
            let _ = socket.send_to(&answer(&question[..len]), from);
        }
    });
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(|| serve(stream.unwrap()));
        }
    });
    address
}

/// Questions and answers with their lengths (section 4.2.2).
fn serve(mut stream: TcpStream) {
    let (mut len, mut question) = ([0; 2], [0; 512]);
    while stream.read_exact(&mut len).is_ok() {
        let question = &mut question[..usize::from(u16::from_be_bytes(len))];
        stream.read_exact(question).unwrap();
        let answer = answer(question);
        // Who goes away without its answer needs none.
        let _ = stream.write_all(&[&(answer.len() as u16).to_be_bytes()[..], &answer].concat());
    }
}

fn answer(question: &[u8]) -> Vec<u8> {
    let name_len = question[12..].iter().position(|&byte| byte == 0).unwrap() + 1;
    let asked = &question[12..12 + name_len + 4];
    let is_a = asked[name_len..name_len + 2] == [0, 1];
    // Identifier; an answer, with recursion; one question and perhaps one answer.
    let mut answer = question[..2].to_vec();
    answer.extend([0x81, 0x80, 0, 1, 0, u8::from(is_a), 0, 0, 0, 0]);
    answer.extend(asked);
    if is_a {
        // The name of the question, type A, class IN, no time to live, four bytes.
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 127, 0, 0, 1]);
    }
    answer
}
