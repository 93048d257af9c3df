//! What a client may say in a text message, and how it is answered.
//!
//! One JSON object with one member: `{"login":["a","b"]}`, `{"logout":["a"]}` or `{"ping":1}`. Each
//! is answered by one text message, in the order of the commands and among the events:
//! `{"ok":…}`, which repeats the command, or `{"error":{…}}` with a problem (RFC 9457).

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::{Deserializer, Error};
use serde_json::Number;
use serde_json::error::Category;
use serde_json::value::RawValue;

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
    /// To hear that the connection works, with any number that tells the answers apart.
    Ping(Number),
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
    serde_json::from_str(text).map_err(|error| {
        let what = match error.classify() {
            Category::Data => "This is not a command.",
            Category::Io | Category::Syntax | Category::Eof => "This is not JSON.",
        };
        Problem::bad_request(format!(
            "{what} Send {{\"login\":[\"id\"]}}, {{\"logout\":[\"id\"]}} or {{\"ping\":1}}, one in \
             a message."
        ))
    })
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

/// The answer to a message that was not carried out.
pub fn error(problem: &Problem) -> String {
    format!("{{\"error\":{}}}", problem.to_json().trim_end())
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
mod tests {
    use super::*;
    use serde_json::json;

    fn ids<'b>(texts: &[&'b str]) -> Vec<IdText<'b>> {
        texts.iter().map(|&text| IdText(Cow::Borrowed(text))).collect()
    }

    #[test]
    fn commands_are_read() {
        let cases = [
            (r#"{"login":["a","b"]}"#, Command::Login(ids(&["a", "b"]))),
            (r#" { "login" : [ 123, -5, 99999999999999999999 ] } "#, {
                Command::Login(ids(&["123", "-5", "99999999999999999999"]))
            }),
            (r#"{"login":["\u0061\"",""]}"#, Command::Login(ids(&["a\"", ""]))),
            (r#"{"logout":[]}"#, Command::Logout(ids(&[]))),
            (r#"{"ping":1}"#, Command::Ping(Number::from(1))),
            (r#"{"ping":1.5}"#, Command::Ping(Number::from_f64(1.5).unwrap())),
        ];
        for (text, command) in cases {
            assert_eq!(parse(text), Ok(command), "{text}");
        }
    }

    #[test]
    fn anything_else_is_a_problem_that_says_what_to_send() {
        for text in [
            "",
            "x",
            "{",
            "[]",
            "null",
            "1",
            "{}",
            "\"login\"",
            r#"{"login":"a"}"#,
            r#"{"login":[null]}"#,
            r#"{"login":[1.5]}"#,
            r#"{"login":[["a"]]}"#,
            r#"{"login":["a"],"logout":["b"]}"#,
            r#"{"login":["a"],"login":["b"]}"#,
            r#"{"send":1}"#,
            r#"{"ping":"1"}"#,
            r#"{"ping":null}"#,
            r#"{"ping":1} x"#,
            r#"{"ping":1,"more":2}"#,
            r#"{"Login":["a"]}"#,
        ] {
            let problem = parse(text).unwrap_err();
            assert_eq!(problem.status, 400, "{text}");
            assert!(problem.detail.contains(r#"{"login":["id"]}"#), "{}", problem.detail);
        }
        let deep = "[".repeat(4096);
        assert!(parse(&deep).is_err());
    }

    #[test]
    fn answers_are_json() {
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        let login = parse(r#"{"login":["a\"",7]}"#).unwrap();
        assert_eq!(value(&ok(&login, None)), json!({"ok": {"login": ["a\"", "7"]}}));
        let logout = parse(r#"{"logout":[]}"#).unwrap();
        assert_eq!(value(&ok(&logout, Some("1"))), json!({"ok": {"logout": []}}));
        let ping = parse(r#"{"ping":1}"#).unwrap();
        assert_eq!(ok(&ping, Some("00ff")), r#"{"ok":{"ping":1,"next":"00ff"}}"#);
        assert_eq!(ok(&ping, None), r#"{"ok":{"ping":1}}"#);
        let answer = error(&binary_problem());
        assert_eq!(value(&answer)["error"]["status"], 400);
        assert!(!answer.contains('\n'));
    }
}
