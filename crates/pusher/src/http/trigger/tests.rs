//! Tests of bodies of triggers and batches: bounds to the byte, and what is refused.

use super::*;
use crate::channel::ChannelFault;
use crate::limits::EVENT_DATA_BYTES_MAX;

fn parse(body: &str) -> Result<Trigger, ApiRefusal> {
    parse_trigger(body.as_bytes(), EVENT_DATA_BYTES_MAX)
}

fn batch(events: &[&str]) -> Result<Vec<Trigger>, ApiRefusal> {
    let body = format!(r#"{{"batch":[{}]}}"#, events.join(","));
    parse_batch(body.as_bytes(), EVENT_DATA_BYTES_MAX)
}

#[test]
fn bodies_of_libraries_are_read() {
    let trigger = parse(concat!(
        r#"{"name":"new","channel":"private-rj","data":"{\"photo\":789}","socket_id":"#,
        r#""4711.815","info":"subscription_count"}"#,
    ));
    let trigger = trigger.unwrap();
    assert_eq!((&*trigger.name, &*trigger.data), ("new", r#"{"photo":789}"#));
    assert_eq!(trigger.channels, ["private-rj"]);
    assert_eq!(trigger.except, Some(SocketId { first: 4711, second: 815 }));
    assert!(trigger.info.subscription_count && !trigger.info.user_count);
    let laravel = r#"{"name":"A\\B","data":"","channels":["a","b","a"],"socket_id":null,"x":1}"#;
    let trigger = parse(laravel).unwrap();
    assert_eq!((&*trigger.name, trigger.channels.len()), ("A\\B", 2));
    assert_eq!((trigger.except, trigger.info.is_empty()), (None, true));
    let foreign = r#"{"name":"a","data":"","channel":"a","socket_id":"01.1"}"#;
    assert_eq!(parse(foreign).unwrap().except, None, "of no connection of ours");
}

#[test]
fn event_that_cannot_be_sent_is_refused() {
    for (body, refusal) in [
        (r#"{"name":"","data":"","channel":"a"}"#, ApiRefusal::EventName),
        (r#"{"name":"pusher:a","data":"","channel":"a"}"#, ApiRefusal::EventName),
        (r#"{"name":"pusher_internal:a","data":"","channel":"a"}"#, ApiRefusal::EventName),
        (r#"{"name":"a","data":"","channels":[]}"#, ApiRefusal::Channels),
        (r#"{"name":"a","data":"","channel":"a b"}"#, ApiRefusal::Channel(ChannelFault::Character)),
        (r#"{"name":"a","data":"","channel":"a","socket_id":"x"}"#, ApiRefusal::SocketId),
        (r#"{"name":"a","data":"","channel":"a","info":"x"}"#, ApiRefusal::Info("x".into())),
    ] {
        assert_eq!(parse(body), Err(refusal), "{body}");
    }
    for body in [
        "",
        "x",
        "[]",
        "{}",
        "null",
        r#"{"name":"a","data":{},"channel":"a"}"#,
        r#"{"name":"a","channel":"a"}"#,
        r#"{"data":"a","channel":"a"}"#,
        r#"{"name":"a","data":""}"#,
        r#"{"name":"a","data":"","channel":"a","channels":["a"]}"#,
        r#"{"name":"a","data":"","channels":"a"}"#,
        r#"{"name":"a","data":"","channel":["a"]}"#,
        r#"{"name":"a","data":"\ud800","channel":"a"}"#,
        r#"["a","","a"]"#,
    ] {
        let refusal = parse(body).unwrap_err();
        assert!(matches!(refusal, ApiRefusal::Body(_)), "{body}: {refusal}");
        assert_eq!(refusal.status(), 400);
    }
    assert!(matches!(parse_trigger(b"{\"name\":\"\xff\"}", 10), Err(ApiRefusal::Body(_))));
    let deep = format!(r#"{{"name":"a","data":"","channel":"a","x":{}"#, "[".repeat(1_000_000));
    assert!(matches!(parse(&deep), Err(ApiRefusal::Body(_))));
}

#[test]
fn bounds_hold_to_the_byte() {
    let with_data =
        |bytes| parse(&format!(r#"{{"name":"a","data":"{}","channel":"a"}}"#, "x".repeat(bytes)));
    assert!(with_data(10_240).is_ok());
    let refusal = with_data(10_241).unwrap_err();
    assert_eq!((refusal.status(), refusal), (413, ApiRefusal::DataTooLong(10_240)));
    let with_name = |chars| {
        parse(&format!(r#"{{"name":"{}","data":"","channel":"a"}}"#, "ü".repeat(chars))).err()
    };
    assert_eq!((with_name(200), with_name(201)), (None, Some(ApiRefusal::EventName)));
    let with_channels = |count: usize| {
        let channels: Vec<String> = (0..count).map(|number| format!("\"{number}\"")).collect();
        parse(&format!(r#"{{"name":"a","data":"","channels":[{}]}}"#, channels.join(","))).err()
    };
    assert_eq!((with_channels(100), with_channels(101)), (None, Some(ApiRefusal::Channels)));
}

#[test]
fn one_bad_event_refuses_its_batch() {
    let good = r#"{"name":"a","data":"1","channel":"a"}"#;
    assert_eq!(batch(&[good, good]).unwrap().len(), 2);
    assert_eq!(batch(&[]).unwrap().len(), 0);
    assert_eq!(batch(&[good; 10]).unwrap().len(), 10);
    assert_eq!(batch(&[good; 11]), Err(ApiRefusal::BatchTooLong));
    let refusal = batch(&[good, r#"{"name":"pusher:a","data":"1","channel":"a"}"#]).unwrap_err();
    assert_eq!(refusal.status(), 400);
    assert!(refusal.to_string().starts_with("Event 1 of the batch: "), "{refusal}");
    let many = batch(&[r#"{"name":"a","data":"1","channels":["a"]}"#]).unwrap_err();
    assert_eq!(many.status(), 400);
    let long = format!(r#"{{"name":"a","data":"{}","channel":"a"}}"#, "x".repeat(10_241));
    assert_eq!(batch(&[good, &long]).unwrap_err().status(), 413);
}

#[test]
fn old_way_has_its_data_in_the_body() {
    let query = SignedQuery::parse("name=new%20one&socket_id=1.2").unwrap();
    let trigger = parse_legacy(&query, "rj", b"{\"a\":1}", 10).unwrap();
    assert_eq!((&*trigger.name, &*trigger.data), ("new one", "{\"a\":1}"));
    assert_eq!(trigger.except, Some(SocketId { first: 1, second: 2 }));
    let nameless = SignedQuery::parse("").unwrap();
    assert_eq!(parse_legacy(&nameless, "rj", b"", 10), Err(ApiRefusal::EventName));
}
