//! Idempotency keys over all nodes: by which secret they are hashed, and what all nodes read.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use bytes::Bytes;
use cluster::FORMAT_MAX;
use cluster::limits::LEASE_MS;
use nats::{NatsClient, Proposal};
use sys::clock;
use tokio::sync::{Mutex, watch};
use tokio::time::sleep;

use super::agreement::{AGREE_PAUSE, AGREE_TIMEOUT};
use super::{NodeReport, NodeStatus, questions};

/// The value in NATS. Whoever may read it there may read all events, too; it keeps senders from
/// making keys that collide with those of others.
const SECRET: &str = "idempotency";

/// How long what all nodes read is taken for so: one of an earlier version may join meanwhile.
const ASK_EVERY: Duration = Duration::from_secs(5);

/// Reads the secret, or makes it where there is none.
pub(super) async fn secret(nats: &NatsClient) -> Result<[u8; 16]> {
    let deadline = Instant::now() + AGREE_TIMEOUT;
    loop {
        let there = match nats.value(SECRET).await {
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
        if let Proposal::Taken(_) = nats.found(SECRET, text).await? {
            return Ok(secret);
        }
    }
}

/// Which formats of records all nodes read, as far as they have said.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// When they were asked last, and the latest of these, if it is known. Whoever asks has it: all
    /// others wait for the answer.
    said: Mutex<Option<(Instant, Option<u8>)>>,
}

impl Reading {
    /// The latest format that all members read; `None` where some have not said it. It is asked
    /// now and then, and only by those who send what earlier versions do not know.
    pub(super) async fn format(
        &self,
        nats: &NatsClient,
        status: &watch::Receiver<NodeStatus>,
    ) -> Option<u8> {
        let mut said = self.said.lock().await;
        if let Some((at, format)) = *said
            && at.elapsed() < ASK_EVERY
        {
            return format;
        }
        // Some may have come or gone while others asked.
        let (status, now_ms) = (status.borrow().clone(), clock::monotonic_ms());
        let (certain, before) = (status.certain_members(now_ms), said.and_then(|(_, said)| said));
        // One that has left of late may be on its way back, and has to read the format, too.
        let is_quiet = now_ms >= status.node.left_ms + LEASE_MS;
        let asked = certain.filter(|_| is_quiet).unwrap_or(usize::MAX);
        let reports = questions::nodes(nats, asked).await.unwrap_or_default();
        // Who is on its way back may be silent: what was known before holds until it is there.
        let members = match (certain, before) {
            (None, Some(_)) => 0,
            _ => status.node.members,
        };
        let format = common(&reports, members, before);
        *said = Some((Instant::now(), format));
        format
    }
}

/// The latest format that all `members` read, by what nodes report; who has not said is taken to
/// read what it did `before`. None of those that are no members stands for one that is. But it may
/// be a member again, so it has to read the format, too.
fn common(reports: &[NodeReport], members: usize, before: Option<u8>) -> Option<u8> {
    let least = reports.iter().map(|report| report.reads_format).min().unwrap_or(FORMAT_MAX);
    let said = reports.iter().filter(|report| report.member).count();
    // Who knows no members knows nothing, whoever answers.
    let all = (members > 0 && said >= members).then_some(FORMAT_MAX);
    all.or(before).map(|format| format.min(least))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(member: bool, reads_format: u8) -> NodeReport {
        NodeReport {
            node: String::new(),
            address: String::new(),
            version: String::new(),
            member,
            ending: false,
            epoch: 1,
            members: 2,
            applied: 0,
            lag_records: 0,
            streams: 0,
            ids_online: 0,
            events: 0,
            at_least: 0,
            gaps: 0,
            reads_format,
        }
    }

    #[test]
    fn node_that_is_no_member_says_nothing_for_one_that_is() {
        const OLD: u8 = FORMAT_MAX - 1;
        let (here, away) = (report(true, FORMAT_MAX), report(false, FORMAT_MAX));
        let (old, old_away) = (report(true, OLD), report(false, OLD));
        let both = [here.clone(), away.clone()];
        assert_eq!(common(&both, 2, None), None, "a member has not said it");
        assert_eq!(common(&both, 2, Some(OLD)), Some(OLD));
        assert_eq!(common(&both, 1, None), Some(FORMAT_MAX));
        assert_eq!(common(&[here.clone(), away, old], 2, None), Some(OLD));
        // One that was declared gone may be a member again.
        assert_eq!(common(&[here.clone(), here.clone(), old_away], 2, None), Some(OLD));
        let alone = std::slice::from_ref(&here);
        assert_eq!(common(alone, 0, None), None, "who knows no members knows nothing");
        assert_eq!(common(alone, 0, Some(OLD)), Some(OLD));
        assert_eq!(common(&[here.clone(), here], 2, None), Some(FORMAT_MAX));
        assert_eq!(common(&[], 0, None), None);
    }
}
