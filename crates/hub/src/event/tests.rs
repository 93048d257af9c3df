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
