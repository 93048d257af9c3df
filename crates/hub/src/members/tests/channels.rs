//! Who is in a presence channel.

use super::*;

#[test]
fn channel_has_as_many_members_as_it_may_and_tells_of_each_once() {
    let mut world = world(ListLimits { members: 1, bytes: 1 });
    let key = |world: &World, text: &str| world.names.acquire(IdText::of_key(text).unwrap());
    let room = key(&world, "#c1:presence-a");
    world.watch(room);
    let [bob, rj, zoe] = ["#m:bob", "#m:rj", "#m:zoe"].map(|sub| key(&world, sub));
    let join = |world: &World, sub, info: &str| {
        world.members.join_within(room, sub, Some(&Info::new(info)), 2)
    };
    assert!(join(&world, bob, "1") && join(&world, rj, "2") && !join(&world, zoe, "3"));
    assert!(join(&world, bob, "another"), "a second connection of one who is there");
    let told: BTreeSet<String> = world.told().into_iter().collect();
    let both = ["+#m:bob1 1 Whole", "+#m:bob1 2 Whole", "+#m:rj2 1 Whole", "+#m:rj2 2 Whole"];
    assert!(told.len() == 2 && told.iter().all(|told| both.contains(&told.as_str())), "{told:?}");
    assert_eq!(world.members.list(room).members.map(|members| members.len()), Some(2));
    world.members.leave(room, rj);
    assert_eq!(world.told(), Vec::<String>::new(), "its grace");
    assert!(!join(&world, zoe, "3"), "others see it still");
    world.now_ms += GRACE_MS;
    assert_eq!(world.told(), ["-#m:rj 1 Whole"]);
    assert!(join(&world, zoe, "3"));
}
