//! What may be set while the engine runs: what is read anew for each request or each timer.
//!
//! It comes to the workers as the texts of [`well_known`](crate::well_known) do, and counts from
//! their next turn on. Bounds that tables were made for are not among it.

use crate::config::EngineConfig;
use crate::origins::Origins;

/// Those settings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// See [`EngineConfig::origins`].
    pub origins: Origins,
    /// See [`EngineConfig::keepalive_ms`]. A stream that waits for its next one goes by the time
    /// from before until then; one that waits for none, until it hears something.
    pub keepalive_ms: u64,
    /// See [`EngineConfig::head_timeout_ms`].
    pub head_timeout_ms: u64,
    /// See [`EngineConfig::connections_per_id_max`].
    pub connections_per_id_max: usize,
    /// See [`EngineConfig::message_bytes_max`].
    pub message_bytes_max: usize,
}

impl EngineConfig {
    /// Its part that may change.
    pub fn settings(&self) -> Settings {
        Settings {
            origins: self.origins.clone(),
            keepalive_ms: self.keepalive_ms,
            head_timeout_ms: self.head_timeout_ms,
            connections_per_id_max: self.connections_per_id_max,
            message_bytes_max: self.message_bytes_max,
        }
    }

    /// The configuration with these settings.
    pub(crate) fn with(self, settings: Settings) -> EngineConfig {
        let Settings { origins, keepalive_ms, head_timeout_ms, .. } = settings;
        EngineConfig {
            origins,
            keepalive_ms,
            head_timeout_ms,
            connections_per_id_max: settings.connections_per_id_max,
            message_bytes_max: settings.message_bytes_max,
            ..self
        }
    }
}
