//! The past of an id: what was sent about it and is remembered or kept, a page at a time.
//!
//! It is read from the history in memory, which on a node of a cluster has what was sent at any.
//! Of an id whose events are kept on disk the rest comes from there, read by threads that may wait,
//! [`READS_MAX`] at a time for the API and as many for clients.
//!
//! Cost: the history's lock for a page, and a copy of its lines.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{Uri, header};
use axum::response::{IntoResponse, Response};
use engine::{EventArchive, History, Router};
use httpd::path::PathId;
use httpd::problem::{ApiProblem, sentence};
use hub::{EventId, EventIds, IdText, Names, PageOf, PagePart, Place};
use proto::Frame;
use serde::Deserialize;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::api::state::Api;

/// Events of a page, when the client does not say how many, and at most.
const LIMIT_DEFAULT: usize = 100;
const LIMIT_MAX: usize = 1000;

/// Bytes of a page's lines at most, but for one event.
const PAGE_BYTES_MAX: usize = 1 << 20;

/// Pages that are read from disk at one time, of [`PAGE_BYTES_MAX`] each; further ones wait.
const READS_MAX: usize = 4;

/// For whom a page is read: neither waits for the pages of the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reader {
    /// A caller of the API.
    Api,
    /// A client, on the public port.
    Client,
}

impl Reader {
    fn places(self) -> &'static Semaphore {
        static API: Semaphore = Semaphore::const_new(READS_MAX);
        static CLIENTS: Semaphore = Semaphore::const_new(READS_MAX);
        match self {
            Reader::Api => &API,
            Reader::Client => &CLIENTS,
        }
    }
}

/// What stands for the place before all that is remembered.
const EARLIEST: &str = "earliest";

/// Which page.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct EventsQuery {
    after: Option<String>,
    before: Option<String>,
    limit: Option<String>,
    order: Option<String>,
}

/// What was asked for, by numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Wanted {
    of: PageOf,
    /// The client has heard all up to a place, and is to be told if some since may be missing.
    is_told: bool,
    /// The place, or the one at the other end, is none of this server's.
    is_unknown: bool,
}

impl EventsQuery {
    fn wanted(&self, ids: &EventIds, bytes_max: usize) -> Result<Wanted, ApiProblem> {
        let newest_first = match self.order.as_deref() {
            None | Some("asc") => false,
            Some("desc") => true,
            Some(_) => return Err(ApiProblem::bad_request("order is asc or desc.")),
        };
        let limit = self.limit.as_ref().map_or(Some(LIMIT_DEFAULT), |text| text.parse().ok());
        let limit = limit.filter(|limit| (1..=LIMIT_MAX).contains(limit));
        let wrong = || ApiProblem::bad_request(format!("limit is a number from 1 to {LIMIT_MAX}."));
        let events_max = limit.ok_or_else(wrong)?;
        let given = |text: &'_ Option<String>| text.clone().filter(|text| !text.is_empty());
        let after = given(&self.after).filter(|text| text != EARLIEST);
        let (after, before) =
            (place("after", after, ids)?, place("before", given(&self.before), ids)?);
        let of = PageOf {
            after: after.flatten().unwrap_or(0),
            // Numbers grow from start to start: of what was before another one nothing is known.
            before: before.map_or(u64::MAX, |before| before.unwrap_or(0)),
            newest_first,
            events_max,
            bytes_max,
        };
        let is_unknown = after == Some(None) || before == Some(None);
        Ok(Wanted { of, is_told: after.is_some() || is_unknown, is_unknown })
    }
}

/// The number of a place that is given, or nothing where it is none of this server's.
fn place(
    name: &str,
    text: Option<String>,
    ids: &EventIds,
) -> Result<Option<Option<u64>>, ApiProblem> {
    let Some(text) = text else { return Ok(None) };
    if EventId::parse_place(text.as_bytes()).is_none() {
        return Err(ApiProblem::bad_request(format!(
            "{name} is the id of an event, 16 letters and digits, or the 27 of a poll's \
             Encke-Next: give it as it came, or leave it out."
        )));
    }
    Ok(Some(match ids.known(text.as_bytes()) {
        Place::Known(number) => Some(number),
        // Another node of the cluster was faster.
        Place::Ahead(number) if ids.are_given() => Some(number),
        Place::Ahead(_) | Place::Later(_) | Place::Unknown => None,
    }))
}

/// What was sent about an id.
pub(crate) async fn events(
    State(api): State<Arc<Api>>,
    PathId(id): PathId,
    query: Result<Query<EventsQuery>, QueryRejection>,
) -> Result<Response, ApiProblem> {
    let page = api.events_page(id.as_text(), &query?.0, PAGE_BYTES_MAX, Reader::Api).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], page + "\n").into_response())
}

/// The parameters in the query of a request.
pub(crate) fn query_of(query: &str) -> Result<EventsQuery, ApiProblem> {
    let unread = "The query cannot be read. Percent-encode what no address may hold.";
    let uri = format!("/?{query}").parse::<Uri>();
    let uri = uri.map_err(|_| ApiProblem::bad_request(unread))?;
    Ok(Query::try_from_uri(&uri)?.0)
}

