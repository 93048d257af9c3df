//! Where a stream begins: at the newest event, or where its client was when it went away.
//!
//! A client that comes back is logged in and *held*: events are put by, until the control plane has
//! said what was missed ([`crate::resume`]). It says so in windows, and the next one is asked for
//! when the one before is written. So a client that reads slowly is sent all that is remembered,
//! and no more than a window is kept for it.

use std::sync::Arc;

use hub::{EventId, Place, Tag};
use proto::resume::{self, Begins, FirstMessage, PlaceStyle};
use proto::{Cors, Format, classic, request};

use super::admission::Manner;
use super::core::{At, Core, Lives};
use crate::catch_up::CatchUp;
use crate::conn::Marks;
use crate::conn::action::MissedAction;
use crate::conn::state::State;
use crate::limits::{self, RETRIES_PER_SECOND, RETRY_MS, RETRY_MS_MAX, RETRY_MS_SPREAD};
use crate::outbox::Missed;
use crate::past::{Past, Wanted};
use crate::questions::Asker;
use crate::resume::{Resume, Resumes};
use crate::sockets::Sockets;

impl<S: Sockets> Core<S> {
    /// Ends the answer's head with what the connection is called and where the stream begins that
    /// has just been logged in, and says so behind it as the client can read it; or asks what it
    /// has missed since its cursor, which is where it begins then. Whether it is held.
    ///
    /// `newest` is the last number given out *before* the log-in: the stream hears nothing up to
    /// it, so a client that comes back with it misses nothing and hears nothing twice. Read after
    /// the log-in it could be that of an event which is on its way to this very stream.
    pub(super) fn begin_at(
        &mut self,
        at: &mut At<'_, S::Socket>,
        manner: &Manner<'_>,
        newest: u64,
        cors: Option<Cors<'_>>,
    ) -> bool {
        let &Manner { wire, cursor, past, told, first, .. } = manner;
        let (format, carrier) = (wire.format(), wire.carrier());
        let wants_past = past != request::Past::Nothing && self.config.history.is_on();
        let held = match cursor {
            Some(place) => self.ask_from(at, place),
            None => wants_past && self.ask_past(at, past, newest, told),
        };
        let gap = (cursor.is_some() || wants_past) && !held;
        // What could be asked from is the id of an event, so plain text.
        let own = cursor.filter(|_| held).and_then(|place| str::from_utf8(place).ok());
        let id = own.map_or_else(|| self.event_ids.id(newest).to_string(), str::to_owned);
        let connection = self.connection_id(self.conn_ref(at)).to_string();
        // Who comes back with a place does not hear the time before: none until that is told.
        let has_place = format.resumes() && !(held && wants_past);
        let next = has_place.then_some(id.as_str());
        let begins = Begins { connection: Some(&connection), next, gap: gap && has_place };
        let out = &mut self.answer;
        resume::end_head(out, Some(begins), cors);
        if format == Format::Classic {
            classic::welcome(first, carrier, out);
        }
        if gap {
            self.resumes.count(true);
            format.push_gap(out, carrier, Some(&id));
        }
        if !held && !gap || told == PlaceStyle::InMessage && has_place {
            let retry_ms = retry_ms(at.slot, self.config.workers as u32);
            let first = FirstMessage { connection: &connection, next: &id, retry_ms };
            format.push_begin(out, carrier, told, first);
        }
        held
    }

    /// Whether it could be asked what the client has missed since its `place`, at once or, in a
    /// cluster, when this node has come there.
    pub(super) fn ask_from(&mut self, at: &mut At<'_, S::Socket>, place: &[u8]) -> bool {
        if let Some((_, gap_up_to @ 1..)) = EventId::parse_place(place) {
            at.conn.new_work().held.gap_up_to = gap_up_to;
        }
        let asked = match self.event_ids.known(place) {
            Place::Known(number) => self.ask(at, number),
            Place::Future(number) | Place::Later(number) if self.event_ids.are_given() => {
                let tag = EventId::parse_place(place).map(|(id, _)| id.tag());
                self.ask_future(at, number, tag)
            }
            Place::Future(_) | Place::Later(_) | Place::Unknown => false,
        };
        if !asked {
            at.conn.take_held();
        }
        asked
    }

    /// Whether it could be asked for what the client wants of the time before, where its stream
    /// begins behind the number `begun`.
    pub(super) fn ask_past(
        &mut self,
        at: &mut At<'_, S::Socket>,
        past: request::Past,
        begun: u64,
        told: PlaceStyle,
    ) -> bool {
        let wanted = match past {
            request::Past::Nothing => Wanted::Since,
            request::Past::Earliest => Wanted::Earliest,
            request::Past::Last(most) => Wanted::Last(most),
        };
        at.conn.new_work().held.past = Some(Box::new(Past { begun, wanted, told }));
        let asked = self.ask(at, 0);
        if !asked {
            at.conn.take_held();
        }
        asked
    }

