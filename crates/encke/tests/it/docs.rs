//! The pages name what a running server shows and takes: a figure, a reason, a path or an option
//! that nobody can look up is no use to anybody.

use serde_json::Value;

use crate::harness::{Authority, Program, Server, TOKEN_SECRET, encke};
use crate::tls_api;

const PROTOCOL: &str = include_str!("../../../../docs/protocol.md");
const API: &str = include_str!("../../../../docs/api.md");
const MONITORING: &str = include_str!("../../../../docs/monitoring.md");
const CLUSTER: &str = include_str!("../../../../docs/cluster.md");
const TLS: &str = include_str!("../../../../docs/tls.md");

/// The pages that explain options.
const PAGES: [&str; 18] = [
    PROTOCOL,
    API,
    MONITORING,
    TLS,
    CLUSTER,
    include_str!("../../../../docs/erlang.md"),
    include_str!("../../../../docs/keep.md"),
    include_str!("../../../../docs/keys.md"),
    include_str!("../../../../docs/mercure.md"),
    include_str!("../../../../docs/operations.md"),
    include_str!("../../../../docs/postgres.md"),
    include_str!("../../../../docs/publish.md"),
    include_str!("../../../../docs/pusher.md"),
    include_str!("../../../../docs/rate-limits.md"),
    include_str!("../../../../docs/tokens.md"),
    include_str!("../../../../docs/traces.md"),
    include_str!("../../../../docs/streams.md"),
    include_str!("../../../../docs/upgrade.md"),
];

/// Whether `page` has `word` as code, perhaps with labels or a value behind it.
fn names(page: &str, word: &str) -> bool {
    let quoted = format!("`{word}");
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    page.match_indices(&quoted).any(|(at, _)| !page[at + quoted.len()..].starts_with(is_part))
}

fn members(value: &Value) -> Vec<&String> {
    value.as_object().unwrap().keys().collect()
}

#[test]
fn pages_name_every_metric() {
    let authority = Authority::new();
    let token_key = format!("--token-key={}", TOKEN_SECRET);
    let mercure_key = format!("--mercure-key={}", TOKEN_SECRET);
    let options = [&*token_key, &mercure_key, "--otlp=http://127.0.0.1:9"];
    let server = tls_api::server(&authority, &options);
    let text = server.api.get("/metrics").body;
    let families = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let mut missing: Vec<&str> = families.filter_map(|line| line.split(' ').next()).collect();
    assert!(missing.len() > 20, "{text}");
    missing.retain(|name| {
        let page = if name.contains("_tls_") { TLS } else { MONITORING };
        !names(page, name)
    });
    assert_eq!(missing, [""; 0]);
}

#[test]
fn cluster_page_names_every_metric_of_a_node() {
    let Some(program) = testing::nats_current() else { return };
    let nats = testing::NatsServer::start(&program);
    let node = Server::start(&["--cluster=c", &format!("--nats={}", nats.url())]);
    let text = node.api.get("/metrics").body;
    let families = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let names_of = families.filter_map(|line| line.split(' ').next());
    let mut missing: Vec<&str> =
        names_of.filter(|name| name.contains("_cluster_") || name.contains("_nats_")).collect();
    assert!(missing.len() > 10, "{text}");
    missing.retain(|name| !names(CLUSTER, name));
    assert_eq!(missing, [""; 0]);
}

#[test]
fn pages_name_every_reason_transport_path_and_status() {
    let server = Server::start(&[]);
    let stats = server.api.stats();
    let document = server.api.get("/openapi.json").ok();
    let mut missing = members(&stats["connections_closed"]);
    missing.retain(|reason| !names(PROTOCOL, reason));
    let transports = members(&stats["streams_open"]);
    missing.extend(transports.into_iter().filter(|transport| !names(MONITORING, transport)));
    // The files of the dashboard are its own affair.
    let is_file = |path: &str| [".js", ".css", ".svg"].iter().any(|end| path.ends_with(end));
    let paths = members(&document["paths"]);
    missing.extend(paths.into_iter().filter(|path| !is_file(path) && !API.contains(*path)));
    assert_eq!(missing, [""; 0]);
    for (path, operation) in document["paths"].as_object().unwrap() {
        let operations = operation.as_object().unwrap().values();
        for status in operations.flat_map(|operation| members(&operation["responses"])) {
            let listed = status.starts_with(['2', '3']) || API.contains(&format!("| {status}"));
            assert!(listed || API.contains(&format!(", {status} |")), "{status} of {path}");
        }
    }
}

/// Each option that bounds something, names something or makes the server a node is explained where
/// people look it up.
#[test]
fn pages_name_every_option_of_the_server() {
    let help = Program::spawn(&mut encke(["serve", "--help"])).finish().stdout;
    let options: Vec<&str> = help
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("--"))
        .filter_map(|line| line.split([' ', ',']).next())
        .collect();
    assert!(options.len() > 20, "{help}");
    let pages = PAGES.concat();
    let mut missing = options;
    missing.retain(|option| !names(&pages, &format!("--{option}")));
    assert_eq!(missing, [""; 0]);
}
