//! Streams over TLS, as the clients of others meet them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tungstenite::client::IntoClientRequest;

use super::tls_api::{metric, metric_if_any, tool};
use crate::harness::{Authority, Program, Server, Wire, get, tls_client, wait_for};

/// A server whose streams are at a port of TLS too.
fn server(authority: &Authority, options: &[&str]) -> Server {
    let pair = authority.issue("own", &["localhost", "127.0.0.1"]).options();
    let own = ["--tls-listen=127.0.0.1:0", &pair[0], &pair[1]];
    Server::start(&[&own, options].concat())
}

/// The next line of a body that is not empty, without the sizes of chunks.
pub(super) fn event(lines: &mut impl BufRead) -> Value {
    loop {
        let mut line = String::new();
        assert!(lines.read_line(&mut line).unwrap() > 0, "the stream has ended");
        if line.starts_with('{') {
            return serde_json::from_str(&line).unwrap();
        }
    }
}

#[test]
fn curl_hears_events_by_both_versions() {
    let authority = Authority::new();
    let server = server(&authority, &[]);
    let url = format!("https://localhost:{}/stream/bob", server.tls_listen().port());
    let ca = authority.ca();
    for version in ["--tls-max=1.2", "--tlsv1.3"] {
        let (option, value) = version.split_once('=').unwrap_or((version, ""));
        let mut curl = Command::new("curl");
        curl.args(["-sSN", "--cacert", ca.to_str().unwrap(), option]);
        curl.args((!value.is_empty()).then_some(value)).arg(&url);
        let Ok(mut curl) = curl.stdout(Stdio::piped()).spawn() else {
            return testing::skip("this machine has no curl");
        };
        server.wait_online("bob", 1);
        assert_eq!(server.api.send("bob", version), 1);
        let mut lines = BufReader::new(curl.stdout.take().unwrap());
        assert_eq!(event(&mut lines)["data"], version);
        curl.kill().unwrap();
        curl.wait().unwrap();
        server.wait_online("bob", 0);
    }
    let metrics = server.api.get("/metrics").body;
    for version in ["1.2", "1.3"] {
        let line = format!(
            "encke_tls_handshakes_total{{version=\"{version}\",suite=\"aes_128_gcm\",\
             resumed=\"false\"}} 1\n"
        );
        assert!(metrics.contains(&line), "{line} in {metrics}");
    }
}

/// An event is far longer than a record, and many come in one write.
#[test]
fn events_of_any_size_come_whole_and_in_order() {
    let authority = Authority::new();
    let server = server(&authority, &["--max-backlog=4MiB"]);
    let mut stream = tls_client(server.tls_listen(), "localhost", &authority.ca());
    stream.write_all(get("/stream/bob", &[]).as_bytes()).unwrap();
    server.wait_online("bob", 1);
    let sizes = [0, 1, 100, 16_300, 16_384, 16_400, 100_000, 400_000];
    for size in sizes {
        assert_eq!(server.api.send("bob", "x".repeat(size)), 1);
    }
    for n in 0..500 {
        assert_eq!(server.api.send("bob", n), 1);
    }
    let mut lines = BufReader::new(stream);
    for size in sizes {
        assert_eq!(event(&mut lines)["data"].as_str().unwrap().len(), size);
    }
    for n in 0..500 {
        assert_eq!(event(&mut lines)["data"], n);
    }
}

#[test]
fn websocket_talks_over_tls_and_polls_share_a_connection() {
    let authority = Authority::new();
    let server = server(&authority, &[]);
    let tls = || tls_client(server.tls_listen(), "localhost", &authority.ca());
    let request = "wss://localhost/stream/a".into_client_request().unwrap();
    let (mut socket, _) = tungstenite::client(request, tls()).unwrap();
    for n in 0..50 {
        let login = json!({ "login": [format!("id{n}")] }).to_string();
        socket.send(login.into()).unwrap();
        let answer = socket.read().unwrap();
        assert!(answer.to_text().unwrap().contains(&format!("id{n}")), "{answer}");
    }
    assert_eq!(server.api.send("id7", "heard"), 1);
    assert!(socket.read().unwrap().to_text().unwrap().contains("heard"));
    let mut polls = tls();
    for _ in 0..20 {
        polls.write_all(get("/poll/p?wait=0", &[]).as_bytes()).unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"[]\n") {
            let mut byte = [0];
            polls.read_exact(&mut byte).unwrap();
            answer.push(byte[0]);
        }
        assert!(answer.starts_with(b"HTTP/1.1 200"));
    }
}

