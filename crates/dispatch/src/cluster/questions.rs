//! What nodes ask each other and nobody stores: how many connections an id has, how each node is.
//!
//! Each node answers each question, its own too. Who does not answer in time is left out, and that
//! is told.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use engine::Router;
use hub::IdText;
use nats::{CoreMessage, NatsClient};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::status::{Load, Membership, NodeStatus};

/// How often nodes are asked where it counts that none is missing: for two seconds.
const ASKS: usize = 8;

/// How long the others may take to answer.
const WAIT: Duration = Duration::from_millis(250);

/// How long they may take where the answer must not be missed: a machine may stand still for some
/// seconds.
const PATIENT_WAIT: Duration = Duration::from_secs(5);

/// Questions that wait; further ones have no answer.
const WAITING_MAX: usize = 4096;

const CONNECTIONS: &str = "connections";
const NODES: &str = "nodes";

/// What a node says of itself.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeReport {
    /// What it is called, and where it serves.
    pub node: String,
    /// The address of its API.
    pub address: String,
    /// The version of Encke that it runs.
    pub version: String,
    /// It is a member of the cluster, as it sees it.
    pub member: bool,
    /// Its clients are sent to the others, and it ends.
    #[serde(default)]
    pub ending: bool,
    /// The epoch that it is in.
    pub epoch: u64,
    /// How many nodes there are, as it sees it.
    pub members: usize,
    /// The last record of the log that it has wholly posted.
    pub applied: u64,
    /// Records of the log that it has not read yet.
    #[serde(default)]
    pub lag_records: u64,
    /// Connections at its workers, and the ids that are online there.
    pub streams: u64,
    /// Ids under which somebody is logged in there.
    pub ids_online: usize,
    /// Events that were sent at this node and are in the log, and those of them whose count may be
    /// too low.
    #[serde(default)]
    pub events: u64,
    /// Those whose count may be too low.
    pub at_least: u64,
    /// How often all of its streams were told of a gap.
    pub gaps: u64,
    /// The latest format of the log's records that it reads.
    #[serde(default)]
    pub reads_format: u8,
}

/// What answers are made of.
pub(super) struct AnswerParts {
    pub(super) node: String,
    pub(super) address: String,
    pub(super) nats: NatsClient,
    pub(super) router: Arc<Router>,
    pub(super) status: watch::Receiver<NodeStatus>,
    pub(super) load: Arc<Load>,
}

impl AnswerParts {
    /// Who has not joined is nobody: its answer would stand in the place of a member's. One that
    /// the others have declared gone says how it is, and is not counted.
    fn to(&self, question: &CoreMessage) -> Option<Bytes> {
        let membership = self.status.borrow().membership;
        if question.subject != CONNECTIONS {
            if matches!(membership, Membership::Joining | Membership::Gone) {
                // Who asks for its name alone would wait for it.
                return (question.subject != NODES).then(Bytes::new);
            }
            return Some(serde_json::to_vec(&self.report()).expect("plain values").into());
        }
        if membership != Membership::Member {
            return None;
        }
        let id = IdText::of_key(str::from_utf8(&question.bytes).ok()?).ok()?;
        Some((self.router.connections(id) as u64).to_be_bytes().to_vec().into())
    }

    /// What this node says of itself.
    pub(super) fn report(&self) -> NodeReport {
        let NodeStatus { membership, epoch, node, outcomes, gaps, .. } =
            self.status.borrow().clone();
        NodeReport {
            node: self.node.clone(),
            address: self.address.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            member: membership == Membership::Member,
            ending: self.load.ending.load(Ordering::Relaxed),
            epoch,
            members: node.members,
            applied: node.applied,
            lag_records: self.nats.counts().pending,
            streams: self.load.streams.load(Ordering::Relaxed),
            ids_online: self.router.ids_online(),
            events: outcomes.counted + outcomes.at_least,
            at_least: outcomes.at_least,
            gaps,
            reads_format: cluster::FORMAT_MAX,
        }
    }
}

/// Answers for as long as the runtime lives.
pub(super) async fn answer(answers: AnswerParts) {
    let nats = &answers.nats;
    loop {
        let subscribed = (
            nats.subscribe_core(CONNECTIONS, WAITING_MAX).await,
            nats.subscribe_core(NODES, WAITING_MAX).await,
            nats.subscribe_core(&subject_of(&answers.node), WAITING_MAX).await,
        );
        let (Ok(mut connections), Ok(mut nodes), Ok(mut named)) = subscribed else {
            tokio::time::sleep(nats::ACK_TIMEOUT).await;
            continue;
        };
        loop {
            let question = tokio::select! {
                question = connections.next() => question,
                question = nodes.next() => question,
                question = named.next() => question,
            };
            let Some(question) = question else { return };
            if let Some(bytes) = answers.to(&question) {
                // Who asks does without it, and says so.
                let _ = nats.answer(&question, bytes).await;
            }
        }
    }
}

