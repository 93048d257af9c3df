//! The figures of the Erlang side, for `/stats` and `/metrics`.

use erlang::End;
use serde::Serialize;
use serde_json::{Map, Value};

use super::gateway::Gateway;
use super::refusal::Refusal;

/// All figures at one moment.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Our node's name.
    pub node: String,
    /// Whether epmd knows it.
    pub registered: bool,
    /// Nodes connected now.
    pub nodes: usize,
    /// Processes logged in now.
    pub processes: usize,
    /// Bytes that wait to be written to nodes.
    pub waiting_bytes: usize,
    /// Since the start: processes logged in,
    pub logins: u64,
    /// events that nodes sent,
    pub events: u64,
    /// messages to processes,
    pub deliveries: u64,
    /// those that met their process too late or found its node gone,
    pub dropped: u64,
    /// nodes connected,
    pub connected: u64,
    /// connections that ended, by reason,
    pub ended: Map<String, Value>,
    /// requests that were not done, by reason,
    pub refused: Map<String, Value>,
    /// messages that nobody understands or that were for nobody,
    pub unknown: u64,
    /// messages that were too long to be read,
    pub oversized: u64,
    /// and handshakes that failed.
    pub handshakes_failed: u64,
}

impl Report {
    pub(super) fn of(gateway: &Gateway) -> Report {
        let Gateway { node, counts, .. } = gateway;
        let (processes, nodes): (_, Vec<_>) = {
            let registry = gateway.registry();
            (registry.processes.len(), registry.nodes.values().cloned().collect())
        };
        let by = |name: &str, count: u64| (name.to_owned(), Value::from(count));
        let ended = End::ALL.iter().zip(&counts.ended);
        let refused = Refusal::KINDS.iter().zip(&counts.refused);
        Report {
            node: node.name().to_owned(),
            registered: node.is_registered(),
            nodes: node.peers().len(),
            processes,
            waiting_bytes: nodes.iter().map(|node| node.waiting_bytes()).sum(),
            logins: counts.logins.read(),
            events: counts.events.read(),
            deliveries: counts.deliveries.read(),
            dropped: counts.dropped.read(),
            connected: counts.connected.read(),
            ended: ended.map(|(end, count)| by(end.as_str(), count.read())).collect(),
            refused: refused.map(|(kind, count)| by(kind, count.read())).collect(),
            unknown: counts.unknown.read(),
            oversized: node.oversized(),
            handshakes_failed: node.refused(),
        }
    }
}
