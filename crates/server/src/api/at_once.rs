//! Requests as a worker's lane serves them: without a wait, or not at all.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use dispatch::posting::PostedNow;
use engine::{Event, Receipt};
use hub::Draft;

use super::state::Api;
use super::streams::PostedAppend;

/// What a lane has read of a request.
pub(crate) struct RequestAtOnce<'r> {
    /// What its client calls us.
    pub(crate) host: &'r str,
    pub(crate) authorization: Option<&'r str>,
    /// Whether somebody on the way has said for whom it asks.
    pub(crate) is_forwarded: bool,
    pub(crate) peer: IpAddr,
    pub(crate) body: &'r [u8],
}

/// What it comes to.
pub(crate) enum AtOnce {
    /// The workers have it.
    Posted { event: Arc<Event>, receipt: Receipt, answer: AnswerAtOnce },
    /// The thread has it that appends to streams. Nothing further is to be asked of its client
    /// before it is done: it may have to be done elsewhere.
    Append(PostedAppend),
    /// There is no room in a mailbox, or another send is being posted. Nothing is done.
    Busy,
    /// It is not for a lane. Nothing is done.
    Elsewhere,
}

/// How it is answered once it is delivered.
#[derive(Debug)]
pub(crate) enum AnswerAtOnce {
    /// As an event that was sent.
    Event,
    /// As an update of the Mercure protocol: by its publisher's own `id`, or by the event's.
    Update { id: Option<String>, media_type: &'static str },
}

impl Api {
    /// Whether an event can be posted without a wait for a disk, and somebody can hear it.
    pub(super) fn is_for_lanes(&self, draft: &Draft) -> bool {
        let waits_for_disk = self.router.is_always_durable() && self.router.keeps(draft);
        !waits_for_disk && self.fits(draft)
    }

    /// Counts what was posted; it is to be answered as `answer` says.
    pub(super) fn posted_now(
        &self,
        posted: PostedNow,
        answer: impl FnOnce() -> AnswerAtOnce,
    ) -> AtOnce {
        match posted {
            PostedNow::Posted(event, receipt) => {
                self.count_event();
                self.events_at_once.fetch_add(1, Ordering::Relaxed);
                AtOnce::Posted { event, receipt, answer: answer() }
            }
            PostedNow::Busy => AtOnce::Busy,
            PostedNow::TooMuch => AtOnce::Elsewhere,
        }
    }

    /// Counts how long a send took.
    pub(crate) fn note_duration(&self, accepted: Instant, over: Instant) {
        self.durations.record(accepted, over);
    }
}
