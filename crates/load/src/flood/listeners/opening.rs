//! This is about connections on their way to open: whose turn it is, the request, and what does not
//! come in time. It also says how a connection ends, after which the next one may be made.

use std::io;

use sys::{clock, socket};

use super::{Begun, Listeners};
use crate::flood::listener::{Outcome, Phase};
use crate::flood::role::Role;
use crate::flood::{Closure, Failure};

/// Connections begun before the loop looks at the others again.
const BEGUN_PER_TURN: u64 = 64;
/// A listener that lost its stream, or did not get one, comes back after this.
const RECONNECT_AFTER_MS: u64 = 1_000;

impl Listeners {
    /// Begins connections that are due, as many as a turn and the limit of open ends allow.
    pub(super) fn begin_due(&mut self, now_ns: u64) {
        for _ in 0..BEGUN_PER_TURN {
            if self.opening >= self.opening_max {
                return;
            }
            let Some(slot) = self.next_to_begin(now_ns) else { return };
            self.begin(slot, now_ns / 1_000_000);
        }
    }

    /// Whoever comes back from the storm is in a hurry; the others keep the pace.
    fn next_to_begin(&mut self, now_ns: u64) -> Option<u32> {
        if let Some((_, slot)) = self.back.pop_front_if(|&mut (due_ns, _)| due_ns <= now_ns) {
            return Some(slot);
        }
        let again = self.again.front().filter(|&&(due_ms, _)| due_ms <= now_ns / 1_000_000);
        let slot = match again {
            Some(&(_, slot)) => slot,
            None if self.next < self.task.listeners => self.next,
            None => return None,
        };
        let is_again = again.is_some();
        if !self.pace.take(now_ns) {
            return None;
        }
        if is_again {
            self.again.pop_front();
        } else {
            self.next += 1;
        }
        Some(slot)
    }

    fn begin(&mut self, slot: u32, now_ms: u64) {
        let role = self.task.role(slot);
        self.tally.of(role).begun += 1;
        self.opening += 1;
        let listener = &mut self.listeners[slot as usize];
        listener.attempt = listener.attempt.wrapping_add(1);
        let token = u64::from(listener.attempt) << 32 | u64::from(slot);
        match socket::connect_from(self.task.source(slot), self.task.target.address) {
            Err(error) => self.over(slot, Outcome::failed(&error)),
            Ok(socket) => {
                if let (Role::Slow, bytes @ 1..) = (role, self.task.config.slow_buffer_bytes) {
                    // Only a wish: with the default buffer the server notices later.
                    let _ = socket::set_receive_buffer(&socket, bytes);
                }
                let added = self.epoll.add_stream(&socket, token);
                listener.socket = Some(socket);
                listener.phase = Phase::Connecting;
                let attempt = listener.attempt;
                let timeout_ms = self.task.config.open_timeout.as_millis() as u64;
                self.begun.push_back(Begun { slot, attempt, deadline_ms: now_ms + timeout_ms });
                if let Err(error) = added {
                    self.over(slot, Outcome::failed(&error));
                }
            }
        }
    }

    /// The connection is made, or it could not be.
    pub(super) fn connected(&mut self, slot: u32) {
        let listener = &mut self.listeners[slot as usize];
        let Some(socket) = &listener.socket else {
            return;
        };
        if let Ok(Some(error)) | Err(error) = socket::connect_error(socket) {
            return self.over(slot, Outcome::failed(&error));
        }
        if !self.task.config.resume {
            listener.cursor = None;
        } else if listener.attempt > 1 {
            self.came_back_ms.insert(slot, clock::monotonic_ms() as u32);
        }
        match self.secured.is_some() {
            true => self.greet(slot),
            false => self.ask(slot),
        }
    }

    /// Begins the handshake.
    fn greet(&mut self, slot: u32) {
        let Some(secured) = &mut self.secured else { return };
        self.sealed.clear();
        match secured.begin(slot, &mut self.sealed) {
            Ok(handshake) => {
                self.listeners[slot as usize].phase = Phase::Handshaking(handshake);
                self.send_sealed(slot);
            }
            Err(failure) => self.over(slot, Outcome::not_secured(failure)),
        }
    }

