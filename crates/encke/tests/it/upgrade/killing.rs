//! `kill -9` of the old server, the new one or the starter at a random moment of an upgrade, under
//! traffic, and what comes of it. It is one of three:
//!
//! - the old one goes on, with all its streams;
//! - the new one has them all;
//! - whoever owned them is dead: all of them are closed, as by any crash.
//!
//! Nothing else may be seen: no stream that is open and that nobody owns while a server answers, no
//! event twice on one stream, none out of order, and none lost that was acknowledged, but by a
//! crash.

use std::fmt::{self, Display};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use super::listeners::{Listener, Listeners};
use super::senders::{Expected, Sender, Sent, Traffic, WAYS};
use super::served::{Upgraded, kill};
use super::subscriber::{Kind, STREAMS};
use crate::harness::{DEADLINE, Program, Server, own_ports, wait_for};

/// Listeners of a run.
const LISTENERS: usize = 48;

/// Who is killed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Victim {
    Old,
    New,
    Starter,
}

/// What came of a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Outcome {
    OldGoesOn,
    NewHasAll,
    Crash,
}

/// How often each was seen.
#[derive(Default, Debug)]
pub(crate) struct Counts {
    runs: Vec<(Victim, Outcome)>,
    /// Sends whose fate nobody was told, of those that a crash cost nothing.
    unknown: usize,
    answered: usize,
}

/// A server, its listeners, and what was found of them so far.
pub(crate) struct Killing {
    /// None while one takes the place of another.
    server: Option<Upgraded>,
    listeners: Option<Listeners>,
    places: (SocketAddr, SocketAddr),
    random: fastrand::Rng,
    /// How long an upgrade takes that nobody disturbs.
    usual: Duration,
    data: tempfile::TempDir,
    pub(crate) counts: Counts,
}

impl Killing {
    pub(crate) fn new(seed: u64) -> Killing {
        let (data, ports) = (tempfile::tempdir().unwrap(), own_ports());
        let server = start(data.path(), &[&ports[0], &ports[1]]);
        let places = (server.listen(), server.api.address());
        let random = fastrand::Rng::with_seed(seed);
        let usual = Duration::ZERO;
        let (listeners, counts) = (None, Counts::default());
        let server = Some(server);
        let mut killing = Killing { server, listeners, places, random, usual, data, counts };
        killing.open_listeners();
        let begin = Instant::now();
        killing.server().upgrade(&[]);
        killing.usual = begin.elapsed();
        killing
    }

    fn server(&self) -> &Upgraded {
        self.server.as_ref().expect("there is one")
    }

    fn open_listeners(&mut self) {
        let one = |n: usize| {
            let kind = if n % 9 == 8 { Kind::Poll } else { STREAMS[n % 9] };
            (kind, vec![format!("own:{n}"), "all".to_owned()])
        };
        self.listeners = Some(Listeners::open(self.places.0, (0..LISTENERS).map(one).collect()));
        self.server().wait_online("all", LISTENERS as u64);
    }

    /// One run; what is wrong with it.
    pub(crate) fn run(&mut self) -> Result<(), String> {
        let victim = [Victim::Old, Victim::New, Victim::Starter][self.random.usize(..3)];
        let after = self.usual.mul_f64(self.random.f64() * 1.2);
        let (traffic, owner) = (Traffic::default(), self.server().owner());
        let (outcome, mut sent) = std::thread::scope(|scope| {
            let senders: Vec<_> = WAYS
                .map(|way| self.sender(way))
                .map(|sender| scope.spawn(|| sender.work(&traffic)))
                .into_iter()
                .collect();
            let answered = || traffic.answered.load(std::sync::atomic::Ordering::Relaxed);
            wait_for("sends are answered", || answered() >= 20);
            let mut starter = Program::spawn(&mut self.server().command(&[]));
            self.kill_one(victim, owner, &mut starter, after);
            let outcome = self.settled(owner, &mut starter);
            traffic.stop.store(true, std::sync::atomic::Ordering::Relaxed);
            let sent = senders.into_iter().flat_map(|sender| sender.join().unwrap()).collect();
            (outcome, sent)
        });
        let outcome = outcome.and_then(|outcome| {
            self.check(outcome, &mut sent).map_err(|wrong| format!("{outcome:?}: {wrong}"))?;
            Ok(outcome)
        });
        let story = |wrong| format!("{victim:?} was killed after {after:.1?}: {wrong}");
        self.counts.runs.push((victim, outcome.map_err(story)?));
        if matches!(self.counts.runs.last(), Some((_, Outcome::Crash))) {
            self.begin_anew();
        }
        Ok(())
    }

    fn sender(&self, way: super::senders::Way) -> Sender {
        let own = (0..LISTENERS).map(|n| format!("own:{n}"));
        let subjects = own.flat_map(|own| [own, "all".to_owned()]).collect();
        let pause = Duration::from_millis(2);
        // A key is remembered from one run to the next.
        let name = format!("{way:?} of run {}", self.counts.runs.len());
        Sender { api: self.places.1, way, name, subjects, pause }
    }

    /// Kills `victim` so long after the starter's start, if it is there.
    fn kill_one(&self, victim: Victim, owner: u32, starter: &mut Program, after: Duration) {
        let begin = Instant::now();
        while begin.elapsed() < after {
            std::thread::yield_now();
        }
        match victim {
            Victim::Old => kill(owner),
            Victim::Starter => kill(starter.pid()),
            // It may not be there yet.
            Victim::New => loop {
                let other = self.server().processes().into_iter().find(|&pid| pid != owner);
                if let Some(successor) = other {
                    break kill(successor);
                }
                if starter.has_ended() {
                    break;
                }
            },
        }
    }

