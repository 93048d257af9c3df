//! The process stands still, at any moment and for any time, while clients go on: by seed.
//!
//! What counts for a client is the time in which we could have heard it. Who says its part within
//! that is served, also when it came while nobody looked; and who never says it is ended when that
//! time is over.

use super::budgets::{POLL, websocket};
use super::each_seed;
use super::one::One;
use super::random::Random;
use super::server::{Place, config};
use super::talk::client_frame;
use crate::limits::{MESSAGE_TIMEOUT_TICKS, POLL_IDLE_MS, STILL_MS};
use crate::timer::TICK_MS;

/// Pauses, in milliseconds. Those under 300 are none, and are time as any other.
const PAUSES_MS: [u64; 8] = [20, 120, 250, 300, 1_000, 17_000, 66_000, 400_000];

const COUNTS_FROM_MS: u64 = 300;

/// How many pauses are remembered, and may be.
const PAUSES: usize = 8;

/// What a server may be late with who ends somebody: a tick for each pause, and the second of whom
/// it has put off.
const LATE_MS: u64 = 2_500;

/// A turn's time for few frames.
const SMALL: u32 = 300;

/// For what a client is waited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Head,
    Message,
    Reader,
    Next,
}

const KINDS: [Kind; 4] = [Kind::Head, Kind::Message, Kind::Reader, Kind::Next];

impl Kind {
    fn limit_ms(self) -> u64 {
        match self {
            Kind::Head => config().settings.head_timeout_ms,
            Kind::Message => u64::from(MESSAGE_TIMEOUT_TICKS) * TICK_MS,
            Kind::Reader => STILL_MS,
            Kind::Next => POLL_IDLE_MS,
        }
    }
}

struct Client {
    kind: Kind,
    place: Place,
    /// When it said the first part, and when it will say the other, in the time that counts.
    since_ms: u64,
    acts_ms: Option<u64>,
    /// It says it while the process stands still.
    in_pause: bool,
    /// How many turns ago it did.
    acted: Option<usize>,
}

struct World {
    one: One,
    random: Random,
    clients: Vec<Client>,
    /// The time that counts.
    awake_ms: u64,
    /// With how much time left those say their part who say it in a pause.
    spare_ms: u64,
    pauses: usize,
    served: usize,
    ended: usize,
}

impl World {
    fn new(seed: u64, tls: bool) -> World {
        let mut one = match tls {
            true => One::start_secure(config(), seed),
            false => One::start(config()),
        };
        let mut random = Random::new(seed);
        // A record comes in pieces, each when there was a look.
        let (few, spare_ms) = if tls { (20, 4_000) } else { (1, 200) };
        one.server.reports_per_turn = [few, usize::MAX][random.below(2)];
        let clients = Vec::new();
        World { one, random, clients, awake_ms: 0, spare_ms, pauses: 0, served: 0, ended: 0 }
    }

    fn connect(&mut self) {
        let kind = KINDS[self.random.below(KINDS.len())];
        let one = &mut self.one;
        let place = match kind {
            Kind::Head => one.client(1 << 20, "GET /stream/7 HTTP/1.1\r\nHo"),
            Kind::Next => one.client(1 << 20, POLL),
            Kind::Message => {
                let place = one.client(1 << 20, &websocket("7"));
                one.wire(place).client_reads(usize::MAX);
                one.say(place, &ping()[..5]);
                place
            }
            Kind::Reader => {
                let number = self.awake_ms;
                let place = one.client(2_000, &format!("GET /stream/{number} HTTP/1.0\r\n\r\n"));
                for _ in 0..8 {
                    one.send(&number.to_string(), &format!("\"{}\"", "x".repeat(500)));
                }
                while one.turn_after(0) {}
                place
            }
        };
        let in_pause = self.random.one_in(2);
        let latest =
            kind.limit_ms() - if in_pause { self.spare_ms } else { LATE_MS.max(self.spare_ms) };
        let acts_ms = match (self.random.below(4), in_pause) {
            (0, _) => None,
            (_, true) => Some(latest - self.random.below(200) as u64),
            (_, false) => Some(self.random.below(latest as usize) as u64),
        };
        let since_ms = self.awake_ms;
        let acts_ms = acts_ms.map(|ms| since_ms + ms);
        self.clients.push(Client { kind, place, since_ms, acts_ms, in_pause, acted: None });
    }

