//! The settings of `deploy/proxies` at work: Caddy, nginx and HAProxy before a server, with other
//! ports and a certificate of the test's authority. Through each, by TLS: an event on every
//! transport, at once, and the client's own address.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::text;
use crate::address_limits::own_address;
use crate::harness::{Authority, Program, Server, get, tls_client};
use crate::trusted_proxies::{is_here, start};

const NAME: &str = "push.example.org";

/// A server that believes its proxy, and one before it.
struct World {
    server: Server,
    authority: Authority,
    certificate: PathBuf,
    key: PathBuf,
    dir: TempDir,
    port: u16,
}

impl World {
    /// `None`, and the test is skipped, where `program` is missing.
    fn before(program: &str) -> Option<World> {
        if !is_here(program) {
            testing::skip(&format!("{program} is not installed"));
            return None;
        }
        let host = format!("--public-host={NAME}");
        let options = ["--trust=127.0.0.1", "--open", &host, "--max-connections-per-address=2"];
        let server = Server::start(&options);
        let authority = Authority::new();
        let issued = authority.issue("own", &[NAME]);
        let port = testing::free_port();
        let dir = tempfile::tempdir().unwrap();
        Some(World {
            server,
            authority,
            certificate: issued.certificate,
            key: issued.key,
            dir,
            port,
        })
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let file = self.dir.path().join(name);
        fs::write(&file, text).unwrap();
        file
    }

    /// What `words` of the committed settings are here. Each must be there.
    #[track_caller]
    fn settings(&self, path: &str, words: &[(&str, &str)]) -> String {
        let api = self.server.api.address().port().to_string();
        let listen = self.server.listen().to_string();
        let own = [("127.0.0.1:8000", listen), ("port 8001", format!("port {api}"))];
        let mut settings = text(path);
        for (word, here) in own {
            settings = settings.replace(word, &here);
        }
        for (word, here) in words {
            assert!(settings.contains(word), "{word} is not in {path}");
            settings = settings.replace(word, here);
        }
        settings
    }

    fn client(&self, address: IpAddr) -> impl Read + Write {
        tls_client(SocketAddr::new(address, self.port), NAME, &self.authority.ca())
    }

    /// Asks for `path` with `fields`, sends an event when that is online, and waits for it: the
    /// stream goes on, so a proxy that waits for more never shows it.
    fn hears(&self, path: &str, fields: &[&str], event: &str) {
        let mut client = self.client([127, 0, 0, 1].into());
        client.write_all(asked(path, fields).as_bytes()).unwrap();
        self.server.wait_online("1", 1);
        assert_eq!(self.server.api.send("1", event), 1);
        let heard = read_through(&mut client, event);
        // Asked for without its upgrade, it would be another stream.
        let status = if event == "by WebSocket" { "HTTP/1.1 101 " } else { "HTTP/1.1 200 " };
        assert!(heard.starts_with(status), "{event}: {heard}");
        drop(client);
        // It notices that its client has gone.
        self.server.wait_online("1", 0);
    }

    /// A foreign client has its two connections and not a third, whomever it claims to be each
    /// time.
    fn counts(&self, foreign: IpAddr) {
        let open = |claim: &str, answer: &str| {
            let claim = format!("X-Forwarded-For: {claim}");
            let mut client = self.client(foreign);
            client.write_all(asked("/stream/2", &[&claim]).as_bytes()).unwrap();
            let heard = read_through(&mut client, "\r\n\r\n");
            assert!(heard.starts_with(answer), "{claim}: {heard}");
            client
        };
        let _two = ["9.9.9.1", "9.9.9.2"].map(|claim| open(claim, "HTTP/1.1 200 OK"));
        open("9.9.9.3", "HTTP/1.1 429 ");
    }

