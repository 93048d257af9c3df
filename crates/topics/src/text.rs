//! An update as the data of an event, and as its subscribers hear it.
//!
//! The data is the update's text, as a JSON string. An update whose publisher has given it an id,
//! or a time to wait before a reconnect, has an object instead, which no publisher can send. So
//! what is remembered, written to disk or told another node is an event as all others.

use std::borrow::Cow;

use mercure::{Update, UpdateFrame, push_update};
use serde::{Deserialize, Serialize};

/// What an update is beside its topics and its name.
#[derive(Serialize, Deserialize)]
struct Own<'u> {
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    id: Option<Cow<'u, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry: Option<u64>,
    #[serde(borrow)]
    data: Cow<'u, str>,
}

/// The data of the event that an update becomes: one JSON value.
pub fn payload(update: &Update) -> String {
    let Update { id, retry, data, .. } = update;
    if id.is_none() && retry.is_none() {
        return serde_json::Value::from(data.as_str()).to_string();
    }
    let id = id.as_deref().map(Cow::Borrowed);
    let own = Own { id, retry: *retry, data: data.as_str().into() };
    // A map of texts and a number is written whatever is in it.
    serde_json::to_string(&own).unwrap_or_default()
}

/// The id of a publisher as it stands in [`payload`], between its quotes.
pub fn own_id(id: &str) -> String {
    let quoted = serde_json::Value::from(id).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// The id of a publisher that is [written](own_id) so; `None` of what nobody would write.
pub fn read_own_id(written: &str) -> Option<String> {
    serde_json::from_str(&format!("\"{written}\"")).ok()
}

/// The event of a stream. `name` is the name of the event as JSON, `id` Encke's own, `data` what
/// [`payload`] made, or, of an event that is no update, any JSON: of a string its text.
pub fn stream_text(name: Option<&str>, id: &str, data: &str, is_update: bool) -> String {
    let name = name.and_then(|name| serde_json::from_str::<Cow<'_, str>>(name).ok());
    let text = || match serde_json::from_str::<Text<'_>>(data) {
        Ok(Text(text)) => text,
        Err(_) => Cow::Borrowed(data),
    };
    let own = match data.starts_with('{') && is_update {
        true => serde_json::from_str(data).ok(),
        false => None,
    };
    let own = own.unwrap_or_else(|| Own { id: None, retry: None, data: text() });
    let id = own.id.unwrap_or_else(|| Cow::Owned(format!("#{id}")));
    let mut out = Vec::with_capacity(own.data.len() + id.len() + 64);
    let (kind, retry) = (name.as_deref(), own.retry);
    push_update(&mut out, &UpdateFrame { kind, retry, id: &id, data: &own.data });
    // It is put together of texts.
    String::from_utf8(out).unwrap_or_default()
}

/// A JSON string, which borrows where nothing in it is escaped.
#[derive(Deserialize)]
struct Text<'d>(#[serde(borrow)] Cow<'d, str>);

#[cfg(test)]
mod tests {
    use super::*;

    fn update(data: &str) -> Update {
        Update {
            topics: vec!["https://a.test/1".to_owned()],
            data: data.to_owned(),
            is_private: false,
            id: None,
            kind: None,
            retry: None,
        }
    }

    #[test]
    fn text_is_heard_as_it_was_published() {
        let plain = update("a\"\nb\r\nc");
        let heard = stream_text(Some("\"no\\\"te\""), "0000000001Z00000", &payload(&plain), true);
        let id = "id: #0000000001Z00000";
        assert_eq!(heard, format!("event: no\"te\n{id}\ndata: a\"\ndata: b\ndata: c\n\n"));
        let own = Update { id: Some("urn:x:1".into()), retry: Some(3000), ..plain };
        let heard = stream_text(None, "0000000001Z00000", &payload(&own), true);
        assert_eq!(heard, "retry: 3000\nid: urn:x:1\ndata: a\"\ndata: b\ndata: c\n\n");
    }

    #[test]
    fn id_of_a_publisher_is_found_in_what_is_kept() {
        for id in ["urn:x:1", "a\"b\\c", "é/ü", "{\"id\":\"\u{2028}"] {
            let of_id = Update { id: Some(id.into()), ..update("x") };
            let parts = hub::EventParts {
                about: "#t:a",
                also: &[],
                name: None,
                from: None,
                payload: hub::Payload::Json(&payload(&of_id)),
            };
            let draft = hub::Draft::of_key(parts).unwrap();
            assert_eq!(draft.own_id(), Some(&*own_id(id)));
            assert_eq!(draft.own_id().and_then(read_own_id).as_deref(), Some(id));
        }
        assert_eq!(hub::Draft::new("a", "\"{}\"").unwrap().own_id(), None);
    }

    #[test]
    fn text_that_looks_like_an_object_of_ours_is_a_text() {
        let forged = update(r#"{"id":"x","data":"y"}"#);
        let heard = stream_text(None, "0000000001Z00000", &payload(&forged), true);
        assert_eq!(heard, "id: #0000000001Z00000\ndata: {\"id\":\"x\",\"data\":\"y\"}\n\n");
        let of_an_id = stream_text(None, "0000000001Z00000", r#"{"id":"x","data":"y"}"#, false);
        assert_eq!(of_an_id, heard);
    }
}
