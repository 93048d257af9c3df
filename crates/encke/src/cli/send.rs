//! `encke send`: one event.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::client::{ApiArgs, parse_id, post};
use crate::console::{say, tell};

/// As many as the API takes in the body of a send.
const DATA_BYTES_MAX: u64 = 1 << 20;

/// Sends an event about an id to everybody who follows it, and to itself.
///
/// Prints how many connections heard it.
///
/// DATA that is one JSON value is sent as it is written, to the byte: digits, the order of members,
/// doubled ones and the spaces between them stay, only spaces around it go. Whatever else it is, it
/// is sent as a JSON string, and where it begins as JSON does that is said on standard error. A
/// text that looks like JSON, or that begins with @, must be written as such a string.
///
/// With @FILE the data is what stands in the file, with - what comes on standard input: again JSON
/// or else a text, which a line end behind it is no part of.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  encke send rj '{\"photo\": 789}'
  encke send photo:789 'rj likes this'
  encke send 123 true --json        the value true
  encke send 123 '\"true\"'         the text
  encke send rj @photo.json         what stands in a file
  jq -c .photo all.json | encke send rj -
  encke send room:7 --event typing true             clients hear what kind of event it is
  encke send room:7 --also user:9 'hello'           one event about both, heard once
  encke send room:7 hi --except 9f86d081884c7d65    one connection does not hear it
  encke send rj hello --idempotency-key 8e03978e    repeated, it is heard once")]
pub(crate) struct SendArgs {
    /// The subject.
    #[arg(value_parser = parse_id)]
    about: String,
    /// The payload: a JSON value, or else a text; @ and a file that it stands in; - for standard
    /// input.
    #[arg(allow_hyphen_values = true)]
    data: String,
    /// What kind of event it is: a name of at most 200 bytes, which clients hear as "event".
    #[arg(long, value_name = "NAME")]
    event: Option<String>,
    /// A further id that the event is about; may be repeated.
    ///
    /// A connection that receives events about several of the ids receives this one once.
    #[arg(long, value_name = "ID", value_parser = parse_id)]
    also: Vec<String>,
    /// The connection that does not hear it, by the id that its stream has told it
    /// (Encke-Connection). An id of no connection leaves out nobody.
    #[arg(long, value_name = "CONNECTION")]
    except: Option<String>,
    /// Send DATA as a text, whatever it looks like.
    #[arg(long)]
    text: bool,
    /// Key by which it is sent once: if you repeat it with the same key within five minutes, the
    /// answer is the same, and nobody receives it again.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Wait until the event is on disk. A rule of the server (--keep) must keep it.
    #[arg(long)]
    durable: bool,
    #[command(flatten)]
    api: ApiArgs,
    /// Print the API's answer.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct NewEvent<'a> {
    about: Subjects<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<&'a str>,
    #[serde(flatten)]
    payload: Payload<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    except: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    durable: bool,
}

/// What the event is about: one id, or several.
#[derive(Serialize)]
#[serde(untagged)]
enum Subjects<'a> {
    One(&'a str),
    Several(Vec<&'a str>),
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Payload<'a> {
    Data(Box<RawValue>),
    Text(&'a str),
}

/// What is to be sent: what was given, or what stands where that says.
fn data(given: &str) -> Result<Cow<'_, str>> {
    if given == "-" {
        return read_text(io::stdin().lock(), "standard input").map(Cow::Owned);
    }
    let Some(path) = given.strip_prefix('@') else { return Ok(Cow::Borrowed(given)) };
    let file = File::open(path).with_context(|| {
        format!("cannot read {path}; to send the text {given} itself, write '\"{given}\"'")
    })?;
    read_text(file, path).map(Cow::Owned)
}

/// All of `input`, without the line end behind it.
fn read_text(input: impl Read, name: &str) -> Result<String> {
    let mut text = String::new();
    let read = input.take(DATA_BYTES_MAX + 1).read_to_string(&mut text);
    let length = read.with_context(|| format!("cannot read {name} as text in UTF-8"))?;
    ensure!(
        length as u64 <= DATA_BYTES_MAX,
        "{name} has more than the {DATA_BYTES_MAX} bytes that the API takes"
    );
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let end = line.strip_suffix('\r').unwrap_or(line).len();
    text.truncate(end);
    Ok(text)
}

/// The bytes of `text` if it is JSON, else a JSON string with it, of which it is said why if JSON
/// was meant.
fn json(text: &str) -> serde_json::Result<Box<RawValue>> {
    match serde_json::from_str::<&RawValue>(text) {
        Ok(json) => Ok(json.to_owned()),
        Err(error) => {
            if text.trim_start().starts_with(['{', '[', '"']) {
                tell(format!("encke: sent as a text, since it is no JSON: {error}"));
            }
            to_raw_value(text)
        }
    }
}

#[derive(Deserialize)]
struct Sent {
    delivered: u64,
}

pub(crate) fn run(args: SendArgs) -> Result<()> {
    let key = args.idempotency_key.as_deref();
    let data = data(&args.data)?;
    let payload = if args.text { Payload::Text(&data) } else { Payload::Data(json(&data)?) };
    let all = || std::iter::once(&args.about).chain(&args.also).map(String::as_str).collect();
    let about =
        if args.also.is_empty() { Subjects::One(&args.about) } else { Subjects::Several(all()) };
    let (event, except) = (args.event.as_deref(), args.except.as_deref());
    let body = NewEvent { about, event, payload, except, key, durable: args.durable };
    let answer = post(&args.api, "/send", &body)?;
    if args.json {
        return Ok(say(answer.to_string())?);
    }
    let Sent { delivered } = serde_json::from_value(answer)?;
    let connections = if delivered == 1 { "connection" } else { "connections" };
    Ok(say(format!("delivered to {delivered} {connections}"))?)
}
