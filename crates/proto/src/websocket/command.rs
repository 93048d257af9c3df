//! What a client may say in a text message, and how it is answered.
//!
//! One JSON object with one member: `{"login":["a","b"]}`, `{"logout":["a"]}`, `{"ping":1}`,
//! `{"token":"…"}`, `{"members":"a"}`, `{"unwatch":"a"}` or `{"send":{…}}`. Each is answered by one
//! text message, in the order of the commands and among the events (but a token may be looked at
//! longer, and a list takes its time). The answer is `{"ok":…}`, which repeats the command, or
//! `{"error":{…}}` with a problem (RFC 9457). Where it was a token it is
//! `{"error":{…},"token":true}`, lest a client take it for another's answer. The answer to
//! `members` is the list ([`crate::members`]), or `{"error":{…},"members":"a"}`.
//!
//! A send may have a `ref` beside it, a number or a text, which its answer repeats. It may come
//! later than those to what was said behind it.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::{Deserializer, Error};
use serde_json::Number;
use serde_json::error::Category;
use serde_json::value::RawValue;

use crate::request::Secret;
use crate::{Problem, json};

/// A client's wish.
#[derive(Deserialize, PartialEq, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Command<'b> {
    /// To be reachable under these ids too.
    #[serde(borrow)]
    Login(Vec<IdText<'b>>),
    /// To be reachable under these ids no more.
    #[serde(borrow)]
    Logout(Vec<IdText<'b>>),
    /// To go on with this token, which takes the place of the one before.
    #[serde(borrow, deserialize_with = "secret")]
    Token(Secret<'b>),
    /// To be told who is logged in under this id, and who comes and goes there.
    #[serde(borrow)]
    Members(IdText<'b>),
    /// To be told that no more.
    #[serde(borrow)]
    Unwatch(IdText<'b>),
    /// To hear that the connection works, with any number that tells the answers apart.
    Ping(Number),
    /// To send an event.
    #[serde(skip)]
    Send(SendText<'b>),
}

/// An event that a client sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendText<'b> {
    /// The event as it is written: any JSON.
    pub event: &'b str,
    /// What the answer is to repeat, as it is written: a number or a text of JSON.
    pub reference: Option<&'b str>,
}

/// The longest `ref`, in bytes as it is written.
pub const REFERENCE_BYTES_MAX: usize = 256;

/// A message that sends.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SendMessage<'b> {
    #[serde(borrow)]
    send: &'b RawValue,
    #[serde(borrow, default, rename = "ref")]
    reference: Option<&'b RawValue>,
}

fn secret<'de: 'b, 'b, D: Deserializer<'de>>(deserializer: D) -> Result<Secret<'b>, D::Error> {
    <&'b str>::deserialize(deserializer).map(Secret::from)
}

/// The text of an id, borrowed unless it has escapes; not yet checked against the rules for ids. In
/// JSON an integer stands for its digits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IdText<'b>(pub Cow<'b, str>);

impl<'de: 'b, 'b> Deserialize<'de> for IdText<'b> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<IdText<'b>, D::Error> {
        // As it is written: a number that went through a machine type would lose digits.
        let text = <&'b RawValue>::deserialize(deserializer)?.get();
        if let Some(inner) = text.strip_prefix('"') {
            return match inner.strip_suffix('"') {
                Some(inner) if !inner.contains('\\') => Ok(IdText(Cow::Borrowed(inner))),
                _ => serde_json::from_str(text).map(IdText).map_err(D::Error::custom),
            };
        }
        let digits = text.strip_prefix('-').unwrap_or(text);
        match digits.bytes().all(|byte| byte.is_ascii_digit()) {
            true => Ok(IdText(Cow::Borrowed(text))),
            false => Err(D::Error::custom("an id is a string or an integer")),
        }
    }
}

/// Reads a text message.
///
/// # Errors
/// It is no command; the problem says what one is. The connection goes on.
pub fn parse(text: &str) -> Result<Command<'_>, Problem> {
    // Of other commands it reads the name alone.
    if text.trim_ascii_start().starts_with('{')
        && let Ok(SendMessage { send, reference }) = serde_json::from_str(text)
    {
        let reference = reference.map(RawValue::get);
        return match reference.is_none_or(is_reference) {
            true => Ok(Command::Send(SendText { event: send.get(), reference })),
            false => Err(bad_reference()),
        };
    }
    serde_json::from_str(text).map_err(|error| {
        let what = match error.classify() {
            Category::Data => "This is not a command.",
            Category::Io | Category::Syntax | Category::Eof => "This is not JSON.",
        };
        Problem::bad_request(format!(
            "{what} Send {{\"login\":[\"id\"]}}, {{\"logout\":[\"id\"]}}, {{\"ping\":1}}, \
             {{\"token\":\"…\"}}, {{\"members\":\"id\"}}, {{\"unwatch\":\"id\"}} or \
             {{\"send\":{{…}},\"ref\":1}}, one in a message."
        ))
    })
}