    /// Waits until it is decided who owns the streams.
    fn settled(&self, old: u32, starter: &mut Program) -> Result<Outcome, String> {
        let listeners = self.listeners.as_ref().expect("somebody listens");
        let deadline = Instant::now() + DEADLINE;
        let mut pauses = testing::pauses();
        loop {
            let alive = self.server().processes();
            let ended = listeners.lock().iter().filter(|one| one.ended.is_some()).count();
            let owner = self.server().owner_if_any().filter(|owner| alive.contains(owner));
            if starter.has_ended() {
                match owner {
                    _ if ended == LISTENERS => return Ok(Outcome::Crash),
                    Some(owner) if self.answers() && (owner != old || alive == [old]) => {
                        let old_goes_on = owner == old;
                        let outcome =
                            if old_goes_on { Outcome::OldGoesOn } else { Outcome::NewHasAll };
                        return Ok(outcome);
                    }
                    _ => {}
                }
            }
            if Instant::now() > deadline {
                return Err(format!(
                    "not decided: {ended} of {LISTENERS} streams have ended, {alive:?} live, \
                     {owner:?} owns\n{}",
                    self.server().stderr()
                ));
            }
            std::thread::park_timeout(pauses.next().expect("they do not end"));
        }
    }

    /// Whether a send is answered on a connection of its own.
    fn answers(&self) -> bool {
        let event = json!({ "about": "nobody", "data": 0 });
        let answer = self.server().api.another().try_post("/send", &event);
        answer.is_ok_and(|answer| answer.status() == 200)
    }

    /// What is wrong with what was heard.
    fn check(&mut self, outcome: Outcome, sent: &mut Vec<Sent>) -> Result<(), String> {
        let listeners = self.listeners.as_ref().expect("somebody listens");
        let is_whole = outcome != Outcome::Crash;
        if is_whole {
            let ended = listeners.lock().iter().filter(|one| one.ended.is_some()).count();
            if ended > 0 {
                return Err(format!("{ended} of {LISTENERS} streams were closed"));
            }
            self.reach_all(sent)?;
            self.counts.answered += sent.iter().filter(|one| one.answer.is_ok()).count();
            self.counts.unknown += sent.iter().filter(|one| one.answer.is_err()).count();
        }
        let mut listeners = listeners.lock();
        for (n, Listener { subscriber, ids, .. }) in listeners.iter_mut().enumerate() {
            let heard = std::mem::take(&mut subscriber.heard);
            let heard: Vec<&str> = heard.iter().map(|one| one.data.as_str().unwrap()).collect();
            if let Some(fault) = Expected::of(sent, ids).fault(&heard, is_whole) {
                return Err(format!("stream {n} ({:?}) {fault}", subscriber.kind));
            }
            if subscriber.gaps > 0 {
                return Err(format!("stream {n} ({:?}) is told a gap", subscriber.kind));
            }
        }
        Ok(())
    }

    /// A send about each stream reaches it, and is the last that it hears.
    fn reach_all(&self, sent: &mut Vec<Sent>) -> Result<(), String> {
        let listeners = self.listeners.as_ref().expect("somebody listens");
        let api = self.server().api.another();
        for n in 0..LISTENERS {
            let (about, kind) = (format!("own:{n}"), listeners.lock()[n].subscriber.kind);
            let answer = api.try_post("/send", &json!({ "about": about, "data": "reached" }));
            let answer = answer.map_err(|error| format!("no answer about {about}: {error}"))?;
            let body = answer.json();
            let reached = kind == Kind::Poll || body["delivered"] == 1;
            let Some(id) = body["id"].as_str().filter(|_| reached) else {
                return Err(format!("stream {n} ({kind:?}) is open and nobody's: {body}"));
            };
            let answer = Ok((id.to_owned(), 1));
            let took = Duration::ZERO;
            sent.push(Sent { about, text: "reached".to_owned(), answer, took });
        }
        let has_it =
            |one: &Listener| one.subscriber.heard.back().is_some_and(|one| one.data == "reached");
        match listeners.wait(|listeners| listeners.iter().all(has_it)) {
            true => Ok(()),
            false => Err("not all streams hear what is about them".to_owned()),
        }
    }

    /// A new server on the same data and the same ports, as after any crash.
    pub(crate) fn begin_anew(&mut self) {
        // Its end is that of all who serve from its data.
        self.server = None;
        let (listen, api) = self.places;
        let ports = [format!("--listen={listen}"), format!("--api={api}")];
        self.server = Some(start(self.data.path(), &[&ports[0], &ports[1]]));
        self.open_listeners();
    }
}

fn start(data: &Path, ports: &[&str]) -> Upgraded {
    let options = ["--websocket-deflate", "--history-events=100000", "--max-backlog=1MiB"];
    Upgraded::of(Server::start_in(data, &[&options, ports].concat()), data)
}

impl Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for victim in [Victim::Old, Victim::New, Victim::Starter] {
            let of = |outcome| self.runs.iter().filter(|&&run| run == (victim, outcome)).count();
            let [old, new, crash] =
                [Outcome::OldGoesOn, Outcome::NewHasAll, Outcome::Crash].map(of);
            writeln!(
                f,
                "{victim:?} killed: {old} times the old one goes on, {new} times the new one has \
                 all, {crash} crashes"
            )?;
        }
        write!(f, "{} sends answered, of {} nobody knows", self.answered, self.unknown)
    }
}
