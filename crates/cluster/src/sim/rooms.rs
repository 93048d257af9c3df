//! Rooms in the simulator: users at each host who come and go there, and what each host knows.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::host::Host;
use super::world::{Event, World};
use crate::record::{Body, Record};
use crate::{RoomAction, RoomChange, RoomNote, RoomStep, Rooms};

/// Rooms, users, and their infos.
const ROOMS: usize = 4;
const USERS: usize = 6;
const INFOS: usize = 3;

/// Users of a node that is gone have this time to come back.
const GRACE_MS: u64 = 2_000;

/// Who is in a room, with their infos.
type Users = BTreeMap<Box<str>, Option<Arc<str>>>;

/// What a host has of rooms.
pub(super) struct HostRooms {
    state: Rooms,
    /// What the log says, on its way there.
    steps: VecDeque<RoomStep>,
    /// Its own users, by room.
    here: BTreeMap<Box<str>, Users>,
    listening: BTreeSet<Box<str>>,
    /// What a client of it that watches has been told, by room.
    told: BTreeMap<Box<str>, Users>,
}

/// Of a room, a user and the process that said it: where in the log, and with which info.
type SaidOfUsers = BTreeMap<(Box<str>, Box<str>, u64), (usize, Option<Arc<str>>)>;

impl Default for HostRooms {
    fn default() -> HostRooms {
        HostRooms {
            state: Rooms::new(GRACE_MS, |sub, info| sub.len() + info.map_or(0, str::len)),
            steps: VecDeque::new(),
            here: BTreeMap::new(),
            listening: BTreeSet::new(),
            told: BTreeMap::new(),
        }
    }
}

impl HostRooms {
    fn list(&self, room: &str) -> Option<Users> {
        let owned = |(sub, info): (&str, Option<&str>)| (sub.into(), info.map(Into::into));
        self.state.list(room).map(|list| list.members().map(owned).collect())
    }

    /// Takes what comes out, and sees that what clients are told fits the list.
    fn take_actions(&mut self) -> (u64, u64) {
        let (mut lists, mut changes) = (0, 0);
        let mut changed = BTreeSet::new();
        while let Some(action) = self.state.next_action() {
            match action {
                RoomAction::Listen(room) => assert!(self.listening.insert(room)),
                RoomAction::Ignore(room) => assert!(self.listening.remove(&room)),
                RoomAction::Settled(room) => {
                    lists += 1;
                    changed.remove(&room);
                    self.told.insert(room.clone(), self.list(&room).unwrap_or_default());
                }
                RoomAction::Changed { room, sub, change } => {
                    changes += 1;
                    let told = self.told.entry(room.clone()).or_default();
                    match change {
                        RoomChange::Joined(info) => assert!(told.insert(sub, info).is_none()),
                        RoomChange::Renewed(info) => assert!(told.insert(sub, info).is_some()),
                        RoomChange::Left => assert!(told.remove(&sub).is_some()),
                    }
                    changed.insert(room);
                }
            }
        }
        for room in changed {
            let list = self.list(&room);
            assert!(list.is_none() || list.as_ref() == self.told.get(&room), "of {room}");
        }
        (lists, changes)
    }
}

impl World {
    pub(super) fn queue_room_step(&mut self, host: usize, step: RoomStep) {
        let (process, wait) = (self.hosts[host].process, self.random.u64(0..3));
        self.hosts[host].rooms.steps.push_back(step);
        if self.plan.rooms > 0 {
            self.after(wait, Event::RoomStep { host, process });
        }
    }

    pub(super) fn step_rooms(&mut self, host: usize) {
        let (now, rooms) = (self.now, &mut self.hosts[host].rooms);
        let Some(step) = rooms.steps.pop_front() else { return };
        rooms.state.step(now, step);
        self.say_rooms(host);
    }

    /// What a host has to say goes to its node.
    pub(super) fn say_rooms(&mut self, host: usize) {
        let (now, process) = (self.now, self.hosts[host].process);
        let rooms = &mut self.hosts[host].rooms;
        rooms.state.tick(now);
        let (lists, changes) = rooms.take_actions();
        let HostRooms { state, here, .. } = rooms;
        let users = |room: &str| here.get(room).cloned().unwrap_or_default().into_iter().collect();
        let said = state.next_record(users);
        self.figures.lists += lists;
        self.figures.room_changes += changes;
        if let Some((me, notes)) = said {
            let wait = self.random.u64(0..3);
            self.after(wait, Event::RoomSay { host, process, me, notes });
        }
    }

