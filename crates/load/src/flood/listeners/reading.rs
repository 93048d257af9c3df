//! What comes on a connection, and what is answered to it.

use std::io;

use client::{Reply, push_reply, push_text};
use proto::Transport;
use sys::{clock, socket};

use super::polling::Heard;
use super::{BUFFER_BYTES, Listeners};
use crate::flood::Closure;
use crate::flood::listener::{Arrival, Outcome, Phase};
use crate::flood::role::Role;
use crate::flood::secured::Read;
use crate::random::mix;

impl Listeners {
    /// Reads what there is. After a short read there was no more, and whatever comes later is
    /// reported anew; only after a hang-up the end itself must still be read.
    pub(super) fn readable(&mut self, slot: u32, hung_up: bool) {
        let role = self.task.role(slot);
        if role == Role::Slow {
            self.stop_reading(slot);
        }
        let listener = &self.listeners[slot as usize];
        if matches!(listener.phase, Phase::Deaf) && !hung_up {
            return;
        }
        loop {
            let listener = &self.listeners[slot as usize];
            let Some(socket) = &listener.socket else {
                return;
            };
            let was_open = listener.is_open();
            let kept = match &self.secured {
                Some(secured) => secured.resume(slot, &mut self.buffer),
                None => 0,
            };
            let len = match socket::receive(socket, &mut self.buffer[kept..]) {
                Ok(len @ 1..) => len,
                Ok(0) if was_open => {
                    // TLS says when all is said.
                    let cut = self.secured.is_some();
                    let end = if cut { Closure::Cut } else { listener.end_of_connection() };
                    return self.over(slot, Outcome::Closed(end));
                }
                Ok(0) => return self.over(slot, Outcome::ended()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) if was_open => return self.over(slot, Outcome::Closed(Closure::Reset)),
                Err(error) => return self.over(slot, Outcome::failed(&error)),
            };
            self.tally.of(role).bytes += len as u64;
            match self.listeners[slot as usize].phase {
                Phase::Handshaking(_) => self.handshake(slot, len),
                _ => self.hear(slot, role, kept + len),
            }
            if len < BUFFER_BYTES - kept && !hung_up {
                return;
            }
        }
    }

    /// Takes the first `len` bytes of the buffer.
    fn hear(&mut self, slot: u32, role: Role, len: usize) {
        let now_ns = clock::monotonic_ns();
        let (transport, resumes) = (self.task.config.transport, self.task.config.resume);
        let listener = &mut self.listeners[slot as usize];
        let was_open = listener.is_open();
        let read = match &mut self.secured {
            None => Read { text: len, closed: false },
            Some(secured) => match secured.open(slot, &mut self.buffer[..len]) {
                Ok(read) => read,
                Err(fault) => return self.over(slot, Outcome::broken(fault, was_open)),
            },
        };
        if read.text > 0 {
            let came_back = resumes.then(|| self.came_back_ms.get(&slot)).flatten();
            let came_back_ms = came_back.copied();
            let arrival = Arrival { slot, role, transport, now_ns, resumes, came_back_ms };
            let polls = transport == Transport::Poll;
            let before = polls.then(|| Heard::of(self.tally.of(role), listener));
            let outcome = listener.read(arrival, &self.buffer[..read.text], &mut self.tally);
            if before
                .is_some_and(|before| before.is_less(&Heard::of(self.tally.of(role), listener)))
            {
                self.polls.content(slot);
            }
            if let Some(reply) = listener.take_reply() {
                self.reply(slot, &reply, now_ns);
            }
            if !was_open && self.listeners[slot as usize].is_open() {
                self.opened(slot, role, now_ns);
            }
            match outcome {
                Outcome::On => {}
                Outcome::Answered => self.poll_on(slot),
                Outcome::Failed(..) | Outcome::Closed(_) => return self.over(slot, outcome),
            }
        }
        if read.closed {
            let listener = &self.listeners[slot as usize];
            let end = match listener.is_open() {
                true => Outcome::Closed(listener.end_of_connection()),
                false => Outcome::ended(),
            };
            self.over(slot, end);
        }
    }

    /// Answers a ping, or the close frame.
    fn reply(&mut self, slot: u32, reply: &Reply, now_ns: u64) {
        self.request.clear();
        push_reply(reply, (mix(now_ns) as u32).to_ne_bytes(), &mut self.request);
        self.send_request(slot);
    }

    /// Asks where the stream of a WebSocket stands, which SSE says by itself.
    fn ask_position(&mut self, slot: u32, now_ns: u64) {
        self.request.clear();
        push_text("{\"ping\":1}", (mix(now_ns) as u32).to_ne_bytes(), &mut self.request);
        self.send_request(slot);
    }

    /// The stream of `slot` has opened.
    fn opened(&mut self, slot: u32, role: Role, now_ns: u64) {
        self.opening -= 1;
        let totals = self.tally.of(role);
        totals.opened += 1;
        totals.opened_after_ns = now_ns - self.pace.start_ns;
        let listener = &mut self.listeners[slot as usize];
        if listener.attempt == 1 {
            self.task.trouble.tried.step(now_ns);
        }
        if std::mem::take(&mut listener.returning) {
            totals.returned += 1;
            self.task.trouble.returns.step(now_ns);
        }
        let config = &self.task.config;
        // The answer tells one where its stream begins, and one that comes back that it has heard
        // what it missed, be it nothing.
        let asks = config.resume && (listener.cursor.is_none() || listener.due.is_some());
        if asks && config.transport == Transport::WebSocket {
            self.ask_position(slot, now_ns);
        }
        if role == Role::Slow {
            self.stop_reading(slot);
        }
    }

    /// A slow listener whose time has come reads its open stream no more.
    fn stop_reading(&mut self, slot: u32) {
        let is_time =
            self.task.trouble.slow_ns().is_some_and(|at_ns| clock::monotonic_ns() >= at_ns);
        let listener = &mut self.listeners[slot as usize];
        if is_time && listener.is_open() {
            listener.phase = Phase::Deaf;
        }
    }
}
