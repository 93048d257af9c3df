//! A server of a few shards under fake networks and a made-up clock, [put together](super::lives)
//! as `start` does it under a kernel, and driven in the worker's order.

use std::cell::{Cell, RefMut};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use hub::{Directory, Epoch, EventIds, Followers};
use proto::Transport;
use sync::connection_limit::ConnectionLimit;

use super::net::{Net, Wire};
use super::secure::{Ends, SimSockets};
use crate::account::Account;
use crate::addresses::Addresses;
use crate::client_sends::ClientSends;
use crate::clock::MadeClock;
use crate::config::EngineConfig;
use crate::counters::{Counters, Snapshot, WorkerSnapshot};
use crate::handing_out::HandOuts;
use crate::history_reads::HistoryReads;
use crate::limits::{self, LAST_BYTES_STILL_MS, LINGER_MS, work};
use crate::mailbox::{Mail, Mailbox};
use crate::receipt::Receipt;
use crate::reports::Report;
use crate::resume::Resumes;
use crate::router::{Sending, Step};
use crate::service::{self, Clients, Slice};
use crate::shard::{NoPlace, Shard};
use crate::slab::Key;
use crate::token_queue::TokenQueue;
use crate::watch::Watches;

pub(super) const SHARDS: usize = 2;

/// A budget that nobody spends.
pub(super) const UNBOUNDED: u32 = u32::MAX / 2;

/// What passes in a millisecond, as [`work`] counts.
const WORK_PER_MS: u32 = 10_000;

/// Where a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) shard: usize,
    pub(super) socket: usize,
    pub(super) key: Key,
}

/// One life of the server, but for the router, from which sends and resumes borrow.
pub(super) struct Server {
    pub(super) mailboxes: Arc<[Arc<Mailbox>]>,
    pub(super) directory: Arc<Directory>,
    pub(super) resumes: Arc<Resumes>,
    pub(super) token_queue: TokenQueue,
    pub(super) client_sends: Arc<ClientSends>,
    pub(super) history_reads: Arc<HistoryReads>,
    /// Where connections go that are served elsewhere, if any are.
    pub(super) hand_outs: Option<HandOuts>,
    pub(super) watches: Option<Watches>,
    pub(super) event_ids: Arc<EventIds>,
    pub(super) counters: Vec<Arc<Counters>>,
    pub(super) nets: Vec<Net>,
    pub(super) shards: Vec<Shard<SimSockets>>,
    pub(super) account: Arc<Account>,
    pub(super) connection_limit: Arc<ConnectionLimit>,
    pub(super) addresses: Arc<Addresses>,
    pub(super) clock: Arc<MadeClock>,
    pub(super) backlog_bytes_max: usize,
    pub(super) work_per_turn: u32,
    /// The most bytes that a shard reads at a time.
    pub(super) read_bytes: usize,
    /// How many reports a turn has time for.
    pub(super) reports_per_turn: usize,
    /// Work that has not made a whole millisecond.
    pub(super) work_left: u32,
    /// From when the shards count their time, in the clock's milliseconds: in multiples of a tick.
    pub(super) started_ms: i64,
    /// What it is made of.
    pub(super) nature: Nature,
}

/// What another version of the server has in common with it.
#[derive(Clone)]
pub(super) struct Nature {
    pub(super) config: EngineConfig,
    pub(super) epoch: Epoch,
    /// The clients' ends of TLS and the seed by which it is cut, where they speak that.
    pub(super) secured: Option<(Ends, u64)>,
}

/// A turn of a shard, in which time goes on by one with each look at the clock.
struct Turn<'s> {
    net: &'s Net,
    shard: &'s mut Shard<SimSockets>,
    /// Of whom the kernel has something to report, and the slot of each.
    reported: VecDeque<(usize, u32)>,
    looks: Cell<u64>,
}

impl<'s> Turn<'s> {
    /// So often the clock is looked at before the first report is dealt with.
    const LOOKS: u64 = 1;

    /// A turn that begins by asking the kernel.
    fn ask(net: &'s Net, shard: &'s mut Shard<SimSockets>) -> Turn<'s> {
        let sockets = net.sockets().into_iter();
        let reported = sockets.filter_map(|socket| Some((socket, net.wire(socket).slot()?)));
        Turn { net, shard, reported: reported.collect(), looks: Cell::default() }
    }
}

impl Clients for Turn<'_> {
    type Sockets = SimSockets;

    fn shard(&mut self) -> &mut Shard<SimSockets> {
        self.shard
    }

    /// Whoever was closed since the kernel was asked is still reported.
    fn next_report(&mut self) -> Option<Report> {
        let (socket, slot) = self.reported.pop_front()?;
        let closed = Report { slot, readable: true, writable: true, hung_up: true };
        Some(self.net.wire(socket).report().unwrap_or(closed))
    }

    /// Clients [connect](Server::connect) at any time between two turns.
    fn accept(&mut self, _: u64) {}

    fn now_ns(&self) -> u64 {
        self.looks.replace(self.looks.get() + 1)
    }
}

