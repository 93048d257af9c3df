//! Who is told of, when, and that a list and what is told behind it fit each other.

mod bytes;
mod channels;
mod lists;
mod told;

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::conn_ref::ConnRef;
use crate::id::IdText;

const LIMITS: ListLimits = ListLimits { members: 1_000, bytes: 1 << 20 };
const GRACE_MS: u64 = 100;

struct World {
    names: Arc<Names>,
    members: Arc<Members>,
    roster: Roster,
    now_ms: u64,
}

fn world(limits: ListLimits) -> World {
    let names = Arc::new(Names::new([7; 16]));
    let members = Arc::new(Members::new(Arc::clone(&names), limits));
    let roster = Roster::new(Arc::clone(&members), GRACE_MS);
    World { names, members, roster, now_ms: 1_000 }
}

impl World {
    /// An id that somebody keeps.
    fn id(&self, text: &str) -> Id {
        self.names.acquire(IdText::parse(text).unwrap())
    }

    fn watch(&self, room: Id) {
        self.members.watchers().login(room, ConnRef::new(0, 0, 0));
    }

    /// All that is told by now.
    fn updates(&mut self) -> Vec<MemberUpdate> {
        let mut updates = Vec::new();
        if self.roster.is_any_noted() {
            (0..Roster::STRIPES)
                .for_each(|stripe| _ = self.roster.look(stripe, self.now_ms, &mut updates));
        }
        while self.roster.end_graces(self.now_ms, 3, &mut updates) {}
        leave_out(&mut updates);
        updates
    }

    /// The same in short: `+bob 2`, and how it is told.
    fn told(&mut self) -> Vec<String> {
        let tell = |MemberUpdate { sub, change, count, manner, .. }: MemberUpdate| {
            let change = match change {
                MemberChange::Joined(None) => format!("+{sub}"),
                MemberChange::Joined(Some(info)) => format!("+{sub}{}", info.json()),
                MemberChange::Left => format!("-{sub}"),
            };
            format!("{change} {count} {manner:?}")
        };
        self.updates().into_iter().map(tell).collect()
    }

    fn listed(&self, room: Id) -> Vec<String> {
        let members = self.roster.list(room).members.unwrap();
        let mut listed: Vec<String> = members.into_iter().map(|(id, _)| id.into()).collect();
        listed.sort_unstable();
        listed
    }
}

fn info(json: &str) -> Option<Info> {
    Some(Info::new(json))
}

#[test]
fn user_joins_with_its_first_connection_and_leaves_when_its_last_has_been_gone_for_the_grace() {
    let mut world = world(LIMITS);
    let (room, bob) = (world.id("room:7"), world.id("bob"));
    world.watch(room);
    world.members.join(room, bob, None);
    world.members.join(room, bob, None);
    assert_eq!(world.members.list(room).count, 1, "it is there before others are told");
    assert_eq!(world.told(), ["+bob 1 Whole"]);
    world.members.leave(room, bob);
    assert!(world.told().is_empty(), "it has another one");
    world.members.leave(room, bob);
    assert!(world.told().is_empty());
    world.now_ms += GRACE_MS - 1;
    assert!(world.told().is_empty());
    assert_eq!((world.listed(room), world.members.list(room).count), (vec!["bob".to_owned()], 1));
    world.now_ms += 1;
    assert_eq!(world.told(), ["-bob 0 Whole"]);
    assert_eq!((world.members.len(), world.listed(room).len()), (0, 0));
}

#[test]
fn user_that_is_back_within_the_grace_is_not_told_and_its_grace_begins_anew() {
    let mut world = world(LIMITS);
    let (room, bob) = (world.id("room:7"), world.id("bob"));
    world.watch(room);
    world.members.join(room, bob, None);
    assert_eq!(world.told(), ["+bob 1 Whole"]);
    for is_seen in [true, false] {
        world.members.leave(room, bob);
        assert!(world.told().is_empty());
        world.now_ms += GRACE_MS / 2;
        world.members.join(room, bob, None);
        if is_seen {
            assert!(world.told().is_empty());
            assert_eq!(world.roster.waiting(), 0);
        }
        world.members.leave(room, bob);
        assert!(world.told().is_empty());
        world.now_ms += GRACE_MS - 1;
        assert!(world.told().is_empty(), "it was there less than a grace ago");
        world.members.join(room, bob, None);
    }
    world.members.leave(room, bob);
    assert!(world.told().is_empty());
    world.now_ms += GRACE_MS;
    assert_eq!(world.told(), ["-bob 0 Whole"]);
}

