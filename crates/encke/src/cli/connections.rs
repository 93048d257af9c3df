//! Who is online, one request each: `encke connections`, `encke members` and `encke logout`.

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use super::client::{ApiArgs, get, parse_id, post};
use crate::client::escape;
use crate::console::say;

/// Says whether an id is online, and how many connections it has.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  encke connections bob
  encke connections bob --json")]
pub(crate) struct ConnectionsArgs {
    #[command(flatten)]
    of: IdArgs,
}

/// Lists who is in a room: the users that are logged in under an id.
///
/// One line each: the user, which is the subject of its token, and behind a tab what others are
/// told of it (`encke.info`), if its token has that. Where there are too many to be listed, their
/// count is all.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  encke members room:7
  encke members room:7 --json")]
pub(crate) struct MembersArgs {
    #[command(flatten)]
    of: IdArgs,
}

/// Ends all connections of an id.
///
/// What waits for them is sent before. A WebSocket is told that it was logged out, and stays away;
/// other clients connect again, since this takes no right away.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  encke logout bob
  encke logout bob --json")]
pub(crate) struct LogoutArgs {
    #[command(flatten)]
    of: IdArgs,
}

#[derive(Debug, Args)]
struct IdArgs {
    /// The id.
    #[arg(value_parser = parse_id)]
    id: String,
    #[command(flatten)]
    api: ApiArgs,
    /// Print the API's answer.
    #[arg(long)]
    json: bool,
}

pub(crate) fn connections(args: ConnectionsArgs) -> Result<()> {
    let IdArgs { id, api, .. } = &args.of;
    let answer = get(api, &format!("/connections/{}", escape(id)))?;
    let sentence = |count: String| match answer["connections"].as_u64() {
        Some(0) => format!("{id} is offline"),
        _ => format!("{id} is online with {count}"),
    };
    print(&args.of, &answer, "connections", sentence)
}

pub(crate) fn members(args: MembersArgs) -> Result<()> {
    let IdArgs { id, api, json } = &args.of;
    let answer = get(api, &format!("/members/{}", escape(id)))?;
    if *json {
        return Ok(say(answer.to_string())?);
    }
    let Some(list) = answer["members"]["list"].as_array() else {
        return Ok(say(format!("{} are in {id}, too many to list", answer["members"]["count"]))?);
    };
    if list.is_empty() {
        return Ok(say(format!("nobody is in {id}"))?);
    }
    for member in list {
        let name = member["id"].as_str().unwrap_or_default();
        match member.get("info") {
            Some(info) => say(format!("{name}\t{info}"))?,
            None => say(name)?,
        }
    }
    Ok(())
}

pub(crate) fn logout(args: LogoutArgs) -> Result<()> {
    let IdArgs { id, api, .. } = &args.of;
    let answer = post(api, &format!("/logout/{}", escape(id)), &json!({}))?;
    let sentence = |count: String| match answer["closed"].as_u64() {
        Some(0) => format!("{id} was not online"),
        _ => format!("ended {count} of {id}"),
    };
    print(&args.of, &answer, "closed", sentence)
}

/// Prints the answer as it came, or the sentence about its count of connections.
fn print(
    args: &IdArgs,
    answer: &Value,
    count: &str,
    sentence: impl FnOnce(String) -> String,
) -> Result<()> {
    if args.json {
        return Ok(say(answer.to_string())?);
    }
    let connections = match answer[count].as_u64() {
        Some(1) => "1 connection".to_owned(),
        _ => format!("{} connections", answer[count]),
    };
    Ok(say(sentence(connections))?)
}
