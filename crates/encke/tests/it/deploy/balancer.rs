//! The balancer of `deploy/compose` before nodes that start with the lines of its compose file, on
//! a NATS with its settings: what is committed, with other addresses and paths.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;
use testing::NatsServer;
use testing::postgres::Postgres;

use super::{compose, text};
use crate::harness::{Api, Program, Server, TOKEN_SECRET, Wire, encke, get, token_for, wait_for};
use crate::keys::new_key;
use crate::trusted_proxies::{is_here, start};

/// All but the balancer.
struct World {
    services: serde_json::Map<String, Value>,
    nats: NatsServer,
    postgres: Postgres,
    stores: TempDir,
}

impl World {
    /// `None`, and the test is skipped, where something of it is missing.
    fn new() -> Option<World> {
        if !is_here("haproxy") {
            testing::skip("haproxy is not installed");
            return None;
        }
        let services = compose::services()?;
        let program = testing::nats_current()?;
        let postgres = Postgres::start(&[])?;
        let settings = text("compose/nats.conf");
        let own = settings
            .lines()
            .filter(|line| !["listen:", "http:"].iter().any(|it| line.starts_with(it)));
        let settings = own.map(|line| format!("{line}\n")).collect::<String>();
        let settings =
            settings.replace("\"/data\"", "\"STORE\"").replace("$NATS_PASSWORD", "secret");
        let nats = NatsServer::with_settings(&program, &settings);
        Some(World { services, nats, postgres, stores: tempfile::tempdir().unwrap() })
    }

    fn store(&self, name: &str) -> PathBuf {
        self.stores.path().join(name)
    }

    /// The node `encke-NAME` as the compose file starts it.
    fn node(&self, name: &str) -> Server {
        let service = &self.services[&format!("encke-{name}")];
        let (store, address) = (self.store(name), self.nats.address());
        let line = compose::line(service).unwrap();
        let replaced = line.arguments.iter().map(|argument| match argument.split_once('=') {
            Some((option @ ("--listen" | "--api"), _)) => format!("{option}=127.0.0.1:0"),
            Some((option @ "--trust", _)) => format!("{option}=127.0.0.1"),
            Some((option @ "--token-key", _)) => format!("{option}={TOKEN_SECRET}"),
            _ => argument.clone(),
        });
        let mut command = encke(replaced);
        command.arg("--json").arg("--data").arg(store);
        for (variable, value) in service["environment"].as_object().unwrap() {
            let value = value.as_str().unwrap();
            let value = match variable.as_str() {
                "ENCKE_NATS" => replaced_part(
                    value,
                    "${NATS_PASSWORD:?see env.example}@nats:4222",
                    &format!("secret@{address}"),
                ),
                "ENCKE_POSTGRES" => replaced_part(
                    value,
                    "encke@postgres/encke",
                    &format!("postgres@127.0.0.1:{}/postgres", self.postgres.port()),
                ),
                "ENCKE_PUBLIC_HOST" => "push.example.org".into(),
                "ENCKE_ALLOW_ORIGIN" => "https://example.org".into(),
                "PGPASSWORD" => "secret".into(),
                _ => value.into(),
            };
            command.env(variable, value);
        }
        Server::of(Program::spawn(&mut command))
    }

    /// HAProxy with its settings before two nodes. The third one is away.
    fn balancer(&self, nodes: &[(&str, &Server)]) -> (Program, SocketAddr, SocketAddr) {
        let [streams, api] = [(); 2].map(|()| testing::free_port());
        let mut settings = String::new();
        for line in text("compose/haproxy.cfg").lines() {
            let mut line = line.to_owned();
            if line.trim_start().starts_with("server ") {
                let node = nodes.iter().find(|(name, _)| line.contains(&format!("encke-{name}:")));
                let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
                let (listen, api) = node
                    .map_or((nowhere, nowhere), |(_, node)| (node.listen(), node.api.address()));
                line = line.replace("port 8001", &format!("port {}", api.port()));
                let (before, rest) = line.split_once("encke-").unwrap();
                let (target, rest) = rest.split_once(' ').unwrap();
                let target = if target.ends_with(":8000") { listen } else { api };
                line = format!("{before}{target} {rest}");
            }
            line = line.replace("bind :8000", &format!("bind 127.0.0.1:{streams}"));
            line = line.replace("bind :8001", &format!("bind 127.0.0.1:{api}"));
            settings += &(line + "\n");
        }
        let file = self.stores.path().join("haproxy.cfg");
        fs::write(&file, settings).unwrap();
        let proxy = start(Command::new("haproxy").arg("-db").arg("-f").arg(&file), &[streams, api]);
        let here = |port| SocketAddr::from(([127, 0, 0, 1], port));
        (proxy, here(streams), here(api))
    }
}

#[track_caller]
fn replaced_part(text: &str, part: &str, by: &str) -> String {
    assert!(text.contains(part), "{part} in {text}");
    text.replace(part, by)
}

