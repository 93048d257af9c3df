//! Nodes tell each other which changes of channels the webhooks of an app have taken, and ask those
//! who know what was not taken yet ([`crate::pusher_hooks`]). What is lost of it costs doubles, and
//! is said again.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use nats::{CoreMessage, Subscription};
use serde::{Deserialize, Serialize};

use super::Cluster;

/// What is told under, and asked.
const TAKEN: &str = "hooks-taken";
const KEPT: &str = "hooks-kept";
const ENDED: &str = "hooks-ended";

/// Messages that wait for their reader; further ones are lost.
const WAITING_MAX: usize = 256;

/// How long others may take to answer.
const WAIT: Duration = Duration::from_millis(500);

/// Bytes of subjects in one message of an answer.
const MESSAGE_BYTES: usize = 128 << 10;

/// Bytes of a node's answer that is taken: all changes that a node keeps, of names of usual length.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Nodes whose answers are taken at a time. The first whole one is enough.
const ANSWERS_MAX: usize = 4;

/// The node that reports says this.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct HooksTaken {
    /// The epoch of the log, and what the node is there.
    pub(crate) epoch: u64,
    pub(crate) by: u64,
    /// Of each app the record up to which all was taken.
    pub(crate) apps: Vec<(Box<str>, u64)>,
}

/// The node that has reported an app tells nothing more of it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct HooksEnded {
    pub(crate) epoch: u64,
    pub(crate) by: u64,
    pub(crate) app: Box<str>,
    /// All up to this record was told and taken, but these changes.
    pub(crate) at: u64,
    #[serde(rename = "untold")]
    pub(crate) pending: Vec<KeptChange>,
}

/// What of an app was not taken up to a record of the log?
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct HooksAsked {
    pub(crate) epoch: u64,
    pub(crate) app: Box<str>,
    pub(crate) at: u64,
}

/// A change that was not taken.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptChange {
    pub(crate) sequence: u64,
    pub(crate) age_ms: u64,
    pub(crate) subject: Box<str>,
    pub(crate) is_there: bool,
}

/// One of the messages of an answer.
#[derive(Serialize, Deserialize)]
struct KeptPart {
    node: String,
    at: usize,
    parts: usize,
    changes: Vec<KeptChange>,
}

/// What others have said to a question.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HooksKept {
    /// These changes were not taken.
    Changes(Vec<KeptChange>),
    /// Somebody knows it, but the answer is too long, or was not there in time; or the question
    /// could not be sent.
    Unfinished,
    /// Nobody knows it.
    Unknown,
}

/// What the other nodes tell and ask.
pub(crate) struct HookMessages {
    taken: Subscription,
    ended: Subscription,
    questions: Subscription,
}

/// A question of another node.
pub(crate) struct HooksQuestion {
    pub(crate) asked: HooksAsked,
    message: CoreMessage,
}

impl HookMessages {
    /// What has been told and was not read yet. Whoever is in NATS may tell, anything.
    pub(crate) fn next_taken(&mut self) -> Option<HooksTaken> {
        loop {
            let message = self.taken.next().now_or_never()??;
            if let Ok(taken) = serde_json::from_slice(&message.bytes) {
                return Some(taken);
            }
        }
    }

    /// What was told of nodes that tell nothing more.
    pub(crate) fn next_ended(&mut self) -> Option<HooksEnded> {
        loop {
            let message = self.ended.next().now_or_never()??;
            if let Ok(ended) = serde_json::from_slice(&message.bytes) {
                return Some(ended);
            }
        }
    }

    /// The next question that waits for an answer.
    pub(crate) fn next_question(&mut self) -> Option<HooksQuestion> {
        loop {
            let message = self.questions.next().now_or_never()??;
            if let Ok(asked) = serde_json::from_slice(&message.bytes) {
                return Some(HooksQuestion { asked, message });
            }
        }
    }
}

/// The answers as they come, of whichever nodes.
#[derive(Default)]
struct KeptAnswers {
    /// What each node has said.
    nodes: HashMap<String, NodeAnswer>,
    whole: Option<Vec<KeptChange>>,
}

#[derive(Default)]
struct NodeAnswer {
    parts: Vec<KeptPart>,
    bytes: usize,
}

impl KeptAnswers {
    /// Takes a message. Whether an answer is whole.
    fn take(&mut self, bytes: &[u8]) -> bool {
        let Ok(part) = serde_json::from_slice::<KeptPart>(bytes) else { return false };
        if self.nodes.len() >= ANSWERS_MAX && !self.nodes.contains_key(&part.node) {
            return false;
        }
        let heard = self.nodes.entry(part.node.clone()).or_default();
        heard.bytes += bytes.len();
        if heard.bytes > ANSWER_BYTES_MAX {
            heard.parts = Vec::new();
            return false;
        }
        let parts = part.parts;
        heard.parts.push(part);
        if heard.parts.len() == parts {
            let mut all = std::mem::take(&mut heard.parts);
            all.sort_by_key(|part| part.at);
            self.whole = Some(all.into_iter().flat_map(|part| part.changes).collect());
        }
        self.whole.is_some()
    }

    /// What was heard, when no more is.
    fn end(self) -> HooksKept {
        match self.whole {
            Some(changes) => HooksKept::Changes(changes),
            None if self.nodes.is_empty() => HooksKept::Unknown,
            None => HooksKept::Unfinished,
        }
    }
}

fn parts(node: &str, changes: Vec<KeptChange>) -> Vec<KeptPart> {
    let (mut groups, mut bytes) = (vec![Vec::new()], 0);
    for change in changes {
        if bytes > MESSAGE_BYTES {
            groups.push(Vec::new());
            bytes = 0;
        }
        bytes += change.subject.len() + 96;
        groups.last_mut().expect("there is one").push(change);
    }
    let parts = groups.len();
    let part = |(at, changes)| KeptPart { node: node.to_owned(), at, parts, changes };
    groups.into_iter().enumerate().map(part).collect()
}

