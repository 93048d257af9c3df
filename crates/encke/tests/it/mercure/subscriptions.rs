//! Who is subscribed: the list, and the updates that tell each change of it.

use std::borrow::Borrow;
use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{BOOKS, Hub, bearer, subscriber};
use crate::harness::{Answer, End, Server, Stream, Wire, get, read_answer, wait_for};

pub(super) const PATH: &str = "/.well-known/mercure/subscriptions";

/// The selector of all paths, as clients write it.
const ALL: &str = "/.well-known/mercure/subscriptions{/topic}{/subscriber}";

/// A request for [`ALL`].
pub(super) const LISTEN: &str =
    "topic=/.well-known/mercure/subscriptions%7B/topic%7D%7B/subscriber%7D";

/// A token that may read the list, and hear its changes.
pub(super) fn reader() -> String {
    subscriber(&[ALL])
}

impl<S: Borrow<Server>> Hub<S> {
    pub(super) fn ask_list(&self, path: &str, fields: &[&str]) -> Answer {
        ask_list_at(self.server(), path, fields)
    }

    /// The list of a path, by a token that may read all.
    pub(super) fn list(&self, path: &str) -> Value {
        list_at(self.server(), path)
    }
}

pub(super) fn ask_list_at(server: &Server, path: &str, fields: &[&str]) -> Answer {
    read_answer(&mut server.ask(get(path, fields)), "GET").unwrap()
}

/// The list of a path at this server, by a token that may read all.
pub(super) fn list_at(server: &Server, path: &str) -> Value {
    let answer = ask_list_at(server, path, &[&reader()]);
    assert_eq!(answer.head.field("content-type"), Some("application/ld+json"), "{answer:?}");
    let value = answer.ok();
    assert_eq!(answer.head.field("etag"), value["lastEventID"].as_str(), "{answer:?}");
    value
}

/// The subscriptions of a list, by their ids.
pub(super) fn ids(list: &Value) -> BTreeSet<String> {
    let listed = list["subscriptions"].as_array().unwrap();
    let ids: BTreeSet<String> =
        listed.iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids.len(), listed.len(), "each once");
    ids
}

/// The document of the next update.
pub(super) fn change(stream: &mut Stream) -> Value {
    document(&stream.chunk())
}

/// The document in an update, which is the hub's own and has no name.
fn document(event: &str) -> Value {
    let data = event.lines().find_map(|line| line.strip_prefix("data: "));
    assert!(event.starts_with("id: #"), "{event}");
    serde_json::from_str(data.unwrap()).unwrap()
}

/// Takes changes into `known` until that is `wanted`.
pub(super) fn follow(stream: &mut Stream, known: &mut BTreeSet<String>, wanted: &BTreeSet<String>) {
    // Their lengths first: to compare thousands behind each of thousands takes its time.
    while known.len() != wanted.len() || known != wanted {
        let event = stream.chunk();
        let differ = || known.symmetric_difference(wanted).take(5).collect::<Vec<_>>();
        assert!(event.starts_with("id: #"), "{event}, and these differ still: {:?}", differ());
        let change = document(&event);
        let id = change["id"].as_str().unwrap().to_owned();
        match change["active"].as_bool().unwrap() {
            true => known.insert(id),
            false => known.remove(&id),
        };
    }
}

