//! Automatic certificates from a real directory, Pebble.

use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::tls_api::metric;
use crate::harness::{
    Directory, Server, Wire, check_problem, get, make_pipe, pipe_writer, read_answer, tls_client,
    wait_for,
};

const MADE: &str = "encke_tls_acme_tries_total{outcome=\"ok\"} ";
const FAILED: &str = "encke_tls_acme_tries_total{outcome=\"failed\"} ";
const DAY: u64 = 86_400;

/// The certificate that a client is shown who calls `name` and trusts `root`, if that is good.
fn shown(address: SocketAddr, name: &'static str, root: &Path) -> Option<Vec<u8>> {
    let mut client = tls_client(address, name, root);
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n");
    client.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    client.read_to_string(&mut answer).ok()?;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    Some(client.conn.peer_certificates().unwrap()[0].to_vec())
}

fn start(data: &Path, directory: &Directory, tls_port: u16, api_port: u16) -> Server {
    let ports = [format!("--tls-api=127.0.0.1:{tls_port}"), format!("--api=127.0.0.1:{api_port}")];
    let options = directory.options();
    let names = "--acme-domain=a.test,B.test";
    let options = [&ports[0], &ports[1], &options[0], &options[1], names];
    Server::start_in(data, &[&options[..], &["--acme-contact=ops@a.test"]].concat())
}

#[test]
fn certificate_comes_by_a_handshake_and_is_kept() {
    let Some(directory) = Directory::start(90 * DAY) else { return };
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &directory, directory.tls_port, 0);
    wait_for("a certificate comes", || metric(&server, MADE) == 1);
    let root = directory.root();
    let address = server.tls_api();
    let first = shown(address, "a.test", &root).unwrap();
    assert_eq!(shown(address, "b.test", &root).unwrap(), first, "it has both names");
    assert_eq!(metric(&server, FAILED), 0);
    assert_eq!(metric(&server, "encke_api_tls_handshakes_total{outcome=\"challenge\"} ") % 2, 0);
    let kept = data.path().join("acme");
    assert_eq!(fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o700);
    let files: Vec<_> = fs::read_dir(&kept).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 2, "{files:?}");
    for file in files {
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600, "{file:?}");
    }
    assert!(!server.stderr().contains("PRIVATE"));
    assert_eq!(server.stop("TERM").code(), Some(0));
    // What is kept is good: nobody is asked.
    let server = start(data.path(), &directory, 0, 0);
    assert_eq!(shown(server.tls_api(), "a.test", &root).unwrap(), first);
    assert_eq!((metric(&server, MADE), metric(&server, FAILED)), (0, 0));
}

#[test]
fn what_fails_by_a_handshake_is_tried_by_a_request() {
    let Some(directory) = Directory::start(90 * DAY) else { return };
    let data = tempfile::tempdir().unwrap();
    // The directory looks for handshakes where nobody is.
    let server = start(data.path(), &directory, 0, directory.http_port);
    wait_for("the first try fails", || metric(&server, FAILED) == 1);
    // The figure is there before the line is.
    wait_for("it is told", || server.stderr().contains("is not proven by TlsAlpn01"));
    server.signal("HUP");
    wait_for("a certificate comes", || metric(&server, MADE) == 1);
    assert!(shown(server.tls_api(), "a.test", &directory.root()).is_some());
    let answer = server.api.get("/.well-known/acme-challenge/none");
    answer.problem(404);
}

/// The port that is 80 for everybody may be that of the streams.
#[test]
fn streams_port_answers_a_request_of_the_directory() {
    let Some(directory) = Directory::start(90 * DAY) else { return };
    let listen = format!("--listen=127.0.0.1:{}", directory.http_port);
    let options = directory.options();
    let names = "--acme-domain=a.test,b.test";
    let own = ["--tls-listen=127.0.0.1:0", "--workers=3", names, &listen];
    let server = Server::start(&[&own[..], &[&options[0], &options[1]]].concat());
    let mut listener = server.listener("1");
    wait_for("the try by a handshake fails", || metric(&server, FAILED) == 1);
    server.signal("HUP");
    wait_for("a certificate comes", || metric(&server, MADE) == 1);
    let mut client = tls_client(server.tls_listen(), "b.test", &directory.root());
    client.write_all(get("/poll/1?wait=0", &["Connection: close"]).as_bytes()).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // What was asked for once is gone, and no path of that kind opens anything else.
    for path in ["none", "", "a/b", "..%2f..%2fpoll"] {
        let mut wire = Wire::connect(server.listen());
        wire.send(get(&format!("/.well-known/acme-challenge/{path}"), &[]));
        let answer = read_answer(&mut wire, "GET").unwrap();
        check_problem(&serde_json::from_str(&answer.body).unwrap(), 404);
    }
    assert_eq!(server.api.send("1", "unharmed"), 1);
    assert_eq!(listener.data(), "unharmed");
}

#[test]
fn certificate_is_renewed_at_two_thirds_of_its_life() {
    let Some(directory) = Directory::start(12) else { return };
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &directory, directory.tls_port, 0);
    wait_for("a certificate comes", || metric(&server, MADE) >= 1);
    let root = directory.root();
    let first = shown(server.tls_api(), "a.test", &root).unwrap();
    wait_for("it is renewed", || metric(&server, MADE) >= 2);
    let second = shown(server.tls_api(), "a.test", &root);
    assert!(second.is_some_and(|second| second != first), "it is another, and in use");
    assert_eq!(metric(&server, FAILED), 0);
}

/// A pipe is the slowest disk that there is: a reader waits for its writer.
#[test]
fn disk_that_waits_holds_up_no_request() {
    let dir = tempfile::tempdir().unwrap();
    let ca = dir.path().join("ca.pem");
    make_pipe(&ca);
    let options = [
        "--tls-api=127.0.0.1:0".to_owned(),
        "--acme-domain=a.test".to_owned(),
        format!("--acme-directory=https://127.0.0.1:{}/dir", testing::free_port()),
        format!("--acme-ca={}", ca.display()),
    ];
    let server = Server::start(&options.each_ref().map(String::as_str));
    // It is opened once the try reads it, which then waits for what is written.
    let writer = pipe_writer(&ca);
    assert_eq!(server.api.get("/healthz").status(), 200);
    assert_eq!(metric(&server, FAILED), 0);
    drop(writer);
    wait_for("the try fails", || metric(&server, FAILED) == 1);
    assert!(server.stderr().contains("has no certificate in PEM"), "{}", server.stderr());
}

#[test]
fn directory_that_is_dead_stops_nothing() {
    let directory = format!("--acme-directory=https://127.0.0.1:{}/dir", testing::free_port());
    let server = Server::start(&["--tls-api=127.0.0.1:0", "--acme-domain=a.test", &directory]);
    wait_for("the try fails", || metric(&server, FAILED) == 1);
    let said = server.stderr();
    assert!(said.contains("no certificate for a.test") && said.contains("next try"), "{said}");
    let mut listener = server.listener("1");
    assert_eq!(server.api.send("1", "unharmed"), 1);
    assert_eq!(listener.data(), "unharmed");
    server.signal("HUP");
    wait_for("another try fails", || metric(&server, FAILED) == 2);
    assert_eq!(server.stop("TERM").code(), Some(0));
}
