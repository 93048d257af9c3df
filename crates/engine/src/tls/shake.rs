//! Handshakes: as far as a client lets them go, within the turn's budget.

use std::io::{self, ErrorKind};

use tls::{Failure, Handshake, Step};

use super::{FAULTY, Numbered, Phase, Tls, UNDER_WAY};
use crate::limits::work;

impl<S: Numbered> Tls<S> {
    /// Goes on with a handshake; `true` once it is done, and all of it sent.
    pub(super) fn shake_hands(&mut self, socket: &S::Socket) -> io::Result<bool> {
        let number = S::number(socket);
        let mut emptied = false;
        loop {
            if !self.send_rest(socket)? {
                return Ok(false);
            }
            let Some(under) = self.under_way.get_mut(&number) else { return Ok(true) };
            if matches!(under.phase, Phase::Done) {
                self.tidy(number);
                return Ok(true);
            }
            if emptied {
                return Ok(false);
            }
            let received = match self.io.receive(socket, &mut self.wire) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                received => received?,
            };
            if received.len == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            emptied = received.emptied;
            if let Err(failure) = self.step(number, received.len) {
                self.counters.tls.failed(failure);
                // What we have to say about it goes out as far as there is room.
                let _ = self.send_rest(socket);
                return Err(ErrorKind::InvalidData.into());
            }
        }
    }

    /// Takes the first `len` bytes of the buffer.
    fn step(&mut self, number: u32, len: usize) -> Result<(), Failure> {
        let keys = self.places.make(number);
        let Some(under) = self.under_way.get_mut(&number) else { return Ok(()) };
        if let (Phase::Silent, Some(config)) = (&under.phase, &self.config) {
            let handshake = Handshake::server(config).map_err(|_| Failure::Keys)?;
            under.phase = Phase::Shaking(handshake);
            self.handshakes += 1;
            self.counters.tls.under_way.set(self.handshakes as u64);
        }
        let Phase::Shaking(handshake) = &mut under.phase else { return Err(Failure::Ended) };
        let step = handshake.step(&self.wire[..len], &mut under.unsent, keys);
        self.work += match (&step, under.unsent.is_empty()) {
            (Ok(Step::NeedMore), true) => work::HANDSHAKE_BYTES,
            (Ok(Step::NeedMore), false) | (Err(_), _) => work::HANDSHAKE,
            (Ok(Step::Done { .. }), _) => work::HANDSHAKE_END,
        };
        match step {
            Ok(Step::NeedMore) => Ok(()),
            Ok(Step::Done { agreed, rest }) => {
                (under.phase, under.sealed) = (Phase::Done, rest);
                // The keys were wiped before they were set.
                keys.note = UNDER_WAY;
                self.one_less();
                self.counters.tls.agreed(agreed);
                Ok(())
            }
            Err(failure) => {
                under.phase = Phase::Done;
                keys.note |= FAULTY;
                self.one_less();
                Err(failure)
            }
        }
    }

    /// A connection goes whose handshake had come so far.
    pub(super) fn forget(&mut self, phase: &Phase) {
        if let Phase::Shaking(_) = phase {
            self.one_less();
        }
    }

    fn one_less(&mut self) {
        self.handshakes -= 1;
        self.counters.tls.under_way.set(self.handshakes as u64);
    }
}