#[test]
fn who_does_not_speak_tls_is_closed_and_others_go_on() {
    let authority = Authority::new();
    let server = server(&authority, &[]);
    let mut stream = tls_client(server.tls_listen(), "localhost", &authority.ca());
    stream.write_all(get("/stream/bob", &[]).as_bytes()).unwrap();
    server.wait_online("bob", 1);
    let garbage = vec![0x17; 40_000];
    for piece in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0x16, 3, 1, 0xff, 0xff, 1], &garbage] {
        let mut wire = TcpStream::connect(server.tls_listen()).unwrap();
        wire.set_read_timeout(Some(crate::harness::DEADLINE)).unwrap();
        let _ = wire.write_all(piece);
        // An alert, or nothing, and the end: by FIN or by a reset.
        let _ = wire.read_to_end(&mut Vec::new());
    }
    // A record that was changed on its way ends its connection alone.
    assert_eq!(server.api.send("bob", "still here"), 1);
    assert_eq!(event(&mut BufReader::new(stream))["data"], "still here");
}

/// More than may be under way: a quarter of the places, and 64 of each worker.
#[test]
fn stalled_handshakes_make_room_for_clients_who_answer() {
    const STALLED: usize = 600;
    let authority = Authority::new();
    let server = server(&authority, &["--max-connections=1000"]);
    let config = server::client_config(Some(&authority.ca()), &["http/1.1"]).unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut hello = Vec::new();
    ClientConnection::new(config.clone(), name).unwrap().write_tls(&mut hello).unwrap();
    let stall = |_| {
        let mut wire = Wire::connect(server.tls_listen());
        wire.send(&hello);
        wire
    };
    let stalled: Vec<Wire> = (0..STALLED).map(stall).collect();
    let displaced = "encke_tls_handshake_failures_total{by=\"nobody\",reason=\"displaced\"} ";
    wait_for("those who are too many are gone", || {
        metric_if_any(&server, displaced) >= Some((STALLED - 250 - 2 * 64) as u64)
    });
    assert!(metric(&server, "encke_tls_handshakes_open ") <= 250 + 2 * 64);
    for _ in 0..10 {
        let mut stream = tls_client(server.tls_listen(), "localhost", &authority.ca());
        stream.write_all(get("/poll/bob?wait=0", &[]).as_bytes()).unwrap();
        stream.read_exact(&mut [0; 12]).unwrap();
    }
    drop(stalled);
    wait_for("nothing is left", || metric(&server, "encke_tls_handshakes_open ") == 0);
}

/// The alert that a client has been sent when all that it has said is read.
fn alert(mut wire: TcpStream) -> [u8; 2] {
    wire.set_read_timeout(Some(crate::harness::DEADLINE)).unwrap();
    let mut heard = Vec::new();
    // A reset would be an error, and what came before it lost.
    wire.read_to_end(&mut heard).unwrap();
    let alert = heard.len() - 7;
    assert_eq!((heard[alert], &heard[alert + 3..alert + 5]), (21, &[0, 2][..]), "{heard:?}");
    [heard[alert + 5], heard[alert + 6]]
}

/// Who is told by an alert what it has done hears it, whatever it goes on to say.
#[test]
fn alert_is_heard_by_who_has_said_more_than_is_read_at_a_time() {
    let authority = Authority::new();
    let server = server(&authority, &[]);
    let junk = vec![0x55; 300_000];
    // A hello that is none; a record that is longer than any; a hello that offers nothing of ours.
    let old =
        [&[22, 3, 1, 0, 45, 1, 0, 0, 41, 3, 2][..], &[7; 32], &[0, 0, 2, 0, 47, 1, 0]].concat();
    for (hello, expected) in
        [(&[22, 3, 1, 0, 5, 1, 0, 0, 1, 0][..], 50), (&[22, 3, 1, 0xff, 0xff, 1], 50), (&old, 40)]
    {
        let mut wire = TcpStream::connect(server.tls_listen()).unwrap();
        wire.write_all(&[hello, &junk].concat()).unwrap();
        assert_eq!(alert(wire), [2, expected]);
    }
    // The same behind a handshake, on a stream that is open.
    let mut stream = tls_client(server.tls_listen(), "localhost", &authority.ca());
    stream.write_all(get("/stream/bob", &[]).as_bytes()).unwrap();
    server.wait_online("bob", 1);
    stream.sock.write_all(&[&[23, 3, 3, 0, 40][..], &[1; 40], &junk].concat()).unwrap();
    server.wait_online("bob", 0);
    let error = stream.read_to_end(&mut Vec::new()).unwrap_err().to_string();
    assert!(error.contains("BadRecordMac"), "{error}");
    let tls = &server.api.stats()["tls"];
    let refused = json!({ "decode_error": 2, "handshake_failure": 1 });
    assert_eq!(tls["handshake_failures"]["server"], refused, "{tls}");
    assert_eq!((&tls["handshakes"]["1.3"], &tls["handshakes_open"]), (&json!(1), &json!(0)));
    assert_eq!(tls["faults"], json!({ "bad_record_mac": 1 }));
    // Who never ends its side is waited for, but not for long.
    let mut wire = TcpStream::connect(server.tls_listen()).unwrap();
    wire.write_all(b"not TLS").unwrap();
    wire.set_read_timeout(Some(crate::harness::DEADLINE)).unwrap();
    assert_eq!(wire.read(&mut [0; 9]).unwrap(), 0, "nothing can be said to it");
    wait_for("nobody is left", || server.api.stats()["connections_open"] == 0);
}

