//! Payloads: what an Erlang process sends, as browsers hear it, and what others send, as Erlang
//! processes hear it.
//!
//! - a list of at least one element that is wholly characters, binaries and such lists is text, as
//!   strings and iolists are: a JSON string;
//! - `{json, Text}` is JSON already, in a binary or an iolist;
//! - every other term is as the module `json` of OTP 27 has it (see
//!   [`push_json`]).
//!
//! Processes hear the term as it was sent. An event that came from elsewhere they hear as the term
//! that its JSON stands for.

use engine::{Event, TERM_SLOT};
use erlang::term::{is_text_list, push_json, push_string, push_text, write, write_json};
use erlang::{Term, View};
use proto::Frame;
use serde::de::IgnoredAny;

use super::refusal::Refusal;

/// Writes the JSON that `term` stands for to `json`.
pub(super) fn read_payload(json: &mut String, term: Term<'_>) -> Result<(), Refusal> {
    json.clear();
    if let Some(text) = ready(term) {
        push_text(json, text)?;
        serde_json::from_str::<IgnoredAny>(json).map_err(|_| Refusal::NotJson)?;
        return Ok(());
    }
    match term.view() {
        View::Bytes(_) | View::List(..) if is_text_list(term) => {
            let mut text = String::new();
            push_text(&mut text, term)?;
            push_string(json, &text);
        }
        _ => push_json(json, term)?,
    }
    Ok(())
}

/// The text of `{json, Text}`.
fn ready(term: Term<'_>) -> Option<Term<'_>> {
    let [tag, text] = term.tuple()?;
    tag.atom().filter(|tag| tag.is("json")).map(|_| text)
}

/// The message that processes hear of a payload that was a term: `{router_msg, Payload}`.
pub(super) fn message(payload: Term<'_>) -> Frame {
    let mut head = Vec::with_capacity(16);
    push_head(&mut head);
    Frame::bare(&[&head, payload.bytes()])
}

/// The message of an event from anywhere, made on first need.
pub(super) fn message_of(event: &Event) -> &[u8] {
    let encode = |event: &Event| {
        let mut out = Vec::new();
        push_head(&mut out);
        write_json(&mut out, event.data());
        Frame::bare(&[&out])
    };
    event.frame(TERM_SLOT, encode).body()
}

fn push_head(out: &mut Vec<u8>) {
    write::tuple(out, 2);
    write::atom(out, "router_msg");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json_of(bytes: &[u8]) -> Result<String, Refusal> {
        let (mut json, mut bytes) = (String::from("before"), bytes);
        read_payload(&mut json, Term::read(&mut bytes).unwrap())?;
        Ok(json)
    }

    fn ready(text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        write::tuple(&mut out, 2);
        write::atom(&mut out, "json");
        write::binary(&mut out, text.as_bytes());
        out
    }

    #[test]
    fn kind_of_the_term_says_what_it_becomes() {
        assert_eq!(json_of(b"\x6d\0\0\0\x05Hello").as_deref(), Ok("\"Hello\""));
        assert_eq!(json_of(b"\x6b\0\x03\x01\x02\x03").as_deref(), Ok("[1,2,3]"));
        assert_eq!(json_of(b"\x6b\0\x02Hi").as_deref(), Ok("\"Hi\""));
        assert_eq!(json_of(b"\x6a").as_deref(), Ok("[]"));
        let pairs = b"\x6c\0\0\0\x02\x68\x02\x77\x01a\x61\x01\x68\x02\x77\x01b\x61\x02\x6a";
        assert_eq!(json_of(pairs).as_deref(), Ok("[[\"a\",1],[\"b\",2]]"));
        let doubled = b"\x74\0\0\0\x02\x77\x01a\x61\x01\x6d\0\0\0\x01a\x61\x02";
        assert_eq!(json_of(doubled), Err(Refusal::NoJson(erlang::NoJson::DoubledKey)));
        assert_eq!(json_of(b"\x61\x07").as_deref(), Ok("7"));
        assert_eq!(json_of(b"\x68\x02\x77\x01a\x6b\0\x01\x01").as_deref(), Ok("[\"a\",[1]]"));
        assert_eq!(json_of(&ready("{\"a\": [1]}")).as_deref(), Ok("{\"a\": [1]}"));
        assert_eq!(json_of(&ready("{a}")), Err(Refusal::NotJson));
        assert_eq!(json_of(&ready("")), Err(Refusal::NotJson));
        assert!(matches!(
            json_of(b"\x6c\0\0\0\x01\x6d\0\0\0\x01\xff\x6a"),
            Err(Refusal::NoJson(_))
        ));
    }

    #[test]
    fn processes_hear_the_term_or_what_the_json_stands_for() {
        let term = Term::read(&mut &b"\x68\x01\x61\x07"[..]).unwrap();
        assert_eq!(message(term).body(), b"\x68\x02\x77\x0arouter_msg\x68\x01\x61\x07");
        let event = Event::new(1, "a", "[1]").unwrap();
        let heard = b"\x68\x02\x77\x0arouter_msg\x6c\0\0\0\x01\x61\x01\x6a";
        assert_eq!(message_of(&event), heard);
    }
}
