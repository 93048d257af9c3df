//! The past of an id: what was sent about it and is remembered or kept, a page at a time.
//!
//! It is read from the history in memory, which on a node of a cluster has what was sent at any.
//! Of an id whose events are kept on disk the rest comes from there, read by threads that may wait,
//! [`READS_MAX`] at a time for applications and as many for clients.
//!
//! Cost: the history's lock for a page, and a copy of its lines.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use engine::{EventArchive, History, Router};
use hub::{EventId, EventIds, IdText, Names, PageOf, PagePart, Place};
use proto::Frame;
use serde::Deserialize;
use thiserror::Error;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// Events of a page, when it is not said how many, and at most.
const LIMIT_DEFAULT: usize = 100;
const LIMIT_MAX: usize = 1000;

/// Bytes of a page's lines at most, but for one event.
pub const PAGE_BYTES_MAX: usize = 1 << 20;

/// Pages that are read from disk at one time, of [`PAGE_BYTES_MAX`] each; further ones wait.
const READS_MAX: usize = 4;

/// For whom a page is read: neither waits for the pages of the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reader {
    /// An application, by the API or as an Erlang process.
    Application,
    /// A client, on the public port.
    Client,
}

impl Reader {
    fn places(self) -> &'static Semaphore {
        static API: Semaphore = Semaphore::const_new(READS_MAX);
        static CLIENTS: Semaphore = Semaphore::const_new(READS_MAX);
        match self {
            Reader::Application => &API,
            Reader::Client => &CLIENTS,
        }
    }
}

/// What stands for the place before all that is remembered.
const EARLIEST: &str = "earliest";

/// Which page, as it is asked for.
#[derive(Debug, Default, Deserialize)]
pub struct EventsQuery {
    /// The id of an event, or `earliest`: what comes behind it.
    pub after: Option<String>,
    /// The id of an event: what comes before it.
    pub before: Option<String>,
    /// How many events, in digits.
    pub limit: Option<String>,
    /// `asc`, which it is where nothing is said, or `desc`.
    pub order: Option<String>,
}

/// Why there is no page. The text is for whoever has asked.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum NoPage {
    /// No such order.
    #[error("order is asc or desc.")]
    Order,
    /// No number, or one that is too large.
    #[error("limit is a number from 1 to {LIMIT_MAX}.")]
    Limit,
    /// The parameter of that name is no place.
    #[error(
        "{0} is the id of an event, 16 letters and digits, or the 27 of a poll's Encke-Next: give \
         it as it came, or leave it out."
    )]
    Place(&'static str),
    /// What is kept cannot be read now. The log says more.
    #[error("{0}")]
    Unread(String),
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
    fn wanted(&self, ids: &EventIds, bytes_max: usize) -> Result<Wanted, NoPage> {
        let newest_first = match self.order.as_deref() {
            None | Some("asc") => false,
            Some("desc") => true,
            Some(_) => return Err(NoPage::Order),
        };
        let limit = self.limit.as_ref().map_or(Some(LIMIT_DEFAULT), |text| text.parse().ok());
        let limit = limit.filter(|limit| (1..=LIMIT_MAX).contains(limit));
        let events_max = limit.ok_or(NoPage::Limit)?;
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
    name: &'static str,
    text: Option<String>,
    ids: &EventIds,
) -> Result<Option<Option<u64>>, NoPage> {
    let Some(text) = text else { return Ok(None) };
    if EventId::parse_place(text.as_bytes()).is_none() {
        return Err(NoPage::Place(name));
    }
    Ok(Some(match ids.known(text.as_bytes()) {
        Place::Known(number) => Some(number),
        // Another node of the cluster was faster.
        Place::Future(number) if ids.are_given() => Some(number),
        Place::Future(_) | Place::Later(_) | Place::Unknown => None,
    }))
}

/// A page of what was sent about `id`, of so many bytes of events at most, but for one: a JSON
/// object.
pub async fn events_page(
    router: &Router,
    id: IdText<'_>,
    query: &EventsQuery,
    bytes_max: usize,
    reader: Reader,
) -> Result<String, NoPage> {
    let wanted = query.wanted(router.event_ids(), bytes_max)?;
    let page = page(router, id, wanted.of, reader).await?;
    Ok(body(page.as_ref(), wanted))
}

type Page = hub::Page<Frame>;

/// The page; `None` where nothing is remembered.
async fn page(
    router: &Router,
    id: IdText<'_>,
    of: PageOf,
    reader: Reader,
) -> Result<Option<Page>, NoPage> {
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
) -> Result<Page, NoPage> {
    // It is never closed.
    let _place = reader.places().acquire().await.ok();
    match spawn_blocking(move || part.join(&*archive, &id)).await {
        Ok(Ok(page)) => Ok(page),
        Ok(Err(error)) => Err(NoPage::Unread(error.to_string())),
        Err(error) => Err(NoPage::Unread(error.to_string())),
    }
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
