//! Certificates that are replaced while the server runs, and which of several a client gets.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustls::{ClientConnection, StreamOwned};

use super::tls_api::{metric, server, shown};
use crate::harness::{Authority, Issued, Server, make_pipe, pipe_writer, tls_client, wait_for};

const RELOADED: &str = "encke_tls_certificate_reloads_total{outcome=\"ok\"} ";
const REFUSED: &str = "encke_tls_certificate_reloads_total{outcome=\"failed\"} ";

type Client = StreamOwned<ClientConnection, TcpStream>;

/// One request on a connection that stays open.
fn ask(client: &mut Client) -> String {
    client.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let (mut answer, mut piece) = (String::new(), [0; 4096]);
    while !answer.contains("\r\n\r\n") {
        let len = client.read(&mut piece).unwrap();
        assert!(len > 0, "it ended after {answer:?}");
        answer.push_str(str::from_utf8(&piece[..len]).unwrap());
    }
    answer
}

/// The certificate that a new client is shown.
fn der(server: &Server, ca: &Path) -> Vec<u8> {
    let mut client = tls_client(server.tls_api(), "localhost", ca);
    assert!(ask(&mut client).starts_with("HTTP/1.1 200"));
    client.conn.peer_certificates().unwrap()[0].to_vec()
}

#[test]
fn changed_files_are_taken_without_a_lost_connection() {
    let authority = Authority::new();
    let server = server(&authority, &[]);
    let ca = authority.ca();
    let mut alive = tls_client(server.tls_api(), "localhost", &ca);
    ask(&mut alive);
    let before = der(&server, &ca);
    authority.issue("own", &["localhost"]);
    wait_for("the new certificate is shown", || der(&server, &ca) != before);
    assert!(ask(&mut alive).starts_with("HTTP/1.1 200"), "who was there stays");
    let shown = alive.conn.peer_certificates().unwrap()[0].to_vec();
    assert_eq!(shown, before);
    // Who reads between the two files sees a certificate without its key: that may be refused.
    wait_for("it is counted once", || metric(&server, RELOADED) == 1);
}

#[test]
fn hangup_reads_the_files_again() {
    let authority = Authority::new();
    let server = server(&authority, &[]);
    for reads in 1..=3 {
        server.signal("HUP");
        wait_for("they are read", || metric(&server, RELOADED) == reads);
    }
    assert!(server.stderr().contains("SIGHUP"));
}

/// A pipe into which nobody writes is a disk that does not answer.
#[test]
fn disk_that_does_not_answer_holds_up_no_end() {
    let authority = Authority::new();
    let own = authority.issue("own", &["localhost"]);
    let server = server(&authority, &[]);
    fs::remove_file(&own.certificate).unwrap();
    make_pipe(&own.certificate);
    server.signal("HUP");
    // It is opened once the server reads it, which then waits for what is never written.
    let _writer = pipe_writer(&own.certificate);
    assert_eq!(server.stop("TERM").code(), Some(0));
}

#[test]
fn bad_pair_is_refused_and_the_one_before_stays() {
    let authority = Authority::new();
    let server = server(&authority, &[]);
    let (ca, own) = (authority.ca(), authority.issue("own", &["localhost"]));
    wait_for("the new certificate is taken", || metric(&server, RELOADED) == 1);
    // One may have been read between its two files.
    let refused = metric(&server, REFUSED);
    let before = der(&server, &ca);
    let other = authority.issue("other", &["localhost"]);
    fs::rename(&other.certificate, &own.certificate).unwrap();
    wait_for("a pair of two is refused", || metric(&server, REFUSED) == refused + 1);
    wait_for("the log tells why", || server.stderr().contains("is not that of"));
    assert_eq!(der(&server, &ca), before);
    fs::remove_file(&own.key).unwrap();
    wait_for("no key is refused", || metric(&server, REFUSED) == refused + 2);
    assert_eq!(der(&server, &ca), before);
    fs::rename(&other.key, &own.key).unwrap();
    wait_for("its key makes it good", || der(&server, &ca) != before);
    wait_for("it is counted", || metric(&server, RELOADED) == 2);
    assert_eq!(metric(&server, REFUSED), refused + 2);
}

/// As Kubernetes mounts secrets: the files are links through a folder that is a link, and that is
/// what is replaced.
#[test]
fn link_that_is_swapped_is_a_change() {
    let authority = Authority::new();
    let dir = authority.dir();
    let place = |name: &str, issued: &Issued| {
        fs::create_dir(dir.join(name)).unwrap();
        fs::copy(&issued.certificate, dir.join(name).join("tls.crt")).unwrap();
        fs::copy(&issued.key, dir.join(name).join("tls.key")).unwrap();
    };
    place("..1", &authority.issue("one", &["localhost"]));
    place("..2", &authority.issue("two", &["localhost"]));
    symlink("..1", dir.join("..data")).unwrap();
    for file in ["tls.crt", "tls.key"] {
        symlink(Path::new("..data").join(file), dir.join(file)).unwrap();
    }
    let option = |name: &str, file: &str| format!("--{name}={}", dir.join(file).display());
    let pair = [option("tls-cert", "tls.crt"), option("tls-key", "tls.key")];
    let server = Server::start(&["--tls-api=127.0.0.1:0", &pair[0], &pair[1]]);
    let ca = authority.ca();
    let before = der(&server, &ca);
    symlink("..2", dir.join("..new")).unwrap();
    fs::rename(dir.join("..new"), dir.join("..data")).unwrap();
    wait_for("the new certificate is shown", || der(&server, &ca) != before);
    assert_eq!(metric(&server, REFUSED), 0);
}

#[test]
fn client_gets_the_certificate_of_the_name_that_it_calls() {
    let authority = Authority::new();
    let pairs = [
        authority.issue("first", &["first.test"]),
        authority.issue("second", &["second.test", "*.wild.test"]),
    ];
    let options: Vec<String> = pairs.iter().flat_map(Issued::options).collect();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let server = Server::start(&[&["--tls-api=127.0.0.1:0"], &options[..]].concat());
    let text = |place: usize| fs::read_to_string(&pairs[place].certificate).unwrap();
    let files = [text(0), text(1)].map(|text| text.replace('\r', ""));
    for (name, place, unmatched) in [
        (Some("second.test"), 1, 0),
        (Some("a.wild.test"), 1, 0),
        (Some("first.test"), 0, 0),
        (Some("other.test"), 0, 1),
        (None, 0, 1),
    ] {
        let Some(shown) = shown(server.tls_api(), name) else { return };
        assert!(files[place].starts_with(&shown), "{name:?} gets {shown}");
        assert_eq!(metric(&server, "encke_tls_unmatched_names_total "), unmatched, "{name:?}");
    }
}
