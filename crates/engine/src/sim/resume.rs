//! Clients that go away at any moment, be it in the middle of an event, and come back with the id
//! of the last one they heard; beside them many sends under way at one time.
//!
//! The model knows what was sent, and so what each user must hear after all its connections: every
//! event about its subjects once, in the order of their numbers, but for those of which a notice of
//! a gap said that they may be missing: all up to the moment when it was looked up.

mod check;
mod user;

use std::collections::VecDeque;
use std::sync::Arc;

use hub::{ConnRef, DisconnectReason, Draft, Epoch, EventId, HistoryLimits, IdText, Names, Tag};
use proto::Transport;

use self::user::{Connection, User};
use super::random::Random;
use super::scene::{Graph, id_text, request_with};
use super::server::{Place, SHARDS, Server, UNBOUNDED, config};
use super::talk::client_frame;
use super::world::STARTED_MS;
use super::{AgainOnPanic, polls};
use crate::config::EngineConfig;
use crate::limits::MAILS_MAX;
use crate::mailbox::{Mailbox, Room};
use crate::receipt::Receipt;
use crate::resume::{ResumeStep, Resuming};
use crate::router::{Router, Sending, Step};
use crate::slab::Key;

const IDS: usize = 12;
const USERS: usize = 20;
/// In so many rounds everybody has come back and caught up.
const ROUNDS: usize = 600;

/// What a run is made of.
#[derive(Clone, Copy)]
struct Plan {
    history: HistoryLimits,
    /// How often the server is started anew.
    lives: usize,
    backlog_bytes_max: usize,
    /// Bytes that the fake kernel takes for a client.
    socket_room: usize,
    work_per_turn: u32,
    /// How often all connections of an id are ended.
    logout_one_in: usize,
}

const PLAN: Plan = Plan {
    history: HistoryLimits { events_max: 1_000, age_ms_max: 60_000, bytes_max: 32 << 20 },
    lives: 1,
    backlog_bytes_max: 64 * 1024,
    socket_room: 1 << 20,
    work_per_turn: UNBOUNDED,
    logout_one_in: 1_000_000,
};

type Resumings<'r> = VecDeque<(ConnRef, Resuming<'r>)>;

/// A send under way, and which one it is; a logout is none.
type Under<'r> = (Option<usize>, Sending<'r>);

struct Resumers {
    random: Random,
    plan: Plan,
    graph: Graph,
    server: Server,
    users: Vec<User>,
    /// Everybody reads all at once now.
    hurries: bool,
    /// The subject and, once it has one, the number of each send, in the order of their beginning.
    sent: Vec<(String, Option<u64>)>,
    /// Of all lives of the server, the last one's is that of now.
    epochs: Vec<Epoch>,
    /// Of all that is posted in this life.
    receipts: Vec<Receipt>,
    /// Clients that came back, and gaps that were told, in the lives before.
    resumed: u64,
    gaps: u64,
    /// Those that were too slow, in all lives.
    slow: u64,
}

/// Starts a server as the plan says.
fn start(names: Arc<Names>, plan: &Plan, epoch: Epoch) -> (Router, Server) {
    let Plan { history, backlog_bytes_max, .. } = *plan;
    let config = EngineConfig { history, backlog_bytes_max, ..config() };
    let (router, mut server) = Server::start(names, config, epoch);
    server.set_work_per_turn(plan.work_per_turn);
    server.shards.iter_mut().for_each(|shard| shard.set_read_bytes(64));
    (router, server)
}

impl Resumers {
    fn new(seed: u64, plan: Plan) -> (Router, Resumers) {
        let mut random = Random::new(seed);
        let names = Arc::new(Names::new([9; 16]));
        let graph = Graph::random(&mut random, names.clone(), IDS);
        let epoch = Epoch::begin(Tag::of(random.next()), 0, STARTED_MS);
        let (router, server) = start(names, &plan, epoch);
        let users = (0..USERS).map(|_| User::random(&mut random)).collect();
        let world = Resumers {
            random,
            plan,
            graph,
            server,
            users,
            hurries: false,
            sent: Vec::new(),
            epochs: vec![epoch],
            receipts: Vec::new(),
            resumed: 0,
            gaps: 0,
            slow: 0,
        };
        (router, world)
    }

