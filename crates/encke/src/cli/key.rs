//! `encke key`: the keys of the API, in the file of a data directory. A server at work on that
//! directory goes by them from the moment at which a command is done.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use auth::keys::{AboutPattern, KeyFile, KeyRecord, NewKey, Scope};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::console::{say, tell};
use crate::units::{parse_lifetime, span};

/// Makes, lists and revokes the keys of the API.
///
/// With the first key every call to the API needs one, but for /healthz and /readyz. A server at
/// work knows of each change at once.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  encke key new --scope admin --data /var/lib/encke
  encke key new --scope send --about 'room:*' --expires 90d
  encke key list
  encke key revoke 4f1c09d2a7be")]
pub(crate) struct KeyArgs {
    #[command(subcommand)]
    command: KeyCommand,
}

#[derive(Debug, Subcommand)]
enum KeyCommand {
    New(NewKeyArgs),
    List(ListKeysArgs),
    Revoke(RevokeArgs),
}

/// Where the keys are.
#[derive(Debug, Args)]
struct DataArgs {
    /// The data directory of the server.
    #[arg(long, value_name = "DIR", default_value = "./encke-data")]
    data: PathBuf,
}

/// Makes a key and prints it, this one time: only its hash is kept.
///
/// Scopes: send is to send events; graph to change and list subscriptions; read to read figures,
/// who is online and the dashboard; admin is all of that and whatever else changes something.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  encke key new --scope admin
  encke key new --scope send,graph --data /var/lib/encke
  encke key new --scope send --about 'room:*' --about news --expires 90d
  ENCKE_KEY=$(encke key new --scope read) encke watch -o run.csv")]
struct NewKeyArgs {
    /// What it may be used for: send, graph, read, admin.
    ///
    /// May be repeated, or a list with commas.
    #[arg(long, value_name = "SCOPE", required = true, value_delimiter = ',')]
    scope: Vec<Scope>,
    /// A subject about which it may send, or with * at its end all that begin so; everything unless
    /// given.
    ///
    /// May be repeated.
    #[arg(long, value_name = "ID")]
    about: Vec<AboutPattern>,
    /// How long it is good for, such as 90d or 12h; for ever unless given.
    #[arg(long, value_name = "TIME", value_parser = parse_lifetime)]
    expires: Option<Duration>,
    #[command(flatten)]
    data: DataArgs,
    /// Print the key and what it may do as JSON.
    #[arg(long)]
    json: bool,
}

/// Lists the keys, also those that are over or revoked, without their secrets.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  encke key list
  encke key list --data /var/lib/encke --json")]
struct ListKeysArgs {
    #[command(flatten)]
    data: DataArgs,
    /// Print a line of JSON for each; times are in seconds since 1970.
    #[arg(long)]
    json: bool,
}

/// Revokes a key: it is good for nothing from now on, nor are its sessions and streams.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  encke key revoke 4f1c09d2a7be
  encke key revoke 4f1c09d2a7be --data /var/lib/encke")]
struct RevokeArgs {
    /// Its id, as `encke key list` shows it, or the whole key.
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    data: DataArgs,
}

pub(crate) fn run(args: KeyArgs) -> Result<()> {
    match args.command {
        KeyCommand::New(args) => new(args),
        KeyCommand::List(args) => list(&args),
        KeyCommand::Revoke(args) => revoke(&args),
    }
}

fn new(args: NewKeyArgs) -> Result<()> {
    let now = now();
    let expires = args.expires.map(|time| now + time.as_secs());
    let wish = NewKey { scopes: args.scope, about: args.about, expires };
    let (key, text) = KeyFile::in_dir(&args.data.data).make(&wish, now)?;
    if args.json {
        let mut line = described(&key, now);
        line["key"] = text.into();
        return Ok(say(line.to_string())?);
    }
    say(text)?;
    tell(format!("key {}: {}; it is not shown again", key.id, words(&key, now)));
    Ok(())
}

fn list(args: &ListKeysArgs) -> Result<()> {
    let now = now();
    let keys = KeyFile::in_dir(&args.data.data).read()?;
    for key in keys.iter().flatten() {
        say(match args.json {
            true => described(key, now).to_string(),
            false => format!("{}  {}", key.id, words(key, now)),
        })?;
    }
    if keys.is_none() {
        tell("no key was made: the API is for this machine alone, and needs none");
    }
    Ok(())
}

fn revoke(args: &RevokeArgs) -> Result<()> {
    let key = KeyFile::in_dir(&args.data.data).revoke(&args.id, now())?;
    Ok(say(format!("key {} is revoked", key.id))?)
}

/// A key for programs, without its hash.
fn described(key: &KeyRecord, now: u64) -> Value {
    let KeyRecord { id, scopes, about, created, expires, revoked, .. } = key;
    json!({
        "id": id, "scopes": scopes, "about": about, "created": created, "expires": expires,
        "revoked": revoked, "usable": key.is_usable(now),
    })
}

/// A key for people.
fn words(key: &KeyRecord, now: u64) -> String {
    let scopes: Vec<_> = key.scopes.iter().map(|scope| scope.as_str()).collect();
    let mut words = scopes.join(",");
    if !key.about.is_empty() {
        let about: Vec<_> = key.about.iter().map(ToString::to_string).collect();
        words += &format!(" about {}", about.join(", "));
    }
    words += &format!("; made {} ago", span(now.saturating_sub(key.created)));
    match (key.revoked, key.expires) {
        (Some(at), _) => words + &format!("; revoked {} ago", span(now.saturating_sub(at))),
        (None, None) => words + "; does not expire",
        (None, Some(at)) if at <= now => words + &format!("; expired {} ago", span(now - at)),
        (None, Some(at)) => words + &format!("; expires in {}", span(at - now)),
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    sys::clock::unix_ms() / 1000
}
