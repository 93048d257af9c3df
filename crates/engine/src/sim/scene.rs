//! What the world is set in: who follows whom, what ids look like, and what clients ask for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hub::{Followers, FollowersError, Id, IdText, Names};
use proto::{Carrier, Transport};

use super::random::Random;

/// Who follows whom, by text.
pub(super) struct Graph {
    pub(super) names: Arc<Names>,
    pub(super) followers: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    /// About three subscriptions for each of so many ids.
    pub(super) fn random(random: &mut Random, names: Arc<Names>, ids: usize) -> Graph {
        let mut followers: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for _ in 0..ids * 3 {
            let (a, b) = (random.below(ids), random.below(ids));
            // A store pins the names that it refers to.
            for id in [a, b] {
                names.pin(IdText::parse(&id_text(id)).unwrap());
            }
            followers.entry(id_text(a)).or_default().insert(id_text(b));
        }
        Graph { names, followers }
    }

    /// The same subscriptions, as a server that is started anew reads them from its store.
    pub(super) fn restored(&self, names: Arc<Names>) -> Graph {
        for text in self.texts() {
            names.pin(IdText::parse(text).unwrap());
        }
        Graph { names, followers: self.followers.clone() }
    }

    fn texts(&self) -> impl Iterator<Item = &String> {
        self.followers.iter().flat_map(|(a, b)| b.iter().chain([a]))
    }

    pub(super) fn stored_names(&self) -> usize {
        self.texts().filter(|text| text.starts_with("user")).collect::<BTreeSet<_>>().len()
    }
}

impl Graph {
    /// A slice of `texts`. Slices of two, so that every list is walked in several.
    fn slice_of<'t>(
        &self,
        texts: impl Iterator<Item = &'t String>,
        after: Option<Id>,
        visit: &mut dyn FnMut(Id),
    ) -> Option<Id> {
        let resolve = |text: &String| self.names.lookup(IdText::parse(text).unwrap()).unwrap();
        let mut ids: Vec<Id> = texts.map(resolve).collect();
        ids.sort();
        let mut rest = ids.into_iter().filter(|id| after.is_none_or(|after| *id > after));
        let slice: Vec<Id> = rest.by_ref().take(2).collect();
        slice.iter().copied().for_each(visit);
        rest.next().and(slice.last().copied())
    }
}

impl Followers for Graph {
    fn slice(
        &self,
        subject: Id,
        after: Option<Id>,
        visit: &mut dyn FnMut(Id),
    ) -> Result<Option<Id>, FollowersError> {
        let subject = self.names.text(subject).unwrap();
        let texts = self.followers.get(&subject).into_iter().flatten();
        Ok(self.slice_of(texts, after, visit))
    }

    fn slice_of_following(
        &self,
        subscriber: Id,
        after: Option<Id>,
        visit: &mut dyn FnMut(Id),
    ) -> Result<Option<Id>, FollowersError> {
        let subscriber = self.names.text(subscriber).unwrap();
        let follows =
            |(_, followers): &(&String, &BTreeSet<String>)| followers.contains(&subscriber);
        let texts = self.followers.iter().filter(follows).map(|(subject, _)| subject);
        Ok(self.slice_of(texts, after, visit))
    }
}

/// A third of the ids are integers, the others names.
pub(super) fn id_text(number: usize) -> String {
    if number.is_multiple_of(3) { number.to_string() } else { format!("user:{number}") }
}

/// The transports whose connection is one answer without end; polls have a world of their own.
pub(super) const STREAMS: [Transport; 4] =
    [Transport::Sse, Transport::Ndjson, Transport::Classic, Transport::WebSocket];

/// The fields of a WebSocket's handshake, after an `Accept` that says nothing.
const UPGRADE: &str = "*/*\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                       Sec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";

/// The fields of a browser's `EventSource`.
const EVENT_SOURCE: &str = "text/event-stream\r\nCache-Control: no-cache\r\nSec-Fetch-Mode: cors";

/// The request head of a client.
pub(super) fn request(ids: &[String], transport: Transport, carrier: Carrier) -> Vec<u8> {
    request_with(ids, transport, carrier, "")
}

/// The same with further header lines, each with its end.
pub(super) fn request_with(
    ids: &[String],
    transport: Transport,
    carrier: Carrier,
    lines: &str,
) -> Vec<u8> {
    let (path, accept) = match transport {
        Transport::Sse => ("stream", EVENT_SOURCE),
        Transport::Ndjson => ("stream", "*/*"),
        Transport::Classic => ("test", "*/*"),
        Transport::WebSocket => ("stream", UPGRADE),
        Transport::Poll => ("poll", "*/*"),
        _ => unreachable!("protocols of their own, see `channels` and `topics`"),
    };
    let is_new = carrier == Carrier::Chunked || transport == Transport::WebSocket;
    let version = if is_new { "1.1" } else { "1.0" };
    let query: Vec<String> = ids[1..].iter().map(|id| format!("id={id}")).collect();
    let (id, query) = (&ids[0], query.join("&"));
    let host = "Host: encke\r\n";
    format!("GET /{path}/{id}?{query} HTTP/{version}\r\n{host}Accept: {accept}\r\n{lines}\r\n")
        .into()
}