    /// Whether it could be asked what the client has missed.
    pub(super) fn ask(&mut self, at: &mut At<'_, S::Socket>, after: u64) -> bool {
        self.ask_by(at, after, Resumes::post)
    }

    /// Whether it could be asked what the client has missed, once this node of a cluster has come
    /// to the number, of an epoch with this tag.
    pub(super) fn ask_future(
        &mut self,
        at: &mut At<'_, S::Socket>,
        after: u64,
        future_in: Option<Tag>,
    ) -> bool {
        self.ask_by(at, after, |resumes, resume| {
            resumes.post_future(Resume { future_in, ..resume })
        })
    }

    /// Whether it could be asked what the client has missed since its place, of which only the
    /// archive may know which number it is, or this node of a cluster a moment later. What comes
    /// meanwhile and is not behind it goes when that is known.
    pub(super) fn ask_named(&mut self, at: &mut At<'_, S::Socket>, place: &Arc<str>) -> bool {
        let named = Some(Arc::clone(place));
        let is_of_node = self.event_ids.are_given();
        self.ask_by(at, 0, |resumes, resume| {
            let resume = Resume { named, ..resume };
            if is_of_node { resumes.post_future(resume) } else { resumes.post(resume) }
        })
    }

    fn ask_by(
        &mut self,
        at: &mut At<'_, S::Socket>,
        after: u64,
        post: impl FnOnce(&Resumes, Resume) -> bool,
    ) -> bool {
        if !self.config.history.is_on() {
            return false;
        }
        let client = Arc::new(());
        let has_head = at.conn.work().is_some_and(|work| work.held.head.is_some());
        let resume = Resume {
            asker: Asker { conn: self.conn_ref(at), client: Arc::downgrade(&client) },
            ids: self.ids(at).collect(),
            are_alone: false,
            after,
            named: None,
            future_in: None,
            gap_up_to: at.conn.gap_told(),
            past: at.conn.work().and_then(|work| work.held.past.clone()),
            bytes_max: limits::window_bytes(self.config.backlog_bytes_max),
            // One whose head still waits was told nothing yet, though another process asked for it.
            is_first: has_head || !at.conn.state().is_held(),
            is_lost: false,
        };
        let asked = post(&self.resumes, resume);
        if asked {
            let held = &mut at.conn.new_work().held;
            // What comes up to there it has heard.
            (held.asked, held.after) = (Some(client), after);
        }
        asked
    }

    /// A window is written: asks for the next one, unless that is done.
    pub(super) fn ask_on(&mut self, at: &mut At<'_, S::Socket>) -> Lives {
        if at.conn.has_asked() || self.ask_anew(at) {
            return Ok(());
        }
        let after = at.conn.handed_up_to();
        // Too many ask: it is told of a gap, and goes on with what was put by.
        let mut before = Vec::new();
        if let Some(head) = at.conn.some_work().and_then(|work| work.held.head.take()) {
            head.push(true, &mut before);
        }
        at.conn.wire.format().push_gap(&mut before, at.conn.wire.carrier(), None);
        self.resumes.count_gap();
        if let Some((told, begun)) = at.conn.past_told() {
            self.push_begin(at, &mut before, told, after.max(begun));
        }
        at.conn.push_reply(&before);
        for event in at.conn.take_held() {
            at.conn.push_event(&event);
        }
        at.conn.move_to(State::Stream);
        self.queue(at, false);
        Ok(())
    }

    /// Tells a stream what it is called and that it stands behind the number `next`, as it wants to
    /// be told.
    fn push_begin(&self, at: &At<'_, S::Socket>, out: &mut Vec<u8>, told: PlaceStyle, next: u64) {
        let retry_ms = retry_ms(at.slot, self.config.workers as u32);
        let connection = self.connection_id(self.conn_ref(at)).to_string();
        let next = self.event_ids.id(next).to_string();
        let first = FirstMessage { connection: &connection, next: &next, retry_ms };
        at.conn.wire.format().push_begin(out, at.conn.wire.carrier(), told, first);
    }

    /// It is known what a held connection has missed. Where the turn has no more time for clients
    /// it is told in a later one: a poll is answered with it, and logged out under all its ids.
    pub(super) fn catch_up_held(
        &mut self,
        at: &mut At<'_, S::Socket>,
        catch_up: Box<CatchUp>,
    ) -> Lives {
        if self.budget.is_spent() {
            let bytes = catch_up.bytes();
            at.conn.new_work().held.catch_up = Some((catch_up, bytes));
            self.defer(at);
            return Ok(());
        }
        self.catch_up_now(at, *catch_up)
    }

