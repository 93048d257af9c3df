//! The thread on which signatures are verified that no worker has time for.
//!
//! It gives way to the workers: a crowd that connects waits for its signatures, and who is
//! connected hears its events meanwhile.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use engine::{Granted, Outcome, TokenQueue};
use hub::Grant;
use sys::{clock, priority};
use tokio_util::sync::CancellationToken;

/// How much the thread gives way: to a worker that wants the same core it leaves nine tenths of it.
const NICE: u8 = 10;

/// How long to wait where a mailbox is full.
pub(crate) const FULL_PAUSE: Duration = Duration::from_millis(1);

/// How long the thread sleeps at most, after which it looks whether the server stops.
const SLEEP_MAX: Duration = Duration::from_millis(250);

/// How long a token is good, where clocks may differ by `leeway` seconds. It ends at its `exp`;
/// where that is over, when also the leeway is, which the verifier has put into its end.
pub(crate) fn granted(grant: Arc<Grant>, leeway: u64) -> Granted {
    let now_ms = clock::unix_ms();
    let remaining_ms = grant.expires.map(|expires| {
        let latest_ms = expires.saturating_mul(1000);
        let end_ms = latest_ms.saturating_sub(leeway * 1000);
        let end_ms = if end_ms > now_ms { end_ms } else { latest_ms };
        end_ms.saturating_sub(now_ms)
    });
    Granted { grant, remaining_ms }
}

/// Takes the questions of the workers, on a thread of its own, until `stop`: each is answered with
/// what `verify` says, and `after` that is shown what was granted.
pub(crate) fn spawn(
    queue: TokenQueue,
    stop: CancellationToken,
    verify: impl Fn(&str) -> Outcome + Send + 'static,
    after: impl Fn(&Grant) + Send + 'static,
) -> Result<()> {
    let at = queue.clone();
    let answer_all = move || {
        // Where it cannot, it takes no less than others.
        let _ = priority::give_way(NICE);
        while !stop.is_cancelled() {
            let Some(question) = queue.take() else {
                thread::park_timeout(SLEEP_MAX);
                continue;
            };
            if !question.asker().is_waiting() {
                continue;
            }
            let mut outcome = verify(question.token().text());
            let grant = outcome.as_ref().ok().map(|granted| Arc::clone(&granted.grant));
            while let Err(again) = queue.post_result(question.asker().conn(), outcome) {
                if stop.is_cancelled() {
                    return;
                }
                outcome = again;
                thread::sleep(FULL_PAUSE);
            }
            grant.iter().for_each(|grant| after(grant));
        }
    };
    let thread = thread::Builder::new().name("tokens".into());
    let handle = thread.spawn(answer_all);
    let handle = handle.context("cannot start a thread; check the limit on threads")?;
    at.set_verifier(handle.thread().clone());
    Ok(())
}