    /// Clients say the rest of what they say.
    fn act(&mut self, in_pause: bool) {
        for client in &mut self.clients {
            let is_time = client.acts_ms.is_some_and(|ms| ms <= self.awake_ms);
            if is_time && client.acted.is_none() && client.in_pause == in_pause {
                client.acted = Some(0);
                let mut wire = self.one.wire(client.place);
                match client.kind {
                    Kind::Head => wire.client_sends(b"st: a\r\n\r\n"),
                    Kind::Message => wire.client_sends(&ping()[5..]),
                    Kind::Next => {
                        wire.client_reads(usize::MAX);
                        wire.client_sends(POLL.as_bytes());
                    }
                    Kind::Reader => drop(wire.client_reads(usize::MAX)),
                }
            }
        }
    }

    fn step(&mut self) {
        let mut step_ms = self.random.below(90) as u64;
        let is_awaited = |client: &Client| {
            let is_time = client.acts_ms.is_some_and(|ms| ms <= self.awake_ms);
            client.in_pause && is_time && client.acted.is_none()
        };
        let pauses = self.clients.iter().any(is_awaited) || self.random.one_in(1_000);
        if pauses && self.pauses < PAUSES {
            step_ms = PAUSES_MS[self.random.below(PAUSES_MS.len())];
            self.pauses += usize::from(step_ms >= COUNTS_FROM_MS);
            let server = &mut self.one.server;
            let now_ms = server.clock.now_ms() as i64 - server.started_ms;
            server.shards[0].turn_comes_by(Some(now_ms as u64));
            if step_ms < COUNTS_FROM_MS {
                self.awake_ms += step_ms;
            }
            self.one.server.clock.pass(step_ms / 2);
            self.act(true);
            step_ms -= step_ms / 2;
        } else {
            self.awake_ms += step_ms;
            self.act(false);
        }
        self.one.turn_after(step_ms);
    }

    /// Who has said all is served, who says nothing is ended, and they go.
    fn look(&mut self) {
        let mut clients = std::mem::take(&mut self.clients);
        clients.retain_mut(|client| {
            let place = client.place;
            let is_open = self.one.wire(place).is_open();
            let Client { kind, since_ms, .. } = *client;
            let told = || format!("{kind:?} since {since_ms}, at {}", self.awake_ms);
            match &mut client.acted {
                Some(turns) if *turns < 200 => {
                    *turns += 1;
                    return true;
                }
                Some(_) => {
                    let read = self.one.wire(place).client_reads(usize::MAX);
                    let has = |text: &[u8]| read.windows(text.len()).any(|part| part == text);
                    let is_served = match kind {
                        Kind::Head | Kind::Next => has(b"HTTP/1.1 200"),
                        Kind::Message => has(b"\"ping\""),
                        Kind::Reader => true,
                    };
                    assert!(is_served && is_open, "{} {}", told(), read.escape_ascii());
                    self.served += 1;
                }
                None if !is_open => {
                    let waited_ms = self.awake_ms - since_ms;
                    assert!(waited_ms + 200 > kind.limit_ms(), "too early: {}", told());
                    self.ended += 1;
                }
                None => {
                    let most_ms = kind.limit_ms() + LATE_MS;
                    let is_due = client.acts_ms.is_none() && self.awake_ms - since_ms > most_ms;
                    assert!(!is_due, "too late: {}", told());
                    return true;
                }
            }
            self.one.wire(place).client_resets();
            false
        });
        self.clients = clients;
    }
}

fn ping() -> Vec<u8> {
    client_frame(0x81, b"{\"ping\":1}")
}

fn run(seed: u64, tls: bool) -> (usize, usize, usize) {
    let mut world = World::new(seed, tls);
    while world.awake_ms < 200_000 {
        if world.awake_ms < 100_000 && world.random.one_in(40) {
            world.connect();
        }
        world.step();
        world.look();
    }
    (world.served, world.ended, world.pauses)
}

