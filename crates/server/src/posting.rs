//! Taking a send through all its steps, whoever asked for it.

use std::time::{Duration, Instant};

use engine::{Receipt, Sending, Step};
use hub::{Followers, FollowersError};
use thiserror::Error;
use tokio::time::sleep;

/// How long to wait before a full mailbox is tried again.
const MAILBOX_PAUSE: Duration = Duration::from_millis(1);

/// How long a mailbox may stay full before the sender is told.
pub(crate) const MAILBOX_TIMEOUT: Duration = Duration::from_secs(5);

/// What the frames of all transports put around an event at most: the size line of a chunk, SSE's
/// field names, the event id twice, member names.
pub(crate) const FRAME_BYTES: usize = 128;

/// Why an event was not posted.
#[derive(Debug, Error)]
pub(crate) enum Unposted {
    /// The workers have more to deliver than they can.
    #[error("a mailbox is full")]
    MailboxFull,
    /// The graph could not be read.
    #[error(transparent)]
    Followers(#[from] FollowersError),
}

/// Takes all steps of a send, pausing where it must.
pub(crate) async fn finish(
    sending: &mut Sending<'_>,
    followers: &dyn Followers,
) -> Result<Receipt, Unposted> {
    let mut full_since = None;
    loop {
        match sending.step(followers)? {
            Step::Posted(receipt) => return Ok(receipt),
            Step::More => tokio::task::yield_now().await,
            Step::MailboxFull => {
                let since = *full_since.get_or_insert_with(Instant::now);
                if since.elapsed() > MAILBOX_TIMEOUT {
                    return Err(Unposted::MailboxFull);
                }
                sleep(MAILBOX_PAUSE).await;
            }
        }
    }
}
