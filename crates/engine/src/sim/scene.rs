//! What the world is set in: who follows whom, what ids look like, and what clients ask for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hub::{Followers, FollowersError, Id, IdText, Names};
use proto::{Framing, Transport};

/// Who follows whom, by text.
pub(super) struct Graph {
    pub(super) names: Arc<Names>,
    pub(super) followers: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    pub(super) fn stored_names(&self) -> usize {
        let both = self.followers.iter().flat_map(|(a, b)| b.iter().chain([a]));
        both.filter(|text| text.starts_with("user")).collect::<BTreeSet<_>>().len()
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
        let resolve = |text: &String| self.names.lookup(IdText::parse(text).unwrap()).unwrap();
        let mut ids: Vec<Id> = texts.map(resolve).collect();
        ids.sort();
        // Slices of two, so that every audience is walked in several.
        let mut rest = ids.into_iter().filter(|id| after.is_none_or(|after| *id > after));
        let slice: Vec<Id> = rest.by_ref().take(2).collect();
        slice.iter().copied().for_each(visit);
        Ok(rest.next().and(slice.last().copied()))
    }
}

/// A third of the ids are integers, the others names.
pub(super) fn id_text(number: usize) -> String {
    if number.is_multiple_of(3) { number.to_string() } else { format!("user:{number}") }
}

/// The transports that the simulated clients speak: those of plain requests.
pub(super) const SPOKEN: [Transport; 3] = [Transport::Sse, Transport::Ndjson, Transport::Classic];

/// The request head of a client.
pub(super) fn request(ids: &[String], transport: Transport, framing: Framing) -> Vec<u8> {
    let (path, accept) = match transport {
        Transport::Sse => ("stream", "text/event-stream"),
        Transport::Ndjson => ("stream", "*/*"),
        Transport::Classic => ("test", "*/*"),
        Transport::WebSocket => unreachable!("it is not among the transports spoken"),
        Transport::Poll => ("poll", "*/*"),
    };
    let version = if framing == Framing::Chunked { "1.1" } else { "1.0" };
    let query: Vec<String> = ids[1..].iter().map(|id| format!("id={id}")).collect();
    let (id, query) = (&ids[0], query.join("&"));
    format!("GET /{path}/{id}?{query} HTTP/{version}\r\nHost: encke\r\nAccept: {accept}\r\n\r\n")
        .into()
}
