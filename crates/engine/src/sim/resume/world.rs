//! The server, its users, and what happens to them, one random step at a time.

use std::collections::VecDeque;
use std::sync::Arc;

use hub::testing::MemoryArchive;
use hub::{DisconnectReason, Epoch, IdText, Names, Tag};

use super::kept::Under as Resumed;
use super::past::UserPast;
use super::user::User;
use super::{IDS, Plan, USERS};
use crate::Outgoing;
use crate::config::EngineConfig;
use crate::limits::MAILS_MAX;
use crate::mailbox::{Mailbox, Reservation};
use crate::receipt::Receipt;
use crate::resume::{ResumeStep, Resuming};
use crate::router::{Router, Sending, Step};
use crate::sim::random::Random;
use crate::sim::scene::{Graph, id_text};
use crate::sim::server::{Place, SHARDS, Server, config};
use crate::sim::world::STARTED_MS;
use crate::slab::Key;

/// In so many rounds everybody has come back and caught up.
const ROUNDS: usize = 1200;
/// In so many steps in which nothing begins all sends come to their end.
pub(super) const ENDING_STEPS: usize = 1_000;

/// What is outside of the shards: all that is under way borrows from it.
pub(super) struct Control {
    pub(super) router: Router,
    pub(super) mailboxes: Arc<[Arc<Mailbox>]>,
}

/// What senders and clients that came back have begun.
#[derive(Default)]
pub(super) struct UnderWay<'r> {
    /// Room that others have taken.
    full: Vec<Reservation<'r>>,
    sendings: Vec<Under<'r>>,
    resumings: Resumings<'r>,
}

type Resumings<'r> = VecDeque<Resumed<'r>>;

/// A send under way, and which one it is; a logout is none.
type Under<'r> = (Option<usize>, Sending<'r>);

pub(super) struct Resumers {
    pub(super) random: Random,
    pub(super) upgrades: Random,
    pub(super) plan: Plan,
    pub(super) graph: Graph,
    pub(super) server: Server,
    pub(super) archive: Option<Arc<MemoryArchive>>,
    pub(super) users: Vec<User>,
    /// Everybody reads all at once now.
    pub(super) hurries: bool,
    /// The subject and, once it has one, the number of each send, in the order of their beginning.
    pub(super) sent: Vec<(String, Option<u64>)>,
    /// Of all lives of the server, the last one's is that of now.
    pub(super) epochs: Vec<Epoch>,
    /// Of all that is posted in this life.
    pub(super) receipts: Vec<Receipt>,
    /// Clients that came back, and gaps that were told, in the lives before.
    pub(super) resumed: u64,
    pub(super) gaps: u64,
    /// Clients that came with a place that the server cannot know.
    pub(super) strangers: u64,
    /// Clients that logged in under an id more while they were online.
    pub(super) second_ids: u64,
    /// Streams that began in the past.
    pub(super) pasts: u64,
    /// Those that were too slow, in all lives.
    pub(super) slow: u64,
}

/// Starts a server as the plan says.
fn start(names: Arc<Names>, plan: &Plan, epoch: Epoch, seed: u64) -> (Control, Server) {
    let Plan { history, backlog_bytes_max, .. } = *plan;
    let config = EngineConfig { history, backlog_bytes_max, ..config() };
    let secured_by = plan.tls.then_some(seed);
    let (router, mut server) = Server::start(names, config, epoch, secured_by);
    server.set_work_per_turn(plan.work_per_turn);
    server.set_read_bytes(64);
    (Control { router, mailboxes: server.mailboxes.clone() }, server)
}

impl Resumers {
    pub(super) fn new(seed: u64, plan: Plan) -> (Control, Resumers) {
        let mut random = Random::new(seed);
        let names = Arc::new(Names::new([9; 16]));
        let graph = Graph::random(&mut random, names.clone(), IDS);
        let epoch = Epoch::begin(Tag::of(random.next()), 0, STARTED_MS);
        let (mut control, server) = start(names, &plan, epoch, seed);
        let archive = plan.keeps.map(|keeps| MemoryArchive::new(keeps.subject, keeps.events_max));
        let archive = archive.map(Arc::new);
        control.keep(&archive, None);
        let mut users: Vec<User> = (0..USERS).map(|_| User::random(&mut random)).collect();
        for user in users.iter_mut().filter(|_| plan.past_one_in > 0) {
            user.past = random.one_in(plan.past_one_in).then(|| UserPast::random(&mut random));
        }
        let world = Resumers {
            random,
            upgrades: Random::new(!seed),
            plan,
            graph,
            server,
            archive,
            users,
            hurries: false,
            sent: Vec::new(),
            epochs: vec![epoch],
            receipts: Vec::new(),
            resumed: 0,
            gaps: 0,
            strangers: 0,
            second_ids: 0,
            pasts: 0,
            slow: 0,
        };
        (control, world)
    }

