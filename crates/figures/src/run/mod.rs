//! A run over time: one [`Row`] an interval, as CSV (RFC 4180) with a header whose names carry the
//! units, and the line of each for people.
//!
//! Where nothing is known, a field is empty. That is all of a row when the server did not answer,
//! and the rates and percentiles of the first row after that. It is also the latencies of intervals
//! without events. A reader finds columns by name; those that it does not know it passes over.

mod intervals;
mod line;
mod reading;
pub mod utc;

pub use intervals::{Bucket, Durations};
pub use line::row_line;
pub use reading::Reading;

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

use crate::latency::Quantiles;

/// The figures of one moment and of the interval before it, as one line of the file.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Row {
    /// Since the start of the run.
    pub seconds: f64,
    /// The moment by the calendar: RFC 3339, UTC.
    pub utc: String,
    /// Memory of the server's process.
    pub resident_bytes: Option<u64>,
    /// Its heap and stacks.
    pub resident_anonymous_bytes: Option<u64>,
    /// Its mapped files, such as the graph's pages in the page cache.
    pub resident_file_bytes: Option<u64>,
    /// What the kernel keeps for the sockets of the whole machine, buffers included.
    pub kernel_socket_bytes: Option<u64>,
    /// What waits in those sockets to be sent or read.
    pub kernel_tcp_buffer_bytes: Option<u64>,
    /// Connections open at the moment.
    pub connections_open: Option<u64>,
    /// Connections accepted since the server's start.
    pub connections_opened: Option<u64>,
    /// Connections ended since the server's start, for whatever reason.
    pub connections_closed: Option<u64>,
    /// Those of them that the server ended because they did not read.
    pub slow_readers_closed: Option<u64>,
    /// Ids with a stream.
    pub ids_online: Option<u64>,
    /// Stored subscriptions.
    pub subscriptions: Option<u64>,
    /// Events accepted since the server's start.
    pub events: Option<u64>,
    /// Events accepted in the interval.
    pub events_per_second: Option<f64>,
    /// Events handed to connections since the server's start.
    pub deliveries: Option<u64>,
    /// Events handed to connections in the interval.
    pub deliveries_per_second: Option<f64>,
    /// Deliveries that met their connection too late or too slow, since the server's start.
    pub dropped: Option<u64>,
    /// Erlang nodes connected at the moment, where the server is one of them.
    pub erlang_nodes: Option<u64>,
    /// Erlang processes logged in at the moment.
    pub erlang_processes: Option<u64>,
    /// Events that Erlang nodes sent in the interval, which are among the events above.
    pub erlang_events_per_second: Option<f64>,
    /// Messages to Erlang processes in the interval.
    pub erlang_deliveries_per_second: Option<f64>,
    /// Processor time of the server in the interval; 100 is one core.
    pub cpu_percent_of_core: Option<f64>,
    /// Sends of the interval, from reading the event to the count of its deliveries: half took at
    /// most this.
    pub send_p50_ms: Option<f64>,
    /// Nine in ten.
    pub send_p90_ms: Option<f64>,
    /// 99 in 100.
    pub send_p99_ms: Option<f64>,
    /// All. It is told by a bucket's bound, so it may be up to 14 % too high.
    pub send_max_ms: Option<f64>,
    /// The longest turn of a worker in the interval, by its bucket's bound, so up to twice too
    /// high: as long as that its connections waited for it.
    pub turn_max_ms: Option<f64>,
    /// How often the server waited for a disk in the interval, for a page that was not in memory.
    pub major_faults: Option<u64>,
    /// What the host of a virtual machine took of its cores in the interval; 100 is one core.
    pub stolen_percent_of_core: Option<f64>,
    /// How much of the interval somebody on the machine waited for memory.
    pub memory_stalled_percent: Option<f64>,
    /// Deliveries of the interval, from the time at which the event was to be sent to its arrival
    /// at the listener: half took at most this. Known where the listeners are.
    pub receive_p50_ms: Option<f64>,
    /// Nine in ten.
    pub receive_p90_ms: Option<f64>,
    /// 99 in 100.
    pub receive_p99_ms: Option<f64>,
    /// All.
    pub receive_max_ms: Option<f64>,
}

/// The header of the file: the names of the fields above, in their order.
const COLUMNS: [&str; 35] = [
    "seconds",
    "utc",
    "resident_bytes",
    "resident_anonymous_bytes",
    "resident_file_bytes",
    "kernel_socket_bytes",
    "kernel_tcp_buffer_bytes",
    "connections_open",
    "connections_opened",
    "connections_closed",
    "slow_readers_closed",
    "ids_online",
    "subscriptions",
    "events",
    "events_per_second",
    "deliveries",
    "deliveries_per_second",
    "dropped",
    "erlang_nodes",
    "erlang_processes",
    "erlang_events_per_second",
    "erlang_deliveries_per_second",
    "cpu_percent_of_core",
    "send_p50_ms",
    "send_p90_ms",
    "send_p99_ms",
    "send_max_ms",
    "turn_max_ms",
    "major_faults",
    "stolen_percent_of_core",
    "memory_stalled_percent",
    "receive_p50_ms",
    "receive_p90_ms",
    "receive_p99_ms",
    "receive_max_ms",
];