impl Api {
    /// A page of what was sent about `id`, of so many bytes of events at most, but for one: a JSON
    /// object.
    pub(crate) async fn events_page(
        &self,
        id: IdText<'_>,
        query: &EventsQuery,
        bytes_max: usize,
        reader: Reader,
    ) -> Result<String, ApiProblem> {
        let wanted = query.wanted(self.router.event_ids(), bytes_max)?;
        let page = page(&self.router, id, wanted.of, reader).await?;
        Ok(body(page.as_ref(), wanted))
    }
}

type Page = hub::Page<Frame>;

/// The page; `None` where nothing is remembered.
async fn page(
    router: &Router,
    id: IdText<'_>,
    of: PageOf,
    reader: Reader,
) -> Result<Option<Page>, ApiProblem> {
    let Some(history) = router.history() else { return Ok(None) };
    let part = remembered(history, router.names(), id, of);
    let text = id.to_string();
    let archive = router.archive().filter(|archive| !part.is_whole() && archive.keeps(&text));
    match archive.cloned() {
        Some(archive) => Ok(Some(joined(part, archive, text, reader).await?)),
        None => Ok(Some(part.into_page())),
    }
}

/// What the memory has of it.
fn remembered(history: &History, names: &Names, id: IdText<'_>, of: PageOf) -> PagePart<Frame> {
    // A name of which nothing is remembered any more is found by what its id begins with.
    let subject = names.acquire(id);
    let part = history.page_part(subject, of);
    names.release(subject);
    part
}

/// That, and what is on disk.
async fn joined(
    part: PagePart<Frame>,
    archive: Arc<EventArchive>,
    id: String,
    reader: Reader,
) -> Result<Page, ApiProblem> {
    // It is never closed.
    let _place = reader.places().acquire().await.ok();
    match spawn_blocking(move || part.join(&*archive, &id)).await {
        Ok(Ok(page)) => Ok(page),
        Ok(Err(error)) => Err(unread(&error)),
        Err(error) => Err(unread(&error)),
    }
}

fn unread(error: &dyn std::fmt::Display) -> ApiProblem {
    ApiProblem::unavailable(format!(
        "{} Try again; the server's log says more.",
        sentence(&error.to_string())
    ))
}

