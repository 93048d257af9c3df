//! What was sent about an id, for processes that ask: `{events, Id}` of the router, a page at a
//! time.
//!
//! ```text
//! {ok, [{EventId, Payload, Parts}], Next, Gap}
//! ```
//!
//! `Parts` is a list of `{about, Id}`, `{also, [Id]}`, `{event, Name}` and `{from, Id}`, as far as
//! the event has them. `Next` is the id of the last event where there are more, else `undefined`.
//! `Gap` is whether events of the page are missing. The options are those of `GET /events/{id}`.
//!
//! What is told is the text that the API is told, as terms. Cost: one pass over that text, in a
//! task of its own.

use std::borrow::Cow;
use std::sync::Arc;

use dispatch::past::{EventsQuery, NoPage, PAGE_BYTES_MAX, Reader, events_page};
use erlang::term::{write, write_json};
use erlang::{ReplyTo, Term, View};
use graph::OwnedId;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::answer::Answer;
use super::connected_node::ConnectedNode;
use super::counts::Counts;
use super::event_options::text;
use super::gateway::Gateway;
use super::ids;
use super::refusal::Refusal;
use super::tasks;

/// A page as it is told everywhere.
#[derive(Deserialize)]
struct PageText<'t> {
    #[serde(borrow)]
    events: Vec<EventText<'t>>,
    next: Option<Cow<'t, str>>,
    #[serde(default)]
    gap: bool,
}

#[derive(Deserialize)]
struct EventText<'t> {
    #[serde(borrow)]
    id: Cow<'t, str>,
    #[serde(borrow)]
    about: Cow<'t, str>,
    #[serde(borrow, default)]
    also: Vec<Cow<'t, str>>,
    #[serde(borrow, default)]
    event: Option<Cow<'t, str>>,
    #[serde(borrow, default)]
    from: Option<Cow<'t, str>>,
    #[serde(borrow)]
    data: &'t RawValue,
}

/// Reads the options in `term`, a list of `{'after', EventId}`, `{before, EventId}`, `{limit, N}`
/// and `{order, asc | desc}`; without one there are none.
pub(super) fn read_options(term: Option<Term<'_>>) -> Result<EventsQuery, Refusal> {
    let mut query = EventsQuery::default();
    let Some(term) = term else { return Ok(query) };
    for option in term.list().ok_or(Refusal::BadRequest)? {
        let [name, value] = option.tuple().ok_or(Refusal::BadRequest)?;
        let (option, value) = match name.atom().ok_or(Refusal::BadRequest)? {
            name if name.is("after") => (&mut query.after, text(value)?),
            name if name.is("before") => (&mut query.before, text(value)?),
            name if name.is("order") => (&mut query.order, text(value)?),
            name if name.is("limit") => (&mut query.limit, natural(value)?),
            _ => return Err(Refusal::BadRequest),
        };
        *option = Some(value);
    }
    Ok(query)
}

/// The digits of a number.
fn natural(term: Term<'_>) -> Result<String, Refusal> {
    match term.view() {
        View::Integer(number) if number >= 0 => Ok(number.to_string()),
        _ => Err(Refusal::BadRequest),
    }
}

/// Answers a page of what was sent about an id.
pub(super) fn answer(
    gateway: &Arc<Gateway>,
    node: &Arc<ConnectedNode>,
    id: OwnedId,
    query: EventsQuery,
    reply: Option<ReplyTo>,
) {
    // A cast that asks has nobody to be told.
    let Some(reply) = reply else { return };
    let (shared, asking) = (Arc::clone(gateway), Arc::clone(&node.peer));
    let told = reply.clone();
    tasks::start(gateway, node, Some(reply), async move {
        let router = &shared.sender.router;
        let page =
            events_page(router, id.as_text(), &query, PAGE_BYTES_MAX, Reader::Application).await;
        let page = page.map_err(|no_page| refusal(&shared.counts, no_page))?;
        let mut term = Vec::with_capacity(page.len());
        write_page(&mut term, &page);
        asking.send(|out| told.answer(out, |out| out.extend_from_slice(&term)));
        Ok(Answer::Told)
    });
}

fn refusal(counts: &Counts, no_page: NoPage) -> Refusal {
    match no_page {
        NoPage::Order | NoPage::Limit | NoPage::Place(_) => Refusal::BadRequest,
        NoPage::Unread(why) => {
            counts.unread_page(&why);
            Refusal::Store
        }
    }
}

