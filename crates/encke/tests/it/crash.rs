//! `kill -9` at random moments, while several applications change the graph: what was acknowledged
//! is there afterwards, what was not is there wholly or not at all, and both directions agree.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Api, DEADLINE, Server, escape, seed};

type Pairs = BTreeSet<(String, String)>;

const KILLS: u64 = 60;
const WRITERS: u64 = 3;
const SUBSCRIBERS: u64 = 16;
const SUBSCRIBEES: u64 = 24;

/// One request: add or remove some pairs.
struct Change {
    add: bool,
    pairs: Vec<(String, String)>,
}

/// A name or, for every second number, an integer.
fn id(kind: &str, number: u64) -> String {
    if number.is_multiple_of(2) { format!("{kind}:{number}") } else { number.to_string() }
}

/// Writers have subscribers of their own, so the order among writers does not matter.
fn subscriber(writer: u64, number: u64) -> String {
    id("user", 1000 * (writer + 1) + number)
}

fn subscribee(number: u64) -> String {
    id("photo", number)
}

impl Change {
    fn random(random: &mut fastrand::Rng, writer: u64) -> Change {
        let pair = |random: &mut fastrand::Rng| {
            let subscriber = subscriber(writer, random.u64(..SUBSCRIBERS));
            (subscriber, subscribee(random.u64(..SUBSCRIBEES)))
        };
        let count = random.usize(1..20);
        let pairs = (0..count).map(|_| pair(random)).collect();
        Change { add: random.u32(..5) > 1, pairs }
    }

    fn apply(&self, pairs: &mut Pairs) {
        for pair in &self.pairs {
            if self.add {
                pairs.insert(pair.clone());
            } else {
                pairs.remove(pair);
            }
        }
    }

    /// Asks for it; whether it was acknowledged.
    fn ask(&self, api: &Api) -> bool {
        let path = if self.add { "/subscriptions/add" } else { "/subscriptions/remove" };
        let pairs: Vec<Value> = self
            .pairs
            .iter()
            .map(|(from, to)| json!({ "subscriber": from, "subscribee": to }))
            .collect();
        match api.try_post(path, &json!(pairs)) {
            Ok(answer) => {
                answer.ok();
                true
            }
            Err(_) => false,
        }
    }
}

/// What one writer knows: what is stored for sure, and what it asked for last.
#[derive(Default)]
struct Writer {
    acknowledged: Pairs,
    pending: Option<Change>,
}

impl Writer {
    /// Changes the graph until the server is gone.
    fn work(&mut self, api: &Api, number: u64, seed: u64, acknowledgements: &AtomicU64) {
        let mut random = fastrand::Rng::with_seed(seed);
        loop {
            let change = Change::random(&mut random, number);
            if !change.ask(api) {
                self.pending = Some(change);
                return;
            }
            change.apply(&mut self.acknowledged);
            acknowledgements.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Holds what is `stored` against what is known.
    fn check(&mut self, stored: Pairs, context: &str) {
        if let Some(change) = self.pending.take()
            && stored != self.acknowledged
        {
            change.apply(&mut self.acknowledged);
        }
        assert_eq!(stored, self.acknowledged, "{context}");
    }
}

/// All pairs that the server knows, having checked that both directions and the count agree.
fn everything(server: &Server) -> Pairs {
    let list =
        |direction: &str, id: &str| server.api.ids(&format!("/{direction}/{}", escape(id)), 1000);
    let (mut forth, mut back) = (Pairs::new(), Pairs::new());
    for writer in 0..WRITERS {
        for from in (0..SUBSCRIBERS).map(|number| subscriber(writer, number)) {
            forth.extend(list("subscriptions", &from).into_iter().map(|to| (from.clone(), to)));
        }
    }
    for to in (0..SUBSCRIBEES).map(subscribee) {
        back.extend(list("subscribers", &to).into_iter().map(|from| (from, to.clone())));
    }
    assert_eq!(forth, back, "both directions agree");
    assert_eq!(server.api.stats()["subscriptions"], forth.len(), "the count is exact");
    forth
}

/// Waits for so many acknowledgements, and then for no event at all: the moment of the kill must
/// not depend on what the server does.
fn wait(acknowledgements: &AtomicU64, count: u64, then: Duration) {
    let deadline = Instant::now() + DEADLINE;
    while acknowledgements.load(Ordering::Relaxed) < count {
        assert!(Instant::now() < deadline, "the server acknowledges nothing");
        thread::park_timeout(Duration::from_micros(100));
    }
    let start = Instant::now();
    while start.elapsed() < then {
        thread::yield_now();
    }
}

#[test]
fn acknowledged_changes_survive_sixty_kills_of_the_server() {
    let seed = seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let data = tempfile::tempdir().unwrap();
    let mut writers: [Writer; WRITERS as usize] = Default::default();
    let mut survived = 0;
    let mut server = Server::start_in(data.path(), &[]);
    for kill in 0..KILLS {
        let acknowledgements = AtomicU64::new(0);
        thread::scope(|scope| {
            for (number, writer) in (0..).zip(&mut writers) {
                let (api, acknowledgements) = (server.api.another(), &acknowledgements);
                let seed = random.u64(..);
                scope.spawn(move || writer.work(&api, number, seed, acknowledgements));
            }
            let then = Duration::from_micros(random.u64(..4000));
            wait(&acknowledgements, random.u64(..40), then);
            server.into_program().kill();
        });
        survived += acknowledgements.into_inner();

        server = Server::start_in(data.path(), &[]);
        let mut stored = everything(&server);
        for (number, writer) in (0..WRITERS).zip(&mut writers) {
            let own: BTreeSet<_> = (0..SUBSCRIBERS).map(|n| subscriber(number, n)).collect();
            let (own, rest) = stored.into_iter().partition(|pair| own.contains(&pair.0));
            writer.check(own, &format!("writer {number} after kill {kill}"));
            stored = rest;
        }
        assert_eq!(stored, Pairs::new(), "nobody asked for these");
    }
    println!("{survived} acknowledged changes survived");
    assert!(survived > KILLS, "{survived} acknowledged changes are too few to prove anything");
    assert_eq!(server.stop("TERM").code(), Some(0));
}
