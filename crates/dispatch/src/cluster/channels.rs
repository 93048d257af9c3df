//! Who hears channels, over all nodes. Each node is asked, and answers with what it has, in as many
//! messages as it takes.
//!
//! A node walks over its names for one question at a time, whoever asks, and looks up channels that
//! are named meanwhile. What one answer may take is bounded: the connection to NATS carries the log
//! as well.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nats::{CoreMessage, NatsClient};
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout_at};

use super::status::{Membership, NodeStatus};
use crate::channels::{ChannelPiece, ChannelReader, ChannelsAsked, ChannelsFound, WhichChannels};

/// What is asked under.
const CHANNELS: &str = "channels";

/// How long the others may take to answer, of channels that are named, and where they are looked
/// for.
const WAIT: Duration = Duration::from_millis(250);
const WALK_WAIT: Duration = Duration::from_secs(2);

/// Questions that wait; further ones have no answer.
const WAITING_MAX: usize = 256;

/// Bytes of one message after which another one begins. With the longest piece, and if all of its
/// characters are escaped, it is half of what NATS takes by default.
const MESSAGE_BYTES: usize = 128 << 10;

/// Bytes of all answers to one question: half of what may wait for a node in NATS before that cuts
/// it off. A node asks one question at a time whose answers are that long.
const ANSWERS_BYTES_MAX: usize = 32 << 20;

/// Bytes of one node's. Some 50,000 channels.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Walks that wait for their turn or go on; further ones have no answer.
const WALKS_MAX: usize = 16;

/// One of the messages of a node's answer.
#[derive(Serialize, Deserialize)]
struct Part {
    node: String,
    /// How many there are of that node.
    parts: usize,
    pieces: Vec<ChannelPiece>,
    /// There is more than an answer may have.
    #[serde(default)]
    is_cut: bool,
}

/// Puts the answer of one of so many nodes into messages: one at least.
fn parts((node, members): (&str, usize), pieces: Vec<ChannelPiece>) -> Vec<Part> {
    let most = ANSWER_BYTES_MAX.min(ANSWERS_BYTES_MAX / members.max(1));
    let mut groups = vec![Vec::new()];
    let (mut bytes, mut before, mut is_cut) = (0, 0, false);
    for piece in pieces {
        if bytes > MESSAGE_BYTES {
            groups.push(Vec::new());
            before += std::mem::take(&mut bytes);
        }
        bytes += piece.bytes();
        if before + bytes > most {
            is_cut = true;
            break;
        }
        groups.last_mut().expect("there is one").push(piece);
    }
    let parts = groups.len();
    let part = |pieces| Part { node: node.to_owned(), parts, pieces, is_cut };
    groups.into_iter().map(part).collect()
}

/// What has come so far.
#[derive(Default)]
struct CollectedAnswers {
    found: ChannelsFound,
    /// Messages that have come of each node whose answer is not whole.
    partly: HashMap<String, usize>,
    whole: usize,
}

impl CollectedAnswers {
    /// Takes a message. Whoever is in NATS may answer, anything.
    fn take(&mut self, bytes: &[u8]) {
        let Ok(part) = serde_json::from_slice(bytes) else { return };
        let Part { node, parts, pieces, is_cut } = part;
        self.found.at_least |= is_cut;
        pieces.into_iter().for_each(|piece| self.found.add(piece));
        let heard = self.partly.entry(node).or_default();
        *heard += 1;
        self.whole += usize::from(*heard == parts);
    }
}

/// How long an asker waits.
fn wait(asked: &ChannelsAsked) -> Duration {
    match asked.which {
        WhichChannels::Named { .. } => WALK_WAIT,
        WhichChannels::Keys(_) | WhichChannels::App(_) => WAIT,
    }
}

/// Asks all nodes, of which `members` have to answer; `None` where none has answered.
pub(super) async fn ask(
    nats: &NatsClient,
    asked: &ChannelsAsked,
    members: usize,
) -> Option<ChannelsFound> {
    let question = serde_json::to_vec(asked).expect("plain values").into();
    let wait = wait(asked);
    let mut heard = CollectedAnswers::default();
    let take = |bytes: Bytes| {
        heard.take(&bytes);
        heard.whole >= members.max(1)
    };
    nats.ask_each(CHANNELS, question, wait, take).await.ok()?;
    let CollectedAnswers { mut found, partly, whole } = heard;
    found.at_least |= whole < members.max(1);
    (!partly.is_empty()).then_some(found)
}

/// What a node answers with.
pub(super) struct ChannelAnswers {
    pub(super) node: String,
    pub(super) nats: NatsClient,
    pub(super) status: watch::Receiver<NodeStatus>,
    pub(super) reader: ChannelReader,
}