/// The keys of one node for another one, as `prepare` of the compose file hands them out.
fn hand_out_keys(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    fs::copy(from.join("keys.json"), to.join("keys.json")).unwrap();
}

/// A client that goes on where it was, through the balancer.
struct Client {
    wire: Wire,
    heard: Vec<u64>,
    place: Option<String>,
}

impl Client {
    fn connect(address: SocketAddr, place: Option<String>) -> std::io::Result<Wire> {
        let mut wire = Wire::try_connect(address)?;
        let token = format!("Authorization: Bearer {}", token_for("alice"));
        let mut fields = vec![token, "Accept: application/x-ndjson".to_owned()];
        fields.extend(place.map(|place| format!("Last-Event-ID: {place}")));
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        wire.try_send(get("/stream/alice", &fields))?;
        let head = wire.try_head()?;
        assert_eq!(head.status, 200, "{}", head.text);
        Ok(wire)
    }

    fn open(address: SocketAddr) -> Client {
        Client { wire: Client::connect(address, None).unwrap(), heard: Vec::new(), place: None }
    }

    /// Hears up to `last`, and comes back whenever its stream ends.
    fn hear_until(&mut self, address: SocketAddr, last: u64) {
        while self.heard.last() != Some(&last) {
            // Its last chunk is empty; one that is cut off is an error.
            let chunk = self.wire.chunk().unwrap_or_default();
            if chunk.is_empty() {
                wait_for("a client is back", || {
                    let wire = Client::connect(address, self.place.clone());
                    wire.map(|wire| self.wire = wire).is_ok()
                });
                continue;
            }
            let Ok(event) = serde_json::from_slice::<Value>(&chunk) else { continue };
            assert!(event.get("gap").is_none(), "{event}");
            self.place = Some(event["id"].as_str().unwrap().to_owned());
            self.heard.push(event["data"].as_u64().unwrap());
        }
    }
}

/// Sends `data`, through the balancer; whether it was acknowledged.
fn send(api: &Api, data: u64) -> bool {
    let sent = api.try_post("/send", &json!({ "about": "alice", "data": data }));
    sent.is_ok_and(|answer| answer.status() == 200)
}

#[test]
fn stream_through_the_balancer_goes_on_when_its_node_is_killed() {
    let Some(world) = World::new() else { return };
    let key = new_key(&world.store("a"), &["--scope=send,graph,read"]);
    hand_out_keys(&world.store("a"), &world.store("b"));
    let (first, second) = (world.node("a"), world.node("b"));
    let (_proxy, streams, api) = world.balancer(&[("a", &first), ("b", &second)]);
    let api = Api::new(api).with_key(&key);
    let mut clients: Vec<Client> = (0..8).map(|_| Client::open(streams)).collect();
    let all = || api.get("/connections/alice").ok();
    wait_for("all are online", || all()["connections"] == 8);
    for node in [&first, &second] {
        let own = node.api.with_key(&key);
        let open = own.stats()["connections_open"].as_u64().unwrap();
        assert!((1..8).contains(&open), "the balancer spreads them: {open}");
    }
    let (mut sent, mut known) = (0, Vec::new());
    let mut send_some = |count: u64| {
        for _ in 0..count {
            if send(&api, sent) {
                known.push(sent);
            }
            sent += 1;
        }
    };
    send_some(20);
    first.into_program().kill();
    send_some(20);
    assert!(known.len() >= 30, "sends go on through the other node: {known:?}");
    while !send(&api, 1_000) {}
    for client in &mut clients {
        client.hear_until(streams, 1_000);
        assert!(client.heard.is_sorted_by(|a, b| a < b), "in order, once: {:?}", client.heard);
        assert!(known.iter().all(|data| client.heard.contains(data)), "{:?}", client.heard);
    }
}

/// A node that takes no new work keeps its streams, so the balancer must keep them too.
#[test]
fn streams_stay_while_no_node_is_ready() {
    let Some(mut world) = World::new() else { return };
    let key = new_key(&world.store("a"), &["--scope=send,read"]);
    hand_out_keys(&world.store("a"), &world.store("b"));
    let (first, second) = (world.node("a"), world.node("b"));
    let (_proxy, streams, api) = world.balancer(&[("a", &first), ("b", &second)]);
    let api = Api::new(api).with_key(&key);
    let mut clients: Vec<Client> = (0..4).map(|_| Client::open(streams)).collect();
    assert!(send(&api, 0));
    world.nats.kill();
    wait_for("the balancer knows that no node is ready", || {
        Client::connect(streams, None).is_err()
    });
    world.nats.restart();
    wait_for("sends are taken again", || send(&api, 1));
    for client in &mut clients {
        let ended = || panic!("a stream ended while NATS was away");
        let heard: Vec<Value> = (0..2)
            .map(|_| {
                serde_json::from_slice(&client.wire.chunk().unwrap_or_else(|_| ended())).unwrap()
            })
            .collect();
        assert_eq!([&heard[0]["data"], &heard[1]["data"]], [&json!(0), &json!(1)]);
    }
}
