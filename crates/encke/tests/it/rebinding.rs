//! A page whose own name was made to lead to the server (DNS rebinding), and other requests that
//! call it by a name that is not its own.

use hyper::Request;

use crate::harness::{Answer, Server, Socket, Wire, encke, get, http2_status, read_answer};

/// One request to the API with these lines for a host, and its answer.
fn ask(server: &Server, request: &str, hosts: &str) -> Answer {
    let mut wire = Wire::connect(server.api.address());
    let body = "{\"about\":1,\"data\":1}";
    let len = if request.starts_with("POST /send") { body.len() } else { 0 };
    wire.send(format!(
        "{request} HTTP/1.1\r\n{hosts}Content-Length: {len}\r\n\r\n{}",
        &body[..len]
    ));
    read_answer(&mut wire, request.split(' ').next().unwrap()).unwrap()
}

#[test]
fn api_does_nothing_for_a_name_that_is_not_its_own() {
    let server = Server::start(&[]);
    let port = server.api.address().port();
    server.api.subscribe("bob", "rj");
    let mut stream = server.listener("1");
    for host in [
        "evil.test".to_owned(),
        format!("evil.test:{port}"),
        format!("localhost.evil.test:{port}"),
        format!("127.0.0.1.evil.test:{port}"),
    ] {
        for request in [
            "GET /",
            "GET /dashboard.js",
            "GET /dashboard.json",
            "GET /stats",
            "GET /healthz",
            "GET /subscribers/rj",
            "GET /nowhere",
            "POST /send",
            "POST /logout/1",
            "POST /subscriptions/remove",
        ] {
            // A page of the same origin sends no `Origin` with a GET.
            for origin in [String::new(), format!("Origin: http://{host}\r\n")] {
                let problem =
                    ask(&server, request, &format!("Host: {host}\r\n{origin}")).problem(421);
                assert!(problem["detail"].as_str().unwrap().contains("--api-host"), "{problem}");
            }
        }
    }
    assert_eq!(server.api.stats()["events"], 0);
    assert_eq!(server.api.send("1", "first"), 1);
    assert_eq!(stream.data(), "first");
}

#[test]
fn api_is_called_by_addresses_localhost_and_the_names_that_it_is_told() {
    let server = Server::start(&["--api-host=Push.internal,encke", "--api-host=other.test"]);
    for host in [
        "127.0.0.1",
        "10.1.2.3:8001",
        "[::1]:1",
        "localhost",
        "LOCALHOST:8001",
        "push.internal:9",
        "encke",
        "other.test.",
    ] {
        ask(&server, "GET /healthz", &format!("Host: {host}\r\n")).ok();
    }
    ask(&server, "GET /healthz", "Host: internal\r\n").problem(421);
    for wrong in ["--api-host=*", "--api-host=http://a", "--api-host=a:1"] {
        let finished = crate::harness::Program::run(&mut encke(["serve", wrong]));
        assert_eq!(finished.code(), Some(2), "{finished:?}");
    }
}

#[test]
fn api_is_told_its_names_by_the_environment_and_a_file_too() {
    let server = Server::start_with_variable("ENCKE_API_HOST", "a.test,b.test", &["--api-host=c"]);
    ask(&server, "GET /healthz", "Host: c\r\n").ok();
    ask(&server, "GET /healthz", "Host: a.test\r\n").problem(421);
    let data = tempfile::tempdir().unwrap();
    let file = data.path().join("encke.toml");
    std::fs::write(&file, "[serve]\napi-host = ['a.test', 'b.test']\n").unwrap();
    let mut command = encke(["serve", "--json", "--listen=127.0.0.1:0", "--api=127.0.0.1:0"]);
    command.arg("--data").arg(data.path().join("store")).arg("--config").arg(file);
    let server = Server::of(crate::harness::Program::spawn(&mut command));
    ask(&server, "GET /healthz", "Host: b.test\r\n").ok();
    ask(&server, "GET /healthz", "Host: x\r\n").problem(421);
}

#[test]
fn api_asks_for_exactly_one_host() {
    let server = Server::start(&[]);
    for hosts in [
        "",
        "Host: localhost\r\nHost: localhost\r\n",
        "Host: localhost\r\nHost: evil.test\r\n",
        "Host: evil.test@localhost\r\n",
        "Host: localhost/\r\n",
        "Host:\r\n",
    ] {
        ask(&server, "GET /healthz", hosts).problem(400);
    }
    // A target with a host says the same as the field.
    ask(&server, "GET http://localhost/healthz", "Host: localhost\r\n").ok();
    ask(&server, "GET http://evil.test/healthz", "Host: localhost\r\n").problem(400);
    ask(&server, "GET http://evil.test/healthz", "Host: evil.test\r\n").problem(421);
    // The checks of old load balancers.
    let mut wire = Wire::connect(server.api.address());
    wire.send("GET /healthz HTTP/1.0\r\n\r\n");
    let head = wire.take_through(b"\r\n\r\n").unwrap();
    assert!(head.starts_with(b"HTTP/1.0 200"), "{}", String::from_utf8_lossy(&head));
}

