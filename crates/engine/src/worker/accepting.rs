//! Clients come: they are accepted within a budget, or answered that there is no place.

use std::fs::File;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use hub::DisconnectReason;
use proto::request::HEAD_BYTES_MAX;
use sys::{clock, socket};

use super::Worker;
use crate::limits;
use crate::listener::Listener;
use crate::shard::NoPlace;

/// How long a worker that the kernel gives no descriptor or memory leaves its listener alone.
const ACCEPT_PAUSE_MS: u64 = 100;

impl Worker {
    /// One client, or up to twice as many as last time, until `until_ns`: to find the queue empty
    /// costs the kernel a socket made and thrown away, about as much as a client.
    pub(super) fn accept_at(&mut self, listener: usize, until_ns: u64) {
        let clients = self.listeners[listener].accepts;
        self.listeners[listener].accepts = (clients * 2).min(limits::ACCEPTS_PER_TURN);
        for nth in 0..clients {
            let Listener { socket, is_tls, .. } = &self.listeners[listener];
            let is_tls = *is_tls;
            // Hellos for which there is no time wait better in the kernel's queue than here, where
            // what established clients say would have to wait behind them.
            if is_tls && nth > 0 && self.shard.is_spent() {
                return;
            }
            if nth > 0 && clock::monotonic_ns() >= until_ns {
                return;
            }
            match socket::accept_from(socket) {
                Ok((socket, address)) => self.admit(socket, address, is_tls),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // Who is next has done nothing.
                Err(error) if socket::is_of_client(&error) => {}
                Err(error) if socket::is_shortage(&error) => return self.accept_short(listener),
                // What it is the listener has: it is left alone for a moment, or it would be
                // reported again at once and spin the core.
                Err(_) => return self.pause_accepting(),
            }
        }
    }

    fn admit(&mut self, socket: OwnedFd, address: IpAddr, is_tls: bool) {
        if let Some(why) = self.shard.lets_nobody_in() {
            return self.refuse(socket, address, why, is_tls);
        }
        let slot = match self.shard.accept(socket, address) {
            Ok(key) => key.slot,
            Err((socket, why)) => return self.refuse(socket, address, why, is_tls),
        };
        if is_tls {
            self.shard.secure(slot);
        }
        self.shortage.holds(self.shard.connections());
        // Before the answer goes out: who has the last place must not find others sent here.
        self.mind_capacity();
        self.begin_reading(slot);
    }

    /// Looks at what a client has sent, and from then on at what is reported of it.
    fn begin_reading(&mut self, slot: u32) {
        // Its request is here already, or it has let us wait for it too long.
        self.shard.readable(slot, false);
        let added =
            self.shard.socket(slot).map(|socket| self.epoll.add_stream(socket, u64::from(slot)));
        if let Some(Err(_)) = added {
            self.shard.give_up(slot);
        }
    }

    /// No descriptor, or no memory for one: the next client in line is answered 503 by means of the
    /// spare descriptor. If even that fails, the listener is left alone for a moment.
    fn accept_short(&mut self, listener: usize) {
        self.counters.shortages.add(1);
        self.shortage.met(self.shard.connections(), clock::monotonic_ms());
        self.mind_capacity();
        self.spare = None;
        let Listener { socket, is_tls, .. } = &self.listeners[listener];
        let (accepted, is_tls) = (socket::accept(socket), *is_tls);
        let refused = accepted.is_ok();
        if let Ok(socket) = accepted {
            self.shard.note_no_place(&socket, NoPlace::Full);
            // The spare one is not to be kept.
            let head = (!is_tls).then(|| receive(&socket));
            self.refuse_at_once(&socket, head.as_deref(), NoPlace::Full);
        }
        self.spare = File::open("/dev/null").ok();
        if !refused || self.spare.is_none() {
            self.pause_accepting();
        }
    }

    /// Answers a client for whom there is no place, or waits for its request first.
    fn refuse(&mut self, socket: OwnedFd, address: IpAddr, why: NoPlace, is_tls: bool) {
        // Before it is answered: who reads that it was refused finds itself in the figures.
        self.shard.note_no_place(&socket, why);
        // What begins with TLS is left for it to be read.
        let head = (!is_tls).then(|| receive(&socket));
        let is_all = head.as_ref().is_some_and(|head| !self.shard.awaits_rest(head));
        if why != NoPlace::Full || is_all {
            return self.refuse_at_once(&socket, head.as_deref(), why);
        }
        match self.shard.hold_unplaced(socket, address, head.as_deref()) {
            Ok(key) => self.begin_reading(key.slot),
            Err(socket) => self.refuse_at_once(&socket, head.as_deref(), why),
        }
    }

    /// Answers by what has come. Who speaks TLS has no `head`: it could not read an answer, and is
    /// closed without one. Best effort: a client that cannot even take the answer is closed all the
    /// same.
    fn refuse_at_once(&self, socket: &OwnedFd, head: Option<&[u8]>, why: NoPlace) {
        let reason = match why {
            NoPlace::Full => DisconnectReason::Full,
            NoPlace::Bound(_) => DisconnectReason::AddressLimit,
            NoPlace::Moving => DisconnectReason::Moved,
        };
        self.counters.opened.add(1);
        self.counters.closed[reason as usize].add(1);
        if let Some(head) = head {
            let answer = self.shard.no_place_answer(head, why, self.clients_waiting());
            let _ = socket::send(socket, &answer);
        } else {
            receive(socket);
        }
        let _ = socket::shutdown_write(socket);
    }

    /// How many clients wait in this worker's queues, as far as the kernel tells it.
    fn clients_waiting(&self) -> u32 {
        self.listeners
            .iter()
            .filter_map(|listener| socket::clients_waiting(&listener.socket).ok())
            .sum()
    }

    fn pause_accepting(&mut self) {
        let left = self.listeners.iter_mut().map(|listener| listener.leave(&self.epoll));
        if left.fold(true, |all, left| all & left.is_ok()) {
            self.accept_again_ms = Some(clock::monotonic_ms() + ACCEPT_PAUSE_MS);
        }
    }

    pub(super) fn resume_accepting(&mut self) {
        let due = self.accept_again_ms.is_some_and(|at| clock::monotonic_ms() >= at);
        if due {
            let watched = self.listeners.iter_mut().map(|listener| listener.watch(&self.epoll));
            let all = watched.fold(true, |all, watched| all & watched.is_ok());
            self.accept_again_ms = (!all).then(|| clock::monotonic_ms() + ACCEPT_PAUSE_MS);
        }
    }
}

/// What has come of a request: all of it, because closing over unread bytes would reset the answer
/// away.
fn receive(socket: &OwnedFd) -> Vec<u8> {
    let mut head = vec![0; HEAD_BYTES_MAX];
    let len = socket::receive(socket, &mut head).unwrap_or(0);
    head.truncate(len);
    head
}
