//! `encke listen`: a stream in a terminal.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};
use proto::Transport;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::client::{CaArg, parse_id, runtime};
use super::signer::TokenKeyArg;
use super::work::on_own_thread;
use crate::client::{Follower, FollowerEvent, GivenToken, ServerUrl, TokenSource, Wanted};
use crate::console::{OutputError, printable, say, say_bytes, tell, told, unread};
use crate::signals::Signals;
use crate::units::{parse_silence, whole};

/// Seconds without a word after which a connection is taken for dead: a keep-alive of 30 s may be
/// late, and the network's loss is noticed within 38 s.
pub(super) const SILENCE: &str = "36";

/// Opens a stream as one or more ids, and prints the events that they receive.
///
/// If the connection is lost, or nothing comes for --silence, it connects again, after longer and
/// longer pauses, and continues where it was: nothing is lost and nothing comes twice. If the
/// server no longer has the events of the meantime, for example after a restart, there is a gap. It
/// is printed on standard error, or with --json as the line {"gap":true}.
///
/// If streams need tokens, give it a token, or the key to sign its own. A stream that ends with its
/// token continues with the next one, if it signs them or another one is in the file.
///
/// Ends with Ctrl-C, or after --count events. The exit code is 1 if the server refuses the stream
/// or its token, if no server is there at the start, and if the application logs the ids out, which
/// only a WebSocket is told.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  encke listen bob
  encke listen bob photo:789 --count 1
  encke listen 123 --json | jq .data
  encke listen room:7 --last 50
  encke listen bob --transport websocket
  encke listen bob --silence 10     for a server with --keepalive 4
  ENCKE_TOKEN=$(cat token) encke listen bob
  encke listen bob --token @token   read anew for each connect
  encke listen bob news --token-key secret")]
pub(crate) struct ListenArgs {
    /// The ids to be online as.
    #[arg(required = true, value_name = "ID", value_parser = parse_id)]
    ids: Vec<String>,
    /// The server's public port.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8000")]
    url: ServerUrl,
    /// The token to show, if streams need one, or @ and the file that it stands in.
    ///
    /// Better as ENCKE_TOKEN or @FILE: others on this machine can see command lines. It goes before
    /// --token-key.
    #[arg(long, value_name = "TOKEN|@FILE")]
    token: Option<GivenToken>,
    #[command(flatten)]
    token_key: TokenKeyArg,
    #[command(flatten)]
    ca: CaArg,
    /// The transport of the stream.
    #[arg(long, value_enum, default_value_t = ListenTransport::Sse)]
    transport: ListenTransport,
    /// Seconds without a byte, not even a keep-alive, after which it connects again: 2 or more. 0
    /// is never.
    ///
    /// The default suits a server that sends a keep-alive every 30 s, as it does by default.
    #[arg(long, value_name = "SECONDS", default_value = SILENCE, value_parser = parse_silence)]
    silence: Duration,
    /// Begin with the last N events about each id, if the server still has them.
    #[arg(long, value_name = "N")]
    #[arg(value_parser = whole(0..=u32::MAX))]
    last: Option<u32>,
    /// End after so many events.
    #[arg(long, value_name = "N")]
    #[arg(value_parser = whole(0..=u64::MAX))]
    count: Option<u64>,
    /// Print each event as JSON, with its id, and each gap as {"gap":true}.
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
struct HeardEvent<'a> {
    about: String,
    #[serde(borrow)]
    data: &'a RawValue,
}

impl ListenArgs {
    /// What the server is shown.
    fn token(&self) -> Result<Option<TokenSource>> {
        if let Some(source) = self.token.as_ref().and_then(GivenToken::source) {
            return Ok(Some(source));
        }
        let Some(signer) = self.token_key.signer()? else { return Ok(None) };
        let ids = self.ids.clone();
        Ok(Some(TokenSource::Made(Arc::new(move || signer.token(&ids[0], &ids[1..])))))
    }
}

pub(crate) fn run(args: ListenArgs) -> Result<()> {
    runtime()?.block_on(async {
        let mut signals = Signals::new()?;
        // A thread of its own may wait for who reads standard output, or for a resolver; a signal
        // waits for neither.
        let listening = on_own_thread(move || runtime()?.block_on(listen(&args)));
        tokio::select! {
            ended = listening => ended,
            _ = signals.next() => Ok(()),
            unread = unread() => unread,
        }
    })
}

async fn listen(args: &ListenArgs) -> Result<()> {
    let (url, ids) = (args.url.clone().with_ca(args.ca.ca.clone()), args.ids.join(", "));
    let mut follower = Follower::new(Wanted {
        url: url.clone(),
        ids: args.ids.clone(),
        token: args.token()?,
        transport: args.transport.into(),
        last: args.last.filter(|&last| last > 0),
        silence: (!args.silence.is_zero()).then_some(args.silence),
    });
    let mut left = args.count.unwrap_or(u64::MAX);
    while left > 0 {
        match follower.next().await? {
            FollowerEvent::Online { again: false } => tell(format!("online at {url} as {ids}")),
            FollowerEvent::Online { again: true } => {
                tell(format!("online again at {url} as {ids}"))
            }
            FollowerEvent::Offline(error) => {
                tell(format!("offline: {}; trying again", told(&error)))
            }
            FollowerEvent::Gap if args.json => say("{\"gap\":true}")?,
            FollowerEvent::Gap => {
                tell("gap: events may have been missed; ask your application for the current state")
            }
            FollowerEvent::Event(json) => {
                print_event(&json, args.json)?;
                left -= 1;
            }
        }
    }
    Ok(())
}

/// Prints an event, as it came if `raw`.
fn print_event(json: &[u8], raw: bool) -> Result<(), OutputError> {
    match serde_json::from_slice::<HeardEvent<'_>>(json) {
        Ok(event) if !raw => {
            let (about, data) = (&event.about, event.data.get());
            say(format!("{}  {}", printable(about), printable(data)))
        }
        // Of other servers, whose events are in any form.
        Err(_) if !raw => say(printable(&String::from_utf8_lossy(json))),
        _ => say_bytes(json),
    }
}