#[test]
fn http_2_names_the_host_as_its_authority() {
    let server = Server::start(&[]);
    let address = server.api.address();
    let status = |authority: &str| {
        http2_status(address, Request::get(format!("http://{authority}/healthz")))
    };
    assert_eq!(status(&address.to_string()), 200);
    assert_eq!(status("localhost:8001"), 200);
    assert_eq!(status("evil.test"), 421);
}

const DEMO: &str = "--demo-page={\"users\":100,\"events_per_second\":1.0}";

/// The status of a request to the public port.
fn status(server: &Server, path: &str, host: &str, fields: &[&str]) -> u16 {
    let request = get(path, fields).replace("Host: localhost", &format!("Host: {host}"));
    server.ask(request).head().status
}

#[test]
fn public_port_opens_no_page_and_nothing_for_one_under_a_name_that_is_not_its_own() {
    let server = Server::start(&[DEMO]);
    let (port, api) = (server.listen().port(), server.api.address().port());
    let host = format!("evil.test:{port}");
    let own = format!("Origin: http://{host}");
    let beside = format!("Origin: http://evil.test:{api}");
    for path in ["/", "/stream/1", "/poll/1?wait=0", "/test/1", "/nowhere"] {
        // With a GET a page of the same origin names none; its browser may say that it is one.
        let sites =
            ["same-origin", "same-site", "none"].map(|site| format!("Sec-Fetch-Site: {site}"));
        for fields in [
            &[][..],
            &[own.as_str()],
            &[&beside],
            &["Accept: text/event-stream"],
            &[&sites[0], "Accept: text/event-stream"],
            &[&sites[1]],
            &[&sites[2]],
        ] {
            let says = |field: &&str| field.starts_with("Origin") || field.contains(": same-");
            let is_pages = path == "/" || fields.iter().any(says);
            let expected = match path {
                "/nowhere" => 404,
                _ if is_pages => 421,
                _ => 200,
            };
            assert_eq!(status(&server, path, &host, fields), expected, "{path} {fields:?}");
        }
    }
    let fields = [&Socket::FIELDS[..], &[&own]].concat();
    assert_eq!(status(&server, "/stream/1", &host, &fields), 421);
    assert_eq!(server.api.stats()["ids_online"], 0);
    let head =
        server.ask(format!("GET /stream/1 HTTP/1.1\r\nHost: {host}\r\n{own}\r\n\r\n")).head();
    assert_eq!(head.field("access-control-allow-origin"), None);
}

#[test]
fn public_port_is_called_by_its_own_names() {
    let server = Server::start(&["--public-host=push.test", "--api-host=admin.test"]);
    let port = server.listen().port();
    for name in ["127.0.0.1", "localhost", "[::1]", "push.test", "PUSH.test", "admin.test"] {
        let host = format!("{name}:{port}");
        assert_eq!(status(&server, "/stream/1", &host, &[]), 200, "{host}");
        let own = format!("Origin: http://{host}");
        assert_eq!(status(&server, "/stream/1", &host, &[&own]), 200, "{host}");
        let other = "Origin: http://evil.test";
        assert_eq!(status(&server, "/stream/1", &host, &[other]), 403, "{host}");
    }
    let own = ["Origin: http://other.test"];
    assert_eq!(status(&server, "/stream/1", "other.test", &own), 421);
    assert_eq!(status(&server, "/stream/1", "other.test", &[]), 200, "it is no page's");
    let own = ["Sec-Fetch-Site: same-origin"];
    assert_eq!(status(&server, "/stream/1", "other.test", &own), 421);
    assert_eq!(status(&server, "/stream/1", "push.test", &own), 200);
    let server = Server::start(&["--public-host=*"]);
    for own in [&own[..], &["Origin: http://other.test"]] {
        assert_eq!(status(&server, "/stream/1", "other.test", own), 200);
    }
}

#[test]
fn proxies_and_pages_of_listed_origins_go_on_working() {
    let server = Server::start(&[
        "--public-host=none.test",
        "--public-url=https://push.example.org/encke",
        "--allow-origin=https://app.example.org:443",
    ]);
    let front = "Origin: https://push.example.org";
    let app = "Origin: https://app.example.org";
    for (host, fields, expected) in [
        // A proxy that passes the name on, and one that puts the server's address there.
        ("push.example.org", &[][..], 200),
        ("push.example.org", &[front], 200),
        ("127.0.0.1:8000", &[front], 200),
        // A page elsewhere, which the proxy serves too, or not.
        ("app.example.org", &[], 200),
        ("push.example.org", &[app], 200),
        ("any.example.org", &[app], 200),
        ("any.example.org", &[], 200),
        ("any.example.org", &["Origin: https://any.example.org"], 421),
        ("127.0.0.1:8000", &["Origin: http://push.example.org"], 403),
    ] {
        assert_eq!(status(&server, "/stream/1", host, fields), expected, "{host} {fields:?}");
    }
    let server = Server::start(&["--public-host=none.test", "--allow-origin=*"]);
    assert_eq!(status(&server, "/stream/1", "any.example.org", &[]), 200);
}
