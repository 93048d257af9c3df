//! What clients send: read within the budget, and handed to whom the table says.

use std::io::ErrorKind;

use hub::DisconnectReason;

use super::core::{At, Core, End, Lives};
use crate::conn::Marks;
use crate::conn::action::BytesAction;
use crate::conn::state::{Input, State};
use crate::limits::{self, work};
use crate::sockets::{Received, Sockets};

impl<S: Sockets> Core<S> {
    /// There is something to read. With `hung_up` the end of the client's side is in there too.
    pub(super) fn readable(&mut self, at: &mut At<'_, S::Socket>, hung_up: bool) -> Lives {
        let mut stray_bytes = 0;
        loop {
            // Who has to wait for its turn keeps what it sends in the kernel.
            if at.conn.is(Marks::DEFERRED) || self.budget.is_anothers() {
                self.defer(at);
                return Ok(());
            }
            if at.conn.leaves_rest() {
                return Ok(());
            }
            let action = at.conn.state().on_bytes(at.conn.wire.carrier().has_messages());
            let most = match action {
                BytesAction::LeaveUnread => return Ok(()),
                BytesAction::Handshake => return self.handshake(at, hung_up),
                BytesAction::Message => limits::MESSAGE_READ_BYTES.min(self.scratch.len()),
                BytesAction::Request | BytesAction::Discard => self.scratch.len(),
            };
            self.budget.spend(work::READ);
            let received = self.io.receive(&at.conn.socket, &mut self.scratch[..most]);
            self.budget.spend(self.io.take_work());
            let Received { len, emptied } = match received {
                Ok(Received { len: 0, .. }) => return self.happen(at, Input::End),
                Ok(received) => received,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::InvalidData => {
                    self.happen(at, Input::Broken(error.kind()))?;
                    continue;
                }
                Err(error) => return self.happen(at, Input::Broken(error.kind())),
            };
            self.budget.spend_bytes(len);
            if action != BytesAction::Request {
                self.bound_messages(at, len)?;
            }
            match action {
                BytesAction::Message if !at.conn.state().hears() => {}
                BytesAction::Request => self.read_head(at, len)?,
                BytesAction::Message => self.read_messages(at, len)?,
                BytesAction::LeaveUnread | BytesAction::Handshake | BytesAction::Discard => {
                    stray_bytes += len;
                    // Who is at its end may have said much before it knew.
                    if stray_bytes > limits::STRAY_BYTES_PER_TURN && at.conn.state().hears() {
                        let reason = DisconnectReason::BadRequest;
                        return Err(End { reason, abort: true });
                    }
                }
            }
            // What comes later to a socket that is emptied is reported anew.
            if emptied && !hung_up {
                return Ok(());
            }
        }
    }

    /// Goes on with a handshake, and then with what has come behind it.
    pub(super) fn handshake(&mut self, at: &mut At<'_, S::Socket>, hung_up: bool) -> Lives {
        if !self.read_proxied(at, hung_up)? {
            return Ok(());
        }
        let outcome = self.io.handshake(&at.conn.socket, hung_up);
        self.budget.spend(work::READ + self.io.take_work());
        match outcome {
            Ok(false) => Ok(()),
            Ok(true) => {
                at.conn.move_to(State::Head);
                at.conn.active = self.now;
                self.wait(at);
                self.readable(at, hung_up)
            }
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => self.happen(at, Input::End),
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                self.happen(at, Input::Broken(error.kind()))?;
                // What it has sent behind it is there already.
                self.readable(at, hung_up)
            }
            // It has seen the certificate that it came for.
            Err(error) if error.kind() == ErrorKind::Other => {
                Err(End { reason: DisconnectReason::Answered, abort: false })
            }
            Err(error) => self.happen(at, Input::Broken(error.kind())),
        }
    }

    /// It is the turn of one whose input was put off. Its end may have been reported meanwhile, so
    /// it is read to its end. Whoever has the slot now: one that waits for nothing is left alone.
    pub(super) fn read_deferred(&mut self, at: &mut At<'_, S::Socket>) -> Lives {
        if !at.conn.is(Marks::DEFERRED) {
            return Ok(());
        }
        at.conn.mark(Marks::DEFERRED, false);
        self.catch_up_deferred(at)?;
        self.read_unread(at)?;
        self.readable(at, true)
    }

    /// Goes on with what was sent while a poll waited, now that it is answered: in its turn.
    pub(super) fn read_on(&mut self, at: &mut At<'_, S::Socket>) {
        if at.conn.work().is_some_and(|work| !work.unread.is_empty()) {
            self.defer(at);
        }
    }
}
