//! What a member takes up: every allocation is counted, as the allocator rounds it. Time is not.

use super::*;

/// What each connection of a user takes for its subject, in a column of its shard.
const SUBJECT_BYTES: f64 = 8.0;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Users {
    /// By a number, which is no text to keep.
    Numbered,
    /// By a text of ten bytes, with an info that the token of its connection keeps.
    Named,
}

/// What glibc takes for an allocation: a length before it, in steps of 16 bytes, 32 at least.
fn rounded(bytes: usize) -> usize {
    (bytes + 8).next_multiple_of(16).max(32)
}

fn heap_bytes(world: &World) -> usize {
    let mut bytes: usize = world.names.allocations().into_iter().map(rounded).sum();
    for stripe in &world.members.stripes {
        let stripe = lock(stripe);
        let noted = stripe.noted.capacity() * size_of::<Membership>();
        let all = stripe.rooms.allocations().chain([noted]);
        bytes += all.filter(|&bytes| bytes > 0).map(rounded).sum::<usize>();
    }
    let watchers = world.members.watchers().allocations();
    bytes + watchers.filter(|&bytes| bytes > 0).map(rounded).sum::<usize>()
}

/// What a connection takes more that is logged in under a room of `size`, since its user is a
/// member; the names of the rooms are there anyway.
fn bytes_each(users: Users, size: usize, count: usize) -> f64 {
    let mut world = world(LIMITS);
    let rooms: Vec<Id> =
        (0..count.div_ceil(size)).map(|n| world.id(&format!("room:{n}"))).collect();
    let before = heap_bytes(&world);
    let mut grants = Vec::new();
    for n in 0..count {
        let (user, info) = match users {
            Users::Numbered => ((1_000_000 + n).to_string(), None),
            Users::Named => (format!("user:{n:05}"), info("{\"name\":\"Bob\"}")),
        };
        let user = world.id(&user);
        world.members.join(rooms[n / size], user, info.as_ref());
        if n % 100 == 0 {
            world.told();
        }
        grants.push(info);
    }
    world.told();
    assert_eq!(world.members.len(), count);
    (heap_bytes(&world) - before) as f64 / count as f64 + SUBJECT_BYTES
}

/// At all sizes of rooms, and at counts between which no table is just full: none of them doubles.
#[test]
fn member_takes_eighty_bytes_at_most_beside_a_connection_without() {
    for size in [1, 2, 3, 4, 10, 33, 34, 40, 100, 1_000, 20_000, 100_000] {
        let counts: &[usize] = if size < 100 { &[10_000, 14_000, 20_000] } else { &[100_000] };
        for &count in counts {
            let each = bytes_each(Users::Numbered, size, count);
            assert!(each <= 80.0, "{each} bytes for each of {count} in rooms of {size}");
        }
    }
    for size in [10, 20, 32, 50, 100, 1_000, 20_000, 100_000] {
        for count in [10_000, 14_000, 20_000, 100_000] {
            let each = bytes_each(Users::Named, size, count);
            assert!(each <= 80.0, "{each} bytes for each of {count} with names, rooms of {size}");
        }
    }
}

/// What a member of a channel takes in its shard at most:
/// `engine::shard::tables::watching::tests`.
const SHARD_BYTES: f64 = 24.0;

/// What a connection takes more as a member of a channel of `size`, which it watches, than in a
/// channel of which nobody is a member, beside its user's id and what is told of it.
fn bytes_each_in_channel(size: usize, count: usize) -> f64 {
    let mut world = world(LIMITS);
    let key = |world: &World, text: &str| world.names.acquire(IdText::of_key(text).unwrap());
    let rooms: Vec<Id> = (0..count.div_ceil(size))
        .map(|number| key(&world, &format!("#c1:presence-{number}")))
        .collect();
    let (before, mut data) = (heap_bytes(&world), 0);
    for n in 0..count {
        let (user, json) = (format!("user-{n:07}"), format!("{{\"name\":\"User {n:07}\"}}"));
        data += user.len() + json.len();
        let (room, user) = (rooms[n / size], key(&world, &format!("#m:{user}")));
        assert!(world.members.join_within(room, user, info(&json).as_ref(), size));
        world.members.watchers().login(room, ConnRef::new(0, n, 0));
        if n % 100 == 0 {
            world.told();
        }
    }
    world.told();
    assert_eq!(world.members.len(), count);
    (heap_bytes(&world) - before - data) as f64 / count as f64 + SHARD_BYTES
}

/// The allocator has the rest of the 120 bytes that a member may take: what is short-lived leaves
/// gaps. Nothing doubles but the tables of rooms that are watched.
#[test]
fn member_of_a_channel_takes_106_bytes_at_most_beside_what_is_said_of_it() {
    for size in [10, 20, 34, 60] {
        for count in [10_000, 13_800, 16_000, 64_000] {
            let each = bytes_each_in_channel(size, count);
            assert!(each <= 106.0, "{each} bytes for each of {count} in channels of {size}");
        }
    }
}

#[test]
fn room_whose_members_have_left_takes_what_the_rest_need() {
    let mut world = world(LIMITS);
    let room = world.id("room:7");
    let empty = heap_bytes(&world);
    let users: Vec<Id> = (0..2_000).map(|n| Id::integer(n).unwrap()).collect();
    for part in [2_000, 33, 5] {
        for &user in &users[..part] {
            world.members.join(room, user, info("1").as_ref());
        }
        world.told();
        for left in (0..part).rev() {
            world.members.leave(room, users[left]);
            if left % 50 == 0 || left < 50 {
                world.told();
                world.now_ms += GRACE_MS;
                world.told();
                let bytes = heap_bytes(&world) - empty;
                // Two places for each, the room itself, and what 256 stripes keep for notes.
                assert!(bytes < 48 * left + 48 * left.div_ceil(8) + 1_000, "{bytes} for {left}");
            }
        }
        assert!(world.members.is_empty());
    }
}