    /// The server is killed, perhaps while it drains, and another one started with the same store.
    /// What clients have not read is lost.
    fn restart(&mut self) -> Router {
        if self.random.one_in(2) {
            self.drain();
        }
        for user in 0..USERS {
            self.cut_off(user);
        }
        self.count();
        let names = Arc::new(Names::new([9; 16]));
        self.graph = self.graph.restored(names.clone());
        let mark = self.server.event_ids.last() + 1;
        let epoch = Epoch::begin(Tag::of(self.random.next()), mark, 0);
        self.epochs.push(epoch);
        let (router, server) = start(names, &self.plan, epoch);
        self.server = server;
        self.receipts.clear();
        router
    }

    /// The server is to end, and all who read come to their end.
    fn drain(&mut self) {
        for mailbox in self.server.mailboxes.iter() {
            mailbox.post_drain(0).unwrap();
        }
        for _ in 0..40 {
            (0..SHARDS).for_each(|shard| while self.turn(shard) {});
            (0..USERS).for_each(|user| self.read(user, false));
            self.server.clock.pass(10);
        }
        let open =
            |user: &User| user.online.as_ref().is_some_and(|c| self.server.wire(c.place).is_open());
        assert!(!self.users.iter().any(open), "a drain ends all");
    }

    /// The id of `number` as the server of that time told it.
    fn id(&self, number: u64) -> EventId {
        let mut epochs = self.epochs.iter().rev();
        let epoch = epochs.find(|epoch| epoch.base <= number).expect("numbers of some life");
        EventId::new(number, epoch.tag)
    }

    /// Now and then a client brings a place that is none of ours: that of another server which has
    /// sent as many events, or no id at all.
    fn foreign(&mut self) -> Option<String> {
        let stranger = Tag::of(self.random.next());
        match self.random.below(40) {
            0 => Some(EventId::new(self.server.event_ids.last(), stranger).to_string()),
            1 => Some("19aa57c8f4a00001".to_owned()),
            _ => None,
        }
    }

    fn count(&mut self) {
        self.resumed += self.server.resumes.resumed();
        self.gaps += self.server.resumes.gaps();
        self.slow += self.server.figures().closed[DisconnectReason::SlowReader as usize];
    }