/// The answer.
fn body(page: Option<&Page>, wanted: Wanted) -> String {
    let Wanted { of, is_told, is_unknown } = wanted;
    let (events, has_more, covered) = match page {
        Some(page) => (&page.events[..], page.has_more, page.covered && !is_unknown),
        None => (&[][..], false, false),
    };
    let lines: Vec<&str> = events.iter().map(|event| event.json()).collect();
    let next = events.last().filter(|_| has_more);
    let next = next.map_or("null".to_owned(), |last| format!("\"{}\"", last.id()));
    // From the newest on, what is missing is missing behind the last page.
    let gap = is_told && !covered && !(of.newest_first && has_more);
    let gap = if gap { ",\"gap\":true" } else { "" };
    format!("{{\"events\":[{}],\"next\":{next}{gap}}}", lines.join(","))
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use engine::Event;
    use hub::testing::MemoryArchive;
    use hub::{Draft, Epoch, HistoryLimits, Tag};
    use serde_json::{Value, json};

    use super::*;

    /// A server on which five events about bob were sent, of which it remembers four.
    struct Server {
        ids: EventIds,
        names: Arc<Names>,
        history: History,
        archive: Option<MemoryArchive>,
        sent: Vec<String>,
    }

    impl Server {
        fn start() -> Server {
            Server::with_archive(None)
        }

        fn with_archive(archive: Option<MemoryArchive>) -> Server {
            let epoch = Epoch::begin(Tag::of(7 << 50), 0, 1_700_000_000_000);
            let (ids, names) = (EventIds::new(epoch), Arc::new(Names::new([3; 16])));
            let limits = HistoryLimits { events_max: 4, ..HistoryLimits::default() };
            let history = History::new(Arc::clone(&names), limits);
            let mut sent = Vec::new();
            for n in 0..5 {
                let draft = Draft::new("bob", &n.to_string()).unwrap();
                let event: Event = draft.numbered(ids.next(1_700_000_000_000));
                sent.push(event.id().to_owned());
                let begun = history.begin(&[IdText::parse("bob").unwrap()]);
                archive.iter().for_each(|archive| archive.append(&event));
                history.record(begun, Arc::new(event), 0);
            }
            Server { ids, names, history, archive, sent }
        }

        fn ask(&self, id: &str, query: Value) -> Value {
            let query: EventsQuery = serde_json::from_value(query).unwrap();
            let wanted = query.wanted(&self.ids, PAGE_BYTES_MAX).unwrap();
            let text = IdText::parse(id).unwrap();
            let part = remembered(&self.history, &self.names, text, wanted.of);
            let page = match &self.archive {
                Some(archive) => part.join(archive, id).unwrap(),
                None => part.into_page(),
            };
            let body = body(Some(&page), wanted);
            let mut answer: Value = serde_json::from_str(&body).unwrap();
            for event in answer["events"].as_array_mut().unwrap() {
                *event = event["data"].take();
            }
            answer
        }
    }

    #[test]
    fn pages_go_on_from_one_to_the_next_and_say_what_is_missing() {
        let server = Server::start();
        let sent = &server.sent;
        let ask = |query| server.ask("bob", query);
        assert_eq!(ask(json!({})), json!({ "events": [1, 2, 3, 4], "next": null }));
        assert_eq!(ask(json!({ "after": "earliest" })), ask(json!({})));
        assert_eq!(
            ask(json!({ "after": sent[0], "limit": "2" })),
            json!({ "events": [1, 2], "next": sent[2] }),
        );
        let all = json!({ "after": sent[2], "before": sent[4] });
        assert_eq!(ask(all), json!({ "events": [3], "next": null }));
        assert_eq!(
            ask(json!({ "order": "desc", "limit": "3" })),
            json!({ "events": [4, 3, 2], "next": sent[2] }),
        );
        assert_eq!(
            ask(json!({ "order": "desc", "before": sent[2] })),
            json!({ "events": [1], "next": null }),
        );
        let foreign = "0000000000Aabcde";
        assert_eq!(
            ask(json!({ "after": foreign })),
            json!({ "events": [1, 2, 3, 4], "next": null, "gap": true }),
        );
        assert_eq!(
            ask(json!({ "after": foreign, "order": "desc", "limit": "3" })),
            json!({ "events": [4, 3, 2], "next": sent[2] }),
            "what is missing is missing behind the last page",
        );
        assert_eq!(
            ask(json!({ "before": foreign })),
            json!({ "events": [], "next": null, "gap": true }),
        );
        let base = server.ids.id(server.ids.epoch().base).to_string();
        assert_eq!(
            ask(json!({ "after": base })),
            json!({ "events": [1, 2, 3, 4], "next": null, "gap": true }),
        );
        assert_eq!(
            server.ask("alice", json!({ "after": base })),
            json!({ "events": [], "next": null })
        );
        assert_eq!(server.names.len(), 1, "who is asked for is not kept");
    }

    #[test]
    fn pages_of_what_is_kept_begin_where_the_archive_begins() {
        let ask = |events_max: usize, query: fn(&Server) -> Value| {
            let server = Server::with_archive(Some(MemoryArchive::new(|_| true, events_max)));
            let query = query(&server);
            (server.ask("bob", query), server.sent)
        };
        let (all, _) = ask(9, |_| json!({}));
        assert_eq!(all, json!({ "events": [0, 1, 2, 3, 4], "next": null }));
        let base = |server: &Server| {
            let base = server.ids.id(server.ids.epoch().base).to_string();
            json!({ "after": base, "limit": "3" })
        };
        let (first, sent) = ask(9, base);
        assert_eq!(first, json!({ "events": [0, 1, 2], "next": sent[2] }), "no gap");
        let newest = |_: &Server| json!({ "order": "desc", "limit": "5" });
        assert_eq!(ask(9, newest).0, json!({ "events": [4, 3, 2, 1, 0], "next": null }));
        let (lost, sent) = ask(2, base);
        let events = json!({ "events": [1, 2, 3], "next": sent[3], "gap": true });
        assert_eq!(lost, events, "the archive has lost the first three, the memory the first one");
    }

    #[tokio::test]
    async fn pages_of_clients_on_disk_hold_up_none_of_the_api() {
        let server = Server::with_archive(Some(MemoryArchive::new(|_| true, 9)));
        let Server { history, names, archive, .. } = server;
        let archive: Arc<EventArchive> = Arc::new(archive.unwrap());
        let of = EventsQuery::default().wanted(&server.ids, PAGE_BYTES_MAX).unwrap().of;
        let read = |reader| {
            let part = remembered(&history, &names, IdText::parse("bob").unwrap(), of);
            joined(part, Arc::clone(&archive), "bob".to_owned(), reader)
        };
        let places = Reader::Client.places().acquire_many(READS_MAX as u32).await.unwrap();
        let mut client = std::pin::pin!(read(Reader::Client));
        let mut context = Context::from_waker(Waker::noop());
        assert!(client.as_mut().poll(&mut context).is_pending(), "clients have no place left");
        assert_eq!(read(Reader::Api).await.unwrap().events.len(), 5);
        drop(places);
        assert_eq!(client.await.unwrap().events.len(), 5);
    }

    #[test]
    fn parameters_that_are_none_are_refused() {
        let server = Server::start();
        for (name, value) in [
            ("after", "x"),
            ("after", "Earliest"),
            ("before", "earliest"),
            ("before", "000000000000000"),
            ("limit", "0"),
            ("limit", "1001"),
            ("limit", "-1"),
            ("limit", "ten"),
            ("order", "ASC"),
            ("order", ""),
        ] {
            let query: EventsQuery = serde_json::from_value(json!({ name: value })).unwrap();
            assert!(query.wanted(&server.ids, PAGE_BYTES_MAX).is_err(), "{name}={value}");
        }
    }
}