#[test]
fn begin_and_end_of_a_subscription_are_told_and_listed() {
    let hub = Hub::start(&["--mercure-open"]);
    let mut listener = hub.listen(LISTEN, &[&reader()]);
    let books = subscriber(&["https://a.test/books/{id}", "a"]);
    let mut others = [
        hub.listen("topic=*", &[]),
        hub.listen(&format!("{LISTEN}&topic=x"), &[]),
        hub.listen("topic=*", &[&books]),
    ];
    // One that asks for all, and is granted paths.
    let mut all = hub.listen("topic=*", &[&reader()]);
    assert_eq!(hub.server.api.stats()["mercure"]["subscription_listeners"], 2);
    // Those of one stream come in any order.
    let mut topics = [(); 5].map(|()| change(&mut listener)["topic"].as_str().unwrap().len());
    topics.sort_unstable();
    assert_eq!(topics, [1, 1, 1, 1, ALL.len()]);
    let payload = json!({ "user": "bob", "n": [1, null] });
    let granted = json!({ "subscribe": ["https://a.test/books/{id}"], "payload": payload });
    let bobs = bearer(&json!({ "mercure": granted }));
    let bob = hub.listen(&format!("{BOOKS}&topic=https://a.test/books/1"), &[&bobs]);
    let mut begun = [change(&mut listener), change(&mut listener)];
    begun.sort_by_key(|begun| begun["topic"].as_str().unwrap().len());
    let topics = ["https://a.test/books/1", "https://a.test/books/{id}"];
    let encoded = ["https%3A%2F%2Fa.test%2Fbooks%2F1", "https%3A%2F%2Fa.test%2Fbooks%2F%7Bid%7D"];
    for ((begun, topic), encoded) in begun.iter().zip(topics).zip(encoded) {
        let name = begun["subscriber"].as_str().unwrap();
        assert!(name.starts_with("urn:uuid:") && name.len() == 45, "{begun}");
        let id = format!("{PATH}/{encoded}/{}", name.replace(':', "%3A"));
        let document = json!({
            "@context": "https://mercure.rocks/", "id": id, "type": "Subscription",
            "topic": topic, "subscriber": name, "active": true, "payload": payload,
        });
        assert_eq!(*begun, document);
        let mut one = hub.list(&id);
        one.as_object_mut().unwrap().remove("lastEventID").unwrap();
        assert_eq!(one, document);
        let of_topic = hub.list(&format!("{PATH}/{encoded}"));
        assert_eq!(ids(&of_topic), BTreeSet::from([id]));
        assert_eq!(of_topic["type"], "Subscriptions");
    }
    assert_eq!(begun[0]["subscriber"], begun[1]["subscriber"]);
    assert_eq!(ids(&hub.list(PATH)).len(), 8);
    drop(bob);
    for _ in 0..2 {
        let ended = change(&mut listener);
        assert!(ended["active"] == false && ended["payload"] == payload, "{ended}");
        assert_eq!(hub.ask_list(ended["id"].as_str().unwrap(), &[&reader()]).status(), 404);
    }
    assert_eq!(ids(&hub.list(&format!("{PATH}/{}", encoded[0]))), BTreeSet::new());
    // Who has no grant hears an update, and nothing before it.
    hub.publish("topic=x&data=end");
    for stream in &mut others {
        assert!(stream.chunk().ends_with("data: end\n\n"));
    }
    // What was told when it came it may have heard, too.
    let of_bob = std::iter::repeat_with(|| change(&mut all)).filter(|of| of["payload"] == payload);
    assert_eq!(of_bob.take(4).filter(|of| of["active"] == true).count(), 2);
    assert!(all.chunk().ends_with("data: end\n\n"));
}