    /// The server is killed, perhaps while it drains, and another one started with the same store.
    /// What clients have not read is lost.
    pub(super) fn restart(&mut self) -> Control {
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
        let tag = Tag::of(self.random.next());
        let mut epoch = Epoch::begin(tag, mark, 0);
        let floor = epoch.base;
        if self.archive.is_some() {
            // The places of before are known on.
            epoch = Epoch { until: epoch.until, ..self.epochs[0] };
        }
        self.epochs.push(epoch);
        let (mut control, server) = start(names, &self.plan, epoch, mark);
        server.event_ids.take_over(floor);
        control.keep(&self.archive, Some(floor));
        self.server = server;
        self.receipts.clear();
        control
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

    pub(super) fn count(&mut self) {
        self.count_resumes();
        self.slow += self.server.figures().closed[DisconnectReason::SlowReader as usize];
    }

    /// So many random steps, which leave off in the middle of everything unless it `ends` well.
    pub(super) fn work<'r>(
        &mut self,
        control: &'r Control,
        steps: usize,
        ends: bool,
    ) -> UnderWay<'r> {
        let mut under_way = UnderWay::default();
        for step in 0..steps {
            self.step(control, &mut under_way, ends && step > steps - ENDING_STEPS);
        }
        under_way
    }

    /// One random step. When it is `ending`, nothing new begins.
    pub(super) fn step<'r>(
        &mut self,
        control: &'r Control,
        under_way: &mut UnderWay<'r>,
        ending: bool,
    ) {
        let UnderWay { full, sendings, resumings } = under_way;
        // No silence is so long that a stream would break it.
        self.server.clock.pass(1);
        let mut user = self.random.below(USERS);
        if ending {
            full.clear();
            user = self.users.iter().position(User::may_come).unwrap_or(user);
        }
        match self.random.below(13) {
            0 if self.users[user].may_come() => {
                let under_way = sendings.iter().filter_map(|(number, _)| *number).collect();
                self.connect(user, under_way);
            }
            1 if !ending && self.random.one_in(3) => self.drop_off(user),
            2 | 3 if !ending && sendings.len() < 6 => sendings.push(self.send(&control.router)),
            4..=6 if !sendings.is_empty() => self.step_send(sendings, ending),
            7 | 8 => {
                for _ in 0..self.random.below(12) {
                    self.step_resume(&control.router, resumings);
                }
            }
            9 if self.plan.second_id_one_in > 0 && self.random.one_in(2) => self.log_in(user),
            9 if self.random.one_in(2) => self.ping(user),
            9 => self.read(user, true),
            10 if !ending => {
                self.fail();
                self.fill(&control.mailboxes, full);
            }
            _ => {
                let shard = self.random.below(SHARDS);
                self.turn(shard);
            }
        }
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
        let sending = router.send(Outgoing::new(&about, "1").unwrap());
        self.sent.push((about.clone(), None));
        (Some(self.sent.len() - 1), sending)
    }

    /// Others take all the room in a mailbox, or give theirs back.
    fn fill<'m>(&mut self, mailboxes: &'m [Arc<Mailbox>], full: &mut Vec<Reservation<'m>>) {
        if !full.is_empty() {
            full.swap_remove(self.random.below(full.len()));
        } else if self.random.one_in(4) {
            let mailbox = &mailboxes[self.random.below(SHARDS)];
            full.extend(mailbox.reserve(MAILS_MAX - mailbox.len(), 0));
        }
    }

    /// The last life of the server ends when everybody who may come has heard everything.
    pub(super) fn end(&mut self, control: &Control, under_way: UnderWay<'_>) {
        let Control { router, .. } = control;
        let UnderWay { full, sendings, mut resumings } = under_way;
        drop(full);
        self.archive.iter().for_each(|archive| archive.set_closed(false));
        assert!(sendings.is_empty(), "a send that does not come to its end");
        self.hurries = true;
        for round in 0..ROUNDS {
            (0..SHARDS).for_each(|shard| while self.turn(shard) {});
            (0..USERS).for_each(|user| self.read(user, round < ROUNDS - 10));
            (0..10 * USERS).for_each(|_| self.step_resume(router, &mut resumings));
            for user in 0..USERS {
                if self.users[user].may_come() && round < ROUNDS / 2 {
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

    /// Somebody goes on with a send, or gives it up.
    pub(super) fn step_send(&mut self, sendings: &mut Vec<Under<'_>>, ending: bool) {
        let index = self.random.below(sendings.len());
        if !ending && self.random.one_in(30) {
            sendings.swap_remove(index);
            return;
        }
        let (number, sending) = &mut sendings[index];
        let step = sending.step(&self.graph).unwrap();
        if let Some(number) = *number {
            self.sent[number].1 = sending.event().map(|event| event.number());
            self.archive.iter().zip(sending.event()).for_each(|(to, event)| to.append(event));
        }
        if let Step::Posted(receipt) = step {
            self.receipts.push(receipt);
            sendings.swap_remove(index);
        }
    }

    pub(super) fn step_resume<'r>(&mut self, router: &'r Router, resumings: &mut Resumings<'r>) {
        if let Some(resume) = self.server.resumes.take() {
            let conn = resume.asker.conn;
            resumings.push_back(Resumed::new(conn, Resuming::begin(router, resume).unwrap()));
        }
        let Some(mut resumed) = resumings.pop_front() else { return };
        if resumed.step(&self.graph, &mut self.random) != ResumeStep::Done {
            return resumings.push_back(resumed);
        }
        let conn = resumed.conn;
        let key = Key { slot: conn.slot() as u32, generation: conn.generation() };
        let is_it = |Place { shard, key: of, .. }| (shard, of) == (conn.worker(), key);
        let mut online = self.users.iter_mut().filter_map(|user| user.online.as_mut());
        if let Some(connection) = online.find(|connection| is_it(connection.place)) {
            connection.resumed_at = self.server.event_ids.last();
        }
    }

    pub(super) fn turn(&mut self, shard: usize) -> bool {
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
