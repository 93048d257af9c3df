//! Events that stay: what is on disk after an end of whatever kind, and who hears it then.

mod commands;
mod copies;
mod full;
mod kills;
mod refused;
mod restarts;
mod resume;
mod slow;
mod upgrades;

use serde_json::{Value, json};

pub(crate) use commands::damaged_log;

use crate::harness::Api;

/// Sends an event; its id.
fn send(api: &Api, about: &str, data: impl Into<Value>) -> String {
    id(&api.post("/send", &json!({ "about": about, "data": data.into() })).ok())
}

/// Sends an event that is on disk then; its id.
fn send_durable(api: &Api, about: &str, data: impl Into<Value>) -> String {
    let event = json!({ "about": about, "data": data.into(), "durable": true });
    id(&api.post("/send", &event).ok())
}

fn id(answer: &Value) -> String {
    answer["id"].as_str().unwrap().to_owned()
}
