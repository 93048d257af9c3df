//! Events, their lines and their frames.

use super::*;

#[test]
fn event_is_one_line_of_json() {
    let event: Event<()> = Event::new(62 + 35, "a\"b\\c", "{\n\"x\": [1,\r\n 2]}");
    assert_eq!(event.json(), r#"{"id":"0000000001Z00000","about":"a\"b\\c","data":{"x": [1, 2]}}"#);
    assert_eq!(event.id(), "0000000001Z00000");
    assert_eq!(event.data(), r#"{"x": [1, 2]}"#);
    for about in ["\",\"data\":", "\\", "a\\\",\"data\":\\"] {
        assert_eq!(Event::<()>::new(1, about, "[2]").data(), "[2]", "{about}");
    }
}

#[test]
fn event_has_the_id_that_its_draft_was_given() {
    for number in [0, 1, 0x193_0000_0001, u64::MAX] {
        let id = EventId::new(number, Tag::of(number ^ 1 << 63));
        let event: Event<()> = Draft::new("a", "1").numbered(id);
        assert_eq!((event.number(), event.id()), (number, id.to_string().as_str()));
    }
}

#[test]
fn frame_is_encoded_once() {
    let mut event: Event<u32> = Event::new(1, "a", "1");
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