#[test]
fn user_that_comes_and_goes_unseen_leaves_nothing() {
    let mut world = world(LIMITS);
    let (room, bob) = (world.names.acquire(IdText::parse("room:7").unwrap()), world.id("bob"));
    world.members.join(room, bob, info("1").as_ref());
    world.members.leave(room, bob);
    world.names.release(room);
    world.names.release(bob);
    assert_eq!((world.members.len(), world.names.len()), (1, 2), "names are kept until it is seen");
    assert!(world.names.bytes() > MEMBER_BYTES, "it is counted with the ids");
    assert!(world.told().is_empty());
    assert_eq!(world.names.bytes(), 0);
    assert!(world.members.is_empty() && world.names.is_empty());
    assert_eq!(world.members.info_bytes(), 0);
}

#[test]
fn info_is_that_of_the_latest_token_and_another_one_is_told() {
    let mut world = world(LIMITS);
    let (room, bob) = (world.id("room:7"), world.id("bob"));
    world.watch(room);
    world.members.join(room, bob, info("{\"n\":\r\n1}").as_ref());
    assert_eq!(world.told(), ["+bob{\"n\":1} 1 Whole"], "on one line");
    world.members.join(room, bob, info("{\"n\":1}").as_ref());
    assert!(world.told().is_empty(), "it is the same");
    world.members.renew(room, bob, info("2").as_ref());
    assert_eq!(world.told(), ["+bob2 1 Whole"]);
    world.members.join(room, bob, None);
    assert_eq!(world.told(), ["+bob 1 Whole"]);
    assert_eq!(world.members.info_bytes(), 0);
}

#[test]
fn nobody_is_told_of_a_room_that_nobody_watches() {
    let mut world = world(LIMITS);
    let (room, bob) = (world.id("7"), world.id("8"));
    world.members.join(room, bob, None);
    assert!(world.told().is_empty());
    assert_eq!(world.listed(room), ["8"]);
}

#[test]
fn past_the_bound_the_count_alone_is_told_and_a_list_once_it_fits_again() {
    let mut world = world(ListLimits { members: 16, ..LIMITS });
    let room = world.id("room:7");
    world.watch(room);
    let users: Vec<Id> = (0..18).map(|n| world.id(&format!("user:{n}"))).collect();
    let mut told = Vec::new();
    for &user in &users {
        world.members.join(room, user, None);
        told.extend(world.told());
    }
    assert!(told[..16].iter().all(|told| told.ends_with("Whole")), "{told:?}");
    assert_eq!(told[16..], ["+user:16 17 Count", "+user:17 18 Count"]);
    for list in [world.roster.list(room), world.members.list(room)] {
        assert_eq!(list, MemberList { count: 18, members: None });
    }
    let mut told = Vec::new();
    for &user in &users[..5] {
        world.members.leave(room, user);
        assert!(world.told().is_empty());
        world.now_ms += GRACE_MS;
        told.extend(world.told());
    }
    // Seven eighths of the bound are 14.
    let manners: Vec<&str> = told.iter().map(|told| told.split(' ').next_back().unwrap()).collect();
    assert_eq!(manners, ["Count", "Count", "Count", "List", "Whole"], "{told:?}");
    assert_eq!(world.listed(room).len(), 13);
}

#[test]
fn list_that_would_be_too_long_is_a_count() {
    let long = format!("\"{}\"", "x".repeat(1_000));
    let mut world = world(ListLimits { bytes: 2_500, ..LIMITS });
    let room = world.id("room:7");
    world.watch(room);
    for (user, manner) in [("a", "Whole"), ("b", "Whole"), ("c", "Count")] {
        world.members.join(room, world.id(user), info(&long).as_ref());
        let told = world.told();
        assert!(told[0].ends_with(manner), "{told:?}");
    }
    assert_eq!(world.roster.list(room), MemberList { count: 3, members: None });
}

