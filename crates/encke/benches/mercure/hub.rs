//! The server as a hub, its crowds of subscribers, and the tokens of its clients.

use std::sync::OnceLock;
use std::time::Duration;

use load::{Flood, FloodConfig};
use serde_json::{Value, json};
use sys::{clock, process};

use crate::harness::{Server, TOKEN_SECRET, signed};
use crate::{Outcome, START_MAX};

/// The hub's path.
pub(crate) const PATH: &str = "/.well-known/mercure";

/// A hub that lets anonymous clients listen.
pub(crate) struct Hub {
    pub(crate) server: Server,
}

impl Hub {
    pub(crate) fn start(options: &[&str]) -> Hub {
        let key = format!("--mercure-key={TOKEN_SECRET}");
        Hub { server: Server::start(&[&[&*key, "--mercure-open"], options].concat()) }
    }

    /// Subscribers from the number `first` on; in their `query`, `{id}` is that number.
    pub(crate) fn subscribe(&self, query: &str, first: u64, users: u32) -> Outcome<Flood> {
        let url = format!("{}{PATH}?{query}", self.server.url());
        subscribe(FloodConfig { url, first_id: first, users, ..FloodConfig::default() })
    }

    /// Processor time so far.
    pub(crate) fn cpu(&self) -> Outcome<Duration> {
        Ok(clock::process_cpu_of(self.server.pid())?)
    }

    /// Bytes of its heap and stacks.
    pub(crate) fn bytes(&self) -> Outcome<f64> {
        Ok(process::resident_of(self.server.pid())?.anonymous as f64)
    }
}

/// Brings a crowd online.
pub(crate) fn subscribe(config: FloodConfig) -> Outcome<Flood> {
    let users = u64::from(config.users);
    let flood = Flood::start(config)?;
    if flood.wait_until(START_MAX, |totals| totals.open() == users) {
        return Ok(flood);
    }
    let (open, failure) = (flood.totals().open(), flood.finish()?.first_failure);
    Err(format!("only {open} of {users} are online: {failure:?}").into())
}

/// A token that grants its bearer all topics, to publish and to hear.
pub(crate) fn all_token() -> &'static str {
    static TOKEN: OnceLock<String> = OnceLock::new();
    TOKEN.get_or_init(|| signed(&all_claims()))
}

/// What it says.
pub(crate) fn all_claims() -> Value {
    json!({ "mercure": { "publish": ["*"], "subscribe": ["*"] } })
}
