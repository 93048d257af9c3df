//! Polls of a room: what each is told makes of the list that it has the list of now.

use super::*;

/// One who polls a room, and what it has made of what it was told.
#[derive(Default)]
struct Poller {
    place: Option<RoomPlace>,
    list: BTreeMap<String, String>,
    lists: usize,
}

impl Poller {
    fn ask(&mut self, told: &mut ToldRooms, world: &mut World, room: Id) {
        let World { roster, now_ms, names, .. } = world;
        let list = roster.list(room);
        let list = || Some(list);
        // Nobody is left to tell the name of one that is gone.
        let name = names.text(room).unwrap_or_else(|| "room:7".into());
        match told.ask((room, &*name), self.place, *now_ms, roster, list).unwrap() {
            ToldSince::Changes(text, place) => {
                text.split(",\n").filter(|change| !change.is_empty()).for_each(|change| {
                    self.apply(change);
                });
                self.place = Some(place);
            }
            ToldSince::List(place) => {
                self.list = listed(&world.roster, room);
                self.place = Some(place);
                self.lists += 1;
            }
        }
    }

    fn apply(&mut self, change: &str) {
        let (id, info) = change[1..].split_once(' ').unwrap();
        if change.starts_with('+') {
            self.list.insert(id.to_owned(), info.to_owned());
        } else {
            assert!(self.list.remove(id).is_some(), "{change}: it was not there");
        }
    }
}

fn listed(roster: &Roster, room: Id) -> BTreeMap<String, String> {
    let text = |info: Option<Info>| info.map(|info| info.json().to_owned());
    let members = roster.list(room).members.unwrap().into_iter();
    members.map(|(id, info)| (id.into(), text(info).unwrap_or_default())).collect()
}

/// Tells all that has happened.
fn tell(told: &mut ToldRooms, world: &mut World) {
    for update in world.updates() {
        let text = match &update.change {
            MemberChange::Joined(info) => {
                let info = info.as_ref().map_or("", Info::json);
                format!("+{} {info}", update.sub)
            }
            MemberChange::Left => format!("-{} ", update.sub),
        };
        told.changed(&update, &text.into());
    }
}

#[test]
fn poll_is_told_what_makes_of_its_list_the_list_of_now_and_seldom_a_whole_one() {
    let mut random = fastrand::Rng::with_seed(7);
    let (mut lists, mut asks) = (0, 0);
    for _ in 0..50 {
        let mut world = world(LIMITS);
        let room = world.id("room:7");
        let users: Vec<Id> = (0..6).map(|n| world.id(&format!("user:{n}"))).collect();
        let mut told = ToldRooms::new(Arc::clone(&world.names));
        let mut pollers: Vec<Poller> = (0..4).map(|_| Poller::default()).collect();
        let mut open: Vec<Id> = Vec::new();
        for _ in 0..300 {
            match random.u32(0..6) {
                0 | 1 => {
                    let user = users[random.usize(0..users.len())];
                    let info = info(&random.u32(0..3).to_string());
                    world.members.join(room, user, info.as_ref());
                    open.push(user);
                }
                2 if !open.is_empty() => {
                    let user = open.swap_remove(random.usize(0..open.len()));
                    world.members.leave(room, user);
                }
                3 => world.now_ms += random.u64(0..GRACE_MS),
                _ => {
                    // An info that is not told is in no list that is made meanwhile.
                    tell(&mut told, &mut world);
                    let poller = &mut pollers[random.usize(0..4)];
                    poller.ask(&mut told, &mut world, room);
                    let listed = listed(&world.roster, room);
                    assert!(poller.list.keys().eq(listed.keys()));
                    // What has another info and has gone is told when it comes back.
                    for (user, id) in (0..).map(|n| format!("user:{n}")).zip(&users) {
                        let is_there = world.members.has(room, *id);
                        assert!(!is_there || poller.list.get(&user) == listed.get(&user));
                    }
                    asks += 1;
                }
            }
        }
        lists += pollers.iter().map(|poller| poller.lists).sum::<usize>();
    }
    assert!(asks > 3_000 && lists == 4 * 50, "{lists} lists of {asks}");
}

