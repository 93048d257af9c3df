//! Tests of frames of the server, to the byte.

use super::*;

use crate::channel::ChannelFault;

#[test]
fn frames_are_those_of_pusher() {
    let socket = SocketId { first: 4711, second: 815 };
    assert_eq!(
        connection_established(socket, 120),
        concat!(
            r#"{"event":"pusher:connection_established","data":"{\"socket_id\":\"4711.815\","#,
            r#"\"activity_timeout\":120}"}"#,
        )
    );
    assert_eq!(
        subscription_succeeded("private-rj"),
        r#"{"event":"pusher_internal:subscription_succeeded","channel":"private-rj","data":"{}"}"#
    );
    assert_eq!(cache_miss("cache-x"), r#"{"event":"pusher:cache_miss","channel":"cache-x"}"#);
    assert_eq!(gap("x", None), r#"{"event":"encke:gap","channel":"x","data":"{}"}"#);
    assert_eq!(gap("x", Some("7")), r#"{"event":"encke:gap","channel":"x","data":"{}","id":"7"}"#);
    assert_eq!(place("x", "7"), r#"{"event":"encke:place","channel":"x","data":"{}","id":"7"}"#);
    assert_eq!(
        subscription_count("rj", 13),
        concat!(
            r#"{"event":"pusher_internal:subscription_count","channel":"rj","data":"#,
            r#""{\"subscription_count\":13}"}"#,
        )
    );
    assert_eq!(
        signin_success(r#"{"id":"bob"}"#),
        r#"{"event":"pusher:signin_success","data":"{\"user_data\":\"{\\\"id\\\":\\\"bob\\\"}\"}"}"#
    );
}

#[test]
fn activity_timeout_is_never_one_that_makes_clients_throw() {
    let socket = SocketId { first: 1, second: 2 };
    assert!(connection_established(socket, 0).contains("\\\"activity_timeout\\\":1}"));
    assert!(connection_established(socket, 500).contains("\\\"activity_timeout\\\":120}"));
}

#[test]
fn errors_have_their_numbers() {
    assert_eq!(
        error(Close::Reconnect),
        concat!(
            r#"{"event":"pusher:error","data":"{\"code\":4200,\"message\":"#,
            r#"\"The server is going away. Reconnect.\"}"}"#,
        )
    );
    assert_eq!(
        error(FrameFault::NotJson),
        r#"{"event":"pusher:error","data":"{\"code\":null,\"message\":\"This is not JSON.\"}"}"#
    );
    assert!(error(EventRefusal::TooMany).contains(r#"\"code\":4301,"#));
    assert!(error(SignInRefusal::Another).contains(r#"\"code\":null,"#));
    let cut = error(ErrorText::watchlist_cut());
    assert!(cut.contains(r#"\"code\":4302,"#) && cut.contains("The first 100 are"), "{cut}");
    assert_eq!(
        subscription_error("1:rj", SubscriptionRefusal::Name(ChannelFault::Empty)),
        concat!(
            r#"{"event":"pusher:subscription_error","channel":"1:rj","data":"{\"type\":"#,
            r#"\"InvalidRequest\",\"error\":\"The name of a channel is empty.\",\"status\":400}"#,
            r#""}"#,
        )
    );
}

#[test]
fn watchlist_tells_of_those_that_there_are() {
    assert_eq!(
        watchlist_events(&["rj"], &["alice"]).unwrap(),
        concat!(
            r#"{"event":"pusher_internal:watchlist_events","data":"{\"events\":[{\"name\":"#,
            r#"\"online\",\"user_ids\":[\"rj\"]},{\"name\":\"offline\",\"user_ids\":[\"alice\"]}"#,
            r#"]}"}"#,
        )
    );
    let online = watchlist_events(&["rj"], &[]).unwrap();
    assert!(online.contains("online") && !online.contains("offline"));
    assert_eq!(watchlist_events(&[], &[]), None);
}

#[test]
fn event_is_its_pieces_around_the_channel() {
    let (name, id) = (EventText::Json(r#""new""#), Some("12-a"));
    let event = EventFrame { name, data: EventText::Text(r#"{"photo":789}"#), user_id: None, id };
    assert_eq!(
        event.of_channel("rj"),
        r#"{"event":"new","channel":"rj","data":"{\"photo\":789}","id":"12-a"}"#
    );
    assert_eq!([&event.head(), "\"rj\"", &event.tail()].concat(), event.of_channel("rj"));
    let (name, user_id) = (EventText::Text("client-typing"), Some("bob"));
    let event = EventFrame { name, data: EventText::Json("[1,  2]"), user_id, id: None };
    assert_eq!(
        event.of_channel("presence-room-7"),
        r#"{"event":"client-typing","channel":"presence-room-7","data":[1,  2],"user_id":"bob"}"#
    );
}

#[test]
fn sender_about_an_id_cannot_speak_for_the_server() {
    for (name, called) in [
        (Some("typing"), "typing"),
        (Some("client-typing"), "client-typing"),
        (Some("pusher"), "pusher"),
        (None, "message"),
        (Some("pusher:error"), "message"),
        (Some("pusher_internal:member_added"), "message"),
        (Some("encke:gap"), "message"),
    ] {
        assert_eq!(name_of_sent(name), called);
    }
}

#[test]
fn whatever_an_event_says_is_read_again() {
    let mut random = fastrand::Rng::with_seed(testing::seed());
    for _ in 0..2_000 {
        let chars = random.usize(..20);
        let text: String = (0..chars).map(|_| random.char(..)).collect();
        let frame = EventFrame {
            name: EventText::Text(&text),
            data: EventText::Text(&text),
            user_id: Some(&text),
            id: Some(&text),
        };
        let read: serde_json::Value = serde_json::from_str(&frame.of_channel(&text)).unwrap();
        for member in ["event", "channel", "data", "user_id", "id"] {
            assert_eq!(read[member], text.as_str(), "{member}");
        }
    }
}
