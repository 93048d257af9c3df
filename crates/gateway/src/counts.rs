//! What the Erlang side counts.

use dispatch::count::SharedCount;
use erlang::{End, LogLimit};

use super::refusal::Refusal;

/// All counts since the start.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Events that nodes sent.
    pub(super) events: SharedCount,
    /// Messages handed to the buffers of nodes.
    pub(super) deliveries: SharedCount,
    /// Deliveries that met their process too late, or found its node gone or too slow.
    pub(super) dropped: SharedCount,
    /// Processes logged in.
    pub(super) logins: SharedCount,
    /// Connections of nodes that began.
    pub(super) connected: SharedCount,
    /// Those that ended, by reason.
    pub(super) ended: [SharedCount; End::ALL.len()],
    /// What was not done, by reason.
    pub(super) refused: [SharedCount; Refusal::COUNT],
    /// Frames that are no message that we know, and messages to nobody.
    pub(super) unknown: SharedCount,
    /// Each reason has its own, so that none of them hides another.
    refused_log: [LogLimit; Refusal::COUNT],
    unknown_log: LogLimit,
    unread_log: LogLimit,
}

impl Counts {
    /// Counts what `peer` asked for in vain, and says so unless the same was said just now.
    pub(super) fn refuse(&self, peer: &str, refusal: Refusal) {
        self.refused[refusal.index()].add(1);
        if self.refused_log[refusal.index()].permits() {
            let why = refusal.to_atom();
            tracing::warn!("what a process of the Erlang node {peer} sent was not done: {why}");
        }
    }

    /// Says why a page of events cannot be read, unless that was said just now. Who asked is
    /// [refused](Counts::refuse).
    pub(super) fn unread_page(&self, why: &str) {
        if self.unread_log.permits() {
            tracing::warn!("a page of events cannot be read: {why}");
        }
    }

    /// Counts a connection that ended.
    pub(super) fn ended(&self, end: End) {
        self.ended[end as usize].add(1);
    }

    /// Counts what `peer` sent and nobody understands.
    pub(super) fn count_unknown(&self, peer: &str, what: &str) {
        self.unknown.add(1);
        if self.unknown_log.permits() {
            tracing::warn!("the Erlang node {peer} sent {what}");
        }
    }
}
