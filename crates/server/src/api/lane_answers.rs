//! Answers to what a worker's lane has posted, as the library would write them.

use dispatch::outcome::Delivered;
use engine::Event;
use proto::decimal::push_decimal;

use super::at_once::AnswerAtOnce;
use super::endpoints::event::push_answer;
use super::mercure::{DELIVERED, own_id};
use super::state::Api;

impl Api {
    /// Appends the answer to what has reached `count` connections, head and body; `date` is what
    /// its `Date` field says. What was in `body` is overwritten.
    pub(crate) fn push_http_answer(
        &self,
        out: &mut Vec<u8>,
        body: &mut Vec<u8>,
        (answer, event, count): (AnswerAtOnce, &Event, u32),
        date: &[u8],
    ) {
        let delivered = Delivered::of(event, count);
        body.clear();
        out.extend_from_slice(b"HTTP/1.1 200 OK\r\ncontent-type: ");
        match answer {
            AnswerAtOnce::Event => {
                push_answer(body, &delivered);
                body.push(b'\n');
                out.extend_from_slice(b"application/json");
            }
            AnswerAtOnce::Update { id, media_type } => {
                body.extend_from_slice(id.unwrap_or_else(|| own_id(&delivered)).as_bytes());
                for part in [media_type, "\r\n", DELIVERED, ": "] {
                    out.extend_from_slice(part.as_bytes());
                }
                push_decimal(out, count.into());
            }
        }
        out.extend_from_slice(b"\r\ncontent-length: ");
        push_decimal(out, body.len() as u64);
        out.extend_from_slice(b"\r\ndate: ");
        out.extend_from_slice(date);
        out.extend_from_slice(b"\r\n\r\n");
        out.extend_from_slice(body);
    }
}