impl Row {
    /// The row of a moment at which nothing is known, `seconds` after the start of the run and
    /// `unix_ms` by the calendar.
    pub fn unknown(seconds: f64, unix_ms: u64) -> Row {
        let utc = utc::format_ms(unix_ms);
        Row { seconds: round(seconds, 1e3), utc, ..Row::default() }
    }

    /// Whether nothing is known of the moment.
    pub fn is_unknown(&self) -> bool {
        self.resident_bytes.is_none() && self.connections_open.is_none()
    }

    /// Sets what listeners measured in the interval.
    pub fn set_received(&mut self, latency: &Quantiles) {
        if latency.count > 0 {
            self.receive_p50_ms = Some(round(latency.p50_ms, 1e3));
            self.receive_p90_ms = Some(round(latency.p90_ms, 1e3));
            self.receive_p99_ms = Some(round(latency.p99_ms, 1e3));
            self.receive_max_ms = Some(round(latency.max_ms, 1e3));
        }
    }

    fn set_sent(&mut self, latency: &Quantiles) {
        if latency.count > 0 {
            self.send_p50_ms = Some(round(latency.p50_ms, 1e3));
            self.send_p90_ms = Some(round(latency.p90_ms, 1e3));
            self.send_p99_ms = Some(round(latency.p99_ms, 1e3));
            self.send_max_ms = Some(round(latency.max_ms, 1e3));
        }
    }
}

/// Without the digits that say nothing: `steps` is 1,000 for three behind the point.
fn round(value: f64, steps: f64) -> f64 {
    (value * steps).round() / steps
}

/// Writes a run, each row at once.
#[derive(Debug)]
pub struct RunWriter<W: Write>(csv::Writer<W>);

impl<W: Write> RunWriter<W> {
    /// Begins with the header.
    pub fn new(file: W) -> io::Result<RunWriter<W>> {
        let mut options = csv::WriterBuilder::new();
        options.has_headers(false).terminator(csv::Terminator::CRLF);
        let mut writer = options.from_writer(file);
        writer.write_record(COLUMNS)?;
        writer.flush()?;
        Ok(RunWriter(writer))
    }

    /// Writes `row`, through to the file.
    pub fn write(&mut self, row: &Row) -> io::Result<()> {
        self.0.serialize(row)?;
        self.0.flush()
    }
}

/// Why a file is no run. Lines are counted from 1, the header's.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The file cannot be read.
    #[error("{0}")]
    Read(io::Error),
    /// There is no time axis.
    #[error("line 1 names no column `seconds`: is it a file that `encke watch` wrote?")]
    NoTime,
    /// A line is not what the header says, such as one that was cut off.
    #[error("line {line}: {problem}")]
    Line {
        /// Its number.
        line: u64,
        /// What is wrong with it.
        problem: String,
    },
}

/// Reads a run. The rows are in the order of time.
///
/// # Errors
/// As [`RunError`] says; what is wrong with the file is for its owner to mend.
pub fn read(file: impl Read) -> Result<Vec<Row>, RunError> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(file);
    let header = reader.headers().map_err(|error| explain(error, None))?.clone();
    if header.is_empty() {
        return Ok(Vec::new());
    }
    if !header.iter().any(|name| name == "seconds") {
        return Err(RunError::NoTime);
    }
    let mut rows: Vec<Row> = Vec::new();
    let mut record = csv::StringRecord::new();
    while reader.read_record(&mut record).map_err(|error| explain(error, None))? {
        let line = record.position().map_or(0, csv::Position::line);
        let row: Row =
            record.deserialize(Some(&header)).map_err(|error| explain(error, Some(&header)))?;
        let before = rows.last().map_or(f64::NEG_INFINITY, |row| row.seconds);
        if !row.seconds.is_finite() || row.seconds < before {
            let problem = format!("`seconds` goes from {before} to {}", row.seconds);
            return Err(RunError::Line { line, problem });
        }
        rows.push(row);
    }
    Ok(rows)
}

/// The error of the CSV reader, by line and column.
fn explain(error: csv::Error, header: Option<&csv::StringRecord>) -> RunError {
    let line = error.position().map_or(0, csv::Position::line);
    match error.into_kind() {
        csv::ErrorKind::Io(error) => RunError::Read(error),
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => RunError::Line {
            line,
            problem: format!("it has {len} fields, and the header names {expected_len}"),
        },
        csv::ErrorKind::Utf8 { .. } => RunError::Line { line, problem: "it is not UTF-8".into() },
        csv::ErrorKind::Deserialize { err, .. } => {
            let field = err.field().and_then(|field| header?.get(field as usize));
            let column = field.map(|name| format!("column `{name}`: ")).unwrap_or_default();
            RunError::Line { line, problem: format!("{column}{}", err.kind()) }
        }
        kind => RunError::Line { line, problem: format!("{kind:?}") },
    }
}

#[cfg(test)]
mod tests;
