//! `encke events`: what was sent about an id and is remembered.

use std::fmt::Write;

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::client::{ApiArgs, parse_id, runtime};
use crate::client::{ApiClient, escape};
use crate::console::{say, tell};
use crate::units::whole;

/// Events of a page, which is asked for behind the one before.
const PAGE: u64 = 1000;

/// Prints the events about an id that the server remembers, one a line, as JSON.
///
/// A server remembers them for as long as --history-seconds and --remember of `encke serve` say. If
/// some after --after may have been forgotten, standard error says so.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  encke events room:7
  encke events room:7 --order desc --limit 50
  encke events room:7 --after 2F3y6mQsYKmaB3xZ | jq .data")]
pub(crate) struct EventsArgs {
    /// The id.
    #[arg(value_parser = parse_id)]
    id: String,
    /// Only events after the one with this id.
    #[arg(long, value_name = "EVENT")]
    after: Option<String>,
    /// Only events before the one with this id.
    #[arg(long, value_name = "EVENT")]
    before: Option<String>,
    /// So many at most; all unless given.
    #[arg(long, value_name = "N", value_parser = whole(1..=u64::MAX))]
    limit: Option<u64>,
    /// Which one comes first.
    #[arg(long, value_enum, default_value_t = Order::Asc)]
    order: Order,
    #[command(flatten)]
    api: ApiArgs,
}

/// Which event comes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Order {
    /// The oldest one.
    Asc,
    /// The newest one.
    Desc,
}

#[derive(Deserialize)]
struct EventPage<'p> {
    #[serde(borrow)]
    events: Vec<&'p RawValue>,
    next: Option<String>,
    #[serde(default)]
    gap: bool,
}

pub(crate) fn run(args: EventsArgs) -> Result<()> {
    let EventsArgs { id, mut after, mut before, limit, order, api } = args;
    let (server, mut left) = (api.server()?, limit.unwrap_or(u64::MAX));
    runtime()?.block_on(async {
        let mut client = ApiClient::connect(&server).await?;
        while left > 0 {
            let name = if order == Order::Asc { "asc" } else { "desc" };
            let mut path = format!("/events/{}?limit={}&order={name}", escape(&id), left.min(PAGE));
            for (name, place) in [("after", &after), ("before", &before)] {
                if let Some(place) = place {
                    write!(path, "&{name}={}", escape(place))?;
                }
            }
            let body: Box<RawValue> = client.get(&path).await?;
            let EventPage { events, next, gap } = serde_json::from_str(body.get())?;
            if gap {
                tell("gap: some events are no longer remembered; ask your application for them");
            }
            if !events.is_empty() {
                let lines: Vec<&str> = events.iter().map(|event| event.get()).collect();
                say(lines.join("\n"))?;
            }
            left -= (events.len() as u64).min(left);
            match next {
                None => break,
                next if order == Order::Asc => after = next,
                next => before = next,
            }
        }
        Ok(())
    })
}