    /// So many random steps, which leave off in the middle of everything unless it `ends` well.
    fn work<'r>(&mut self, router: &'r Router, steps: usize, ends: bool) -> Resumings<'r> {
        let mailboxes = self.server.mailboxes.clone();
        let mut full: Vec<Room<'_>> = Vec::new();
        let mut sendings: Vec<Under<'_>> = Vec::new();
        let mut resumings: Resumings<'_> = VecDeque::new();
        for step in 0..steps {
            // No silence is so long that a stream would break it.
            self.server.clock.pass(1);
            let ending = ends && step > steps - 1_000;
            let mut user = self.random.below(USERS);
            if ending {
                full.clear();
                let away = self.users.iter().position(|user| user.online.is_none());
                user = away.unwrap_or(user);
            }
            match self.random.below(13) {
                0 if self.users[user].online.is_none() => {
                    let under_way = sendings.iter().filter_map(|(number, _)| *number).collect();
                    self.connect(user, under_way);
                }
                1 if !ending && self.random.one_in(3) => self.drop_off(user),
                2 | 3 if !ending && sendings.len() < 6 => sendings.push(self.send(router)),
                4..=6 if !sendings.is_empty() => self.step_send(&mut sendings, ending),
                7 | 8 => {
                    for _ in 0..self.random.below(12) {
                        self.step_resume(router, &mut resumings);
                    }
                }
                9 if self.random.one_in(2) => self.ping(user),
                9 => self.read(user, true),
                10 if !ending => self.fill(&mailboxes, &mut full),
                _ => drop(self.turn(step % SHARDS)),
            }
        }
        assert!(sendings.is_empty() || !ends);
        resumings
    }

    /// Somebody begins to send, or to end all connections of an id.
    fn send<'r>(&mut self, router: &'r Router) -> Under<'r> {
        let about = id_text(self.random.below(IDS));
        let id = IdText::parse(&about).unwrap();
        if self.random.one_in(self.plan.logout_one_in) {
            return (None, router.logout(id));
        }
        // Somebody sets the date, back or forth.
        if self.random.one_in(200) {
            self.server.clock.set_unix(STARTED_MS + self.random.below(100_000) as u64);
        }
        let sending = router.send(id, Draft::new(&about, "1"));
        self.sent.push((about.clone(), None));
        (Some(self.sent.len() - 1), sending)
    }

    /// Others take all the room in a mailbox, or give theirs back.
    fn fill<'m>(&mut self, mailboxes: &'m [Arc<Mailbox>], full: &mut Vec<Room<'m>>) {
        if !full.is_empty() {
            full.swap_remove(self.random.below(full.len()));
        } else if self.random.one_in(4) {
            let mailbox = &mailboxes[self.random.below(SHARDS)];
            full.extend(mailbox.reserve(MAILS_MAX - mailbox.len(), 0));
        }
    }

    /// The last life of the server, which ends when everybody has heard everything.
    fn run(&mut self, router: &Router, steps: usize) {
        let mut resumings = self.work(router, steps, true);
        self.hurries = true;
        for round in 0..ROUNDS {
            (0..SHARDS).for_each(|shard| while self.turn(shard) {});
            (0..USERS).for_each(|user| self.read(user, round < ROUNDS - 10));
            (0..10 * USERS).for_each(|_| self.step_resume(router, &mut resumings));
            for user in 0..USERS {
                if self.users[user].online.is_none() && round < ROUNDS / 2 {
                    self.connect(user, Vec::new());
                }
            }
        }
        assert!(resumings.is_empty() && self.server.resumes.take().is_none());
        assert!(self.receipts.iter().all(|receipt| receipt.ready().is_some()), "no answer");
        (0..USERS).for_each(|user| self.drop_off(user));
        self.server.end();
        self.server.check_nothing_is_left();
        for mailbox in self.server.mailboxes.iter() {
            assert_eq!(mailbox.taken(), (0, 0), "room that nobody gave back");
        }
        while router.history().unwrap().expire(u64::MAX) {}
        assert_eq!(router.names().len(), self.graph.stored_names(), "no name is left");
    }

    fn connect(&mut self, user: usize, under_way: Vec<usize>) {
        let shard = self.random.below(SHARDS);
        let foreign = self.foreign();
        let number = self.users[user].cursor().filter(|_| foreign.is_none());
        let is_known = number.is_some_and(|number| self.epochs.last().unwrap().base <= number);
        let cursor = foreign.or_else(|| number.map(|number| self.id(number).to_string()));
        // It is read at once, so the model knows what is under way at that moment.
        self.server.set_work_per_turn(UNBOUNDED);
        self.server.tick(shard);
        let place = self.server.connect(shard, self.plan.socket_room);
        let user = &mut self.users[user];
        let polls = user.transport == Transport::Poll;
        // A poll asks for what is under way, too.
        if !is_known && !polls {
            user.excused.extend(under_way);
        }
        // The answer to its first ping may name a place before it came, which costs it nothing.
        if cursor.is_none() && user.transport == Transport::WebSocket {
            user.excused.extend(0..self.sent.len());
        }
        let head = if polls {
            polls::request(&user.ids, cursor, &mut self.random)
        } else {
            let field = cursor.map_or(String::new(), |id| format!("Last-Event-ID: {id}\r\n"));
            request_with(&user.ids, user.transport, user.framing, &field)
        };
        self.server.wire(place).client_sends(&head);
        self.server.report_one(place);
        self.server.set_work_per_turn(self.plan.work_per_turn);
        let resumed_at = self.server.event_ids.last();
        user.online = Some(Connection { place, got: Vec::new(), resumed_at, idle: false });
    }

    /// The user's network is gone, and its server notices.
    fn drop_off(&mut self, user: usize) {
        let Some(Connection { place, .. }) = self.cut_off(user) else { return };
        self.server.wire(place).client_resets();
    }

    /// What the user has not read it never will.
    fn cut_off(&mut self, user: usize) -> Option<Connection> {
        let user = &mut self.users[user];
        let connection = user.online.take()?;
        if user.transport != Transport::Poll {
            user.hear(&connection.got, connection.resumed_at);
        }
        Some(connection)
    }

    /// The next client of a WebSocket asks where it stands.
    fn ping(&mut self, user: usize) {
        let mut users = self.users[user..].iter();
        let websocket = users.find(|user| user.transport == Transport::WebSocket);
        if let Some(connection) = websocket.and_then(|user| user.online.as_ref()) {
            let bytes = client_frame(0x81, b"{\"ping\":1}");
            self.server.wire(connection.place).client_sends(&bytes);
        }
    }

    /// Somebody reads, all or a little; whoever polls and `asks` goes on.
    fn read(&mut self, user: usize, asks: bool) {
        let Some(connection) = &mut self.users[user].online else { return };
        let place = connection.place;
        let mut wire = self.server.wire(place);
        let most =
            if self.hurries || self.random.one_in(2) { 1 << 20 } else { self.random.below(80) };
        connection.got.extend(wire.client_reads(most));
        let is_over = !wire.is_open() && wire.to_client.is_empty();
        drop(wire);
        let user_of = &mut self.users[user];
        if user_of.transport == Transport::Poll {
            user_of.hear_answers();
        }
        if is_over {
            self.server.wire(place).client_ends();
            self.cut_off(user);
            return;
        }
        let cursor = user_of.cursor().map(|number| self.server.event_ids.id(number).to_string());
        let Some(connection) = user_of.online.as_mut().filter(|c| c.idle && asks) else { return };
        connection.idle = false;
        let head = polls::request(&user_of.ids, cursor, &mut self.random);
        self.server.wire(place).client_sends(&head);
    }

    /// Somebody goes on with a send, or gives it up.
    fn step_send(&mut self, sendings: &mut Vec<Under<'_>>, ending: bool) {
        let index = self.random.below(sendings.len());
        if !ending && self.random.one_in(30) {
            sendings.swap_remove(index);
            return;
        }
        let (number, sending) = &mut sendings[index];
        let step = sending.step(&self.graph).unwrap();
        if let Some(number) = *number {
            self.sent[number].1 = sending.event().map(|event| event.number());
        }
        if let Step::Posted(receipt) = step {
            self.receipts.push(receipt);
            sendings.swap_remove(index);
        }
    }

    fn step_resume<'r>(&mut self, router: &'r Router, resumings: &mut Resumings<'r>) {
        if let Some(resume) = self.server.resumes.take() {
            resumings.push_back((resume.conn, router.resume(resume).unwrap()));
        }
        let Some((conn, mut resuming)) = resumings.pop_front() else { return };
        if resuming.step(&self.graph) != ResumeStep::Done {
            return resumings.push_back((conn, resuming));
        }
        let key = Key { slot: conn.slot() as u32, generation: conn.generation() };
        let is_it = |Place { shard, key: of, .. }| (shard, of) == (conn.worker(), key);
        let mut online = self.users.iter_mut().filter_map(|user| user.online.as_mut());
        if let Some(connection) = online.find(|connection| is_it(connection.place)) {
            connection.resumed_at = self.server.event_ids.last();
        }
    }

    fn turn(&mut self, shard: usize) -> bool {
        self.server.begin_turn(shard);
        let mut took = false;
        for _ in 0..self.random.below(4) {
            if !self.server.take_mail(shard) {
                break;
            }
            took = true;
        }
        let left = self.server.shards[shard].flush();
        took || left || self.server.shards[shard].is_busy()
    }
}

