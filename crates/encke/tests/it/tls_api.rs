//! TLS on the API's port, as the clients of others and our own commands meet it.

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::keys::new_key;
use crate::harness::{Authority, Finished, Program, Server, Wire, encke, get, read_answer};

/// A server whose API is at a port of TLS too, with a certificate of `authority` for localhost.
pub(crate) fn server(authority: &Authority, options: &[&str]) -> Server {
    let pair = authority.issue("own", &["localhost", "127.0.0.1"]).options();
    let own = ["--tls-api=127.0.0.1:0", &pair[0], &pair[1]];
    Server::start(&[&own, options].concat())
}

/// `program` with `args`, which this machine may not have.
pub(crate) fn tool(program: &str, args: &[&str]) -> Option<Finished> {
    let mut asked = Command::new(program);
    let asked = asked.arg("help").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if asked.is_err() {
        testing::skip(&format!("this machine has no {program}"));
        return None;
    }
    Some(Program::run(Command::new(program).args(args)))
}

#[test]
fn curl_speaks_both_versions_of_http() {
    let authority = Authority::new();
    let server = server(&authority, &[]);
    let (url, ca) = (server.tls_url(), authority.ca());
    let mut listener = server.listener("1");
    for (option, version) in [("--http1.1", "1.1"), ("--http2", "2")] {
        let body = json!({ "about": 1, "data": version }).to_string();
        let send = format!("{url}/send");
        let args = ["-sS", option, "--cacert", ca.to_str().unwrap(), "--json", &body, &send];
        let Some(sent) = tool("curl", &[&args[..], &["-w", "%{http_version}"]].concat()) else {
            return;
        };
        let lines: Vec<&str> = sent.stdout.lines().collect();
        assert!(lines.len() == 2 && lines[1] == version, "{sent:?}");
        assert_eq!(serde_json::from_str::<Value>(lines[0]).unwrap()["delivered"], 1, "{sent:?}");
        assert_eq!(listener.data(), version);
    }
}

#[test]
fn openssl_speaks_the_versions_that_are_safe() {
    let authority = Authority::new();
    let server = server(&authority, &[]);
    let (address, ca) = (server.tls_api().to_string(), authority.ca());
    let connect = |options: &[&str]| {
        let ca = ["-CAfile", ca.to_str().unwrap()];
        let fixed = ["s_client", "-brief", "-verify_return_error", "-connect", &address];
        tool("openssl", &[&fixed[..], &ca, options].concat())
    };
    for (option, version) in [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")] {
        let Some(done) = connect(&[option, "-servername", "localhost"]) else { return };
        let said = format!("{}{}", done.stdout, done.stderr);
        assert!(said.contains(&format!("Protocol version: {version}")), "{said}");
        assert!(said.contains("Verification: OK"), "{said}");
    }
    let refused = connect(&["-tls1_1"]).unwrap();
    assert_ne!(refused.code(), Some(0), "{refused:?}");
    let other = connect(&["-alpn", "spdy/3"]).unwrap();
    let alert = "no application protocol";
    assert!(other.stderr.contains(alert), "who speaks nothing of ours is told so: {other:?}");
    let outcomes = [("full", 2), ("resumed", 0), ("failed", 2), ("plain", 0)];
    let metrics = server.api.get("/metrics").body;
    for (outcome, count) in outcomes {
        let line = format!("encke_api_tls_handshakes_total{{outcome=\"{outcome}\"}} {count}\n");
        assert!(metrics.contains(&line), "{line} in {metrics}");
    }
}

/// `encke send` with further arguments.
fn send(url: &str, args: &[&str], variable: Option<&str>) -> Finished {
    let mut command = encke(["send", "1", "hello", "--api", url]);
    command.args(args).envs(variable.map(|ca| ("ENCKE_CA", ca)));
    Program::run(&mut command)
}

#[test]
fn commands_trust_the_authority_that_they_are_told_and_no_other() {
    let (authority, other) = (Authority::new(), Authority::new());
    let server = server(&authority, &[]);
    let (url, ca) = (server.tls_url(), authority.ca());
    let ca = ca.to_str().unwrap();
    for done in [send(&url, &["--ca", ca], None), send(&url, &[], Some(ca))] {
        assert_eq!((done.code(), done.stdout.as_str()), (Some(0), "delivered to 0 connections\n"));
    }
    let by_address = url.replace("localhost", "127.0.0.1");
    assert_eq!(send(&by_address, &["--ca", ca], None).code(), Some(0));
    let plain = format!("http://{}", server.api.address());
    let secure = format!("https://{}", server.api.address());
    let to_tls = url.replace("https", "http");
    let wrong = other.ca();
    for (url, ca, word) in [
        (&url, wrong.to_str().unwrap(), "--ca"),
        (&url, "/nowhere.pem", "/nowhere.pem"),
        (&secure, ca, "perhaps http://"),
        (&to_tls, ca, "https://"),
    ] {
        let done = send(url, &["--ca", ca], None);
        assert_eq!(done.code(), Some(1), "{done:?}");
        assert!(done.stderr.contains(word), "{word}: {done:?}");
    }
    assert_eq!(send(&plain, &[], None).code(), Some(0));
    assert_eq!(send(&plain, &[], Some(ca)).code(), Some(0));
}

