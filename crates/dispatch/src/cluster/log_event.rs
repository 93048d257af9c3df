//! An event as it stands in the cluster's log: the one place where it is put into that form and
//! taken out of it.

use std::borrow::Cow;

use cluster::{
    Event, FORMAT, FORMAT_KEYS, FORMAT_SENDER, FORMAT_SUBJECTS, FORMAT_TWO, FORMAT_UPDATES, Once,
};
use engine::Outgoing;
use hub::{ConnectionId, Draft, KEY_MARK, LeftOut};
use proto::Frame;
use topics::UpdateKeys;

/// The bit of an event's flags that says that it is for the connections of its subject alone.
const ALONE: u8 = 1;

/// The bit that says that it is the last one of its channel, which is remembered. Of keys alone.
const CACHED: u8 = 2;

/// The first format of records that has all of an event, without its key.
pub(super) fn format_of(outgoing: &Outgoing) -> u8 {
    let Outgoing { draft, except, .. } = outgoing;
    if is_update(outgoing) {
        FORMAT_UPDATES
    } else if is_of_key(&draft.about()) {
        FORMAT_KEYS
    } else if except.count() > 1 {
        FORMAT_TWO
    } else if !except.is_nobody() || draft.from().is_some() {
        FORMAT_SENDER
    } else if draft.also().next().is_some() {
        FORMAT_SUBJECTS
    } else {
        FORMAT
    }
}

/// The form of the log.
pub(super) fn to_log(outgoing: Outgoing, once: Option<Once>) -> Event {
    let is_update = is_update(&outgoing);
    let Outgoing { draft, term, followed, remembered, except, .. } = outgoing;
    let (subject, also) = match is_update {
        true => (String::new(), Vec::new()),
        false => (draft.about().into_owned(), draft.also().map(Cow::into_owned).collect()),
    };
    let is_of_key = is_of_key(&subject);
    debug_assert!(is_of_key || followed == remembered, "of ids both or neither is");
    let term = term.map(|term| term.body().to_vec());
    let flags = match (followed, remembered) {
        (true, _) => 0,
        (false, false) => ALONE,
        (false, true) => ALONE | CACHED,
    };
    let has_sender = draft.from().is_some();
    let except = except.iter().map(ConnectionId::bits).collect();
    let line = draft.into_line();
    Event { subject, also, line, flags, term, once, has_sender, except, is_of_key, is_update }
}

/// The event that the log has; `None` of what no node of this version would write.
pub(super) fn of_log(event: Event) -> Option<Outgoing> {
    let Event { subject, also, line, flags, term, has_sender, except, .. } = event;
    let Event { is_of_key, is_update, .. } = event;
    if is_of_key != self::is_of_key(&subject) {
        return None;
    }
    let is_of = |draft: &Draft| {
        let subjects = || std::iter::once(draft.about()).chain(draft.also());
        let is_about = match is_update {
            true => UpdateKeys::topics(subjects()).is_some(),
            false => {
                let also = also.iter().map(String::as_str);
                subjects().eq(std::iter::once(&*subject).chain(also))
            }
        };
        is_about && draft.from().is_some() == has_sender
    };
    let draft = Draft::of_line(line).filter(is_of)?;
    let term = term.map(|term| Frame::bare(&[&term]));
    let ids = except.iter().map(|&bits| ConnectionId::of_bits(bits));
    let left_out = ids.collect::<Option<LeftOut>>()?;
    if left_out.count() != except.len() {
        return None;
    }
    // Of a key flags alone say what is remembered: a channel keeps nothing of its clients.
    let (followed, remembered) = match (is_of_key, flags) {
        (true, _) | (_, 1..) if is_update => return None,
        (false, 0) => (true, true),
        (_, ALONE) => (false, false),
        (true, flags) if flags == ALONE | CACHED => (false, true),
        _ => return None,
    };
    Some(Outgoing { term, followed, remembered, except: left_out, ..draft.into() })
}

/// Whether it is an update of topics, which alone of keys have followers.
fn is_update(outgoing: &Outgoing) -> bool {
    outgoing.followed && is_of_key(&outgoing.draft.about())
}

