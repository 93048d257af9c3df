//! HAProxy and nginx before the server, as they say for whom they ask: both versions of the PROXY
//! protocol, and `X-Forwarded-For`.
//!
//! Who reaches a proxy from loopback is exempt behind it too, so the foreign client comes from this
//! machine's other address.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::Command;

use crate::address_limits::own_address;
use crate::harness::{
    Authority, Program, Server, Stream, Wire, check_problem, get, read_answer, tls_client, wait_for,
};
use crate::tls_api::metric_if_any;

pub(crate) fn is_here(program: &str) -> bool {
    let path = std::env::var("PATH").unwrap() + ":/usr/sbin:/sbin";
    path.split(':').any(|directory| Path::new(directory).join(program).is_file())
}

/// Starts a proxy in the foreground and waits until it listens.
pub(crate) fn start(command: &mut Command, ports: &[u16]) -> Program {
    let path = std::env::var("PATH").unwrap() + ":/usr/sbin:/sbin";
    let program = Program::spawn(command.env("PATH", path));
    for &port in ports {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        wait_for("the proxy listens", || Wire::try_connect(address).is_ok());
    }
    program
}

/// What is true behind every proxy: a foreign client has its two connections and not a third,
/// others go on, and who claims to be somebody else is counted as what it is.
fn check_behind(server: &Server, foreign: IpAddr, port: u16, claims: &[&str]) {
    let (far, near) = (SocketAddr::new(foreign, port), SocketAddr::from(([127, 0, 0, 1], port)));
    let request = get("/stream/1", claims);
    let open = |address: SocketAddr, request: &str| {
        let mut wire = Wire::connect(address);
        wire.send(request);
        let head = wire.head();
        assert_eq!(head.status, 200, "{port}: {}", head.text);
        wire
    };
    let streams: Vec<Wire> = (0..2).map(|_| open(far, &request)).collect();
    let mut third = Wire::connect(far);
    third.send(&request);
    let answer = read_answer(&mut third, "GET").unwrap();
    check_problem(&serde_json::from_str(&answer.body).unwrap(), 429);
    assert!(answer.body.contains("--max-connections-per-address"), "{}", answer.body);
    // What these claimed would be believed: they come from where the proxy is.
    let neighbours: Vec<Wire> = (0..5).map(|_| open(near, &get("/stream/1", &[]))).collect();
    assert_eq!(server.api.send("1", "all"), 7);
    drop((streams, third));
    server.wait_online("1", 5);
    let _again = open(far, &request);
    drop(neighbours);
}

/// HAProxy before `target`, at a port for each of `lines`: the mode, and what the server's line
/// ends with.
fn haproxy<const N: usize>(target: SocketAddr, lines: [&str; N]) -> (Program, [u16; N]) {
    let dir = tempfile::tempdir().unwrap();
    let ports = [(); N].map(|()| testing::free_port());
    let mut config =
        "defaults\n  timeout connect 30s\n  timeout client 60s\n  timeout server 60s\n\n"
            .to_owned();
    for (name, (line, port)) in lines.iter().zip(ports).enumerate() {
        let (mode, send) = line.split_once('|').unwrap();
        config += &format!(
            "listen l{name}\n  {mode}\n  bind 0.0.0.0:{port}\n  server encke {target} {send}\n"
        );
    }
    let file = dir.path().join("haproxy.cfg");
    fs::write(&file, config).unwrap();
    // Once it listens it has read its file.
    (start(Command::new("haproxy").arg("-db").arg("-f").arg(&file), &ports), ports)
}

#[test]
fn haproxy_names_its_clients_by_header_and_by_field() {
    let Some(foreign) = own_address() else {
        return testing::skip("this machine has no address beside loopback");
    };
    if !is_here("haproxy") {
        return testing::skip("haproxy is not installed");
    }
    let server = Server::start(&["--trust=127.0.0.0/8", "--max-connections-per-address=2"]);
    let lines = [
        "mode tcp|send-proxy",
        "mode tcp|send-proxy-v2",
        "mode http\n  option forwardfor\n  option abortonclose|",
    ];
    let (_haproxy, ports) = haproxy(server.listen(), lines);
    for port in ports {
        check_behind(&server, foreign, port, &["X-Forwarded-For: 9.9.9.9"]);
        server.wait_online("1", 0);
    }
}

