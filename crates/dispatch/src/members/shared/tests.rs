//! Which of those who wait for lists are kept, and how a room is told that another node knows.

use cluster::RoomNote;

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

/// A node that has asked for the list of a room, and what the other one has said of it.
fn told_by_another(room: &str, notes: Vec<RoomNote>) -> (Shared, Roster) {
    let names = Arc::new(Names::new([1; 16]));
    names.acquire(IdText::parse(room).unwrap());
    let limits = ListLimits { members: 10, bytes: 1_000 };
    let members = Arc::new(Members::new(Arc::clone(&names), limits));
    let mut shared = Shared::new(&members, names, 0, RoomsSay::to_nobody());
    let mut roster = Roster::new(members, 0);
    shared.step(0, RoomStep::View { nodes: vec![1, 2], me: Some(1), epoch: 1 }, &mut roster);
    assert!(shared.ask(room, ListAsker::Call(oneshot::channel().0)));
    let want = vec![RoomNote::Want(room.into()), RoomNote::Answered(10)];
    let all = notes.into_iter().chain([RoomNote::Answered(10)]).collect();
    for (sequence, from, notes) in [(10, 1, want), (11, 2, all)] {
        shared.step(0, RoomStep::Notes { sequence, from, notes }, &mut roster);
    }
    (shared, roster)
}

/// Who polls at one node and then at the other is told the same at both.
#[test]
fn room_that_another_node_counts_is_counted_here_until_it_has_shrunk() {
    let room = "room:7";
    for is_counted in [true, false] {
        // Nine of ten that may be listed.
        let sub = |n: u8| Box::from(n.to_string());
        let joined = |n| RoomNote::Joined { room: room.into(), sub: sub(n), info: None };
        let mut notes: Vec<_> = is_counted.then_some(RoomNote::Gone(0)).into_iter().collect();
        notes.push(RoomNote::Begin(room.into()));
        notes.extend((0..9).map(joined));
        notes.push(RoomNote::End(room.into()));
        let (mut shared, mut roster) = told_by_another(room, notes);
        let is_listed = |shared: &Shared| shared.list(room).unwrap().members.is_some();
        assert_eq!(is_listed(&shared), !is_counted);
        let notes = vec![RoomNote::Left { room: room.into(), sub: sub(3) }];
        shared.step(0, RoomStep::Notes { sequence: 12, from: 2, notes }, &mut roster);
        assert!(is_listed(&shared));
    }
}
