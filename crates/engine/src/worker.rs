//! A worker: one thread, one epoll, one listener, one shard, and the loop that turns them.
//!
//! A turn: wait, accept, fire timers, read and write what is ready ([`crate::service`]), take the
//! mail, write once to each connection, and again. Each step has its budget in [`crate::limits`],
//! so no step keeps the others waiting for more than a few milliseconds. Where there are more
//! workers than cores, not all serve clients [at one time](sync::permits), or send to [large
//! audiences](crate::fan_outs).

mod accepting;
mod fan_outs;
mod lanes;
mod serving;

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;

use sync::room::{Capacity, WorkerCapacity};
use sys::epoll::Epoll;
use sys::{clock, group, machine, priority, table};

use crate::config::EngineConfig;
use crate::counters::Counters;
use crate::handover::{HandoverReceiver, HandoverSender, ReceiveOutcome, SendProgress};
use crate::kernel::Kernel;
use crate::lane::{Lane, LaneSocket};
use crate::limits;
use crate::listener::{LISTENERS_MAX, Listener};
use crate::mailbox::{Mailbox, Order};
use crate::shard::{Shard, Shared};
use crate::short_sleep::ShortSleep;
use crate::shortage::Shortage;
use crate::tls::Tls;
use fan_outs::FanOuts;
use serving::Serving;

const MAILBOX: u64 = u64::MAX - LISTENERS_MAX as u64;

/// By how much a worker gives way whose connections are another's.
const LEAVING_NICE: u8 = 19;

/// How often a worker that has written all down looks whose it is.
const FROZEN_LOOK_MS: u64 = 2;

/// How often a worker with nothing else to do looks whether somebody has set the wall clock.
const WALL_LOOK_MS: u64 = 1_000;

/// A worker, made and run on its own thread.
pub(crate) struct Worker {
    shard: Shard<Tls<Kernel>>,
    mailbox: Arc<Mailbox>,
    counters: Arc<Counters>,
    epoll: Rc<Epoll>,
    /// Gone once the worker drains.
    listeners: Vec<Listener>,
    /// Given up for a moment to answer a client for whom there is no descriptor.
    spare: Option<File>,
    started_ms: u64,
    /// When the last turn began, in milliseconds since then.
    began_ms: u64,
    /// When to look at the listener again, after the kernel was short of something.
    accept_again_ms: Option<u64>,
    short_sleep: ShortSleep,
    serving: Serving,
    fan_outs: FanOuts,
    capacity: WorkerCapacity,
    /// Of what the kernel gives for a connection, although there are places.
    shortage: Shortage,
    /// The lane's socket, kept open as long as the worker turns.
    lane_socket: Option<Arc<LaneSocket>>,
    /// What it does for senders.
    lane: Option<Box<dyn Lane>>,
    /// Whether that was told what the last wait has reported.
    is_lane_told: bool,
    /// All connections are to be ended over that time, from when this turn's mail is delivered.
    move_over_ms: Option<u64>,
    /// All goes to another process.
    handover: Option<Box<HandoverSender>>,
    /// Whether the kernel may be told who is full: the worker's number is its listener's index.
    is_in_order: bool,
}

impl Worker {
    /// The worker `number`, which opens its part of each address in `listen`, beside which stands
    /// whether TLS is spoken there. The calling thread has a descriptor table of its own.
    pub(crate) fn new(
        listen: &[(SocketAddr, bool)],
        number: usize,
        config: EngineConfig,
        shared: Shared,
        mailbox: Arc<Mailbox>,
        capacity: WorkerCapacity,
    ) -> io::Result<Worker> {
        clock::set_timer_slack(limits::TIMER_SLACK_NS)?;
        let epoll = Rc::new(Epoll::new()?);
        let listeners =
            listen.iter().map(|&(address, is_tls)| Listener::open(address, is_tls, &epoll));
        let listeners = listeners.collect::<io::Result<_>>()?;
        epoll.add_edges(&*mailbox, MAILBOX)?;
        let counters = shared.counters.clone();
        let met = config.tls.as_ref().map(|tls| tls.config.clone());
        let limits = shared.handshake_limits.clone();
        let sockets = Tls::new(Kernel::new(Rc::clone(&epoll)), met, limits, counters.clone());
        let cores = machine::cores();
        let short_sleep = ShortSleep::new(config.workers, cores);
        let serving = Serving::new(shared.permits.clone());
        let fan_outs = FanOuts::new(shared.fan_outs.clone(), number);
        let shard = Shard::new(number, sockets, config, shared);
        Ok(Worker {
            started_ms: shard.started_ms(),
            began_ms: 0,
            shard,
            mailbox,
            counters,
            epoll,
            listeners,
            spare: Some(File::open("/dev/null")?),
            accept_again_ms: None,
            short_sleep,
            serving,
            fan_outs,
            capacity,
            shortage: Shortage::default(),
            lane_socket: None,
            lane: None,
            is_lane_told: true,
            move_over_ms: None,
            handover: None,
            is_in_order: true,
        })
    }

