//! Forms of publishers.

use mercure::{Dialect, IdFault, KindFault, Refusal, Update, limits};

use crate::hub;

fn parsed(form: &str, dialect: Dialect) -> Result<Update, Refusal> {
    Update::parse(form.as_bytes(), dialect, &hub())
}

fn both(form: &str) -> Result<Update, Refusal> {
    let (old, v1) = (parsed(form, Dialect::Old), parsed(form, Dialect::V1));
    assert_eq!(old, v1, "{form}");
    old
}

#[test]
fn form_becomes_an_update() {
    let update =
        both("topic=a&topic=b&topic=a&data=x%0D%0Ay&private=on&id=urn:x:1&type=note&retry=3")
            .unwrap();
    let expected = Update {
        topics: vec!["a".to_owned(), "b".to_owned()],
        data: "x\r\ny".to_owned(),
        is_private: true,
        id: Some("urn:x:1".to_owned()),
        kind: Some("note".to_owned()),
        retry: Some(3),
    };
    assert_eq!(update, expected);
    let least = both("topic=a").unwrap();
    assert_eq!((least.data.as_str(), least.is_private), ("", false));
    assert_eq!((least.id, least.kind, least.retry), (None, None, None));
}

#[test]
fn fields_are_read_as_forms_write_them() {
    for (form, topic, data) in [
        ("topic=a+b&data=c%20d", "a b", "c d"),
        ("topic=%C3%A9&data=%F0%9F%98%80", "é", "😀"),
        ("other=1&topic=a&Data=2&data=x&data=y", "a", "x"),
        ("topic=a&data", "a", ""),
        ("&&topic=a&&data=x=y&", "a", "x=y"),
        ("topic=a&data=1;2", "a", "1;2"),
        ("topic=a&data=%", "a", "%"),
    ] {
        let update = both(form).unwrap();
        assert_eq!((&*update.topics[0], &*update.data), (topic, data), "{form}");
    }
    for form in ["topic=a&private", "topic=a&private=", "private=off&topic=a"] {
        assert!(both(form).unwrap().is_private, "{form}");
    }
    for form in ["topic=a&id=", "topic=a&type=", "topic=a&retry=", "topic=a&retry=0"] {
        assert_eq!(both(form), both("topic=a"), "{form}");
    }
    assert_eq!(both("topic=a&retry=0007").unwrap().retry, Some(7));
    assert_eq!(both("topic=a&retry=18446744073709551615").unwrap().retry, Some(u64::MAX));
}

#[test]
fn form_that_is_no_update_is_refused() {
    let id = |fault| Refusal::Id(fault);
    let kind = |fault| Refusal::Kind(fault);
    for (form, refusal) in [
        ("", Refusal::NoTopic),
        ("data=x", Refusal::NoTopic),
        ("topic=", Refusal::NoTopic),
        ("Topic=a", Refusal::NoTopic),
        ("topic=a&id=%23x", id(IdFault::Reserved)),
        ("topic=a&id=x%0Ay", id(IdFault::Control)),
        ("topic=a&id=x%0D", id(IdFault::Control)),
        ("topic=a&id=%00", id(IdFault::Control)),
        ("topic=a&id=a%09b", id(IdFault::Control)),
        ("topic=a&id=%7F", id(IdFault::Control)),
        ("topic=a&type=a%0Ab", kind(KindFault::Control)),
        ("topic=a&type=%1B", kind(KindFault::Control)),
        ("topic=a&type=%7F", kind(KindFault::Control)),
        ("topic=a&retry=-1", Refusal::Retry),
        ("topic=a&retry=%2B1", Refusal::Retry),
        ("topic=a&retry=1.0", Refusal::Retry),
        ("topic=a&retry=1s", Refusal::Retry),
        ("topic=a&retry=+1", Refusal::Retry),
        ("topic=a&retry=%D9%A1", Refusal::Retry),
        ("topic=a&retry=18446744073709551616", Refusal::Retry),
    ] {
        assert_eq!(both(form), Err(refusal.clone()), "{form}");
        for dialect in [Dialect::Old, Dialect::V1] {
            assert_eq!(refusal.status(dialect), 400, "{form}");
            assert_eq!(refusal.challenge(dialect, None), None, "{form}");
        }
    }
    for (form, refusal) in [
        ("topic=a&id=earliest", id(IdFault::Earliest)),
        ("topic=a&type=mercure", kind(KindFault::Reserved)),
    ] {
        assert_eq!(parsed(form, Dialect::V1), Err(refusal));
        assert!(parsed(form, Dialect::Old).is_ok(), "{form}");
    }
    let accepted = ["topic=a&id=x%23", "topic=a&id=%C2%85", "topic=a&type=Mercure"];
    accepted.into_iter().for_each(|form| drop(both(form).unwrap()));
}

#[test]
fn form_has_bounds() {
    let topics = |count: usize| {
        let topics: Vec<String> = (0..count).map(|number| format!("topic={number}")).collect();
        topics.join("&")
    };
    assert_eq!(both(&topics(limits::SELECTORS_MAX)).unwrap().topics.len(), limits::SELECTORS_MAX);
    assert_eq!(both(&topics(limits::SELECTORS_MAX + 1)), Err(Refusal::TooManyTopics));
    assert_eq!(both(&"topic=a&".repeat(4_000)).unwrap().topics, ["a"]);
    assert_eq!(both(&"x=a&".repeat(limits::FIELDS_MAX + 1)), Err(Refusal::TooManyFields));
    let long = |name: &str, bytes: usize| format!("topic=a&{name}={}", "x".repeat(bytes));
    assert!(both(&long("id", limits::ID_BYTES_MAX)).is_ok());
    let refusal = both(&long("id", limits::ID_BYTES_MAX + 1)).unwrap_err();
    assert_eq!(refusal, Refusal::Id(IdFault::TooLong));
    let refusal = both(&long("type", limits::KIND_BYTES_MAX + 1)).unwrap_err();
    assert_eq!(refusal, Refusal::Kind(KindFault::TooLong));
    assert_eq!(both(&long("data", 100_000)).unwrap().data.len(), 100_000);
}

#[test]
fn body_that_is_no_form_is_of_another_type() {
    assert_eq!(Refusal::NotForm.status(Dialect::Old), 415);
}
