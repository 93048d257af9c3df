//! Tokens that are revoked on one node, and so on all.
//!
//! A revocation is first kept among the cluster's values in NATS, which nodes read before they let
//! anybody in. Then it goes through the log, by which those at work obey it. That is in the log's
//! order, so no stream of such a token hears anything that stands behind it. The caller is answered
//! when all members have obeyed, or when those who have not can let nobody in any more. A node lets
//! clients in for so long ([`LEASE_MS`]) after it has last proved that it had read all of the log.
//!
//! The values are 256, each a list of those whose name has its hash. Each is at most 256 KiB, which
//! are some 1,000 to 4,000 revocations. Whoever writes one lets go of what is over. A node that
//! reads them writes back what it knows and they do not. So what NATS has lost comes back, and so
//! does what a server had revoked before it was one of many.

use std::collections::HashMap;
use std::pin::pin;
use std::time::Duration;

use auth::token_service::TokenService;
use auth::tokens::{RevocationLine as Line, RevokedError};
use cluster::limits::LEASE_MS;
use futures_util::{StreamExt, stream};
use nats::{Bytes, LogError, NatsClient, NotSwapped, Proposal, VALUE_BYTES_MAX};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use sys::clock;
use tokio::time::sleep;

use crate::outcome::LogTrouble;

/// Values that hold them. 100,000 of usual length, 60 bytes, are 24 KB in each.
const VALUES: usize = 256;

/// Values that are read side by side.
const READS: usize = 16;

/// How often a value is written again where others write it as well.
const TRIES: usize = 32;

/// Before values that could not be read are read again.
const PAUSE: Duration = Duration::from_millis(250);

/// By how much a lease is outlived: clocks of two machines do not run alike to the millisecond.
const MARGIN: Duration = Duration::from_millis(250);

/// Which form a value has.
const FORMAT: &str = "encke-revoked-1";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RevokedValue<'a> {
    format: String,
    lines: Vec<Line<'a>>,
}

