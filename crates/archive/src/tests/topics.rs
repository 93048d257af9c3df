//! Updates of topics in the archive: under the keys of their topics, by the ids of their
//! publishers, and gone through for patterns.

use super::*;

const HUB: &str = "/.well-known/mercure";

/// Whoever listens to all topics that begin so, or to what is private, too.
struct Beginning {
    literal: &'static str,
    hears_private: bool,
}

impl KeptListener for Beginning {
    fn is_of_many(&self) -> bool {
        true
    }
    fn literal(&self) -> &str {
        self.literal
    }
    fn looks(&self) -> usize {
        1
    }
    fn listens(&self, key: &str) -> bool {
        let name = key.strip_prefix("#t:");
        let name = name.or_else(|| key.strip_prefix("#p:").filter(|_| self.hears_private));
        name.is_some_and(|name| name.starts_with(self.literal))
    }
    fn hears(&self, subjects: &mut dyn Iterator<Item = Cow<'_, str>>) -> bool {
        for subject in subjects {
            if subject.contains("secret") {
                return false;
            }
        }
        true
    }
}

fn listens(literal: &'static str, hears_private: bool) -> Arc<dyn KeptListener> {
    Arc::new(Beginning { literal, hears_private })
}

fn open(dir: &Path, rules: KeepRules) -> DiskArchive {
    super::open(dir, rules).0.with_topics(Some(HUB))
}

fn update(keys: &[&str], data: &str) -> Draft {
    let (about, also) = keys.split_first().unwrap();
    let payload = Payload::Json(data);
    Draft::of_key(EventParts { about, also, name: None, from: None, payload }).unwrap()
}

const ALL: KeptUpdatesOf = KeptUpdatesOf {
    after: 0,
    up_to: 1_000_000,
    is_claimed: false,
    events_max: 1_000,
    bytes_max: 1 << 20,
    looks_max: usize::MAX,
};

/// The numbers, up to where was looked, and whether nothing is missing.
fn heard(
    archive: &DiskArchive,
    by: &[Arc<dyn KeptListener>],
    of: KeptUpdatesOf,
) -> (Vec<u64>, u64, bool) {
    let page: KeptUpdatesPage<()> = archive.heard(by, of).unwrap();
    let numbers = page.events.iter().map(|event| event.number()).collect();
    (numbers, page.up_to, page.covered)
}

#[test]
fn update_is_found_by_its_topic_its_id_and_among_all_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let list = rules(&[("https://a.test/*", DAY_MS, None, None), ("bob", DAY_MS, None, None)]);
    let archive = open(dir.path(), list.clone());
    let now = now_ms();
    let made = [
        update(&["#t:https://a.test/1"], "\"x\""),
        update(&["#p:https://a.test/1", "#p:note"], "{\"id\":\"urn:\\\"1\",\"data\":\"y\"}"),
        update(&["#t:note", "#t:https://a.test/2"], "\"z\""),
        draft(&["bob"], "1"),
        update(&["#t:https://a.test/1"], "{\"id\":\"urn:\\\"1\",\"data\":\"again\"}"),
    ];
    for (draft, number) in made.iter().zip(1..) {
        assert!(post(&archive, draft.clone(), number, now));
    }
    for key in ["#t:note", "#t:/.well-known/mercure/subscriptions/a", "#c1:https://a.test/1"] {
        assert!(!post(&archive, update(&[key], "\"x\""), 99, now), "{key}");
        assert!(!Archive::<()>::keeps(&archive, key), "{key}");
    }
    archive.let_go().unwrap();
    let archive = open(dir.path(), list);
    for (id, numbers) in [
        ("#t:https://a.test/1", &[1, 5][..]),
        // Who is granted a topic hears what is public about it as well.
        ("#p:https://a.test/1", &[1, 2, 5]),
        ("#g7:https://a.test/1", &[2]),
        ("#t:https://a.test/2", &[3]),
        ("bob", &[4]),
    ] {
        assert_eq!(page(&archive, id, of(0, false, 9)), (numbers.to_vec(), false, true), "{id}");
    }
    let read: Page<()> = archive.page("#p:https://a.test/1", of(0, false, 9)).unwrap();
    for (read, number) in read.events.iter().zip([0, 1, 4]) {
        assert_eq!(read.data(), made[number].clone().numbered::<()>(id_of(1)).data());
    }
    assert_eq!(page(&archive, "#p:https://a.test/1", of(0, false, 1)), (vec![1], true, true));
    assert_eq!(Archive::<()>::number_of(&archive, "urn:\\\"1").unwrap(), Some(2));
    assert_eq!(Archive::<()>::number_of(&archive, "urn:2").unwrap(), None);
    let (public, private) = (listens("https://a.test/", false), listens("", true));
    assert_eq!(heard(&archive, std::slice::from_ref(&public), ALL).0, [1, 3, 5]);
    assert_eq!(
        heard(&archive, &[public, private.clone()], ALL),
        (vec![1, 2, 3, 5], 1_000_000, true)
    );
    assert_eq!(heard(&archive, &[listens("https://b", true)], ALL).0, []);
    let between = KeptUpdatesOf { after: 1, up_to: 3, ..ALL };
    assert_eq!(heard(&archive, &[private], between), (vec![2, 3], 3, true));
}