#[test]
fn place_is_that_of_the_same_list_wherever_it_was_told() {
    let place = |of: &str, members: &[(&str, Option<&str>)]| {
        let member = |&(id, json): &(&str, Option<&str>)| (id.into(), json.and_then(info));
        let members: Vec<_> = members.iter().map(member).collect();
        RoomPlace::of(of, &MemberList { count: members.len(), members: Some(members) })
    };
    let both = place("room:7", &[("bob", Some("1")), ("zoe", None)]);
    assert_eq!(both, place("room:7", &[("zoe", None), ("bob", Some("1"))]));
    assert_eq!(RoomPlace::parse(&both.to_string()), Some(both));
    // Nodes of other versions, and clients, have it from before.
    assert_eq!(both.to_string(), "5c778cabbb3b04cb");
    for other in [
        place("room:8", &[("bob", Some("1")), ("zoe", None)]),
        place("room:7", &[("bob", Some("2")), ("zoe", None)]),
        place("room:7", &[("bob", None), ("zoe", Some("1"))]),
        place("room:7", &[("zoe", None)]),
        RoomPlace::of("room:7", &MemberList { count: 2, members: None }),
        RoomPlace::of_nobody("room:7"),
    ] {
        assert_ne!(both, other);
    }
    for bad in ["", "7", "+00000000000000f", "00000000000000000"] {
        assert_eq!(RoomPlace::parse(bad), None);
    }
}

#[test]
fn room_that_nobody_polls_any_more_keeps_neither_its_name_nor_its_changes() {
    let mut world = world(LIMITS);
    let room = world.id("room:7");
    let bob = world.id("bob");
    let mut told = ToldRooms::new(Arc::clone(&world.names));
    let mut poller = Poller::default();
    poller.ask(&mut told, &mut world, room);
    world.members.join(room, bob, None);
    tell(&mut told, &mut world);
    assert!(told.place(room).is_some_and(|place| Some(place) != poller.place) && told.bytes() > 0);
    world.now_ms += 120_000;
    let World { roster, now_ms, .. } = &mut world;
    told.forget(*now_ms, roster, |_| true);
    assert!(told.is_empty() && told.bytes() == 0 && told.place(room).is_none());
    // Nobody watches, so nothing is told of it.
    world.members.leave(room, bob);
    world.now_ms += GRACE_MS;
    assert!(world.updates().is_empty());
    world.now_ms += GRACE_MS;
    assert!(world.updates().is_empty());
}

/// A client can name ever new rooms in which nobody is.
#[test]
fn room_in_which_nobody_is_is_kept_for_who_waits_and_not_between_two_polls() {
    let mut world = world(LIMITS);
    let [room, other] = ["room:7", "room:8"].map(|room| world.id(room));
    let bob = world.id("bob");
    let mut told = ToldRooms::new(Arc::clone(&world.names));
    let (mut waits, mut between) = (Poller::default(), Poller::default());
    world.watch(room);
    waits.ask(&mut told, &mut world, room);
    between.ask(&mut told, &mut world, other);
    let forget = |told: &mut ToldRooms, world: &mut World| {
        told.forget(world.now_ms, &mut world.roster, |_| true);
        (told.place(room).is_some(), told.place(other).is_some())
    };
    assert_eq!(forget(&mut told, &mut world), (true, false));
    // Who waits hears of the first who comes, and where it stands then.
    world.members.join(room, bob, None);
    world.members.join(other, bob, None);
    tell(&mut told, &mut world);
    waits.ask(&mut told, &mut world, room);
    between.ask(&mut told, &mut world, other);
    assert_eq!((waits.lists, between.lists), (1, 2), "one is told what has changed");
    assert_eq!(waits.list, between.list);
    world.members.watchers().logout(room, ConnRef::new(0, 0, 0));
    assert_eq!(forget(&mut told, &mut world), (true, true), "somebody is there");
}

/// Connections end on other threads than the one that answers what they have asked.
#[test]
fn room_whose_last_user_has_gone_before_it_is_answered_is_not_kept() {
    let mut world = world(LIMITS);
    let names = Arc::clone(&world.names);
    let mut told = ToldRooms::new(Arc::clone(&names));
    let room = names.acquire(IdText::parse("room:7").unwrap());
    names.release(room);
    Poller::default().ask(&mut told, &mut world, room);
    assert!(told.is_empty() && names.is_empty());
    // Another has come, for whom it has another id.
    let again = world.id("room:7");
    Poller::default().ask(&mut told, &mut world, room);
    assert!(told.is_empty() && again != room && names.len() == 1);
    names.release(again);
    assert!(names.is_empty());
}