/// Whether a subject is a key, and no id.
fn is_of_key(subject: &str) -> bool {
    subject.starts_with(KEY_MARK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_comes_out_of_the_log_as_it_went_in() {
        for about in ["17", "bob", "a\"b\\"] {
            for alone in [false, true] {
                for term in [None, Some(Frame::bare(&[b"term"]))] {
                    let draft = Draft::new(about, "[1]").unwrap();
                    let outgoing = Outgoing { term: term.clone(), ..draft.clone().into() };
                    let outgoing = if alone { outgoing.for_subjects_alone() } else { outgoing };
                    let event = to_log(outgoing, None);
                    assert_eq!(event.subject, about);
                    let again = of_log(event).unwrap();
                    assert_eq!((again.draft, again.term), (draft, term));
                    assert_eq!((again.followed, again.remembered), (!alone, !alone));
                }
            }
        }
    }

    #[test]
    fn subjects_stand_in_the_log_and_in_the_line() {
        let payload = hub::Payload::Text("x");
        let (name, from) = (Some("n"), Some("bob"));
        let parts = hub::EventParts { about: "a", also: &["b", "7"], name, from, payload };
        let event = to_log(Draft::of(parts).unwrap().into(), None);
        assert_eq!((&*event.subject, &event.also[..]), ("a", &["b".to_owned(), "7".into()][..]));
        let draft = of_log(event.clone()).unwrap().draft;
        assert_eq!(draft, Draft::of(parts).unwrap());
        assert!(of_log(Event { also: vec!["7".into(), "b".into()], ..event }).is_none());
    }

    #[test]
    fn sender_and_who_is_left_out_want_the_format_that_has_them() {
        let [one, other] = [7, 8].map(|bits| LeftOut::from(ConnectionId::of_bits(bits)));
        let two: LeftOut = one.iter().chain(other.iter()).collect();
        let payload = hub::Payload::Json("1");
        let parts =
            hub::EventParts { about: "a", also: &[], name: None, from: Some("bob"), payload };
        let outgoing = |except| Outgoing { except, ..Draft::of(parts).unwrap().into() };
        assert_eq!(format_of(&outgoing(one)), FORMAT_SENDER);
        assert_eq!(format_of(&outgoing(two)), FORMAT_TWO);
        let event = to_log(outgoing(two), None);
        assert_eq!((event.has_sender, &event.except[..]), (true, &[7, 8][..]));
        assert_eq!(of_log(event.clone()).unwrap().except, two);
        assert!(of_log(Event { has_sender: false, ..event.clone() }).is_none(), "it has one");
        for no_ids in [&[0][..], &[7, 7]] {
            let except = no_ids.to_vec();
            assert!(of_log(Event { except, ..event.clone() }).is_none(), "{no_ids:?}");
        }
        let plain = || Outgoing::new("a", "1").unwrap();
        assert_eq!(format_of(&plain()), FORMAT);
        assert_eq!(format_of(&Outgoing { except: one, ..plain() }), FORMAT_SENDER);
        let several = hub::EventParts { also: &["b"], from: None, ..parts };
        assert_eq!(format_of(&Draft::of(several).unwrap().into()), FORMAT_SUBJECTS);
    }

    #[test]
    fn event_of_a_channel_comes_out_of_the_log_as_it_went_in() {
        let payload = hub::Payload::Text("x");
        let parts = hub::EventParts {
            about: "#k1:cache-a",
            also: &[],
            name: Some("n"),
            from: Some("b b"),
            payload,
        };
        let outgoing = || Outgoing::on_channel(Draft::of_key(parts).unwrap());
        for (outgoing, remembered) in [(outgoing(), true), (outgoing().for_subjects_alone(), false)]
        {
            assert_eq!(format_of(&outgoing), FORMAT_KEYS);
            let event = to_log(outgoing, None);
            assert!(event.is_of_key);
            let again = of_log(event.clone()).unwrap();
            assert_eq!(again.draft, Draft::of_key(parts).unwrap());
            assert_eq!((again.followed, again.remembered), (false, remembered));
            for flags in [0, CACHED, ALONE | CACHED | 4] {
                assert!(of_log(Event { flags, ..event.clone() }).is_none(), "{flags}");
            }
            assert!(of_log(Event { is_of_key: false, ..event }).is_none(), "it is of one");
        }
    }

    #[test]
    fn update_comes_out_of_the_log_as_it_went_in() {
        let draft = |about, also| {
            let payload = hub::Payload::Json(r#"{"id":"urn:1","data":"x"}"#);
            Draft::of_key(hub::EventParts { about, also, name: Some("t"), from: None, payload })
        };
        for (about, also) in [("#t:https://a.test/1", &["#t:\"b\""][..]), ("#p:a", &[][..])] {
            let update = || Outgoing::from(draft(about, also).unwrap());
            assert_eq!(format_of(&update()), FORMAT_UPDATES);
            let event = to_log(update(), None);
            assert!(event.is_update && event.subject.is_empty() && event.also.is_empty());
            let again = of_log(event.clone()).unwrap();
            assert_eq!(again.draft, draft(about, also).unwrap());
            assert!(again.followed && again.remembered);
            for flags in [ALONE, ALONE | CACHED, 4] {
                assert!(of_log(Event { flags, ..event.clone() }).is_none(), "{flags}");
            }
            assert!(of_log(Event { is_update: false, ..event }).is_none(), "it is about a topic");
        }
        for (about, also) in [("#c1:a", &[][..]), ("#t:a", &["#p:b"][..]), ("#r:*", &[][..])] {
            let line = draft(about, also).unwrap().into_line();
            let event = Event { line, is_update: true, ..Event::default() };
            assert!(of_log(event).is_none(), "{about} is no topic");
        }
    }

    #[test]
    fn event_that_no_node_writes_is_none() {
        let event = || to_log(Outgoing::new("bob", "1").unwrap(), None);
        assert!(of_log(Event { subject: "rj".into(), ..event() }).is_none(), "another subject");
        assert!(of_log(Event { also: vec!["rj".into()], ..event() }).is_none(), "one more");
        assert!(of_log(Event { line: "{}".into(), ..event() }).is_none(), "no line");
        assert!(of_log(Event { is_of_key: true, ..event() }).is_none(), "no key");
        assert!(of_log(Event { flags: ALONE | CACHED, ..event() }).is_none(), "nothing of one");
        let line = event().line.replace("bob", "b b");
        assert!(of_log(Event { subject: "b b".into(), line, ..event() }).is_none(), "no id");
    }
}