fn is_reference(json: &str) -> bool {
    let begins =
        json.bytes().next().is_some_and(|first| matches!(first, b'"' | b'-' | b'0'..=b'9'));
    begins && json.len() <= REFERENCE_BYTES_MAX
}

fn bad_reference() -> Problem {
    Problem::bad_request(format!(
        "The \"ref\" of this send is neither a number nor a text of at most {REFERENCE_BYTES_MAX} \
         bytes. Nothing was sent."
    ))
}

/// The problem with a message that is not a text.
pub fn binary_problem() -> Problem {
    Problem::bad_request("Commands are text messages. Send this one as text.")
}

/// The answer to a command that was carried out. `next` is the id of an event after which the
/// client may resume; it is told in the answer to a ping.
pub fn ok(command: &Command<'_>, next: Option<&str>) -> String {
    let mut out = String::from("{\"ok\":{");
    match command {
        Command::Login(ids) => push_ids(&mut out, "login", ids),
        Command::Logout(ids) => push_ids(&mut out, "logout", ids),
        // It is not repeated: it is a secret.
        Command::Token(_) => return token_ok(),
        // It is answered by whoever posts it.
        Command::Send(_) => {}
        Command::Members(id) => push_id(&mut out, "members", id),
        Command::Unwatch(id) => push_id(&mut out, "unwatch", id),
        Command::Ping(number) => {
            out.push_str(&format!("\"ping\":{number}"));
            if let Some(next) = next {
                out.push_str(",\"next\":");
                json::push_string(&mut out, next);
            }
        }
    }
    out.push_str("}}");
    out
}

/// The answer to a token that is good, which may come later than those behind it.
pub fn token_ok() -> String {
    String::from("{\"ok\":{\"token\":true}}")
}

/// The answer to a token that is not taken, which may come later than those behind it, too.
pub fn token_error(problem: &Problem) -> String {
    format!("{{\"error\":{},\"token\":true}}", problem.to_json().trim_end())
}

/// The answer to one who is not told who is logged in under `id`.
pub fn members_error(id: &str, problem: &Problem) -> String {
    let mut out = format!("{{\"error\":{},\"members\":", problem.to_json().trim_end());
    json::push_string(&mut out, id);
    out.push('}');
    out
}

/// The answer to a message that was not carried out.
pub fn error(problem: &Problem) -> String {
    format!("{{\"error\":{}}}", problem.to_json().trim_end())
}

/// The answer to a send that was posted: `answer` is a JSON object.
pub fn send_ok(answer: &str, reference: Option<&str>) -> String {
    let mut out = ["{\"ok\":", answer].concat();
    end_with_reference(&mut out, reference);
    out
}

/// The answer to a send that was not. Where another try may do better it says when, in seconds.
pub fn send_error(problem: &Problem, reference: Option<&str>) -> String {
    let json = problem.to_json();
    let members = json.trim_end().strip_suffix('}').unwrap_or(&json);
    let mut out = ["{\"error\":", members].concat();
    if let Some(seconds) = problem.retry_after {
        out.push_str(&format!(",\"retry_after\":{seconds}"));
    }
    out.push('}');
    end_with_reference(&mut out, reference);
    out
}

fn end_with_reference(out: &mut String, reference: Option<&str>) {
    if let Some(reference) = reference {
        out.push_str(",\"ref\":");
        out.push_str(reference);
    }
    out.push('}');
}

fn push_id(out: &mut String, name: &str, IdText(id): &IdText<'_>) {
    json::push_string(out, name);
    out.push(':');
    json::push_string(out, id);
}

fn push_ids(out: &mut String, name: &str, ids: &[IdText<'_>]) {
    json::push_string(out, name);
    out.push_str(":[");
    for (index, id) in ids.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        json::push_string(out, &id.0);
    }
    out.push(']');
}

#[cfg(test)]
mod tests;
