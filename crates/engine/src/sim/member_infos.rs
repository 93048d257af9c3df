//! What users tell of themselves is the same in each room that they are in, whatever they do: by
//! seed against the plainest model. Each user has one connection, so what it said last counts.

use std::collections::{BTreeMap, BTreeSet};

use hub::{IdText, Info};

use super::each_seed;
use super::members::{Plane, settle};
use super::one::One;
use super::random::Random;
use super::server::Place;
use super::tokens::{silent_guarded, websocket};

const ROOMS: usize = 4;
const USERS: usize = 5;
const INFOS: usize = 3;

/// A user who is there.
struct User {
    place: Place,
    rooms: BTreeSet<usize>,
    info: Option<usize>,
}

fn room(number: usize) -> String {
    format!("room:{number}")
}

fn token(user: usize, info: Option<usize>) -> String {
    let info = info.map_or(String::new(), |info| format!(";info={info}"));
    format!("sub=user:{user};ids=room:*{info}")
}

fn any_info(random: &mut Random) -> Option<usize> {
    random.below(INFOS + 1).checked_sub(1)
}

fn come(one: &mut One, random: &mut Random, user: usize) -> User {
    let (number, info) = (random.below(ROOMS), any_info(random));
    let place =
        one.client(1 << 20, &websocket(&format!("/stream/room:{number}"), &token(user, info)));
    one.wire(place).client_reads(usize::MAX);
    User { place, rooms: BTreeSet::from([number]), info }
}

/// A user comes into another room, leaves one, or shows another token.
fn act(one: &mut One, random: &mut Random, user: usize, there: &mut User) {
    let number = random.below(ROOMS);
    let said = match random.below(4) {
        0 if there.rooms.len() > 1 && there.rooms.remove(&number) => {
            format!("{{\"logout\":[\"{}\"]}}", room(number))
        }
        1 | 2 => {
            there.info = any_info(random);
            format!("{{\"token\":\"{}\"}}", token(user, there.info))
        }
        _ => {
            there.rooms.insert(number);
            format!("{{\"login\":[\"{}\"]}}", room(number))
        }
    };
    let answer = one.says(there.place, &said);
    assert!(answer.starts_with("{\"ok\""), "{said}: {answer}");
}

/// Who is in each room, and what is told of them.
type RoomMembers = Vec<BTreeMap<String, Option<String>>>;

fn told(one: &One, plane: &Plane) -> RoomMembers {
    let list = |number| {
        let room = room(number);
        let id = one.router.names().lookup(IdText::parse(&room).unwrap());
        let members = id.map(|id| plane.roster.list(id).members.unwrap()).unwrap_or_default();
        let told = |info: &Info| info.json().to_owned();
        members.into_iter().map(|(sub, info)| (sub.into(), info.as_ref().map(told))).collect()
    };
    (0..ROOMS).map(list).collect()
}

fn due(users: &BTreeMap<usize, User>) -> RoomMembers {
    let list = |number| {
        let there = users.iter().filter(|(_, user)| user.rooms.contains(&number));
        let info = |user: &User| user.info.map(|info| info.to_string());
        there.map(|(name, user)| (format!("user:{name}"), info(user))).collect()
    };
    (0..ROOMS).map(list).collect()
}

fn run(seed: u64) -> usize {
    let (mut random, mut one) = (Random::new(seed), silent_guarded());
    let (mut plane, mut users) = (Plane::of(&one), BTreeMap::<usize, User>::new());
    let mut infos = 0;
    for step in 0..300 {
        let name = random.below(USERS);
        match (users.get_mut(&name), random.below(12)) {
            (_, 0) => {
                one.upgrade(&mut random);
                users.values_mut().for_each(|user| user.place = one.server.find(user.place));
                plane = Plane::of(&one);
            }
            (None, _) => drop(users.insert(name, come(&mut one, &mut random, name))),
            (Some(user), 1) => {
                let place = user.place;
                users.remove(&name);
                one.wire(place).client_ends();
                one.server.hear_out(place);
            }
            (Some(user), _) => act(&mut one, &mut random, name, user),
        }
        if random.one_in(20) {
            settle(&mut one, &mut plane);
            let told = told(&one, &plane);
            assert_eq!(told, due(&users), "seed {seed}, step {step}");
            infos += told.iter().flat_map(BTreeMap::values).flatten().count();
        }
    }
    users.values().for_each(|user| one.wire(user.place).client_ends());
    one.server.end();
    settle(&mut one, &mut plane);
    one.server.check_nothing_is_left();
    infos
}

#[test]
fn what_a_user_tells_of_itself_is_the_same_in_all_its_rooms() {
    let mut infos = 0;
    let all = each_seed("what_a_user_tells", 40, |seed| infos += run(seed));
    assert!(!all || infos > 1_000, "{infos}");
}
