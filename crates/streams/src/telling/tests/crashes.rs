//! Random appends over losses of power, by seed: of what was written and not synced each sector may
//! be on disk or not.

use std::path::PathBuf;

use super::*;
use crate::Start;

/// Some seconds on a disk; `cargo xtask ci` takes half of them.
const SEEDS: u64 = 8;

/// Processes of one seed, one after the other.
const LIVES: u64 = 8;

const PATHS: u64 = 3;

/// Numbers by a seed (Knuth's MMIX generator).
#[derive(Clone)]
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % bound
    }
}

/// An event: of which stream, where it ends, what it tells.
type Sent = (String, Offset, String);

/// The log of events, and a machine that may lose its power while something is told.
struct Machine<'s> {
    store: &'s Store,
    dir: &'s Path,
    /// What the next process finds.
    next: PathBuf,
    random: RefCell<Random>,
    log: RefCell<Vec<Sent>>,
    /// The log at the loss of power, once that has come.
    left: RefCell<Option<Vec<Sent>>>,
}

impl Machine<'_> {
    /// One time in `times`.
    fn happens(&self, times: u64) -> bool {
        self.random.borrow_mut().below(times) == 0
    }

    fn is_over(&self) -> bool {
        self.left.borrow().is_some()
    }

    /// What is on disk now, if the power is lost.
    fn lose_power(&self) {
        if self.is_over() {
            return;
        }
        copy(self.dir, &self.next);
        let notes = self.store.notes.as_ref().unwrap();
        let mut left = fs::read(self.next.join("untold")).unwrap();
        let synced = notes.synced.lock();
        for (left, synced) in left.chunks_mut(PLACE_BYTES).zip(synced.bytes.chunks(PLACE_BYTES)) {
            if self.happens(2) {
                left.copy_from_slice(synced);
            }
        }
        fs::write(self.next.join("untold"), left).unwrap();
        *self.left.borrow_mut() = Some(self.log.borrow().clone());
    }
}

impl Teller for Machine<'_> {
    fn outlives(&self, _path: &str) -> bool {
        true
    }

    fn is_safe(&self, _number: u64) -> bool {
        true
    }

    fn tell(&self, told: &AppendNotice<'_>) -> Outcome {
        if self.happens(12) {
            self.lose_power();
        }
        if self.happens(6) {
            return Outcome::Not;
        }
        let text = String::from_utf8(told.data.to_vec()).unwrap();
        self.log.borrow_mut().push((told.path.into(), told.next, text));
        if self.happens(12) {
            self.lose_power();
        }
        if self.happens(6) { Outcome::Unsure(1) } else { Outcome::Told }
    }

    fn was_told(&self, told: &AppendNotice<'_>) -> io::Result<bool> {
        Ok(self.log.borrow().iter().any(|(_, next, _)| *next == told.next))
    }
}

/// One process, until the power is lost.
fn live(machine: &Machine<'_>, number: &mut u64) {
    while !machine.is_over() {
        *number += 1;
        let below = |bound| machine.random.borrow_mut().below(bound);
        match below(12) {
            0 => machine.store.retire_notes(),
            1 => drop(tell_all(machine.store, machine)),
            2 => machine.lose_power(),
            _ => {
                let (path, text) = (format!("run:{}", below(PATHS)), format!("{number},"));
                // It exists, or its last append cannot be told now.
                let _ = machine.store.create(&path, &CREATE, Some(machine));
                let _ = machine.store.append(&path, &bytes(text.as_bytes()), Some(machine));
            }
        }
    }
}

#[test]
fn each_append_is_told_once_and_in_order_whenever_the_power_is_lost() {
    for seed in testing::simulator_seeds(SEEDS).tried {
        println!("run it again with ENCKE_SEED={seed}");
        let dir = TempDir::new().unwrap();
        let (mut at, mut random) = (dir.path().join("0"), Random(seed));
        fs::create_dir(&at).unwrap();
        let (mut log, mut number) = (Vec::new(), 0);
        for lifetime in 1..=LIVES {
            let (store, next) = (open(&at), dir.path().join(lifetime.to_string()));
            let machine = Machine {
                store: &store,
                dir: &at,
                next: next.clone(),
                random: RefCell::new(random.clone()),
                log: RefCell::new(log),
                left: RefCell::default(),
            };
            live(&machine, &mut number);
            log = machine.left.take().unwrap();
            random = machine.random.into_inner();
            at = next;
        }
        let (store, last) = (open(&at), Recorder::default());
        last.ends.borrow_mut().extend(log.iter().map(|(_, next, _)| *next));
        assert!(tell_all(&store, &last));
        let rest = last.told();
        for path in (0..PATHS).map(|path| format!("run:{path}")) {
            let Ok(piece) = store.read(&path, Start::Beginning, usize::MAX) else { continue };
            let sent = log.iter().filter(|(about, ..)| *about == path).map(|(.., text)| &**text);
            let prefix = format!("{path} ");
            let rest = rest.iter().filter_map(|line| line.strip_prefix(&prefix));
            let all: String = sent.chain(rest).collect();
            assert_eq!(all, String::from_utf8(piece.data).unwrap(), "seed {seed}: {path}");
        }
    }
}