/// What the runs of all seeds came to.
#[derive(Default)]
struct Outcome {
    resumed: u64,
    gaps: u64,
    slow: u64,
}

fn run(name: &str, seeds: u64, plan: Plan) -> Outcome {
    let given = std::env::var("ENCKE_SEED").ok().and_then(|seed| seed.parse().ok());
    let mut outcome = Outcome::default();
    for seed in given.map_or(0..seeds, |seed: u64| seed..seed + 1) {
        let again = AgainOnPanic(format!("ENCKE_SEED={seed} cargo test -p engine {name}"));
        let (mut router, mut world) = Resumers::new(seed, plan);
        for _ in 1..plan.lives {
            drop(world.work(&router, 4_000, false));
            router = world.restart();
        }
        world.run(&router, 12_000);
        world.count();
        assert!(world.check() as u64 <= world.gaps, "a gap is counted");
        outcome.resumed += world.resumed;
        outcome.gaps += world.gaps;
        outcome.slow += world.slow;
        drop(again);
    }
    outcome
}

#[test]
fn client_that_comes_back_hears_all_it_missed_once_and_in_order() {
    let Outcome { resumed, gaps, slow } = run("client_that_comes_back", 50, PLAN);
    // One in twenty came with the id of another server.
    assert!(resumed > 1_000 && gaps > 0 && gaps * 10 < resumed, "{gaps} of {resumed}");
    assert_eq!(slow, 0);
}

