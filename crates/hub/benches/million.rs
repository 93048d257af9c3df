//! `cargo bench -p hub`: a million connections log in, are found and log out. They do so under one
//! id, under an id each, and under a name each. They also do so under a second id, which is each
//! one's own or one of all, and ids are looked up as those of an audience are.
//!
//! What matters of a call under a lock is how long the lock is held once. So each call is timed by
//! itself, on one thread, where nobody waits. The median, a high quantile and the longest are told.
//! A thread that the kernel puts aside makes a call long that is not. So the longest is told of
//! each of three rounds that do the same, and no call itself takes more than the least of the
//! three. Bytes for each are those of the process' heap (`RssAnon`). The server sets its allocator
//! as `GLIBC_TUNABLES=glibc.malloc.mxfast=0` does.
//!
//! Options, after `--`: `--connections N` (default 1,000,000), `--part N` for one of the parts.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use hub::{Audience, Change, Changes, ConnRef, Directory, Id, IdText, Names, Nobody};
use hub::{ListLimits, Members, Roster};

const ROUNDS: usize = 3;
/// Changes that are taken together: those of a twentieth of a second at 100,000 a second.
const TAKEN: usize = 5_000;
/// Workers that the connections are spread over.
const WORKERS: usize = 64;
/// What second ids are greater by.
const SECOND: usize = 1 << 40;

/// What single calls of one kind took, in nanoseconds, round by round.
struct Calls {
    name: &'static str,
    rounds: Vec<Vec<u32>>,
}

impl Calls {
    /// `calls` in each round are expected, so that none waits for the list to grow.
    fn new(name: &'static str, calls: usize) -> Calls {
        // Touched once, or the first round's pages would count for the heap that is measured.
        let list = || {
            let mut list = vec![1; calls];
            list.clear();
            list
        };
        Calls { name, rounds: (0..ROUNDS).map(|_| list()).collect() }
    }

    fn time<T>(&mut self, round: usize, call: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let result = call();
        let nanoseconds = begun.elapsed().as_nanos();
        self.rounds[round].push(u32::try_from(nanoseconds).unwrap_or(u32::MAX));
        result
    }

    fn print(&self) {
        let longest: Vec<String> = self
            .rounds
            .iter()
            .map(|round| format!("{:.1}", micros(round.iter().max().copied().unwrap_or(0))))
            .collect();
        let mut all = self.rounds.concat();
        all.sort_unstable();
        let at = |share: f64| micros(all[((all.len() - 1) as f64 * share) as usize]);
        println!(
            "  {:<8} {:>9} calls: median {:>7.2} µs, 99.99 % {:>7.2} µs, longest {} µs",
            self.name,
            all.len() / ROUNDS,
            at(0.5),
            at(0.9999),
            longest.join(", "),
        );
    }
}

impl Calls {
    /// Microseconds of one, of the round that took least: the others were disturbed.
    fn mean(&self) -> f64 {
        let sums = self.rounds.iter().map(|round| round.iter().map(|&ns| u64::from(ns)).sum());
        let least: u64 = sums.min().unwrap_or_default();
        least as f64 / 1000.0 / self.rounds[0].len() as f64
    }
}

fn micros(nanoseconds: u32) -> f64 {
    f64::from(nanoseconds) / 1000.0
}

/// Bytes of this process' heap and stacks that are in memory (proc(5)).
fn heap_bytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) * 1024.0
}

fn integer(n: usize) -> Id {
    Id::integer(n as u64).unwrap_or(Id::NONE)
}

fn second(n: usize) -> Id {
    integer(SECOND + n)
}

/// The connections, spread over workers as they come.
fn conn(n: usize) -> ConnRef {
    ConnRef::new(n % WORKERS, n / WORKERS, 1)
}