fn id_of(number: u64) -> EventId {
    EventId::new(number, Tag::of(7))
}

#[test]
fn look_ends_where_it_has_cost_enough_and_goes_on_there() {
    let dir = tempfile::tempdir().unwrap();
    let archive = open(dir.path(), rules(&[("*", DAY_MS, None, None)]));
    for number in 1..=1_000 {
        let key = if number % 100 == 0 { "#t:wanted" } else { "#t:other" };
        let room = EventStore::<()>::reserve(&archive, &update(&[key], "\"x\"")).unwrap().unwrap();
        room.append(&update(&[key], "\"x\"").numbered::<()>(id_of(number)), now_ms());
    }
    let by = [listens("wanted", false)];
    for few in [
        KeptUpdatesOf { looks_max: 1, ..ALL },
        KeptUpdatesOf { looks_max: 20_000, ..ALL },
        KeptUpdatesOf { events_max: 1, ..ALL },
        KeptUpdatesOf { bytes_max: 1, ..ALL },
    ] {
        let (mut found, mut after, mut looks) = (Vec::new(), 0, 0);
        while after < ALL.up_to {
            let (numbers, up_to, covered) = heard(&archive, &by, KeptUpdatesOf { after, ..few });
            assert!(up_to > after && covered, "{after} {up_to}");
            assert!(numbers.iter().all(|number| *number > after && *number <= up_to));
            found.extend(numbers);
            (after, looks) = (up_to, looks + 1);
        }
        assert_eq!(found, Vec::from_iter((1..=10).map(|n| n * 100)), "{few:?}");
        assert!(looks > 9, "{looks}");
    }
}

#[test]
fn update_that_a_rule_is_over_for_is_not_heard_and_is_told_as_missing() {
    let dir = tempfile::tempdir().unwrap();
    let list =
        [("few*", DAY_MS, Some(2), None), ("old*", 60_000, None, None), ("*", DAY_MS, None, None)];
    let archive = open(dir.path(), rules(&list));
    let now = now_ms();
    post(&archive, update(&["#t:old1", "#t:long"], "\"x\""), 1, now - 70_000);
    post(&archive, update(&["#t:old1"], "\"x\""), 2, now - 70_000);
    for number in 3..=6 {
        post(&archive, update(&["#t:few1"], "\"x\""), number, now);
    }
    post(&archive, update(&["#t:old1"], "\"x\""), 7, now);
    let of = |literal, after| {
        heard(&archive, &[listens(literal, false)], KeptUpdatesOf { after, ..ALL })
    };
    assert_eq!(of("old", 0), (vec![7], 1_000_000, false));
    assert_eq!(of("old", 2), (vec![7], 1_000_000, true));
    // As long as one of its topics keeps it.
    assert_eq!(of("long", 0), (vec![1], 1_000_000, true));
    assert_eq!(of("few", 0), (vec![5, 6], 1_000_000, false));
    assert_eq!(of("few", 4), (vec![5, 6], 1_000_000, true));
    assert_eq!(of("", 0), (vec![1, 5, 6, 7], 1_000_000, false));
    // Whoever is told at once goes by the first one, and by the rules that may fit.
    let claims = |literal, after| {
        let of = KeptUpdatesOf { after, is_claimed: true, looks_max: 1, ..ALL };
        heard(&archive, &[listens(literal, false)], of).2
    };
    assert!(!claims("old", 0) && !claims("", 0) && !claims("o", 1) && claims("long", 0));
    assert!(claims("old", 2) && claims("few", 1));
}

#[test]
fn topics_are_claimed_since_rules_and_this_version_have_kept_all_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let list =
        [("a/*", DAY_MS, None, None), ("a*", DAY_MS, None, None), ("b/1", DAY_MS, None, None)];
    let archive = open(dir.path(), rules(&list));
    let keeps_all = |literal| Archive::<()>::keeps_all(&archive, &*listens(literal, false));
    assert!(keeps_all("a/") && keeps_all("a/b") && keeps_all("a") && keeps_all("ab"));
    assert!(!keeps_all("") && !keeps_all("b/1") && !keeps_all("b/"), "others begin so");
    archive.set_since(vec![500, 100, 300], 200);
    let covered = |id: &str, after: u64| page(&archive, id, of(after, false, 9)).2;
    assert!(covered("#t:a/1", 200) && !covered("#t:a/1", 199), "not before topics were kept");
    assert!(covered("#p:b/1", 300) && !covered("#p:b/1", 299));
    assert!(covered("a1", 100), "an id is no topic");
    let all = |literal, after| {
        heard(&archive, &[listens(literal, false)], KeptUpdatesOf { after, ..ALL }).2
    };
    assert!(
        all("a/", 200) && !all("a/", 199) && all("c", 0),
        "of the rest nothing is claimed here"
    );
    assert!(all("", 500) && !all("", 499), "any of the rules may be that of a topic that is kept");
    let own = open(&dir.path().join("other"), rules(&[("*", DAY_MS, None, None)]));
    let keeps_all = |literal| Archive::<()>::keeps_all(&own, &*listens(literal, false));
    assert!(keeps_all("") && keeps_all("/") && !keeps_all("/.well-known/mercure/subscriptions"));
}