    /// Somebody comes or goes, or somebody begins or stops to watch.
    pub(super) fn work_in_room(&mut self) {
        let host = self.random.usize(0..self.hosts.len());
        let one = &self.hosts[host];
        if one.paused_until_ms > self.now || !one.open || one.node.is_none() {
            return;
        }
        let room: Box<str> = format!("room:{}", self.random.usize(0..ROOMS)).into();
        let sub: Box<str> = self.random.usize(0..USERS).to_string().into();
        let info = match self.random.usize(0..INFOS) {
            0 => None,
            info => Some(Arc::from(info.to_string())),
        };
        let what = self.random.u32(0..20);
        let rooms = &mut self.hosts[host].rooms;
        match what {
            0 => drop(rooms.state.want(&room)),
            1 => {
                rooms.state.unwant(&room);
                rooms.told.remove(&room);
            }
            2..11 => {
                let users = rooms.here.entry(room.clone()).or_default();
                users.insert(sub.clone(), info.clone());
                if rooms.listening.contains(&room) {
                    rooms.state.update(&room, sub, RoomChange::Joined(info));
                }
            }
            _ => {
                let gone = rooms.here.get_mut(&room).and_then(|users| users.remove(&sub));
                if gone.is_some() && rooms.listening.contains(&room) {
                    rooms.state.update(&room, sub, RoomChange::Left);
                }
            }
        }
        self.say_rooms(host);
    }

    /// Everybody wants to know all, those too who have known it for long.
    pub(super) fn want_all_rooms(&mut self) {
        if self.plan.rooms == 0 {
            return;
        }
        for host in 0..self.hosts.len() {
            for room in 0..ROOMS {
                self.hosts[host].rooms.state.want(&format!("room:{room}"));
            }
            self.say_rooms(host);
        }
    }

    /// What each member has said last of a user in a room, and where in the log.
    fn said_of_users(&self) -> SaidOfUsers {
        let (mut said, mut batches) = (BTreeMap::new(), BTreeMap::<u64, u64>::new());
        for (at, record) in self.logs[&self.epoch.number].all.iter().enumerate() {
            let Record { head, body } = Record::decode(record).unwrap();
            let last = batches.entry(head.incarnation).or_default();
            // Another copy of it counts for nobody.
            if !matches!(body, Body::Events(_) | Body::Order(_) | Body::Rooms(_))
                || head.batch <= *last
            {
                continue;
            }
            *last = head.batch;
            let Body::Rooms(notes) = body else { continue };
            for note in notes {
                if let RoomNote::Joined { room, sub, info } = note {
                    said.insert((room, sub, head.incarnation), (at, info));
                }
            }
        }
        said
    }

    /// All hosts have the same lists, which are all users of all hosts.
    pub(super) fn check_rooms(&self) {
        if self.plan.rooms == 0 {
            return;
        }
        let said = self.said_of_users();
        for room in (0..ROOMS).map(|room| format!("room:{room}")) {
            let here = |host: &Host| host.rooms.here.get(&*room).cloned();
            let users: Vec<Users> = self.hosts.iter().filter_map(here).collect();
            let subs: BTreeSet<&Box<str>> = users.iter().flat_map(Users::keys).collect();
            let first = self.hosts[0].rooms.list(&room).expect("it is settled");
            assert_eq!(first.keys().collect::<BTreeSet<_>>(), subs, "of {room}");
            for (sub, info) in &first {
                let has = |host: &&Host| {
                    host.rooms.here.get(&*room).is_some_and(|users| users.contains_key(sub))
                };
                let nodes = self.hosts.iter().filter(has).filter_map(|host| host.rooms.state.me());
                let key = |me| (Box::<str>::from(&*room), sub.clone(), me);
                let last = nodes.filter_map(|me| said.get(&key(me)));
                let last = last.max_by_key(|(at, _)| *at).map(|(_, info)| info);
                assert_eq!(last, Some(info), "{sub} of {room}: what was said last counts");
            }
            for (index, one) in self.hosts.iter().enumerate() {
                assert_eq!(one.rooms.list(&room).as_ref(), Some(&first), "{room} at {index}");
                assert_eq!(one.rooms.told.get(&*room), Some(&first), "{room} at {index}");
                let wanting = one.rooms.state.first_wanting(&room);
                let first = self.hosts.iter().filter_map(|host| host.rooms.state.me()).min();
                assert!(wanting.is_some() && wanting == first, "{room} at {index}: all want it");
            }
        }
        for one in &self.hosts {
            let (queued, read) = one.rooms.state.said();
            assert_eq!((queued, one.rooms.steps.len()), (read, 0), "nothing is left to say");
        }
    }
}