/// Logs `connections` in under the id that `id` gives each, gathers the audience of `subject`, and
/// logs them out, in another order than they came. Where they have a `first` one, they are logged
/// in under that before, which is not measured.
fn directory(
    name: &str,
    connections: usize,
    subject: Id,
    first: Option<fn(usize) -> Id>,
    id: impl Fn(usize) -> Id,
) {
    println!("{name}");
    let mut logins = Calls::new("login", connections);
    let mut steps = Calls::new("gather", connections / 1000 + 10);
    let mut logouts = Calls::new("logout", connections);
    let mut bytes = 0.0;
    for round in 0..ROUNDS {
        let directory = Directory::default();
        let logged_in = first.map_or(0, |_| connections);
        for n in 0..logged_in {
            directory.login(first.map_or(Id::NONE, |first| first(n)), conn(n));
        }
        let before = heap_bytes();
        for n in 0..connections {
            logins.time(round, || directory.login(id(n), conn(n)));
        }
        if round == 0 {
            bytes = (heap_bytes() - before) / connections as f64;
        }
        let mut audience = Audience::of([subject], false);
        while steps.time(round, || audience.gather(&directory, &Nobody)).unwrap_or(false) {}
        let found: usize = audience.needs().map(|room| room.targets).sum();
        assert_eq!(found, directory.connections(subject), "the audience is whole");
        // A number that has no factor in common with how many there are visits each once.
        for n in (0..connections).map(|n| n * 7_919 % connections) {
            // Of further ids a worker has kept the hash.
            let hash = directory.hash(id(n));
            logouts.time(round, || match first {
                Some(_) => drop(directory.logout_of_hash(conn(n), hash)),
                None => directory.logout(id(n), conn(n)),
            });
        }
        assert_eq!(directory.ids_online(), logged_in, "all are logged out");
    }
    [&logins, &steps, &logouts].into_iter().for_each(Calls::print);
    println!("  {bytes:.1} bytes for each");
}

/// Looks ids up sixteen at a time, as those of an audience are: all of them online, and none. So
/// many connections have two ids each.
fn together(connections: usize) {
    println!("sixteen look-ups together, two ids each");
    let directory = Directory::default();
    for n in 0..connections {
        directory.login(integer(n), conn(n));
        directory.login(second(n), conn(n));
    }
    let calls = connections / 16;
    let (mut online, mut offline) = (Calls::new("online", calls), Calls::new("offline", calls));
    let mut large = Vec::new();
    for round in 0..ROUNDS {
        for call in 0..calls {
            let some = |n: usize| (call * 16 + n).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
            let ids: [Id; 16] = std::array::from_fn(|n| integer(some(n) % connections));
            let others = ids.map(|id| integer(2 * SECOND + id.as_integer().unwrap_or(0) as usize));
            let mut found = 0;
            online.time(round, || directory.visit(&ids, &mut large, |_| found += 1));
            offline.time(round, || directory.visit(&others, &mut large, |_| found += 1));
            assert_eq!(found, ids.len(), "those who are online are found");
        }
    }
    [&online, &offline].into_iter().for_each(Calls::print);
}

/// The same for the names of a million connections, of 16 bytes each.
fn names(connections: usize) {
    println!("a name each");
    let mut logins = Calls::new("login", connections);
    let mut logouts = Calls::new("logout", connections);
    let mut bytes = 0.0;
    for round in 0..ROUNDS {
        let names = Names::new([7; 16]);
        names.set_bytes_max(usize::MAX);
        let mut ids = vec![Id::NONE; connections];
        let before = heap_bytes();
        for (n, id) in ids.iter_mut().enumerate() {
            let name = format!("somebody:{n:07}");
            let text = IdText::parse(&name).unwrap_or_else(|error| panic!("{name}: {error}"));
            *id = logins.time(round, || names.login(text, true)).unwrap_or(Id::NONE);
        }
        if round == 0 {
            bytes = (heap_bytes() - before) / connections as f64;
        }
        let counted = names.bytes() / connections;
        for n in (0..connections).map(|n| n * 7_919 % connections) {
            logouts.time(round, || names.logout(ids[n]));
        }
        assert_eq!((names.len(), names.bytes()), (0, 0), "all are logged out");
        if round == 0 {
            println!("  {bytes:.1} bytes for each, counted for {counted} with the directory's");
        }
    }
    [&logins, &logouts].into_iter().for_each(Calls::print);
}