    /// Its number.
    pub(crate) fn number(&self) -> usize {
        self.shard.worker()
    }

    /// Takes over what `receiver` gets, and then turns as [`Worker::run`] does.
    pub(crate) fn take_over(
        mut self,
        receiver: HandoverReceiver,
        is_in_order: bool,
    ) -> io::Result<()> {
        let (listeners, bound) = match receiver.run(&mut self.shard, &self.epoll)? {
            ReceiveOutcome::Ours { listeners, bound } => (listeners, bound),
            ReceiveOutcome::Nothing => return Ok(()),
        };
        for (listener, is_tls) in listeners {
            // Whom the other process knew to be full is not who is full here.
            let _ = group::prefer_none(&listener);
            self.listeners.push(Listener::taken_over(listener, is_tls, &self.epoll)?);
        }
        for (listener, is_tls) in bound {
            self.listeners.push(Listener::open_bound(listener, is_tls, &self.epoll)?);
        }
        self.is_in_order = is_in_order;
        self.run()
    }

    /// Turns until it is drained, or all is another's.
    pub(crate) fn run(mut self) -> io::Result<()> {
        // Nobody has waited for the first turn, though a successor's time begins long before.
        self.began_ms = clock::monotonic_ms() - self.started_ms;
        // What was taken over may have something to be done, which nothing reports.
        let mut busy = self.shard.is_busy();
        while !self.is_drained() {
            self.wait(busy)?;
            self.mailbox.awake();
            busy = self.turn();
            match self.give() {
                SendProgress::Sending { busy: gives } => busy |= gives,
                // Without a turn in between, which would do something to what is another's.
                SendProgress::Written if self.wait_frozen()? => return self.leave(),
                SendProgress::Written => busy = true,
                SendProgress::GoOn => {
                    self.handover = None;
                    self.shard.sockets().below().leave_copies();
                    busy = true;
                }
                // What is closed here is open there.
                SendProgress::Leave => return self.leave(),
            }
            if busy {
                // Bulk work goes on for many turns. Whoever shares this core, be it a sender or a
                // reader, gets it in between: with 6,000 followers of one subject written to twice
                // a second, others' p99 was 3 ms without this and is 1 ms with it.
                thread::yield_now();
            }
        }
        self.shard.abort_all();
        Ok(())
    }

    /// Waits for something to do, but where some is left.
    fn wait(&mut self, busy: bool) -> io::Result<()> {
        let mut timeout_ms = Some(0);
        if self.waits_to_serve() {
            if !busy {
                self.serving.wait_for_permit();
            }
        } else {
            match self.short_sleep_ns(busy) {
                Some(ns) => self.epoll.wait_ns(&mut self.serving.reports, ns)?,
                None => {
                    timeout_ms = self.timeout_ms(busy);
                    self.epoll.wait(&mut self.serving.reports, timeout_ms)?;
                }
            }
            self.serving.renew();
            self.is_lane_told = false;
        }
        // Neither a turn nor a look for a permit takes long.
        self.shard.turn_comes_by(timeout_ms.map(|ms| self.began_ms + ms));
        Ok(())
    }

    /// Does what is to be done to give all to another process.
    fn give(&mut self) -> SendProgress {
        let Some(sender) = &mut self.handover else { return SendProgress::Sending { busy: false } };
        let listeners: Vec<_> =
            self.listeners.iter().map(|listener| (&listener.socket, listener.is_tls)).collect();
        let has_mail = self.mailbox.len() > 0;
        sender.turn(&mut self.shard, &listeners, has_mail)
    }

    /// Forgets everything, which is another's now, when it is this worker's turn: to close a
    /// million descriptors takes the kernel a second, in which others have more to do.
    fn leave(mut self) -> io::Result<()> {
        let Some(mut sender) = self.handover.take() else { return Ok(()) };
        // Where it cannot be had, it is as fast as it is.
        let _ = priority::give_way(LEAVING_NICE);
        while !sender.is_its_turn() && sender.wait(FROZEN_LOOK_MS).is_ok() {}
        drop(self);
        sender.has_gone();
        Ok(())
    }

    /// Does nothing until it is said whose the connections are. Whether they are another's.
    fn wait_frozen(&mut self) -> io::Result<bool> {
        self.serving.give_way();
        let Some(sender) = &mut self.handover else { return Ok(false) };
        while sender.is_frozen() {
            sender.wait(FROZEN_LOOK_MS)?;
        }
        Ok(sender.has_left())
    }

    /// Goes by `order` from now on.
    fn obey(&mut self, order: Order, now_ms: u64) {
        match order {
            Order::Texts(texts) => self.shard.show(texts),
            Order::Settings(settings) => self.shard.set(&settings),
            Order::Move(over_ms) => self.move_over_ms = Some(over_ms),
            Order::Handover(handover) => {
                // Most of them say that there is more to do for the one that has begun.
                if !self.handover.as_ref().is_some_and(|sender| sender.is_of(&handover)) {
                    let sender = HandoverSender::new(handover, self.shard.worker());
                    self.handover = Some(Box::new(sender));
                }
            }
            Order::Lane(lane) => self.begin_lane(lane, now_ms),
        }
    }

