//! What a service manager and a probe are told: sd_notify's datagrams, and `encke ready`.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;

use crate::harness::{DEADLINE, Program, Server, encke, own_ports};

/// A service manager's end: what it was told, in order.
struct Manager {
    socket: UnixDatagram,
    dir: tempfile::TempDir,
}

impl Manager {
    fn new() -> Manager {
        let dir = tempfile::tempdir().unwrap();
        let socket = UnixDatagram::bind(dir.path().join("notify")).unwrap();
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        Manager { socket, dir }
    }

    /// The next datagram.
    fn told(&self) -> String {
        let mut bytes = [0; 4096];
        let len = self.socket.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..len].to_vec()).unwrap()
    }
}

#[test]
fn service_manager_is_told_of_start_reload_and_end() {
    let manager = Manager::new();
    let path = manager.dir.path().join("notify");
    let server = Server::start_with_variable("NOTIFY_SOCKET", path.to_str().unwrap(), &[]);
    assert!(manager.told().starts_with("READY=1\n"));
    // What it says is true.
    let _stream = server.listener("1");
    server.signal("HUP");
    let reloading = manager.told();
    assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
    assert!(manager.told().starts_with("READY=1\n"));
    server.signal("TERM");
    assert!(manager.told().starts_with("STOPPING=1\n"));
    assert_eq!(server.into_program().finish().code(), Some(0));
}

#[test]
fn manager_that_is_gone_is_no_reason_to_stop() {
    let server = Server::start_with_variable("NOTIFY_SOCKET", "/nowhere/notify", &[]);
    let mut stream = server.listener("1");
    assert_eq!(server.api.send("1", "hello"), 1);
    assert_eq!(stream.data(), "hello");
    let finished = server.stop("TERM");
    assert_eq!(finished.code(), Some(0));
    assert!(finished.stderr.contains("cannot tell the service manager"), "{finished:?}");
}

#[test]
fn ready_asks_the_server_and_waits_for_one_that_starts() {
    // Nobody else is given the port when the server is gone.
    let [_, api] = own_ports();
    let server = Server::start(&[&api]);
    let url = server.api_url();
    let ready = || Program::run(encke(["ready", "--api", &url]).arg("--timeout=30"));
    let asked = ready();
    assert_eq!((asked.code(), asked.stdout.as_str()), (Some(0), "ready\n"), "{asked:?}");
    assert_eq!(server.stop("TERM").code(), Some(0));
    let asked = ready();
    assert_eq!(asked.code(), Some(1), "{asked:?}");
    assert!(asked.stderr.contains("no server at"), "{asked:?}");
}

/// One that is not ready at first is asked again where that is wanted, and only there.
#[test]
fn ready_waits_for_a_server_that_is_not_ready_yet() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let ask =
        |wait: &str| Program::spawn(&mut encke(["ready", wait, "--timeout=60", "--api", &url]));
    let answer = |answer: &str| {
        let (mut peer, _) = listener.accept().unwrap();
        let mut request = [0; 1024];
        let len = peer.read(&mut request).unwrap();
        assert!(request[..len].starts_with(b"GET /readyz "));
        peer.write_all(answer.as_bytes()).unwrap();
    };
    let not_yet = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\n\
                   Content-Length: 63\r\n\r\n\
                   {\"type\":\"about:blank\",\"title\":\"not yet\",\"status\":503,\"a\":10000}";
    let ready = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 18\r\n\r\n\
                 {\"status\":\"ready\"}";
    let asked = ask("--wait=0");
    answer(not_yet);
    assert_eq!(asked.finish().code(), Some(1));
    let asked = ask("--wait=60");
    answer(not_yet);
    answer(not_yet);
    answer(ready);
    assert_eq!(asked.finish().code(), Some(0));
}
