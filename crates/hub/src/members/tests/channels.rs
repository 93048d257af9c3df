//! Who is in a presence channel.

use super::*;

pub(super) fn key(world: &World, text: &str) -> Id {
    world.names.acquire(IdText::of_key(text).unwrap())
}

#[test]
fn channel_has_as_many_members_as_it_may_and_tells_of_each_once() {
    let mut world = world(ListLimits { members: 1, bytes: 1 });
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

/// Infos of all lengths, and none: what is freed of them is closed up, and moves others.
#[test]
fn each_member_keeps_its_info_whatever_others_of_its_stripe_come_and_go() {
    let mut random = fastrand::Rng::with_seed(testing::seed());
    for (channels, users) in [(4, 60), (1_000, 3)] {
        let mut world = world(LIMITS);
        let names = |prefix: &str, count: usize| -> Vec<Id> {
            (0..count).map(|n| key(&world, &format!("{prefix}{n}"))).collect()
        };
        let (channels, users) = (names("#c1:presence-", channels), names("#m:user-", users));
        let mut known: BTreeMap<(Id, Id), Option<Info>> = BTreeMap::new();
        for step in 0..6_000 {
            let pair =
                (channels[random.usize(..channels.len())], users[random.usize(..users.len())]);
            let filler = ["x", "ä", "日"][random.usize(..3)].repeat(random.usize(..80));
            let told = info(&format!("\"{step}{filler}\"")).filter(|_| random.usize(..5) > 0);
            let (room, sub) = pair;
            match known.get_mut(&pair) {
                None => {
                    assert!(world.members.join_within(room, sub, told.as_ref(), usize::MAX));
                    known.insert(pair, told);
                }
                Some(known) if random.bool() => {
                    world.members.renew(room, sub, told.as_ref());
                    *known = told;
                }
                Some(_) => {
                    world.members.leave_at_once(room, sub);
                    world.told();
                    known.remove(&pair);
                }
            }
            if step % 200 == 0 {
                world.told();
                for (&(room, sub), info) in &known {
                    assert_eq!(&world.members.info(room, sub), info, "step {step}");
                }
                let listed = |&room: &Id| world.members.list(room).members.unwrap();
                let listed: Vec<_> =
                    channels.iter().flat_map(listed).map(|(_, info)| info).collect();
                assert_eq!(listed.len(), known.len());
                let bytes = |infos: &mut dyn Iterator<Item = &Option<Info>>| -> usize {
                    infos.flatten().map(|info| info.json().len()).sum()
                };
                assert_eq!(bytes(&mut listed.iter()), bytes(&mut known.values()));
            }
        }
        known.keys().for_each(|&(room, sub)| world.members.leave_at_once(room, sub));
        world.told();
        assert!(world.members.is_empty());
        assert_eq!(world.members.info_bytes(), 0);
        let allocations = |stripe| lock(stripe).rooms.allocations().sum::<usize>();
        assert_eq!(world.members.stripes.iter().map(allocations).sum::<usize>(), 0);
    }
}
