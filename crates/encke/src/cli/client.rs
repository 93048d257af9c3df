//! What the commands have in common that talk to a server's API, and those of them that are one
//! request: `send`, `subscribe`, `unsubscribe`, `subscribers`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use load::{Trust, Version};
use proto::ApiKey;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use crate::client::{ApiClient, ServerUrl, escape};
use crate::console::say;

/// Where the API is.
#[derive(Clone, Debug, Args)]
pub(crate) struct ApiArgs {
    /// The server's API.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8001")]
    api: ServerUrl,
    #[command(flatten)]
    key: KeyArg,
    #[command(flatten)]
    ca: CaArg,
}

/// Who vouches for a server.
#[derive(Clone, Debug, Args)]
pub(crate) struct CaArg {
    /// Of a server at https://, trust those alone whose certificates are in this PEM file, instead
    /// of those whom the system trusts.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
}

impl CaArg {
    /// Whom a load tool trusts that goes to `url`, if that takes trust, and the newest version of
    /// TLS that it speaks there.
    pub(crate) fn trust(&self, url: &str, newest: Version) -> Result<Option<Trust>> {
        if !url.starts_with("https://") {
            return Ok(None);
        }
        Ok(Some(Trust::new(server::roots(self.ca.as_deref())?, newest)?))
    }
}

/// What the API is shown.
#[derive(Clone, Debug, Args)]
pub(crate) struct KeyArg {
    /// The key to show to the API, if it wants one (`encke key new`). Better as ENCKE_KEY: others
    /// on this machine can see command lines.
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<ApiKey>,
}

impl ApiArgs {
    /// The server, with the key that it is shown.
    pub(crate) fn server(&self) -> Result<ServerUrl> {
        self.api.clone().with_ca(self.ca.ca.clone()).with_key(self.key.key.clone())
    }

    /// The same as a URL, a key, and whom a load tool trusts.
    pub(crate) fn parts(self) -> Result<(String, Option<ApiKey>, Option<Trust>)> {
        let url = self.api.to_string();
        let trust = self.ca.trust(&url, Version::Tls13)?;
        Ok((url, self.key.key.filter(|key| !key.is_empty()), trust))
    }
}

/// The runtime of a command that is a client.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")
}

/// Sends an event about an id to everybody who follows it, and to itself.
///
/// Prints how many connections heard it.
///
/// DATA that is one JSON value is sent as it is written, to the byte: digits, the order of members,
/// doubled ones and the spaces between them stay, only spaces around it go. Whatever else it is, it
/// is sent as a JSON string. A text that looks like JSON must be written as such a string.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  encke send rj '{\"photo\": 789}'
  encke send photo:789 'rj likes this'
  encke send 123 true --json        the value true
  encke send 123 '\"true\"'         the text
  encke send rj hello --idempotency-key 8e03978e    repeated, it is heard once")]
pub(crate) struct SendArgs {
    /// The subject.
    about: String,
    /// The payload: a JSON value, or else a text.
    #[arg(allow_hyphen_values = true)]
    data: String,
    /// Send it once: repeated with the same key within five minutes, it is answered the same and
    /// not heard again.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    #[command(flatten)]
    api: ApiArgs,
    /// Print the API's answer.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Event<'a> {
    about: &'a str,
    data: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
}

/// The bytes of `text` if it is JSON, else a JSON string with it.
fn payload(text: &str) -> serde_json::Result<Box<RawValue>> {
    match serde_json::from_str::<&RawValue>(text) {
        Ok(json) => Ok(json.to_owned()),
        Err(_) => to_raw_value(text),
    }
}

#[derive(Deserialize)]
struct Sent {
    delivered: u64,
}

