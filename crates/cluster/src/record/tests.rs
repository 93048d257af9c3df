//! Tests of the codec: the format's bytes, every cut, damage.

use super::*;
use crate::change::Change;
use crate::limits::SEQUENCE_MAX;

fn head() -> Head {
    Head { incarnation: 7, batch: 1 << 40, after: 0xfeed, chain: u64::MAX }
}

fn event(subject: &str, line: &str, flags: u8, term: Option<&[u8]>) -> Event {
    let term = term.map(<[u8]>::to_vec);
    Event { subject: subject.into(), line: line.into(), flags, term, ..Event::default() }
}

/// One of two events that is posted once.
fn once() -> Body {
    let once = Some(Once { key: u128::MAX, body: 1 << 64 });
    Body::Events(vec![event("1", "{}", 0, None), Event { once, ..event("2", "{}", 1, Some(b"t")) }])
}

/// One of two events that has several subjects.
fn several() -> Body {
    let Body::Events(mut events) = once() else { unreachable!("it is one of events") };
    events[1].also = vec!["bob".into(), "7".into()];
    Body::Events(events)
}

/// Two events, of which one names its sender and one leaves a connection out.
fn with_sender() -> Body {
    let Body::Events(mut events) = several() else { unreachable!("it is one of events") };
    events[0].has_sender = true;
    events[1].except = vec![1 << 63];
    Body::Events(events)
}

/// Two events, of which one leaves two connections out.
fn leaving_out_two() -> Body {
    let Body::Events(mut events) = with_sender() else { unreachable!("it is one of events") };
    events[1].except.push(1);
    Body::Events(events)
}

/// Two events, of which one is about a key.
fn about_a_key() -> Body {
    let Body::Events(mut events) = leaving_out_two() else { unreachable!("it is one of events") };
    events[0] = Event { subject: "#c1:a".into(), is_of_key: true, ..events[0].clone() };
    Body::Events(events)
}

/// Two events, of which one is an update of topics.
fn with_update() -> Body {
    let Body::Events(mut events) = about_a_key() else { unreachable!("it is one of events") };
    let (subject, is_of_key) = (String::new(), false);
    events[0] = Event { subject, is_of_key, is_update: true, ..events[0].clone() };
    Body::Events(events)
}

fn pair(subscriber: &str, subscribee: &str) -> (String, String) {
    (subscriber.into(), subscribee.into())
}

/// One of each kind.
fn notes() -> Vec<RoomNote> {
    let room = || "room:7".into();
    let joined = |info: Option<&str>| RoomNote::Joined {
        room: "7".into(),
        sub: "\u{e9}milie".into(),
        info: info.map(Into::into),
    };
    vec![
        RoomNote::Want(room()),
        RoomNote::Unwant("#k1:presence-x".into()),
        RoomNote::Begin(room()),
        joined(None),
        joined(Some("{\"name\":\"E\"}")),
        RoomNote::Left { room: room(), sub: "bob".into() },
        RoomNote::End(room()),
        RoomNote::Answered(1 << 40),
        RoomNote::Gone(300),
    ]
}

