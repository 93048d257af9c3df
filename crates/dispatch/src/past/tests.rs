//! Pages of what is remembered and kept, both ways, and what is no page.

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
    assert_eq!(read(Reader::Application).await.unwrap().events.len(), 5);
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
