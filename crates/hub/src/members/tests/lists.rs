//! Lists are gathered in slices, between which members come and go.

use super::channels::key;
use super::*;
use crate::members::lists::{ListStep, Lister, Listing};

/// Members of a room that are looked at in one go, at most: a slice, and a bucket at its longest.
const SEEN_MAX: usize = 64 + 64;

/// Lists the room slice by slice, while `between` changes it; how many slices that were.
fn list(
    world: &mut World,
    room: Id,
    is_there: fn(&Member) -> bool,
    mut between: impl FnMut(&mut World),
) -> (Vec<ListedMember>, usize) {
    let members = Arc::clone(&world.members);
    let mut lister = Lister::new(&members, room, Listing::Infos);
    for slices in 1.. {
        let step = lister.step(|_| None, is_there);
        assert!(lister.seen() <= SEEN_MAX, "{} were seen under one lock", lister.seen());
        if step == ListStep::Whole {
            return (lister.into_listed(), slices);
        }
        between(world);
    }
    unreachable!("a walk ends")
}

fn ids(listed: &[ListedMember]) -> BTreeSet<&str> {
    let ids: BTreeSet<&str> = listed.iter().map(|(id, _)| &**id).collect();
    assert_eq!(ids.len(), listed.len(), "one is listed twice");
    ids
}

#[test]
fn list_of_a_crowd_holds_its_lock_for_few_members_at_a_time() {
    let mut world = world(LIMITS);
    let room = key(&world, "#c1:presence-a");
    let long = |n: usize| info(&format!("\"{n:01000}\"")).unwrap();
    for n in 0..10_000 {
        let sub = key(&world, &format!("#m:{n}"));
        assert!(world.members.join_within(room, sub, Some(&long(n)), 10_000));
    }
    world.told();
    let (listed, slices) = list(&mut world, room, Member::is_told, |_| ());
    assert!(slices >= 10_000 / SEEN_MAX, "{slices}");
    assert_eq!(ids(&listed).len(), 10_000);
    for (id, info) in listed {
        let n = id.strip_prefix("#m:").unwrap().parse().unwrap();
        assert_eq!(info, Some(long(n)));
    }
    assert_eq!(world.roster.list(room).count, 10_000);
    assert_eq!(world.members.ids_in(room).len(), 10_000);
}

/// The roster makes its list of what it has told, and tells nothing meanwhile. So members come, and
/// go, and show other infos, and the list is that of before.
#[test]
fn roster_lists_each_that_was_told_once_whoever_comes_meanwhile() {
    let mut random = fastrand::Rng::with_seed(testing::seed());
    for (round, &(first, most)) in [(5, 300), (40, 600), (700, 2_500)].iter().enumerate() {
        let mut world = world(LIMITS);
        let room = key(&world, &format!("#c1:presence-{round}"));
        world.watch(room);
        let mut come = |world: &mut World| {
            for _ in 0..random.usize(..most / 4) {
                let sub = key(world, &format!("#m:{}", random.usize(..most)));
                match random.usize(..3) {
                    0 if world.members.has(room, sub) => world.members.leave(room, sub),
                    _ => world.members.join(room, sub, info(&random.u64(..).to_string()).as_ref()),
                }
            }
        };
        while world.members.list(room).count < first {
            come(&mut world);
        }
        let mut told = BTreeSet::new();
        for _ in 0..20 {
            for MemberUpdate { sub, change, .. } in world.updates() {
                match change {
                    MemberChange::Joined(_) => told.insert(sub),
                    MemberChange::Left => told.remove(&sub),
                };
            }
            let (listed, _) = list(&mut world, room, Member::is_told, &mut come);
            assert!(ids(&listed).into_iter().eq(told.iter().map(|sub| &**sub)));
            world.now_ms += round as u64 * GRACE_MS / 2 + 1;
        }
    }
}

/// A list for anybody else, beside a roster that takes members out, down to few and none.
#[test]
fn list_has_each_that_is_there_all_the_while_and_none_twice() {
    let mut random = fastrand::Rng::with_seed(testing::seed());
    for size in [10, 100, 400, 3_000] {
        for leave in [0, size / 10, size] {
            let mut world = world(LIMITS);
            let room = key(&world, "#c1:presence-a");
            let mut there: Vec<Id> = (0..size).map(|n| key(&world, &format!("#m:{n}"))).collect();
            there.iter().for_each(|&sub| world.members.join(room, sub, info("1").as_ref()));
            world.told();
            let (mut all_the_while, mut ever): (BTreeSet<Id>, BTreeSet<Id>) =
                (there.iter().copied().collect(), there.iter().copied().collect());
            let mut new = size;
            let (listed, _) = list(
                &mut world,
                room,
                |member| member.conns > 0,
                |world| {
                    for _ in 0..leave.min(there.len()) {
                        let sub = there.swap_remove(random.usize(..there.len()));
                        all_the_while.remove(&sub);
                        world.members.leave_at_once(room, sub);
                    }
                    for _ in 0..random.usize(..40) {
                        let sub = key(world, &format!("#m:{new}"));
                        world.members.join(room, sub, None);
                        ever.insert(sub);
                        new += 1;
                    }
                    world.told();
                },
            );
            let text = |sub: &Id| world.names.text(*sub).unwrap();
            let listed = ids(&listed);
            assert!(all_the_while.iter().all(|sub| listed.contains(&*text(sub))));
            let ever: BTreeSet<String> = ever.iter().map(text).collect();
            assert!(listed.iter().all(|id| ever.contains(*id)));
        }
    }
}
