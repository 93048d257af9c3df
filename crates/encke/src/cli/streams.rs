//! Options of Durable Streams.

use clap::Args;
use server::StreamsConfig;

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
}

impl StreamArgs {
    /// By what streams are kept, if they are.
    pub(crate) fn config(&self) -> Option<StreamsConfig> {
        self.streams.then_some(StreamsConfig { bytes_max: self.streams_bytes as u64 })
    }
}
