//! `encke ready`: whether a server takes work, as an exit code. It is what probes run where there
//! is nothing but this program: health checks of containers, scripts that start a server.

use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use serde_json::Value;
use tokio::time::MissedTickBehavior;

use super::client::{ApiArgs, runtime};
use crate::client::{ApiClient, ServerUrl};
use crate::console::say;
use crate::units::parse_seconds;

/// Between two questions of `--wait`.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// Asks a server whether it is ready to serve (GET /readyz).
///
/// Exit code 0 says that it takes work, 1 that it does not, is not there, or has not answered.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  encke ready
  encke ready --wait 30             until it is, for 30 seconds at most
  encke ready --api https://push.internal:8001 --ca ca.pem")]
pub(crate) struct ReadyArgs {
    /// Ask again until it is ready, for so many seconds.
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = parse_seconds)]
    wait: Duration,
    /// How long an answer may take, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = parse_seconds)]
    timeout: Duration,
    #[command(flatten)]
    api: ApiArgs,
}

pub(crate) fn run(args: ReadyArgs) -> Result<()> {
    let server = args.api.server()?;
    let until = Instant::now() + args.wait;
    runtime()?.block_on(async {
        let mut turns = tokio::time::interval(ASK_EVERY);
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            turns.tick().await;
            let answer = tokio::time::timeout(args.timeout, ask(&server)).await;
            let late = || {
                let within = args.timeout;
                anyhow::anyhow!(
                    "no answer from {server} within {within:?}: give it more with --timeout"
                )
            };
            match answer.unwrap_or_else(|_| Err(late())) {
                Ok(()) => return Ok(say("ready")?),
                Err(error) if Instant::now() >= until => return Err(error),
                Err(_) => {}
            }
        }
    })
}

/// Nothing when it is ready; else what it says.
async fn ask(server: &ServerUrl) -> Result<()> {
    ApiClient::connect(server).await?.get::<Value>("/readyz").await.map(drop)
}
