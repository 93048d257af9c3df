//! Pages of what was sent about an id, which clients read: the way to whoever makes them.
//!
//! A worker looks whether the token grants it, and how often its connection asks; then it
//! [asks](crate::questions). The control plane makes the page, as large as the connection can take,
//! and [says](crate::answers) it. Each is answered once. A read counts as one that waits until its
//! worker has the answer. So pages that nobody has taken yet have a bound with them.
//!
//! Cost: nothing until a client reads; then what a [send](crate::client_sends) costs.

use std::fmt::{self, Debug};
use std::sync::Arc;

use hub::{ConnRef, Grant};
use sync::replies::Replies;

use crate::client_sends::ClientSendLimits;
use crate::limits::{HISTORY_READ_BYTES_MAX, HISTORY_READS_MAX};
use crate::questions::{Question, QuestionBounds, Questions};

/// Bytes of a page's events at most, however much may wait for a connection.
const PAGE_BYTES_MAX: usize = 64 * 1024;

/// What a page has around its events, at most: the head, a comma for each, where it goes on.
const AROUND_BYTES: usize = 4 * 1024;

/// A page that a client wants to read, which its token grants.
pub struct HistoryRead {
    pub(crate) conn: ConnRef,
    pub(crate) id: Box<str>,
    pub(crate) query: Box<str>,
    pub(crate) grant: Arc<Grant>,
    pub(crate) limits: ClientSendLimits,
    pub(crate) bytes_max: usize,
}

/// Its query may have a token in it.
impl Debug for HistoryRead {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a page of {} for {:?}", self.id, self.conn)
    }
}

impl Question for HistoryRead {
    fn bytes(&self) -> usize {
        self.id.len() + self.query.len()
    }
}

impl HistoryRead {
    /// The connection that is to be answered.
    pub fn conn(&self) -> ConnRef {
        self.conn
    }

    /// The id, which is a good one.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Which page, as the client wrote it: the query of its request.
    pub fn query(&self) -> &str {
        &self.query
    }

    /// What its client's token grants.
    pub fn grant(&self) -> &Grant {
        &self.grant
    }

    /// How often a client may ask: as often as it may send.
    pub fn limits(&self) -> &ClientSendLimits {
        &self.limits
    }

    /// Bytes of the page's events at most, by which its connection can take it whole.
    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }
}

/// How many bytes of events a page may have for a connection for which `backlog_bytes_max` may
/// wait.
pub(crate) fn page_bytes_max(backlog_bytes_max: usize) -> usize {
    PAGE_BYTES_MAX.min(backlog_bytes_max - AROUND_BYTES.min(backlog_bytes_max / 2))
}

/// What clients of all workers read, on its way to the control plane.
#[derive(Debug)]
pub struct HistoryReads {
    questions: Questions<HistoryRead>,
}

impl HistoryReads {
    pub(crate) fn new(replies: Arc<Replies>) -> HistoryReads {
        let bounds = QuestionBounds { questions: HISTORY_READS_MAX, bytes: HISTORY_READ_BYTES_MAX };
        HistoryReads { questions: Questions::for_task(bounds, replies) }
    }

    /// Asks. `false` when too many wait.
    pub(crate) fn push(&self, read: HistoryRead) -> bool {
        self.questions.push(read)
    }

    /// The answer to one has come to its worker.
    pub(crate) fn answered(&self) {
        self.questions.done(1, 0);
    }

    /// The next one, which is to be answered.
    pub fn take(&self) -> Option<HistoryRead> {
        let read = self.questions.take_and_count()?;
        self.questions.done(0, read.bytes());
        Some(read)
    }

    /// Waits until there is one.
    pub fn poll_any(&self, context: &mut std::task::Context<'_>) -> std::task::Poll<()> {
        self.questions.poll_any(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_fits_with_its_head_into_what_may_wait() {
        assert_eq!(page_bytes_max(64 * 1024), 60 * 1024);
        assert_eq!(page_bytes_max(1 << 30), 64 * 1024);
        assert_eq!(page_bytes_max(1_000), 500);
    }
}
