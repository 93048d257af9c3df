//! Whoever reads the log may stand still: that holds up neither clients nor the end.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::harness::{Api, Wire, encke, wait_for};

/// What a pipe holds (pipe(7)).
const PIPE_BYTES: usize = 65_536;

/// Whether a page of `origin` is let in at `listen`.
fn lets_in(listen: SocketAddr, origin: &str) -> bool {
    let mut wire = Wire::connect(listen);
    wire.send(format!("GET /stream/1 HTTP/1.1\r\nHost: localhost\r\nOrigin: {origin}\r\n\r\n"));
    wire.head().status == 200
}

#[test]
fn server_whose_log_nobody_reads_serves_ends_and_says_what_was_lost() {
    for is_read_again in [false, true] {
        let (mut reader, mut writer) = io::pipe().unwrap();
        writer.write_all(&vec![b'\n'; PIPE_BYTES]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("encke.toml");
        fs::write(&file, "").unwrap();
        let mut command = encke(["serve", "--json", "--listen=127.0.0.1:0", "--api=127.0.0.1:0"]);
        command.arg("--data").arg(dir.path().join("data")).arg("--config").arg(&file);
        let mut child = command.stdout(Stdio::piped()).stderr(writer).spawn().unwrap();
        // Ours is gone with the command.
        drop(command);
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap();
        let address = |name: &str| said[name].as_str().unwrap().parse().unwrap();
        let pid = child.id().to_string();
        let signal = |name: &str| {
            assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
        };
        // What is read again is logged before it counts.
        fs::write(&file, "[serve]\nallow-origin = ['https://a.test']\n").unwrap();
        signal("HUP");
        wait_for("the settings are read again", || lets_in(address("listen"), "https://a.test"));
        assert_eq!(Api::new(address("api")).send("bob", 1), 0);
        if is_read_again {
            reader.read_exact(&mut vec![0; PIPE_BYTES]).unwrap();
        }
        signal("TERM");
        wait_for("it ends", || child.try_wait().unwrap().is_some());
        assert_eq!(child.wait().unwrap().code(), Some(0));
        let mut log = String::new();
        reader.read_to_string(&mut log).unwrap();
        let tells = log.contains("lines of this log were lost") && log.contains("stopping");
        assert_eq!(tells, is_read_again, "{}", log.trim_start());
    }
}
