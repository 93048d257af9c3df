//! What a client is told for whom there is no place, or whose address has enough of them.
//!
//! Most have no slot and no state: the request is there, is looked at once, and answered. A client
//! of an app is told on its WebSocket, since its library reads nothing else: after an answer by
//! HTTP, or none, pusher-js stays away for 15 s and more, and after a close with 4100 for one. So
//! where apps are served a full worker waits for a request that is not there, and for TLS: for few
//! at a time and a short time each ([`limits::UNPLACED_MAX`]), in slots beside its connections'.

use std::net::IpAddr;

use hub::{Bound, DisconnectReason};
use proto::request::{self, Parsed, Refusal, Request};
use proto::resume::end_head;
use proto::websocket::handshake::{self, Agreement};
use proto::{Method, Problem, Proxied, Route, proxied, response};
use pusher::Close;

use super::admission::Reply;
use super::core::{At, Core, End, Lives};
use super::tables::trust::Trust;
use super::{NoPlace, Shard, channels};
use crate::config::EngineConfig;
use crate::conn::Conn;
use crate::conn::state::State;
use crate::limits::{self, work};
use crate::slab::Key;
use crate::sockets::Sockets;

/// How many connections a worker has places for that can hold `slots`.
pub(super) fn places(config: &EngineConfig, slots: usize) -> usize {
    match config.pusher {
        Some(_) => slots - (slots / limits::UNPLACED_SHARE).min(limits::UNPLACED_MAX),
        None => slots,
    }
}

impl<S: Sockets> Shard<S> {
    /// The answer to a client whose request begins with `head`. A page that would be let in may
    /// read it, and so learns how long to stay away; else it would ask by its other transports.
    /// `waiting` are in the queue behind it.
    pub(crate) fn no_place_answer(&self, head: &[u8], why: NoPlace, waiting: u32) -> Vec<u8> {
        let mut answer = Vec::new();
        let (head_only, origin, host) = match request::parse(behind_proxy(head), 0) {
            Parsed::Request(request) => {
                if let Some(agreement) = self.core.agreement_at_app(&request) {
                    push_over_capacity(&agreement, &mut answer);
                    return answer;
                }
                (request.method == Method::Head, request.origin, request.host)
            }
            Parsed::Refused(Refusal { head_only, origin, host, .. }) => (head_only, origin, host),
            Parsed::NeedMore => (false, None, None),
        };
        let cors = self.core.cors(origin, host);
        let problem = self.core.no_place_problem(why, waiting);
        response::problem(&problem, head_only, cors, &mut answer);
        answer
    }

    /// Whether a request is waited for that begins with `head`: it may be of a client of an app.
    pub(crate) fn awaits_rest(&self, head: &[u8]) -> bool {
        let has_apps = self.core.config.pusher.is_some();
        has_apps && matches!(request::parse(behind_proxy(head), 0), Parsed::NeedMore)
    }

    /// Waits for the request of a client for whom there is no place, of which `head` has come, or
    /// for what is below it: it begins with TLS. Gives the socket back where as many are waited for
    /// as may be. It counts for no address.
    pub(crate) fn hold_unplaced(
        &mut self,
        socket: S::Socket,
        address: IpAddr,
        head: Option<&[u8]>,
    ) -> Result<Key, S::Socket> {
        if self.core.unplaced.len() >= self.unplaced_max() {
            match self.core.unplaced.gives_way(self.core.now) {
                Some(slot) => self.turn_away(slot),
                None => return Err(socket),
            }
        }
        let core = &mut self.core;
        let inserted = self.conns.insert(Conn::new(socket, core.now));
        let key = inserted.map_err(|conn| conn.socket)?;
        // It counts as refused from now on: no figure has more connections than there may be.
        core.counters.opened.add(1);
        core.counters.closed[DisconnectReason::Full as usize].add(1);
        core.unplaced.push(key.slot, core.now);
        self.serve(key.slot, |core, at| {
            core.budget.spend(work::END);
            if core.addresses.trusts(address) {
                core.trusts.set(at.slot, Trust::Header);
            }
            if let Some(head) = head.filter(|head| !head.is_empty()) {
                at.conn.new_work().unread = head.to_vec();
            }
            core.wait(at);
            Ok(())
        });
        if head.is_none() {
            self.secure(key.slot);
        }
        Ok(key)
    }

