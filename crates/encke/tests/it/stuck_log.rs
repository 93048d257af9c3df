//! Whoever reads the log may stand still: that holds up neither clients nor the end.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::harness::{Api, encke, wait_for};

/// What a pipe holds (pipe(7)).
const PIPE_BYTES: usize = 65_536;

#[test]
fn server_whose_log_nobody_reads_serves_ends_and_says_what_was_lost() {
    for is_read_again in [false, true] {
        let (mut reader, mut writer) = io::pipe().unwrap();
        writer.write_all(&vec![b'\n'; PIPE_BYTES]).unwrap();
        let data = tempfile::tempdir().unwrap();
        let mut command = encke(["serve", "--json", "--listen=127.0.0.1:0", "--api=127.0.0.1:0"]);
        command.arg("--data").arg(data.path());
        let mut child = command.stdout(Stdio::piped()).stderr(writer).spawn().unwrap();
        // Ours is gone with the command.
        drop(command);
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap();
        let api = Api::new(said["api"].as_str().unwrap().parse().unwrap());
        let pid = child.id().to_string();
        let signal = |name: &str| {
            assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
        };
        // Each of them is logged.
        for _ in 0..20 {
            signal("HUP");
            assert_eq!(api.send("bob", 1), 0);
        }
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