/// The defaults, for an address that nobody listens at.
pub(super) fn config() -> EngineConfig {
    EngineConfig::new("127.0.0.1:0".parse().unwrap())
}

/// One whose streams send no keep-alives.
pub(super) fn silent_config() -> EngineConfig {
    let mut config = config();
    config.settings.keepalive_ms = 0;
    config
}

/// Steps a send to its end, for which there is room.
pub(super) fn posted(sending: &mut Sending<'_>, followers: &dyn Followers) -> Receipt {
    loop {
        match sending.step(followers).unwrap() {
            Step::Posted(receipt) => return receipt,
            Step::More => {}
            Step::MailboxFull => panic!("a box of thousands is full"),
            Step::Stale | Step::NotKept => panic!("a number that does not grow"),
        }
    }
}

impl Server {
    /// A client connects to a shard, whose kernel takes so many bytes for it.
    pub(super) fn connect(&mut self, shard: usize, room: usize) -> Place {
        self.connect_from(Ipv4Addr::LOCALHOST.into(), shard, room).unwrap()
    }

    /// The same from `address`, whose bounds may not let it in.
    pub(super) fn connect_from(
        &mut self,
        address: IpAddr,
        shard: usize,
        room: usize,
    ) -> Result<Place, NoPlace> {
        let place = self.connect_silent(address, shard, room)?;
        if self.shards[shard].sockets().is_secure() {
            self.shake_hands(place);
        }
        Ok(place)
    }

    /// The same, where one of TLS has not begun its handshake.
    pub(super) fn connect_silent(
        &mut self,
        address: IpAddr,
        shard: usize,
        room: usize,
    ) -> Result<Place, NoPlace> {
        let socket = self.nets[shard].connect(room);
        let accepted = self.shards[shard].accept(socket, address);
        let key = accepted.map_err(|(_, why)| {
            self.nets[shard].wire(socket).server_closed = true;
            why
        })?;
        self.nets[shard].accepted(socket, key);
        if self.shards[shard].sockets().is_secure() {
            self.shards[shard].secure(key.slot);
        }
        Ok(Place { shard, socket, key })
    }

    /// A connection that has just come shakes hands, in no time: the model begins behind it.
    fn shake_hands(&mut self, place: Place) {
        self.shards[place.shard].readable(place.key.slot, false);
        for _ in 0..10_000 {
            if !self.shards[place.shard].sockets().shakes(place.socket) {
                return;
            }
            self.report_one(place);
        }
        panic!("no end of a handshake");
    }