#[test]
fn list_is_for_whom_its_path_is_granted() {
    let hub = Hub::start(&["--mercure-open"]);
    let _stream = hub.listen("topic=a", &[]);
    let of_a = format!("{PATH}/a");
    for (granted, whole, part) in [
        (&["*"][..], 200, 200),
        (&[ALL], 200, 200),
        (&[PATH], 200, 401),
        (&["/.well-known/mercure/subscriptions/a"], 401, 200),
        (&["/.well-known/mercure/subscriptions{/topic}"], 200, 200),
        (&["a", "https://a.test/{id}"], 401, 401),
        (&[], 401, 401),
    ] {
        let token = subscriber(granted);
        for (path, status) in [(PATH, whole), (&of_a, part)] {
            assert_eq!(hub.ask_list(path, &[&token]).status(), status, "{granted:?} {path}");
            let api = hub.server.api_url();
            let address = api.strip_prefix("http://").unwrap().parse().unwrap();
            let mut wire = Wire::connect(address);
            wire.send(get(path, &[&token]));
            assert_eq!(read_answer(&mut wire, "GET").unwrap().status(), status, "{granted:?}");
        }
    }
    assert_eq!(hub.ask_list(PATH, &[]).status(), 401);
    assert_eq!(hub.ask_list(PATH, &["Authorization: Bearer a.b.c"]).status(), 401);
    let publisher = super::publisher();
    assert_eq!(hub.ask_list(PATH, &[&publisher]).status(), 401);
    for path in ["/", "/a/b", "/a/urn%3Auuid%3A1", "/a/b/c", "/%ff"] {
        let answer = hub.ask_list(&format!("{PATH}{path}"), &[&subscriber(&["*"])]);
        assert_eq!(answer.status(), 404, "{path}");
    }
    assert_eq!(hub.ask_list(&format!("{PATH}x"), &[&reader()]).status(), 404);
    assert_eq!(hub.server.api.post_with(PATH, "", "").status(), 405);
    let cookie =
        format!("Cookie: mercureAuthorization={}", reader().split(' ').next_back().unwrap());
    assert_eq!(hub.ask_list(PATH, &[&cookie]).status(), 200);
    let none = Server::start(&[]);
    assert_eq!(none.ask(get(PATH, &[])).head().status, 404);
    assert_eq!(none.api.get(PATH).status(), 404);
}

#[test]
fn list_has_who_was_there_before_and_the_place_behind_which_the_rest_comes() {
    let hub = Hub::start(&["--mercure-open"]);
    let granted = json!({ "subscribe": ["a"], "payload": 7 });
    let with_payload = bearer(&json!({ "mercure": granted }));
    let _before = [hub.listen("topic=a&topic=b", &[]), hub.listen("topic=a", &[&with_payload])];
    drop(hub.listen("topic=gone", &[]));
    wait_for("one has left", || hub.server.api.stats()["mercure"]["subscribers"] == 2);
    let first = hub.list(PATH);
    assert_eq!(first["lastEventID"], "earliest", "nothing was sent yet");
    assert_eq!(ids(&first).len(), 3);
    let payloads = first["subscriptions"].as_array().unwrap().iter();
    assert_eq!(payloads.filter(|one| one["payload"] == 7 && one["topic"] == "a").count(), 1);
    let tag = |value: &str, status| {
        let answer = hub.ask_list(PATH, &[&reader(), &format!("If-None-Match: {value}")]);
        assert_eq!(answer.status(), status, "{value}");
        assert_eq!(answer.body.is_empty(), status == 304);
    };
    tag("earliest", 304);
    tag("\"other\", W/\"earliest\"", 304);
    tag("#0000000001Z00000", 200);
    let later = hub.listen("topic=c", &[]);
    let mut stream = hub.listen(&format!("{LISTEN}&lastEventID=earliest"), &[&reader()]);
    assert_eq!(change(&mut stream)["topic"], "c");
    tag("earliest", 200);
    let (id, _) = hub.publish("topic=x&data=1&id=urn:1");
    assert_eq!((hub.list(PATH)["lastEventID"].as_str(), &*id), (Some("urn:1"), "urn:1"));
    drop(later);
    assert_eq!(change(&mut stream)["active"], false);
    let last = hub.list(PATH)["lastEventID"].as_str().unwrap().to_owned();
    assert!(last.starts_with('#'), "{last}");
    let mut known = ids(&hub.list(PATH));
    let _one = hub.listen("topic=d", &[]);
    let field = format!("Last-Event-ID: {last}");
    let mut stream = hub.listen(LISTEN, &[&reader(), &field]);
    assert_eq!(stream.head.field("last-event-id"), Some(&*last));
    // The last one does not hear of itself.
    let wanted = ids(&hub.list(PATH));
    known.extend(wanted.iter().filter(|id| id.contains("%7B%2Fsubscriber%7D")).cloned());
    assert_eq!(change(&mut stream)["topic"], "d");
    let mut again = hub.listen(LISTEN, &[&reader(), &field]);
    follow(&mut again, &mut known, &wanted);
}

