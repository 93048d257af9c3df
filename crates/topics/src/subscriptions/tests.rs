//! Who wants to hear who is subscribed, what is noted of it, and what keys ask for it.

use hub::{Key, Space};
use mercure::{Grants, Selector};

use super::*;

fn selectors(texts: &[&str]) -> Vec<Arc<Selector>> {
    texts.iter().map(|text| Arc::new(Selector::old(text).unwrap())).collect()
}

fn note(slot: usize) -> SubscriberNote {
    SubscriberNote { who: slot as u128, came: None, selectors: None, payload: None }
}

#[test]
fn only_who_may_hear_of_it_wants_it() {
    let may = |topics: &[&str], granted: &[&str]| {
        may_hear(&selectors(topics), &Grants::new(selectors(granted)))
    };
    let all = "/.well-known/mercure/subscriptions{/topic}{/subscriber}";
    assert!(may(&["*"], &["*"]) && may(&[all], &[all]) && may(&["a", all], &["b", "*"]));
    assert!(may(&["/{+path}"], &["/.well-known/mercure/subscriptions/a/b"]));
    for (topics, granted) in [
        (&["https://a.test/{id}", "a"][..], &["*"][..]),
        (&["*"], &["https://a.test/{id}", "a"]),
        (&["*", all], &[]),
        (&["/.well-known/mercure/other{/x}"], &["*"]),
    ] {
        assert!(!may(topics, granted), "{topics:?} {granted:?}");
    }
}

#[test]
fn url_pattern_asks_for_paths_if_it_is_of_the_hub_and_begins_as_they_do() {
    let hub = mercure::HubUrl::parse("https://hub.example/.well-known/mercure").unwrap();
    let all = Grants::new(selectors(&["*"]));
    for (text, may, asks) in [
        ("/.well-known/mercure/subscriptions/*", true, true),
        ("https://hub.example/.well-known/mercure/subscriptions/exact/:match/:who", true, true),
        ("/.well-known/*", true, false),
        ("*://*/:path*", true, false),
        ("https://a.test/books/:id", false, false),
        ("http{s}?://hub.example/.well-known/mercure/subscriptions/*", true, false),
        ("HTTPS://Hub.Example/.well-known/mercure/subscriptions/*", true, false),
        (r"https://hub\.example/.well-known/mercure/subscriptions/*", true, false),
        ("https://a.test/.well-known/mercure/subscriptions/*", false, false),
        ("/books/:id", false, false),
    ] {
        let selector = Selector::v1(mercure::MatchType::UrlPattern, text, &hub).unwrap();
        let key = selector.key().into_owned();
        assert_eq!(may_hear([&Arc::new(selector)], &all), may, "{text}");
        let key = Key { space: Space::PrivatePattern, app: "", name: &key };
        assert_eq!(asks_for_paths(key), asks, "{text}");
    }
}

#[test]
fn who_wants_the_form_of_1_0_has_missed_what_was_told_before() {
    let of = Subscriptions::default();
    of.listen_v1(|| 7);
    assert!(of.is_v1_wanted() && of.since() == 7);
    let of = Subscriptions::default();
    of.listen(|| 7);
    assert!(!of.is_v1_wanted());
    of.ask_v1(|| 9);
    of.listen_v1(|| 11);
    assert!(of.is_v1_wanted() && of.since() == 10);
}

#[test]
fn who_wants_the_form_of_1_0_that_nodes_tell_has_missed_nothing() {
    let of = Subscriptions::default();
    of.be_node();
    of.want_elsewhere(true, || 7);
    of.set_since(8);
    of.tell_v1(true);
    of.ask_v1(|| 9);
    assert!(of.is_v1_wanted() && of.since() == 8);
    // As long as another node wants it, nobody has to here.
    assert!(of.look(0, 100) && of.look(100, 100));
    assert!(!of.is_v1_wanted() && !of.is_wanted_here());
    of.tell_v1(false);
    of.ask_v1(|| 9);
    assert_eq!(of.since(), 10);
}

