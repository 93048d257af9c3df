//! What is told of an append as an event.

use hub::{Event, EventId, Tag};
use streams::{Append, Create, Lifetime, Limits, Start, Store};

use super::*;

/// Keeps what it is told.
#[derive(Default)]
struct Kept(std::cell::RefCell<Vec<String>>);

impl Teller for Kept {
    fn outlives(&self, _path: &str) -> bool {
        false
    }

    fn tell(&self, told: &AppendNotice<'_>) -> Outcome {
        self.0.borrow_mut().push(data(told, 200));
        Outcome::Told
    }

    fn is_safe(&self, _number: u64) -> bool {
        true
    }

    fn was_told(&self, _told: &AppendNotice<'_>) -> io::Result<bool> {
        Ok(false)
    }
}

#[test]
fn event_of_an_append_is_known_and_what_others_send_with_its_offsets_is_none() {
    let offset = |digit| match Start::parse(&format!("{digit:024}")) {
        Ok(Start::At(offset)) => offset,
        other => panic!("{other:?}"),
    };
    let (path, content_type) = ("run:7", "text/plain");
    let (from, next) = (offset(8), offset(9));
    let told = AppendNotice { path, content_type, from, next, data: b"hi", closes: false };
    let drafts = drafts(&told);
    let is_known = |parts: EventParts<'_>| {
        let event: Event<()> = Draft::of(parts).unwrap().numbered(EventId::new(7, Tag::of(3)));
        is_one_of(&drafts, event.json())
    };
    let whole = data(&told, DATA_BYTES_MAX);
    let parts = EventParts {
        about: path,
        also: &[],
        name: Some(APPEND),
        from: None,
        payload: Payload::Json(&whole),
    };
    assert!(is_known(parts));
    let long = AppendNotice { data: &[b'x'; 200], ..told };
    let (short, long) = (data(&long, OFFSETS_BYTES), super::drafts(&long));
    assert!(long.iter().any(|draft| draft.json().ends_with(&format!("{short}}}"))));
    let forged = format!(r#"{{"next":"{next}"}}"#);
    for other in [
        EventParts { from: Some("eve"), ..parts },
        EventParts { name: Some(CLOSE), ..parts },
        EventParts { name: None, ..parts },
        EventParts { payload: Payload::Json(&forged), ..parts },
    ] {
        assert!(!is_known(other), "{other:?}");
    }
}

#[test]
fn data_is_what_readers_of_events_are_told_and_has_a_bound() {
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits { bytes_max: 1 << 20, log_bytes: 64 << 10 };
    let store = Store::open(dir.path(), limits, sys::clock::unix_ms);
    let (store, kept) = (store.unwrap().telling(true).unwrap(), Kept::default());
    let long = "x".repeat(200);
    for (path, content_type, body, expected) in [
        ("a", "text/plain", "a \"quote\"\n".as_bytes(), r#","text":"a \"quote\"\n""#),
        ("b", "text/plain", &"ä".as_bytes()[..1], r#","base64":"ww==""#),
        ("c", "application/json", b"1,{\"x\":[2]}", r#","messages":[1,{"x":[2]}]"#),
        ("d", "application/octet-stream", b"\x01\x02", r#","base64":"AQI=""#),
        ("e", "text/plain", long.as_bytes(), r#","bytes":200"#),
        ("f", "text/plain", b"", ""),
    ] {
        let create =
            Create { content_type, lifetime: Lifetime::Unbounded, closed: false, data: b"" };
        let from = store.create(path, &create, None).unwrap().head.next;
        let append = Append {
            closes: body.is_empty(),
            producer: None,
            sequence: None,
            data: body,
            content_type: Some(content_type),
        };
        let next = store.append(path, &append, Some(&kept)).unwrap().next;
        let told = kept.0.borrow_mut().pop().unwrap();
        assert_eq!(told, format!(r#"{{"next":"{next}","from":"{from}"{expected}}}"#));
        assert!(serde_json::from_str::<serde_json::Value>(&told).is_ok(), "{told}");
    }
}
