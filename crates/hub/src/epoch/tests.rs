//! Numbers grow, and places are known for what they are.

use super::*;

const NOW_MS: u64 = 1_760_000_000_000;

fn ids() -> EventIds {
    EventIds::new(Epoch::begin(Tag::of(1 << 60), 0, NOW_MS))
}

fn place(ids: &EventIds, id: EventId) -> Place {
    ids.known(id.to_string().as_bytes())
}

fn known(ids: &EventIds, id: EventId) -> Option<u64> {
    match place(ids, id) {
        Place::Known(number) => Some(number),
        Place::Unknown | Place::Future(_) | Place::Later(_) => None,
    }
}

#[test]
fn numbers_grow_when_the_clock_does_not() {
    let ids = ids();
    let next = |now_ms| ids.next(now_ms).number();
    let (first, second) = (next(NOW_MS + 1), next(NOW_MS + 1));
    let (back, later) = (next(10), next(NOW_MS + 1_000));
    assert!(first < second && second < back && back < later);
    assert_eq!(first, (NOW_MS + 1) << CLOCK_SHIFT);
    assert_eq!(ids.last(), later);
}

#[test]
fn places_of_this_epoch_are_known_and_no_others() {
    let ids = ids();
    let (base, first) = (ids.last(), ids.next(NOW_MS + 5));
    let last = ids.next(NOW_MS + 7);
    for number in [base, first.number(), first.number() + 1, last.number()] {
        assert_eq!(known(&ids, ids.id(number)), Some(number));
    }
    for number in [0, base - 1, last.number() + 1, u64::MAX] {
        assert_eq!(known(&ids, ids.id(number)), None, "{number}");
    }
    for place in ["", "17", "19aa57c8f4a00001", "0000000000000000", "\u{e9}"] {
        assert_eq!(ids.known(place.as_bytes()), Place::Unknown, "{place}");
    }
}

#[test]
fn place_of_another_server_is_unknown_although_its_number_is_one_of_ours() {
    let ours = ids();
    let other = EventIds::new(Epoch::begin(Tag::of(1 << 61), 0, NOW_MS));
    let place = other.next(NOW_MS + 1);
    ours.next(NOW_MS + 2);
    assert_eq!(known(&other, place), Some(place.number()));
    assert_eq!(known(&ours, ours.id(place.number())), Some(place.number()));
    assert_eq!(known(&ours, place), None);
    // Of one that began above it perhaps, and of which it does not know yet.
    let later = other.next(NOW_MS + 3);
    assert_eq!(self::place(&ours, later), Place::Later(later.number()));
}

#[test]
fn next_epoch_begins_above_all_numbers_whatever_the_clock_says() {
    let first = Epoch::begin(Tag::of(0), 0, NOW_MS);
    let ids = EventIds::new(first);
    let last = (0..1_000).map(|ms| ids.next(NOW_MS + ms).number()).max();
    for now_ms in [0, NOW_MS - 86_400_000, NOW_MS, NOW_MS + 1, u64::MAX] {
        let second = Epoch::begin(Tag::of(u64::MAX), first.until, now_ms);
        assert!(Some(second.base) > last, "{now_ms}");
        let (earlier, later) = (EventIds::new(first), EventIds::new(second));
        assert_eq!(known(&later, earlier.id(first.base)), None);
        // Even if both had drawn the same tag.
        assert_eq!(known(&later, later.id(first.base)), None);
        assert!(EventIds::new(second).next(now_ms).number() > second.base);
    }
}

#[test]
fn clock_that_runs_ahead_is_followed_as_far_as_numbers_are_reserved() {
    let ids = ids();
    let until = ids.until.load(Ordering::Relaxed);
    assert_eq!(ids.to_reserve(NOW_MS), until);
    // Half a year of silence, or a clock that was set.
    let later_ms = NOW_MS + 180 * 86_400_000;
    assert_eq!(ids.to_reserve(later_ms), until, "who sends nothing writes nothing");
    let ahead: Vec<u64> = (0..1_000).map(|_| ids.next(later_ms).number()).collect();
    assert!(ahead.is_sorted_by(|one, next| next - one == 1));
    assert_eq!(ahead[0], until - SPARE);
    let more = ids.to_reserve(later_ms);
    assert_eq!(more, number_at(later_ms) + RESERVED);
    ids.reserve(more);
    assert_eq!(ids.to_reserve(later_ms), more);
    assert_eq!(ids.next(later_ms).number(), number_at(later_ms));
}