#[test]
fn it_is_wanted_until_nobody_has_asked_for_some_time() {
    let of = Subscriptions::default();
    assert!(!of.is_wanted() && !of.look(0, 100));
    of.listen(|| 7);
    of.listen(|| 8);
    assert!(of.is_wanted() && of.since() == 7);
    of.note(note(1));
    of.leave();
    assert!(of.look(1_000, 100));
    of.leave();
    assert!(of.look(2_000, 100) && of.look(2_099, 100) && of.is_wanted());
    assert!(!of.look(2_100, 100) && !of.is_wanted());
    assert!(of.take().0.is_empty(), "nobody takes what nobody wants");
    of.ask(|| 9);
    assert!(of.look(3_000, 100) && of.since() == 10 && of.periods() == 2);
}

#[test]
fn notes_past_their_bound_are_told_as_lost() {
    let of = Subscriptions::default();
    (0..=NOTES_MAX).for_each(|slot| of.note(note(slot)));
    let (notes, has_lost) = of.take();
    assert!(notes.len() == NOTES_MAX && has_lost);
    of.note(note(1));
    assert!(of.take().0.len() == 1 && !of.take().1);
    let held = |len, count| {
        let held = HeldSelector {
            kind: crate::HeldKind::Plain,
            text: "x".repeat(len).into(),
            is_granted: false,
        };
        SubscriberNote { selectors: Some(vec![held; count]), ..note(1) }
    };
    let long = held(4096, 1);
    (0..5_000).for_each(|_| of.note(long.clone()));
    let (notes, has_lost) = of.take();
    assert!(notes.len() * 4096 <= NOTE_BYTES_MAX && has_lost);
    // Short texts count for what they take, and so does a payload.
    let short = held(1, 800);
    let payload = SubscriberNote { payload: Some("x".repeat(40_000).into()), ..note(1) };
    for each in [short, payload] {
        (0..NOTES_MAX).for_each(|_| of.note(each.clone()));
        let (notes, has_lost) = of.take();
        assert!(has_lost && (300..450).contains(&notes.len()), "{}", notes.len());
    }
}

#[test]
fn subscriber_has_a_random_uuid_that_is_read_back() {
    let of = Subscriptions::default();
    let [one, two] = [1, 2].map(|slot| of.number(ConnRef::new(0, slot, 0)));
    assert!(one != two && one == of.number(ConnRef::new(0, 1, 0)));
    let text = subscriber_text(one);
    assert_eq!((text.len(), &text[23..24]), (45, "4"), "{text}");
    assert!("89ab".contains(&text[28..29]), "{text}");
    assert_eq!(subscriber_number(&text), Some(one));
    for other in ["", "urn:uuid:", &text[1..], &text.to_uppercase(), &text.replace('-', "")] {
        assert_eq!(subscriber_number(other), None, "{other}");
    }
}

#[test]
fn key_asks_for_paths_alone_or_for_more() {
    let asks = |key| Key::parse(key).is_some_and(asks_for_paths);
    assert!(asks("#v:template /.well-known/mercure/subscriptions{/a}{/b}"));
    assert!(asks("#p:/.well-known/mercure/subscriptions/a"));
    assert!(asks("#g3*:template /.well-known/mercure/subscriptions{/a}"));
    assert!(!asks("#v:*") && !asks("#r:*") && !asks("#p:a") && !asks("#g1:a"));
}

#[test]
fn what_was_wanted_is_wanted_by_the_next_process_and_names_stay() {
    let (before, after) = (Subscriptions::default(), Subscriptions::default());
    before.begin_at(5);
    before.listen(|| 7);
    before.raise_since(9);
    let (there, here) = (ConnRef::new(0, 1, 0), ConnRef::new(1, 9, 3));
    let name = before.number(there);
    after.keep_number(here, name);
    after.listen_again();
    assert!(!after.is_wanted());
    after.take_over(before.rest());
    assert!(after.is_wanted() && after.listeners() == 1);
    assert_eq!((after.since(), after.periods(), after.number(here)), (9, 1, name));
    assert_eq!(after.rest(), before.rest());
    after.forget_number(here);
    assert_ne!(after.number(here), name);
    // Where nobody wants it nobody knows a name.
    let quiet = Subscriptions::default();
    quiet.keep_number(here, name);
    quiet.take_over(Subscriptions::default().rest());
    assert!(!quiet.is_wanted() && quiet.number(here) != name);
    // As nobody does who comes after all have gone.
    after.keep_number(here, name);
    after.leave();
    assert!(after.look(0, 10) && !after.look(10, 10));
    assert_ne!(after.number(here), name);
}
