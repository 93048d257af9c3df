//! What is in the table, beside maps of the standard library, as rooms grow and shrink.

use std::collections::BTreeMap;

use super::*;
use crate::members::info::{Info, TextPlace};
use crate::texts::Texts;

/// Rooms in which members were told of, and whether they count alone.
#[derive(Default)]
struct Model(BTreeMap<u64, (bool, BTreeMap<u64, u16>)>);

fn check<I: KeptInfo + Default>(table: &mut RoomTable<I>, model: &Model, room: u64, keys: &Keys) {
    let id = Id::integer(room).unwrap();
    let found = table.find(keys.hash(id.to_bits()), id);
    let Some((counts_alone, members)) = model.0.get(&room) else {
        return assert!(found.is_none(), "nobody is in {room}");
    };
    let mut found = found.unwrap();
    assert_eq!((found.len(), found.counts_alone()), (members.len(), *counts_alone));
    let told = members.values().filter(|&&bytes| bytes > 0);
    assert_eq!(found.told(), (told.clone().count(), told.map(|&bytes| usize::from(bytes)).sum()));
    let mut walked = BTreeMap::new();
    let mut from = Some(0);
    while let Some(place) = from {
        from = found.walk(place, 16, keys, &mut |member, _| {
            let sub = member.sub().as_integer().unwrap();
            assert!(walked.insert(sub, member.told_bytes).is_none(), "{sub} is there twice");
        });
    }
    assert_eq!(&walked, members);
    for sub in 0..50 {
        let bytes = found.member(Id::integer(sub).unwrap(), keys).map(|member| member.told_bytes);
        assert_eq!(bytes, members.get(&sub).copied());
    }
}

/// Many rooms share a bucket. Some go up to fifty members, and down to none, again and again.
fn run<I: KeptInfo + Default>() {
    let (mut random, keys) = (fastrand::Rng::with_seed(testing::seed()), Keys::random());
    let (mut table, mut model) = (RoomTable::<I>::default(), Model::default());
    for step in 0..30_000 {
        let subs = [2, 3, 4, 5, 6, 50][random.usize(..6)];
        let (room, sub) = (random.u64(..40), random.u64(..subs));
        let [id, sub_id] = [room, sub].map(|number| Id::integer(number).unwrap());
        let hash = keys.hash(id.to_bits());
        let grows = (step / 3_000 + room) % 2 == 0;
        let known = model.0.get_mut(&room);
        match known {
            Some((_, members)) if members.contains_key(&sub) => match random.usize(..4) {
                0 => {
                    let bytes = random.u16(..300);
                    members.insert(sub, bytes);
                    table.find(hash, id).unwrap().set_told(sub_id, bytes, &keys);
                }
                _ if grows => {}
                _ => {
                    table.find(hash, id).unwrap().set_told(sub_id, 0, &keys);
                    members.remove(&sub);
                    let is_last = members.is_empty();
                    assert_eq!(table.remove(hash, id, sub_id, &keys), is_last, "step {step}");
                    if is_last {
                        model.0.remove(&room);
                    }
                }
            },
            Some((counts_alone, _)) if random.usize(..10) == 0 => {
                *counts_alone = !*counts_alone;
                table.find(hash, id).unwrap().set_counts_alone(*counts_alone);
            }
            _ if !grows && random.usize(..3) > 0 => {
                assert!(!table.remove(hash, id, sub_id, &keys), "it is not there");
            }
            _ => {
                table.insert(hash, id, Member::new(sub_id), &keys);
                model.0.entry(room).or_default().1.insert(sub, 0);
            }
        }
        check(&mut table, &model, room, &keys);
    }
    (0..40).for_each(|room| check(&mut table, &model, room, &keys));
    assert!(model.0.values().any(|(_, members)| members.len() > 33), "large rooms are tried, too");
}

#[test]
fn room_has_who_came_and_did_not_go_at_all_sizes() {
    run::<Option<Info>>();
    run::<TextPlace>();
}

/// Its info goes along wherever a member stands.
#[test]
fn member_keeps_its_info_while_its_room_grows_and_shrinks() {
    let (keys, mut texts) = (Keys::random(), Texts::default());
    let mut table = RoomTable::<Option<Info>>::default();
    let room = Id::integer(7).unwrap();
    let hash = keys.hash(room.to_bits());
    let check = |table: &mut RoomTable<Option<Info>>, texts: &Texts, subs: std::ops::Range<u64>| {
        for sub in subs {
            let mut found = table.find(hash, room).unwrap();
            let (_, info) = found.find(Id::integer(sub).unwrap(), &keys).unwrap();
            assert_eq!(info.json(texts), Some(&*sub.to_string()));
        }
    };
    for sub in 0..40 {
        let id = Id::integer(sub).unwrap();
        table.insert(hash, room, Member::new(id), &keys);
        let mut found = table.find(hash, room).unwrap();
        let (_, info) = found.find(id, &keys).unwrap();
        info.put(Some(&Info::new(&sub.to_string())), &mut texts);
        check(&mut table, &texts, 0..sub + 1);
    }
    for sub in 0..39 {
        assert!(!table.remove(hash, room, Id::integer(sub).unwrap(), &keys));
        check(&mut table, &texts, sub + 1..40);
    }
    assert!(table.remove(hash, room, Id::integer(39).unwrap(), &keys));
    assert_eq!(table.allocations().count(), 0, "all comes back");
}
