//! What of those who wait for lists is kept, and who is told of whom in a full channel.

use cluster::RoomNote;
use engine::PusherApps;
use pusher::Apps;

use super::*;

/// NATS may be away for long, and clients come and go meanwhile.
#[test]
fn who_waits_for_what_this_node_has_said_takes_no_place_once_it_is_gone() {
    let names = Arc::new(Names::new([1; 16]));
    let members = Members::new(Arc::clone(&names), ListLimits { members: 10, bytes: 1_000 });
    let mut shared = Shared::new(&members, names, 0, RoomsSay::to_nobody());
    let [(gone, asker), (waits, _asker)] = [oneshot::channel(), oneshot::channel()];
    let calls = [gone, waits].map(|reply| (7, "a".into(), ListAsker::Call(reply)));
    shared.behind.extend(calls);
    shared.calls = 2;
    drop(asker);
    assert_eq!(shared.look(&members), 0, "no connection has gone");
    assert_eq!((shared.behind.len(), shared.calls), (1, 1));
}

const CHANNEL: &str = "#c1:presence-a";

/// A node of two, whose app lets one member into a channel: the user a, at the other node.
struct World {
    shared: Shared,
    roster: Roster,
    sequence: u64,
    now_ms: u64,
}

impl World {
    fn new() -> World {
        let app = br#"[{"id":"1","key":"key","secret":"a-secret-of-some-length","max_members":1}]"#;
        let apps = PusherApps::new(Apps::parse(app, true).unwrap());
        let names = Arc::new(Names::new([1; 16]));
        names.acquire(IdText::of_key(CHANNEL).unwrap());
        let limits = ListLimits { members: 10, bytes: 1_000 };
        let members = Arc::new(Members::new(Arc::clone(&names), limits));
        let shared = Shared::new(&members, names, 0, RoomsSay::to_nobody());
        let shared = shared.with_hooks(Some(PusherHooks::new(Arc::new(apps))));
        let mut world = World { shared, roster: Roster::new(members, 0), sequence: 9, now_ms: 0 };
        let view = RoomStep::View { nodes: vec![1, 2], me: Some(1), epoch: 1 };
        world.shared.step(0, view, &mut world.roster);
        assert!(world.shared.ask(CHANNEL, ListAsker::Call(oneshot::channel().0)));
        world.notes(1, vec![RoomNote::Want(CHANNEL.into())]);
        world.notes(1, vec![RoomNote::Answered(10)]);
        world.notes(2, vec![joined("a"), RoomNote::Answered(10)]);
        world
    }

    /// What is told of members by what the log says now.
    fn notes(&mut self, from: u64, notes: Vec<RoomNote>) -> Vec<(Box<str>, usize)> {
        self.sequence += 1;
        let step = RoomStep::Notes { sequence: self.sequence, from, notes };
        short(self.shared.step(self.now_ms, step, &mut self.roster).updates)
    }

    fn list(&self) -> Vec<Box<str>> {
        let MemberList { count, members } = self.shared.list(CHANNEL).unwrap();
        let members = members.unwrap();
        assert_eq!(count, members.len());
        members.into_iter().map(|(sub, _)| sub).collect()
    }
}

fn short(updates: Vec<MemberUpdate>) -> Vec<(Box<str>, usize)> {
    updates.into_iter().map(|update| (update.sub, update.count)).collect()
}

fn joined(sub: &str) -> RoomNote {
    RoomNote::Joined { room: CHANNEL.into(), sub: sub.into(), info: None }
}

fn left(sub: &str) -> RoomNote {
    RoomNote::Left { room: CHANNEL.into(), sub: sub.into() }
}

#[test]
fn user_who_comes_to_a_full_channel_is_told_of_only_if_it_stays() {
    let mut world = World::new();
    let list = |names: &[&str]| names.iter().map(|&name| Box::from(name)).collect::<Vec<_>>();
    assert_eq!(world.list(), list(&["a"]));
    // It is refused, and was never there.
    assert_eq!(world.notes(2, vec![joined("b")]), []);
    assert_eq!(world.list(), list(&["a"]));
    assert_eq!(world.notes(2, vec![left("b")]), []);
    // It stays: another node has another bound, or a place was free there.
    world.now_ms = 5_000;
    assert_eq!(world.notes(2, vec![joined("c")]), []);
    assert!(world.shared.take_over(5_999).is_empty());
    assert_eq!(short(world.shared.take_over(6_000)), [("c".into(), 2)]);
    assert_eq!(world.list(), list(&["a", "c"]));
    assert_eq!(world.notes(2, vec![left("a")]), [("a".into(), 1)]);
    assert_eq!(world.notes(2, vec![left("c")]), [("c".into(), 0)]);
    assert_eq!(world.notes(2, vec![joined("d")]), [("d".into(), 1)], "there is a place");
}

/// Who polls at one node and then at the other is told the same at both.
#[test]
fn room_that_another_node_counts_is_counted_here_until_it_has_shrunk() {
    for is_counted in [true, false] {
        let (mut world, room) = (World::new(), "room:7");
        world.shared.names.acquire(IdText::parse(room).unwrap());
        assert!(world.shared.ask(room, ListAsker::Call(oneshot::channel().0)));
        world.notes(1, vec![RoomNote::Want(room.into())]);
        let want = world.sequence;
        world.notes(1, vec![RoomNote::Answered(want)]);
        // Nine of ten that may be listed.
        let joined =
            |n: u8| RoomNote::Joined { room: room.into(), sub: n.to_string().into(), info: None };
        let mut notes = vec![RoomNote::Begin(room.into())];
        notes.extend((0..9).map(joined));
        notes.extend([RoomNote::End(room.into()), RoomNote::Answered(want)]);
        if is_counted {
            notes.insert(0, RoomNote::Gone(0));
        }
        world.notes(2, notes);
        let is_listed = |world: &World| world.shared.list(room).unwrap().members.is_some();
        assert_eq!(is_listed(&world), !is_counted);
        world.notes(2, vec![RoomNote::Left { room: room.into(), sub: "3".into() }]);
        assert!(is_listed(&world));
    }
}