/// Appends the answer that the page `text` stands for.
fn write_page(out: &mut Vec<u8>, text: &str) {
    let PageText { events, next, gap } =
        serde_json::from_str(text).expect("a page of ours has its form");
    write::tuple(out, 4);
    write::atom(out, "ok");
    if !events.is_empty() {
        write::list(out, events.len());
    }
    for EventText { id, about, also, event, from, data } in events {
        write::tuple(out, 3);
        write::binary(out, id.as_bytes());
        write_json(out, data.get());
        let parts = [!also.is_empty(), event.is_some(), from.is_some()];
        write::list(out, 1 + parts.into_iter().filter(|&is_there| is_there).count());
        write_part(out, "about", |out| ids::write_id(out, &about));
        if !also.is_empty() {
            write_part(out, "also", |out| {
                write::list(out, also.len());
                also.iter().for_each(|id| ids::write_id(out, id));
                write::nil(out);
            });
        }
        if let Some(event) = event {
            write_part(out, "event", |out| write::binary(out, event.as_bytes()));
        }
        if let Some(from) = from {
            write_part(out, "from", |out| ids::write_id(out, &from));
        }
        write::nil(out);
    }
    write::nil(out);
    match next {
        Some(next) => write::binary(out, next.as_bytes()),
        None => write::atom(out, "undefined"),
    }
    write::atom(out, if gap { "true" } else { "false" });
}

fn write_part(out: &mut Vec<u8>, name: &str, value: impl FnOnce(&mut Vec<u8>)) {
    write::tuple(out, 2);
    write::atom(out, name);
    value(out);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(mut bytes: &[u8]) -> Term<'_> {
        Term::read(&mut bytes).unwrap()
    }

    /// `[{Name, Value}]`, of a value that is written already.
    fn options(name: &str, value: &[u8]) -> Result<EventsQuery, Refusal> {
        let mut out = Vec::new();
        write::list(&mut out, 1);
        write_part(&mut out, name, |out| out.extend_from_slice(value));
        write::nil(&mut out);
        read_options(Some(term(&out)))
    }

    #[test]
    fn options_are_those_of_the_api_and_others_are_refused() {
        assert_eq!(options("limit", b"\x61\x07").unwrap().limit.as_deref(), Some("7"));
        let mut desc = Vec::new();
        write::atom(&mut desc, "desc");
        assert_eq!(options("order", &desc).unwrap().order.as_deref(), Some("desc"));
        let id = b"\x6d\0\0\0\x02ab";
        assert_eq!(options("after", id).unwrap().after.as_deref(), Some("ab"));
        assert_eq!(options("before", id).unwrap().before.as_deref(), Some("ab"));
        assert_eq!(options("limit", &desc).err(), Some(Refusal::BadRequest));
        assert_eq!(options("limit", b"\x62\xff\xff\xff\xff").err(), Some(Refusal::BadRequest));
        assert_eq!(options("since", id).err(), Some(Refusal::BadRequest));
        assert_eq!(read_options(Some(term(b"\x61\x01"))).err(), Some(Refusal::BadRequest));
        assert!(read_options(None).unwrap().after.is_none());
    }

    #[test]
    fn page_is_terms_of_its_events_with_the_parts_that_they_have() {
        let mut out = Vec::new();
        let text = r#"{"events":[{"id":"a1","about":"7","data":{"n":[1]}},
            {"id":"a2","about":"x","also":["9","y"],"event":"e","from":"bob","data":"t"}],
            "next":"a2","gap":true}"#;
        write_page(&mut out, text);
        let [ok, events, next, gap] = term(&out).tuple().unwrap();
        assert!(ok.atom().unwrap().is("ok") && gap.atom().unwrap().is("true"));
        assert_eq!(next.bytes(), b"\x6d\0\0\0\x02a2");
        let events: Vec<[Term<'_>; 3]> =
            events.list().unwrap().map(|event| event.tuple().unwrap()).collect();
        let mut payload = Vec::new();
        write_json(&mut payload, "{\"n\":[1]}");
        assert_eq!(
            (events[0][0].bytes(), events[0][1].bytes()),
            (&b"\x6d\0\0\0\x02a1"[..], &*payload)
        );
        let names = |parts: Term<'_>| -> Vec<String> {
            let parts = parts.list().unwrap();
            parts.map(|part| part.tuple::<2>().unwrap()[0].atom().unwrap().text().into()).collect()
        };
        assert_eq!(names(events[0][2]), ["about"]);
        assert_eq!(names(events[1][2]), ["about", "also", "event", "from"]);
        let mut empty = Vec::new();
        write_page(&mut empty, r#"{"events":[],"next":null}"#);
        let [_, events, next, gap] = term(&empty).tuple().unwrap();
        assert_eq!(events.bytes(), b"\x6a");
        assert!(next.atom().unwrap().is("undefined") && gap.atom().unwrap().is("false"));
    }
}