/// Two who poll would else call each other back at full speed.
#[test]
fn who_polls_has_two_seconds_to_come_back_even_without_a_grace() {
    let mut world = world(LIMITS);
    world.roster = Roster::new(Arc::clone(&world.members), 0);
    let (room, bob, zoe) = (world.id("room:7"), world.id("bob"), world.id("zoe"));
    world.watch(room);
    world.members.join(room, bob, None);
    world.members.join(room, zoe, None);
    assert_eq!(world.told(), ["+bob 1 Whole", "+zoe 2 Whole"]);
    world.members.leave_between_polls(room, bob);
    world.members.leave(room, zoe);
    assert_eq!(world.told(), ["-zoe 1 Whole"]);
    world.now_ms += 1_999;
    world.members.join(room, bob, None);
    assert_eq!(world.told(), [""; 0]);
    world.members.leave_between_polls(room, bob);
    world.now_ms += 1_999;
    assert_eq!(world.told(), [""; 0]);
    world.now_ms += 1_999;
    assert_eq!(world.told(), [""; 0]);
    world.now_ms += 1;
    assert_eq!(world.told(), ["-bob 0 Whole"]);
    // A stream of its that ends later counts by itself.
    world.members.join(room, bob, None);
    world.members.join(room, bob, None);
    assert_eq!(world.told(), ["+bob 1 Whole"]);
    world.members.leave_between_polls(room, bob);
    world.members.leave(room, bob);
    assert_eq!(world.told(), ["-bob 0 Whole"]);
}

/// They would call each other back at full speed just when the server has too much already.
#[test]
fn who_polls_has_its_two_seconds_also_past_the_maximum_of_ids_and_few_have() {
    let mut world = world(LIMITS);
    let (room, bob, zoe) = (world.id("room:7"), world.id("bob"), world.id("zoe"));
    world.watch(room);
    world.members.join(room, bob, None);
    world.members.join(room, zoe, None);
    assert_eq!(world.told(), ["+bob 1 Whole", "+zoe 2 Whole"]);
    world.names.set_bytes_max(0);
    world.members.leave_between_polls(room, bob);
    world.members.leave(room, zoe);
    assert_eq!(world.told(), ["-zoe 1 Whole"], "a stream that ends leaves at once");
    world.now_ms += 1_999;
    world.members.join(room, bob, None);
    assert_eq!(world.told(), [""; 0]);
    world.members.leave_between_polls(room, bob);
    world.now_ms += 1;
    assert_eq!(world.told(), [""; 0]);
    world.now_ms += 2_000;
    assert_eq!(world.told(), ["-bob 0 Whole"]);
    // Of ever new ones some keep their names.
    let id = |kind: &str, n: usize| world.id(&format!("{kind}:{n}"));
    let all: Vec<_> = (0..40_000).map(|n| (id("room", n), id("user", n))).collect();
    all.iter().for_each(|&(room, user)| world.members.join(room, user, None));
    world.updates();
    all.iter().for_each(|&(room, user)| world.members.leave_between_polls(room, user));
    world.updates();
    assert_eq!((world.roster.waiting(), world.members.len()), (1 << 14, 1 << 14));
}

/// Two tabs that poll, with a token from before a change of the name and one from after it.
#[test]
fn polls_with_tokens_that_differ_do_not_renew_each_other() {
    let mut world = world(LIMITS);
    let (room, bob) = (world.id("room:7"), world.id("bob"));
    world.watch(room);
    world.members.join_by_poll(room, bob, info("1").as_ref());
    assert_eq!(world.told(), ["+bob1 1 Whole"]);
    for other in ["2", "1", "2"] {
        world.members.join_by_poll(room, bob, info(other).as_ref());
        world.members.leave_between_polls(room, bob);
        assert_eq!(world.told(), [""; 0]);
    }
    // One that is there alone says what it is.
    world.members.leave_between_polls(room, bob);
    world.members.join_by_poll(room, bob, info("2").as_ref());
    assert_eq!(world.told(), ["+bob2 1 Whole"]);
}

/// What is told of it is what its last token says, also where that came just before it went.
#[test]
fn user_that_comes_back_with_an_info_of_which_nobody_was_told_is_told_anew() {
    let mut world = world(LIMITS);
    let (room, bob) = (world.id("room:7"), world.id("bob"));
    world.watch(room);
    world.members.join(room, bob, info("1").as_ref());
    assert_eq!(world.told(), ["+bob1 1 Whole"]);
    world.members.join(room, bob, info("2").as_ref());
    world.members.leave(room, bob);
    world.members.leave(room, bob);
    assert_eq!(world.told(), [""; 0], "it waits for its grace");
    world.members.join(room, bob, info("2").as_ref());
    assert_eq!(world.told(), ["+bob2 1 Whole"]);
}
