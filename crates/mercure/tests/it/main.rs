//! The protocol's tables and vectors, and input by seed.

#![expect(clippy::unwrap_used, reason = "a failed test should panic")]

mod discovery;
mod frames;
mod live_patterns;
mod mutants;
mod publishing;
mod selectors;
mod subscribing;
mod subscriptions;
mod template_oracle;
mod tokens;
mod topics;
mod url_patterns;

use mercure::HubUrl;

/// Where the hub of all tables is.
fn hub() -> HubUrl {
    HubUrl::parse("https://hub.example/.well-known/mercure").unwrap()
}
