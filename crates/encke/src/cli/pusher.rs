//! `encke pusher`: the apps of the Pusher protocol, in their file. A server that was started with
//! the same file goes by each change within some two seconds.

mod apps_file;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use pusher::App;
use serde_json::json;

use self::apps_file::{NewApp, add, read};
use crate::console::{say, tell};
use crate::system::random_digits;

/// The apps that `encke serve` serves.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Pusher")]
pub(crate) struct PusherArgs {
    /// File of apps whose clients speak the Pusher protocol, such as Laravel Echo.
    ///
    /// `encke pusher app new` writes one. It holds secrets: set its mode to 0600. The server reads
    /// it again when it changes, and on SIGHUP. All nodes of a cluster need the same apps.
    #[arg(long, value_name = "FILE")]
    pusher_apps: Option<PathBuf>,
}

impl PusherArgs {
    /// The file, if there is one.
    pub(crate) fn config(&self) -> Option<PathBuf> {
        self.pusher_apps.clone()
    }
}

/// Keeps the apps of the Pusher protocol.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PusherCommandArgs {
    #[command(subcommand)]
    command: PusherCommand,
}

const EXAMPLES: &str = "\
Examples:
  encke pusher app new --file apps.json
  encke pusher app list --file apps.json";

#[derive(Debug, Subcommand)]
enum PusherCommand {
    App(AppArgs),
}

/// Makes and lists apps.
///
/// An app is what clients name in their address, by its key, and what backends sign with, by its
/// secret. Its channels are its own.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = EXAMPLES)]
struct AppArgs {
    #[command(subcommand)]
    command: AppCommand,
}

#[derive(Debug, Subcommand)]
enum AppCommand {
    New(NewAppArgs),
    List(ListAppsArgs),
}

/// Where the apps are.
#[derive(Debug, Args)]
struct FileArgs {
    /// The file of apps that --pusher-apps names.
    #[arg(long, value_name = "FILE", default_value = "./apps.json")]
    file: PathBuf,
}

/// Makes an app and prints its id, key and secret, this one time.
///
/// The file is made if there is none. All other options of an app are written into the file by
/// hand: docs/pusher.md lists them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  encke pusher app new
  encke pusher app new --file /etc/encke/apps.json --client-events
  encke pusher app new --ids chat:
  encke pusher app new --id 7 --json")]
struct NewAppArgs {
    #[command(flatten)]
    file: FileArgs,
    /// Id of the app, in digits; one more than the greatest in the file unless given.
    #[arg(long, value_name = "DIGITS")]
    id: Option<String>,
    /// Let clients send events to each other on private and presence channels.
    #[arg(long)]
    client_events: bool,
    /// Share public channels with Encke's ids: the channel `news` and the id `PREFIXnews` are then
    /// one audience. Not shared unless given.
    #[arg(long, value_name = "PREFIX")]
    ids: Option<String>,
    /// Print the app as one line of JSON.
    #[arg(long)]
    json: bool,
}

/// Lists the apps, without their secrets.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  encke pusher app list
  encke pusher app list --file /etc/encke/apps.json --json")]
struct ListAppsArgs {
    #[command(flatten)]
    file: FileArgs,
    /// Print a line of JSON for each.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: PusherCommandArgs) -> Result<()> {
    let PusherCommand::App(AppArgs { command }) = args.command;
    match command {
        AppCommand::New(args) => new(args),
        AppCommand::List(args) => list(&args),
    }
}

fn new(args: NewAppArgs) -> Result<()> {
    let NewAppArgs { file: FileArgs { file }, id, client_events, ids, json } = args;
    let (key, secret) = (random_digits::<10>()?, random_digits::<24>()?);
    let app = NewApp { id, key, secret, client_events, ids };
    let id = add(&file, &app)?;
    let NewApp { key, secret, .. } = app;
    if json {
        return Ok(say(json!({ "id": id, "key": key, "secret": secret }).to_string())?);
    }
    say(format!("PUSHER_APP_ID={id}"))?;
    say(format!("PUSHER_APP_KEY={key}"))?;
    say(format!("PUSHER_APP_SECRET={secret}"))?;
    tell(format!("app {id} is in {}; list does not show its secret", file.display()));
    Ok(())
}

fn list(args: &ListAppsArgs) -> Result<()> {
    let apps = read(&args.file.file)?;
    let mut apps: Vec<_> = apps.iter().collect();
    apps.sort_by(|one, other| (one.id.len(), &one.id).cmp(&(other.id.len(), &other.id)));
    for app in apps {
        say(match args.json {
            true => described(app).to_string(),
            false => format!("{}  {}  {}", app.id, app.key, words(app)),
        })?;
    }
    Ok(())
}

/// An app for programs, without its secret.
fn described(app: &App) -> serde_json::Value {
    json!({
        "id": app.id, "key": app.key, "enabled": app.is_enabled,
        "client_events": app.has_client_events, "max_connections": app.connections_max,
        "max_members": app.members_max, "max_event_bytes": app.event_bytes_max,
        "max_events_per_second": app.events_per_second, "ids": app.ids,
    })
}

/// An app for people.
fn words(app: &App) -> String {
    let state = if app.is_enabled { "enabled" } else { "disabled" };
    let events = if app.has_client_events { "client events" } else { "no client events" };
    let ids = app.ids.as_ref().map(|ids| format!(", shared with the ids {ids}…"));
    format!("{state}, {events}{}", ids.unwrap_or_default())
}
