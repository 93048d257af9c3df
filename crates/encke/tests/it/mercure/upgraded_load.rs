//! Streams of the hub under load whose server is replaced: of each kind of selector, with a token
//! and without, each hears each update once.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use serde_json::{Value, json};

use super::v1::{ISSUER, PUBLIC_URL, grants};
use super::{BOOKS, Hub, bearer, subscriber};
use crate::harness::{Api, Stream, wait_for};

/// An update, or an event about `rj`.
struct Sent {
    text: String,
    topics: &'static [&'static str],
    is_private: bool,
}

const UPDATES: [(&[&str], bool); 9] = [
    (&["https://a.test/books/1"], false),
    (&["https://a.test/books/2", "https://a.test/users/bob/2"], true),
    (&["https://a.test/users/bob/1"], true),
    (&["https://a.test/users/bob/1", "note"], false),
    (&["note"], false),
    (&["note"], true),
    (&["https://a.test/books/1", "https://a.test/users/rj/1"], true),
    (&["a{b}"], false),
    (&[], false),
];

/// What is for all.
const LAST: &str = "topic=https://a.test/books/1&topic=https://a.test/users/bob/1&topic=note\
                    &topic=a%7Bb%7D&data=last";

/// Whether somebody hears an update on these topics, private or not.
type Hears = fn(&[&str], bool) -> bool;

fn has(topics: &[&str], start: &str) -> bool {
    topics.iter().any(|topic| topic.starts_with(start))
}

/// Requests, and what each hears.
fn kinds() -> Vec<(String, Option<String>, Hears)> {
    let bobs = json!({ "mercure": { "subscribe": ["note"] }, "sub": "bob" });
    let new = |topics: &[(&str, &str)]| Some(grants("subscribe", topics, &Value::Null));
    vec![
        ("topic=*".into(), None, |topics, is_private| !topics.is_empty() && !is_private),
        ("topic=*".into(), Some(subscriber(&["note"])), |topics, is_private| {
            !topics.is_empty() && (!is_private || topics.contains(&"note"))
        }),
        (BOOKS.into(), None, |topics, is_private| {
            has(topics, "https://a.test/books/") && !is_private
        }),
        (
            BOOKS.into(),
            Some(subscriber(&["https://a.test/users/bob/{+rest}"])),
            |topics, is_private| {
                has(topics, "https://a.test/books/")
                    && (!is_private || has(topics, "https://a.test/users/bob/"))
            },
        ),
        (BOOKS.into(), Some(subscriber(&["https://a.test/books/{id}"])), |topics, _| {
            has(topics, "https://a.test/books/")
        }),
        ("topic=https://a.test/users/bob/1&topic=note".into(), None, |topics, is_private| {
            (topics.contains(&"https://a.test/users/bob/1") || topics.contains(&"note"))
                && !is_private
        }),
        ("topic=note".into(), Some(subscriber(&["note"])), |topics, _| topics.contains(&"note")),
        ("match_urlpattern=https://a.test/books/:id".into(), None, |topics, is_private| {
            has(topics, "https://a.test/books/") && !is_private
        }),
        (
            "match_urlpattern=https://a.test/books/:id&match=a%7Bb%7D".into(),
            new(&[("urlpattern", "https://a.test/users/:user/*")]),
            |topics, is_private| {
                (has(topics, "https://a.test/books/") || topics.contains(&"a{b}"))
                    && (!is_private || has(topics, "https://a.test/users/"))
            },
        ),
        ("topic=encke:bob&topic=note".into(), Some(bearer(&bobs)), |topics, _| {
            topics.is_empty() || topics.contains(&"note")
        }),
    ]
}

/// Publishes until `stop`; what was published.
fn load(api: &Api, name: usize, stop: &AtomicBool, sent: &AtomicU64) -> Vec<Sent> {
    let mut all = Vec::new();
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let (topics, is_private) = UPDATES[(number + name) % UPDATES.len()];
        let text = format!("{name}:{number}");
        let answer = if topics.is_empty() {
            api.post("/send", &json!({ "about": "rj", "text": text }))
        } else {
            let topics: Vec<String> = topics
                .iter()
                .map(|topic| format!("topic={}", topic.replace('{', "%7B").replace('}', "%7D")))
                .collect();
            let private = if is_private { "&private=on" } else { "" };
            let form = format!("{}{private}&data={text}&id=urn:{text}", topics.join("&"));
            let fields = format!("{}\r\n{}\r\n", super::FORM, super::publisher());
            api.post_with(super::HUB, &fields, &form)
        };
        assert_eq!(answer.status(), 200, "{answer:?}");
        all.push(Sent { text, topics, is_private });
        sent.fetch_add(1, Ordering::Relaxed);
        thread::park_timeout(std::time::Duration::from_millis(1));
    }
    all
}