fn run_seeds(name: &str, seeds: u64, tls: bool) {
    let (mut runs, mut sum) = (0, (0, 0, 0));
    let are_enough = each_seed(name, seeds, |seed| {
        let (served, ended, pauses) = run(seed, tls);
        sum = (sum.0 + served, sum.1 + ended, sum.2 + pauses);
        runs += 1;
    });
    let happened = sum.0 > 20 * runs && sum.1 > 5 * runs && sum.2 > 4 * runs;
    assert!(!are_enough || happened, "{sum:?}");
}

#[test]
fn pause_of_the_process_is_no_clients_silence() {
    run_seeds("pause_of_the_process", 30, false);
}

#[test]
fn pause_of_the_process_is_no_silence_of_clients_of_tls() {
    run_seeds("pause_of_the_process_is_no_silence_of_clients_of_tls", 10, true);
}

/// Its end has come in time, behind other frames, of which a turn has time for a few.
#[test]
fn message_whose_end_waits_for_its_turn_is_not_late_for_that() {
    let mut one = World::new(1, false).one;
    one.server.reports_per_turn = usize::MAX;
    let client = one.client(1 << 20, &websocket("7"));
    one.turn_after(0);
    one.wire(client).client_reads(usize::MAX);
    one.say(client, &client_frame(0x01, b"{\"ping\""));
    one.turn_after(9_800);
    one.server.set_work_per_turn(SMALL);
    let pings = (0..20).flat_map(|_| client_frame(0x89, b""));
    let frames: Vec<u8> = pings.chain(client_frame(0x80, b":1}")).collect();
    one.wire(client).client_sends(&frames);
    let mut turns = 0;
    let mut read = Vec::new();
    while !read.windows(6).any(|part| part == b"\"ping\"") {
        one.turn_after(100);
        read.extend(one.wire(client).client_reads(usize::MAX));
        turns += 1;
        assert!(!one.is_closed(client) && turns < 10, "{turns}: {}", read.escape_ascii());
    }
    assert!(turns > 2, "its time was over before its turn came: {turns}");
}

/// A record of TLS is sealed as a whole, and taken byte by byte.
#[test]
fn reader_that_takes_a_little_when_it_is_looked_at_last_is_not_slow() {
    for tls in [false, true] {
        let mut one = World::new(1, tls).one;
        let client = one.client(2_000, "GET /stream/7 HTTP/1.0\r\n\r\n");
        for _ in 0..20 {
            one.send("7", &format!("\"{}\"", "x".repeat(500)));
        }
        while one.turn_after(0) {}
        for _ in 0..5 {
            // So much that there is room for a few bytes.
            let mut wire = one.wire(client);
            let too_many = wire.to_client.len().saturating_sub(1_999);
            wire.client_reads(too_many.max(1));
            drop(wire);
            one.turn_after(STILL_MS + 1_000);
            assert!(!one.is_closed(client), "tls: {tls}");
        }
        one.turn_after(STILL_MS + 1_000);
        assert!(one.is_closed(client), "tls: {tls}");
    }
}

/// What waits for it stands still for less than a minute, so it is no slow reader yet.
#[test]
fn half_a_message_of_one_that_is_blocked_is_refused_in_its_time() {
    for tls in [false, true] {
        let mut one = World::new(1, tls).one;
        one.server.reports_per_turn = usize::MAX;
        let client = one.client(2_000, &websocket("7"));
        one.turn_after(0);
        one.wire(client).client_reads(usize::MAX);
        one.say(client, &ping()[..5]);
        for _ in 0..8 {
            one.send("7", &format!("\"{}\"", "x".repeat(500)));
        }
        while one.turn_after(0) {}
        one.turn_after(9_700);
        assert!(!one.is_closed(client), "it has time");
        one.turn_after(600);
        assert!(!one.is_closed(client), "it is refused, and may read that");
        let mut read = Vec::new();
        for _ in 0..100 {
            read.extend(one.wire(client).client_reads(usize::MAX));
            one.server.hear_out(client);
            one.turn_after(10);
        }
        let is_close = |four: &[u8]| four[0] == 0x88 && four[2..] == 1008_u16.to_be_bytes();
        assert!(read.windows(4).any(is_close), "no close frame 1008 in {} bytes", read.len());
    }
}