#[test]
fn client_that_missed_more_than_is_remembered_is_told_of_a_gap() {
    let history = HistoryLimits { events_max: 2, ..PLAN.history };
    let Outcome { resumed, gaps, .. } =
        run("client_that_missed_more", 40, Plan { history, ..PLAN });
    assert!(resumed > 1_000 && gaps * 10 > resumed, "{gaps} of {resumed}");
}

#[test]
fn client_that_was_away_for_longer_than_is_remembered_is_told_of_a_gap() {
    let history = HistoryLimits { age_ms_max: 100, ..PLAN.history };
    let Outcome { resumed, gaps, .. } = run("client_that_was_away", 20, Plan { history, ..PLAN });
    assert!(resumed > 500 && gaps * 10 > resumed, "{gaps} of {resumed}");
}

#[test]
fn client_of_a_server_that_was_ended_is_told_of_a_gap() {
    let plan = Plan { lives: 3, work_per_turn: 600, ..PLAN };
    let Outcome { resumed, gaps, .. } = run("client_of_a_server_that", 30, plan);
    // Nearly everybody comes back to the second life and to the third.
    let expected = 30 * 2 * USERS as u64 / 2;
    assert!(resumed > gaps && gaps > expected, "{gaps} of {resumed}");
}

/// What clients have missed is more than may wait for them, and more comes meanwhile; some read
/// slowly, some too slowly, some are logged out.
#[test]
fn client_that_catches_up_in_windows_hears_all_once_and_in_order() {
    let plan = Plan {
        backlog_bytes_max: 1_200,
        socket_room: 300,
        work_per_turn: 600,
        logout_one_in: 20,
        ..PLAN
    };
    let Outcome { resumed, gaps, slow } = run("client_that_catches_up", 60, plan);
    assert!(resumed > 1_000 && slow > 100 && gaps * 10 < resumed, "{gaps} of {resumed}, {slow}");
}