#[test]
fn epoch_that_is_handed_over_goes_on_with_what_was_reserved_meanwhile() {
    let ids = ids();
    let begun = ids.epoch();
    ids.reserve(begun.until + RESERVED);
    let epoch = ids.epoch();
    assert_eq!(epoch, Epoch { until: begun.until + RESERVED, ..begun });
    let successor = EventIds::new(epoch);
    successor.skip_to(ids.next(NOW_MS + 9).number());
    assert_eq!(known(&successor, ids.id(ids.last())), Some(ids.last()));
    assert!(successor.next(NOW_MS).number() > ids.last());
}

#[test]
fn clock_that_is_wrong_by_centuries_leaves_numbers_for_all_times() {
    let ids = EventIds::new(Epoch::begin(Tag::of(0), 0, u64::MAX));
    let base = ids.last();
    assert!(base <= 1 << 63 && ids.next(u64::MAX).number() > base);
    let last = EventIds::new(Epoch::begin(Tag::of(0), u64::MAX - 9, 0));
    assert_eq!(last.to_reserve(0), u64::MAX, "there are no more");
}

#[test]
fn given_numbers_are_taken_when_they_grow_and_are_of_this_epoch() {
    let (first, other) = (Epoch::begin(Tag::of(0), 0, NOW_MS), Tag::of(1 << 63));
    let ids = EventIds::of_cluster(first);
    let id = |above| EventId::new(first.base + above, first.tag);
    assert!(!ids.take(id(0)) && ids.take(id(10)) && !ids.take(id(10)) && !ids.take(id(9)));
    assert!(!ids.take(EventId::new(first.base + 20, other)));
    assert_eq!((ids.last(), ids.posted()), (first.base + 10, first.base));
    assert_eq!(place(&ids, id(10)), Place::Known(first.base + 10));
    assert_eq!(place(&ids, id(11)), Place::Future(first.base + 11));
    ids.skip_to(first.base + 15);
    assert_eq!((ids.last(), ids.posted()), (first.base + 15, first.base));
    assert!(!ids.take(id(15)) && ids.take(id(16)));
}

#[test]
fn numbers_go_on_in_another_process_as_if_nothing_had_been() {
    let epoch = Epoch::begin(Tag::of(1 << 60), 0, NOW_MS);
    let (ids, successor) = (EventIds::new(epoch), EventIds::new(epoch));
    let last = ids.next(NOW_MS + 5_000);
    assert_eq!(known(&successor, last), None);
    successor.take_over(last.number());
    assert_eq!((successor.last(), successor.posted()), (last.number(), last.number()));
    assert_eq!(known(&successor, last), Some(last.number()));
    // Its clock is a bit behind.
    assert_eq!(successor.next(NOW_MS + 4_999), ids.id(last.number() + 1));
}

#[test]
fn places_of_an_epoch_that_has_ended_are_unknown_and_keep_their_tags() {
    let mut epochs = vec![Epoch::begin(Tag::of(0), 0, NOW_MS)];
    let ids = EventIds::of_cluster(epochs[0]);
    for nth in 1..20 {
        let before = *epochs.last().unwrap();
        assert!(ids.take(EventId::new(before.base + 5, before.tag)));
        let low = Epoch { base: before.base + 4, ..before };
        assert!(!ids.begin(low), "ids must grow");
        let tag = Tag::of(nth << 58);
        let epoch = Epoch { tag, base: before.base + 9, until: before.until + 9 };
        assert!(ids.begin(epoch));
        assert_eq!(ids.last(), epoch.base);
        let mine = ids.id(before.base + 5);
        assert_eq!((mine.tag(), place(&ids, mine)), (before.tag, Place::Unknown));
        assert!(!ids.take(EventId::new(before.base + 99, before.tag)));
        assert_eq!(known(&ids, ids.id(epoch.base)), Some(epoch.base));
        epochs.push(epoch);
    }
}

#[test]
fn place_between_numbers_that_were_lost_is_unknown() {
    let ids = EventIds::new(Epoch { tag: Tag::of(3 << 40), base: 100, until: 1 << 50 });
    ids.take_over(1000);
    ids.set_lost(vec![(200, 300), (900, 1000)]);
    let known = |number: u64| ids.known(ids.id(number).to_string().as_bytes());
    for (number, place) in [
        (99, Place::Unknown),
        (100, Place::Known(100)),
        (200, Place::Known(200)),
        (201, Place::Unknown),
        (299, Place::Unknown),
        (300, Place::Known(300)),
        (950, Place::Unknown),
        (1000, Place::Known(1000)),
        (1001, Place::Future(1001)),
    ] {
        assert_eq!(known(number), place, "{number}");
    }
}