    /// Goes on with the handshake by the first `len` bytes of the buffer; once it is done, asks.
    pub(super) fn handshake(&mut self, slot: u32, len: usize) {
        let phase = &mut self.listeners[slot as usize].phase;
        let (Some(secured), Phase::Handshaking(handshake)) = (&mut self.secured, phase) else {
            return;
        };
        self.sealed.clear();
        match secured.handshake(slot, handshake, &self.buffer[..len], &mut self.sealed) {
            Ok(false) => self.send_sealed(slot),
            // What ends the handshake goes out with the request.
            Ok(true) => self.ask(slot),
            Err(failure) => {
                // The server is told why.
                self.send_sealed(slot);
                if self.listeners[slot as usize].socket.is_some() {
                    self.over(slot, Outcome::not_secured(failure));
                }
            }
        }
    }

    /// Sends the request that opens the stream.
    fn ask(&mut self, slot: u32) {
        let cursor = self.listeners[slot as usize].cursor.as_ref();
        self.task.request(slot, cursor, &mut self.request);
        self.polls.content(slot);
        self.listeners[slot as usize].phase = Phase::Head(None);
        match &mut self.secured {
            Some(secured) => {
                secured.seal(slot, &self.request, &mut self.sealed);
                self.send_sealed(slot);
            }
            None => self.send_first(slot),
        }
    }

    /// The connection of `slot` is over.
    pub(super) fn over(&mut self, slot: u32, outcome: Outcome) {
        let (role, now_ns) = (self.task.role(slot), clock::monotonic_ns());
        let trouble = &self.task.trouble;
        let listener = &mut self.listeners[slot as usize];
        let was_deaf = matches!(listener.phase, Phase::Deaf);
        listener.socket = None;
        listener.phase = Phase::Offline;
        if let Some(secured) = &mut self.secured {
            secured.forget(slot);
        }
        let first = listener.attempt == 1;
        if role == Role::Slow && first {
            trouble.endings.step(now_ns);
        }
        match outcome {
            Outcome::Failed(reason, words) => {
                if first {
                    trouble.tried.step(now_ns);
                }
                self.tally.failure(role, reason, || words);
                self.opening -= 1;
            }
            Outcome::Closed(reason) => {
                if was_deaf {
                    let now_ms = (now_ns / 1_000_000) as u32;
                    let open_ns = u64::from(now_ms.wrapping_sub(listener.opened_ms)) * 1_000_000;
                    let since_ns = now_ns.saturating_sub(trouble.slow_ns().unwrap_or(now_ns));
                    self.tally.slow_lasted(open_ns.min(since_ns));
                }
                self.tally.closure(role, reason);
            }
            Outcome::On | Outcome::Answered => unreachable!("that is no end"),
        }
        if self.task.config.reconnect || listener.returning {
            self.again.push_back((now_ns / 1_000_000 + RECONNECT_AFTER_MS, slot));
        }
    }

    /// Gives up what has not opened in time.
    pub(super) fn expire(&mut self, now_ms: u64) {
        while let Some(&Begun { slot, attempt, deadline_ms }) = self.begun.front() {
            let listener = &self.listeners[slot as usize];
            let opening = matches!(
                listener.phase,
                Phase::Connecting | Phase::Handshaking(_) | Phase::Head(_)
            );
            let waiting = opening && listener.attempt == attempt;
            if waiting && now_ms < deadline_ms {
                return;
            }
            self.begun.pop_front();
            if waiting {
                self.over(slot, Outcome::failed(&io::ErrorKind::TimedOut.into()));
            }
        }
    }
}

impl Outcome {
    pub(super) fn failed(error: &io::Error) -> Outcome {
        Outcome::Failed(Failure::of(error), error.to_string())
    }

    /// The server has ended the connection before it answered.
    pub(super) fn ended() -> Outcome {
        Outcome::failed(&io::ErrorKind::ConnectionReset.into())
    }

    /// A record broke the rules of TLS, or told that the server has met one that did.
    pub(super) fn broken(fault: tls::Fault, was_open: bool) -> Outcome {
        match fault {
            _ if !was_open => Outcome::Failed(Failure::Tls, format!("TLS: {fault}")),
            tls::Fault::Received(_) => Outcome::Closed(Closure::Reset),
            _ => Outcome::Closed(Closure::Malformed),
        }
    }

    fn not_secured(failure: tls::Failure) -> Outcome {
        Outcome::Failed(Failure::Tls, format!("TLS: {failure}"))
    }
}
