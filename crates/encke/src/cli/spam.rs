//! `encke spam`: the message generator.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use load::report::{SpamReport, spam_line};
use load::spam::{IN_FLIGHT_MOST, PAYLOAD_BYTES_MAX, PAYLOAD_BYTES_MIN, Payload};
use load::{Spam, SpamConfig, SpamError, SpamMode, SpamSnapshot};

use super::client::{ApiArgs, runtime};
use super::conclude::{conclude, unchecked};
use super::flood::report_line;
use super::ticker::Ticker;
use super::work::on_own_thread;
use crate::signals::Signals;
use crate::units::{parse_bytes, parse_count, parse_rate, parse_rate_over_0, parse_seconds, whole};

/// Sends events about random users at a fixed rate.
///
/// Each event carries the time at which it was to be sent, so that `encke flood` can measure the
/// latency, and a number, so that it can see what is lost. Prints a line a second and a summary at
/// the end: after --seconds, or with Ctrl-C.
///
/// The exit status is 1 if an event was refused, not answered, not sent or sent late, or a
/// connection ended early. The summary says so, and what was not checked: whether what the API
/// calls delivered came, which `encke flood` counts as `stamped`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  encke spam --users 10000 --rate 1000 --seconds 60
  encke spam --users 1000000 --senders 1000 --rate 16666 --seconds 60
  encke spam --api https://localhost:8443 --ca ca.pem --seconds 60
  encke spam --users 10000 --zipf 1.1 --payload 1000 --json")]
pub(crate) struct SpamArgs {
    #[command(flatten)]
    api: ApiArgs,
    /// Events are about so many users.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    #[arg(value_parser = whole(1..=u32::MAX))]
    users: u32,
    /// The id of the first of them; the others follow.
    #[arg(long, value_name = "ID", default_value_t = 0)]
    #[arg(value_parser = whole(0..=u64::MAX))]
    first_id: u64,
    /// Logical senders, among whom the events are spread at random.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    #[arg(value_parser = whole(1..=u32::MAX))]
    senders: u32,
    /// Connections to the API.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = whole(1..=u32::MAX))]
    connections: u32,
    /// Events that fall due within this time share a write, as from an application with many
    /// threads, in milliseconds.
    ///
    /// Each counts its latency from its own time, so up to so much of it is this wait; 0 sends each
    /// event by itself.
    #[arg(long, value_name = "MS", default_value = "4", value_parser = parse_milliseconds)]
    coalesce: Duration,
    /// Events a second.
    #[arg(long, value_name = "RATE", default_value = "1000", value_parser = parse_rate_over_0)]
    rate: f64,
    /// End after so long, in seconds.
    ///
    /// Default: with Ctrl-C.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    seconds: Option<Duration>,
    /// Length of a payload as JSON, in bytes.
    #[arg(long, value_name = "BYTES", default_value = "100", value_parser = parse_payload)]
    payload: usize,
    /// Choose subjects by Zipf's law with this exponent (1 when none is given), the first user most
    /// often, instead of all alike.
    #[arg(long, value_name = "EXPONENT", num_args = 0..=1, default_missing_value = "1")]
    #[arg(value_parser = parse_rate)]
    zipf: Option<f64>,
    /// Names the run's random choices.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = whole(0..=u64::MAX))]
    seed: u64,
    /// Send each event in a request of its own instead of as a line of a stream.
    #[arg(long)]
    post: bool,
    /// Events on their way on one connection, at most.
    #[arg(long, value_name = "N", default_value = "10000", value_parser = parse_in_flight)]
    in_flight: usize,
    /// How long after its time (and after --coalesce) an event may be sent before it is late, in
    /// seconds.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_seconds)]
    late_after: Duration,
    /// Print the summary as JSON; the lines go to standard error then.
    #[arg(long)]
    json: bool,
}

impl SpamArgs {
    fn config(self) -> Result<SpamConfig> {
        let (api, key, trust) = self.api.parts()?;
        Ok(SpamConfig {
            api,
            trust,
            key,
            users: self.users,
            first_id: self.first_id,
            senders: self.senders,
            connections: self.connections,
            rate: self.rate,
            duration: self.seconds,
            payload: Payload::Padded(self.payload),
            zipf: self.zipf,
            seed: self.seed,
            coalesce: self.coalesce,
            mode: if self.post { SpamMode::Post } else { SpamMode::Stream },
            in_flight_max: self.in_flight,
            late_after: self.late_after,
        })
    }
}

pub(crate) fn run(args: SpamArgs) -> Result<()> {
    let json = args.json;
    let config = args.config()?;
    let snapshot = runtime()?.block_on(async {
        let mut signals = Signals::new()?;
        let starting = on_own_thread(move || Spam::start(&config).map_err(explain));
        let spam = tokio::select! {
            started = starting => started?,
            code = signals.next() => std::process::exit(code),
        };
        watch(spam, json, signals).await.map_err(unchecked)
    })?;
    let report = SpamReport::from(&snapshot);
    conclude(&report, &report.findings(), json)
}

/// A time to wait, in milliseconds, up to a second.
fn parse_milliseconds(text: &str) -> Result<Duration, String> {
    let ms = text.trim().parse().ok().filter(|ms: &f64| (0.0..=1e3).contains(ms));
    let ms =
        ms.ok_or_else(|| format!("{text:?} is no time: write milliseconds, from 0 to 1000"))?;
    Ok(Duration::from_secs_f64(ms / 1e3))
}

fn parse_in_flight(text: &str) -> Result<usize, String> {
    match parse_count(text)? {
        events @ 1..=IN_FLIGHT_MOST => Ok(events),
        _ => Err("write a number from 1 to 1000000".to_owned()),
    }
}

fn parse_payload(text: &str) -> Result<usize, String> {
    match parse_bytes(text)? {
        bytes if bytes < PAYLOAD_BYTES_MIN => {
            Err(format!("write at least {PAYLOAD_BYTES_MIN} bytes: the payload has a stamp in it"))
        }
        bytes if bytes > PAYLOAD_BYTES_MAX => {
            Err("write at most 1MiB: no server takes more".into())
        }
        bytes => Ok(bytes),
    }
}

fn explain(error: SpamError) -> anyhow::Error {
    match error {
        SpamError::Connect { api, error }
            if error.kind() == std::io::ErrorKind::ConnectionRefused =>
        {
            anyhow::anyhow!(
                "no server at {api}: start one with `encke serve`, or tell where it is with --api"
            )
        }
        error => error.into(),
    }
}

/// Prints a line a second until all is sent and answered or a signal ends it. Then it waits for the
/// answers under way, which another signal ends.
async fn watch(mut spam: Spam, json: bool, mut signals: Signals) -> Result<SpamSnapshot> {
    let mut before = spam.snapshot();
    let mut ticker = Ticker::new();
    let mut told = Ok(());
    while ticker.tick_unless(&mut signals).await && !spam.is_finished() && told.is_ok() {
        if ticker.line_is_due() {
            let now = spam.snapshot();
            told = report_line(&spam_line(&now, &before), json);
            before = now;
        }
    }
    signals.end_at_next();
    let end = move || {
        let snapshot = spam.finish();
        told.map(|()| snapshot)
    };
    on_own_thread(end).await
}
