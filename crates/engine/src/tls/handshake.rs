//! Handshakes: as far as a client lets them go, within the turn's budget; and who of those that do
//! not go on makes room for others.

use std::io::{self, ErrorKind};

use tls::{Agreed, Failure, Handshake, Step};

use super::queue::Waiting;
use super::{FAULTY, Numbered, Tls, TlsPhase, UNDER_WAY, UnderWays};
use crate::limits::{HELLO_BYTES_MAX, work};

impl<S: Numbered> Tls<S> {
    /// Goes on with a handshake; `true` once it is done, and all of it sent. One whose client has
    /// only looked at a certificate has come to an end: `Other`.
    pub(super) fn shake_hands(&mut self, socket: &S::Socket, hung_up: bool) -> io::Result<bool> {
        let number = S::number(socket);
        let mut emptied = false;
        loop {
            if !self.send_rest(socket)? {
                return Ok(false);
            }
            let Some(under) = self.under_way.get_mut(&number) else { return Ok(true) };
            if matches!(under.phase, TlsPhase::Done) {
                self.tidy(number);
                return Ok(true);
            }
            // The client's end is reported once.
            if emptied && !hung_up {
                return Ok(false);
            }
            let begun = std::mem::take(&mut under.text);
            let step = if begun.is_empty() {
                let received = match self.io.receive(socket, &mut self.wire) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                    received => received?,
                };
                if received.len == 0 {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                emptied = received.emptied;
                let wire = std::mem::take(&mut self.wire);
                let step = self.step(number, &wire[..received.len]);
                self.wire = wire;
                step
            } else {
                self.step(number, &begun)
            };
            let end = match step {
                Ok(Some(agreed)) if agreed.only_looks => ErrorKind::Other,
                Ok(_) => continue,
                Err(failure) => {
                    self.counters.tls.failed(failure);
                    ErrorKind::InvalidData
                }
            };
            // What we have to say at the end goes out as far as there is room.
            let _ = self.send_rest(socket);
            return Err(end.into());
        }
    }

    /// Takes `bytes` of the client; answers what the handshake has come to once it is done.
    fn step(&mut self, number: u32, bytes: &[u8]) -> Result<Option<Agreed>, Failure> {
        let hello = match self.gather(number, bytes)? {
            Gathered::NeedMore => return Ok(None),
            Gathered::Hello(hello) => Some(hello),
            Gathered::Past => None,
        };
        let keys = self.places.make(number);
        let Some(under) = self.under_way.get_mut(&number) else { return Ok(None) };
        let TlsPhase::Handshaking(handshake) = &mut under.phase else { return Err(Failure::Ended) };
        let bytes = hello.as_deref().unwrap_or(bytes);
        let passed_over = handshake.passed_over();
        let step = handshake.step(bytes, &mut under.unsent, keys);
        self.work += (handshake.passed_over() - passed_over) * work::OPEN;
        self.work += match (&step, under.unsent.is_empty()) {
            (Ok(Step::NeedMore), true) => work::HANDSHAKE_BYTES,
            (Ok(Step::NeedMore), false) | (Err(_), _) => work::HANDSHAKE,
            (Ok(Step::Done { .. }), _) => work::HANDSHAKE_END,
        };
        match step {
            Ok(Step::NeedMore) => Ok(None),
            Ok(Step::Done { agreed, rest }) => {
                let phase = std::mem::take(&mut under.phase);
                (under.stamp, under.sealed) = (0, rest);
                // The keys were wiped before they were set.
                keys.note = UNDER_WAY;
                self.waits_no_more(&phase);
                self.counters.tls.agreed(agreed);
                Ok(Some(agreed))
            }
            Err(failure) => {
                let phase = std::mem::take(&mut under.phase);
                under.stamp = 0;
                keys.note |= FAULTY;
                self.waits_no_more(&phase);
                Err(failure)
            }
        }
    }

    /// Gathers `bytes` as a part of the client's hello, and begins its handshake once that is
    /// whole: until then rustls would only keep memory for it.
    fn gather(&mut self, number: u32, bytes: &[u8]) -> Result<Gathered, Failure> {
        let Some(under) = self.under_way.get_mut(&number) else { return Ok(Gathered::Past) };
        let (TlsPhase::Hello, Some(config)) = (&under.phase, &self.config) else {
            return Ok(Gathered::Past);
        };
        under.sealed.extend_from_slice(bytes);
        if !tls::is_hello_whole(&under.sealed) && under.sealed.len() <= HELLO_BYTES_MAX {
            self.work += work::HANDSHAKE_BYTES;
            return Ok(Gathered::NeedMore);
        }
        let handshake = Handshake::server(config).map_err(|_| Failure::Keys)?;
        let hello = std::mem::take(&mut under.sealed);
        self.stamp += 1;
        (under.phase, under.stamp) = (TlsPhase::Handshaking(handshake), self.stamp);
        self.hellos.leave();
        let waiting = Waiting { number, stamp: self.stamp };
        self.handshakes.enter(waiting, |waiting| waits(&self.under_way, waiting));
        self.note_under_way();
        Ok(Gathered::Hello(hello))
    }

    /// A client's hello is waited for, on a connection of `owner`, of which `begun` is there.
    pub(super) fn wait_for_hello(&mut self, number: u32, owner: u32, begun: &[u8]) {
        self.stamp += 1;
        let stamp = self.stamp;
        let under = self.begin(number);
        (under.phase, under.owner, under.stamp) = (TlsPhase::Hello, owner, stamp);
        under.text = begun.to_vec();
        self.hellos.enter(Waiting { number, stamp }, |waiting| waits(&self.under_way, waiting));
    }

    /// A connection goes, or goes on, whose handshake had come so far.
    pub(super) fn waits_no_more(&mut self, phase: &TlsPhase) {
        match phase {
            TlsPhase::Hello => self.hellos.leave(),
            TlsPhase::Handshaking(_) => {
                self.handshakes.leave();
                self.note_under_way();
            }
            TlsPhase::Done => {}
        }
    }

    /// Whose connection is to go, since there are more than may be.
    pub(super) fn stalled(&mut self) -> Option<u32> {
        for queue in [&mut self.handshakes, &mut self.hellos] {
            if queue.is_too_large()
                && let Some(oldest) = queue.take_oldest(|waiting| waits(&self.under_way, waiting))
            {
                self.counters.tls.displaced.add(1);
                return self.under_way.get(&oldest.number).map(|under| under.owner);
            }
        }
        None
    }

    fn note_under_way(&self) {
        self.counters.tls.under_way.set(self.handshakes.len() as u64);
    }
}

/// What bytes of a client are before its handshake is done.
enum Gathered {
    /// A part of its hello.
    NeedMore,
    /// The rest of its hello, which is this.
    Hello(Vec<u8>),
    /// They come behind it.
    Past,
}

/// Whether it is still the same that waits for the same.
fn waits(under_way: &UnderWays, waiting: Waiting) -> bool {
    under_way.get(&waiting.number).is_some_and(|under| under.stamp == waiting.stamp)
}