/// Logs connections in and out while somebody hears of it, as a worker does it: a name's log-in,
/// that of the directory, and back. What waits is taken after each `TAKEN` of them, by itself.
fn heard(connections: usize, text: impl Fn(usize) -> String) {
    let mut mean = [0.0; 2];
    for is_heard in [false, true] {
        println!("  {}", if is_heard { "while somebody listens" } else { "while nobody does" });
        let mut logins = Calls::new("login", connections);
        let mut logouts = Calls::new("logout", connections);
        let mut takes = Calls::new("take", connections / TAKEN * 2 + 2);
        for round in 0..ROUNDS {
            let names = Arc::new(Names::new([7; 16]));
            names.set_bytes_max(usize::MAX);
            let directory = Directory::noting(Changes::new(Arc::clone(&names)));
            let Some(changes) = directory.changes() else { unreachable!("it notes changes") };
            changes.hear(is_heard);
            let mut ids = vec![Id::NONE; connections];
            let mut taken: Vec<Change> = Vec::new();
            let mut take = || {
                (0..Changes::LISTS).for_each(|list| changes.take(list, &mut taken));
                taken.drain(..).for_each(|change| names.release(change.id));
            };
            for (n, id) in ids.iter_mut().enumerate() {
                let text = text(n);
                let text = IdText::parse(&text).unwrap_or_else(|error| panic!("{error}"));
                logins.time(round, || {
                    *id = names.login(text, true).unwrap_or(Id::NONE);
                    directory.login(*id, conn(n));
                });
                if n % TAKEN == 0 {
                    takes.time(round, &mut take);
                }
            }
            for n in (0..connections).map(|n| n * 7_919 % connections) {
                logouts.time(round, || {
                    directory.logout(ids[n], conn(n));
                    names.logout(ids[n]);
                });
                if n % TAKEN == 0 {
                    takes.time(round, &mut take);
                }
            }
            assert_eq!((directory.ids_online(), changes.take_lost()), (0, 0), "nothing is lost");
        }
        [&logins, &logouts, &takes].into_iter().for_each(Calls::print);
        mean[usize::from(is_heard)] = (logins.mean() + logouts.mean()) / 2.0;
    }
    println!("  a log-in or log-out costs {:.3} µs more by it", mean[1] - mean[0]);
}

/// A million users, whose ids are integers, join the rooms that `room` gives each, and leave; the
/// roster looks at it stripe by stripe.
fn members(name: &str, connections: usize, room: impl Fn(usize) -> Id) {
    println!("{name}");
    let user = |n: usize| Id::integer(n as u64).unwrap_or(Id::NONE);
    let mut joins = Calls::new("join", connections);
    let mut looks = Calls::new("look", 2 * Roster::STRIPES);
    let mut leaves = Calls::new("leave", connections);
    let mut bytes = 0.0;
    for round in 0..ROUNDS {
        let limits = ListLimits { members: 1_000, bytes: 56 << 10 };
        let members = Arc::new(Members::new(Arc::new(Names::new([7; 16])), limits));
        let mut roster = Roster::new(Arc::clone(&members), 0);
        let mut updates = Vec::new();
        let before = heap_bytes();
        for n in 0..connections {
            joins.time(round, || members.join(room(n), user(n), None));
        }
        let mut look = |roster: &mut Roster| {
            for stripe in 0..Roster::STRIPES {
                _ = looks.time(round, || roster.look(stripe, 0, &mut updates));
            }
        };
        look(&mut roster);
        if round == 0 {
            bytes = (heap_bytes() - before) / connections as f64;
        }
        for n in (0..connections).map(|n| n * 7_919 % connections) {
            leaves.time(round, || members.leave(room(n), user(n)));
        }
        look(&mut roster);
        assert!(members.is_empty(), "all have left");
    }
    [&joins, &looks, &leaves].into_iter().for_each(Calls::print);
    println!("  {bytes:.1} bytes for each");
}

/// What is measured, each in a process of its own: what one gave back would be another's heap.
const PARTS: [fn(usize); 10] = [
    |connections| directory("one id", connections, integer(7), None, |_| integer(7)),
    |connections| directory("an id each", connections, integer(7), None, integer),
    |connections| directory("a second id each", connections, second(7), Some(integer), second),
    |connections| {
        directory("a second id of all", connections, second(7), Some(integer), |_| second(7));
    },
    names,
    |connections| members("members of one room", connections, |_| integer(7)),
    |connections| members("members of a room each", connections, integer),
    |connections| {
        println!("coming and going, an integer each");
        heard(connections, |n| n.to_string());
    },
    |connections| {
        println!("coming and going, a name each");
        heard(connections, |n| format!("somebody:{n:07}"));
    },
    together,
];

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name);
        at.and_then(|at| arguments.get(at + 1)?.parse::<usize>().ok())
    };
    let connections = value("--connections").unwrap_or(1_000_000);
    if let Some(part) = value("--part") {
        PARTS[part](connections);
        return Ok(());
    }
    for part in 0..PARTS.len() {
        let mut child = Command::new(std::env::current_exe()?);
        child.args(["--connections", &connections.to_string(), "--part", &part.to_string()]);
        assert!(child.status()?.success(), "part {part} fails");
    }
    Ok(())
}