#[test]
fn clients_of_the_new_dialect_are_listed_by_their_plain_topics() {
    let hub = Hub::start(&["--mercure-open"]);
    let queries = ["match=plain", "match=*", "match_urlpattern=https://a.test/:id"];
    let _streams = queries.map(|query| hub.listen(query, &[]));
    let list = hub.list(PATH);
    let listed = list["subscriptions"].as_array().unwrap();
    let topics: BTreeSet<_> = listed.iter().map(|one| one["topic"].as_str().unwrap()).collect();
    assert_eq!(topics, BTreeSet::from(["*", "plain"]));
}

#[test]
fn nothing_is_told_or_remembered_where_nobody_may_hear_it() {
    let hub = Hub::start(&["--mercure-open"]);
    let granted = subscriber(&["https://a.test/books/{id}", "b"]);
    for fields in [&[][..], &[&*granted]] {
        let queries = ["topic=*", BOOKS, LISTEN, "topic=b"];
        let streams = queries.map(|query| hub.listen(query, fields));
        drop(streams);
    }
    let is_over = || hub.server.api.stats()["mercure"]["subscribers"] == 0;
    wait_for("all have left", is_over);
    let (_, delivered) = hub.publish("topic=b&data=x");
    assert_eq!(delivered, 0);
    // Of a change there would be a topic.
    let figures = &hub.server.api.stats()["mercure"];
    assert_eq!((&figures["topics"], &figures["subscription_listeners"]), (&json!(1), &json!(0)));
}

#[test]
fn changes_behind_a_list_give_the_next_list_by_seed() {
    let mut rng = fastrand::Rng::with_seed(testing::seed());
    let hub = Hub::start(&["--mercure-open", "--workers=4"]);
    let mut streams: Vec<Stream> = Vec::new();
    let mut followers: Vec<(Stream, BTreeSet<String>)> = Vec::new();
    for _ in 0..120 {
        match rng.u8(..10) {
            0 | 1 => {
                let list = hub.list(PATH);
                let last = list["lastEventID"].as_str().unwrap();
                let field = format!("Last-Event-ID: {last}");
                let stream = hub.listen(LISTEN, &[&reader(), &field]);
                assert_eq!(stream.head.field("last-event-id"), Some(last));
                followers.push((stream, ids(&list)));
            }
            2 => drop(hub.publish(&format!("topic=x&data=1&id=urn:{}", rng.u64(..)))),
            3 => drop(hub.server.api.send("bob", 1)),
            4..=6 if !streams.is_empty() => drop(streams.swap_remove(rng.usize(..streams.len()))),
            _ => {
                let topics = ["a", "b{c}", "*", "https://a.test/1"];
                let count = rng.usize(1..4);
                let query: Vec<String> =
                    (0..count).map(|_| format!("topic={}", topics[rng.usize(..4)])).collect();
                let token = subscriber(&["a"]);
                let fields: &[&str] = if rng.bool() { &[&token] } else { &[] };
                streams.push(hub.listen(&query.join("&"), fields));
            }
        }
    }
    // Those that were dropped are gone when the server has seen it.
    let there = (streams.len() + followers.len()) as u64;
    wait_for("others have left", || hub.server.api.stats()["mercure"]["subscribers"] == there);
    let last = ids(&hub.list(PATH));
    for (stream, known) in &mut followers {
        // Of its own begin it has not heard.
        known.extend(last.iter().filter(|id| id.contains("%7B%2Fsubscriber%7D")).cloned());
        follow(stream, known, &last);
    }
}

