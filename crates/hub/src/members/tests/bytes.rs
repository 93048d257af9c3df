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

/// A world whose tables fill up alike in each run: when each doubles decides what is counted.
fn fixed_world() -> World {
    let names = Arc::new(Names::new([7; 16]));
    let members = Members { keys: Keys::fixed(), ..Members::new(Arc::clone(&names), LIMITS) };
    assert!(members.watchers.set(Directory::packed_with_fixed_keys(WATCHER_STRIPES)).is_ok());
    let members = Arc::new(members);
    let roster = Roster::new(Arc::clone(&members), GRACE_MS);
    World { names, members, roster, now_ms: 1_000 }
}

/// Rooms of `size`, with members and without: what members take beside the names of their rooms,
/// as one comes after the other.
struct Beside {
    size: usize,
    count: usize,
    room: Id,
    with: World,
    without: World,
}

impl Beside {
    fn new(size: usize) -> Beside {
        Beside { size, count: 0, room: Id::NONE, with: fixed_world(), without: fixed_world() }
    }

    /// One more joins, in the way that `join` does. Others are told of them by the hundred.
    fn join(&mut self, room: &str, join: impl FnOnce(&World, Id, usize)) {
        if self.count.is_multiple_of(self.size) {
            let name = format!("{room}{}", self.count / self.size);
            let key = IdText::of_key(&name).or_else(|_| IdText::parse(&name)).unwrap();
            self.without.names.acquire(key);
            self.room = self.with.names.acquire(key);
        }
        join(&self.with, self.room, self.count);
        self.count += 1;
        if self.count.is_multiple_of(100) {
            self.with.told();
            assert_eq!(self.with.members.len(), self.count);
        }
    }

    fn bytes(&self) -> usize {
        heap_bytes(&self.with) - heap_bytes(&self.without)
    }
}

/// Has `count` users join rooms of `size` ids. What each takes more than a connection without
/// members, at the worst of the counts from 10,000 on by steps of a fifth.
fn bytes_each(users: Users, size: usize, count: usize) -> f64 {
    let (mut beside, mut next, mut worst) = (Beside::new(size), 10_000, 0.0_f64);
    let mut infos = Vec::new();
    while beside.count < count {
        beside.join("room:", |world, room, n| {
            let (user, info) = match users {
                Users::Numbered => ((1_000_000 + n).to_string(), None),
                Users::Named => (format!("user:{n:05}"), info("{\"name\":\"Bob\"}")),
            };
            world.members.join(room, world.id(&user), info.as_ref());
            infos.push(info);
        });
        if beside.count == next {
            worst = worst.max(beside.bytes() as f64 / next as f64 + SUBJECT_BYTES);
            next += next / 500 * 100;
        }
    }
    worst
}

/// At all sizes of rooms, and at counts between which no table is just full: none of them doubles.
#[test]
fn member_takes_eighty_bytes_at_most_beside_a_connection_without() {
    for size in (1..=12).chain([20, 32, 33, 34, 40, 50, 100, 1_000, 20_000, 100_000]) {
        let count = if size < 100 { 25_000 } else { 100_000 };
        for users in [Users::Numbered, Users::Named] {
            let each = bytes_each(users, size, count);
            assert!(each <= 80.0, "{each} bytes for each of {users:?} in rooms of {size}");
        }
    }
}

/// What a member of a channel takes in its shard at most:
/// `engine::shard::tables::watching::tests`.
const SHARD_BYTES: f64 = 24.0;

/// What a connection takes more as a member of a channel of `size`, which it watches, than in a
/// channel of which nobody is a member, beside its user's id and what is told of it: the most at
/// each two hundred from 4,000 to `count`.
fn bytes_each_in_channel(size: usize, count: usize) -> (f64, usize) {
    let (mut beside, mut data, mut worst) = (Beside::new(size), 0, (0.0, 0));
    while beside.count < count {
        beside.join("#c1:presence-", |world, room, n| {
            let (user, json) = (format!("user-{n:07}"), format!("{{\"name\":\"User {n:07}\"}}"));
            data += user.len() + json.len();
            let sub = world.names.acquire(IdText::of_key(&format!("#m:{user}")).unwrap());
            assert!(world.members.join_within(room, sub, info(&json).as_ref(), size));
            world.members.watchers().login(room, ConnRef::new(0, n, 0));
        });
        let members = beside.count;
        if members >= 4_000 && members.is_multiple_of(200) {
            let each = (beside.bytes() - data) as f64 / members as f64 + SHARD_BYTES;
            worst = if each > worst.0 { (each, members) } else { worst };
        }
    }
    worst
}

#[test]
fn member_of_a_channel_takes_120_bytes_at_most_beside_what_is_said_of_it() {
    for size in (1..=12).chain([20, 34, 60]) {
        let (each, members) = bytes_each_in_channel(size, 64_000);
        assert!(each <= 120.0, "{each} bytes for each of {members} in channels of {size}");
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