/// Why tokens are not revoked, or not on all nodes.
#[derive(Debug, thiserror::Error)]
pub enum RevokeTrouble {
    /// There is no such thing to be revoked, or no room for it.
    #[error(transparent)]
    Refused(#[from] RevokedError),
    /// It could not be kept, and may count all the same.
    #[error("{0}")]
    NotKept(#[from] NotSwapped),
    /// It is kept, and not all nodes obey it.
    #[error(transparent)]
    NotTold(#[from] LogTrouble),
}

/// The key of the value that `line` belongs into.
fn value_of(line: &Line<'_>) -> usize {
    let (is_token, text) = line.key();
    let hash = Sha256::new().chain_update([u8::from(is_token)]).chain_update(text).finalize();
    usize::from(hash[0])
}

fn key(value: usize) -> String {
    format!("revoked.{value:02x}")
}

/// What stands in a value. One that cannot be read may revoke anything.
fn read(bytes: &[u8]) -> Result<Vec<Line<'static>>, LogError> {
    let value = serde_json::from_slice(bytes).ok();
    let value = value.filter(|value: &RevokedValue<'static>| {
        value.format == FORMAT && value.lines.iter().all(Line::is_sound)
    });
    value.map(|value| value.lines).ok_or_else(|| LogError::Refused {
        err_code: 0,
        description: "a list of revoked tokens cannot be read: is it of a newer Encke?".to_owned(),
    })
}

/// Puts `lines`, which belong into the value of that number, beside those that are there and not
/// over at `now`.
async fn keep(
    nats: &NatsClient,
    value: usize,
    lines: &[Line<'_>],
    now: u64,
) -> Result<(), RevokeTrouble> {
    let key = key(value);
    let not = |error: LogError| NotSwapped { error, may_count: false };
    for _ in 0..TRIES {
        let there = nats.value(&key).await.map_err(not)?;
        let revision = there.as_ref().map_or(0, |entry| entry.revision);
        let old = there.map_or(Ok(Vec::new()), |entry| read(&entry.value)).map_err(not)?;
        let mut new: Vec<Line<'_>> = old.clone();
        for line in lines {
            match new.iter_mut().find(|other| other.key() == line.key()) {
                Some(other) => other.join(line),
                None => new.push(line.clone()),
            }
        }
        if new == old {
            return Ok(());
        }
        new.retain(|line| line.until() > now);
        let bytes = serde_json::to_vec(&RevokedValue { format: FORMAT.to_owned(), lines: new });
        let bytes = Bytes::from(bytes.expect("plain values"));
        if bytes.len() > VALUE_BYTES_MAX {
            return Err(RevokedError::Full.into());
        }
        if let Proposal::Taken(_) = nats.swap(&key, revision, bytes).await? {
            return Ok(());
        }
    }
    Err(not(LogError::Unavailable(format!("others write {key} all the while"))).into())
}

/// Learns all that is revoked in the cluster, and writes there what it does not know. Tries until
/// it is done.
pub(super) async fn learn(nats: NatsClient, tokens: TokenService) {
    let mut told = false;
    while let Err(error) = try_to_learn(&nats, &tokens).await {
        if !told {
            tracing::error!("this node lets nobody in with a token: {error}");
            told = true;
        }
        sleep(PAUSE).await;
    }
}

async fn try_to_learn(nats: &NatsClient, tokens: &TokenService) -> Result<(), LogError> {
    let read_value = async |value| (value, nats.value(&key(value)).await);
    let mut reads = pin!(stream::iter(0..VALUES).map(read_value).buffer_unordered(READS));
    let mut all = vec![Vec::new(); VALUES];
    while let Some((value, entry)) = reads.next().await {
        if let Some(entry) = entry? {
            all[value] = read(&entry.value)?;
        }
    }
    let now = over_at(tokens);
    let mut missing = vec![Vec::new(); VALUES];
    let there: HashMap<_, _> = all.iter().flatten().map(|line| (line.key(), line)).collect();
    for line in tokens.revocations().lines() {
        let is_there = there.get(&line.key()).is_some_and(|other| other.covers(&line));
        if !is_there && line.until() > now {
            missing[value_of(&line)].push(line);
        }
    }
    for line in tokens.learn(all.concat()) {
        while !tokens.end_streams(&line) {
            sleep(PAUSE).await;
        }
    }
    for (value, lines) in missing.into_iter().enumerate().filter(|(_, lines)| !lines.is_empty()) {
        match keep(nats, value, &lines, now).await {
            Err(RevokeTrouble::NotKept(not)) => return Err(not.error),
            // It holds here.
            Err(error) => tracing::warn!("not all nodes know what is revoked here: {error}"),
            Ok(()) => {}
        }
    }
    Ok(())
}

/// Keeps a revocation for those that begin later.
pub(super) async fn remember(
    nats: &NatsClient,
    tokens: &TokenService,
    line: &Line<'_>,
) -> Result<(), RevokeTrouble> {
    keep(nats, value_of(line), std::slice::from_ref(line), over_at(tokens)).await
}

/// What ends before this time may be forgotten by all nodes. A clock that jumps forward for a
/// moment does not count.
fn over_at(tokens: &TokenService) -> u64 {
    tokens.revocations().forgets_at(clock::unix_ms() / 1000)
}

/// A line for the log.
pub(super) fn to_log(line: &Line<'_>) -> String {
    serde_json::to_string(line).expect("plain values")
}

/// A line of the log.
pub(super) fn of_log(text: &str) -> Option<Line<'static>> {
    serde_json::from_str(text).ok().filter(Line::is_sound)
}

/// Waits until nobody who was no member at `since_ms` of the monotonic clock, or has not obeyed
/// what was read then, can let anybody in.
pub(super) async fn outlive_leases(since_ms: u64) {
    let over_ms = since_ms + LEASE_MS;
    let left_ms = over_ms.saturating_sub(clock::monotonic_ms());
    if left_ms > 0 {
        sleep(Duration::from_millis(left_ms) + MARGIN).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    /// docs/cluster.md: up to twelve seconds, by a clock that stands while nothing else is done.
    #[tokio::test(start_paused = true)]
    async fn leases_are_outlived_within_twelve_seconds_and_those_that_are_over_at_once() {
        let twelve = Duration::from_secs(12);
        let begun = tokio::time::Instant::now();
        let waited = timeout(twelve, outlive_leases(clock::monotonic_ms())).await;
        waited.expect("nobody waits for longer");
        assert!(begun.elapsed() >= MARGIN, "somebody may have let clients in a moment ago");
        let since_ms = clock::monotonic_ms().saturating_sub(LEASE_MS);
        let waited = timeout(Duration::ZERO, outlive_leases(since_ms)).await;
        waited.expect("all leases are over");
    }
}
