//! Two or three nodes whose words go straight into one log.

mod bound;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::limits::{ROOM_NOTES_MAX, ROOM_QUEUE_MAX};

const ROOM: &str = "room:7";

type Users = BTreeMap<Box<str>, Option<Arc<str>>>;

/// Nodes by incarnation, each with its users of the room.
struct Cluster {
    nodes: BTreeMap<u64, (Rooms, Users)>,
    sequence: u64,
    actions: BTreeMap<u64, Vec<RoomAction>>,
}

impl Cluster {
    fn new(nodes: &[u64]) -> Cluster {
        let rooms = || (Rooms::new(5_000, |sub, _| sub.len()), BTreeMap::new());
        let all = nodes.iter().map(|&node| (node, rooms())).collect();
        let mut cluster = Cluster { nodes: all, sequence: 100, actions: BTreeMap::new() };
        cluster.view(0, nodes);
        cluster
    }

    fn view(&mut self, now_ms: u64, nodes: &[u64]) {
        for (&node, (rooms, _)) in &mut self.nodes {
            let me = nodes.contains(&node).then_some(node);
            rooms.step(now_ms, RoomStep::View { nodes: nodes.to_vec(), me, epoch: 1 });
        }
    }

    fn joined(&mut self, node: u64, sub: &str, info: Option<&str>) {
        let (rooms, here) = self.nodes.get_mut(&node).unwrap();
        let info: Option<Arc<str>> = info.map(Into::into);
        here.insert(sub.into(), info.clone());
        rooms.update(ROOM, sub.into(), RoomChange::Joined(info));
    }

    fn left(&mut self, node: u64, sub: &str) {
        let (rooms, here) = self.nodes.get_mut(&node).unwrap();
        here.remove(sub);
        rooms.update(ROOM, sub.into(), RoomChange::Left);
    }

    /// Until nobody has anything to say. How many notes were said.
    fn run(&mut self) -> usize {
        let mut said = 0;
        loop {
            let next = self.nodes.values_mut().find_map(|(rooms, here)| {
                rooms.next_record(|_| here.clone().into_iter().collect())
            });
            let Some((from, notes)) = next else { break };
            assert!(notes.len() <= ROOM_NOTES_MAX);
            said += notes.len();
            self.sequence += 1;
            for (rooms, _) in self.nodes.values_mut() {
                let notes = notes.clone();
                rooms.step(0, RoomStep::Notes { sequence: self.sequence, from, notes });
            }
        }
        for (&node, (rooms, _)) in &mut self.nodes {
            let actions = self.actions.entry(node).or_default();
            actions.extend(std::iter::from_fn(|| rooms.next_action()));
        }
        said
    }

    fn want(&mut self, node: u64) {
        self.nodes.get_mut(&node).unwrap().0.want(ROOM);
    }

    /// The list at a node, once it is settled, as text.
    fn list(&self, node: u64) -> Option<String> {
        let list = self.nodes[&node].0.list(ROOM)?;
        let text = |(sub, info): (&str, Option<&str>)| format!("{sub}{}", info.unwrap_or(""));
        Some(list.members().map(text).collect::<Vec<_>>().join(" "))
    }

    /// What came out at a node since the last time, of users.
    fn changes(&mut self, node: u64) -> Vec<String> {
        let actions = self.actions.remove(&node).unwrap_or_default();
        let text = |action| match action {
            RoomAction::Changed {
                sub,
                change: RoomChange::Joined(info) | RoomChange::Renewed(info),
                ..
            } => Some(format!("+{sub}{}", info.as_deref().unwrap_or(""))),
            RoomAction::Changed { sub, change: RoomChange::Left, .. } => Some(format!("-{sub}")),
            _ => None,
        };
        actions.into_iter().filter_map(text).collect()
    }
}

#[test]
fn nothing_is_said_of_a_room_that_nobody_wants() {
    let mut cluster = Cluster::new(&[1, 2]);
    cluster.joined(1, "bob", None);
    assert_eq!(cluster.run(), 0);
    cluster.want(2);
    cluster.run();
    assert_eq!((cluster.list(2).as_deref(), cluster.list(1)), (Some("bob"), None));
    cluster.nodes.get_mut(&2).unwrap().0.unwant(ROOM);
    cluster.run();
    cluster.joined(1, "eve", None);
    assert_eq!(cluster.run(), 0);
}

