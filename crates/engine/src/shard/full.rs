//! What a client is told for whom there is no place, or whose address has enough of them.
//!
//! It has no slot and no state: its request is looked at once, as far as it is there, and answered.
//! A client of an app is told on its WebSocket, since its library reads nothing else.

use proto::request::{self, Parsed, Refusal, Request};
use proto::resume::end_head;
use proto::websocket::handshake::{self, Agreement};
use proto::{Method, Problem, Route, response};
use pusher::Close;

use super::{NoPlace, Shard, channels};
use crate::limits;
use crate::sockets::Sockets;

impl<S: Sockets> Shard<S> {
    /// The answer to a client whose request begins with `head`. A page that would be let in may
    /// read it, and so learns how long to stay away; else it would ask by its other transports.
    /// `waiting` are in the queue behind it.
    pub(crate) fn no_place_answer(&self, head: &[u8], why: NoPlace, waiting: u32) -> Vec<u8> {
        let mut answer = Vec::new();
        let (head_only, origin, host) = match request::parse(head, 0) {
            Parsed::Request(request) => {
                let agreement = self.agreement_at_app(&request);
                if let (NoPlace::Full, Some(agreement)) = (why, agreement) {
                    handshake::push_head(&agreement, &mut answer);
                    end_head(&mut answer, None, None);
                    channels::push_close(Close::OverCapacity, &mut answer);
                    return answer;
                }
                (request.method == Method::Head, request.origin, request.host)
            }
            Parsed::Refused(Refusal { head_only, origin, host, .. }) => (head_only, origin, host),
            Parsed::NeedMore => (false, None, None),
        };
        let cors = self.core.cors(origin, host);
        let problem = self.no_place_problem(why, waiting);
        response::problem(&problem, head_only, cors, &mut answer);
        answer
    }

    /// How the WebSocket of a client of an app is opened. `None` where it asks for another path, or
    /// in another way: it is answered by HTTP then.
    fn agreement_at_app(&self, request: &Request<'_>) -> Option<Agreement> {
        if request.route != Route::App || self.core.config.pusher.is_none() {
            return None;
        }
        handshake::agree(request.upgrade.as_ref()?, false).ok()
    }

    /// What a client is told for whom there is no place, with `waiting` behind it.
    pub(super) fn no_place_problem(&self, why: NoPlace, waiting: u32) -> Problem {
        match why {
            NoPlace::Full => Problem::unavailable(retry_after_seconds(waiting)),
            NoPlace::Moving => Problem::moving(limits::MOVING_RETRY_AFTER_SECONDS),
            NoPlace::Bound(bound) => self.core.addresses.problem(bound),
        }
    }
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
