//! Clients that go away at any moment, be it in the middle of an event, and come back with the id
//! of the last one they heard; beside them many sends under way at one time.
//!
//! The model knows what was sent, and so what each user must hear after all its connections: every
//! event about its subjects once, in the order of their numbers, but for those of which a notice of
//! a gap said that they may be missing: all up to the moment when it was looked up.

mod user;

use std::collections::VecDeque;
use std::sync::Arc;

use hub::{ConnRef, Draft, Epoch, EventId, HistoryLimits, IdText, Names, Tag};
use proto::Transport;

use self::user::{Connection, Heard, User};
use super::net::Wire;
use super::random::Random;
use super::scene::{Graph, id_text, request_with};
use super::server::{SHARDS, Server, config};
use super::talk::client_frame;
use super::{AgainOnPanic, polls};
use crate::config::EngineConfig;
use crate::resume::{ResumeStep, Resuming};
use crate::router::{Router, Sending, Step};
use crate::slab::Key;

const IDS: usize = 12;
const USERS: usize = 20;
type Resumings<'r> = VecDeque<(ConnRef, Resuming<'r>)>;

struct Resumers {
    random: Random,
    graph: Graph,
    server: Server,
    users: Vec<User>,
    now_ms: u64,
    /// Of all lives of the server, the last one's is that of now.
    epochs: Vec<Epoch>,
    /// The subject and, once it has one, the number of each send, in the order of their beginning.
    sent: Vec<(String, Option<u64>)>,
    /// Clients that came back, and gaps that were told, in the lives before.
    resumed: u64,
    gaps: u64,
}

/// Starts a server that remembers as `history` says.
fn start(names: Arc<Names>, history: HistoryLimits, epoch: Epoch) -> (Router, Server) {
    Server::start(names, EngineConfig { history, ..config() }, epoch)
}

impl Resumers {
    fn new(seed: u64, history: HistoryLimits) -> (Router, Resumers) {
        let mut random = Random::new(seed);
        let names = Arc::new(Names::new([9; 16]));
        let graph = Graph::random(&mut random, names.clone(), IDS);
        let epoch = Epoch::begin(Tag::of(random.next()), 0, sys::clock::unix_ms());
        let (router, server) = start(names, history, epoch);
        let users = (0..USERS).map(|_| User::random(&mut random)).collect();
        let (epochs, now_ms, sent, resumed, gaps) = (vec![epoch], 0, Vec::new(), 0, 0);
        let world = Resumers { random, graph, server, users, now_ms, epochs, sent, resumed, gaps };
        (router, world)
    }

    /// The server is killed, and another one started with the same store, under a clock that was
    /// set back. What clients have not read is lost.
    fn restart(&mut self, history: HistoryLimits) -> Router {
        for user in 0..USERS {
            self.cut_off(user);
        }
        self.count();
        let names = Arc::new(Names::new([9; 16]));
        self.graph = self.graph.restored(names.clone());
        let mark = self.server.event_ids.last() + 1;
        let epoch = Epoch::begin(Tag::of(self.random.next()), mark, 0);
        self.epochs.push(epoch);
        let (router, server) = start(names, history, epoch);
        self.server = server;
        router
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
    }