fn bytes_of(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).expect("plain values").into()
}

impl Cluster {
    /// Begins to hear what the other nodes tell and ask; `None` without NATS.
    pub(crate) async fn hook_messages(&self) -> Option<HookMessages> {
        let nats = &self.standing.nats;
        let taken = nats.subscribe_core(TAKEN, WAITING_MAX).await.ok()?;
        let ended = nats.subscribe_core(ENDED, WAITING_MAX).await.ok()?;
        let questions = nats.subscribe_core(KEPT, WAITING_MAX).await.ok()?;
        Some(HookMessages { taken, ended, questions })
    }

    /// Tells the others what was taken. Whether it could be told.
    pub(crate) async fn tell_hooks_taken(&self, taken: &HooksTaken) -> bool {
        self.standing.nats.publish_core(TAKEN, bytes_of(taken)).await.is_ok()
    }

    /// Tells the others that this node tells nothing more of an app. What is too long for a message
    /// is not told: it costs doubles.
    pub(crate) async fn tell_hooks_ended(&self, ended: &HooksEnded) {
        let bytes = bytes_of(ended);
        if bytes.len() <= MESSAGE_BYTES {
            // Nor is what finds no connection.
            let _ = self.standing.nats.publish_core(ENDED, bytes).await;
        }
    }

    /// What was not taken, if somebody knows it.
    pub(crate) async fn ask_hooks_kept(&self, asked: &HooksAsked) -> HooksKept {
        let mut heard = KeptAnswers::default();
        let hear = |bytes: Bytes| heard.take(&bytes);
        match self.standing.nats.ask_each(KEPT, bytes_of(asked), WAIT, hear).await {
            Ok(()) => heard.end(),
            Err(_) => HooksKept::Unfinished,
        }
    }

    /// Answers a question.
    pub(crate) async fn answer_hooks_kept(&self, to: &HooksQuestion, changes: Vec<KeptChange>) {
        for part in parts(self.node(), changes) {
            // Whoever asks does without it, and asks again.
            if self.standing.nats.answer(&to.message, bytes_of(&part)).await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(sequence: u64) -> KeptChange {
        KeptChange {
            sequence,
            age_ms: 1,
            subject: format!("{sequence:a>200}").into(),
            is_there: true,
        }
    }

    #[test]
    fn answer_of_any_length_is_whole_with_the_last_message_of_one_node() {
        let all = parts("n1", (0..2_000).map(change).collect());
        assert!(all.len() > 2, "{}", all.len());
        let mut heard = KeptAnswers::default();
        // Messages of another node come in between, and make nothing whole.
        let other = parts("n2", (0..2_000).map(change).collect());
        for (part, other) in all.iter().rev().zip(&other[1..]) {
            assert!(heard.whole.is_none() && !heard.take(b"{}"));
            assert!(bytes_of(part).len() < 1 << 20);
            heard.take(&bytes_of(other));
            heard.take(&bytes_of(part));
        }
        assert!(heard.take(&bytes_of(&all[0])));
        assert_eq!(heard.whole.unwrap(), (0..2_000).map(change).collect::<Vec<_>>());
        let mut nothing = KeptAnswers::default();
        assert!(nothing.take(&bytes_of(&parts("n1", Vec::new())[0])), "that is an answer");
        assert_eq!(nothing.whole, Some(Vec::new()));
    }
    /// `count` changes that take a message each.
    fn long(node: &str, count: u64) -> Vec<Bytes> {
        let long = |at| {
            let subject = "a".repeat(MESSAGE_BYTES + 1).into();
            KeptChange { subject, ..change(at) }
        };
        parts(node, (0..count).map(long).collect()).iter().map(bytes_of).collect()
    }

    #[test]
    fn answers_of_several_nodes_at_once_are_as_long_each_as_one_alone() {
        let nodes = ["n1", "n2", "n3"].map(|node| long(node, 50));
        let bytes: usize = nodes.iter().flatten().map(Bytes::len).sum();
        assert!(bytes > ANSWER_BYTES_MAX + 3 * MESSAGE_BYTES, "{bytes}");
        let mut heard = KeptAnswers::default();
        let mut messages = (0..50).flat_map(|at| nodes.iter().map(move |all| &all[at]));
        assert!(messages.any(|message| heard.take(message)));
        let HooksKept::Changes(changes) = heard.end() else { panic!("none is whole") };
        assert_eq!(changes.len(), 50);
    }

    #[test]
    fn answer_that_is_too_long_is_unfinished_and_keeps_no_other_one_away() {
        let mut heard = KeptAnswers::default();
        assert!(long("n1", 130).iter().all(|message| !heard.take(message)));
        assert!(heard.nodes["n1"].parts.is_empty(), "it takes no memory");
        assert!(heard.take(&bytes_of(&parts("n2", Vec::new())[0])));
        assert_eq!(heard.end(), HooksKept::Changes(Vec::new()));
        let mut heard = KeptAnswers::default();
        assert!(!heard.take(&long("n1", 2)[0]));
        assert_eq!(heard.end(), HooksKept::Unfinished);
        assert_eq!(KeptAnswers::default().end(), HooksKept::Unknown);
    }

    #[test]
    fn messages_of_ever_further_nodes_take_no_memory() {
        let mut heard = KeptAnswers::default();
        for node in 0..100 {
            assert!(!heard.take(&bytes_of(&KeptPart {
                node: node.to_string(),
                at: 0,
                parts: 2,
                changes: Vec::new(),
            })));
        }
        assert_eq!(heard.nodes.len(), ANSWERS_MAX);
    }
}
