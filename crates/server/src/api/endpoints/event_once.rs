//! An event that is posted once, however often it is sent with its key.
//!
//! Posting is the request's own work: when its client goes away before that is done, nothing is
//! posted and the key is free. From then on the count is awaited by a task of its own, so that a
//! repeat hears it although the first client is gone, or reads no answers. There are no more of
//! these tasks than mails in the workers' mailboxes.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dispatch::barrier::WritePermit;
use dispatch::idempotency::{Claim, Claimed, IdempotencyKey, KeyHolder, Progress};
use dispatch::outcome::{Delivered, LogTrouble, MAILBOX_TIMEOUT, Unposted};
use dispatch::traces::Marks;
use engine::Outgoing;
use httpd::problem::ApiProblem;
use tokio::sync::watch;
use tokio::time::timeout_at;

use super::event::Posted;
use super::event_body::EventBody;
use crate::api::state::Api;

/// How long a repeat waits until the first send is posted: as long as that may take where a mailbox
/// is full, and as long again for an audience that is looked up slowly.
const POSTED_TIMEOUT: Duration = MAILBOX_TIMEOUT.saturating_mul(2);

/// An event that is posted, now or before: its answer is known or will be.
pub(crate) enum Once {
    /// It is known.
    Answered(Delivered),
    /// It is known when the workers have delivered.
    UnderWay {
        progress: watch::Receiver<Progress>,
        /// The event's size, if it was posted now.
        bytes: usize,
    },
}

/// By what an event is known that is posted once.
pub(super) struct Known<'e> {
    /// Who sends it: its keys are nobody else's.
    holder: KeyHolder<'e>,
    key: &'e IdempotencyKey<'e>,
    about: &'e str,
    fingerprint: Cow<'e, str>,
}

impl<'e> Known<'e> {
    /// The event of `body`, which `holder` sends with this `key`.
    pub(super) fn of(
        holder: KeyHolder<'e>,
        key: &'e IdempotencyKey<'e>,
        body: &'e EventBody<'_>,
    ) -> Known<'e> {
        Known { holder, key, about: body.about(), fingerprint: body.fingerprint() }
    }
}

impl Api {
    /// Posts an event, unless its sender did that with the same key before. The permit is held for
    /// as long as the key is claimed, so while the barrier is closed none is.
    pub(super) async fn post_once(
        self: &Arc<Api>,
        permit: &WritePermit<'_>,
        known: Known<'_>,
        outgoing: Outgoing,
        marks: Option<&Arc<Marks>>,
    ) -> Result<Once, ApiProblem> {
        let deadline = tokio::time::Instant::now() + POSTED_TIMEOUT;
        let Known { holder, key, about, fingerprint } = known;
        loop {
            match self.idempotency.claim(holder, key, about, &fingerprint)? {
                Claimed::First(claim) => {
                    let posted = self.post(permit, outgoing, Some(claim.once()), marks).await?;
                    return Ok(self.follow(claim, posted));
                }
                Claimed::UnderWay(mut progress) => {
                    let is_posted = |progress: &Progress| {
                        !matches!(progress, Progress::Claimed | Progress::Refused(_))
                    };
                    let posted = timeout_at(deadline, progress.wait_for(is_posted)).await;
                    let posted = posted.map_err(|_| ApiProblem::key_under_way())?.is_ok();
                    if posted {
                        self.idempotency.count_repeat();
                        return Ok(Once::UnderWay { progress, bytes: 0 });
                    }
                    // It was not, so the key is free again.
                }
                Claimed::Answered(answer) => {
                    self.idempotency.count_repeat();
                    return Ok(Once::Answered(answer));
                }
            }
        }
    }
}

impl Api {
    /// Lets `claim` know what becomes of its event. Nothing is awaited between its posting and
    /// this.
    fn follow(self: &Arc<Api>, claim: Claim, posted: Posted) -> Once {
        let Posted { mut delivery, accepted } = posted;
        let (bytes, api) = (delivery.bytes(), Arc::clone(self));
        let Some(id) = delivery.id() else {
            // The cluster's log gives the id.
            let progress = claim.progress();
            tokio::spawn(async move {
                match delivery.answer().await {
                    Ok(delivered) => {
                        api.durations.record(accepted, Instant::now());
                        claim.answered(delivered);
                    }
                    Err(Unposted::Log(trouble)) => claim.failed(trouble),
                    Err(_) => claim.failed(LogTrouble::Away),
                }
            });
            return Once::UnderWay { progress, bytes };
        };
        let uncounted = claim.posted(id);
        if let Some(Ok(delivered)) = delivery.ready() {
            self.durations.record(accepted, Instant::now());
            return Once::Answered(uncounted.counted(delivered.count, false));
        }
        let progress = uncounted.progress();
        tokio::spawn(async move {
            match delivery.answer().await {
                Ok(delivered) => {
                    api.durations.record(accepted, Instant::now());
                    uncounted.counted(delivered.count, false);
                }
                Err(_) => uncounted.not_durable(),
            }
        });
        Once::UnderWay { progress, bytes }
    }
}

impl Once {
    /// Waits until [`Once::ready`] tells something.
    pub(super) async fn ready_or_closed(&mut self) {
        if let Once::UnderWay { progress, .. } = self {
            let is_answered =
                |progress: &Progress| !matches!(progress, Progress::Claimed | Progress::Posted(_));
            // It fails when the channel is closed, which `ready` sees for itself.
            let _ = progress.wait_for(is_answered).await;
        }
    }

    /// The answer, if it is known; a problem if nobody will ever know it.
    pub(super) fn ready(&self) -> Option<Result<Delivered, ApiProblem>> {
        let progress = match self {
            Once::Answered(answer) => return Some(Ok(*answer)),
            Once::UnderWay { progress, .. } => progress,
        };
        // Looked at first: what is said before the end of the channel is heard.
        let is_closed = progress.has_changed().is_err();
        match *progress.borrow() {
            Progress::Answered(answer) => Some(Ok(answer)),
            Progress::Refused(trouble) => Some(Err(Unposted::Log(trouble).into())),
            Progress::NotDurable(_) => Some(Err(Unposted::NotDurable.into())),
            Progress::Unknown => Some(Err(Unposted::Log(LogTrouble::Silent).into())),
            Progress::OtherBody => Some(Err(ApiProblem::other_body())),
            // The task is gone, and with it the runtime.
            _ => is_closed.then(|| Err(ApiProblem::stopping())),
        }
    }

    pub(super) async fn answer(mut self) -> Result<Delivered, ApiProblem> {
        self.ready_or_closed().await;
        self.ready().expect("it was waited for")
    }

    /// What it counts for in a stream's window.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Once::Answered(_) => 0,
            Once::UnderWay { bytes, .. } => *bytes,
        }
    }
}