    /// So many random steps, which leave off in the middle of everything unless it `ends` well.
    fn work<'r>(&mut self, router: &'r Router, steps: usize, ends: bool) -> Resumings<'r> {
        let mut sendings: Vec<(usize, Sending<'_>)> = Vec::new();
        let mut resumings: Resumings<'_> = VecDeque::new();
        for step in 0..steps {
            // No silence is so long that a stream would break it.
            self.now_ms += 1;
            let ending = ends && step > steps - 1_000;
            let mut user = self.random.below(USERS);
            if ending && let Some(away) = self.users.iter().position(|user| user.online.is_none()) {
                user = away;
            }
            match self.random.below(12) {
                0 if self.users[user].online.is_none() => {
                    let under_way = sendings.iter().map(|(number, _)| *number).collect();
                    self.connect(user, under_way);
                }
                1 if !ending && self.random.one_in(3) => self.drop_off(user),
                2 | 3 if !ending && sendings.len() < 6 => {
                    let about = id_text(self.random.below(IDS));
                    let draft = Draft::new(&about, "1");
                    let sending = router.send(IdText::parse(&about).unwrap(), draft);
                    sendings.push((self.sent.len(), sending));
                    self.sent.push((about, None));
                }
                4..=6 if !sendings.is_empty() => self.step_send(&mut sendings),
                7 | 8 => self.step_resume(router, &mut resumings),
                9 if self.random.one_in(2) => self.ping(user),
                9 => self.read(user, true),
                _ => drop(self.turn(step % SHARDS)),
            }
        }
        assert!(sendings.is_empty() || !ends);
        resumings
    }

    /// The last life of the server, which ends when everybody has heard everything.
    fn run(&mut self, router: &Router, steps: usize) {
        let mut resumings = self.work(router, steps, true);
        for round in 0..30 {
            (0..SHARDS).for_each(|shard| while self.turn(shard) {});
            (0..USERS).for_each(|user| self.read(user, round < 20));
            (0..3 * USERS).for_each(|_| self.step_resume(router, &mut resumings));
        }
        assert!(resumings.is_empty() && self.server.resumes.take().is_none());
        (0..USERS).for_each(|user| self.drop_off(user));
        (0..SHARDS).for_each(|shard| while self.turn(shard) {});
        assert_eq!(self.server.directory.ids_online(), 0);
        while router.history().unwrap().expire(u64::MAX) {}
        assert_eq!(router.names().len(), self.graph.stored_names(), "no name is left");
    }

    fn connect(&mut self, user: usize, under_way: Vec<usize>) {
        let shard = self.random.below(SHARDS);
        let socket = {
            let mut wires = self.server.nets[shard].0.borrow_mut();
            wires.push(Wire::new(1 << 20, 4_096));
            wires.len() - 1
        };
        let key = self.server.shards[shard].accept(socket).unwrap();
        let foreign = self.foreign();
        let place = self.users[user].cursor().filter(|_| foreign.is_none());
        let is_known = place.is_some_and(|number| self.epochs.last().unwrap().base <= number);
        let cursor = foreign.or_else(|| place.map(|number| self.id(number).to_string()));
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
        self.server.nets[shard].0.borrow_mut()[socket].client_sends(&head);
        // The server reads it at once, so the model knows what is under way at that moment.
        self.server.shards[shard].readable(key.slot, false);
        let resumed_at = self.server.event_ids.last();
        let got = Vec::new();
        user.online = Some(Connection { shard, socket, key, got, resumed_at, idle: false });
    }

    /// The user's network is gone, and its server notices.
    fn drop_off(&mut self, user: usize) {
        let Some(Connection { shard, socket, key, .. }) = self.cut_off(user) else { return };
        self.server.nets[shard].0.borrow_mut()[socket].client_resets();
        self.server.shards[shard].readable(key.slot, true);
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
            let Connection { shard, socket, key, .. } = *connection;
            let bytes = client_frame(0x81, b"{\"ping\":1}");
            self.server.nets[shard].0.borrow_mut()[socket].client_sends(&bytes);
            self.server.shards[shard].readable(key.slot, false);
        }
    }

    /// Somebody reads, all or a little; whoever polls and `asks` goes on.
    fn read(&mut self, user: usize, asks: bool) {
        let Some(connection) = &mut self.users[user].online else { return };
        let mut wires = self.server.nets[connection.shard].0.borrow_mut();
        let wire = &mut wires[connection.socket];
        let most = if self.random.one_in(2) { 1 << 20 } else { self.random.below(80) };
        connection.got.extend(wire.client_reads(most));
        assert!(!wire.server_closed && !wire.server_ended, "nobody here is too slow");
        drop(wires);
        let user = &mut self.users[user];
        if user.transport != Transport::Poll {
            return;
        }
        user.hear_answers();
        let cursor = user.cursor().map(|number| self.server.event_ids.id(number).to_string());
        let Some(connection) = user.online.as_mut().filter(|connection| connection.idle) else {
            return;
        };
        if asks {
            connection.idle = false;
            let head = polls::request(&user.ids, cursor, &mut self.random);
            let Connection { shard, socket, key, .. } = *connection;
            self.server.nets[shard].0.borrow_mut()[socket].client_sends(&head);
            self.server.shards[shard].readable(key.slot, false);
        }
    }

    fn step_send(&mut self, sendings: &mut Vec<(usize, Sending<'_>)>) {
        let index = self.random.below(sendings.len());
        let (number, sending) = &mut sendings[index];
        let step = sending.step(&self.graph).unwrap();
        self.sent[*number].1 = sending.event().map(|event| event.number());
        if let Step::Posted(_) = step {
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
        let mut online = self.users.iter_mut().filter_map(|user| user.online.as_mut());
        if let Some(connection) = online.find(|c| (c.shard, c.key) == (conn.worker(), key)) {
            connection.resumed_at = self.server.event_ids.last();
        }
    }

    fn turn(&mut self, shard: usize) -> bool {
        self.server.shards[shard].tick(self.now_ms);
        self.server.shards[shard].read_deferred();
        let (mut took, posted) = (false, self.server.shards[shard].posted());
        for _ in 0..self.random.below(4) {
            let Some(mail) = self.server.mailboxes[shard].take() else {
                self.server.shards[shard].settle(posted);
                break;
            };
            self.server.shards[shard].mail(mail);
            took = true;
        }
        self.server.shards[shard].flush();
        took
    }

    /// How many gaps were told.
    fn check(&self) -> usize {
        self.users.iter().map(|user| self.check_user(user)).sum()
    }

    fn check_user(&self, user: &User) -> usize {
        let hears = |about: &String| {
            let followers = self.graph.followers.get(about);
            user.ids.iter().any(|id| id == about || followers.is_some_and(|all| all.contains(id)))
        };
        // An NDJSON stream does not say where it begins, a WebSocket only when it is asked, and the
        // answer to a first poll only where it ends: what comes before is nobody's loss.
        let Some(start) = user.heard.iter().find_map(|heard| match (heard, user.transport) {
            (Heard::Cursor(number), _) => Some(*number),
            (Heard::Event(_), Transport::Sse) => None,
            (Heard::Event(number), _) => Some(number - 1),
            (Heard::Gap(_), _) => None,
        }) else {
            return 0;
        };
        let mut due: Vec<(u64, usize)> = (0..self.sent.len())
            .filter(|&sent| hears(&self.sent[sent].0))
            // Without a number are those that a restart has cut off.
            .filter_map(|sent| Some((self.sent[sent].1?, sent)))
            .filter(|(number, _)| *number > start)
            .collect();
        due.sort();
        let mut due = due.into_iter().peekable();
        let (mut gap, mut gaps, mut behind) = (0, 0, start);
        for heard in user.heard.iter().copied().chain([Heard::Cursor(u64::MAX - 1)]) {
            let (number, is_event) = match heard {
                Heard::Event(number) => (number, true),
                Heard::Cursor(number) => (number, false),
                Heard::Gap(up_to) => {
                    (gap, gaps) = (up_to, gaps + 1);
                    continue;
                }
            };
            assert!(number >= behind + u64::from(is_event), "{number:x}: {:x?}", user.heard);
            behind = number;
            while let Some((missed, sent)) =
                due.next_if(|(due, _)| *due < number + u64::from(!is_event))
            {
                let excused = user.excused.contains(&sent) || missed <= gap;
                assert!(excused, "{missed:x} is lost before {heard:x?}: {:x?}", user.heard);
            }
            if is_event {
                assert_eq!(due.next().map(|next| next.0), Some(number), "what was sent to it");
            }
        }
        gaps
    }
}

fn run(name: &str, seeds: u64, history: HistoryLimits, lives: usize) -> (u64, u64) {
    let given = std::env::var("ENCKE_SEED").ok().and_then(|seed| seed.parse().ok());
    let (mut resumed, mut gaps) = (0, 0);
    for seed in given.map_or(0..seeds, |seed: u64| seed..seed + 1) {
        let again = AgainOnPanic(format!("ENCKE_SEED={seed} cargo test -p engine {name}"));
        let (mut router, mut world) = Resumers::new(seed, history);
        for _ in 1..lives {
            drop(world.work(&router, 4_000, false));
            router = world.restart(history);
        }
        world.run(&router, 12_000);
        world.count();
        assert!(world.check() as u64 <= world.gaps, "a gap is counted");
        resumed += world.resumed;
        gaps += world.gaps;
        drop(again);
    }
    (resumed, gaps)
}

#[test]
fn client_that_comes_back_hears_all_it_missed_once_and_in_order() {
    let (resumed, gaps) = run("client_that_comes_back", 60, HistoryLimits::default(), 1);
    // One in twenty came with the id of another server.
    assert!(resumed > 1_000 && gaps > 0 && gaps * 10 < resumed, "{gaps} of {resumed}");
}

#[test]
fn client_that_missed_more_than_is_remembered_is_told_of_a_gap() {
    let history = HistoryLimits { events_max: 2, ..HistoryLimits::default() };
    let (resumed, gaps) = run("client_that_missed_more", 60, history, 1);
    assert!(resumed > 1_000 && gaps * 10 > resumed, "{gaps} of {resumed}");
}

#[test]
fn client_of_a_server_that_was_killed_is_told_of_a_gap() {
    let (resumed, gaps) = run("client_of_a_server_that", 30, HistoryLimits::default(), 3);
    // Nearly everybody comes back to the second life and to the third.
    let expected = 30 * 2 * USERS as u64 / 2;
    assert!(resumed > gaps && gaps > expected, "{gaps} of {resumed}");
}
