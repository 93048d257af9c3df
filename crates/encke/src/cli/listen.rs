//! `encke listen`: a stream in a terminal.

use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};
use proto::Transport;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::client::runtime;
use crate::client::{Listener, Opening, ServerUrl};
use crate::console::{OutputError, say, say_bytes, tell};
use crate::signals::Signals;

/// How long to wait before a stream that ended is opened again.
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);

/// Goes online under one or more ids and prints the events that they hear.
///
/// Comes back when the connection is lost. Ends with Ctrl-C, or after --count events.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  encke listen bob
  encke listen bob photo:789 --count 1
  encke listen 123 --json | jq .data
  encke listen bob --transport websocket")]
pub(crate) struct ListenArgs {
    /// The ids to be online as.
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    /// The server's public port.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8000")]
    url: ServerUrl,
    /// How to hear events.
    #[arg(long, value_enum, default_value_t = ListenTransport::Sse)]
    transport: ListenTransport,
    /// End after so many events.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Print each event as JSON, with its id.
    #[arg(long)]
    json: bool,
}

/// How a terminal hears events.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ListenTransport {
    /// Server-Sent Events.
    Sse,
    /// WebSocket.
    #[value(name = "websocket")]
    WebSocket,
    /// Long polls, one after the other.
    Poll,
}

impl From<ListenTransport> for Transport {
    fn from(transport: ListenTransport) -> Transport {
        match transport {
            ListenTransport::Sse => Transport::Sse,
            ListenTransport::WebSocket => Transport::WebSocket,
            ListenTransport::Poll => Transport::Poll,
        }
    }
}

/// An event as it comes.
#[derive(Deserialize)]
struct Event<'a> {
    about: String,
    #[serde(borrow)]
    data: &'a RawValue,
}

pub(crate) fn run(args: ListenArgs) -> Result<()> {
    runtime()?.block_on(async {
        let mut signals = Signals::new()?;
        tokio::select! {
            ended = listen(&args) => ended,
            _ = signals.next() => Ok(()),
        }
    })
}

async fn listen(args: &ListenArgs) -> Result<()> {
    let mut left = args.count.unwrap_or(u64::MAX);
    let mut first = true;
    while left > 0 {
        match Listener::open(&args.url, &args.ids, args.transport.into()).await {
            Ok(Opening::Open(mut listener)) => {
                first = false;
                tell(format!("online at {} as {}", args.url, args.ids.join(", ")));
                print_events(&mut listener, args, &mut left).await?;
            }
            Ok(Opening::Busy(error)) => tell(format!("{error}")),
            // Nobody was there from the start: most likely the address is wrong.
            Err(error) if first => return Err(error),
            Err(error) => tell(format!("{error:#}")),
        }
        if left > 0 {
            tell("offline; trying again");
            tokio::time::sleep(RECONNECT_PAUSE).await;
        }
    }
    Ok(())
}

/// Prints events until the stream ends or enough have come.
async fn print_events(
    listener: &mut Listener,
    args: &ListenArgs,
    left: &mut u64,
) -> Result<(), OutputError> {
    let mut printed = Ok(());
    while *left > 0 && printed.is_ok() {
        let more = listener.next(|json| {
            if *left > 0 && printed.is_ok() {
                printed = print_event(json, args.json);
                *left -= 1;
            }
        });
        if !more.await {
            break;
        }
    }
    printed
}

fn print_event(json: &[u8], raw: bool) -> Result<(), OutputError> {
    match serde_json::from_slice::<Event<'_>>(json) {
        Ok(event) if !raw => say(format!("{}  {}", event.about, event.data)),
        // Other servers' events are printed as they are.
        _ => say_bytes(json),
    }
}