    /// One turn. `true` when work is left that waits for no report.
    fn turn(&mut self) -> bool {
        let began_ns = clock::monotonic_ns();
        let now_ms = began_ns / 1_000_000;
        self.began_ms = now_ms - self.started_ms;
        self.shard.begin_turn(self.began_ms);
        if self.shard.has_tokens() {
            self.shard.set_wall(clock::unix_ms());
        }
        for order in self.mailbox.take_orders() {
            self.obey(order, now_ms);
        }
        self.hear_lane(now_ms);
        self.serve_clients(began_ns);
        self.resume_accepting();
        self.look_for_descriptors(now_ms);
        let may_fan_out = self.fan_outs.may_go_on(began_ns);
        // Before all is written down, all is to be delivered, and nobody sends meanwhile.
        let is_frozen = self.handover.as_ref().is_some_and(|sender| sender.is_frozen());
        self.shard.let_fan_outs_wait(!may_fan_out && !is_frozen);
        let (took_mail, mail_left) = self.shard.take_mail(&self.mailbox);
        if self.shard.drain_deadline_ms().is_some() {
            self.listeners.clear();
        }
        if let Some(over_ms) = self.move_over_ms.take() {
            self.shard.move_all(over_ms);
        }
        self.shard.end_stalled();
        self.short_sleep.turned(took_mail, began_ns);
        if took_mail {
            self.serving.mail_has_come(now_ms);
        }
        self.mind_capacity();
        let writes_left = self.shard.flush();
        let lane_busy = self.lane_turned(now_ms);
        let ended_ns = clock::monotonic_ns();
        self.counters.turns.add(ended_ns - began_ns);
        let fans_out = self.fan_outs.turned(self.shard.has_fan_outs(), ended_ns);
        let others = lane_busy || self.serves_on() || fans_out;
        mail_left || writes_left || others || self.shard.has_work()
    }

    /// Tells the kernel when this worker has become full, or has room again.
    fn mind_capacity(&mut self) {
        let (taken, slots) = (self.shard.connections(), self.shard.slots_max());
        let most = self.shortage.connections_max(slots);
        if self.listeners.is_empty() || !self.is_in_order {
            return;
        }
        let changed = self.capacity.update(most.saturating_sub(taken), slots, |runs| {
            for Listener { socket, .. } in &self.listeners {
                let preferred = if runs.is_empty() { Ok(()) } else { group::prefer(socket, runs) };
                // Better all than an old set. Where that fails too, a full worker answers 503.
                if runs.is_empty() || preferred.is_err() {
                    let _ = group::prefer_none(socket);
                }
            }
        });
        if changed {
            self.counters.full.set(u64::from(self.capacity.is_none()));
        }
    }

    /// Whether a shortage is over, now and then: no client comes that could show it.
    fn look_for_descriptors(&mut self, now_ms: u64) {
        let plenty = Capacity::plenty_from(self.shard.slots_max());
        self.shortage.look(now_ms, self.shard.connections(), plenty, table::free);
    }

    /// How long to sleep for a short time, if it is time for that. A short sleep is shorter than a
    /// timer's tick, so the timers need not be asked.
    fn short_sleep_ns(&self, busy: bool) -> Option<u64> {
        let is_to_be_rung = self.lane.as_ref().is_some_and(|lane| lane.is_awaited());
        if busy || is_to_be_rung || self.fan_outs.wait() {
            return None;
        }
        self.short_sleep.due_ns(clock::monotonic_ns())
    }

    /// Zero when there is work left or mail has come; else, since every mail rings now, until the
    /// next timer.
    fn timeout_ms(&self, busy: bool) -> Option<u64> {
        if busy || !self.mailbox.may_sleep(self.shard.takes_mail()) || self.fan_outs.are_granted() {
            return Some(0);
        }
        let pause = self.shard.next_pause_ends_ms();
        let timers = [self.shard.next_tick_ms(), self.shard.next_move_ms(), pause];
        let timer = timers.into_iter().flatten().min().map(|at| self.started_ms + at);
        let shortage = self.shortage.due_ms();
        let sender = self.handover.as_ref().and_then(|sender| sender.due_ms());
        let lane = self.lane.as_ref().and_then(|lane| lane.due_ms());
        let drain = self.shard.drain_deadline_ms();
        let has_ends = self.shard.has_tokens() && self.shard.connections() > 0;
        let wall = has_ends.then(|| self.started_ms + self.began_ms + WALL_LOOK_MS);
        let times = [timer, self.accept_again_ms, drain, shortage, sender, lane, wall];
        let next = times.into_iter().flatten().min()?;
        Some(next.saturating_sub(clock::monotonic_ms()))
    }

    fn is_drained(&self) -> bool {
        self.shard.drain_deadline_ms().is_some_and(|deadline| {
            self.shard.connections() == 0 || clock::monotonic_ms() >= deadline
        })
    }
}
