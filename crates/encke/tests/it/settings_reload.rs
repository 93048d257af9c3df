//! SIGHUP and the file of settings: what counts at once, what counts later, and what is wrong.

use std::fs;
use std::path::Path;

use crate::harness::{Program, Server, Wire, encke, wait_for};

/// A server whose settings stand in `file`.
fn server(dir: &Path, file: &Path) -> Server {
    let mut command = encke(["serve", "--json", "--listen=127.0.0.1:0", "--api=127.0.0.1:0"]);
    command.arg("--config").arg(file).arg("--data").arg(dir.join("data"));
    Server::of(Program::spawn(&mut command))
}

/// Tells the server to read its file again, and waits until it has.
fn reload(server: &Server) {
    let done = |stderr: &str| stderr.matches("reloaded is in use").count();
    let before = done(&server.stderr());
    server.signal("HUP");
    wait_for("the settings are read again", || done(&server.stderr()) > before);
}

/// What a page of `origin` is answered that opens a stream.
fn status(server: &Server, origin: &str) -> u16 {
    let request =
        format!("GET /stream/bob HTTP/1.1\r\nHost: localhost\r\nOrigin: {origin}\r\n\r\n");
    server.ask(request).head().status
}

/// What the API answers who calls it `host`.
fn api_status(server: &Server, host: &str) -> u16 {
    let mut wire = Wire::connect(server.api.address());
    wire.send(format!("GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    wire.head().status
}

#[test]
fn settings_that_can_be_reloaded_are_and_the_others_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("encke.toml");
    fs::write(&file, "[serve]\nallow-origin = ['https://a.test']\nmax-backlog = '64KiB'\n")
        .unwrap();
    let server = server(dir.path(), &file);
    let (a, b) = ("https://a.test", "https://b.test");
    assert_eq!((status(&server, a), status(&server, b)), (200, 403));
    assert_eq!(api_status(&server, "api.test"), 421);
    let stays = server.listener("stays");

    let text = "[serve]\nallow-origin = ['https://b.test']\nmax-backlog = '128KiB'\n\
                keepalive = 0.1\nmax-connections-per-id = 1\napi-host = ['api.test']\n\
                token-audience = ['not-to-be-told']\n";
    fs::write(&file, text).unwrap();
    reload(&server);
    let told = server.stderr();
    for line in [
        "--allow-origin is https://b.test now, it was https://a.test",
        "--keepalive is 0.1 now, it was 30",
        "--api-host is api.test now, it was not given",
        "from the next start on: --max-backlog, --token-audience",
    ] {
        assert!(told.contains(line), "{line} in {told}");
    }
    assert!(!told.contains("not-to-be-told"), "{told}");
    wait_for("b is let in, and a no more", || {
        status(&server, b) == 200 && status(&server, a) == 403
    });
    assert_eq!(api_status(&server, "api.test"), 200);
    let mut stream = server.ask("GET /stream/x HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(stream.head().status, 200);
    assert_eq!(stream.chunk().unwrap(), b"\n", "a keep-alive, long before 30 s");
    let mut second = server.ask("GET /stream/x HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(second.head().status, 429, "an id has one connection now");
    assert_eq!(server.api.connections("stays"), 1);
    drop(stays);

    // A file that says something wrong changes nothing, and neither does one that says the same.
    for (text, line) in [
        ("[serve]\nallow-origin = ['no origin']\n", "all settings stay as they are: "),
        ("[serve\n", "all settings stay as they are: "),
        (text, "no option has changed that counts at once"),
    ] {
        fs::write(&file, text).unwrap();
        reload(&server);
        assert!(server.stderr().contains(line), "{line} in {}", server.stderr());
        // The one that was let in before may not have gone yet, and an id has one connection.
        server.wait_online("bob", 0);
        assert_eq!((status(&server, b), status(&server, a)), (200, 403));
    }
    assert_eq!(server.stop("TERM").code(), Some(0));
}

/// The level is an option of all commands, and stands at the top of the file.
#[test]
fn log_level_of_the_file_counts_at_the_start_and_is_reloaded() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("encke.toml");
    fs::write(&file, "log-level = 'warn'\n").unwrap();
    let server = server(dir.path(), &file);
    fs::write(&file, "log-level = 'info'\n").unwrap();
    server.signal("HUP");
    let line = "--log-level is info now, it was warn";
    wait_for("the new level is told", || server.stderr().contains(line));
    let told = server.stderr();
    assert!(!told.contains("SIGHUP: certificates"), "the level was warn then: {told}");
    server.signal("HUP");
    wait_for("it is logged from now on", || server.stderr().contains("SIGHUP: certificates"));
    assert_eq!(server.stop("TERM").code(), Some(0));
}
