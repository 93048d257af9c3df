//! A room of many members who all watch it, where others come and go, and the server may be killed.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use sys::clock;

use crate::crowd::Crowd;
use crate::harness::{Server, own_ports};
use crate::{Outcome, Plan, token, token_option};

/// Who come and go, one after the other.
const GUESTS: usize = 100;

/// The longest wait for what is to be told.
const ARRIVAL_NS: u64 = 30_000_000_000;

/// What one who watches was told.
#[derive(Default)]
struct Watcher {
    list: Option<BTreeSet<String>>,
    changes: u64,
}

impl Watcher {
    /// Applies a message; whether it fits.
    fn hear(&mut self, message: &[u8]) -> bool {
        let Ok(told) = serde_json::from_slice::<Value>(message) else { return false };
        let id = |of: &str| told[of]["id"].as_str().map(str::to_owned);
        match &told["members"]["list"] {
            Value::Array(list) => {
                let ids = list.iter().filter_map(|member| member["id"].as_str());
                self.list = Some(ids.map(str::to_owned).collect());
                return true;
            }
            _ => self.changes += 1,
        }
        let Some(list) = &mut self.list else { return false };
        match (id("joined"), id("left")) {
            (Some(joined), None) => list.insert(joined),
            (None, Some(left)) => list.remove(&left),
            _ => false,
        }
    }
}

/// All who watch the room, and who comes and goes there.
struct WatchedRoom {
    crowd: Crowd,
    watchers: Vec<Watcher>,
    /// Messages that did not fit the list before.
    misfits: u64,
    there: BTreeSet<String>,
    members: Vec<String>,
    guests: Vec<String>,
    /// How many changes there were, each a guest that takes the place of the one before.
    changes: usize,
}

pub(crate) fn run(plan: &Plan) -> Outcome<()> {
    let data = tempfile::tempdir()?;
    let ports = own_ports();
    let mut server = start(data.path(), &ports);
    let mut room = WatchedRoom::new(plan, &server)?;
    let (mut cpu_ns, mut kills) = (0.0, 0);
    let mut cpu = clock::process_cpu_of(server.pid())?;
    let (before, start_ns) = (room.told(), clock::monotonic_ns());
    let all = (plan.changes as f64 / 2.0 * plan.seconds) as u64;
    // What a kill takes away is no change of the room.
    let mut lost_ns = 0;
    for change in 0..all {
        let at_s = change as f64 * 2.0 / plan.changes as f64;
        if plan.kill_every > 0.0 && at_s >= plan.kill_every * f64::from(kills + 1) {
            room.settle()?;
            cpu_ns += (clock::process_cpu_of(server.pid())? - cpu).as_nanos() as f64;
            let killed_ns = clock::monotonic_ns();
            server.into_program().kill();
            server = start(data.path(), &ports);
            room.come_back()?;
            cpu = clock::process_cpu_of(server.pid())?;
            lost_ns += clock::monotonic_ns() - killed_ns;
            kills += 1;
        }
        room.change()?;
        room.hear_until(start_ns + lost_ns + (change + 1) * 2_000_000_000 / plan.changes.max(1))?;
    }
    let elapsed_ns = clock::monotonic_ns() - start_ns - lost_ns;
    cpu_ns += (clock::process_cpu_of(server.pid())? - cpu).as_nanos() as f64;
    room.settle()?;
    println!("members: a room of {} who watch it, {kills} kills", plan.members);
    println!(
        "  {all} joins and as many leaves in {:.1} s: {} changes told, {} that did not fit, all \
         lists are what is there",
        elapsed_ns as f64 / 1e9,
        room.told() - before,
        room.misfits,
    );
    println!("  {:.1} % of a core", 100.0 * cpu_ns / elapsed_ns as f64);
    if room.misfits > 0 { Err("a change did not fit the list".into()) } else { Ok(()) }
}

fn start(data: &Path, ports: &[String; 2]) -> Server {
    let key = token_option();
    // A list of all of them takes more than the default backlog.
    let options = ["--members-max=5000", "--max-backlog=1MiB", "--presence-grace=1"];
    Server::start_in(data, &[&[&*key, &ports[0], &ports[1]], &options[..]].concat())
}

impl WatchedRoom {
    fn new(plan: &Plan, server: &Server) -> Outcome<WatchedRoom> {
        let mut room = WatchedRoom {
            crowd: Crowd::new(server.listen())?,
            watchers: Vec::new(),
            misfits: 0,
            there: (0..plan.members).map(|n| format!("m{n}")).collect(),
            members: (0..plan.members)
                .map(|n| format!("/stream/room:1?members=room:1&token={}", token(&format!("m{n}"))))
                .collect(),
            guests: (0..GUESTS)
                .map(|n| format!("/stream/room:1?token={}", token(&format!("g{n}"))))
                .collect(),
            changes: 0,
        };
        for member in 0..plan.members {
            room.crowd.join(&room.members[member])?;
            room.watchers.push(Watcher::default());
            room.hear(0)?;
        }
        room.settle()?;
        Ok(room)
    }

    /// All come to a server that knows nobody.
    fn come_back(&mut self) -> Outcome<()> {
        // They are away until each has come: nobody reads what has ended.
        let guest = self.guest();
        let targets = self.members.iter().chain(guest.map(|guest| &self.guests[guest]));
        self.crowd.replace_all(targets.map(String::as_str))?;
        for watcher in &mut self.watchers {
            watcher.list = None;
        }
        self.settle()
    }

    /// The guest that is there.
    fn guest(&self) -> Option<usize> {
        self.changes.checked_sub(1).map(|last| last % GUESTS)
    }

    /// Another guest takes the place of the one that is there.
    fn change(&mut self) -> Outcome<()> {
        let (before, place) = (self.guest(), self.members.len());
        let next = self.changes % GUESTS;
        match before {
            Some(_) => self.crowd.replace(place, &self.guests[next])?,
            None => drop(self.crowd.join(&self.guests[next])?),
        }
        self.changes += 1;
        if let Some(before) = before {
            self.there.remove(&format!("g{before}"));
        }
        self.there.insert(format!("g{next}"));
        Ok(())
    }

    /// How many changes all were told.
    fn told(&self) -> u64 {
        self.watchers.iter().map(|watcher| watcher.changes).sum()
    }

    fn hear_until(&mut self, due_ns: u64) -> Outcome<()> {
        while clock::monotonic_ns() < due_ns {
            self.hear(due_ns.saturating_sub(clock::monotonic_ns()))?;
        }
        Ok(())
    }

    /// Waits until the list of each is what is there.
    fn settle(&mut self) -> Outcome<()> {
        let end_ns = clock::monotonic_ns() + ARRIVAL_NS;
        let mut left: Vec<usize> = (0..self.watchers.len()).collect();
        loop {
            left.retain(|&watcher| self.watchers[watcher].list.as_ref() != Some(&self.there));
            if left.is_empty() {
                return Ok(());
            }
            if clock::monotonic_ns() > end_ns {
                return Err(format!("{} lists are not what is there", left.len()).into());
            }
            self.hear(50_000_000)?;
        }
    }

    fn hear(&mut self, wait_ns: u64) -> Outcome<()> {
        let WatchedRoom { crowd, watchers, misfits, .. } = self;
        crowd.hear(wait_ns, |client, message| {
            // Guests watch nothing.
            if let Some(watcher) = watchers.get_mut(client) {
                *misfits += u64::from(!watcher.hear(message));
            }
        })
    }
}