/// The data of all that one hears up to the last, but for the hub's own documents.
fn hear_all(stream: &mut Stream) -> Result<Vec<String>, String> {
    let mut heard = Vec::new();
    loop {
        let chunk = stream.chunk();
        if chunk.is_empty() || chunk.contains("event: gap") {
            return Err(format!("{chunk:?} behind {} updates", heard.len()));
        }
        let data = chunk.lines().filter_map(|line| line.strip_prefix("data: "));
        for data in data.filter(|data| !data.starts_with('{')) {
            if data == "last" {
                return Ok(heard);
            }
            heard.push(data.to_owned());
        }
    }
}

#[test]
fn streams_of_each_kind_hear_each_update_once_over_upgrades_under_load() {
    const EACH: usize = 4;
    let options = [
        "--mercure-open",
        PUBLIC_URL,
        ISSUER,
        "--workers=3",
        "--keepalive=0.3",
        "--max-backlog=1MiB",
        "--history-events=100000",
    ];
    let hub = Hub::start_upgraded(&options);
    hub.server.api.subscribe("bob", "rj");
    let kinds = kinds();
    let open = |(query, token, hears): &(String, Option<String>, Hears)| {
        let fields: Vec<&str> = token.iter().map(|token| &**token).collect();
        (query.clone(), *hears, hub.listen(query, &fields))
    };
    let streams: Vec<_> = (0..EACH).flat_map(|_| kinds.iter().map(open)).collect();
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let (all, heard) = thread::scope(|scope| {
        let listeners: Vec<_> = streams
            .into_iter()
            .map(|(query, hears, mut stream)| {
                scope.spawn(move || {
                    let heard = hear_all(&mut stream);
                    (query, hears, heard, stream)
                })
            })
            .collect();
        let (stop, sent) = (&stop, &sent);
        let publish = |name: usize| {
            let api = hub.server.api.another();
            scope.spawn(move || load(&api, name, stop, sent))
        };
        let publishers: Vec<_> = (0..2).map(publish).collect();
        let published = |more: u64| {
            let before = sent.load(Ordering::Relaxed);
            wait_for("updates are published", || sent.load(Ordering::Relaxed) > before + more);
        };
        for _ in 0..2 {
            published(100);
            hub.server.upgrade(&[]);
        }
        published(100);
        stop.store(true, Ordering::Relaxed);
        let all: Vec<Sent> =
            publishers.into_iter().flat_map(|publisher| publisher.join().unwrap()).collect();
        hub.publish(LAST);
        let heard: Vec<_> = listeners.into_iter().map(|one| one.join().unwrap()).collect();
        (all, heard)
    });
    let mut faults = Vec::new();
    for (query, hears, heard, _) in &heard {
        // Those of one publisher come in their order, and each once.
        let of = |name: usize, texts: &mut dyn Iterator<Item = &String>| -> Vec<String> {
            let start = format!("{name}:");
            texts.filter(|text| text.starts_with(&start)).cloned().collect()
        };
        for name in 0..2 {
            let expected = all.iter().filter(|sent| hears(sent.topics, sent.is_private));
            let expected = of(name, &mut expected.map(|sent| &sent.text));
            match heard {
                Ok(heard) if of(name, &mut heard.iter()) == expected => {}
                Ok(heard) => {
                    let heard = of(name, &mut heard.iter()).len();
                    faults.push(format!("{query}: {heard} of {}", expected.len()));
                }
                Err(fault) => faults.push(format!("{query}: {fault}")),
            }
        }
    }
    assert_eq!(faults, Vec::<String>::new());
    let stats = hub.server.api.stats();
    assert_eq!(stats["connections_opened"], kinds.len() * EACH, "nobody has come back: {stats}");
    let updates = all.iter().filter(|sent| !sent.topics.is_empty()).count() + 1;
    assert_eq!(stats["mercure"]["publishes"]["posted"], updates, "{stats}");
    assert_eq!(stats["mercure"]["publisher_ids"], updates - 1, "{stats}");
}