/// What speaks TLS is not HAProxy's to read, which says for whom it comes before it.
#[test]
fn haproxy_names_its_clients_before_their_tls() {
    let Some(foreign) = own_address() else {
        return testing::skip("this machine has no address beside loopback");
    };
    if !is_here("haproxy") {
        return testing::skip("haproxy is not installed");
    }
    let authority = Authority::new();
    let pair = authority.issue("own", &["localhost"]).options();
    let own = ["--tls-listen=0.0.0.0:0", "--open", "--trust=127.0.0.0/8", &pair[0], &pair[1]];
    let server = Server::start(&[&own[..], &["--max-connections-per-address=2"]].concat());
    let target = SocketAddr::from(([127, 0, 0, 1], server.tls_listen().port()));
    let lines = ["mode tcp|send-proxy", "mode tcp|send-proxy-v2", "mode tcp|"];
    let (_haproxy, ports) = haproxy(target, lines);
    let ca = authority.ca();
    let ask = |address: SocketAddr, path: &str| {
        let mut client = tls_client(address, "localhost", &ca);
        client.write_all(get(path, &["X-Forwarded-For: 9.9.9.9"]).as_bytes()).map(|()| client)
    };
    let near = |port| SocketAddr::from(([127, 0, 0, 1], port));
    for port in &ports[..2] {
        let far = SocketAddr::new(foreign, *port);
        let streams = [(); 2].map(|()| ask(far, "/stream/1").unwrap());
        server.wait_online("1", 2);
        assert!(ask(far, "/stream/1").is_err(), "it is closed before its handshake");
        // Who claims to be somebody else where it is believed, from this machine, is counted so.
        let neighbours = [(); 2].map(|()| ask(near(*port), "/stream/1").unwrap());
        server.wait_online("1", 4);
        assert_eq!(server.api.send("1", "all"), 4);
        drop((streams, neighbours));
        server.wait_online("1", 0);
        let again = ask(far, "/stream/1").unwrap();
        server.wait_online("1", 1);
        drop(again);
        server.wait_online("1", 0);
    }
    // Who is trusted may leave the header out, and is counted for the fields of its requests.
    let streams = [(); 2].map(|()| ask(SocketAddr::new(foreign, ports[2]), "/stream/1").unwrap());
    server.wait_online("1", 2);
    let mut third = ask(near(ports[2]), "/stream/1").unwrap();
    let mut answer = [0; 12];
    third.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 429");
    drop(streams);
    // From others it is no TLS.
    let mut wire = Wire::connect(SocketAddr::new(foreign, target.port()));
    wire.send("PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n");
    let failed = "encke_tls_handshake_failures_total{by=\"nobody\",reason=\"not_tls\"} ";
    wait_for("its handshake fails", || metric_if_any(&server, failed) == Some(1));
}

#[test]
fn nginx_names_its_clients_by_field_on_connections_that_it_keeps() {
    let Some(foreign) = own_address() else {
        return testing::skip("this machine has no address beside loopback");
    };
    if !is_here("nginx") {
        return testing::skip("nginx is not installed");
    }
    let server = Server::start(&["--trust=127.0.0.1", "--max-connections-per-address=2"]);
    let dir = tempfile::tempdir().unwrap();
    let port = testing::free_port();
    let (here, target) = (dir.path().display(), server.listen());
    let config = format!(
        "daemon off; master_process off; pid {here}/pid; error_log {here}/error.log;\n\
         events {{ }}\n\
         http {{\n  access_log off; client_body_temp_path {here}/a; proxy_temp_path {here}/b;\n\
         fastcgi_temp_path {here}/c; uwsgi_temp_path {here}/d; scgi_temp_path {here}/e;\n\
         upstream encke {{ server {target}; keepalive 1; }}\n\
         server {{ listen 0.0.0.0:{port}; location / {{ proxy_pass http://encke;\n\
         proxy_http_version 1.1; proxy_buffering off; proxy_set_header Connection '';\n\
         proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; }} }}\n}}\n"
    );
    let file = dir.path().join("nginx.conf");
    fs::write(&file, config).unwrap();
    let prefix = dir.path();
    let mut command = Command::new("nginx");
    command.arg("-e").arg(prefix.join("error.log")).arg("-p").arg(prefix).arg("-c").arg(&file);
    let _nginx = start(&mut command, &[port]);
    // A client's own fields, and a quote that it leaves open before what nginx appends.
    for claim in ["X-Forwarded-For: 9.9.9.9", "X-Forwarded-For: \"", "Forwarded: for=9.9.9.9"] {
        check_behind(&server, foreign, port, &[claim]);
        server.wait_online("1", 0);
    }
    // One kept connection carries the polls of both, by turns, and counts for the last of them.
    let ask = |address: IpAddr| {
        let mut wire = Wire::connect(SocketAddr::new(address, port));
        wire.send(get("/poll/1?wait=0", &["Connection: close"]));
        assert_eq!(wire.head().status, 200);
    };
    let opened = |server: &Server| server.api.stats()["connections_opened"].as_u64().unwrap();
    ask(foreign);
    let before = opened(&server);
    for _ in 0..10 {
        ask(foreign);
        ask([127, 0, 0, 1].into());
    }
    assert_eq!(opened(&server), before, "nginx keeps it");
    let far = SocketAddr::new(foreign, port);
    let _streams: Vec<_> = (0..2).map(|_| Stream::open(far, "/stream/1", "*/*")).collect();
}