#[test]
fn curl_refuses_a_server_that_its_authority_has_not_signed() {
    let (authority, other) = (Authority::new(), Authority::new());
    let server = server(&authority, &[]);
    let url = format!("{}/healthz", server.tls_url());
    let ca = other.ca();
    let Some(done) = tool("curl", &["-sS", "--cacert", ca.to_str().unwrap(), &url]) else { return };
    assert_eq!(done.code(), Some(60), "{done:?}");
}

#[test]
fn expired_certificate_is_taken_with_a_warning_and_refused_by_clients() {
    let authority = Authority::new();
    let pair = authority.issue_until("old", &["localhost"], 2020).options();
    let server = Server::start(&["--tls-api=127.0.0.1:0", &pair[0], &pair[1]]);
    let said = server.stderr();
    assert!(said.contains("has expired on 2020-01-01T00:00:00Z"), "{said}");
    let ca = authority.ca();
    let done = send(&server.tls_url(), &["--ca", ca.to_str().unwrap()], None);
    assert_eq!(done.code(), Some(1), "{done:?}");
    assert!(done.stderr.contains("has expired"), "{done:?}");
    let metric = "encke_tls_certificate_expiry_timestamp_seconds{name=\"localhost\"} 1577836800";
    assert!(server.api.get("/metrics").body.contains(metric));
}

#[test]
fn plain_http_on_the_port_of_tls_is_told_so() {
    let authority = Authority::new();
    let server = server(&authority, &[]);
    for request in [get("/healthz", &[]), "POST /send HTTP/1.1\r\nHost: x\r\n\r\n".into()] {
        let mut wire = Wire::connect(server.tls_api());
        wire.send(request);
        let answer = read_answer(&mut wire, "GET").unwrap();
        assert!(answer.problem(400)["detail"].as_str().unwrap().contains("https://"));
        assert_eq!(answer.head.field("connection"), Some("close"));
        assert_eq!(wire.rest(), b"");
    }
    assert!(server.api.get("/metrics").body.contains("{outcome=\"plain\"} 2\n"));
}

#[test]
fn session_s_cookie_is_secure_over_tls() {
    let authority = Authority::new();
    let data = tempfile::tempdir().unwrap();
    let key = new_key(data.path(), &["--scope=read"]);
    let pair = authority.issue("own", &["localhost"]).options();
    let server = Server::start_in(data.path(), &["--tls-api=127.0.0.1:0", &pair[0], &pair[1]]);
    let ca = authority.ca();
    let begin = |url: &str| {
        let (form, origin) = (format!("key={key}"), format!("Origin: {url}"));
        let url = format!("{url}/session");
        let args = ["-sSi", "--cacert", ca.to_str().unwrap(), "-d", &form, "-H", &origin, &url];
        tool("curl", &args).map(|done| done.stdout.to_ascii_lowercase())
    };
    let Some(head) = begin(&server.tls_url()) else { return };
    let cookie = head.lines().find(|line| line.starts_with("set-cookie")).unwrap();
    assert!(cookie.contains("; secure") && cookie.contains("; httponly"), "{cookie}");
    // It would hold for the plain ports of the same host too.
    assert!(!head.contains("strict-transport-security"), "{head}");
    let plain = begin(&format!("http://localhost:{}", server.api.address().port())).unwrap();
    assert!(plain.contains("set-cookie") && !plain.contains("; secure"), "{plain}");
}

#[test]
fn names_of_the_certificate_are_names_of_the_server() {
    let authority = Authority::new();
    let pair = authority.issue("own", &["named.test", "*.wild.test"]).options();
    let server = Server::start(&["--tls-api=127.0.0.1:0", &pair[0], &pair[1]]);
    let ports = [(server.api.address(), "/healthz"), (server.listen(), "/poll/1?wait=0")];
    for (name, status) in [("named.test", 200), ("other.test", 421), ("a.wild.test", 421)] {
        for (address, path) in ports {
            let mut wire = Wire::connect(address);
            wire.send(format!(
                "GET {path} HTTP/1.1\r\nHost: {name}\r\nOrigin: http://{name}\r\n\r\n"
            ));
            let found = read_answer(&mut wire, "GET").unwrap().status();
            assert_eq!(found, status, "{name} at {path}");
        }
    }
}

#[test]
fn api_may_be_at_the_port_of_tls_alone() {
    let authority = Authority::new();
    let server = server(&authority, &["--api=none"]);
    assert_eq!(server.api.address(), server.tls_api(), "there is no other");
    let ca = authority.ca();
    assert_eq!(send(&server.tls_url(), &["--ca", ca.to_str().unwrap()], None).code(), Some(0));
    assert_eq!(server.stop("TERM").code(), Some(0));
}

