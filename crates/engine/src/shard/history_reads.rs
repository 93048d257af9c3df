//! Clients that read what was sent about an id, by `GET /events/{id}`, as far as their token grants
//! it.
//!
//! The control plane makes the page ([`crate::history_reads`]). As long as it has not, the request
//! waits as one does that sends an event, and is answered as that is. A client reads as often as it
//! may send, and a connection waits for one page at a time.

use hub::{Grant, IdText};
use proto::{Carrier, Format, Method, Problem, Request};

use super::admission::Reply;
use super::client_sends::UPGRADE_SECONDS;
use super::core::{At, Core, Lives};
use super::tokens::Presented;
use crate::conn::Marks;
use crate::conn::state::State;
use crate::history_reads::{HistoryRead, page_bytes_max};
use crate::limits::RETRY_AFTER_SECONDS;
use crate::sockets::Sockets;
use crate::tokens::Granted;
use crate::wire::Wire;

impl<S: Sockets> Core<S> {
    /// Serves a request for a page of events.
    pub(super) fn admit_history_read(
        &mut self,
        at: &mut At<'_, S::Socket>,
        request: &Request<'_>,
        reply: &Reply<'_>,
    ) -> Lives {
        let granted = match self.look_at_token(at, request) {
            Presented::Granted(granted) => granted,
            Presented::Refused(problem) => return self.refuse(at, &problem, reply),
            Presented::Asked => return Ok(()),
            Presented::Open => return self.refuse(at, &Problem::no_such_path(), reply),
        };
        let id = match readable(request, &granted.grant) {
            Ok(id) => id,
            Err(problem) => {
                self.counters.ids_not_granted.add(u64::from(problem.status == 403));
                return self.refuse(at, &problem, reply);
            }
        };
        at.conn.begin_request();
        let carrier = if request.keep_alive { Carrier::Chunked } else { Carrier::Close };
        at.conn.wire = Wire::new(Format::Poll, carrier);
        self.keep_cors(at, request, reply);
        at.conn.mark(Marks::READS, true);
        at.conn.mark(Marks::HEAD_ONLY, request.method == Method::Head);
        at.conn.move_to(State::Sending);
        at.conn.active = self.now;
        self.wait(at);
        let asked = self.ask_to_read(at, id, request.query, granted);
        asked.or_else(|problem| self.answer_request(at, Err(&problem)))
    }

    /// Asks the control plane for a page. A refusal is the answer; otherwise it follows.
    fn ask_to_read(
        &mut self,
        at: &At<'_, S::Socket>,
        id: &str,
        query: &str,
        granted: Granted,
    ) -> Result<(), Problem> {
        if self.refuses_sends {
            return Err(Problem::history_busy(UPGRADE_SECONDS));
        }
        let limits = self.config.settings.client_sends;
        let publisher = self.take_of_rate(at)?;
        let read = HistoryRead {
            conn: self.conn_ref(at),
            id: id.into(),
            query: query.into(),
            grant: granted.grant,
            limits,
            bytes_max: page_bytes_max(self.config.backlog_bytes_max),
        };
        if !self.history_reads.push(read) {
            return Err(Problem::history_busy(RETRY_AFTER_SECONDS));
        }
        self.publishers.set(at.slot, publisher);
        self.unanswered += 1;
        Ok(())
    }
}

/// The id that a request names, if it is a good one and granted.
fn readable<'r>(request: &'r Request<'_>, grant: &Grant) -> Result<&'r str, Problem> {
    let id = request.ids.first().map_or("", |id| &**id);
    IdText::parse(id).map_err(|error| Problem::bad_id(format!("{error}.")))?;
    if grant.allows_history(id) { Ok(id) } else { Err(Problem::history_not_granted(id)) }
}