/// Answers for as long as the runtime lives.
pub(super) async fn answer(answers: ChannelAnswers) {
    let (answers, walks) = (Arc::new(answers), Arc::new(Semaphore::new(WALKS_MAX)));
    loop {
        let Ok(mut questions) = answers.nats.subscribe_core(CHANNELS, WAITING_MAX).await else {
            tokio::time::sleep(nats::ACK_TIMEOUT).await;
            continue;
        };
        while let Some(question) = questions.next().await {
            let Ok(asked) = serde_json::from_slice::<ChannelsAsked>(&question.bytes) else {
                continue;
            };
            let taken = Instant::now();
            if !matches!(asked.which, WhichChannels::Named { .. }) {
                answers.to(&question, asked, taken).await;
            } else if let Ok(permit) = Arc::clone(&walks).try_acquire_owned() {
                let answers = Arc::clone(&answers);
                tokio::spawn(async move {
                    let _permit = permit;
                    answers.to(&question, asked, taken).await;
                });
            }
        }
        return;
    }
}

impl ChannelAnswers {
    /// Answers a question that was `taken` in then, for as long as its asker waits.
    async fn to(&self, question: &CoreMessage, asked: ChannelsAsked, taken: Instant) {
        let (membership, members) = {
            let status = self.status.borrow();
            (status.membership, status.node.members)
        };
        // The answer of one that is no member would stand in the place of a member's.
        if membership != Membership::Member {
            return;
        }
        let wait = wait(&asked);
        // In its turn to walk.
        let Ok(pieces) = timeout_at(taken + wait, self.reader.pieces(asked)).await else { return };
        for part in parts((&self.node, members), pieces) {
            if taken.elapsed() > wait {
                return;
            }
            let bytes = serde_json::to_vec(&part).expect("plain values");
            // Who asks does without it, and says so: what is left of it would be of no use.
            if self.nats.answer(question, bytes.into()).await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_that_is_too_long_is_cut_and_says_so() {
        let piece = |n: usize| {
            let key = format!("#c1:{n:x<200}");
            let piece = serde_json::json!({ "key": key, "connections": 1, "users": [] });
            serde_json::from_value::<ChannelPiece>(piece).unwrap()
        };
        let all = parts(("n1", 2), (0..200_000).map(piece).collect());
        let bytes: usize = all.iter().flat_map(|part| &part.pieces).map(ChannelPiece::bytes).sum();
        assert!(bytes <= ANSWER_BYTES_MAX && bytes > ANSWER_BYTES_MAX / 2, "{bytes}");
        let mut heard = CollectedAnswers::default();
        all.iter().for_each(|part| heard.take(&serde_json::to_vec(part).unwrap()));
        assert!(heard.found.at_least && heard.whole == 1);
        let of_eight = parts(("n1", 8), (0..200_000).map(piece).collect());
        let pieces = |all: &[Part]| all.iter().map(|part| part.pieces.len()).sum::<usize>();
        assert!(pieces(&of_eight) <= pieces(&all) / 4 && of_eight[0].is_cut);
    }

    #[test]
    fn answer_of_any_length_comes_in_messages_that_nats_takes_and_is_whole_with_the_last_one() {
        let users: Vec<String> = (0..200).map(|n| format!("{n:\"<512}")).collect();
        let pieces: Vec<ChannelPiece> = (0..10)
            .map(|n| {
                let piece = serde_json::json!({ "key": format!("#c1:presence-{n}"),
                                                "connections": 2, "users": users });
                serde_json::from_value(piece).unwrap()
            })
            .collect();
        let all = parts(("n1", 1), pieces);
        assert!(all.len() > 2, "{}", all.len());
        let mut heard = CollectedAnswers::default();
        for (at, part) in all.iter().enumerate() {
            let bytes = serde_json::to_vec(part).unwrap();
            assert!(bytes.len() < 1 << 20, "{}", bytes.len());
            heard.take(&bytes);
            assert_eq!(heard.whole, usize::from(at + 1 == all.len()));
        }
        heard.take(b"{}");
        let nothing = parts(("n2", 1), Vec::new());
        assert_eq!(nothing.len(), 1, "it has answered");
        heard.take(&serde_json::to_vec(&nothing[0]).unwrap());
        assert_eq!((heard.whole, heard.found.channels.len()), (2, 10));
        assert_eq!(heard.found.users("#c1:presence-9").count(), 200);
        assert_eq!(heard.found.connections("#c1:presence-0"), 2);
    }
}
