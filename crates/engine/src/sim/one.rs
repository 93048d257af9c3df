//! A server of which only the first shard is used, and its clients, told by hand what to do.

use std::cell::RefMut;
use std::sync::Arc;

use hub::{Epoch, Followers, Names, Nobody, Tag};

use super::lives::To;
use super::net::Wire;
use super::random::Random;
use super::server::{Place, SHARDS, Server, posted};
use crate::Outgoing;
use crate::config::EngineConfig;
use crate::limits::WORK_PER_TURN;
use crate::resume::{ResumeStep, Resuming};
use crate::router::Router;

/// A listener's request.
pub(super) const STREAM: &str = "GET /stream/1 HTTP/1.0\r\n\r\n";

/// A server of which only the first shard is used, with the budgets of a real one.
pub(super) struct One {
    pub(super) router: Router,
    pub(super) server: Server,
    /// Before each turn that is asked for, another version takes over.
    upgrades: Option<Random>,
}

impl One {
    pub(super) fn start(config: EngineConfig) -> One {
        One::start_with(config, None)
    }

    /// The same, whose clients speak TLS that is cut by a seed.
    pub(super) fn start_secure(config: EngineConfig, seed: u64) -> One {
        One::start_with(config, Some(seed))
    }

    fn start_with(config: EngineConfig, secured_by: Option<u64>) -> One {
        let names = Arc::new(Names::new([3; 16]));
        let epoch = Epoch::begin(Tag::of(0), 0, 1_000);
        let (router, mut server) = Server::start(names, config, epoch, secured_by);
        server.set_work_per_turn(WORK_PER_TURN);
        One { router, server, upgrades: None }
    }

    /// The same, which another version takes over before each turn that is asked for.
    pub(super) fn upgraded(self) -> One {
        One { upgrades: Some(Random::new(1)), ..self }
    }

    /// Another version takes over. Clients stay where they are, but for their keys.
    pub(super) fn upgrade(&mut self, random: &mut Random) {
        self.upgrade_to(To::SameShard, random);
    }

    /// The same, where they come to other shards.
    pub(super) fn upgrade_to(&mut self, to: To, random: &mut Random) {
        self.server.shards.iter_mut().for_each(|shard| shard.gather(false));
        loop {
            // What is for all shards is for the other one too.
            for shard in 0..SHARDS {
                while !self.server.is_at_rest(shard) {
                    self.server.turn(shard);
                }
            }
            if self.server.tick_at_rest() {
                break;
            }
        }
        let names = Arc::new(Names::new(self.router.names().key()));
        self.router = self.server.upgrade(&self.router, names, to, random);
    }

    /// A client with `room` bytes in the kernel, who says this and has it read.
    pub(super) fn client(&mut self, room: usize, says: &str) -> Place {
        let client = self.server.connect(0, room);
        self.say(client, says.as_bytes());
        client
    }

    pub(super) fn wire(&self, client: Place) -> RefMut<'_, Wire> {
        self.server.wire(client)
    }

    pub(super) fn say(&mut self, client: Place, bytes: &[u8]) {
        self.wire(client).client_sends(bytes);
        self.server.hear_out(client);
    }

    pub(super) fn reads(&mut self, client: Place) -> String {
        let read = self.wire(client).client_reads(usize::MAX);
        String::from_utf8(read).unwrap()
    }

    pub(super) fn is_closed(&self, client: Place) -> bool {
        self.wire(client).server_closed
    }

    /// Whether there is more to do.
    pub(super) fn turn_after(&mut self, ms: u64) -> bool {
        self.server.clock.pass(ms);
        if let Some(mut upgrades) = self.upgrades.take() {
            self.upgrade(&mut upgrades);
            self.upgrades = Some(upgrades);
        }
        self.server.turn(0)
    }

    pub(super) fn send(&self, about: &str, data: &str) {
        posted(&mut self.router.send(Outgoing::new(about, data).unwrap()), &Nobody);
    }

    /// Answers what clients that came back ask.
    pub(super) fn answer(&self, followers: &dyn Followers) -> usize {
        let mut answered = 0;
        while let Some(resume) = self.server.resumes.take() {
            let mut resuming = Resuming::begin(&self.router, resume).unwrap();
            loop {
                match resuming.step(followers) {
                    ResumeStep::Done => break,
                    ResumeStep::Read => {
                        let question = resuming.question().expect("a step said so");
                        resuming.tell(question.read());
                    }
                    ResumeStep::More | ResumeStep::Wait => {}
                }
            }
            answered += 1;
        }
        answered
    }
}
