//! A room of many members who all watch it, where others come and go.

use std::collections::BTreeSet;

use serde_json::Value;
use sys::clock;

use crate::crowd::Crowd;
use crate::harness::Server;
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

pub(crate) fn run(plan: &Plan) -> Outcome<()> {
    let key = token_option();
    // A list of all of them takes more than the default backlog.
    let options = [&*key, "--members-max=5000", "--max-backlog=1MiB", "--presence-grace=1"];
    let server = Server::start(&options);
    let mut crowd = Crowd::new(server.listen())?;
    let mut watchers: Vec<Watcher> = Vec::new();
    let mut misfits = 0_u64;
    for member in 0..plan.members {
        let token = token(&format!("m{member}"));
        crowd.join(&format!("/stream/room:1?members=room:1&token={token}"))?;
        watchers.push(Watcher::default());
        hear(&mut crowd, &mut watchers, &mut misfits, 0)?;
    }
    let guests: Vec<String> = (0..GUESTS)
        .map(|guest| format!("/stream/room:1?token={}", token(&format!("g{guest}"))))
        .collect();
    let mut there: BTreeSet<String> = (0..plan.members).map(|n| format!("m{n}")).collect();
    settle(&mut crowd, &mut watchers, &there, &mut misfits)?;
    let before: u64 = watchers.iter().map(|watcher| watcher.changes).sum();
    let (cpu, start_ns) = (clock::process_cpu_of(server.pid())?, clock::monotonic_ns());
    // Each change is a guest that takes the place of the one before: one joins, one leaves.
    let changes = (plan.changes as f64 / 2.0 * plan.seconds) as u64;
    let mut place = None;
    for change in 0..changes {
        let guest = change as usize % GUESTS;
        match place {
            Some(place) => crowd.replace(place, &guests[guest])?,
            None => place = Some(crowd.join(&guests[guest])?),
        }
        let due_ns = start_ns + (change + 1) * 2_000_000_000 / plan.changes.max(1);
        while clock::monotonic_ns() < due_ns {
            let wait_ns = due_ns.saturating_sub(clock::monotonic_ns());
            hear(&mut crowd, &mut watchers, &mut misfits, wait_ns)?;
        }
    }
    there.extend((changes > 0).then(|| format!("g{}", (changes - 1) as usize % GUESTS)));
    let elapsed_ns = clock::monotonic_ns() - start_ns;
    let cpu_ns = (clock::process_cpu_of(server.pid())? - cpu).as_nanos() as f64;
    settle(&mut crowd, &mut watchers, &there, &mut misfits)?;
    let told = watchers.iter().map(|watcher| watcher.changes).sum::<u64>() - before;
    println!("members: a room of {} who watch it", plan.members);
    println!(
        "  {changes} joins and as many leaves in {:.1} s: {told} changes told, {misfits} that did \
         not fit, all lists are what is there",
        elapsed_ns as f64 / 1e9
    );
    println!("  {:.1} % of a core", 100.0 * cpu_ns / elapsed_ns as f64);
    if misfits > 0 { Err("a change did not fit the list".into()) } else { Ok(()) }
}

/// Waits until the list of each is what is there.
fn settle(
    crowd: &mut Crowd,
    watchers: &mut [Watcher],
    there: &BTreeSet<String>,
    misfits: &mut u64,
) -> Outcome<()> {
    let end_ns = clock::monotonic_ns() + ARRIVAL_NS;
    let mut left: Vec<usize> = (0..watchers.len()).collect();
    loop {
        left.retain(|&watcher| watchers[watcher].list.as_ref() != Some(there));
        if left.is_empty() {
            return Ok(());
        }
        if clock::monotonic_ns() > end_ns {
            return Err(format!("{} lists are not what is there", left.len()).into());
        }
        hear(crowd, watchers, misfits, 50_000_000)?;
    }
}

fn hear(
    crowd: &mut Crowd,
    watchers: &mut [Watcher],
    misfits: &mut u64,
    wait_ns: u64,
) -> Outcome<()> {
    crowd.hear(wait_ns, |client, message| {
        // Guests watch nothing.
        if let Some(watcher) = watchers.get_mut(client) {
            *misfits += u64::from(!watcher.hear(message));
        }
    })
}
