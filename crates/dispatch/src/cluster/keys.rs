//! Idempotency keys over all nodes: by which secret they are hashed, and whether all read them.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use bus::{Bus, Proposal};
use bytes::Bytes;
use cluster::FORMAT_MAX;
use tokio::sync::Mutex;
use tokio::time::sleep;

use super::agreement::{AGREE_PAUSE, AGREE_TIMEOUT};
use super::questions;

/// The value in NATS. Whoever may read it there may read all events, too; it keeps senders from
/// making keys that collide with those of others.
const SECRET: &str = "idempotency";

/// How long what all nodes read is taken for so: one of an earlier version may join meanwhile.
const ASK_EVERY: Duration = Duration::from_secs(5);

/// Reads the secret, or makes it where there is none.
pub(super) async fn secret(bus: &Bus) -> Result<[u8; 16]> {
    let deadline = Instant::now() + AGREE_TIMEOUT;
    loop {
        let there = match bus.value(SECRET).await {
            // Its servers may be without a leader.
            Err(error) if error.is_passing() && Instant::now() < deadline => {
                sleep(AGREE_PAUSE).await;
                continue;
            }
            there => there?,
        };
        if let Some(entry) = there {
            let text = str::from_utf8(&entry.value).ok();
            let secret = text.and_then(|text| u128::from_str_radix(text, 16).ok());
            let what = "the cluster's value \"idempotency\" in NATS cannot be read";
            return Ok(secret.context(what)?.to_be_bytes());
        }
        let mut secret = [0; 16];
        getrandom::fill(&mut secret).map_err(|error| anyhow!("no random numbers: {error}"))?;
        let text = Bytes::from(format!("{:032x}", u128::from_be_bytes(secret)));
        if let Proposal::Taken(_) = bus.found(SECRET, text).await? {
            return Ok(secret);
        }
    }
}

/// Whether all nodes read records of events that are posted once, as far as they have said.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// Whoever asks has it: all others wait for the answer.
    said: Mutex<Option<(Instant, bool)>>,
}

impl Reading {
    /// Whether all `members` do. It is asked now and then, and only by those who use keys.
    pub(super) async fn all_read_keys(&self, bus: &Bus, members: usize) -> bool {
        let mut said = self.said.lock().await;
        if let Some((at, all)) = *said
            && at.elapsed() < ASK_EVERY
        {
            return all;
        }
        let reports = questions::nodes(bus, members).await.unwrap_or_default();
        let before = said.is_some_and(|(_, all)| all);
        // Who is slow to answer does what it did before; who knows no members knows nothing.
        let all = reports.iter().all(|report| report.reads_format >= FORMAT_MAX)
            && (before || reports.len() >= members.max(1));
        *said = Some((Instant::now(), all));
        all
    }
}
