//! Two processes and one store, and `kill -9` of either while it changes hands, by seed: what was
//! acknowledged by either is there for a third one.

use std::path::Path;
use std::time::Duration;

use super::crash::{Pairs, apply, everything, operations, spin};
use super::player::Player;
use super::{open, seed};

const ROUNDS: usize = 40;

/// What happens, in this order: who does it, and what.
const STEPS: [(usize, &str); 5] =
    [(NEW, "beside"), (NEW, "look"), (OLD, "go"), (NEW, "take"), (NEW, "watch")];
const OLD: usize = 0;
const NEW: usize = 1;

/// One of the two, and what it has stored: each works as a thread of the crash test does.
struct Process {
    player: Player,
    thread: u64,
    pairs: Pairs,
    /// The same with the change that was under way when it was killed.
    or: Pairs,
    /// The seed of its work.
    seed: u64,
    acknowledged: usize,
}

impl Process {
    fn start(dir: &Path, thread: usize, pairs: Pairs) -> Process {
        let player = Player::start(dir);
        let or = pairs.clone();
        Process { player, thread: thread as u64, pairs, or, seed: 0, acknowledged: 0 }
    }

    /// Begins to work, and has done some of it.
    fn work(&mut self, random: &mut fastrand::Rng) {
        self.seed = random.u64(1..);
        let work = format!("work {} {}", self.seed, self.thread);
        assert_eq!(self.player.say(&work), "works");
        self.player.wait_until_done(random.usize(..12));
    }

    /// Takes note of what it has stored by its work, which has come to its end.
    fn note(&mut self) {
        let done = std::mem::take(&mut self.player.done);
        self.acknowledged += done;
        let mut operations = operations(self.seed, self.thread);
        operations.by_ref().take(done).for_each(|done| apply(&mut self.pairs, &done));
        self.or = self.pairs.clone();
        apply(&mut self.or, &operations.next().unwrap());
    }

    fn kill(&mut self) {
        self.player.kill();
        self.note();
        if self.player.stopped || self.seed == 0 {
            self.or = self.pairs.clone();
        }
    }

    /// What is stored of it, having looked that this is what it was told.
    fn check(self, stored: &Pairs, round: &str) -> Pairs {
        let own = |(subscriber, _): &&(String, String)| {
            let digits: u64 = subscriber.trim_start_matches("user:").parse().unwrap();
            digits / 1000 == self.thread + 1
        };
        let own: Pairs = stored.iter().filter(own).cloned().collect();
        let is_known = own == self.pairs || own == self.or;
        let (lost, extra) = (self.pairs.difference(&own), own.difference(&self.pairs));
        assert!(is_known, "{round}: lost {}, new {}", lost.count(), extra.count());
        own
    }
}

#[test]
fn store_that_changes_hands_survives_kills_of_either() {
    let mut random = fastrand::Rng::with_seed(seed());
    let dir = tempfile::tempdir().unwrap();
    let mut models = [Pairs::new(), Pairs::new()];
    let mut acknowledged = [0, 0];
    for round in 0..ROUNDS {
        let (victim, at) = (random.usize(..2), random.usize(..=STEPS.len()));
        let mut thread = 0..;
        let mut both =
            models.map(|pairs| Process::start(dir.path(), thread.next().unwrap(), pairs));
        play(&mut both, victim, at, &mut random);
        let stored = everything(&open(dir.path()));
        both.iter().for_each(|one| acknowledged[one.thread as usize] += one.acknowledged);
        let name = format!("round {round}, {victim} killed at step {at}");
        models = both.map(|process| process.check(&stored, &name));
    }
    println!("acknowledged by the old ones and the new ones: {acknowledged:?}");
    assert!(acknowledged.iter().all(|&count| count > 0), "both worked: {acknowledged:?}");
}

/// Plays all steps up to `at`, in the middle of which `victim` is killed; the other one goes on.
fn play(both: &mut [Process; 2], victim: usize, at: usize, random: &mut fastrand::Rng) {
    assert_eq!(both[OLD].player.say("open"), "ok");
    assert_eq!(both[OLD].player.say("watch"), "watches");
    both[OLD].work(random);
    for (who, step) in &STEPS[..at] {
        let answer = both[*who].player.say(step);
        assert!(!answer.starts_with("error"), "{step}: {answer}");
    }
    let mut answer = Some("ok".to_owned());
    if let Some(&(who, step)) = STEPS.get(at) {
        both[who].player.begin(step);
        spin(Duration::from_micros(random.u64(..4000)));
        both[victim].kill();
        answer = if who == victim { None } else { both[who].player.answer() };
    } else {
        both[NEW].work(random);
        both[victim].kill();
    }
    let survivor = &mut both[1 - victim];
    if victim == NEW {
        let has_let_go = at >= 2;
        if has_let_go {
            survivor.player.wait_until_stopped();
            survivor.note();
        }
        assert_eq!(survivor.player.say("back"), "ok");
        if has_let_go {
            survivor.player.stopped = false;
            survivor.work(random);
        }
    } else {
        let has_begun = at > 0 || answer.is_some_and(|answer| answer == "ok");
        let has_taken = at >= 3;
        if has_begun && !has_taken {
            assert_eq!(survivor.player.say("take"), "ok");
        }
        if has_begun && at < STEPS.len() {
            survivor.work(random);
        }
    }
    spin(Duration::from_micros(random.u64(..3000)));
    survivor.kill();
}
