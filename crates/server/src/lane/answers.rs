//! The answers of a connection.

use std::time::Instant;

use super::slots::{Asked, Awaited, Conn};
use crate::api::Api;

/// Where answers are written.
#[derive(Default)]
pub(super) struct Output {
    pub(super) answers: Vec<u8>,
    /// The body of the one that is being written.
    body: Vec<u8>,
}

impl Output {
    /// Writes the answers of `conn`, all of which are known, in the order of its requests; `date`
    /// is what their `Date` fields say.
    pub(super) fn write(&mut self, api: &Api, conn: &mut Conn, date: &[u8]) {
        let now = Instant::now();
        self.answers.clear();
        for Asked { awaited, accepted } in conn.asked.drain(..) {
            let out = &mut self.answers;
            match awaited {
                Awaited::Event { event, receipt, answer } => {
                    let count = receipt.ready().unwrap_or_default();
                    api.push_http_answer(out, &mut self.body, (answer, &event, count), date);
                    api.note_duration(accepted, now);
                }
                Awaited::Append { append, bytes } => {
                    if !api.push_append_answer(out, &append, date) {
                        conn.leaves = true;
                        break;
                    }
                    // What is behind it is not reported again.
                    conn.input = conn.input.split_off(bytes);
                    conn.unread |= !conn.input.is_empty();
                }
            }
            conn.has_served = true;
        }
    }
}