#[test]
fn openssl_may_update_its_keys() {
    let authority = Authority::new();
    let server = server(&authority, &[]);
    let address = server.tls_listen().to_string();
    if tool("openssl", &["version"]).is_none() {
        return;
    }
    let mut openssl = Command::new("openssl");
    // Not quiet, or it takes no commands.
    openssl.args(["s_client", "-tls1_3", "-connect", &address]);
    let (openssl, mut input) = Program::spawn_with_input(&mut openssl);
    input.write_all(get("/stream/bob", &[]).as_bytes()).unwrap();
    server.wait_online("bob", 1);
    for n in 0..10 {
        // With K it asks for new keys of ours too, with k it does not.
        input.write_all(if n % 2 == 0 { b"K\n" } else { b"k\n" }).unwrap();
        wait_for("its keys are new", || openssl.stderr().matches("KEYUPDATE").count() == n + 1);
        assert_eq!(server.api.send("bob", n), 1);
        let line = loop {
            let line = openssl.line();
            if line.starts_with("{\"") {
                break line;
            }
        };
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["data"], n);
    }
}

#[test]
fn plain_port_may_be_none_and_drain_ends_tls_streams_well() {
    let authority = Authority::new();
    let server = server(&authority, &["--listen=none"]);
    assert_eq!(server.listen(), server.tls_listen());
    let mut stream = tls_client(server.tls_listen(), "localhost", &authority.ca());
    stream.write_all(get("/stream/bob", &[]).as_bytes()).unwrap();
    wait_for("bob is online", || server.api.connections("bob") == 1);
    let ended = std::thread::spawn(move || {
        let mut body = String::new();
        stream.read_to_string(&mut body).map(|_| body)
    });
    assert_eq!(server.stop("TERM").code(), Some(0));
    // close_notify came before the end, or this would be an error (RFC 8446, section 6.1).
    let body = ended.join().unwrap().unwrap();
    assert!(body.ends_with("0\r\n\r\n"), "{body}");
}

/// An answer takes a handshake, and a handshake takes a place.
#[test]
fn client_over_tls_is_closed_without_an_answer_where_the_server_is_full() {
    let authority = Authority::new();
    let server = server(&authority, &["--workers=1", "--max-connections=1"]);
    let mut stream = tls_client(server.tls_listen(), "localhost", &authority.ca());
    stream.write_all(get("/stream/bob", &[]).as_bytes()).unwrap();
    server.wait_online("bob", 1);
    let mut refused = Wire::connect(server.tls_listen());
    // The head of a record: the kernel shows no client that has said nothing.
    refused.send(b"\x16\x03\x01\x02\x00");
    assert_eq!(refused.rest(), b"", "it is ended in order, with no byte of TLS or of HTTP");
    server.wait_closed("full", 1);
    let head = server.ask(get("/stream/bob", &[])).head();
    assert_eq!(head.status, 503, "the plain port has an answer: {}", head.text);
    server.wait_closed("full", 2);
}

/// A browser opens nothing that is plain for a page that came by TLS.
#[test]
fn dashboard_that_came_by_tls_listens_by_tls() {
    let authority = Authority::new();
    let server = server(&authority, &["--tls-api=127.0.0.1:0"]);
    let mut api = tls_client(server.tls_api(), "localhost", &authority.ca());
    let request = get("/dashboard.json", &["Connection: close"]);
    api.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    api.read_to_string(&mut answer).unwrap();
    let url = format!("\"public_url\":\"https://localhost:{}\"", server.tls_listen().port());
    assert!(answer.contains(&url), "{url} in {answer}");
    let plain = server.api.get("/dashboard.json").ok();
    let url = format!("http://localhost:{}", server.listen().port());
    assert_eq!(plain["public_url"], url);
}
