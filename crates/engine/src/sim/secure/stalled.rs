//! Clients that begin handshakes and do not go on, beside clients that mean well, by seed.
//!
//! There are never more within their handshake than may be. Nobody goes for another as long as
//! there are not. Then it is always the one that has waited longest. So whoever answers before as
//! many others have come as there are places is never ended.

use std::net::Ipv4Addr;

use hub::DisconnectReason;

use super::super::one::{One, STREAM};
use super::super::random::Random;
use super::super::server::{Place, UNBOUNDED, silent_config};
use super::super::{ended, run_seeds_of};
use crate::config::EngineConfig;
use crate::counters::WorkerSnapshot;
use crate::limits;

/// Places of either kind that all workers share, and those of the one that is used.
const SHARED: usize = 16;
const PLACES: usize = SHARED + limits::HANDSHAKES_OWN;

/// Turns of one seed, so short that nobody's time is over.
const STEPS: usize = 400;

/// What a client does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Manner {
    /// It says nothing, or the beginning of its hello.
    NoHello,
    /// It says its hello, and then nothing.
    NoAnswer,
    /// It goes on as soon as it can, and begins when so many turns have passed.
    Good(usize),
}

struct Client {
    place: Place,
    manner: Manner,
}

struct Crowd {
    one: One,
    random: Random,
    clients: Vec<Client>,
    /// Those whose hello is waited for and those whose answer is, who came first foremost.
    hellos: Vec<Place>,
    answers: Vec<Place>,
    done: Vec<Place>,
    good: usize,
}

impl Crowd {
    fn new(seed: u64) -> Crowd {
        let connections_max = SHARED * limits::HANDSHAKES_SHARE;
        let config = EngineConfig { connections_max, ..silent_config() };
        let mut one = One::start_secure(config, seed);
        // Places are few for those within their handshake, and not for those behind it.
        (0..10_000).for_each(|_| one.server.connection_limit.give_back());
        // Who is reported is read at once, so that their order is known.
        one.server.set_work_per_turn(UNBOUNDED);
        Crowd {
            one,
            random: Random::new(seed),
            clients: Vec::new(),
            hellos: Vec::new(),
            answers: Vec::new(),
            done: Vec::new(),
            good: 0,
        }
    }

    fn connect(&mut self) {
        let localhost = Ipv4Addr::LOCALHOST.into();
        let place = self.one.server.connect_silent(localhost, 0, 1 << 20).unwrap();
        let manner = match self.random.below(3) {
            0 => Manner::NoHello,
            1 => Manner::NoAnswer,
            _ => Manner::Good(self.random.below(2)),
        };
        let sockets = self.one.server.shards[0].sockets();
        match manner {
            Manner::NoHello => {
                let bytes = self.random.below(200);
                sockets.says_so_much(place.socket, bytes);
            }
            Manner::NoAnswer => sockets.answers_nothing(place.socket),
            Manner::Good(_) => self.good += 1,
        }
        self.hellos.push(place);
        self.clients.push(Client { place, manner });
    }

    /// The kernel reports a client, as often as it has something to report.
    fn report(&mut self, index: usize) {
        let place = self.clients[index].place;
        if let Manner::Good(turns @ 1..) = self.clients[index].manner {
            self.clients[index].manner = Manner::Good(turns - 1);
            return;
        }
        for _ in 0..500 {
            self.one.server.report_one(place);
            let (_, is_answered) = self.state(place);
            if is_answered && let Some(at) = self.hellos.iter().position(|at| *at == place) {
                self.hellos.remove(at);
                self.answers.push(place);
            }
            if !self.one.wire(place).has_news() {
                break;
            }
        }
        let (shakes, _) = self.state(place);
        if !shakes && !self.one.is_closed(place) && !self.done.contains(&place) {
            self.hellos.retain(|at| *at != place);
            self.answers.retain(|at| *at != place);
            self.done.push(place);
        }
    }

    /// Whether it is within its handshake, and its hello was answered.
    fn state(&mut self, place: Place) -> (bool, bool) {
        let sockets = self.one.server.shards[0].sockets();
        let shakes = !sockets.has_closed(place.socket) && sockets.shakes(place.socket);
        (shakes, shakes && sockets.has_begun(place.socket))
    }

    fn turn(&mut self) {
        for _ in 0..self.random.below(9) {
            self.connect();
        }
        for index in 0..self.clients.len() {
            self.report(index);
        }
        let ms = self.random.below(20) as u64;
        self.one.server.clock.pass(ms);
        self.one.server.tick(0);
        self.one.server.shards[0].end_stalled();
        let Crowd { one, hellos, answers, .. } = self;
        for waiting in [hellos, answers] {
            let gone = waiting.iter().take_while(|place| one.is_closed(**place)).count();
            let places = waiting.len();
            waiting.drain(..gone);
            assert!(!waiting.iter().any(|place| one.is_closed(*place)), "not the first of all");
            // Both shards share the places, and the other one has none.
            assert_eq!(waiting.len(), places.min(PLACES));
        }
        let unfinished = self.one.server.shards[0].sockets().unfinished();
        assert_eq!(unfinished, (self.answers.len(), self.hellos.len()));
        assert!(!self.done.iter().any(|place| self.one.is_closed(*place)));
        let closed = |client: &Client| self.one.is_closed(client.place);
        self.clients.retain(|client| !closed(client));
    }

    fn run(mut self) -> WorkerSnapshot {
        for _ in 0..STEPS {
            self.turn();
        }
        let all_good = self.done.len();
        assert!(all_good + 2 * PLACES >= self.good, "{all_good} of {}", self.good);
        // Those who are done are clients like any others.
        for place in self.done.clone() {
            self.one.say(place, STREAM.as_bytes());
            (0..200).for_each(|_| self.one.server.report_one(place));
            assert!(self.one.reads(place).starts_with("HTTP/1.1 200 OK\r\n"));
        }
        self.one.turn_after(limits::HANDSHAKE_TIMEOUT_MS + 200);
        let unfinished = self.one.server.shards[0].sockets().unfinished();
        assert_eq!(unfinished, (0, 0), "their time is over");
        for place in self.done.clone() {
            assert!(!self.one.is_closed(place));
            self.one.wire(place).client_ends();
        }
        self.one.server.end();
        self.one.server.check_nothing_is_left();
        self.one.server.figures()
    }
}

#[test]
fn stalled_crowd_makes_room_for_those_who_go_on() {
    let run = |seed| Crowd::new(seed).run();
    run_seeds_of("stalled_crowd", 12, run, |figures| {
        let displaced = figures.tls.failures().find(|(_, reason, _)| *reason == "displaced");
        let cut = ended(figures, DisconnectReason::TlsTimeout);
        displaced.is_some_and(|(.., count)| count > 1_000 && cut > count)
    });
}
