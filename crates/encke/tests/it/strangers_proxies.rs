//! HAProxy and nginx before the server, as they say for whom they ask: both versions of the PROXY
//! protocol, and `X-Forwarded-For`.
//!
//! Who reaches a proxy from loopback is exempt behind it too, so the stranger comes from this
//! machine's other address.

use std::fs;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;

use crate::harness::{Program, Server, Stream, Wire, check_problem, get, read_answer, wait_for};
use crate::strangers::own_address;

/// Ports that are free now. No proxy tells which one it took.
fn free_ports<const N: usize>() -> [u16; N] {
    let listeners: [TcpListener; N] =
        std::array::from_fn(|_| TcpListener::bind("0.0.0.0:0").unwrap());
    listeners.each_ref().map(|listener| listener.local_addr().unwrap().port())
}

fn is_here(program: &str) -> bool {
    let path = std::env::var("PATH").unwrap() + ":/usr/sbin:/sbin";
    path.split(':').any(|directory| Path::new(directory).join(program).is_file())
}

/// Starts a proxy in the foreground and waits until it listens.
fn start(command: &mut Command, ports: &[u16]) -> Program {
    let path = std::env::var("PATH").unwrap() + ":/usr/sbin:/sbin";
    let program = Program::spawn(command.env("PATH", path));
    for &port in ports {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        wait_for("the proxy listens", || Wire::try_connect(address).is_ok());
    }
    program
}

/// What is true behind every proxy: a stranger has its two connections and not a third, others go
/// on, and who claims to be somebody else is counted as what it is.
fn check_behind(server: &Server, stranger: IpAddr, port: u16, claims: &[&str]) {
    let (far, near) = (SocketAddr::new(stranger, port), SocketAddr::from(([127, 0, 0, 1], port)));
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

#[test]
fn haproxy_names_its_clients_by_header_and_by_field() {
    let Some(stranger) = own_address() else {
        return testing::skip("this machine has no address beside loopback");
    };
    if !is_here("haproxy") {
        return testing::skip("haproxy is not installed");
    }
    let server = Server::start(&["--trust=127.0.0.0/8", "--max-connections-per-address=2"]);
    let dir = tempfile::tempdir().unwrap();
    let ports = free_ports::<3>();
    let target = server.listen();
    let mut config =
        "defaults\n  timeout connect 30s\n  timeout client 60s\n  timeout server 60s\n\
                      \n"
        .to_owned();
    let lines = [
        "mode tcp|send-proxy",
        "mode tcp|send-proxy-v2",
        "mode http\n  option forwardfor\n  option abortonclose|",
    ];
    for (name, (line, port)) in lines.iter().zip(ports).enumerate() {
        let (mode, send) = line.split_once('|').unwrap();
        config += &format!(
            "listen l{name}\n  {mode}\n  bind 0.0.0.0:{port}\n  server encke {target} {send}\n"
        );
    }
    let file = dir.path().join("haproxy.cfg");
    fs::write(&file, config).unwrap();
    let _haproxy = start(Command::new("haproxy").arg("-db").arg("-f").arg(&file), &ports);
    for port in ports {
        check_behind(&server, stranger, port, &["X-Forwarded-For: 9.9.9.9"]);
        server.wait_online("1", 0);
    }
}

#[test]
fn nginx_names_its_clients_by_field_on_connections_that_it_keeps() {
    let Some(stranger) = own_address() else {
        return testing::skip("this machine has no address beside loopback");
    };
    if !is_here("nginx") {
        return testing::skip("nginx is not installed");
    }
    let server = Server::start(&["--trust=127.0.0.1", "--max-connections-per-address=2"]);
    let dir = tempfile::tempdir().unwrap();
    let [port] = free_ports::<1>();
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
        check_behind(&server, stranger, port, &[claim]);
        server.wait_online("1", 0);
    }
    // One kept connection carries the polls of both, by turns, and counts for the last of them.
    let ask = |address: IpAddr| {
        let mut wire = Wire::connect(SocketAddr::new(address, port));
        wire.send(get("/poll/1?wait=0", &["Connection: close"]));
        assert_eq!(wire.head().status, 200);
    };
    let opened = |server: &Server| server.api.stats()["connections_opened"].as_u64().unwrap();
    ask(stranger);
    let before = opened(&server);
    for _ in 0..10 {
        ask(stranger);
        ask([127, 0, 0, 1].into());
    }
    assert_eq!(opened(&server), before, "nginx keeps it");
    let far = SocketAddr::new(stranger, port);
    let _streams: Vec<_> = (0..2).map(|_| Stream::open(far, "/stream/1", "*/*")).collect();
}
