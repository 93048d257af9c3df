//! `flood`, `spam`, `watch` and `demo` over TLS: their accounts agree with the server's.

use crate::harness::{Authority, Program, Server, encke, wait_for};
use crate::instruments::{end, expect_no_loss, flood_at, report, spam_at};

struct Secured {
    authority: Authority,
    server: Server,
}

impl Secured {
    fn start() -> Secured {
        let authority = Authority::new();
        let pair = authority.issue("own", &["localhost"]).options();
        let own = ["--tls-listen=127.0.0.1:0", "--tls-api=127.0.0.1:0", &pair[0], &pair[1]];
        let server = Server::start(&own);
        Secured { authority, server }
    }

    fn ca(&self) -> String {
        format!("--ca={}", self.authority.ca().display())
    }

    fn url(&self, host: &str) -> String {
        format!("https://{host}:{}", self.server.tls_listen().port())
    }

    fn api(&self) -> String {
        format!("https://localhost:{}", self.server.tls_api().port())
    }
}

/// A connection counts as open before its handshake is done.
fn wait_online(flood: &Program) {
    wait_for("everybody is online", || flood.stderr().contains(" open 200 "));
}

#[test]
fn every_transport_loses_nothing_by_either_version() {
    let ways = [
        ("sse", "1.3", &[][..]),
        ("sse", "1.2", &["--post"]),
        ("ndjson", "1.2", &[]),
        ("classic", "1.3", &["--payload=40000"]),
        ("websocket", "1.3", &["--post", "--connections=3"]),
        ("websocket", "1.2", &["--payload=40000"]),
        ("poll", "1.3", &[]),
        ("poll", "1.2", &["--payload=40000"]),
    ];
    for (transport, version, options) in ways {
        let secured = Secured::start();
        let ca = secured.ca();
        let max = format!("--tls-max={version}");
        let flood = flood_at(&secured.server, &secured.url("localhost"), transport, &[&ca, &max]);
        let shaken = format!(
            "encke_tls_handshakes_total{{version=\"{version}\",suite=\"aes_128_gcm\",\
             resumed=\"false\"}} 200\n"
        );
        wait_for(&shaken, || secured.server.api.get("/metrics").body.contains(&shaken));
        wait_online(&flood);
        let spam = spam_at(&secured.api(), &[&[&*ca], options].concat());
        if transport == "poll" {
            // What is delivered to nobody between two polls is heard all the same.
            let sent = spam["sent"].as_u64().unwrap();
            let flood = end(flood, sent);
            assert_eq!((&flood["missing"], &flood["doubled"]), (&0.into(), &0.into()), "{flood}");
            continue;
        }
        let flood = end(flood, spam["delivered"].as_u64().unwrap());
        expect_no_loss(&secured.server, &spam, &flood);
    }
}

#[test]
fn who_comes_back_from_a_storm_over_tls_hears_what_it_missed() {
    let secured = Secured::start();
    for (transport, left) in [("sse", 100), ("websocket", 200)] {
        let storm =
            ["--resume", "--storm-after=1.5", "--vanish=0", "--come-back=0.5", "--away=0.3"];
        let ca = secured.ca();
        let options = [&[&*ca], &storm[..]].concat();
        let flood = flood_at(&secured.server, &secured.url("localhost"), transport, &options);
        wait_online(&flood);
        let spam = spam_at(&secured.api(), &[&ca]);
        // Half are reset, by one server, and come back.
        secured.server.wait_closed("client_reset", left);
        let said = flood.stderr().len();
        wait_for("all are back", || flood.stderr()[said..].contains(" open 200 "));
        let flood = end(flood, spam["sent"].as_u64().unwrap());
        assert_eq!(flood["trouble"]["storm"]["returned"], 100, "{flood}");
        assert_eq!((&flood["events"], &flood["missing"]), (&spam["sent"], &0.into()), "{flood}");
        secured.server.wait_open(0);
    }
}

#[test]
fn server_that_nobody_vouches_for_is_not_taken() {
    let secured = Secured::start();
    let other = Authority::new();
    let foreign = format!("--ca={}", other.ca().display());
    let own = secured.ca();
    let url = |host: &str| format!("{}/stream/{{id}}", secured.url(host));
    for (url, ca) in [(url("localhost"), &foreign), (url("127.0.0.1"), &own)] {
        let args = ["flood", "--users=3", "--seconds=10", "--json", "--url", &url, ca];
        let finished = Program::run(&mut encke(args));
        assert_eq!(finished.code(), Some(1), "{finished:?}");
        let last = finished.stderr.lines().last().unwrap();
        assert!(last.contains("TLS") && last.contains("--ca"), "{finished:?}");
    }
    for command in ["spam", "watch"] {
        let mut wrong = encke([command, "--seconds=1", "--api", &secured.api(), &foreign]);
        wrong.args((command == "watch").then_some("--output=-"));
        let finished = Program::run(&mut wrong);
        assert_eq!(finished.code(), Some(1), "{finished:?}");
        assert!(finished.stderr.contains("certificate"), "{finished:?}");
    }
    // Nobody speaks TLS at a plain port, and the other way round.
    let plain = format!("{}/stream/{{id}}", secured.server.url().replace("http:", "https:"));
    let bare = url("localhost").replace("https:", "http:");
    for url in [plain, bare] {
        let args = ["flood", "--users=3", "--seconds=5", "--json", "--url", &url, &own];
        let finished = Program::run(&mut encke(args));
        assert_eq!(finished.code(), Some(1), "{finished:?}");
    }
    secured.server.wait_open(0);
}

#[test]
fn demo_over_tls_loses_nothing() {
    let demo = ["demo", "--listen=127.0.0.1:0", "--api=127.0.0.1:0", "--json", "--tls"];
    // Its own rate is more than a busy machine sends in time, which the demo takes for a fault.
    let options = ["--users=200", "--seconds=2", "--rate=200"];
    let finished = Program::run(encke(demo).args(options));
    let told = report(&finished);
    assert_eq!((&told["lost"], &told["flood"]["opened"]), (&0.into(), &200.into()), "{told}");
    assert!(finished.stderr.contains("https://localhost:"), "{finished:?}");
}