#[test]
fn user_of_two_nodes_is_there_once_and_leaves_with_the_last() {
    let mut cluster = Cluster::new(&[1, 2, 3]);
    cluster.joined(1, "bob", Some("1"));
    cluster.want(3);
    cluster.run();
    cluster.joined(2, "bob", Some("2"));
    cluster.run();
    assert_eq!(cluster.changes(3), ["+bob2"], "the latest info counts");
    cluster.left(2, "bob");
    cluster.run();
    assert_eq!(cluster.changes(3), ["+bob1"], "that of who still has it");
    cluster.left(1, "bob");
    cluster.run();
    assert_eq!(cluster.changes(3), ["-bob"]);
    assert_eq!(cluster.nodes[&3].0.list(ROOM).unwrap().listed_bytes(), 0);
}

#[test]
fn list_waits_for_each_node_and_not_for_one_that_is_gone_or_came_later() {
    let mut cluster = Cluster::new(&[1, 2]);
    // It stands still: what it would say is not read.
    let silent = cluster.nodes.remove(&2).unwrap();
    cluster.want(1);
    cluster.run();
    assert_eq!(cluster.list(1), None);
    cluster.view(0, &[1]);
    assert_eq!(cluster.list(1).as_deref(), Some(""));
    drop(silent);
    cluster.view(0, &[1, 200]);
    assert_eq!(cluster.list(1).as_deref(), Some(""));
}

#[test]
fn users_of_a_node_that_is_gone_leave_after_the_grace_unless_they_are_elsewhere() {
    let mut cluster = Cluster::new(&[1, 2, 3]);
    cluster.joined(1, "bob", None);
    cluster.joined(1, "eve", None);
    cluster.want(2);
    cluster.want(3);
    cluster.run();
    cluster.nodes.remove(&1);
    cluster.view(1_000, &[2, 3]);
    cluster.joined(3, "bob", None);
    cluster.run();
    cluster.changes(2);
    assert_eq!(cluster.nodes[&2].0.next_deadline(), Some(6_000));
    for (rooms, _) in cluster.nodes.values_mut() {
        rooms.tick(5_999);
    }
    assert_eq!((cluster.run(), cluster.list(2).as_deref()), (0, Some("bob eve")));
    for (rooms, _) in cluster.nodes.values_mut() {
        rooms.tick(6_000);
    }
    assert_eq!(cluster.run(), 1, "one says it for all");
    assert_eq!(
        (cluster.changes(2), cluster.changes(3)),
        (vec!["-eve".into()], vec!["-eve".into()])
    );
    assert_eq!(cluster.nodes[&3].0.next_deadline(), None);
}

#[test]
fn node_that_comes_says_whom_it_has_in_rooms_that_others_want() {
    let mut cluster = Cluster::new(&[1]);
    cluster.want(1);
    cluster.run();
    let rooms = Rooms::new(5_000, |sub, _| sub.len());
    cluster.nodes.insert(200, (rooms, BTreeMap::new()));
    cluster.joined(200, "zoe", None);
    cluster.view(0, &[1, 200]);
    cluster.run();
    assert_eq!(cluster.changes(1), ["+zoe"]);
    // And who has lost its place says it anew.
    cluster.view(0, &[200]);
    assert_eq!(cluster.list(1), None);
    cluster.view(0, &[1, 200]);
    cluster.run();
    assert_eq!(cluster.list(1).as_deref(), Some("zoe"));
}

#[test]
fn large_room_takes_several_records_and_what_happens_meanwhile_fits() {
    let mut cluster = Cluster::new(&[1, 2]);
    for user in 0..3 * ROOM_NOTES_MAX {
        cluster.joined(1, &user.to_string(), None);
    }
    cluster.want(2);
    let said = cluster.run();
    assert!(said > 3 * ROOM_NOTES_MAX, "{said}");
    assert_eq!(cluster.nodes[&2].0.list(ROOM).unwrap().len(), 3 * ROOM_NOTES_MAX);
    cluster.changes(2);
    cluster.left(1, "7");
    cluster.run();
    assert_eq!(cluster.changes(2), ["-7"]);
}

#[test]
fn storm_while_the_log_is_away_is_said_as_whole_rooms() {
    let mut cluster = Cluster::new(&[1, 2]);
    cluster.joined(1, "old", None);
    cluster.want(2);
    cluster.run();
    for user in 0..ROOM_QUEUE_MAX + 10 {
        let user = user.to_string();
        cluster.joined(1, &user, None);
        if user != "3" {
            cluster.left(1, &user);
        }
    }
    cluster.left(1, "old");
    assert!(cluster.nodes[&1].0.bytes() < 16 << 20);
    cluster.changes(2);
    assert_eq!(cluster.run(), 3, "a beginning, one user, an end");
    assert_eq!(cluster.changes(2), ["+3", "-old"]);
    assert_eq!(cluster.nodes[&1].0.said().0, cluster.nodes[&1].0.said().1);
}