#[test]
fn storm_of_subscriptions_pushes_out_no_history_and_is_told_as_a_gap() {
    const STREAMS: usize = 20;
    const EACH: usize = 500;
    const HISTORY: u64 = 4 << 20;
    let history = format!("--history-bytes={HISTORY}");
    let hub = Hub::start(&["--mercure-open", "--keepalive=0", &history]);
    let mut bystander = hub.listen("topic=bystander", &[]);
    let (news, _) = hub.publish("topic=news&data=1");
    hub.publish("topic=news&data=2");
    let before = hub.list(PATH)["lastEventID"].as_str().unwrap().to_owned();
    let token = subscriber(&["/.well-known/mercure/subscriptions/t7/{subscriber}"]);
    let at_t7 = "topic=/.well-known/mercure/subscriptions/t7/%7Bsubscriber%7D";
    let fields = [&*token, &*format!("Last-Event-ID: {before}")];
    let mut listener = hub.listen(at_t7, &fields);
    assert_eq!(listener.head.field("last-event-id"), Some(&*before));
    let query: Vec<String> = (0..EACH).map(|n| format!("topic=t{n}")).collect();
    let query = query.join("&");
    let open = || (0..STREAMS).map(|_| hub.listen(&query, &[])).collect::<Vec<_>>();
    let gone = open();
    assert_eq!(listener.end(), End::Fin, "some were lost");
    hub.publish("topic=bystander&data=between");
    assert!(bystander.chunk().ends_with("data: between\n\n"));
    drop(gone);
    let _streams = open();
    let there = STREAMS as u64 + 1;
    wait_for("others have left", || hub.server.api.stats()["mercure"]["subscribers"] == there);
    let list = hub.list(PATH);
    assert_eq!(ids(&list).len(), STREAMS * EACH + 1);
    assert_ne!(list["lastEventID"], *before);
    assert_eq!(ids(&hub.list(&format!("{PATH}/t7"))).len(), STREAMS);
    // All that were told, with what else was sent, are a quarter of what is remembered at most.
    let stats = hub.server.api.stats();
    let count = |name: &str| stats.pointer(name).unwrap().as_u64().unwrap();
    let told = count("/mercure/subscription_changes/told");
    let lost = count("/mercure/subscription_changes/lost");
    assert!(told > 0 && told + lost >= 3 * (STREAMS * EACH) as u64, "{told} told, {lost} lost");
    for bytes in ["/history_bytes", "/mercure/topic_bytes"].map(count) {
        assert!(bytes <= HISTORY / 4, "{bytes} by {told} changes");
    }
    let field = format!("Last-Event-ID: {news}");
    let mut news_again = hub.listen("topic=news", &[&field]);
    assert_eq!(news_again.head.field("last-event-id"), Some(&*news));
    assert!(news_again.chunk().ends_with("data: 2\n\n"));
    let mut listener = hub.listen(at_t7, &fields);
    assert_ne!(listener.head.field("last-event-id"), Some(&*before));
    assert!(listener.chunk().starts_with("event: gap\n"));
    hub.publish("topic=bystander&data=after");
    assert!(bystander.chunk().ends_with("data: after\n\n"));
}

#[test]
fn selector_whose_path_is_no_topic_is_neither_listed_nor_told() {
    let hub = Hub::start(&["--mercure-open"]);
    let mut listener = hub.listen(LISTEN, &[&reader()]);
    // The path of 1.0 is the longer one.
    let beside = "#p:".len() + PATH.len() + "/exact/".len() + "/urn%3Auuid%3A".len() + 36;
    let most = (4_608 - beside) / 3;
    let longest = hub.listen(&format!("topic={}", "/".repeat(most)), &[]);
    assert_eq!(change(&mut listener)["topic"].as_str().unwrap().len(), most);
    let list = hub.list(PATH);
    assert_eq!(ids(&list).len(), 2);
    for len in [most + 1, 4_000] {
        drop(hub.listen(&format!("topic={}", "/".repeat(len)), &[]));
        wait_for("it has left", || hub.server.api.stats()["mercure"]["subscribers"] == 2);
        assert_eq!(hub.list(PATH), list);
    }
    drop(longest);
    assert_eq!(change(&mut listener)["active"], false);
    let changes = &hub.server.api.stats()["mercure"]["subscription_changes"];
    assert_eq!(*changes, json!({ "told": 3, "lost": 0 }), "one is the listener's own");
}
