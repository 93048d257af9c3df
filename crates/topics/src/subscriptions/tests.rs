//! Who wants to hear who is subscribed, what is noted of it, and what keys ask for it.

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
        let held = HeldSelector { text: "x".repeat(len).into(), is_granted: false };
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