#[test]
fn what_was_not_told_one_by_one_is_in_the_state_that_is_said_anew() {
    let mut cluster = Cluster::new(&[1, 2]);
    cluster.joined(1, "bob", None);
    cluster.joined(1, "eve", None);
    cluster.want(2);
    cluster.run();
    let (rooms, here) = cluster.nodes.get_mut(&1).unwrap();
    here.remove("bob");
    here.insert("zoe".into(), None);
    rooms.restate(ROOM);
    rooms.restate("room:8");
    cluster.changes(2);
    assert_eq!(cluster.run(), 4, "the users, between two notes");
    assert_eq!(cluster.changes(2), ["+zoe", "-bob"]);
    assert_eq!(cluster.list(2).as_deref(), Some("eve zoe"));
}

#[test]
fn list_that_is_wanted_anew_has_nobody_of_whom_nothing_was_said_since() {
    let mut rooms = Rooms::new(0, |sub, _| sub.len());
    let said = |sequence, from, notes| RoomStep::Notes { sequence, from, notes };
    let next = |rooms: &mut Rooms| rooms.next_record(|_| Vec::new()).unwrap().1;
    rooms.step(0, RoomStep::View { nodes: vec![1, 2], me: Some(1), epoch: 1 });
    rooms.want(ROOM);
    for sequence in [11, 12] {
        let notes = next(&mut rooms);
        rooms.step(0, said(sequence, 1, notes));
    }
    rooms.step(0, said(13, 2, vec![RoomNote::Answered(11)]));
    assert!(rooms.list(ROOM).is_some());
    rooms.unwant(ROOM);
    let unwant = next(&mut rooms);
    rooms.want(ROOM);
    let bob = RoomNote::Joined { room: ROOM.into(), sub: "bob".into(), info: None };
    rooms.step(0, said(14, 2, vec![bob]));
    rooms.step(0, said(15, 1, unwant));
    // Node 2 is not listened to when bob leaves.
    for sequence in [16, 17] {
        let notes = next(&mut rooms);
        rooms.step(0, said(sequence, 1, notes));
    }
    rooms.step(0, said(18, 2, vec![RoomNote::Answered(16)]));
    assert!(rooms.list(ROOM).unwrap().is_empty());
    assert_eq!(rooms.list_bytes, 0);
}

#[test]
fn first_that_wants_a_room_is_the_oldest_member_whoever_wanted_it_first() {
    let mut cluster = Cluster::new(&[1, 2, 3]);
    let first = |cluster: &Cluster| -> Vec<Option<u64>> {
        cluster.nodes.values().map(|(rooms, _)| rooms.first_wanting(ROOM)).collect()
    };
    cluster.want(3);
    cluster.run();
    assert_eq!(first(&cluster), [Some(3); 3]);
    cluster.want(2);
    cluster.run();
    assert_eq!(first(&cluster), [Some(2); 3]);
    cluster.want(1);
    cluster.run();
    cluster.view(0, &[2, 3]);
    cluster.nodes.remove(&1);
    cluster.run();
    assert_eq!(first(&cluster), [Some(2); 2]);
    assert_eq!(cluster.nodes[&3].0.me(), Some(3));
}

/// A poll that goes from one to the other would else be told the count, and the list, for ever.
#[test]
fn node_that_asks_later_tells_the_count_where_another_one_does() {
    for (has_users, is_counted) in [(true, true), (false, true), (true, false)] {
        let mut cluster = Cluster::new(&[1, 2, 3]);
        cluster.want(1);
        cluster.joined(2, "bob", None);
        if has_users {
            cluster.joined(1, "eve", None);
        }
        cluster.run();
        cluster.nodes.get_mut(&1).unwrap().0.set_counted(ROOM, is_counted);
        cluster.want(3);
        cluster.run();
        let is_told = |cluster: &Cluster| cluster.nodes[&3].0.list(ROOM).unwrap().is_counted();
        assert_eq!(is_told(&cluster), is_counted, "with users: {has_users}");
        // What another one says later changes nothing: both have read the same since.
        cluster.nodes.get_mut(&3).unwrap().0.set_counted(ROOM, false);
        cluster.nodes.get_mut(&1).unwrap().0.restate(ROOM);
        cluster.run();
        assert!(!is_told(&cluster));
        // One that has lost its place asks anew.
        cluster.nodes.get_mut(&1).unwrap().0.set_counted(ROOM, is_counted);
        cluster.nodes.get_mut(&3).unwrap().0.unwant(ROOM);
        cluster.run();
        cluster.want(3);
        cluster.run();
        assert_eq!(is_told(&cluster), is_counted);
    }
}
