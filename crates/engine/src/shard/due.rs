//! When a connection's time has come, and what is looked at before it is ended.
//!
//! A client may have said all that it was waited for, or have read all, and nobody has looked: the
//! process stood still, or the report of it waits behind others. So before somebody is ended for
//! its silence its socket is read, or what waits for it is written, once; and no pause of ours
//! counts ([`crate::pauses`]). That costs a call for whoever would be ended.

use super::core::{At, Core, Lives, ticks};
use crate::conn::state::{Due, Input, State};
use crate::conn::{Conn, Marks};
use crate::limits::{self, MESSAGE_TIMEOUT_TICKS, work};
use crate::sockets::Sockets;
use crate::timer::Tick;

// Bounds of `limits`, in the unit of the wheel.
const HANDSHAKE_TIMEOUT: Tick = ticks(limits::HANDSHAKE_TIMEOUT_MS);
const TOKEN_TIMEOUT: Tick = ticks(limits::TOKEN_TIMEOUT_MS);
const SEND_TIMEOUT: Tick = ticks(limits::SEND_TIMEOUT_MS);
const STILL: Tick = ticks(limits::STILL_MS);
const LAST_BYTES_STILL: Tick = ticks(limits::LAST_BYTES_STILL_MS);
const LINGER: Tick = ticks(limits::LINGER_MS);

/// How long the end of one is put off whose input waits for its turn, in ticks.
const TURN_TICKS: Tick = 10;

/// Where it may show that a client is not silent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Look {
    Nowhere,
    /// In what it has sent.
    Input,
    /// In what it has taken.
    Output,
}

impl<S: Sockets> Core<S> {
    /// The timer of a connection has fired: perhaps it is due, perhaps it was put off meanwhile.
    pub(super) fn time_has_come(&mut self, at: &mut At<'_, S::Socket>) -> Lives {
        if self.is_due(at.conn) {
            self.budget.spend(work::WRITE);
            self.look(at)?;
        }
        match self.due(at.conn) {
            Some(due) if due <= self.now && self.is_its_turn(at.conn, due) => {
                let what = self.what_is_due(at.conn);
                self.happen(at, Input::Time(what))
            }
            Some(due) => {
                self.wheel.start(at.slot, due.max(self.now + 1));
                Ok(())
            }
            None => {
                self.wheel.stop(at.slot);
                Ok(())
            }
        }
    }

    /// Starts the timer of a connection for when it is due.
    pub(super) fn wait(&mut self, at: &At<'_, S::Socket>) {
        match self.due(at.conn) {
            Some(due) => self.wheel.start(at.slot, due),
            None => self.wheel.stop(at.slot),
        }
    }

    /// Whether a connection may be ended that was due at `due`: what it has said may wait for its
    /// turn, but not for ever.
    fn is_its_turn(&self, conn: &Conn<S::Socket>, due: Tick) -> bool {
        let waits = conn.is(Marks::DEFERRED) && self.where_to_look(conn) == Look::Input;
        !waits || due.saturating_add(TURN_TICKS) <= self.now
    }

    /// Reads or writes what there is before somebody is ended.
    fn look(&mut self, at: &mut At<'_, S::Socket>) -> Lives {
        match self.where_to_look(at.conn) {
            Look::Nowhere => Ok(()),
            Look::Input if at.conn.is(Marks::DEFERRED) => Ok(()),
            Look::Input => self.readable(at, false),
            Look::Output => self.write_on(at),
        }
    }

    fn where_to_look(&self, conn: &Conn<S::Socket>) -> Look {
        let Due { blocked, late, expired } = self.what_is_due(conn);
        match conn.state() {
            State::Stream | State::Held if expired => Look::Nowhere,
            State::Stream | State::Held | State::Between if blocked => Look::Output,
            State::Ending(_) => Look::Output,
            State::Stream | State::Held if late => Look::Input,
            State::Handshake | State::Head | State::Body | State::Between => Look::Input,
            _ => Look::Nowhere,
        }
    }

    /// Offers the kernel once more what it had no room for. Where it takes nothing it is as if
    /// nobody had asked.
    fn write_on(&mut self, at: &mut At<'_, S::Socket>) -> Lives {
        let (since, waited) = (at.conn.active, self.waiting_bytes(at.conn));
        at.conn.mark(Marks::BLOCKED, false);
        self.flush(at)?;
        if at.conn.is(Marks::BLOCKED) && self.waiting_bytes(at.conn) == waited {
            at.conn.active = since;
        }
        Ok(())
    }

    /// What its client has not taken: pieces here and how much of the first one, and a part of a
    /// record below.
    fn waiting_bytes(&self, conn: &Conn<S::Socket>) -> [usize; 3] {
        [conn.backlog_bytes(), conn.backlog_sent(), self.io.unsent_bytes(&conn.socket)]
    }

    /// Whether its time has come.
    pub(super) fn is_due(&self, conn: &Conn<S::Socket>) -> bool {
        self.due(conn).is_some_and(|due| due <= self.now)
    }

    /// For what it is time.
    fn what_is_due(&self, conn: &Conn<S::Socket>) -> Due {
        let is_past = |due: Tick| due <= self.now;
        let is_still = match conn.state() {
            State::Stream | State::Held => is_past(self.silent(conn, STILL)),
            _ => true,
        };
        Due {
            blocked: conn.is(Marks::BLOCKED) && is_still,
            late: self.message_due(conn).is_some_and(is_past),
            expired: is_past(self.ends(conn)),
        }
    }

    /// When its client has been silent for so long.
    fn silent(&self, conn: &Conn<S::Socket>, silence: Tick) -> Tick {
        self.pauses.after(conn.active, silence)
    }

    /// After how long a silence a stream sends a keep-alive, if it does.
    fn keepalive(&self) -> Option<Tick> {
        let ms = self.config.settings.keepalive_ms;
        (ms > 0).then(|| ticks(ms))
    }

    /// How long the next of a client's polls may be waited for.
    pub(super) fn poll_idle(&self) -> Tick {
        ticks(self.config.settings.head_timeout_ms.max(limits::POLL_IDLE_MS))
    }

    /// When the message that is not whole must be.
    fn message_due(&self, conn: &Conn<S::Socket>) -> Option<Tick> {
        Some(self.pauses.after(conn.message_since()?, MESSAGE_TIMEOUT_TICKS))
    }

    /// When a connection's time has come if nothing else happens to it.
    fn due(&self, conn: &Conn<S::Socket>) -> Option<Tick> {
        let silent = |silence| Some(self.silent(conn, silence));
        match conn.state() {
            State::Handshake => silent(HANDSHAKE_TIMEOUT),
            State::Head | State::Body => silent(ticks(self.config.settings.head_timeout_ms)),
            State::Verifying => silent(TOKEN_TIMEOUT),
            State::Sending => silent(SEND_TIMEOUT),
            State::Stream | State::Held => {
                let still = match conn.is(Marks::BLOCKED) {
                    true => silent(STILL),
                    false => self.keepalive().map(|silence| conn.active + silence),
                };
                let ends = Some(self.ends(conn)).filter(|&ends| ends < Tick::MAX);
                still.into_iter().chain(self.message_due(conn)).chain(ends).min()
            }
            State::Poll | State::HeldPoll => Some(conn.active.min(self.ends(conn))),
            State::Between => silent(self.poll_idle()),
            State::Leaving(_) => None,
            State::Ending(_) => silent(LAST_BYTES_STILL),
            State::Lingering(_) => silent(LINGER),
        }
    }
}
