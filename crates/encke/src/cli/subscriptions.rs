//! Who follows whom, one request each: `encke subscribe`, `unsubscribe`, `subscribers` and
//! `subscriptions`.

use anyhow::Result;
use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};

use super::client::{ApiArgs, parse_id, post, runtime};
use crate::client::{ApiClient, escape};
use crate::console::say;

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
    #[arg(value_parser = parse_id)]
    subscriber: String,
    /// Who is listened to.
    #[arg(value_parser = parse_id)]
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
  encke subscribers rj | wc -l")]
pub(crate) struct SubscribersArgs {
    #[command(flatten)]
    list: ListIdsArgs,
    /// List whom it follows instead: `encke subscriptions`.
    #[arg(long, hide = true)]
    following: bool,
}

/// Lists whom an id follows, one a line.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  encke subscriptions bob
  encke subscriptions bob --json")]
pub(crate) struct SubscriptionsArgs {
    #[command(flatten)]
    list: ListIdsArgs,
}

#[derive(Debug, Args)]
struct ListIdsArgs {
    /// The id.
    #[arg(value_parser = parse_id)]
    id: String,
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
    list(if args.following { "subscriptions" } else { "subscribers" }, &args.list)
}

pub(crate) fn subscriptions(args: SubscriptionsArgs) -> Result<()> {
    list("subscriptions", &args.list)
}

/// Prints all pages of what the API calls `list`.
fn list(list: &str, args: &ListIdsArgs) -> Result<()> {
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
