//! One event's way from the API into the workers' mailboxes.
//!
//! Posting and hearing the count are two steps, so that a stream can post its next event while the
//! workers deliver the last one. Cost of posting: 1 to 3 µs for a typical audience.

use std::sync::Arc;
use std::time::Instant;

use cluster::Once;
use dispatch::barrier::WritePermit;
use dispatch::idempotency;
use dispatch::outcome::Delivered;
use dispatch::posting::{Delivery, FRAME_BYTES, SendOptions};
use dispatch::traces::Marks;
use engine::Outgoing;
use httpd::id::IdField;
use httpd::problem::ApiProblem;
use proto::decimal::push_decimal;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::api::state::Api;

/// An event as a sender writes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventBody<'a> {
    #[serde(borrow)]
    pub(crate) about: IdField<'a>,
    #[serde(borrow)]
    pub(crate) data: &'a RawValue,
    /// The event is posted once with this key.
    #[serde(default, deserialize_with = "idempotency::member")]
    pub(crate) key: Option<Box<str>>,
}

/// An event that is on its way: who made it, and how many will have heard it.
pub(crate) struct Posted {
    pub(crate) delivery: Delivery,
    /// When the API had read it.
    pub(crate) accepted: Instant,
}

impl Api {
    /// Whether an event fits into a connection's backlog.
    pub(super) fn fits(&self, body: &EventBody<'_>) -> bool {
        body.about.0.len() + body.data.get().len() + FRAME_BYTES <= self.backlog_bytes_max
    }

    /// Hands an event to the mailboxes of all workers that have listeners of it.
    /// With `marks` it has a trace.
    pub(crate) async fn post(
        &self,
        permit: &WritePermit<'_>,
        body: &EventBody<'_>,
        once: Option<Once>,
        marks: Option<&Arc<Marks>>,
    ) -> Result<Posted, ApiProblem> {
        let accepted = Instant::now();
        let data = body.data.get();
        if !self.fits(body) {
            return Err(ApiProblem::too_large(format!(
                "This event has {} bytes of data and would not fit into a connection's backlog of \
                 {} bytes. Send a smaller one, or raise --max-backlog.",
                data.len(),
                self.backlog_bytes_max,
            )));
        }
        let outgoing = Outgoing::new(&body.about.0, data)?;
        if let Some(marks) = marks {
            marks.accepted(accepted);
        }
        let options = SendOptions { once, marks: marks.cloned() };
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
    use httpd::object::Object;

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

    #[test]
    fn event_body_keeps_its_data_as_written() {
        let body: EventBody<'_> =
            serde_json::from_slice(b"{\"data\": {\"x\" :1.50}, \"about\":12}").unwrap();
        assert_eq!((&*body.about.0, body.data.get()), ("12", "{\"x\" :1.50}"));
        for bad in [
            r#"{"about":1}"#,
            r#"{"data":1}"#,
            r#"{"about":1,"data":2,"x":3}"#,
            r#"{"about":1,"data":2,"key":null}"#,
            r#"{"about":1,"data":2,"key":3}"#,
            "[]",
            "[1,2]",
        ] {
            assert!(serde_json::from_str::<Object<EventBody<'_>>>(bad).is_err(), "{bad}");
        }
    }
}