/// A user joins the room, which is told, and goes.
fn come_and_go(world: &mut World, room: Id, user: &str) -> Vec<String> {
    let user = world.id(user);
    world.members.join(room, user, None);
    world.told();
    world.members.leave(room, user);
    world.told()
}

#[test]
fn who_goes_when_all_places_are_taken_leaves_at_once() {
    let mut world = world(LIMITS);
    world.roster.graces.most = 2;
    for (n, told) in [("a", None), ("b", None), ("c", Some("-c 0 Whole"))] {
        let room = world.id(&format!("room:{n}"));
        world.watch(room);
        assert_eq!(come_and_go(&mut world, room, n).first().map(String::as_str), told);
    }
    assert_eq!((world.roster.waiting(), world.roster.early()), (2, 1));
    world.now_ms += GRACE_MS;
    assert_eq!(world.told().len(), 2);
    let room = world.id("room:c");
    assert!(come_and_go(&mut world, room, "c").is_empty(), "there is a place again");
}

/// Whoever takes all it can, by few rooms or in ever new ones, leaves places to all others.
#[test]
fn no_few_rooms_and_no_few_users_take_the_graces_of_others() {
    for greedy in 1..=5 {
        for by_rooms in [true, false] {
            let mut world = world(LIMITS);
            world.roster.graces.most = 60;
            let small = world.id("room:small");
            world.watch(small);
            assert!(come_and_go(&mut world, small, "zoe").is_empty());
            for round in 0..100 {
                for n in 0..greedy {
                    let (room, user) = if by_rooms { (n, round) } else { (round, n) };
                    let room = world.id(&format!("room:{room}"));
                    come_and_go(&mut world, room, &format!("user:{user}"));
                }
            }
            let taken = world.roster.waiting();
            assert!((30..60).contains(&taken), "{greedy} {by_rooms}: {taken}");
            // Nobody in the small room left early, and its next one has a place, too.
            assert_eq!(world.listed(small), ["zoe"]);
            assert!(come_and_go(&mut world, small, "ann").is_empty(), "{greedy} {by_rooms}");
            world.now_ms += GRACE_MS;
            world.told();
            assert_eq!(world.roster.waiting(), 0);
        }
    }
}

#[test]
fn who_comes_and_goes_again_and_again_makes_nobody_else_leave_early() {
    let mut world = world(LIMITS);
    world.roster.graces.most = 4;
    let room = world.id("room:7");
    world.watch(room);
    assert!(come_and_go(&mut world, room, "zoe").is_empty());
    for _ in 0..1_000 {
        assert!(come_and_go(&mut world, room, "bob").is_empty());
    }
    assert_eq!((world.roster.waiting(), world.roster.early()), (2, 0));
    assert!(world.roster.graces.queue_len() < 100, "what is passed over is taken out");
    world.now_ms += GRACE_MS;
    assert_eq!(world.told(), ["-zoe 1 Whole", "-bob 0 Whole"]);
}

#[test]
fn a_crowd_of_one_id_makes_nobody_of_another_leave_early() {
    let mut world = world(LIMITS);
    world.roster.graces.most = 4;
    let (small, crowd) = (world.id("room:small"), world.id("room:crowd"));
    world.watch(small);
    world.watch(crowd);
    assert!(come_and_go(&mut world, small, "zoe").is_empty());
    let crowds = (0..4).flat_map(|n| come_and_go(&mut world, crowd, &n.to_string()));
    let told: Vec<_> = crowds.collect();
    assert_eq!(told, ["-2 2 Whole", "-3 2 Whole"], "it has half of the places");
    assert_eq!((world.roster.waiting(), world.roster.early()), (3, 2));
    assert_eq!(world.listed(small), ["zoe"]);
}

#[test]
fn who_comes_and_goes_under_ever_new_ids_keeps_no_more_than_the_bound_of_ids() {
    let mut world = world(LIMITS);
    world.names.set_bytes_max(4_096);
    for n in 0..1_000 {
        let (room, user) = (format!("room:{n}"), format!("user:{n}"));
        let [room, user] =
            [room, user].map(|id| world.names.login(IdText::parse(&id).unwrap(), true).unwrap());
        world.members.join(room, user, None);
        world.told();
        world.members.leave(room, user);
        world.names.logout(room);
        world.names.logout(user);
        world.told();
        assert!(world.names.bytes() <= 4_096, "{n}: {}", world.names.bytes());
    }
    assert!(world.roster.waiting() > 1 && world.roster.early() > 900);
}

