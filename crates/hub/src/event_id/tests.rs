//! Ids of events: as text and back, in order, and known or not.

use super::*;

fn text(number: u64, tag: u64) -> String {
    EventId::new(number, Tag::of(tag)).to_string()
}

#[test]
fn text_has_sixteen_letters_and_digits() {
    assert_eq!(text(0, 0), "0000000000000000");
    assert_eq!(text(61, 0), "0000000000z00000");
    assert_eq!(text(62, 0), "0000000001000000");
    assert_eq!(text(u64::MAX, u64::MAX), "LygHa16AHYFzzzzz");
}

#[test]
fn order_of_texts_is_that_of_numbers_whatever_the_tags() {
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..100_000 {
        // Of all sizes, and often close together.
        let one = random.u64(..) >> random.u32(..64);
        let other = match random.bool() {
            true => one ^ 1 << random.u32(..64),
            false => one.saturating_add(random.u64(..100)),
        };
        let texts = (text(one, random.u64(..)), text(other, random.u64(..)));
        if one != other {
            assert_eq!(one.cmp(&other), texts.0.cmp(&texts.1), "{one} {other} {texts:?}");
        }
    }
}

#[test]
fn id_is_read_back_as_it_was_written() {
    let mut random = fastrand::Rng::with_seed(2);
    for _ in 0..100_000 {
        let tag = Tag::of(random.u64(..));
        let id = EventId::new(random.u64(..) >> random.u32(..64), tag);
        let text = id.to_string();
        assert_eq!(EventId::parse(text.as_bytes()), Some(id), "{text}");
    }
}

#[test]
fn what_is_no_id_is_none() {
    let good = "LygHa16AHYFzzzzz";
    assert!(EventId::parse(good.as_bytes()).is_some());
    for bad in [
        "",
        "17",
        "LygHa16AHYFzzzz",
        "LygHa16AHYFzzzzz0",
        "LygHa16AHYF_zzzz",
        "+ygHa16AHYFzzzzz",
        " ygHa16AHYFzzzzz",
        // One more than the greatest number, and the greatest that eleven digits can say.
        "LygHa16AHYG00000",
        "zzzzzzzzzzz00000",
        "LygHa16AHYFzzz\u{e9}",
    ] {
        assert_eq!(EventId::parse(bad.as_bytes()), None, "{bad}");
    }
}

#[test]
fn place_says_where_a_gap_ends_that_was_told_until_it_is_behind_that() {
    let mut random = fastrand::Rng::with_seed(4);
    for _ in 0..10_000 {
        let id = EventId::new(random.u64(..) >> random.u32(..64), Tag::of(random.u64(..)));
        let gap_up_to = random.u64(..) >> random.u32(..64);
        let place = id.place(gap_up_to);
        let told = if gap_up_to > id.number() { gap_up_to } else { 0 };
        assert_eq!(EventId::parse_place(place.as_bytes()), Some((id, told)), "{place}");
        assert_eq!(place.len(), if told > 0 { 27 } else { 16 });
    }
    for bad in ["", "LygHa16AHYFzzzz", "LygHa16AHYFzzzzz0", "LygHa16AHYFzzzzzzzzzzzzzzzz"] {
        assert_eq!(EventId::parse_place(bad.as_bytes()), None, "{bad}");
    }
}

#[test]
fn tags_use_all_their_room_evenly() {
    let mut random = fastrand::Rng::with_seed(3);
    let mut thirds = [0; 3];
    for _ in 0..30_000 {
        let Tag(tag) = Tag::of(random.u64(..));
        thirds[(value(&tag).unwrap() * 3 / TAGS) as usize] += 1;
    }
    assert!(thirds.iter().all(|third| (9_500..10_500).contains(third)), "{thirds:?}");
    assert_eq!((Tag::of(0), Tag::of(u64::MAX)), (Tag(*b"00000"), Tag(*b"zzzzz")));
}

#[test]
fn tag_is_its_number_and_other_numbers_are_no_tags() {
    for tag in [Tag::of(0), Tag::of(fastrand::u64(..)), Tag::of(u64::MAX)] {
        let bits = tag.to_bits();
        assert_eq!(Tag::of_bits(bits), Some(tag));
        for other in [0, bits | 1 << 40, bits & !0xff, bits | 0x80, u64::MAX] {
            assert_eq!(Tag::of_bits(other), None, "{other:x}");
        }
    }
}