    /// For how many it waits at most.
    fn unplaced_max(&self) -> usize {
        match self.core.config.pusher {
            Some(_) => limits::UNPLACED_MAX.min(self.conns.max() / limits::UNPLACED_SHARE),
            None => 0,
        }
    }

    /// Refuses those whose requests were waited for long enough.
    pub(super) fn turn_late_away(&mut self) {
        while !self.core.budget.is_spent()
            && let Some(slot) = self.core.unplaced.late(self.core.now)
        {
            self.turn_away(slot);
        }
    }

    /// Ends one that was waited for: with an answer, if it can read one.
    fn turn_away(&mut self, slot: u32) {
        self.core.budget.spend(work::REQUEST);
        self.serve(slot, |core, at| {
            // Perhaps all is there, and nobody has looked.
            if matches!(at.conn.state(), State::Handshake | State::Head) {
                core.readable(at, false)?;
            }
            if at.conn.state() == State::Head {
                let problem = core.no_place_problem(NoPlace::Full, 0);
                core.refuse_unnoted(at, &problem, &Reply::default(), DisconnectReason::Full)?;
            }
            Err(End { reason: DisconnectReason::Full, abort: false })
        });
    }
}

impl<S: Sockets> Core<S> {
    /// Answers the request of one for whom there is no place. The log was told of it when it came.
    pub(super) fn refuse_unplaced(
        &mut self,
        at: &mut At<'_, S::Socket>,
        request: &Request<'_>,
        reply: &Reply<'_>,
    ) -> Lives {
        if let Some(agreement) = self.agreement_at_app(request) {
            push_over_capacity(&agreement, &mut self.answer);
            return self.answered(at, DisconnectReason::Full);
        }
        let problem = self.no_place_problem(NoPlace::Full, 0);
        self.refuse_unnoted(at, &problem, reply, DisconnectReason::Full)
    }

    /// Answers a request whose address has met `bound`.
    pub(super) fn refuse_bound(
        &mut self,
        at: &mut At<'_, S::Socket>,
        request: &Request<'_>,
        bound: Bound,
        reply: &Reply<'_>,
    ) -> Lives {
        let problem = self.addresses.problem(bound);
        if let Some(agreement) = self.agreement_at_app(request) {
            self.note_refusal(at, &problem);
            push_over_capacity(&agreement, &mut self.answer);
            return self.answered(at, DisconnectReason::AddressLimit);
        }
        self.refuse_for(at, &problem, reply, DisconnectReason::AddressLimit)
    }

    /// How the WebSocket of a client of an app is opened. `None` where it asks for another path, or
    /// in another way: it is answered by HTTP then.
    fn agreement_at_app(&self, request: &Request<'_>) -> Option<Agreement> {
        if request.route != Route::App || self.config.pusher.is_none() {
            return None;
        }
        handshake::agree(request.upgrade.as_ref()?, false).ok()
    }

    /// What a client is told for whom there is no place, with `waiting` behind it.
    pub(super) fn no_place_problem(&self, why: NoPlace, waiting: u32) -> Problem {
        match why {
            NoPlace::Full => Problem::unavailable(retry_after_seconds(waiting)),
            NoPlace::Moving => Problem::moving(limits::MOVING_RETRY_AFTER_SECONDS),
            NoPlace::Bound(bound) => self.addresses.problem(bound),
        }
    }
}

/// What stands behind the header of a proxy, if there is one. Nothing is believed of it here.
fn behind_proxy(head: &[u8]) -> &[u8] {
    match proxied::parse(head) {
        Proxied::Header { len, .. } => &head[len..],
        _ => head,
    }
}

/// Opens the WebSocket of a client of an app, and closes it: it comes back after a second.
fn push_over_capacity(agreement: &Agreement, answer: &mut Vec<u8>) {
    handshake::push_head(agreement, answer);
    end_head(answer, None, None);
    channels::push_close(Close::OverCapacity, answer);
}

/// The longer the queue, the longer each of it stays away: they were all asked for at one time, and
/// would all come again at one time.
fn retry_after_seconds(waiting: u32) -> u32 {
    let more = waiting / limits::REFUSED_PER_SECOND;
    (limits::RETRY_AFTER_SECONDS + more).min(limits::RETRY_AFTER_SECONDS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_refused_before_many_others_stays_away_for_longer() {
        let seconds = [0, 99, 100, 1_000, 65_535, u32::MAX].map(retry_after_seconds);
        assert_eq!(seconds, [5, 5, 6, 15, 60, 60]);
    }
}