/// How many connections the nodes have under `id`, and how many nodes have answered.
pub(super) async fn connections(
    nats: &NatsClient,
    id: &str,
    members: usize,
) -> Option<(u64, usize)> {
    let question = Bytes::copy_from_slice(id.as_bytes());
    let answers =
        nats.ask(CONNECTIONS, question, WAIT, after(members.max(1), |_| true)).await.ok()?;
    let numbers =
        answers.iter().filter_map(|bytes| Some(u64::from_be_bytes((**bytes).try_into().ok()?)));
    let numbers: Vec<u64> = numbers.collect();
    // Whoever is in NATS may answer, anything.
    Some((numbers.iter().fold(0, |sum, number| sum.saturating_add(*number)), numbers.len()))
}

/// How many of the others go on when `own` ends: those do not that say that they end, too. Who is
/// silent is asked again: it may only be busy, and clients would be sent to one that ends. Where it
/// is not certain how many `members` there are, those are there who answer.
pub(super) async fn others_that_go_on(
    nats: &NatsClient,
    own: &str,
    members: Option<usize>,
) -> usize {
    let others = members.map(|members| members.saturating_sub(1));
    let (mut heard, mut ending) = (0, 0);
    for _ in 0..ASKS {
        let reports = nodes(nats, members.unwrap_or(usize::MAX)).await.unwrap_or_default();
        let others_of = || reports.iter().filter(|report| report.member && report.node != own);
        heard = others_of().count().max(heard);
        ending = others_of().filter(|report| report.ending).count().max(ending);
        if others.is_some_and(|others| others_of().count() >= others) {
            break;
        }
    }
    others.unwrap_or(heard).saturating_sub(ending)
}

/// What the nodes say of themselves, by name, as soon as so many members have said it.
pub(super) async fn nodes(nats: &NatsClient, members: usize) -> Option<Vec<NodeReport>> {
    let is_member = |bytes: &Bytes| report(bytes).is_some_and(|report| report.member);
    let answers =
        nats.ask(NODES, Bytes::new(), WAIT, after(members.max(1), is_member)).await.ok()?;
    let mut reports: Vec<NodeReport> = answers.iter().filter_map(report).collect();
    reports.sort_by(|one, other| one.node.cmp(&other.node));
    Some(reports)
}

/// The node called `name`, if it is there. It is waited for patiently where NATS knows somebody who
/// takes questions to that name; where it knows nobody, that is known at once.
pub(super) async fn node_called(nats: &NatsClient, name: &str) -> Option<NodeReport> {
    let asked = nats.ask(&subject_of(name), Bytes::new(), PATIENT_WAIT, |_| true).await;
    if let Some(found) = asked.unwrap_or_default().iter().find_map(report) {
        return Some(found);
    }
    // One of an earlier version has no such subject.
    let all = nodes(nats, usize::MAX).await.unwrap_or_default();
    all.into_iter().find(|other| other.node == name)
}

/// Under which subject the node called `name` alone is asked. A dot would part it.
fn subject_of(name: &str) -> String {
    format!("node.{}", name.replace('.', "~"))
}

fn report(bytes: &Bytes) -> Option<NodeReport> {
    serde_json::from_slice(bytes).ok()
}

/// True from the answer on with which `enough` have come that `counts` is true of.
fn after(enough: usize, counts: impl Fn(&Bytes) -> bool) -> impl FnMut(&Bytes) -> bool {
    let mut counted = 0;
    move |answer| {
        counted += usize::from(counts(answer));
        counted >= enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_different_names_have_different_subjects_of_one_part() {
        let names = ["a.b", "a-b", "a_b", "ab", ".", "..", "a.", ".a"];
        let subjects: Vec<String> = names.into_iter().map(subject_of).collect();
        for (n, subject) in subjects.iter().enumerate() {
            assert!(!subjects[..n].contains(subject));
            let part = subject.strip_prefix("node.").unwrap();
            assert!(!part.is_empty() && !part.contains(['.', '*', '>', ' ']), "{subject}");
        }
    }
}