#[test]
fn start_lines_have_the_scheme() {
    let authority = Authority::new();
    let (data, pair) = (tempfile::tempdir().unwrap(), authority.issue("own", &["a.test"]));
    let mut command = encke(["serve", "--listen=127.0.0.1:0", "--api=127.0.0.1:0"]);
    let key = data.path().join("mercure.key");
    std::fs::write(&key, "a key of more than thirty-two bytes for this test").unwrap();
    command.arg("--tls-api=127.0.0.1:0").args(["--streams", "--mercure-key"]).arg(key);
    let program = Program::spawn(command.arg("--data").arg(data.path()).args(pair.options()));
    for start in [
        "streams  http://127.",
        "API      http://127.",
        "API      https://127.",
        "mercure  http://127.",
        "durable  http://127.",
        "look     http://127.",
    ] {
        let line = program.line();
        assert!(line.starts_with(start), "{line}");
    }
}

#[test]
fn without_keys_the_port_of_tls_stays_on_loopback_too() {
    let authority = Authority::new();
    let data = tempfile::tempdir().unwrap();
    let pair = authority.issue("own", &["localhost"]);
    let start = |api: &str| {
        let mut command = encke(["serve", "--json", "--listen=127.0.0.1:0", "--api=none", api]);
        command.arg("--data").arg(data.path()).args(pair.options());
        command
    };
    let refused = Program::run(&mut start("--tls-api=0.0.0.0:0"));
    assert_eq!(refused.code(), Some(1), "{refused:?}");
    assert!(refused.stderr.contains("encke key new") && refused.stderr.contains("--tls-api"));
    new_key(data.path(), &["--scope=read"]);
    let server = Server::of(Program::spawn(&mut start("--tls-api=0.0.0.0:0")));
    assert!(server.tls_api().ip().is_unspecified());
}

#[test]
fn what_cannot_be_used_ends_the_start() {
    let authority = Authority::new();
    let (one, two) = (authority.issue("one", &["a.test"]), authority.issue("two", &["b.test"]));
    let [one_cert, one_key] = one.options();
    let [_, two_key] = two.options();
    let tls = "--tls-api=127.0.0.1:0";
    for (args, code, word) in [
        (&[tls][..], 1, "--tls-cert"),
        (&[tls, &one_cert], 2, "--tls-key never"),
        (&[tls, &one_cert, &one_key, &two_key], 2, "--tls-key 2 times"),
        (&[tls, &one_cert, &two_key], 1, "is not that of"),
        (&["--api=none"], 2, "--tls-api"),
        (&["--listen=none"], 2, "--listen"),
    ] {
        let data = tempfile::tempdir().unwrap();
        let ports = ["--listen=127.0.0.1:0", "--api=127.0.0.1:0"];
        let given = |name: &str| args.iter().any(|arg| arg.starts_with(name));
        let ports = ports.iter().filter(|port| !given(port.split('=').next().unwrap()));
        let mut command = encke(["serve"]);
        command.args(ports).args(args).arg("--data").arg(data.path());
        let finished = Program::run(&mut command);
        assert_eq!(finished.code(), Some(code), "{args:?} {finished:?}");
        assert!(finished.stderr.contains(word), "{word}: {finished:?}");
    }
}

#[test]
fn key_that_everybody_can_read_is_told() {
    use std::os::unix::fs::PermissionsExt;
    let authority = Authority::new();
    let pair = authority.issue("own", &["localhost"]);
    let start = || {
        let options = pair.options();
        Server::start(&["--tls-api=127.0.0.1:0", &options[0], &options[1]]).stderr()
    };
    assert!(!start().contains("chmod"));
    std::fs::set_permissions(&pair.key, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(start().contains("own.key: chmod o="));
}

/// The figure whose line begins so.
pub(crate) fn metric(server: &Server, start: &str) -> u64 {
    metric_if_any(server, start).unwrap_or_else(|| panic!("no {start}"))
}

/// The same of a family whose lines are there only once there is something to count.
pub(crate) fn metric_if_any(server: &Server, start: &str) -> Option<u64> {
    let metrics = server.api.get("/metrics").body;
    let value = metrics.lines().find_map(|line| line.strip_prefix(start));
    value.map(|value| value.trim().parse().unwrap())
}

/// The certificate that openssl is shown, in PEM, when it calls `address` by `name`.
pub(crate) fn shown(address: SocketAddr, name: Option<&str>) -> Option<String> {
    let address = address.to_string();
    let fixed = ["s_client", "-showcerts", "-connect", &address];
    let name = name.map_or(vec!["-noservername"], |name| vec!["-servername", name]);
    let said = tool("openssl", &[&fixed[..], &name].concat())?.stdout;
    let start = said.find("-----BEGIN").unwrap_or_else(|| panic!("{said}"));
    let end = said[start..].find("-----END").unwrap();
    Some(said[start..start + end].to_owned())
}
