//! `cargo bench -p hub --bench lists`: how long somebody waits who joins a presence channel of
//! 10,000 members, each with 1 KB of what is told of it, while others work on it.
//!
//! One thread lets a member join and leave again, again and again. Another one does
//! nothing, makes one list after the other, or gives one member after the other another info. What
//! is told is the longest of the waits, and the 99th percentile. The members of a channel are under
//! one lock, so that is how long it is held, as far as this machine lets both run at once.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hub::{Id, IdText, Info, ListLimits, Members, Names};

const MEMBERS: usize = 10_000;
const INFO_BYTES: usize = 1_000;
const JOINS: usize = 20_000;

/// A channel, and all that is in it.
struct Channel {
    members: Members,
    room: Id,
    subs: Vec<Id>,
}

impl Channel {
    fn new() -> Channel {
        let names = Arc::new(Names::new([7; 16]));
        let key = |text: &str| names.acquire(IdText::of_key(text).expect("it is a key"));
        let room = key("#c1:presence-a");
        let subs: Vec<Id> = (0..MEMBERS).map(|n| key(&format!("#m:user-{n}"))).collect();
        let limits = ListLimits { members: 1_000, bytes: 1 << 20 };
        let members = Members::new(Arc::clone(&names), limits);
        let channel = Channel { members, room, subs };
        for (n, &sub) in channel.subs.iter().enumerate() {
            assert!(channel.members.join_within(room, sub, Some(&info(n)), MEMBERS));
        }
        channel
    }

    /// Joins beside what `work` does again and again, given how often it did.
    fn told(&self, name: &str, work: impl Fn(usize) + Sync) {
        let is_over = AtomicBool::new(false);
        let (mut waits, rounds): (Vec<Duration>, usize) = thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let over = || is_over.load(Ordering::Relaxed);
                (0..).take_while(|&round| !over() && black_box((work(round), true)).1).count()
            });
            let waits = (0..JOINS).map(|n| {
                let sub = self.subs[n * 7 % MEMBERS];
                let begun = Instant::now();
                assert!(self.members.join_within(self.room, sub, None, MEMBERS));
                self.members.leave(self.room, sub);
                begun.elapsed()
            });
            let waits = waits.collect();
            is_over.store(true, Ordering::Relaxed);
            (waits, worker.join().expect("it works"))
        });
        waits.sort_unstable();
        let us = |wait: Duration| wait.as_secs_f64() * 1e6;
        let (p99, longest) = (us(waits[JOINS * 99 / 100]), us(waits[JOINS - 1]));
        println!("{name:<24} {p99:>8.0} µs at p99, {longest:>8.0} µs at most; {rounds} times");
    }
}

fn info(n: usize) -> Info {
    Info::new(&format!("\"{n:0>INFO_BYTES$}\""))
}

fn main() {
    let channel = Channel::new();
    channel.told("nothing beside", |_| thread::yield_now());
    channel.told("lists beside", |_| drop(black_box(channel.members.list(channel.room))));
    channel.told("other infos beside", |round| {
        let sub = channel.subs[round % MEMBERS];
        channel.members.renew(channel.room, sub, Some(&info(round)));
    });
}
