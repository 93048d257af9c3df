//! Every figure that the queries of Prometheus and Grafana name is in `/metrics`. Prometheus' own
//! tool reads the alerts, tries them, and reads every query of the dashboard.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::Value;

use super::{folder, text};
use crate::harness::{Program, Server};
use crate::trusted_proxies::is_here;

/// Where names of figures stand in `/metrics`, and their labels after them.
fn figures() -> BTreeSet<String> {
    // With something of everything that has labels, and what is switched on.
    let apps = tempfile::NamedTempFile::new().unwrap();
    fs::write(apps.path(), "[]").unwrap();
    let apps = format!("--pusher-apps={}", apps.path().display());
    let secret = tempfile::NamedTempFile::new().unwrap();
    fs::write(secret.path(), "a secret of more than thirty-two bytes").unwrap();
    let secret = format!("--webhook-secret-file={}", secret.path().display());
    let webhooks = ["--webhook=http://127.0.0.1:9/", &secret, &apps];
    let server = Server::start(&[&["--workers=2", "--keep=*=1h"], &webhooks[..]].concat());
    let _stream = server.listener("1");
    server.api.send("1", 1);
    let metrics = server.api.get("/metrics").body;
    let lines = metrics.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split(['{', ' ']).next().unwrap().to_owned()).collect()
}

/// The figures that a query names: words that begin as ours do.
fn named(query: &str) -> impl Iterator<Item = &str> {
    let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("encke_") || word.starts_with("process_"))
}

fn queries_of_dashboard() -> Vec<String> {
    fn gather(value: &Value, queries: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                queries.extend(members.get("expr").and_then(Value::as_str).map(Into::into));
                members.values().for_each(|value| gather(value, queries));
            }
            Value::Array(values) => values.iter().for_each(|value| gather(value, queries)),
            _ => {}
        }
    }
    let mut queries = Vec::new();
    gather(&serde_json::from_str(&text("monitoring/grafana.json")).unwrap(), &mut queries);
    queries
}

#[test]
fn every_figure_of_dashboard_and_alerts_is_in_metrics() {
    let figures = figures();
    let queries = queries_of_dashboard();
    assert!(queries.len() > 20, "{queries:?}");
    for query in &queries {
        let names: Vec<&str> = named(query).collect();
        assert!(!names.is_empty(), "{query}");
        for name in names {
            assert!(figures.contains(name), "{name} of {query} is not in /metrics");
        }
    }
    let alerts = text("monitoring/alerts.yaml");
    let rules = alerts.lines().filter(|line| !line.contains("description:"));
    let rules: Vec<&str> = rules.collect();
    let named: Vec<&str> = rules.iter().flat_map(|line| named(line)).collect();
    assert!(named.len() >= 10, "{named:?}");
    // A node has some of its own.
    let of_nodes = fs::read_to_string(folder("../docs/cluster.md")).unwrap();
    let is_there = |name: &str| figures.contains(name) || of_nodes.contains(&format!("`{name}`"));
    named.iter().for_each(|name| assert!(is_there(name), "{name} is not in /metrics"));
}

#[test]
fn panels_have_numbers_and_places_of_their_own() {
    let dashboard: Value = serde_json::from_str(&text("monitoring/grafana.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len());
    let mut squares = BTreeSet::new();
    for panel in panels {
        let of = |name: &str| panel["gridPos"][name].as_u64().unwrap();
        assert!(of("x") + of("w") <= 24, "{panel}");
        for (x, y) in (0..of("w")).flat_map(|x| (0..of("h")).map(move |y| (x, y))) {
            assert!(squares.insert((of("x") + x, of("y") + y)), "{panel} lies on another");
        }
    }
}

#[test]
fn promtool_reads_and_tries_what_prometheus_is_given() {
    if !is_here("promtool") {
        return testing::skip("promtool is not installed");
    }
    let promtool = |arguments: &[&str]| {
        let mut command = Command::new("promtool");
        let finished = Program::run(command.args(arguments).current_dir(folder("monitoring")));
        assert_eq!(finished.code(), Some(0), "{arguments:?}: {finished:?}");
    };
    promtool(&["check", "config", "prometheus.yaml"]);
    promtool(&["check", "rules", "alerts.yaml"]);
    promtool(&["test", "rules", "alerts.test.yaml"]);
    // The dashboard's queries as rules, with what Grafana puts into them.
    let mut rules = "groups:\n  - name: dashboard\n    rules:\n".to_owned();
    for (number, query) in queries_of_dashboard().iter().enumerate() {
        let query = query.replace("$__rate_interval", "1m").replace("$instance", ".*");
        let query = serde_json::to_string(&query).unwrap();
        rules += &format!("      - {{ record: \"q{number}\", expr: {query} }}\n");
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rules.yaml");
    fs::write(&file, &rules).unwrap();
    promtool(&["check", "rules", file.to_str().unwrap()]);
    // It would see a slip.
    fs::write(&file, rules.replace("sum by (", "sum by ((")).unwrap();
    let mut slip = Command::new("promtool");
    let slip = Program::run(slip.args(["check", "rules"]).arg(&file));
    assert_ne!(slip.code(), Some(0), "{slip:?}");
}
