//! Tests of frames of clients: those of pusher-js, and what is none.

use super::*;

fn text(text: &str) -> Given {
    Given::Text(text.to_owned())
}

fn subscribe(channel: &str) -> Subscribe {
    let absent = Given::Absent;
    let (auth, channel_data, after) = (absent.clone(), absent.clone(), absent);
    Subscribe { channel: channel.to_owned(), auth, channel_data, after }
}

#[test]
fn frames_of_pusher_js_are_read() {
    let parse = |text| ClientFrame::parse(text).unwrap();
    assert_eq!(parse(r#"{"event":"pusher:ping","data":{}}"#), ClientFrame::Ping);
    assert_eq!(parse(r#"{"event":"pusher:ping"}"#), ClientFrame::Ping);
    assert_eq!(parse(r#"{"event":"pusher:pong","data":"{}"}"#), ClientFrame::Pong);
    assert_eq!(
        parse(r#"{"event":"pusher:subscribe","data":{"auth":"","channel":"rj"}}"#),
        ClientFrame::Subscribe(Subscribe { auth: text(""), ..subscribe("rj") })
    );
    assert_eq!(
        parse(
            r#"{"event":"pusher:subscribe","data":{"auth":"k:s","channel_data":"{\"user_id\":1}",
            "channel":"presence-a","after":"x"}}"#
        ),
        ClientFrame::Subscribe(Subscribe {
            auth: text("k:s"),
            channel_data: text(r#"{"user_id":1}"#),
            after: text("x"),
            ..subscribe("presence-a")
        })
    );
    assert_eq!(
        parse(r#"{"event":"pusher:unsubscribe","data":{"channel":"rj"}}"#),
        ClientFrame::Unsubscribe { channel: "rj".to_owned() }
    );
    assert_eq!(
        parse(r#"{"event":"pusher:signin","data":{"auth":"k:s","user_data":"{}"}}"#),
        ClientFrame::SignIn(SignIn { auth: "k:s".to_owned(), user_data: "{}".to_owned() })
    );
}

#[test]
fn data_may_be_a_text_of_json() {
    assert_eq!(
        ClientFrame::parse(r#"{"event":"pusher:subscribe","data":"{\"channel\":\"rj\"}"}"#),
        Ok(ClientFrame::Subscribe(subscribe("rj")))
    );
    assert_eq!(
        ClientFrame::parse(r#"{"data":"{\"channel\":\"a\"}","event":"pusher:unsubscribe"}"#),
        Ok(ClientFrame::Unsubscribe { channel: "a".to_owned() })
    );
}

#[test]
fn subscription_with_strange_members_still_names_its_channel() {
    let frame =
        r#"{"event":"pusher:subscribe","data":{"channel":"rj","auth":7,"channel_data":{}}}"#;
    let (auth, channel_data) = (Given::Other, Given::Other);
    let wanted = Subscribe { auth, channel_data, ..subscribe("rj") };
    assert_eq!(ClientFrame::parse(frame), Ok(ClientFrame::Subscribe(wanted)));
}

#[test]
fn data_of_client_event_stays_as_it_came() {
    for data in [r#"{"a": [1,  "\u00e4"]}"#, "\"{\\\"a\\\":1}\"", "1e400", "\"\\ud800\"", "null"] {
        let frame = format!(
            r#"{{"event":"client-a","channel":"private-a","data": {data} ,"user_id":"eve"}}"#
        );
        let Ok(ClientFrame::Event(event)) = ClientFrame::parse(&frame) else { panic!("{data}") };
        assert_eq!((event.channel.as_str(), event.name.as_str()), ("private-a", "client-a"));
        assert_eq!(event.data, data);
    }
    let frame = r#"{"event":"client-a","channel":"private-a"}"#;
    assert!(
        matches!(ClientFrame::parse(frame), Ok(ClientFrame::Event(event)) if event.data == "null")
    );
}

#[test]
fn frame_that_is_none_is_told_why() {
    use FrameFault::{
        EventChannel, NoChannel, NotClientEvent, NotFrame, NotJson, SignIn, UnknownEvent,
    };
    for (frame, fault) in [
        ("", NotFrame),
        ("hello", NotFrame),
        ("{", NotJson),
        ("{\"event\":\"pusher:ping\"", NotJson),
        ("{\"event\":\"pusher:ping\"} x", NotJson),
        ("[\"pusher:ping\"]", NotFrame),
        ("{}", NotFrame),
        (r#"{"event":1}"#, NotFrame),
        (r#"{"event":"pusher:ping","event":"pusher:ping"}"#, NotFrame),
        (r#"{"event":"pusher:subscribe"}"#, NoChannel),
        (r#"{"event":"pusher:subscribe","data":{}}"#, NoChannel),
        (r#"{"event":"pusher:subscribe","data":["rj"]}"#, NoChannel),
        (r#"{"event":"pusher:subscribe","data":{"channel":["rj"]}}"#, NoChannel),
        (r#"{"event":"pusher:subscribe","data":"rj"}"#, NoChannel),
        (r#"{"event":"pusher:unsubscribe","data":null}"#, NoChannel),
        (r#"{"event":"pusher:signin","data":{"auth":"a"}}"#, SignIn),
        (r#"{"event":"pusher:signin","data":{"auth":"a","user_data":{}}}"#, SignIn),
        (r#"{"event":"pusher:foo","data":{}}"#, UnknownEvent),
        (r#"{"event":"pusher_internal:member_added","channel":"a"}"#, UnknownEvent),
        (r#"{"event":"typing","channel":"a"}"#, NotClientEvent),
        (r#"{"event":"client-typing"}"#, EventChannel),
        (r#"{"event":"client-typing","channel":1}"#, EventChannel),
    ] {
        assert_eq!(ClientFrame::parse(frame), Err(fault), "{frame}");
    }
    assert_eq!(UnknownEvent.code(), ErrorCode::None);
    assert_eq!(EventChannel.code(), ErrorCode::ClientEvent);
}

#[test]
fn hostile_json_is_refused_at_its_bound() {
    let event = |data: &str| {
        let frame = format!(r#"{{"event":"client-a","channel":"private-a","data":{data}}}"#);
        ClientFrame::parse(&frame).err()
    };
    let nested = |deep: usize| format!("{}{}", "[".repeat(deep), "]".repeat(deep));
    assert_eq!(event(&nested(128)), None);
    assert_eq!(event(&nested(129)), Some(FrameFault::TooDeep));
    assert_eq!(event(&nested(1_000_000)), Some(FrameFault::TooDeep));
    let deep = format!(r#"{{"event":"pusher:subscribe","data":{}}}"#, "{\"a\":".repeat(1_000_000));
    assert_eq!(ClientFrame::parse(&deep), Err(FrameFault::NotJson));
    let name = |chars: usize| {
        let name = format!("client-{}", "ü".repeat(chars - 7));
        let frame = format!(r#"{{"event":"{name}","channel":"private-a","data":1}}"#);
        ClientFrame::parse(&frame).err()
    };
    assert_eq!(name(200), None);
    assert_eq!(name(201), Some(FrameFault::NameTooLong));
}

#[test]
fn damaged_frame_is_read_or_refused() {
    let mut random = fastrand::Rng::with_seed(testing::seed());
    let whole = r#"{"event":"pusher:subscribe","data":{"auth":"k:s","channel":"presence-a"}}"#;
    for _ in 0..20_000 {
        let mut bytes = whole.as_bytes().to_vec();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(..bytes.len());
            match random.u8(..3) {
                0 => bytes[at] = random.u8(..128),
                1 => bytes.truncate(at.max(1)),
                _ => bytes.insert(at, b"{}[]\",:\\"[random.usize(..8)]),
            }
        }
        let text = String::from_utf8(bytes).unwrap();
        if let Ok(ClientFrame::Subscribe(subscribe)) = ClientFrame::parse(&text) {
            // What was read can be written, and says the same.
            let data = serde_json::to_string(&subscribe.channel).unwrap();
            let again = format!(r#"{{"event":"pusher:unsubscribe","data":{{"channel":{data}}}}}"#);
            let channel = subscribe.channel;
            assert_eq!(ClientFrame::parse(&again), Ok(ClientFrame::Unsubscribe { channel }));
        }
    }
}
