//! What a client is told for whom there is no place, or whose address has enough of them.
//!
//! It has no slot and no state: its request is looked at once, as far as it is there, and answered.

use proto::request::{self, Parsed, Refusal, Request};
use proto::{Method, Problem, response};

use super::{NoPlace, Shard};
use crate::limits;
use crate::sockets::Sockets;

impl<S: Sockets> Shard<S> {
    /// The answer to a client whose request begins with `head`. A page that would be let in may
    /// read it, and so learns how long to stay away; else it would ask by its other transports.
    pub(crate) fn no_place_answer(&self, head: &[u8], why: NoPlace) -> Vec<u8> {
        let (head_only, origin, host) = match request::parse(head, 0) {
            Parsed::Request(Request { method, origin, host, .. }) => {
                (method == Method::Head, origin, host)
            }
            Parsed::Refused(Refusal { head_only, origin, host, .. }) => (head_only, origin, host),
            Parsed::NeedMore => (false, None, None),
        };
        let cors = self.core.cors(origin, host);
        let problem = self.no_place_problem(why);
        let mut answer = Vec::new();
        response::problem(&problem, head_only, cors, &mut answer);
        answer
    }

    /// What a client is told for whom there is no place.
    pub(super) fn no_place_problem(&self, why: NoPlace) -> Problem {
        match why {
            NoPlace::Full => Problem::unavailable(limits::RETRY_AFTER_SECONDS),
            NoPlace::Moving => Problem::moving(limits::MOVING_RETRY_AFTER_SECONDS),
            NoPlace::Bound(bound) => self.core.addresses.problem(bound),
        }
    }
}