/// Users of a few rooms come and go; a list and all that is told after it are what is there.
#[test]
fn list_and_changes_fit_each_other_and_what_is_there() {
    for seed in 0..20 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut world = world(ListLimits { members: 6, ..LIMITS });
        let rooms: Vec<Id> = (0..3).map(|n| world.id(&format!("room:{n}"))).collect();
        let users: Vec<Id> = (0..14).map(|n| world.id(&format!("user:{n}"))).collect();
        rooms.iter().for_each(|&room| world.watch(room));
        let mut open: Vec<(Id, Id)> = Vec::new();
        let mut heard: BTreeMap<Id, Option<BTreeSet<String>>> =
            rooms.iter().map(|&room| (room, Some(BTreeSet::new()))).collect();
        for _ in 0..2_000 {
            if random.u8(..10) < 5 {
                let pair = (rooms[random.usize(..3)], users[random.usize(..14)]);
                world.members.join(pair.0, pair.1, None);
                open.push(pair);
            } else if !open.is_empty() {
                let (room, user) = open.swap_remove(random.usize(..open.len()));
                world.members.leave(room, user);
            }
            world.now_ms += random.u64(..30);
            if random.u8(..4) > 0 {
                continue;
            }
            for MemberUpdate { room, sub, change, count, manner } in world.updates() {
                let set = heard.get_mut(&room).unwrap();
                match (manner, change) {
                    (Manner::Count, _) => *set = None,
                    // It is read once all is told.
                    (Manner::List, _) => *set = None,
                    (Manner::Whole, MemberChange::Joined(_)) => {
                        assert!(set.as_mut().unwrap().insert(sub.into()));
                    }
                    (Manner::Whole, MemberChange::Left) => {
                        assert!(set.as_mut().unwrap().remove(&*sub));
                    }
                }
                assert!(count <= users.len());
            }
            for &room in &rooms {
                let list = world.roster.list(room);
                let set = heard.get_mut(&room).unwrap();
                match (list.members.is_some(), &set) {
                    (true, Some(set)) => assert!(world.listed(room).iter().eq(set.iter())),
                    (true, None) => *set = Some(world.listed(room).into_iter().collect()),
                    (false, set) => assert!(set.is_none()),
                }
                let there: BTreeSet<Id> =
                    open.iter().filter(|pair| pair.0 == room).map(|pair| pair.1).collect();
                assert!(list.count >= there.len(), "who is there is counted");
            }
        }
        open.into_iter().for_each(|(room, user)| world.members.leave(room, user));
        world.updates();
        world.now_ms += GRACE_MS;
        world.updates();
        assert!(world.members.is_empty(), "seed {seed}");
        assert_eq!(world.roster.waiting(), 0);
        rooms.iter().chain(&users).for_each(|&id| world.names.release(id));
        assert!(world.names.is_empty(), "seed {seed}: a name is kept for nobody");
    }
}

#[test]
fn roster_that_shares_tells_of_rooms_that_it_is_made_to_listen_to() {
    let mut world = world(LIMITS);
    let (room, other) = (world.id("room:7"), world.id("room:8"));
    let text = IdText::parse("room:7").unwrap();
    world.watch(room);
    world.watch(other);
    world.roster.share();
    assert_eq!(come_and_go(&mut world, room, "bob"), Vec::<String>::new(), "nobody listens");
    world.roster.listen(text);
    world.roster.listen(text);
    let eve = world.id("eve");
    world.members.join(room, eve, None);
    world.members.join(other, eve, None);
    assert_eq!(world.told(), ["+eve 2 Whole"], "bob waits for its grace");
    let all: Vec<Box<str>> = world.roster.all(room).into_iter().map(|(sub, _)| sub).collect();
    assert_eq!(all.len(), 2, "{all:?}");
    world.roster.ignore(text);
    world.roster.ignore(text);
    world.members.leave(room, eve);
    assert_eq!(world.told(), Vec::<String>::new());
}