    pub(super) fn wire(&self, place: Place) -> RefMut<'_, Wire> {
        self.nets[place.shard].wire(place.socket)
    }

    /// A shard learns what time it is.
    pub(super) fn tick(&mut self, shard: usize) {
        let now_ms = self.clock.now_ms();
        self.nets[shard].tell(now_ms);
        self.shards[shard].begin_turn((now_ms as i64 - self.started_ms) as u64);
        if self.shards[shard].has_tokens() {
            self.shards[shard].set_wall(self.clock.unix_ms());
        }
        self.shards[shard].do_due();
        if !self.shards[shard].is_behind() {
            self.nets[shard].check_silence();
        }
    }

    /// From now on a turn has this for clients.
    pub(super) fn set_work_per_turn(&mut self, work: u32) {
        self.work_per_turn = work;
        for shard in &mut self.shards {
            shard.set_work_per_turn(work);
        }
    }

    /// From now on a shard reads so many bytes at a time.
    pub(super) fn set_read_bytes(&mut self, bytes: usize) {
        self.read_bytes = bytes;
        self.shards.iter_mut().for_each(|shard| shard.set_read_bytes(bytes));
    }

    /// What the first half of a turn may cost: its budget, and the last thing that each part of it
    /// had time for. That is a read and the answer to it, the rest of a backlog before it, and a
    /// close.
    fn first_half_max(&self) -> u32 {
        let read = work::READ + self.read_bytes as u32 / work::BYTES;
        self.work_per_turn.saturating_add(4 * (read + 2 * work::WRITE + work::END))
    }

    /// The first half of a turn: what is due, what was put off, and what the kernel reports. It
    /// takes its time.
    pub(super) fn begin_turn(&mut self, shard: usize) {
        assert!(self.shards[shard].accounts_truly(), "kept, and not entered");
        self.pass_turn(shard);
        self.serve(shard);
        let cost = self.pass_turn(shard);
        assert!(cost <= self.first_half_max(), "half a turn of {cost}");
    }

    /// Time passes by what the shard has done since the last time. Answers what that was.
    fn pass_turn(&mut self, shard: usize) -> u32 {
        let cost = self.nets[shard].take_cost();
        self.work_left += cost;
        self.clock.pass(u64::from(self.work_left / WORK_PER_MS));
        self.work_left %= WORK_PER_MS;
        cost
    }

    /// A whole turn as the worker takes it. Whether there is more to do.
    pub(super) fn turn(&mut self, shard: usize) -> bool {
        self.begin_turn(shard);
        let (_, mail_left) = self.shards[shard].take_mail(&self.mailboxes[shard]);
        self.shards[shard].end_stalled();
        let writes_left = self.shards[shard].flush();
        let cost = self.pass_turn(shard);
        // Answers to polls, small mail, a slice of a large one and of full backlogs, and the last
        // thing that there was time for in each.
        let budgets = limits::DELIVERIES_PER_TURN as u32
            + limits::EXPRESS_WORK_PER_TURN
            + 2 * limits::BULK_WORK_PER_TURN;
        let last = work::WRITE + (2 * self.backlog_bytes_max) as u32 / work::BYTES;
        let most = self.first_half_max().saturating_add(budgets + 4 * last);
        assert!(cost <= most, "the other half of a turn of {cost}");
        mail_left || writes_left || self.shards[shard].is_busy()
    }

    /// What a turn does for clients: the kernel is asked, what is due is done, and of what is
    /// reported as much is dealt with as there is time for. That is something at the least,
    /// whatever else there is to do.
    fn serve(&mut self, shard: usize) {
        let slice = Some(Slice { began_ns: 0, serve_ns: self.reports_per_turn as u64 });
        let (now_ms, unix_ms) = (self.clock.now_ms(), self.clock.unix_ms());
        let (net, shard) = (&self.nets[shard], &mut self.shards[shard]);
        net.tell(now_ms);
        shard.begin_turn((now_ms as i64 - self.started_ms) as u64);
        if shard.has_tokens() {
            shard.set_wall(unix_ms);
        }
        let mut turn = Turn::ask(net, shard);
        service::begin(&mut turn, slice);
        if !turn.shard.is_behind() {
            net.check_silence();
        }
        service::go_on(&mut turn, slice);
        let has_dealt = turn.looks.get() > Turn::LOOKS;
        let has_left = turn.shard.has_put_off();
        assert!(has_dealt || !has_left || self.work_per_turn == 0, "reports do not go on");
    }

    /// The same for one connection, at once and in between turns.
    pub(super) fn report_one(&mut self, Place { shard, socket, .. }: Place) {
        let report = self.nets[shard].wire(socket).report();
        if let Some(report) = report {
            self.shards[shard].writable(report.slot);
            self.shards[shard].readable(report.slot, report.hung_up);
        }
    }

    /// The same until all that has come is read, which is at once but for TLS.
    pub(super) fn hear_out(&mut self, place: Place) {
        while self.wire(place).has_news() {
            self.report_one(place);
        }
    }

    /// Hands the next mail over, if there is one, as the worker does.
    pub(super) fn take_mail(&mut self, shard: usize) -> bool {
        let posted = self.event_ids.posted();
        match self.mailboxes[shard].take() {
            Some(mail) => {
                self.hand_over(shard, mail);
                true
            }
            None => {
                self.shards[shard].settle(posted);
                false
            }
        }
    }

    /// Hands a mail over as one turn would that had all the time that it takes.
    pub(super) fn hand_over(&mut self, shard: usize, mail: Mail) {
        self.shards[shard].mail(mail);
        self.shards[shard].finish_mail();
    }

    /// All clients have gone, and what is still being answered has its time as long as it moves,
    /// and no more.
    pub(super) fn end(&mut self) {
        self.set_work_per_turn(UNBOUNDED);
        for moment_ms in [0, LAST_BYTES_STILL_MS, LINGER_MS] {
            self.clock.pass(if moment_ms > 0 { moment_ms + 1000 } else { 0 });
            for shard in 0..SHARDS {
                self.begin_turn(shard);
                while self.has_news(shard) {
                    self.begin_turn(shard);
                }
                while self.take_mail(shard) {}
                while self.shards[shard].flush() {}
            }
        }
        for shard in &mut self.shards {
            let all_gone = shard.connections() == 0;
            assert!(!all_gone || shard.sockets().are_empty(), "keys of somebody who has gone");
        }
    }

    /// Whether there is something to report to a shard.
    fn has_news(&self, shard: usize) -> bool {
        let net = &self.nets[shard];
        self.shards[shard].has_put_off()
            || net.sockets().into_iter().any(|socket| net.wire(socket).has_news())
    }

    /// Nothing is left of clients that have all gone.
    pub(super) fn check_nothing_is_left(&self) {
        assert_eq!((self.directory.ids_online(), self.directory.keys_online()), (0, 0));
        assert_eq!(self.account.bytes(), 0, "kept for nobody");
        assert!(self.addresses.is_empty(), "counted for nobody");
        assert!(self.client_sends.questions().counts_truly(), "counted for no question");
        for (shard, counters) in self.shards.iter().zip(&self.counters) {
            assert_eq!((shard.connections(), shard.next_tick_ms()), (0, None));
            let figures = counters.snapshot();
            assert_eq!(figures.opened, figures.closed.iter().sum::<u64>());
            assert_eq!(figures.streams_open, [0; Transport::COUNT]);
        }
    }

    /// What all shards have counted.
    pub(super) fn figures(&self) -> WorkerSnapshot {
        let workers = self.counters.iter().map(|counters| counters.snapshot()).collect();
        Snapshot { workers, ..Snapshot::default() }.whole()
    }
}
