//! One event's way from the API into the workers' mailboxes.
//!
//! Posting and hearing the count are two steps, so that a stream can post its next event while the
//! workers deliver the last one. Cost of posting: 1 to 3 µs for a typical audience.

use std::sync::Arc;
use std::time::Instant;

use cluster::Once;
use dispatch::barrier::WritePermit;
use dispatch::outcome::Delivered;
use dispatch::posting::{Delivery, FRAME_BYTES};
use dispatch::send_options::SendOptions;
use dispatch::traces::Marks;
use engine::Outgoing;
use httpd::problem::ApiProblem;
use hub::{Draft, LINE_BYTES};
use proto::decimal::push_decimal;

use crate::api::state::Api;

/// An event that is on its way: who made it, and how many will have heard it.
pub(crate) struct Posted {
    pub(crate) delivery: Delivery,
    /// When the API had read it.
    pub(crate) accepted: Instant,
}

impl Api {
    /// Whether an event fits into a connection's backlog.
    pub(crate) fn fits(&self, draft: &Draft) -> bool {
        draft.json().len() + FRAME_BYTES <= self.backlog_bytes_max + LINE_BYTES
    }

    /// Refuses an event that does not.
    pub(crate) fn check_fits(&self, draft: &Draft) -> Result<(), ApiProblem> {
        if self.fits(draft) {
            return Ok(());
        }
        Err(ApiProblem::too_large(format!(
            "This event has {} bytes as a line and would not fit into a connection's backlog of {} \
             bytes. Send a smaller one, or raise --max-backlog.",
            draft.json().len(),
            self.backlog_bytes_max,
        )))
    }

    /// Hands an event to the mailboxes of all workers that have listeners of it.
    /// With `marks` it has a trace.
    pub(crate) async fn post(
        &self,
        permit: &WritePermit<'_>,
        outgoing: Outgoing,
        once: Option<Once>,
        marks: Option<&Arc<Marks>>,
    ) -> Result<Posted, ApiProblem> {
        let accepted = Instant::now();
        self.check_fits(&outgoing.draft)?;
        if outgoing.durable && !self.router.keeps(&outgoing.draft) {
            return Err(ApiProblem::bad_request(
                "\"durable\" is for events that are kept on disk, and no rule (--keep) keeps those \
                 about this id. Leave it out, or add a rule.",
            ));
        }
        if let Some(marks) = marks {
            marks.accepted(accepted);
        }
        let options = SendOptions { once, marks: marks.cloned(), ..SendOptions::default() };
        let delivery = self.sender.send(permit, outgoing, options).await?;
        self.count_event();
        Ok(Posted { delivery, accepted })
    }
}

/// Appends the answer to an event: `{"delivered":2,"id":"…"}`, without a line end.
pub(crate) fn push_answer(out: &mut Vec<u8>, delivered: &Delivered) {
    out.extend_from_slice(b"{\"delivered\":");
    push_decimal(out, delivered.count.into());
    out.extend_from_slice(b",\"id\":\"");
    // Letters and digits, so there is nothing to escape.
    out.extend_from_slice(&delivered.id);
    out.push(b'"');
    if delivered.at_least {
        out.extend_from_slice(b",\"at_least\":true");
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_is_the_json_of_the_contract() {
        let id = *b"000000000iK00000";
        for (count, text) in [(0, "0"), (9, "9"), (10, "10"), (u32::MAX, "4294967295")] {
            for (at_least, more) in [(false, ""), (true, ",\"at_least\":true")] {
                let mut out = Vec::new();
                push_answer(&mut out, &Delivered { id, count, at_least });
                let expected =
                    format!("{{\"delivered\":{text},\"id\":\"000000000iK00000\"{more}}}");
                assert_eq!(String::from_utf8(out).unwrap(), expected);
            }
        }
    }
}
