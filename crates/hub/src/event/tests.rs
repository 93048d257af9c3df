//! Events, their lines and their frames.

use super::*;

#[test]
fn event_is_one_line_of_json() {
    let event: Event<()> = Event::new(62 + 35, "a\"b\\c", "{\n\"x\": [1,\r\n 2]}").unwrap();
    assert_eq!(event.json(), r#"{"id":"0000000001Z00000","about":"a\"b\\c","data":{"x": [1, 2]}}"#);
    assert_eq!(event.id(), "0000000001Z00000");
    assert_eq!(event.data(), r#"{"x": [1, 2]}"#);
    for about in ["\",\"data\":", "\\", "a\\\",\"data\":\\"] {
        assert_eq!(Event::<()>::new(1, about, "[2]").unwrap().data(), "[2]", "{about}");
    }
}

#[test]
fn event_has_the_id_that_its_draft_was_given() {
    for number in [0, 1, 0x193_0000_0001, u64::MAX] {
        let id = EventId::new(number, Tag::of(number ^ 1 << 63));
        let event: Event<()> = Draft::new("a", "1").unwrap().numbered(id);
        assert_eq!((event.number(), event.id()), (number, id.to_string().as_str()));
    }
}

#[test]
fn frame_is_encoded_once() {
    let mut event: Event<u32> = Event::new(1, "a", "1").unwrap();
    let mut encoded = 0;
    for _ in 0..3 {
        event.frame(2, |_| {
            encoded += 1;
            encoded
        });
    }
    assert_eq!(*event.frame(2, |_| unreachable!("made before")), 1);
    assert_eq!((encoded, *event.frame(0, |_| 7)), (1, 7));
    event.forget_frames();
    assert_eq!(*event.frame(2, |_| 8), 8);
}

#[test]
fn event_is_made_again_of_its_line() {
    for about in ["17", "bob", "\",\"data\":", "\\", "a\\\",\"data\":\\", "é\"\\\\\"😀"] {
        for data in ["1", "{\"about\":\"x\",\"data\":{}}"] {
            let id = EventId::new(77, Tag::of(u64::MAX));
            let event: Event<()> = Draft::new(about, data).unwrap().numbered(id);
            let again: Event<()> = Event::of_line(event.json().to_owned()).unwrap();
            assert_eq!((again.number(), again.id(), again.json()), (77, event.id(), event.json()));
            assert_eq!((again.about(), again.data()), (about.into(), data));
            assert!(Draft::of_line(event.json().to_owned()).is_none(), "it has an id");
        }
    }
}

#[test]
fn line_of_another_form_is_no_event() {
    let event: Event<()> = Event::new(5, "bob", "[\"x\"]").unwrap();
    let line = event.json();
    for len in 0..line.len() {
        assert!(Event::<()>::of_line(line[..len].to_owned()).is_none(), "{len} bytes");
    }
    for (from, to) in
        [("0000", "000\u{e9}"), ("0000", "-000"), ("about", "data"), ("[", "\n["), ("{", " {")]
    {
        let changed = line.replacen(from, to, 1);
        assert!(Event::<()>::of_line(changed.clone()).is_none(), "{changed}");
    }
}

#[test]
fn line_about_no_id_is_no_event() {
    let event: Event<()> = Event::new(5, "bob", "1").unwrap();
    for about in ["", "a b", "a/b", "b\\n", &"x".repeat(256)] {
        let line = event.json().replacen("bob", about, 1);
        assert!(Event::<()>::of_line(line).is_none(), "{about}");
        assert!(about.contains('\\') || Draft::new(about, "1").is_err(), "{about}");
    }
    let line = event.json().replacen("bob\"", "bob\\\"", 1);
    assert!(Event::<()>::of_line(line).is_none(), "its subject has no end");
}

#[test]
fn event_has_several_subjects_a_name_and_a_text() {
    let ids = ["room:7", "a\"b", "room:7", "9", "a\"b"];
    let text = "\u{1}\"\\\n\u{2028}\u{1f600}";
    for also in [&ids[..0], &ids[1..2], &ids[..]] {
        for name in [None, Some(""), Some("typing"), Some("\",\"data\":\\\t")] {
            for payload in [Payload::Json("[1,\n2]"), Payload::Text(text)] {
                let from = name.map(|_| "b\"ob");
                let parts = EventParts { about: "room:7", also, name, from, payload };
                let event: Event<()> = Draft::of(parts).unwrap().numbered(id(5));
                let again: Event<()> = Event::of_line(event.json().to_owned()).unwrap();
                let read: serde_json::Value = serde_json::from_str(event.json()).unwrap();
                let mut others: Vec<&str> = also.to_vec();
                others.retain(|id| *id != "room:7");
                let mut seen = std::collections::BTreeSet::new();
                others.retain(|id| seen.insert(*id));
                for event in [&event, &again] {
                    assert_eq!(event.about(), "room:7");
                    assert!(event.also().eq(others.iter().copied()), "{}", event.json());
                    let quoted = event.name().map(|name| format!("\"{name}\""));
                    let told = quoted.map(|name| serde_json::from_str::<String>(&name).unwrap());
                    assert_eq!(told.as_deref(), name);
                    assert_eq!(event.parts.from(event.json()).as_deref(), from);
                    let form = match (name, also.is_empty()) {
                        (Some(_), _) => LineForm::WithSender,
                        (None, false) => LineForm::WithParts,
                        (None, true) => LineForm::Plain,
                    };
                    assert_eq!(event.form(), form);
                    let data: serde_json::Value = serde_json::from_str(event.data()).unwrap();
                    assert_eq!(data, read["data"]);
                }
                assert_eq!(read["event"].as_str(), name);
                assert_eq!(read["from"].as_str(), from);
                match payload {
                    Payload::Text(text) => assert_eq!(read["data"].as_str(), Some(text)),
                    Payload::Json(_) => assert_eq!(event.data(), "[1,2]"),
                }
                assert_eq!(read.get("also").is_some(), !others.is_empty());
                assert!(!event.json().contains(['\n', '\r']));
            }
        }
    }
}

#[test]
fn event_has_no_more_than_may_be() {
    let ids: Vec<String> = (0..200).map(|id| format!("{id:\"<255}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    fn draft(also: &[&str], name: Option<&str>) -> Result<Draft, EventError> {
        let payload = Payload::Json("1");
        Draft::of(EventParts { about: "0", also, name, from: Some("bob"), payload })
    }
    let longest = draft(&ids[..99], Some(&"n".repeat(200))).unwrap();
    assert_eq!(Draft::of_line(longest.json().to_owned()).as_ref(), Some(&longest));
    // A line with one more, or with one twice, is none.
    let line = longest.json();
    for another in [ids[99], ids[98], "0"] {
        let another = another.replace('"', "\\\"");
        let line = line.replacen("\"]", &format!("\",\"{another}\"]"), 1);
        assert!(Draft::of_line(line).is_none(), "{another}");
    }
    assert_eq!(draft(&ids[..100], None), Err(EventError::Subjects(101)));
    assert_eq!(draft(&[], Some(&"n".repeat(201))), Err(EventError::Name(201)));
    assert!(matches!(draft(&["a b"], None), Err(EventError::Id(_))));
    let twice = [&ids[..99], &ids[..99]].concat();
    assert_eq!(draft(&twice, None).unwrap().also().count(), 99);
}

#[test]
fn sender_stands_between_name_and_payload_and_is_an_id() {
    let parts = |from| {
        let payload = Payload::Json("1");
        EventParts { about: "a", also: &["b"], name: Some("n"), from, payload }
    };
    let line = Draft::of(parts(Some("b\"ob"))).unwrap().into_line();
    let end = r#""about":"a","also":["b"],"event":"n","from":"b\"ob","data":1}"#;
    assert!(line.ends_with(end), "{line}");
    assert_eq!(Draft::of_line(line.clone()).unwrap(), Draft::of(parts(Some("b\"ob"))).unwrap());
    let alone = Draft::of(EventParts { also: &[], name: None, ..parts(Some("7")) }).unwrap();
    assert!(alone.json().ends_with(r#""about":"a","from":"7","data":1}"#), "{}", alone.json());
    assert_eq!(Draft::of_line(alone.json().to_owned()).as_ref(), Some(&alone));
    assert_eq!((alone.from().as_deref(), alone.about().as_ref()), (Some("7"), "a"));
    assert!(matches!(Draft::of(parts(Some("a b"))), Err(EventError::Id(_))));
    for sender in ["\"\"", "\"a b\"", "7", "null"] {
        let line = line.replacen("\"b\\\"ob\"", sender, 1);
        assert!(Draft::of_line(line.clone()).is_none(), "{line}");
    }
    let swapped = line.replacen(r#""event":"n","from":"b\"ob""#, r#""from":"b","event":"n""#, 1);
    assert!(Draft::of_line(swapped.clone()).is_none(), "{swapped}");
}

#[test]
fn connections_that_are_left_out_are_no_part_of_the_line_and_cost_others_nothing() {
    assert_eq!(size_of::<Event<()>>(), 40);
    let [one, other] = [0xabc, 0xdef].map(|bits| ConnectionId::of_bits(bits).unwrap());
    for about in ["a", &"\"".repeat(255)] {
        let event = || Draft::new(about, "[1]").unwrap().numbered::<()>(id(5));
        for except in [LeftOut::NOBODY, one.into(), LeftOut::from(other).and(one)] {
            let (plain, leaving) = (event(), event().leaving_out(except));
            assert_eq!((plain.except(), leaving.except()), (LeftOut::NOBODY, except));
            assert_eq!(plain.json(), leaving.json());
            assert_eq!((leaving.about().as_ref(), leaving.data()), (about, "[1]"));
            assert_eq!((leaving.id(), leaving.also().count()), (plain.id(), 0));
            assert_eq!(leaving.text_len(), plain.text_len() + 16 * except.count());
            assert_eq!(leaving.form(), LineForm::Plain);
            let forgotten = event().forgotten().leaving_out(except);
            assert!(leaving.is_remembered() && !forgotten.is_remembered());
            assert_eq!((forgotten.json(), forgotten.data()), (plain.json(), "[1]"));
        }
    }
}

fn id(number: u64) -> EventId {
    EventId::new(number, Tag::of(number))
}

#[test]
fn event_about_a_key_is_read_as_it_was_written() {
    let about = "#c1:private-rj";
    let name = "ü".repeat(400);
    let parts = EventParts {
        about,
        also: &[],
        name: Some(&name),
        from: Some("b b/\"?#"),
        payload: Payload::Text("{\"x\":1}"),
    };
    let draft = Draft::of_key(parts).unwrap();
    assert!(Draft::of(parts).is_err(), "for the API it is no id");
    let again = Draft::of_line(draft.json().to_owned()).unwrap();
    assert_eq!(again, draft);
    draft.subjects(|subjects| assert_eq!(subjects, [IdText::Name(about)]));
    let event: Event<()> = draft.numbered(EventId::new(7, Tag::of(0)));
    assert_eq!((&*event.about(), event.name()), (about, Some(&*name)));
    assert_eq!(event.from().as_deref(), Some("b b/\"?#"));
    assert_eq!(event.data(), "\"{\\\"x\\\":1}\"");
    let long = "n".repeat(KEY_EVENT_NAME_BYTES_MAX + 1);
    assert!(Draft::of_key(EventParts { name: Some(&long), ..parts }).is_err());
    assert!(Draft::of_key(EventParts { from: Some("a\n"), ..parts }).is_err());
    assert!(Draft::of_key(EventParts { about: "a b", ..parts }).is_err());
    let also = ["#p:a\"b", "#t:https://a.test/?x#y", "#p:a\"b"];
    let several = Draft::of_key(EventParts { also: &also, ..parts }).unwrap();
    assert_eq!(several.also().collect::<Vec<_>>(), also[..2]);
    assert_eq!(Draft::of_line(several.json().to_owned()), Some(several));
    let long = "k".repeat(4_000);
    let long: Vec<String> = (10..40).map(|n| format!("#t:{n}{long}")).collect();
    let long: Vec<&str> = long.iter().map(String::as_str).collect();
    let refused = Draft::of_key(EventParts { also: &long, ..parts });
    assert_eq!(refused, Err(EventError::SubjectBytes));
    // Who sends about an id is an id.
    let line = draft_line_of("bob", "b b");
    assert!(Draft::of_line(line).is_none());
}

fn draft_line_of(about: &str, from: &str) -> String {
    let payload = Payload::Json("1");
    let parts = EventParts { about, also: &[], name: None, from: Some("bob"), payload };
    Draft::of(parts)
        .unwrap()
        .into_line()
        .replace("\"from\":\"bob\"", &format!("\"from\":\"{from}\""))
}