    fn check(&self, _proxy: &Program) {
        self.hears("/stream/1", &["Accept: text/event-stream"], "by SSE");
        self.hears("/stream/1", &["Accept: application/x-ndjson"], "by NDJSON");
        self.hears("/poll/1?wait=60", &[], "by poll");
        let upgrade = [
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        ];
        self.hears("/stream/1", &upgrade, "by WebSocket");
        match own_address() {
            Some(foreign) => self.counts(foreign),
            None => testing::skip("this machine has no address beside loopback"),
        }
    }
}

/// A request to the name that the proxy has.
fn asked(path: &str, fields: &[&str]) -> String {
    get(path, fields).replacen("Host: localhost", &format!("Host: {NAME}"), 1)
}

/// Reads until `word` has come. The stream goes on, so this fails where a proxy waits for more.
fn read_through(client: &mut impl Read, word: &str) -> String {
    let mut heard = String::new();
    let mut piece = [0; 4096];
    while !heard.contains(word) {
        let len = client.read(&mut piece).unwrap_or_else(|error| panic!("{error} after {heard}"));
        assert_ne!(len, 0, "{word} has not come: {heard}");
        heard += &String::from_utf8_lossy(&piece[..len]);
    }
    heard
}

#[test]
fn caddy_passes_every_transport_on_at_once() {
    let Some(world) = World::before("caddy") else { return };
    let site = format!("https://{NAME}:{}", world.port);
    let (certificate, key) = (world.certificate.display(), world.key.display());
    let tls = format!("{site} {{\n\ttls {certificate} {key}\n");
    let settings = world.settings("proxies/Caddyfile", &[("\npush.example.org {\n", &tls)]);
    // Its certificate is given, so it asks nobody for one; and it takes no other port.
    let settings = format!("{{\n\tadmin off\n\tauto_https disable_redirects\n}}\n{settings}");
    let file = world.file("Caddyfile", &settings);
    let mut command = Command::new("caddy");
    command.args(["run", "--adapter", "caddyfile", "--config"]).arg(file);
    let home = world.dir.path();
    command.env("HOME", home).env("XDG_DATA_HOME", home).env("XDG_CONFIG_HOME", home);
    world.check(&start(&mut command, &[world.port]));
}

#[test]
fn nginx_passes_every_transport_on_at_once() {
    let Some(world) = World::before("nginx") else { return };
    let here = world.dir.path();
    let mut http = "\nhttp {\n".to_owned();
    for name in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        http += &format!("  {name}_temp_path {}/{name};\n", here.display());
    }
    let listen = format!("listen 0.0.0.0:{} ssl", world.port);
    let (certificate, key) =
        (world.certificate.display().to_string(), world.key.display().to_string());
    let words = [
        ("\nhttp {\n", http.as_str()),
        ("listen 443 ssl", &listen),
        ("/etc/nginx/push.pem", &certificate),
        ("/etc/nginx/push.key", &key),
    ];
    let settings = world.settings("proxies/nginx.conf", &words);
    let own = format!("daemon off; master_process off; pid {}/pid;\n", here.display());
    let file = world.file("nginx.conf", &(own + &settings));
    let mut command = Command::new("nginx");
    command.arg("-e").arg(here.join("error.log")).arg("-p").arg(here).arg("-c").arg(file);
    world.check(&start(&mut command, &[world.port]));
}

#[test]
fn haproxy_passes_every_transport_on_at_once() {
    let Some(world) = World::before("haproxy") else { return };
    let both = [&world.certificate, &world.key].map(|path| fs::read_to_string(path).unwrap());
    let both = world.file("both.pem", &both.concat()).display().to_string();
    let bind = format!("bind 0.0.0.0:{}", world.port);
    let words = [("bind :443", bind.as_str()), ("/etc/haproxy/push.pem", &both)];
    let settings = world.settings("proxies/haproxy.cfg", &words);
    let file = world.file("haproxy.cfg", &settings);
    world.check(&start(Command::new("haproxy").arg("-db").arg("-f").arg(file), &[world.port]));
}