fn records() -> Vec<Record> {
    let events = vec![
        event("rj", r#"{"id":"0000000000000000","about":"rj","data":1}"#, 0, None),
        event("17", "{}", 0x7f, Some(&[131, 97, 1])),
        event("", "", 1, Some(&[])),
    ];
    let change = Change {
        version: 9,
        hash: 1,
        added: vec![pair("1", "2"), pair("a", "-7")],
        removed: vec![pair("18446744073709551615", "007")],
    };
    let join = Join {
        name: "n1".into(),
        address: "10.0.0.1:8002".into(),
        formats: (1, 1),
        founding: Some(70),
    };
    let bodies = [
        Body::Events(events),
        Body::Events(Vec::new()),
        once(),
        several(),
        with_sender(),
        leaving_out_two(),
        about_a_key(),
        with_update(),
        Body::Graph(Part { part: 1, parts: 3, change }),
        Body::Graph(Part { part: 0, parts: 1, change: Change::default() }),
        Body::Join(join),
        Body::Leave { incarnation: 44, reason: LeaveReason::Slow },
        Body::Order(Order::Logout("\u{e9}milie".into())),
        Body::Order(Order::Revoke(r#"{"jti":"\u00e9"}"#.into())),
        Body::Rooms(Vec::new()),
        Body::Rooms(notes()),
    ];
    bodies.into_iter().map(|body| Record { head: head(), body }).collect()
}

#[test]
fn record_comes_back_as_it_was_and_never_cut_or_longer() {
    for record in records() {
        let mut bytes = record.encode();
        assert_eq!(Record::decode(&bytes).as_ref(), Ok(&record));
        for end in 0..bytes.len() {
            assert_eq!(Record::decode(&bytes[..end]), Err(Malformed::Short), "{record:?} at {end}");
        }
        bytes.push(0);
        assert_eq!(Record::decode(&bytes), Err(Malformed::Long));
    }
}

/// The bytes themselves, so that nobody changes the format without its number.
#[test]
fn format_is_what_the_module_says() {
    let body = Body::Events(vec![event("3", "{}", 2, Some(b"t"))]);
    let head = Head { incarnation: 1, batch: 2, after: 3, chain: 4 };
    let bytes = Record { head, body }.encode();
    let numbers = [1, 2, 3, 4_u64].map(u64::to_be_bytes).concat();
    let events = [&[0, 1, 6, 0, 0, 0, 2][..], b"{}", &[0x82, 0, 0, 0, 1], b"t"].concat();
    assert_eq!(bytes, [&[1, b'E'][..], &numbers, &events].concat());

    let bytes = Record { head, body: once() }.encode();
    let (key, body) = ([0xff; 16], (1_u128 << 64).to_be_bytes());
    let first = [&[0, 2, 2, 0, 0, 0, 2][..], b"{}", &[0, 0]].concat();
    let second =
        [&[4, 0, 0, 0, 2][..], b"{}", &[0x81, 0, 0, 0, 1], b"t", &[1], &key, &body].concat();
    assert_eq!(bytes, [&[2, b'E'][..], &numbers, &first, &second].concat());

    let bytes = Record { head, body: several() }.encode();
    let also = [&[2, 7][..], b"bob", &[14]].concat();
    let expected = [&[3, b'E'][..], &numbers, &first, &[0], &second, &also].concat();
    assert_eq!(bytes, expected);

    let bytes = Record { head, body: with_sender() }.encode();
    let (except, none) = ([&[2][..], &(1_u64 << 63).to_be_bytes()].concat(), [0, 1]);
    let expected = [&[4, b'E'][..], &numbers, &first, &none, &second, &also, &except].concat();
    assert_eq!(bytes, expected);
    let bits_at = bytes.len() - except.len();
    // A bit that this format gives no meaning.
    let mut with_bit = bytes;
    with_bit[bits_at] |= 4;
    assert_eq!(Record::decode(&with_bit), Err(Malformed::Number));

    let bytes = Record { head, body: leaving_out_two() }.encode();
    let two = [&[6][..], &except[1..], &1_u64.to_be_bytes()].concat();
    let expected = [&[5, b'E'][..], &numbers, &first, &none, &second, &also, &two].concat();
    assert_eq!(bytes, expected);
    // One that no format does, and a second one without a first.
    for bits in [6 | 8, 4] {
        let mut bytes = bytes.clone();
        bytes[bits_at] = bits;
        assert_eq!(Record::decode(&bytes), Err(Malformed::Number), "{bits}");
    }

    let bytes = Record { head, body: about_a_key() }.encode();
    let first = [&[0, 2, 11][..], b"#c1:a", &[0, 0, 0, 2], b"{}", &[0, 0]].concat();
    let expected = [&[7, b'E'][..], &numbers, &first, &[0, 9], &second, &also, &two].concat();
    assert_eq!(bytes, expected);

    let bytes = Record { head, body: with_update() }.encode();
    let first = [&[0, 2, 1][..], &[0, 0, 0, 2], b"{}", &[0, 0]].concat();
    let expected = [&[8, b'E'][..], &numbers, &first, &[0, 17], &second, &also, &two].concat();
    assert_eq!(bytes, expected);
    // One that says here, too, what it is about.
    let bits_at = 34 + first.len() + 1;
    let mut of_key = bytes;
    assert_eq!(of_key[bits_at], 17);
    of_key[bits_at] |= 8;
    assert_eq!(Record::decode(&of_key), Err(Malformed::Number));
}

#[test]
fn record_is_of_the_first_format_that_has_all_of_it_and_of_no_other() {
    for record in records() {
        let mut bytes = record.encode();
        let format = match &record.body {
            body if *body == with_update() => FORMAT_UPDATES,
            body if *body == about_a_key() => FORMAT_KEYS,
            body if *body == leaving_out_two() => FORMAT_TWO,
            body if *body == with_sender() => FORMAT_SENDER,
            body if *body == several() => FORMAT_SUBJECTS,
            body if *body == once() => FORMAT_ONCE,
            Body::Rooms(_) => FORMAT_ROOMS,
            _ => FORMAT,
        };
        assert_eq!(bytes[0], format, "{record:?}");
        for other in (FORMAT..=FORMAT_MAX).filter(|other| *other != format) {
            bytes[0] = other;
            assert!(Record::decode(&bytes).is_err(), "{record:?} as {other}");
        }
    }
}

/// Any bytes: a record or an error, and a record is written as it was read.
#[test]
fn random_and_damaged_bytes_never_panic_and_have_one_form() {
    let mut random = fastrand::Rng::with_seed(testing::seed());
    let good: Vec<Vec<u8>> = records().iter().map(Record::encode).collect();
    let mut read = 0;
    for _ in 0..50_000 {
        let mut bytes = random.choice(&good).unwrap().clone();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(..bytes.len());
            match random.u8(0..4) {
                0 => bytes[at] = random.u8(..),
                1 => bytes.insert(at, random.u8(..)),
                2 if bytes.len() > 1 => drop(bytes.remove(at)),
                _ => bytes[at] ^= 1 << random.u8(0..8),
            }
        }
        if let Ok(record) = Record::decode(&bytes) {
            assert_eq!(record.encode(), bytes);
            read += 1;
        }
    }
    assert!(read > 1_000, "{read}");
}

#[test]
fn record_that_is_too_long_or_has_too_many_events_is_none() {
    assert_eq!(Record::decode(&vec![1; RECORD_BYTES_MAX + 1]), Err(Malformed::Long));
    let body = Body::Events(vec![event("1", "", 0, None); RECORD_EVENTS_MAX]);
    let mut bytes = Record { head: head(), body }.encode();
    assert!(Record::decode(&bytes).is_ok());
    // The count is the last byte of the head's successor.
    bytes[35] += 1;
    assert_eq!(Record::decode(&bytes), Err(Malformed::Number));
}

#[test]
fn large_change_travels_in_parts_that_records_hold() {
    let pairs = |from: u64| (from..from + 30_000).map(|n| (n.to_string(), format!("user-{n}")));
    let change = Change {
        version: 5,
        hash: 6,
        added: pairs(0).collect(),
        removed: pairs(1 << 60).collect(),
    };
    let parts = change.clone().parts().unwrap();
    assert!(parts.len() > 3);
    let mut whole = Change { version: 5, hash: 6, ..Change::default() };
    for (index, part) in parts.into_iter().enumerate() {
        assert_eq!(usize::from(part.part), index);
        let bytes = Record { head: head(), body: Body::Graph(part) }.encode();
        let Body::Graph(part) = Record::decode(&bytes).unwrap().body else { panic!() };
        whole.added.extend(part.change.added);
        whole.removed.extend(part.change.removed);
    }
    assert_eq!(whole, change);
    assert_eq!(Change::default().parts().unwrap().len(), 1);
}

/// The numbers of the next epoch would have to be above it.
#[test]
fn record_that_knows_a_place_that_no_log_comes_to_is_none() {
    for (after, is_record) in [(SEQUENCE_MAX, true), (SEQUENCE_MAX + 1, false), (u64::MAX, false)] {
        let body = Body::Order(Order::Logout("7".to_owned()));
        let record = Record { head: Head { after, ..head() }, body };
        let decoded = Record::decode(&record.encode());
        assert_eq!(decoded, if is_record { Ok(record) } else { Err(Malformed::Number) });
    }
}
