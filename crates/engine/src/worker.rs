//! A worker: one thread, one epoll, one listener, one shard, and the loop that turns them.
//!
//! A turn: wait, fire timers, read and write what is ready, accept within a budget, take the mail,
//! write once to each connection, and again. Each step has its budget in [`crate::limits`], so no
//! step keeps the others waiting for more than a few milliseconds.

use std::fs::File;
use std::io::{self, ErrorKind, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use hub::DisconnectReason;
use proto::request::HEAD_BYTES_MAX;
use sys::epoll::{Epoll, Events};
use sys::{clock, group, socket, table};

use crate::counters::Counters;
use crate::door::{DOORS_MAX, Door, is_tls_door};
use crate::limits;
use crate::mailbox::Mailbox;
use crate::nap::Nap;
use crate::replies::Replies;
use crate::room::{Room, WorkerRoom};
use crate::shard::{NoPlace, Shard};
use crate::shortage::Shortage;
use crate::sockets::{Received, Sockets};
use crate::tls::{Numbered, Tls};

const MAILBOX: u64 = u64::MAX - DOORS_MAX as u64;

/// How long a worker that the kernel gives no descriptor or memory leaves its listener alone.
const ACCEPT_PAUSE_MS: u64 = 100;

/// Sockets of the kernel's own.
pub(crate) struct Kernel;

impl Sockets for Kernel {
    type Socket = OwnedFd;

    fn receive(&mut self, socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<Received> {
        socket::receive(socket, buffer).map(|len| Received::of(len, buffer.len()))
    }

    fn send(&mut self, socket: &OwnedFd, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        socket::send_parts(socket, parts)
    }

    fn shutdown(&mut self, socket: &OwnedFd) {
        // Fails only on a connection that is broken already, which the next read shows.
        let _ = socket::shutdown_write(socket);
    }

    fn peer(&self, socket: &OwnedFd) -> Option<SocketAddr> {
        socket::peer_address(socket).ok()
    }

    fn close(&mut self, socket: OwnedFd, abort: bool) {
        if abort {
            let _ = socket::reset_on_close(&socket);
        }
        drop(socket);
    }
}

impl Numbered for Kernel {
    fn number(socket: &OwnedFd) -> u32 {
        socket.as_raw_fd() as u32
    }
}

/// A worker, made and run on its own thread.
pub(crate) struct Worker {
    shard: Shard<Tls<Kernel>>,
    mailbox: Arc<Mailbox>,
    counters: Arc<Counters>,
    epoll: Epoll,
    /// Gone once the worker drains.
    doors: Vec<Door>,
    /// Given up for a moment to answer a client for whom there is no descriptor.
    spare: Option<File>,
    started_ms: u64,
    /// When to look at the listener again, after the kernel was short of something.
    accept_again_ms: Option<u64>,
    nap: Nap,
    room: WorkerRoom,
    /// Of what the kernel gives for a connection, although there are places.
    shortage: Shortage,
}

impl Worker {
    /// Gives the calling thread its private descriptor table and opens its part of each address in
    /// `listen`, beside which stands whether TLS is spoken there.
    pub(crate) fn new(
        listen: &[(SocketAddr, bool)],
        shard: Shard<Tls<Kernel>>,
        mailbox: Arc<Mailbox>,
        replies: &Replies,
        counters: Arc<Counters>,
        nap: Nap,
        room: WorkerRoom,
    ) -> io::Result<Worker> {
        table::make_private(&[&*mailbox, replies])?;
        clock::set_timer_slack(limits::TIMER_SLACK_NS)?;
        let epoll = Epoll::new()?;
        let doors = listen.iter().map(|&(address, is_tls)| Door::open(address, is_tls, &epoll));
        let doors = doors.collect::<io::Result<_>>()?;
        epoll.add_edges(&*mailbox, MAILBOX)?;
        Ok(Worker {
            started_ms: shard.started_ms(),
            shard,
            mailbox,
            counters,
            epoll,
            doors,
            spare: Some(File::open("/dev/null")?),
            accept_again_ms: None,
            nap,
            room,
            shortage: Shortage::default(),
        })
    }

    /// Turns until it is drained.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(limits::EVENTS_PER_WAIT);
        let mut busy = false;
        while !self.is_drained() {
            let timeout = self.timeout_ms(busy);
            self.epoll.wait(&mut events, timeout)?;
            self.mailbox.awake();
            busy = self.turn(&events);
            if busy {
                // Bulk work goes on for many turns. Whoever shares this core, be it a sender or a
                // reader, gets it in between: with 6,000 followers of one subject written to twice
                // a second, others' p99 was 3 ms without this and is 1 ms with it.
                std::thread::yield_now();
            }
        }
        self.shard.abort_all();
        Ok(())
    }

    /// One turn. `true` when work is left that waits for no report.
    fn turn(&mut self, events: &Events) -> bool {
        let began_ns = clock::monotonic_ns();
        let now_ms = began_ns / 1_000_000;
        self.shard.tick(now_ms - self.started_ms);
        if let Some(texts) = self.mailbox.take_texts() {
            self.shard.show(texts);
        }
        if let Some(settings) = self.mailbox.take_settings() {
            self.shard.set(&settings);
        }
        self.shard.read_deferred();
        let mut clients_wait = [false; DOORS_MAX];
        for event in events.iter() {
            match event.token {
                token if is_tls_door(token).is_some() => {
                    clients_wait[usize::from(is_tls_door(token) == Some(true))] = true;
                }
                // Edge-triggered: each ring is a report of its own, nothing must be read.
                MAILBOX => {}
                token => {
                    let slot = slot_of(token);
                    if event.writable() {
                        self.shard.writable(slot);
                    }
                    if event.readable() {
                        self.shard.readable(slot, event.hung_up());
                    }
                }
            }
        }
        for door in 0..self.doors.len() {
            match clients_wait[usize::from(self.doors[door].is_tls)] {
                true => self.accept(door),
                false => self.doors[door].accepts = 1,
            }
        }
        self.resume_accepting();
        self.look_for_descriptors(now_ms);
        let (took_mail, mail_left) = self.shard.take_mail(&self.mailbox);
        if self.shard.drain_deadline_ms().is_some() {
            self.doors.clear();
        }
        if let Some(config) = self.mailbox.take_tls() {
            self.shard.sockets().set_config(config);
        }
        if let Some(over_ms) = self.mailbox.take_move() {
            self.shard.move_all(over_ms);
        }
        self.shard.end_stalled();
        self.nap.turned(took_mail, now_ms);
        self.mind_room();
        let writes_left = self.shard.flush();
        self.counters.turns.add(clock::monotonic_ns() - began_ns);
        mail_left || writes_left || self.shard.is_busy()
    }

    /// Tells the kernel when this worker has become full, or has room again.
    fn mind_room(&mut self) {
        let (taken, slots) = (self.shard.connections(), self.shard.slots_max());
        let most = self.shortage.connections_max(slots);
        if self.doors.is_empty() {
            return;
        }
        let changed = self.room.update(most.saturating_sub(taken), slots, |runs| {
            for Door { listener, .. } in &self.doors {
                let preferred =
                    if runs.is_empty() { Ok(()) } else { group::prefer(listener, runs) };
                // Better all than an old set. Where that fails too, a full worker answers 503.
                if runs.is_empty() || preferred.is_err() {
                    let _ = group::prefer_none(listener);
                }
            }
        });
        if changed {
            self.counters.full.set(u64::from(self.room.is_none()));
        }
    }

    /// Whether a shortage is over, now and then: no client comes that could show it.
    fn look_for_descriptors(&mut self, now_ms: u64) {
        let plenty = Room::plenty_from(self.shard.slots_max());
        self.shortage.look(now_ms, self.shard.connections(), plenty, table::free);
    }

    /// Zero when there is work left or mail has come; else until the nap is over, or, since every
    /// mail rings now, until the next timer.
    fn timeout_ms(&self, busy: bool) -> Option<u64> {
        if busy {
            return Some(0);
        }
        // A nap is shorter than a timer's tick, so the timers need not be asked.
        if let Some(nap_ms) = self.nap.due_ms(clock::monotonic_ms()) {
            return Some(nap_ms);
        }
        if !self.mailbox.may_sleep() {
            return Some(0);
        }
        let timers = [self.shard.next_tick_ms(), self.shard.next_move_ms()];
        let timer = timers.into_iter().flatten().min().map(|at| self.started_ms + at);
        let shortage = self.shortage.due_ms();
        let times = [timer, self.accept_again_ms, self.shard.drain_deadline_ms(), shortage];
        let next = times.into_iter().flatten().min()?;
        Some(next.saturating_sub(clock::monotonic_ms()))
    }

    fn is_drained(&self) -> bool {
        self.shard.drain_deadline_ms().is_some_and(|deadline| {
            self.shard.connections() == 0 || clock::monotonic_ms() >= deadline
        })
    }

    /// One client, or up to twice as many as last time: to find the queue empty costs the kernel
    /// a socket made and thrown away, about as much as a client.
    fn accept(&mut self, door: usize) {
        let clients = self.doors[door].accepts;
        self.doors[door].accepts = (clients * 2).min(limits::ACCEPTS_PER_TURN);
        for nth in 0..clients {
            let Door { listener, is_tls, .. } = &self.doors[door];
            let is_tls = *is_tls;
            // Hellos for which there is no time wait better in the kernel's queue than here, where
            // what established clients say would have to wait behind them.
            if is_tls && nth > 0 && self.shard.is_spent() {
                return;
            }
            match socket::accept_from(listener) {
                Ok((socket, address)) => self.admit(socket, address, is_tls),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return,
                    // The client was gone before it was accepted (accept(2), ECONNABORTED).
                    ErrorKind::ConnectionAborted | ErrorKind::Interrupted => {}
                    _ => return self.accept_failed(door, &error),
                },
            }
        }
    }

    fn admit(&mut self, socket: OwnedFd, address: IpAddr, is_tls: bool) {
        if let Some(why) = self.shard.lets_nobody_in() {
            return self.refuse(&socket, why, is_tls);
        }
        let slot = match self.shard.accept(socket, address) {
            Ok(key) => key.slot,
            Err((socket, why)) => return self.refuse(&socket, why, is_tls),
        };
        if is_tls {
            self.shard.secure(slot);
        }
        self.shortage.holds(self.shard.connections());
        // Before the answer goes out: who has the last place must not find others sent here.
        self.mind_room();
        // Its request is here already, or it has let us wait for it too long.
        self.shard.readable(slot, false);
        let added =
            self.shard.socket(slot).map(|socket| self.epoll.add_stream(socket, u64::from(slot)));
        if let Some(Err(_)) = added {
            self.shard.give_up(slot);
        }
    }

    /// No descriptor, or no memory for one: the next client in line is answered 503 by means of the
    /// spare descriptor. If even that fails, the listener is left alone for a moment, or it would
    /// be reported again at once and spin the core.
    fn accept_failed(&mut self, door: usize, error: &io::Error) {
        if socket::is_shortage(error) {
            self.counters.shortages.add(1);
            self.shortage.met(self.shard.connections(), clock::monotonic_ms());
            self.mind_room();
        }
        self.spare = None;
        let Door { listener, is_tls, .. } = &self.doors[door];
        let (accepted, is_tls) = (socket::accept(listener), *is_tls);
        let refused = accepted.is_ok();
        if let Ok(socket) = accepted {
            self.refuse(&socket, NoPlace::Full, is_tls);
        }
        self.spare = File::open("/dev/null").ok();
        if !refused || self.spare.is_none() {
            self.pause_accepting();
        }
    }

    /// Who speaks TLS could not read an answer, and is closed without one.
    fn refuse(&mut self, socket: &OwnedFd, why: NoPlace, is_tls: bool) {
        // All that it has sent is read, because closing over unread bytes would reset the answer
        // away. Best effort: a client that cannot even take the answer is closed all the same.
        let mut head = [0; HEAD_BYTES_MAX];
        let len = socket::receive(socket, &mut head).unwrap_or(0);
        if !is_tls {
            let _ = socket::send(socket, &self.shard.no_place_answer(&head[..len], why));
        }
        let _ = socket::shutdown_write(socket);
        self.shard.note_no_place(socket, why);
        let reason = match why {
            NoPlace::Full => DisconnectReason::Full,
            NoPlace::Bound(_) => DisconnectReason::AddressLimit,
            NoPlace::Moving => DisconnectReason::Moved,
        };
        self.counters.opened.add(1);
        self.counters.closed[reason as usize].add(1);
    }

    fn pause_accepting(&mut self) {
        let left = self.doors.iter_mut().map(|door| door.leave(&self.epoll));
        if left.fold(true, |all, left| all & left.is_ok()) {
            self.accept_again_ms = Some(clock::monotonic_ms() + ACCEPT_PAUSE_MS);
        }
    }

    fn resume_accepting(&mut self) {
        let due = self.accept_again_ms.is_some_and(|at| clock::monotonic_ms() >= at);
        if due {
            let watched = self.doors.iter_mut().map(|door| door.watch(&self.epoll));
            let all = watched.fold(true, |all, watched| all & watched.is_ok());
            self.accept_again_ms = (!all).then(|| clock::monotonic_ms() + ACCEPT_PAUSE_MS);
        }
    }
}

/// The slot that a report is for. It needs no generation: what is closed leaves epoll at once, and
/// a slot is given away again only when all reports of a turn are dealt with.
fn slot_of(token: u64) -> u32 {
    token as u32
}