pub(crate) fn send(args: SendArgs) -> Result<()> {
    let key = args.idempotency_key.as_deref();
    let body = Event { about: &args.about, data: payload(&args.data)?, key };
    let answer = post(&args.api, "/send", &body)?;
    if args.json {
        return Ok(say(answer.to_string())?);
    }
    let Sent { delivered } = serde_json::from_value(answer)?;
    let connections = if delivered == 1 { "connection" } else { "connections" };
    Ok(say(format!("delivered to {delivered} {connections}"))?)
}

/// Makes an id a subscriber of another: from now on it hears what is sent about it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  encke subscribe bob rj            bob follows rj
  encke subscribe 7 12 --json")]
pub(crate) struct SubscribeArgs {
    #[command(flatten)]
    pair: PairArgs,
}

/// Ends a subscription.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  encke unsubscribe bob rj          bob no longer follows rj")]
pub(crate) struct UnsubscribeArgs {
    #[command(flatten)]
    pair: PairArgs,
}

#[derive(Debug, Args)]
struct PairArgs {
    /// Who listens.
    subscriber: String,
    /// Who is listened to.
    subscribee: String,
    #[command(flatten)]
    api: ApiArgs,
    /// Print the API's answer.
    #[arg(long)]
    json: bool,
}

pub(crate) fn subscribe(args: SubscribeArgs) -> Result<()> {
    let PairArgs { subscriber, subscribee, .. } = &args.pair;
    let [new, old] =
        ["now follows", "followed before"].map(|verb| format!("{subscriber} {verb} {subscribee}"));
    change(&args.pair, "/subscriptions/add", "added", [new, old])
}

pub(crate) fn unsubscribe(args: UnsubscribeArgs) -> Result<()> {
    let PairArgs { subscriber, subscribee, .. } = &args.pair;
    let [gone, never] = ["no longer follows", "did not follow"]
        .map(|verb| format!("{subscriber} {verb} {subscribee}"));
    change(&args.pair, "/subscriptions/remove", "removed", [gone, never])
}

/// Posts the pair and prints the first of two sentences when it changed something.
fn change(args: &PairArgs, path: &str, count: &str, [changed, not]: [String; 2]) -> Result<()> {
    let pairs = json!([{ "subscriber": args.subscriber, "subscribee": args.subscribee }]);
    let answer = post(&args.api, path, &pairs)?;
    if args.json {
        return Ok(say(answer.to_string())?);
    }
    Ok(say(if answer[count] == 1 { changed } else { not })?)
}

/// Lists who follows an id, one a line.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  encke subscribers rj
  encke subscribers rj --following  whom rj follows
  encke subscribers rj | wc -l")]
pub(crate) struct SubscribersArgs {
    /// Who is followed.
    id: String,
    /// List whom it follows instead.
    #[arg(long)]
    following: bool,
    #[command(flatten)]
    api: ApiArgs,
    /// Print each page as the API answers it.
    #[arg(long)]
    json: bool,
}

#[derive(Deserialize)]
struct Page {
    ids: Vec<String>,
    next: Option<String>,
}

pub(crate) fn subscribers(args: SubscribersArgs) -> Result<()> {
    let list = if args.following { "subscriptions" } else { "subscribers" };
    let path = format!("/{list}/{}?limit=10000", escape(&args.id));
    let server = args.api.server()?;
    runtime()?.block_on(async {
        let mut client = ApiClient::connect(&server).await?;
        let mut after = String::new();
        loop {
            let page: Value = client.get(&format!("{path}{after}")).await?;
            if args.json {
                say(page.to_string())?;
            }
            let Page { ids, next } = serde_json::from_value(page)?;
            if !args.json && !ids.is_empty() {
                say(ids.join("\n"))?;
            }
            let Some(next) = next else { return Ok(()) };
            after = format!("&after={}", escape(&next));
        }
    })
}

fn post(args: &ApiArgs, path: &str, body: &impl Serialize) -> Result<Value> {
    let server = args.server()?;
    runtime()?.block_on(async { ApiClient::connect(&server).await?.post(path, body).await })
}
