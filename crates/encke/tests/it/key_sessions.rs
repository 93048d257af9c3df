//! Who shows no good key, or a cookie instead: wrong keys are slowed, the dashboard logs in, and a
//! secret is told to nobody.

use std::fs;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use super::keys::{new_key, revoke, server, unauthorized};
use crate::harness::{Answer, Program, Wire, encke, read_answer, wait_for};

/// What a page of the server itself says, as [`Api`] calls it.
const OWN: &str = "Origin: http://localhost";

/// A connection to `to` from another address of this machine.
fn connect_from(source: [u8; 4], to: SocketAddr) -> Wire {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((source, 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    Wire::from(std::net::TcpStream::from(socket))
}

fn ask(wire: &mut Wire, key: &str) -> Answer {
    wire.send(format!("GET /stats HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\r\n"));
    read_answer(wire, "GET").unwrap()
}

#[test]
fn wrong_keys_are_slowed_by_address_and_nobody_else_is() {
    let (server, data) = server(&[]);
    let key = new_key(data.path(), &["--scope=read"]);
    let wrong = format!("{}A{}", &key[..30], &key[31..]);
    let wrong = if wrong == key { format!("{}B{}", &key[..30], &key[31..]) } else { wrong };
    let address = server.api.address();
    let started = Instant::now();
    let mut wire = connect_from([127, 0, 0, 2], address);
    for _ in 0..10 {
        unauthorized(&ask(&mut wire, &wrong));
    }
    for _ in 0..4 {
        unauthorized(&ask(&mut wire, &wrong));
    }
    assert!(started.elapsed() >= Duration::from_millis(900), "four turns: {:?}", started.elapsed());
    // A right key of the same address waits for none.
    ask(&mut wire, &key).ok();
    // So many at one time that there is no turn left.
    let mut crowd: Vec<Wire> = (0..40).map(|_| connect_from([127, 0, 0, 2], address)).collect();
    for wire in &mut crowd {
        wire.send(format!(
            "GET /stats HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {wrong}\r\n\r\n"
        ));
    }
    let answers: Vec<Answer> =
        crowd.iter_mut().rev().map(|wire| read_answer(wire, "GET").unwrap()).collect();
    let count = |status: u16| answers.iter().filter(|answer| answer.status() == status).count();
    assert!(count(429) >= 8 && count(401) >= 8, "{} and {}", count(429), count(401));
    assert_eq!(count(429) + count(401), 40);
    let slowed = answers.iter().find(|answer| answer.status() == 429).unwrap();
    assert_eq!(slowed.head.field("retry-after"), Some("1"));
    slowed.problem(429);
    // All the while another address has its answers at once.
    let mut other = connect_from([127, 0, 0, 3], address);
    unauthorized(&ask(&mut other, &wrong));
    ask(&mut other, &key).ok();
    let metrics = server.api.with_key(&key).get("/metrics").body;
    for reason in ["unknown", "slowed"] {
        let name = format!("encke_api_refusals_total{{reason=\"{reason}\"}} ");
        let count = metrics.lines().find_map(|line| line.strip_prefix(&name)).unwrap();
        assert!(count.parse::<u64>().unwrap() >= 8, "{reason} {count}");
    }
}

#[test]
fn wrong_keys_behind_a_trusted_proxy_slow_those_who_show_them() {
    let (server, data) = server(&["--trust=127.0.0.2"]);
    let key = new_key(data.path(), &["--scope=read"]);
    let wrong = format!("{}{}", &key[..30], if key.ends_with('A') { "B" } else { "A" });
    let ask = |from: u8, fields: &str| {
        let mut wire = connect_from([127, 0, 0, from], server.api.address());
        wire.send(format!(
            "GET /stats HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {wrong}\r\n{fields}\r\n"
        ));
        wire
    };
    let statuses = |wires: Vec<Wire>| -> Vec<u16> {
        wires
            .into_iter()
            .rev()
            .map(|mut wire| read_answer(&mut wire, "GET").unwrap().status())
            .collect()
    };
    let crowd = |fields: &str| (0..40).map(|_| ask(2, fields)).collect::<Vec<Wire>>();
    let slowed = crowd("X-Forwarded-For: 9.9.9.9, 203.0.113.1\r\n");
    let other = ask(2, "Forwarded: for=203.0.113.2\r\n");
    assert_eq!(statuses(vec![other]), [401], "it is another");
    assert!(statuses(slowed).contains(&429));
    // Who is not trusted is itself, whatever it says.
    let claims = (0..40).map(|n| ask(3, &format!("X-Forwarded-For: 203.0.113.{n}\r\n"))).collect();
    assert!(statuses(claims).contains(&429));
}

#[test]
fn secret_of_a_key_is_nowhere_but_with_its_user() {
    let (server, data) = server(&["--log-level=trace"]);
    let key = new_key(data.path(), &["--scope=admin"]);
    let secret = key.splitn(3, '_').nth(2).unwrap()[..20].to_owned();
    let api = server.api.with_key(&key);
    let mut said = api.get("/metrics").body + &api.get("/stats").body;
    said += &api.get("/nowhere").body;
    said += &api.with(&[&format!("Authorization: Bearer {key}x")]).get("/stats").body;
    said += &api.with(&[&format!("Authorization: Basic {key}")]).get("/stats").body;
    said += &api
        .with(&[&format!("Authorization: Bearer {key}"), "Authorization: Bearer x"])
        .get("/stats")
        .body;
    let form = format!("key={key}x");
    let login = api.with(&[OWN]).request("POST", "/session", None, form.as_bytes());
    said += &login.unwrap().body;
    for (args, variable) in [
        (vec!["send", "a", "1"], key.clone()),
        (vec!["send", "a", "1"], format!("{key}x")),
        (vec!["send", "a", "1"], format!("{key} x")),
        (vec!["send", "--help"], key.clone()),
        (vec!["spam", "--seconds=x"], key.clone()),
        (vec!["spam", "--users=1", "--seconds=0.2"], format!("{key} x")),
    ] {
        let url = server.api_url();
        let mut command = encke(args.iter().copied().chain(["--log-level=trace", "--api", &url]));
        let finished = Program::run(command.env("ENCKE_KEY", variable));
        said += &(finished.stdout + &finished.stderr);
    }
    wait_for("the server has told of the key", || server.stderr().contains("a key is there"));
    for entry in fs::read_dir(data.path()).unwrap().map(Result::unwrap) {
        // Its sockets keep nothing.
        if entry.file_type().unwrap().is_file() {
            said += &String::from_utf8_lossy(&fs::read(entry.path()).unwrap());
        }
    }
    said += &server.stop("TERM").stderr;
    assert!(!said.contains(&secret), "{said}");
}

#[test]
fn dashboard_is_opened_with_a_key_and_its_cookie_changes_nothing_from_elsewhere() {
    let (server, data) = server(&[]);
    let key = new_key(data.path(), &["--scope=read,send"]);
    let browser = server.api.with(&["Accept: text/html"]);
    let answer = browser.get("/");
    assert_eq!((answer.status(), answer.head.field("location")), (303, Some("/session")));
    let page = browser.get("/session");
    assert!(page.status() == 200 && page.body.contains("name=\"key\""), "{page:?}");
    let post = |fields: &[&str], path: &str, body: &str| {
        server.api.with(fields).request("POST", path, None, body.as_bytes()).unwrap()
    };
    let form = format!("key={key}");
    // Nobody else's page logs in.
    for fields in
        [&[][..], &["Origin: null"], &["Origin: http://evil.test"], &["Origin: http://localhost:1"]]
    {
        let answer = post(fields, "/session", &form);
        assert_eq!((answer.status(), answer.head.field("set-cookie")), (403, None), "{fields:?}");
    }
    assert_eq!(post(&[OWN], "/session", "key=encke_a_b").status(), 401);
    assert_eq!(post(&[OWN], "/session", &"x".repeat(2000)).status(), 413);
    let answer = post(&[OWN], "/session", &form);
    assert_eq!((answer.status(), answer.head.field("location")), (303, Some("/")), "{answer:?}");
    let field = answer.head.field("set-cookie").unwrap();
    let (cookie, rest) = field.split_once(';').unwrap();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(rest.contains(part), "{field}");
    }
    assert!(!field.contains("Secure") && !field.contains(&key), "{field}");
    let cookie = format!("Cookie: a=b; {cookie}");
    let event = "{\"about\":1,\"data\":1}";
    for (fields, status) in [
        (&[OWN][..], 200),
        (&[], 403),
        (&["Origin: null"], 403),
        (&["Origin: http://evil.test"], 403),
        // Another port is the same site, and another origin.
        (&["Origin: http://localhost:1"], 403),
    ] {
        let fields = [fields, &[cookie.as_str()]].concat();
        assert_eq!(post(&fields, "/send", event).status(), status, "{fields:?}");
    }
    assert_eq!(post(&[OWN, &cookie], "/logout/1", "").status(), 403, "the key is not for that");
    let session = server.api.with(&[&cookie]);
    assert_eq!(session.get("/").status(), 200);
    assert_eq!(session.get("/dashboard.json").ok()["session"], true);
    let by_key = server.api.with_key(&key).get("/dashboard.json").ok();
    assert_eq!(by_key["session"], false, "who shows a key has nothing to log out of");
    assert_eq!(
        server.api.with(&[&cookie, "Sec-Fetch-Site: same-site"]).get("/stats").status(),
        403
    );
    // A key beside it is what counts.
    server.api.with(&[&cookie, "Authorization: Bearer x"]).get("/stats").problem(401);
    assert_eq!(post(&[&cookie], "/session/end", "").status(), 403);
    assert_eq!(post(&[OWN, &cookie], "/session/end", "").status(), 303);
    unauthorized(&session.get("/stats"));
    // A session ends with its key.
    let answer = post(&[OWN], "/session", &form);
    let cookie = answer.head.field("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let session = server.api.with(&[&format!("Cookie: {cookie}")]);
    session.stats();
    revoke(data.path(), &key);
    unauthorized(&session.get("/stats"));
}

#[test]
fn cookie_is_secure_where_tls_ends_before_the_server() {
    let (server, data) = server(&[]);
    let form = format!("key={}", new_key(data.path(), &["--scope=read"]));
    let api = server.api.with(&["Origin: https://localhost"]);
    let answer = api.request("POST", "/session", None, form.as_bytes()).unwrap();
    assert_eq!(answer.status(), 303, "{answer:?}");
    assert!(answer.head.field("set-cookie").unwrap().ends_with("; Secure"), "{answer:?}");
}