    /// Catches up for one that had to wait.
    pub(super) fn catch_up_deferred(&mut self, at: &mut At<'_, S::Socket>) -> Lives {
        let catch_up = at.conn.some_work().and_then(|work| work.held.catch_up.take());
        catch_up.map_or(Ok(()), |(catch_up, _)| self.catch_up_now(at, *catch_up))
    }

    fn catch_up_now(&mut self, at: &mut At<'_, S::Socket>, mut catch_up: CatchUp) -> Lives {
        // Sent while it was held: with the id that its head has told it.
        if catch_up.events.iter().any(|event| !event.except().is_nobody()) {
            let id = self.connection_id(self.conn_ref(at));
            catch_up.events.retain(|event| !event.except().has(id));
        }
        match at.conn.state().on_missed() {
            Some(MissedAction::CatchUp) => self.catch_up_stream(at, catch_up),
            Some(MissedAction::CatchUpPoll) => self.catch_up_poll(at, catch_up),
            // It ends.
            None => Ok(()),
        }
    }

    /// A held stream goes on: with what it has missed, then what has come meanwhile.
    fn catch_up_stream(&mut self, at: &mut At<'_, S::Socket>, catch_up: CatchUp) -> Lives {
        let CatchUp { heard, events, gap, gap_up_to, up_to, whole, is_first, floors, .. } =
            catch_up;
        let told = at.conn.past_told();
        match is_first && told.is_none() {
            true => self.resumes.count(gap),
            false if gap => self.resumes.count_gap(),
            false => {}
        }
        let (format, carrier) = (at.conn.wire.format(), at.conn.wire.carrier());
        let mut notice = Vec::new();
        if let Some(head) = at.conn.some_work().and_then(|work| work.held.head.take()) {
            head.push(gap, &mut notice);
        }
        let last = events.last().map_or(0, |event| event.number());
        if gap {
            // Where nothing comes behind it the notice says where the stream stands.
            let is_all = whole && last == 0 && !at.conn.has_held();
            let next = is_all.then(|| self.event_ids.id(up_to).to_string());
            format.push_gap(&mut notice, carrier, next.as_deref());
        }
        let missed = Missed { heard, events, gap_up_to, up_to, whole, floors };
        let end = at.conn.catch_up(&notice, missed);
        if end.is_none() {
            // No send was under way when it was answered, so all mail up to there came before.
            self.settle(up_to);
            notice.clear();
            if let Some((told, _)) = told {
                self.push_begin(at, &mut notice, told, up_to);
            } else if last < up_to && at.conn.is(Marks::BLOCKS) {
                let id = self.event_ids.id(up_to).to_string();
                format.push_cursor(&mut notice, carrier, &id);
            }
            if !notice.is_empty() {
                at.conn.push_reply(&notice);
            }
            at.conn.move_to(State::Stream);
        } else if at.conn.is_flushed() {
            return self.ask_on(at);
        }
        if !at.conn.is_flushed() {
            self.queue(at, at.conn.backlog_bytes() > limits::EXPRESS_BYTES_MAX);
        }
        Ok(())
    }
}

/// How long the client in `slot` is told to wait, where there are so many workers. Slots are given
/// away from the first on, so they say how large the crowd is.
pub(super) fn retry_ms(slot: u32, workers: u32) -> u32 {
    let place = u64::from(slot) * u64::from(workers) * 1_000 / u64::from(RETRIES_PER_SECOND);
    // Neighbours are to be apart (Knuth, TAOCP 3, 6.4: multiplicative hashing).
    let spread = (slot.wrapping_mul(2_654_435_769) >> 16) % RETRY_MS_SPREAD;
    (RETRY_MS + spread).saturating_add(place.min(u64::from(RETRY_MS_MAX)) as u32).min(RETRY_MS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crowd_comes_back_over_a_time_that_fits_it() {
        let times = |slots: u32, workers: u32| {
            let times = (0..slots).map(move |slot| retry_ms(slot, workers));
            (times.clone().min().unwrap(), times.max().unwrap())
        };
        let (first, last) = times(5, 2);
        assert!(first >= RETRY_MS && last < 1_700, "{first} to {last} ms");
        let (first, last) = times(500_000, 2);
        assert!(first < 1_100 && (30_000..=RETRY_MS_MAX).contains(&last), "{first} to {last} ms");
        assert_eq!(retry_ms(1 << 30, 1), RETRY_MS_MAX);
        let mut second = [0; 33];
        (0..500_000).for_each(|slot| second[retry_ms(slot, 2) as usize / 1_000] += 2);
        let most = second.iter().max().copied().unwrap();
        assert!(most < RETRIES_PER_SECOND * 3 / 2, "{most} in one second");
    }
}
