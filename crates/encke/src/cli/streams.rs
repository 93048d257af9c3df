//! Options of Durable Streams.

use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use hub::{IdPatterns, IdText};
use server::StreamsConfig;

use super::UsageError;
use crate::units::parse_bytes;

/// Which streams are kept on disk.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Durable Streams")]
pub(crate) struct StreamArgs {
    /// Serve Durable Streams at /v1/stream/{path} of the API port.
    ///
    /// Clients read them at the same path of the public port. Streams are kept in the directory
    /// `streams` of --data until they are deleted or their life ends.
    #[arg(long)]
    streams: bool,
    /// Disk space for all durable streams together.
    ///
    /// When it is used up, streams are neither created nor appended to.
    #[arg(long, value_name = "BYTES", default_value = "16GiB", value_parser = parse_bytes)]
    streams_bytes: usize,
    /// Durable streams whose appends are also events, such as 'run:*'.
    ///
    /// PATTERN is the path of a stream, or the beginning of paths with a * behind it. Each append
    /// to such a stream is sent as an event about the id of the same name: whoever may listen to
    /// that id, or follows it, hears it. Paths that are no ids are left out. Repeat the option for
    /// more, up to 256 times. Default: none.
    #[arg(long, value_name = "PATTERN", requires = "streams", value_parser = parse_pattern)]
    streams_events: Vec<Box<str>>,
}

impl StreamArgs {
    /// By what streams are kept, if they are.
    pub(crate) fn config(&self) -> Result<Option<StreamsConfig>> {
        let events = IdPatterns::parse(self.streams_events.iter().cloned());
        let events = events.map_err(|error| UsageError(format!("--streams-events: {error}")))?;
        Ok(self.streams.then(|| StreamsConfig {
            bytes_max: self.streams_bytes as u64,
            events: (!events.is_empty()).then(|| Arc::new(events)),
        }))
    }
}

/// An id, or the beginning of ids with a * behind it.
fn parse_pattern(text: &str) -> Result<Box<str>, String> {
    match text.strip_suffix('*') {
        Some("") => {}
        Some(start) => drop(IdText::parse(start).map_err(|error| error.to_string())?),
        None => drop(IdText::parse(text).map_err(|error| error.to_string())?),
    }
    Ok(text.into())
}
